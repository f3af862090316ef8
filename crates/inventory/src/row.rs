//! One row: what a target knows about one object.
//!
//! A row is immutable and cheap to hand around (a counted pointer). It is one allocation: a small
//! header and one text that holds the name, the uid if it is no UUID, and the values of the
//! attributes as canonical JSON. Values and their hash are made once; every comparison, digest and
//! export uses those bytes. What rows have in common is behind two shared pointers.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeStruct, Serializer};
use triomphe::HeaderSlice;

use crate::attributes::Attributes;
use crate::canonical::{Length, Out, text};
use crate::identity::Identity;
use crate::origin::Origin;
use crate::uid::Uid;

/// A hash of a row's attributes, for remembering what was seen or sent.
///
/// Equal attributes have equal hashes, in every process and version. The reverse holds for all
/// practical purposes among honest rows, but the function is not cryptographic: where a wrong
/// "unchanged" would matter, compare rows, which compares bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub u64);

impl ContentHash {
    /// The hash of some attributes.
    pub fn of(attributes: Attributes<'_>) -> Self {
        let hash = |text: &str| rapidhash::v3::rapidhash_v3(text.as_bytes());
        // An odd factor keeps every bit and makes the two texts not interchangeable.
        let names = hash(attributes.names()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ContentHash(hash(attributes.values()).wrapping_add(names))
    }
}

/// One row of an inventory.
#[derive(Clone)]
pub struct Row(triomphe::Arc<HeaderSlice<Header, str>>);

struct Header {
    origin: Arc<Origin>,
    names: Arc<Box<str>>,
    /// The packed uid, if `uid_end` is [`PACKED`].
    uid: [u8; 16],
    hash: ContentHash,
    name_end: u32,
    uid_end: u32,
}

/// Stands for "the uid is in the header, not in the text".
const PACKED: u32 = u32::MAX;

impl Row {
    /// The row of one object; `names` are those of the attributes, shared.
    pub(crate) fn new(
        origin: Arc<Origin>,
        names: Arc<Box<str>>,
        name: &str,
        uid: &str,
        attributes: Attributes<'_>,
    ) -> Self {
        debug_assert_eq!(**names, *attributes.names());
        let offset = |at: usize| {
            u32::try_from(at)
                .ok()
                .filter(|&at| at != PACKED)
                .expect("name and uid stay below 4 GiB")
        };
        let name_end = offset(name.len());
        let (packed, uid_text, uid_end) = match Uid::new(uid) {
            Uid::Packed(bytes) => (bytes, "", PACKED),
            Uid::Text(text) => ([0; 16], text, offset(name.len() + text.len())),
        };
        let header = Header {
            origin,
            names,
            uid: packed,
            hash: ContentHash::of(attributes),
            name_end,
            uid_end,
        };
        let text = [name, uid_text, attributes.values()].concat();
        Row(triomphe::Arc::from_header_and_str(header, &text))
    }

    /// Which row this is.
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            origin: self.origin(),
            name: self.name(),
            uid: self.uid(),
        }
    }

    /// Target, namespace and kind of object.
    pub fn origin(&self) -> &Origin {
        &self.0.header.origin
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.0.slice[..self.0.header.name_end as usize]
    }

    /// The object's uid.
    pub fn uid(&self) -> Uid<'_> {
        let header = &self.0.header;
        if header.uid_end == PACKED {
            Uid::Packed(header.uid)
        } else {
            Uid::Text(&self.0.slice[header.name_end as usize..header.uid_end as usize])
        }
    }

    /// The attributes: an object, or `null` if the row has none.
    pub fn attributes(&self) -> Attributes<'_> {
        let header = &self.0.header;
        let start = if header.uid_end == PACKED {
            header.name_end
        } else {
            header.uid_end
        };
        Attributes::of_texts(&header.names, &self.0.slice[start as usize..])
    }

    /// The hash of the attributes.
    pub fn content_hash(&self) -> ContentHash {
        self.0.header.hash
    }

    /// Whether both are the very same row in memory, which makes them equal.
    pub fn is_same(&self, other: &Row) -> bool {
        triomphe::Arc::ptr_eq(&self.0, &other.0)
    }

    /// Writes the row as one JSON object with its keys in their fixed order.
    pub fn write_json(&self, out: &mut impl Out) {
        #[cfg(test)]
        encodes::count();
        self.write_identity(out);
        self.attributes().write_json(out);
        out.put("}");
    }

    /// The length of the row as JSON.
    pub fn json_len(&self) -> usize {
        #[cfg(test)]
        encodes::count();
        let identity = Length::of(|length| self.write_identity(length));
        identity + self.attributes().json_len() + "}".len()
    }

    /// Everything before the attributes.
    fn write_identity(&self, out: &mut impl Out) {
        let origin = self.origin();
        out.put("{\"targetNamespace\":");
        text::string(out, origin.target_namespace());
        out.put(",\"targetName\":");
        text::string(out, origin.target_name());
        out.put(",\"namespace\":");
        text::string(out, origin.namespace());
        out.put(",\"name\":");
        text::string(out, self.name());
        if !origin.group().is_empty() {
            out.put(",\"group\":");
            text::string(out, origin.group());
        }
        out.put(",\"version\":");
        text::string(out, origin.version());
        out.put(",\"kind\":");
        text::string(out, origin.kind());
        out.put(",\"uid\":");
        text::string(out, &self.uid().text());
        out.put(",\"attributes\":");
    }

    /// The order of two rows by the bytes of their JSON text, without producing it.
    pub fn compare_json(&self, other: &Row) -> Ordering {
        let (a, b) = (self.origin(), other.origin());
        let in_front = || {
            text::compare(a.target_namespace(), b.target_namespace())
                .then_with(|| text::compare(a.target_name(), b.target_name()))
                .then_with(|| text::compare(a.namespace(), b.namespace()))
        };
        let kind = || {
            // An empty group is left out, so "group" stands against "version".
            let group = match (a.group().is_empty(), b.group().is_empty()) {
                (false, true) => Ordering::Less,
                (true, false) => Ordering::Greater,
                _ => text::compare(a.group(), b.group()),
            };
            group
                .then_with(|| text::compare(a.version(), b.version()))
                .then_with(|| text::compare(a.kind(), b.kind()))
        };
        let same_origin = std::ptr::eq(a, b);
        let front = if same_origin {
            Ordering::Equal
        } else {
            in_front()
        };
        front
            .then_with(|| text::compare(self.name(), other.name()))
            .then_with(|| if same_origin { Ordering::Equal } else { kind() })
            .then_with(|| text::compare(&self.uid().text(), &other.uid().text()))
            .then_with(|| self.attributes().compare_json(other.attributes()))
    }

    /// Bytes on the heap for this row: its one allocation (reference count, header, text), without
    /// the shared [`Origin`] and attribute names, without the 16 bytes of each handle, and without
    /// what the allocator adds on its own.
    pub fn heap_bytes(&self) -> usize {
        let used = size_of::<usize>() + size_of::<Header>() + self.0.slice.len();
        used.next_multiple_of(align_of::<Header>())
    }
}

impl PartialEq for Row {
    /// Same identity and same attributes, byte for byte.
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
            || (self.content_hash() == other.content_hash()
                && self.identity() == other.identity()
                && self.attributes() == other.attributes())
    }
}

impl Eq for Row {}

impl fmt::Debug for Row {
    /// Says which row it is; the attributes stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = self.content_hash().0;
        write!(f, "Row({}, content {hash:016x})", self.identity())
    }
}

impl Serialize for Row {
    /// The same keys in the same order as [`Row::write_json`], for formats other than JSON.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let origin = self.origin();
        let grouped = usize::from(!origin.group().is_empty());
        let mut row = serializer.serialize_struct("Row", 8 + grouped)?;
        row.serialize_field("targetNamespace", origin.target_namespace())?;
        row.serialize_field("targetName", origin.target_name())?;
        row.serialize_field("namespace", origin.namespace())?;
        row.serialize_field("name", self.name())?;
        if grouped == 1 {
            row.serialize_field("group", origin.group())?;
        } else {
            row.skip_field("group")?;
        }
        row.serialize_field("version", origin.version())?;
        row.serialize_field("kind", origin.kind())?;
        row.serialize_field("uid", &*self.uid().text())?;
        row.serialize_field("attributes", &self.attributes())?;
        row.end()
    }
}

/// Counts how often rows are encoded, so that tests can prove that nobody does it twice.
#[cfg(test)]
pub(crate) mod encodes {
    use std::cell::Cell;

    thread_local!(static COUNT: Cell<usize> = const { Cell::new(0) });

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The number of encodes that `work` causes on this thread.
    pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = COUNT.get();
        let result = work();
        (result, COUNT.get() - before)
    }
}
