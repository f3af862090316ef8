//! Writing a JSON tree piece by piece, well-formed by construction.
//!
//! A [`Slot`] is a place for exactly one value. Filling it consumes it; a slot that is dropped
//! unfilled becomes `null`, and an open array or object closes itself when dropped. So whatever a
//! caller does (return early, fail half-way), the text is valid JSON, and a caller can walk a
//! tree of its own kind, deciding at each member whether to write, replace or leave it out,
//! without building a `Value` first.

use serde_json::Value;

use super::number::{self, NotFinite};
use super::out::Out;
use super::{CanonicalRef, text};

/// A place for exactly one JSON value.
#[must_use = "a slot that is not filled becomes null"]
#[derive(Debug)]
pub struct Slot<'w, O: Out>(Option<&'w mut O>);

impl<'w, O: Out> Slot<'w, O> {
    /// A slot at the current end of `out`.
    pub fn new(out: &'w mut O) -> Self {
        Slot(Some(out))
    }

    fn fill(mut self, write: impl FnOnce(&mut O)) {
        if let Some(out) = self.0.take() {
            write(out);
        }
    }

    /// Fills the slot with `null`.
    pub fn null(self) {
        drop(self);
    }

    /// Fills the slot with `true` or `false`.
    pub fn bool(self, value: bool) {
        self.fill(|out| out.put(if value { "true" } else { "false" }));
    }

    /// Fills the slot with a signed integer.
    pub fn signed(self, value: i64) {
        self.fill(|out| number::signed(out, value));
    }

    /// Fills the slot with an unsigned integer.
    pub fn unsigned(self, value: u64) {
        self.fill(|out| number::unsigned(out, value));
    }

    /// Fills the slot with a float; a value without JSON form leaves `null` and is reported.
    pub fn float(self, value: f64) -> Result<(), NotFinite> {
        if !value.is_finite() {
            return Err(NotFinite);
        }
        let mut written = Ok(());
        self.fill(|out| written = number::float(out, value));
        written
    }

    /// Fills the slot with a string.
    pub fn string(self, value: &str) {
        self.fill(|out| text::string(out, value));
    }

    /// Fills the slot with a whole tree.
    pub fn value(self, value: &Value) {
        self.fill(|out| tree(out, value));
    }

    /// Fills the slot with text that is canonical already.
    pub fn canonical(self, json: CanonicalRef<'_>) {
        self.fill(|out| out.put(json.as_str()));
    }

    /// Opens an array in the slot.
    pub fn array(mut self) -> ArrayWriter<'w, O> {
        ArrayWriter(Sequence::open(self.0.take(), "[", "]"))
    }

    /// Opens an object in the slot. Its keys must come in ascending byte order.
    pub fn object<'k>(mut self) -> ObjectWriter<'w, 'k, O> {
        ObjectWriter {
            members: Sequence::open(self.0.take(), "{", "}"),
            last: None,
        }
    }
}

impl<O: Out> Drop for Slot<'_, O> {
    #[inline]
    fn drop(&mut self) {
        if let Some(out) = self.0.take() {
            out.put("null");
        }
    }
}

/// Brackets and commas, common to arrays and objects.
#[derive(Debug)]
struct Sequence<'w, O: Out> {
    out: Option<&'w mut O>,
    close: &'static str,
    first: bool,
}

impl<'w, O: Out> Sequence<'w, O> {
    fn open(out: Option<&'w mut O>, open: &str, close: &'static str) -> Self {
        let mut sequence = Sequence {
            out,
            close,
            first: true,
        };
        if let Some(out) = &mut sequence.out {
            out.put(open);
        }
        sequence
    }

    fn next(&mut self) -> Option<&mut O> {
        let out = self.out.as_deref_mut()?;
        if !std::mem::take(&mut self.first) {
            out.put(",");
        }
        Some(out)
    }
}

impl<O: Out> Drop for Sequence<'_, O> {
    #[inline]
    fn drop(&mut self) {
        if let Some(out) = self.out.take() {
            out.put(self.close);
        }
    }
}

/// An open array; dropping it closes it.
#[derive(Debug)]
pub struct ArrayWriter<'w, O: Out>(Sequence<'w, O>);

impl<O: Out> ArrayWriter<'_, O> {
    /// The slot of the next item.
    pub fn item(&mut self) -> Slot<'_, O> {
        Slot(self.0.next())
    }

    /// Closes the array.
    pub fn end(self) {}
}

/// An open object; dropping it closes it.
#[derive(Debug)]
pub struct ObjectWriter<'w, 'k, O: Out> {
    members: Sequence<'w, O>,
    last: Option<&'k str>,
}

impl<'k, O: Out> ObjectWriter<'_, 'k, O> {
    /// The slot of the member `key`.
    ///
    /// # Panics
    /// When `key` is not greater than the key before it: the text would not be canonical and two
    /// equal objects would compare as different for ever.
    pub fn member(&mut self, key: &'k str) -> Slot<'_, O> {
        assert!(
            self.last.is_none_or(|last| last < key),
            "object keys must be unique and ascending"
        );
        self.last = Some(key);
        let mut slot = Slot(self.members.next());
        if let Some(out) = &mut slot.0 {
            text::string(*out, key);
            out.put(":");
        }
        slot
    }

    /// Closes the object.
    pub fn end(self) {}
}

/// Writes a whole tree, sorting the keys of each object if its map did not.
fn tree<O: Out>(out: &mut O, value: &Value) {
    match value {
        Value::Null => out.put("null"),
        Value::Bool(flag) => out.put(if *flag { "true" } else { "false" }),
        Value::Number(value) => number::number(out, value),
        Value::String(value) => text::string(out, value),
        Value::Array(items) => {
            let mut separator = "[";
            for item in items {
                out.put(separator);
                tree(out, item);
                separator = ",";
            }
            out.put(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(map) => object(out, map.iter()),
    }
}

/// Writes members in key order, whatever order they come in.
///
/// Whether the map of serde_json is ordered depends on features that any crate of the build may
/// turn on, so the order is looked at, never assumed.
fn object<'v, O: Out>(
    out: &mut O,
    entries: impl ExactSizeIterator<Item = (&'v String, &'v Value)> + Clone,
) {
    if entries.clone().is_sorted_by_key(|(key, _)| key) {
        members(out, entries);
    } else {
        let mut sorted: Vec<_> = entries.collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        members(out, sorted.into_iter());
    }
}

fn members<'v, O: Out>(
    out: &mut O,
    entries: impl ExactSizeIterator<Item = (&'v String, &'v Value)>,
) {
    let empty = entries.len() == 0;
    let mut separator = "{";
    for (key, value) in entries {
        out.put(separator);
        text::string(out, key);
        out.put(":");
        tree(out, value);
        separator = ",";
    }
    out.put(if empty { "{}" } else { "}" });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(entries: &[(String, Value)]) -> String {
        let mut text = String::new();
        object(&mut text, entries.iter().map(|(key, value)| (key, value)));
        text
    }

    #[test]
    fn members_are_sorted_by_bytes_even_if_the_map_is_not() {
        let entries = ["b", "", "é", "aa", "B", "a"].map(|key| (key.to_owned(), json!(key)));
        assert_eq!(
            written(&entries),
            r#"{"":"","B":"B","a":"a","aa":"aa","b":"b","é":"é"}"#
        );
    }

    proptest! {
        #[test]
        fn insertion_order_does_not_show(
            entries in prop::collection::btree_map("[a-c\"]{0,3}", 0..9_u8, 0..8),
            seed in any::<prop::sample::Index>(),
        ) {
            let entries: BTreeMap<String, Value> =
                entries.into_iter().map(|(key, value)| (key, json!(value))).collect();
            let sorted: Vec<_> = entries.into_iter().collect();
            let mut shuffled = sorted.clone();
            if !shuffled.is_empty() {
                let at = seed.index(shuffled.len());
                shuffled.rotate_left(at);
                shuffled[at..].reverse();
            }
            prop_assert_eq!(written(&shuffled), written(&sorted));
        }
    }
}
