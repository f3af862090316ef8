//! Reading a value from JSON bytes along a plan.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::plan::{Part, Plan};

/// Reads the value at a place.
#[derive(Clone, Copy)]
pub(super) struct Place<'p>(pub(super) &'p Plan);

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0 {
            Plan::Whole => Value::deserialize(deserializer),
            Plan::Part(part) => deserializer.deserialize_any(Partial(part)),
        }
    }
}

struct Partial<'p>(&'p Part);

impl<'de> Visitor<'de> for Partial<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        match &self.0.rest {
            Some(plan) => {
                while let Some(element) = elements.next_element_seed(Place(plan))? {
                    list.push(element);
                }
            }
            None => {
                while elements.next_element::<IgnoredAny>()?.is_some() {
                    list.push(Value::Null);
                }
            }
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let part = self.0;
        let mut map = Map::new();
        while let Some(key) = members.next_key_seed(Key(part))? {
            match (key, &part.rest) {
                (Kept::Named(name, plan), _) => {
                    map.insert(name.to_owned(), members.next_value_seed(Place(plan))?);
                }
                (Kept::Other(name), Some(plan)) => {
                    map.insert(name, members.next_value_seed(Place(plan))?);
                }
                (Kept::Other(name), None) => {
                    members.next_value::<IgnoredAny>()?;
                    map.insert(name, Value::Null);
                }
                (Kept::Nothing, _) => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// Reads a key and tells what is kept of its value; a key that is skipped is not allocated.
struct Key<'p>(&'p Part);

enum Kept<'p> {
    Named(&'p str, &'p Plan),
    Other(String),
    Nothing,
}

impl<'p, 'de> DeserializeSeed<'de> for Key<'p> {
    type Value = Kept<'p>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kept<'p>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Key<'p> {
    type Value = Kept<'p>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    #[inline]
    fn visit_str<E>(self, key: &str) -> Result<Kept<'p>, E> {
        Ok(match self.0.member(key) {
            Some((name, plan)) => Kept::Named(name, plan),
            None if self.0.keys || self.0.rest.is_some() => Kept::Other(key.to_owned()),
            None => Kept::Nothing,
        })
    }
}
