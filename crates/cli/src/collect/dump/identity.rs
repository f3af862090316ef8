//! What an object of a dump is, found in one walk through its text without building anything.
//!
//! The same walk looks for keys that stand twice in one map: JSON leaves open which of them counts, and programs differ. Nothing that
//! comes from an API server has any.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// What an object is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Identity<'a> {
    pub(super) api_version: Cow<'a, str>,
    pub(super) kind: Cow<'a, str>,
    pub(super) namespace: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    /// A key that some map of the object has twice; the last one counts.
    pub(super) twice: Option<String>,
    /// A field that is no text although it should be.
    pub(super) odd: Option<&'static str>,
}

impl<'a> Identity<'a> {
    /// Reads what identifies an object. An error means that the text is no JSON object.
    pub(super) fn read(json: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut identity = Self::default();
        let mut parser = serde_json::Deserializer::from_slice(json);
        Walk(&mut identity, Level::Object).deserialize(&mut parser)?;
        parser.end()?;
        Ok(identity)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    Metadata,
    Below,
}

struct Walk<'i, 'a>(&'i mut Identity<'a>, Level);

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.1 == Level::Object {
            deserializer.deserialize_map(self)
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
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
        while items
            .next_element_seed(Walk(&mut *self.0, Level::Below))?
            .is_some()
        {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Walk(identity, level) = self;
        let mut keys = Keys::default();
        while let Some(Key(key)) = members.next_key()? {
            let text = match (level, &*key) {
                (Level::Object, "apiVersion") => Some((&mut identity.api_version, "apiVersion")),
                (Level::Object, "kind") => Some((&mut identity.kind, "kind")),
                (Level::Metadata, "name") => Some((&mut identity.name, "metadata.name")),
                (Level::Metadata, "namespace") => {
                    Some((&mut identity.namespace, "metadata.namespace"))
                }
                _ => None,
            };
            match text {
                Some((place, path)) => match members.next_value()? {
                    Scalar::Text(text) => *place = text,
                    Scalar::Nothing => {}
                    Scalar::Other => identity.odd = Some(path),
                },
                None => {
                    let level = match (level, &*key) {
                        (Level::Object, "metadata") => Level::Metadata,
                        _ => Level::Below,
                    };
                    members.next_value_seed(Walk(&mut *identity, level))?;
                }
            }
            if let Some(twice) = keys.again(key) {
                identity.twice.get_or_insert(twice);
            }
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A text, nothing, or something that should be a text.
enum Scalar<'a> {
    Text(Cow<'a, str>),
    Nothing,
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Scalar<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Scalar::Nothing)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Scalar::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Scalar::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Scalar::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Scalar::Other)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// The keys of one map. Most maps are small.
#[derive(Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    const FEW: usize = 16;

    /// The key, if it was there before.
    fn again(&mut self, key: Cow<'a, str>) -> Option<String> {
        if self.few.contains(&key) {
            return Some(key.into_owned());
        }
        if self.few.len() < Self::FEW {
            self.few.push(key);
            return None;
        }
        self.many.replace(key).map(Cow::into_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_keys_that_are_there_twice_are_found() {
        let many: Vec<String> = (0..40).map(|n| format!("\"k{n}\":1")).collect();
        let many = format!("{{{},\"k39\":2}}", many.join(","));
        let table = [
            (r#"{"a":1,"b":{"a":2},"c":[{"a":1},{"a":2}]}"#, None),
            (r#"{"a":1,"a":2}"#, Some("a")),
            (
                r#"{"x":[null,true,1.5,-1,"t",{"b":{"c":1,"c":2}}]}"#,
                Some("c"),
            ),
            (r#"{"\u0061":1,"a":2}"#, Some("a")),
            (many.as_str(), Some("k39")),
        ];
        for (json, expected) in table {
            let identity = Identity::read(json.as_bytes()).unwrap();
            assert_eq!(identity.twice.as_deref(), expected, "{json}");
        }
        for json in ["{", "[]", "1", "{} x"] {
            assert!(Identity::read(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn e13_odd_fields_do_not_hide_an_object() {
        let json = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":null,"annotations":{"x":null},"labels":7}}"#;
        let identity = Identity::read(json).unwrap();
        assert_eq!((&*identity.kind, &*identity.name), ("Pod", "a"));
        assert_eq!(identity.odd, None);
        let identity = Identity::read(br#"{"kind":"Pod","metadata":{"name":[1]}}"#).unwrap();
        assert_eq!(identity.odd, Some("metadata.name"));
        let identity = Identity::read(br#"{"kind":"Pod","metadata":null}"#).unwrap();
        assert_eq!(&*identity.name, "");
    }
}
