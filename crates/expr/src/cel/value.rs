//! The values an evaluation works with. They borrow from the object and from the program wherever
//! they can; what is built is shared, so that copying a value never copies a list or a map.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use super::kind::Kind;
use super::library::opaque::Opaque;
use super::time::Timestamp;

/// One value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    /// Text of the object or of the program.
    Str(&'a str),
    /// Text that was built. Shared, because a variable may be read many times; a `String`,
    /// because it can then be taken out for the output without a copy.
    Text(Arc<String>),
    Bytes(Arc<[u8]>),
    /// An array or an object (never a scalar) of the collected object.
    Json(&'a Json),
    List(Arc<Vec<Val<'a>>>),
    Map(Arc<MapVal<'a>>),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    Type(Kind),
    Optional(Option<Arc<Val<'a>>>),
    Opaque(Arc<Opaque>),
}

impl<'a> Val<'a> {
    /// The value at a place of the object.
    #[inline]
    pub(super) fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Val::Null,
            Json::Bool(flag) => Val::Bool(*flag),
            // Integers beyond 64-bit signed are floats, as everywhere in the Kubernetes API.
            Json::Number(number) => match number.as_i64() {
                Some(int) => Val::Int(int),
                None => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Val::Str(text),
            Json::Array(_) | Json::Object(_) => Val::Json(json),
        }
    }

    pub(super) fn text(text: String) -> Self {
        Val::Text(Arc::new(text))
    }

    pub(super) fn list(items: Vec<Val<'a>>) -> Self {
        Val::List(Arc::new(items))
    }

    pub(super) fn some(value: Val<'a>) -> Self {
        Val::Optional(Some(Arc::new(value)))
    }

    pub(super) const NONE: Val<'static> = Val::Optional(None);

    pub(super) fn kind(&self) -> Kind {
        match self {
            Val::Null => Kind::Null,
            Val::Bool(_) => Kind::Bool,
            Val::Int(_) => Kind::Int,
            Val::Uint(_) => Kind::Uint,
            Val::Double(_) => Kind::Double,
            Val::Str(_) | Val::Text(_) => Kind::String,
            Val::Bytes(_) => Kind::Bytes,
            Val::Json(Json::Array(_)) | Val::List(_) => Kind::List,
            Val::Json(_) | Val::Map(_) => Kind::Map,
            Val::Timestamp(_) => Kind::Timestamp,
            Val::Duration(_) => Kind::Duration,
            Val::Type(_) => Kind::Type,
            Val::Optional(_) => Kind::Optional,
            Val::Opaque(opaque) => opaque.kind(),
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Val::Str(text) => Some(text),
            Val::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The part of a text, borrowed from the object if the text is.
    pub(super) fn part(&self, range: std::ops::Range<usize>) -> Val<'a> {
        match self {
            Val::Str(text) => Val::Str(&text[range]),
            Val::Text(text) => Val::text(text[range].to_owned()),
            other => other.clone(),
        }
    }

    pub(super) fn as_list(&self) -> Option<ListRef<'_, 'a>> {
        match self {
            Val::Json(Json::Array(items)) => Some(ListRef::Json(items)),
            Val::List(items) => Some(ListRef::Built(items)),
            _ => None,
        }
    }

    pub(super) fn as_map(&self) -> Option<MapRef<'_, 'a>> {
        match self {
            Val::Json(Json::Object(members)) => Some(MapRef::Json(members)),
            Val::Map(entries) => Some(MapRef::Built(entries)),
            _ => None,
        }
    }

    /// The same value without copying text: what a constant of the program yields.
    #[inline]
    pub(super) fn borrowed(&'a self) -> Val<'a> {
        match self {
            Val::Text(text) => Val::Str(text),
            other => other.clone(),
        }
    }

    /// The value without any borrow, or nothing if it holds a part of the object.
    pub(super) fn into_static(self) -> Option<Val<'static>> {
        Some(match self {
            Val::Null => Val::Null,
            Val::Bool(flag) => Val::Bool(flag),
            Val::Int(number) => Val::Int(number),
            Val::Uint(number) => Val::Uint(number),
            Val::Double(number) => Val::Double(number),
            Val::Str(text) => Val::text(text.to_owned()),
            Val::Text(text) => Val::Text(text),
            Val::Bytes(bytes) => Val::Bytes(bytes),
            Val::Json(_) => return None,
            Val::List(items) => Val::list(
                items
                    .iter()
                    .map(|item| item.clone().into_static())
                    .collect::<Option<_>>()?,
            ),
            Val::Map(map) => Val::Map(Arc::new(MapVal(
                map.0
                    .iter()
                    .map(|(key, value)| {
                        Some((key.clone().into_static()?, value.clone().into_static()?))
                    })
                    .collect::<Option<_>>()?,
            ))),
            Val::Timestamp(time) => Val::Timestamp(time),
            Val::Duration(nanos) => Val::Duration(nanos),
            Val::Type(kind) => Val::Type(kind),
            Val::Optional(None) => Val::Optional(None),
            Val::Optional(Some(value)) => Val::some((*value).clone().into_static()?),
            Val::Opaque(opaque) => Val::Opaque(opaque),
        })
    }
}

/// A list, of the object or built.
#[derive(Clone, Copy)]
pub(super) enum ListRef<'v, 'a> {
    Json(&'a [Json]),
    Built(&'v [Val<'a>]),
}

impl<'v, 'a> ListRef<'v, 'a> {
    pub(super) fn len(self) -> usize {
        match self {
            ListRef::Json(items) => items.len(),
            ListRef::Built(items) => items.len(),
        }
    }

    pub(super) fn get(self, at: usize) -> Option<Val<'a>> {
        match self {
            ListRef::Json(items) => items.get(at).map(Val::from_json),
            ListRef::Built(items) => items.get(at).cloned(),
        }
    }

    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = Val<'a>> + use<'v, 'a> {
        (0..self.len()).filter_map(move |at| self.get(at))
    }
}

/// A map, of the object or built.
#[derive(Clone, Copy)]
pub(super) enum MapRef<'v, 'a> {
    Json(&'a JsonMap<String, Json>),
    Built(&'v MapVal<'a>),
}

impl<'a> MapRef<'_, 'a> {
    pub(super) fn len(self) -> usize {
        match self {
            MapRef::Json(members) => members.len(),
            MapRef::Built(map) => map.0.len(),
        }
    }

    pub(super) fn get(self, key: &Val<'_>) -> Option<Val<'a>> {
        match self {
            MapRef::Json(members) => members.get(key.as_str()?).map(Val::from_json),
            MapRef::Built(map) => map.get(key).cloned(),
        }
    }

    /// The entries in ascending order of their keys.
    pub(super) fn entries(self) -> Vec<(Val<'a>, Val<'a>)> {
        match self {
            MapRef::Json(members) => sorted(members)
                .into_iter()
                .map(|(key, value)| (Val::Str(key), Val::from_json(value)))
                .collect(),
            MapRef::Built(map) => map.0.clone(),
        }
    }
}

/// The members of a JSON object in ascending order. `serde_json` keeps them so unless some crate
/// of the build asks it for insertion order; results must not depend on that.
pub(super) fn sorted(members: &JsonMap<String, Json>) -> Vec<(&String, &Json)> {
    let mut entries: Vec<_> = members.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// A map that was built: entries in ascending order of their keys, which are unique.
#[derive(Debug, Clone)]
pub(super) struct MapVal<'a>(Vec<(Val<'a>, Val<'a>)>);

impl<'a> MapVal<'a> {
    pub(super) fn entries(&self) -> &[(Val<'a>, Val<'a>)] {
        &self.0
    }

    pub(super) fn get(&self, key: &Val<'_>) -> Option<&Val<'a>> {
        // Doubles cannot be keys of a literal but find integer keys of the same value.
        let at = self
            .0
            .binary_search_by(|(have, _)| key_order(have, key))
            .ok()?;
        Some(&self.0[at].1)
    }

    /// The map of these entries; nothing if a key is there twice.
    pub(super) fn new(mut entries: Vec<(Val<'a>, Val<'a>)>) -> Option<Self> {
        entries.sort_by(|(left, _), (right, _)| key_order(left, right));
        let repeated = entries
            .windows(2)
            .any(|pair| key_order(&pair[0].0, &pair[1].0) == Ordering::Equal);
        (!repeated).then_some(MapVal(entries))
    }
}

/// Keys in ascending order: booleans, then numbers by value whatever their type, then text by
/// bytes.
fn key_order(left: &Val<'_>, right: &Val<'_>) -> Ordering {
    fn rank(key: &Val<'_>) -> u8 {
        match key {
            Val::Bool(_) => 0,
            Val::Int(_) | Val::Uint(_) | Val::Double(_) => 1,
            Val::Str(_) | Val::Text(_) => 2,
            _ => 3,
        }
    }
    match (left, right) {
        (Val::Bool(left), Val::Bool(right)) => left.cmp(right),
        (
            Val::Int(_) | Val::Uint(_) | Val::Double(_),
            Val::Int(_) | Val::Uint(_) | Val::Double(_),
        ) => super::ops::number_order(left, right).unwrap_or(Ordering::Less),
        _ => match (left.as_str(), right.as_str()) {
            (Some(left), Some(right)) => left.cmp(right),
            _ => rank(left).cmp(&rank(right)),
        },
    }
}
