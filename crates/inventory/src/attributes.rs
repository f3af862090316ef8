//! The attributes of a row, with their names kept once for all rows that have the same ones.
//!
//! A profile gives its rows the same few attributes, so a stored object consists to a quarter of
//! names that a thousand other rows repeat. They are split off: the names, as the pieces of JSON
//! text that stand before the values, are shared; a row keeps its values, in name order. Writing
//! the object is interleaving the two, and no byte of either is encoded again.
//!
//! Pieces are separated by line breaks, which canonical text never contains: inside a string a
//! line break is an escape.
//!
//! ```text
//! shared by all rows      {"images":⏎,"replicas":
//! one row                 ["nginx:1.27"]⏎3
//! its attributes          {"images":["nginx:1.27"],"replicas":3}
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::{fmt, iter};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::canonical::{self, CanonicalJson, CanonicalRef, Out, Slot};

const SEPARATOR: char = '\n';

/// The pieces of a text of names or values; a text without pieces has one empty piece.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    memchr::memchr_iter(SEPARATOR as u8, text.as_bytes())
        .chain(iter::once(text.len()))
        .map(move |end| {
            let piece = &text[start..end];
            start = end + 1;
            piece
        })
}

/// The quoted name in the text that stands before a value: a brace or comma, the name, a colon.
fn quoted_name(before: &str) -> CanonicalRef<'_> {
    CanonicalRef::trusted(&before[1..before.len() - 1])
}

/// Borrowed attributes: an object, or `null` for a row that has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attributes<'a> {
    names: &'a str,
    values: &'a str,
}

impl<'a> Attributes<'a> {
    /// No attributes at all, as opposed to an empty object.
    pub const NULL: Attributes<'static> = Attributes {
        names: "",
        values: "null",
    };

    /// What [`AttributesBuffer`] made, taken apart and put together again.
    pub(crate) fn of_texts(names: &'a str, values: &'a str) -> Self {
        Attributes { names, values }
    }

    /// The names as shared text.
    pub(crate) fn names(self) -> &'a str {
        self.names
    }

    /// The values as one text.
    pub(crate) fn values(self) -> &'a str {
        self.values
    }

    /// Whether there are none, not even an empty object.
    pub fn is_null(self) -> bool {
        self == Attributes::NULL
    }

    /// Pairs of "text before the value" and value.
    fn pieces(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = iter::zip(pieces(self.names), pieces(self.values));
        pairs.take_while(|(before, _)| !before.is_empty())
    }

    /// Name and value of each attribute, in name order.
    pub fn iter(self) -> impl Iterator<Item = (Cow<'a, str>, CanonicalRef<'a>)> {
        self.pieces().map(|(before, value)| {
            let name = quoted_name(before).text().unwrap_or_default();
            (name, CanonicalRef::trusted(value))
        })
    }

    /// The value of one attribute, found without decoding any other.
    pub fn get(self, name: &str) -> Option<CanonicalRef<'a>> {
        let names = pieces(self.names).take_while(|before| !before.is_empty());
        let mut candidates = names.enumerate();
        let (index, _) = candidates.find(|(_, before)| quoted_name(before).is_text(name))?;
        pieces(self.values).nth(index).map(CanonicalRef::trusted)
    }

    /// Writes the attributes as JSON.
    pub fn write_json(self, out: &mut impl Out) {
        if self.names.is_empty() {
            out.put(if self.is_null() { "null" } else { "{}" });
            return;
        }
        for (before, value) in self.pieces() {
            out.put(before);
            out.put(value);
        }
        out.put("}");
    }

    /// The length of the attributes as JSON.
    pub fn json_len(self) -> usize {
        if self.names.is_empty() {
            return if self.is_null() { 4 } else { 2 };
        }
        let separators = memchr::memchr_iter(SEPARATOR as u8, self.names.as_bytes()).count();
        self.names.len() + self.values.len() - 2 * separators + 1
    }

    /// The attributes as one JSON text.
    pub fn to_json(self) -> CanonicalJson {
        CanonicalJson::trusted(|text| self.write_json(text))
    }

    /// The order of two by the bytes of their JSON text.
    pub(crate) fn compare_json(self, other: Self) -> Ordering {
        if self.names != other.names {
            return self.to_json().as_bytes().cmp(other.to_json().as_bytes());
        }
        let mut values = iter::zip(pieces(self.values), pieces(other.values)).peekable();
        while let Some((a, b)) = values.next() {
            if a != b {
                // One number may be the beginning of another; then what follows it decides.
                let next = if values.peek().is_some() { b"," } else { b"}" };
                return a.bytes().chain(*next).cmp(b.bytes().chain(*next));
            }
        }
        Ordering::Equal
    }
}

impl fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_json().as_str())
    }
}

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_null() {
            serializer.serialize_unit()
        } else {
            serializer.collect_map(self.iter())
        }
    }
}

/// A buffer that is filled with the attributes of one object after the other, so that extraction
/// settles at no allocation for it.
#[derive(Debug, Clone)]
pub struct AttributesBuffer {
    names: String,
    values: String,
}

impl Default for AttributesBuffer {
    fn default() -> Self {
        AttributesBuffer {
            names: String::new(),
            values: Attributes::NULL.values.to_owned(),
        }
    }
}

impl AttributesBuffer {
    /// A buffer without attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets what was written and starts an object.
    pub fn start<'k>(&mut self) -> AttributesWriter<'_, 'k> {
        self.names.clear();
        self.values.clear();
        AttributesWriter {
            buffer: self,
            last: None,
        }
    }

    /// Forgets what was written and takes a whole object.
    pub fn set(&mut self, object: &Map<String, Value>) {
        let mut members: Vec<_> = object.iter().collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        let mut writer = self.start();
        for (name, value) in members {
            writer.attribute(name).value(value);
        }
    }

    /// Forgets what was written and is `null` again.
    pub fn set_null(&mut self) {
        *self = AttributesBuffer::default();
    }

    /// What was written last.
    pub fn view(&self) -> Attributes<'_> {
        Attributes {
            names: &self.names,
            values: &self.values,
        }
    }
}

/// Writes one attribute after the other.
#[derive(Debug)]
pub struct AttributesWriter<'b, 'k> {
    buffer: &'b mut AttributesBuffer,
    last: Option<&'k str>,
}

impl<'k> AttributesWriter<'_, 'k> {
    /// The slot of the attribute `name`.
    ///
    /// # Panics
    /// When `name` is not greater than the name before it: two equal objects would compare as
    /// different for ever.
    pub fn attribute(&mut self, name: &'k str) -> Slot<'_, String> {
        assert!(
            self.last.is_none_or(|last| last < name),
            "attribute names must be unique and ascending"
        );
        let AttributesBuffer { names, values } = &mut *self.buffer;
        if self.last.replace(name).is_some() {
            names.push(SEPARATOR);
            values.push(SEPARATOR);
            names.put(",");
        } else {
            names.put("{");
        }
        canonical::string(names, name);
        names.put(":");
        Slot::new(values)
    }
}
