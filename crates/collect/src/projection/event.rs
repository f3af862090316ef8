//! Events of a watch, read along a projection.

use std::fmt;

use kollect_expr::{Extent, ReadSet, Step};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::Projection;
use super::plan::Plan;
use super::seed::Place;
use crate::decode::{ApiStatus, DecodeError, WatchEvent};

/// Marks the bookmark after the last of the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What a bookmark is read for.
pub(super) fn bookmark_plan() -> Plan {
    let mut reads = ReadSet::nothing();
    let metadata = Step::Member("metadata");
    reads.insert([metadata, Step::Member("resourceVersion")], Extent::Whole);
    let annotation = [
        Step::Member("annotations"),
        Step::Member(INITIAL_EVENTS_END),
    ];
    reads.insert([metadata].into_iter().chain(annotation), Extent::Whole);
    Plan::new(&reads).unwrap_or(Plan::Whole)
}

pub(super) fn decode(projection: &Projection, json: &[u8]) -> Result<WatchEvent, DecodeError> {
    let mut parser = serde_json::Deserializer::from_slice(json);
    let (kind, object) = Event { projection }
        .deserialize(&mut parser)
        .and_then(|event| parser.end().map(|()| event))
        .map_err(|error| DecodeError::from_json(&error, DecodeError::NotAnEvent))?;
    match kind {
        Kind::Applied => projection.complete(object).map(WatchEvent::Applied),
        Kind::Deleted => projection.complete(object).map(WatchEvent::Deleted),
        Kind::Bookmark => {
            let metadata = &object["metadata"];
            Ok(WatchEvent::Bookmark {
                resource_version: text(&metadata["resourceVersion"]),
                initial_events_end: metadata["annotations"][INITIAL_EVENTS_END] == "true",
            })
        }
        Kind::Failed => Ok(WatchEvent::Failed(ApiStatus {
            code: object["code"]
                .as_u64()
                .and_then(|code| code.try_into().ok())
                .unwrap_or_default(),
            reason: text(&object["reason"]),
            message: text(&object["message"]),
        })),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[derive(Clone, Copy)]
enum Kind {
    Applied,
    Deleted,
    Bookmark,
    Failed,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "ADDED" | "MODIFIED" => Kind::Applied,
            "DELETED" => Kind::Deleted,
            "BOOKMARK" => Kind::Bookmark,
            "ERROR" => Kind::Failed,
            _ => return None,
        })
    }
}

struct Event<'p> {
    projection: &'p Projection,
}

impl Event<'_> {
    /// How the object of such an event is read.
    fn plan(&self, kind: Kind) -> &Plan {
        match kind {
            Kind::Applied | Kind::Deleted => &self.projection.plan,
            Kind::Bookmark => &self.projection.bookmark,
            Kind::Failed => &Plan::Whole,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Event<'_> {
    type Value = (Kind, Value);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Event<'_> {
    type Value = (Kind, Value);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a watch event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut kind = None;
        let mut object = None;
        while let Some(name) = members.next_key_seed(Name(["type", "object"]))? {
            match (name, kind) {
                (Some(0), _) => {
                    kind = members.next_value_seed(EventType)?;
                }
                // The server sends the type first. Where it does not, the object is read as a
                // whole and reduced afterwards.
                (Some(_), None) => object = Some((members.next_value()?, false)),
                (Some(_), Some(kind)) => {
                    let value = members.next_value_seed(Place(self.plan(kind)))?;
                    object = Some((value, true));
                }
                (None, _) => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        match (kind, object) {
            (Some(kind @ (Kind::Applied | Kind::Deleted)), Some((whole, false))) => {
                Ok((kind, self.projection.reads.project(&whole)))
            }
            (Some(kind), Some((object, _))) => Ok((kind, object)),
            _ => Err(A::Error::custom("not a watch event")),
        }
    }
}

/// Reads the type of an event.
struct EventType;

impl<'de> DeserializeSeed<'de> for EventType {
    type Value = Option<Kind>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for EventType {
    type Value = Option<Kind>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type of a watch event")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Kind::of(name)
            .map(Some)
            .ok_or_else(|| E::custom("unknown type of event"))
    }
}

/// Reads a key and tells which of these it is.
struct Name<const N: usize>([&'static str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Name<N> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for Name<N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}
