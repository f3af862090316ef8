//! Canonical JSON: one text per value, so that equal values are equal bytes.
//!
//! The form is compact, keys are in byte order at every level, numbers and strings have exactly
//! one spelling each (see [`number`](signed) and [`string`]). Text is written once, when a row is
//! extracted, and from then on compared, hashed, stored and sent as it is; nothing encodes it a
//! second time.
//!
//! | Need | Use |
//! | --- | --- |
//! | write a tree of any kind, with replacements on the way | [`Slot`], from [`CanonicalJson::build`] or an [`AttributesBuffer`](crate::AttributesBuffer) |
//! | write a `serde_json::Value` | [`CanonicalJson::from`] or [`Slot::value`] |
//! | canonicalise foreign text | [`CanonicalJson::parse`] |
//! | read one attribute without parsing the rest | [`CanonicalRef::get`] |
//! | length or digest without keeping the text | any [`Out`], e.g. [`Length`] |

mod number;
mod out;
mod scan;
pub(crate) mod text;
mod writer;

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

pub use number::{NotFinite, float, number, signed, unsigned};
pub use out::{Length, Out};
pub use scan::{Items, Members, View};
pub use text::string;
pub use writer::{ArrayWriter, ObjectWriter, Slot};

/// Owned canonical JSON text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CanonicalJson(Box<str>);

impl CanonicalJson {
    /// The text that `write` puts into one slot.
    pub fn build(write: impl FnOnce(Slot<'_, String>)) -> Self {
        let mut text = String::new();
        write(Slot::new(&mut text));
        CanonicalJson(text.into_boxed_str())
    }

    /// The text that `write` puts together from canonical pieces.
    pub(crate) fn trusted(write: impl FnOnce(&mut String)) -> Self {
        let mut text = String::new();
        write(&mut text);
        CanonicalJson(text.into_boxed_str())
    }

    /// Canonicalises any JSON text.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<Value>(json).map(|value| CanonicalJson::from(&value))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The text, to read from.
    pub fn borrowed(&self) -> CanonicalRef<'_> {
        CanonicalRef(&self.0)
    }
}

impl From<&Value> for CanonicalJson {
    fn from(value: &Value) -> Self {
        CanonicalJson::build(|slot| slot.value(value))
    }
}

impl fmt::Debug for CanonicalJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Borrowed canonical JSON text: the value of an attribute, or a value inside it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CanonicalRef<'a>(&'a str);

impl<'a> CanonicalRef<'a> {
    /// The text `null`.
    pub const NULL: CanonicalRef<'static> = CanonicalRef("null");

    /// Text that is known to be canonical: a piece of canonical text, or text kept from one.
    pub(crate) fn trusted(text: &'a str) -> Self {
        CanonicalRef(text)
    }

    /// The text.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// The text as bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// Whether the value is `null`.
    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// An owned copy.
    pub fn to_owned(self) -> CanonicalJson {
        CanonicalJson(self.0.into())
    }

    /// The value as a tree, for the few callers that need one.
    ///
    /// Nesting beyond what the JSON parser accepts is refused by every decoder that feeds this
    /// crate; a tree that was built deeper by hand comes back as an error.
    pub fn to_value(self) -> Result<Value, serde_json::Error> {
        serde_json::from_str(self.0)
    }
}

impl fmt::Debug for CanonicalRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for CanonicalRef<'_> {
    /// Serialises the value (not the text), for formats other than JSON.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.view() {
            View::Null => serializer.serialize_unit(),
            View::Bool(flag) => serializer.serialize_bool(flag),
            View::Text(text) => serializer.serialize_str(&text),
            View::Number(_) => self
                .to_value()
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
            View::List(items) => serializer.collect_seq(items),
            View::Object(members) => serializer.collect_map(members),
        }
    }
}
