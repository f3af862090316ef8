//! Decoding only what is read.
//!
//! Decoding is the dearest part of a watch event, and most of an object is never looked at. A
//! [`Projection`] is made from the reads of everything that looks at the objects of one resource;
//! it decodes those places and skips the rest in the bytes, `managedFields` above all, without
//! allocating any of it. Expressions see no difference: an object decoded like this gives the same
//! rows and the same errors as the whole object.
//!
//! Beside the reads it was made from, a projection always keeps the identity of the object.

mod plan;
mod seed;

use kollect_api::meta;
use kollect_expr::{Extent, ReadSet, Step};
use kollect_watch::ObjectContent;
use serde::de::DeserializeSeed as _;
use serde_json::Value;

use self::plan::Plan;
use self::seed::Place;
use crate::decode::{DecodeError, DecodedObject, ObjectType};

/// What is kept of the metadata whatever else is read.
const IDENTITY: [&str; 4] = ["name", "namespace", "resourceVersion", "uid"];

/// The decoder for the objects of one resource.
#[derive(Debug)]
pub struct Projection {
    reads: ReadSet,
    plan: Plan,
    /// Members that are known without looking, as far as they are read.
    object_type: Vec<(&'static str, Value)>,
}

impl Projection {
    /// A decoder for objects of one type that are read like this.
    ///
    /// Labels are kept as far as the reads name them; only the one that opts objects in and out of
    /// collection is always kept.
    pub fn new<'r>(
        object_type: impl Into<ObjectType>,
        reads: impl IntoIterator<Item = &'r ReadSet>,
    ) -> Self {
        let mut all = identity();
        for set in reads {
            all.merge(set);
        }
        let (reads, plan) = match Plan::new(&all) {
            Some(plan) => (all, plan),
            None => (ReadSet::everything(), Plan::Whole),
        };
        let ObjectType { api_version, kind } = object_type.into();
        let object_type = [("apiVersion", api_version), ("kind", kind)];
        Projection {
            object_type: object_type
                .into_iter()
                .filter(|(name, _)| plan.keeps(name))
                .map(|(name, value)| (name, Value::String(value)))
                .collect(),
            reads,
            plan,
        }
    }

    /// What is decoded.
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// How much of each object has to be asked for. The type of the object is known anyway, so
    /// metadata alone is enough where nothing else is read.
    pub fn content(&self) -> ObjectContent {
        if self.plan.keeps_only(&["metadata", "apiVersion", "kind"]) {
            ObjectContent::Metadata
        } else {
            ObjectContent::Object
        }
    }

    /// Decodes one object.
    pub fn decode(&self, json: &[u8]) -> Result<DecodedObject, DecodeError> {
        let mut parser = serde_json::Deserializer::from_slice(json);
        let value = Place(&self.plan)
            .deserialize(&mut parser)
            .and_then(|value| parser.end().map(|()| value))
            .map_err(|error| DecodeError::from_json(&error))?;
        self.complete(value)
    }

    /// Sets the type of an object and checks that it has a name.
    fn complete(&self, mut value: Value) -> Result<DecodedObject, DecodeError> {
        let Value::Object(members) = &mut value else {
            return Err(DecodeError::NotAnObject);
        };
        for (name, text) in &self.object_type {
            members.insert((*name).to_owned(), text.clone());
        }
        DecodedObject::new(value)
    }
}

/// What a watch needs to read objects through a projection.
impl kollect_watch::Decode for Projection {
    type Object = DecodedObject;

    fn decode(
        &self,
        json: &[u8],
    ) -> Result<kollect_watch::Decoded<DecodedObject>, kollect_watch::DecodeError> {
        let object = Projection::decode(self, json)?;
        Ok(kollect_watch::Decoded {
            resource_version: object.resource_version().to_owned(),
            object,
        })
    }
}

/// The reads of the label that opts objects in and out, and of what identifies an object.
fn identity() -> ReadSet {
    let mut reads = ReadSet::nothing();
    let metadata = Step::Member("metadata");
    for name in IDENTITY {
        reads.insert([metadata, Step::Member(name)], Extent::Whole);
    }
    let labels = Step::Member("labels");
    reads.insert(
        [metadata, labels, Step::Member(meta::WATCH_LABEL)],
        Extent::Whole,
    );
    reads
}
