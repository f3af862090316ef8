//! Keys that an object has twice.
//!
//! JSON leaves open which of two members counts, and programs differ: what one shows another does
//! not see. Nothing that comes from an API server has any.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The first key that stands twice in one map of a JSON text, at any depth.
pub(super) fn first(json: &str) -> Option<String> {
    let mut found = None;
    let mut parser = serde_json::Deserializer::from_str(json);
    // What is no JSON is told elsewhere.
    let _ = Look(&mut found).deserialize(&mut parser);
    found
}

struct Look<'f>(&'f mut Option<String>);

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Look(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            members.next_value_seed(Look(&mut *self.0))?;
            if let Some(twice) = keys.replace(key) {
                self.0.get_or_insert(twice);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_keys_that_are_there_twice_are_found() {
        let table = [
            (r#"{"a":1,"b":{"a":2},"c":[{"a":1},{"a":2}]}"#, None),
            (r#"{"a":1,"a":2}"#, Some("a")),
            (
                r#"{"x":[null,true,1.5,-1,"t",{"b":{"c":1,"c":2}}]}"#,
                Some("c"),
            ),
            (r#"{"\u0061":1,"a":2}"#, Some("a")),
            ("{", None),
            ("[]", None),
        ];
        for (json, expected) in table {
            assert_eq!(first(json).as_deref(), expected, "{json}");
        }
    }
}
