//! What an API server would say of an object by its CustomResourceDefinition alone.
//!
//! The definitions are ours, so only what they use is understood: types, fields, texts, numbers,
//! lists, defaults and rules in CEL. A test reads all definitions and fails on a word that is not
//! known here.

mod check;
mod model;

use std::collections::BTreeMap;

use kollect_api::crd;
use serde_json::Value;

pub(crate) use check::Violation;
use model::Schema;

/// The schemas of all kinds.
pub(crate) struct Schemas(BTreeMap<String, Schema>);

impl Schemas {
    /// Reads the definitions that this program was built with.
    pub(crate) fn new() -> Self {
        let schemas = crd::all().into_iter().map(|definition| {
            let kind = definition.spec.names.kind.clone();
            let namespaced = definition.spec.scope == "Namespaced";
            let definition = serde_json::to_value(&definition).unwrap_or_default();
            let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema");
            let schema = Schema::of_kind(schema.unwrap_or(&Value::Null), namespaced);
            (kind, schema)
        });
        Self(schemas.collect())
    }

    /// Everything that stands against an object of one of our kinds.
    pub(crate) fn check(&self, kind: &str, object: &Value) -> Vec<Violation> {
        let Some(schema) = self.0.get(kind) else {
            return Vec::new();
        };
        check::check(schema, object)
    }

    /// Whether objects of a kind live in namespaces; nothing if the kind is not ours.
    pub(crate) fn is_namespaced(&self, kind: &str) -> Option<bool> {
        self.0.get(kind).map(|schema| schema.namespaced)
    }

    /// The names of our kinds.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
