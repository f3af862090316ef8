//! YAML and JSON read into values, with the place of every field.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

/// A line and column of a file, counted from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl Place {
    fn of(location: Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

/// Where the fields of one object are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Where the object begins.
    pub(crate) start: Place,
    fields: BTreeMap<String, Place>,
}

impl Places {
    /// The place of a field such as `spec.attributes[2].path`, or of the nearest thing around it
    /// that is written down: a field that is missing has no place of its own.
    pub(crate) fn find(&self, path: &str) -> Place {
        let mut path = path;
        while !path.is_empty() {
            if let Some(place) = self.fields.get(path) {
                return *place;
            }
            let parent = path.rfind(['.', '[']).unwrap_or(0);
            path = &path[..parent];
        }
        self.start
    }
}

/// One node of a document. Keys have places of their own: a field that is an object begins on the
/// line below its name, and the name is what people look for.
#[derive(Debug)]
pub(super) enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can express")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Bool(flag)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Scalar(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Scalar(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Node, E> {
        Number::from_f64(number)
            .map(|number| Node::Scalar(Value::Number(number)))
            .ok_or_else(|| E::custom("a number that JSON cannot express"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Scalar(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Node, E> {
        Ok(Node::Scalar(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map: Vec<(Spanned<String>, Spanned<Node>)> = Vec::new();
        while let Some(entry) = entries.next_entry::<Spanned<String>, Spanned<Node>>()? {
            if map.iter().any(|(key, _)| key.value == entry.0.value) {
                return Err(A::Error::custom(format!(
                    "the key {:?} is written twice",
                    entry.0.value
                )));
            }
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}

/// A value and the places of its fields.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub(crate) value: Value,
    pub(crate) places: Places,
}

impl Located {
    pub(super) fn new(node: Spanned<Node>) -> Self {
        let mut places = Places {
            start: Place::of(node.referenced),
            fields: BTreeMap::new(),
        };
        let value = settle(node.value, &mut String::new(), &mut places.fields);
        Self { value, places }
    }

    /// The element at `index` of the list `items`, as an object of its own.
    pub(super) fn item(&self, index: usize) -> Option<Self> {
        let prefix = format!("items[{index}]");
        let value = self.value.get("items")?.get(index)?.clone();
        let within = |path: &str| {
            path.strip_prefix(&prefix)
                .and_then(|rest| {
                    rest.strip_prefix('.')
                        .or_else(|| rest.starts_with('[').then_some(rest))
                })
                .map(str::to_owned)
        };
        let fields = self.places.fields.range(prefix.clone()..);
        let fields = fields
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter_map(|(path, place)| Some((within(path)?, *place)))
            .collect();
        let start = self.places.find(&prefix);
        Some(Self {
            value,
            places: Places { start, fields },
        })
    }
}

/// Turns a node into a value and notes the places of everything in it. Entries of maps are noted
/// in both spellings that messages use: `labels.app` and `labels[app]`.
fn settle(node: Node, path: &mut String, places: &mut BTreeMap<String, Place>) -> Value {
    let length = path.len();
    match node {
        Node::Scalar(value) => value,
        Node::List(items) => {
            let items = items.into_iter().enumerate().map(|(index, item)| {
                path.push_str(&format!("[{index}]"));
                places.insert(path.clone(), Place::of(item.referenced));
                let value = settle(item.value, path, places);
                path.truncate(length);
                value
            });
            Value::Array(items.collect())
        }
        Node::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let place = Place::of(if key.referenced.line() > 0 {
                    key.referenced
                } else {
                    value.referenced
                });
                if length > 0 {
                    places.insert(format!("{path}[{}]", key.value), place);
                    path.push('.');
                }
                path.push_str(&key.value);
                places.insert(path.clone(), place);
                let value = settle(value.value, path, places);
                map.insert(key.value, value);
                path.truncate(length);
            }
            Value::Object(map)
        }
    }
}
