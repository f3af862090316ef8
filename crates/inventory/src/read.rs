//! Reading exported documents back.
//!
//! Accepted are documents of the current version, a bare array of rows as older releases wrote it,
//! and the several spellings of "nothing". Anything else is refused with the place of the fault,
//! never with the text found there: that text may be collected data.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::attributes::AttributesBuffer;
use crate::envelope::SCHEMA_VERSION;
use crate::fingerprint::Fingerprint;
use crate::intern::Interner;
use crate::origin::{OriginParts, TargetKind};
use crate::part::Part;
use crate::row::Row;
use crate::snapshot::Snapshot;

/// Why a document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The document has a version that this release does not know.
    #[error("unsupported schemaVersion {0:?}")]
    UnsupportedVersion(String),
    /// The document is not what an export looks like.
    #[error("decode export payload: {fault} at line {line} column {column}")]
    Malformed {
        /// What is wrong.
        fault: Fault,
        /// The line, from 1.
        line: usize,
        /// The column, from 1; 0 at the very beginning.
        column: usize,
    },
}

/// What is wrong with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The text is no JSON.
    Syntax,
    /// The text ends too early.
    Truncated,
    /// The JSON is neither an envelope nor an array of rows.
    Shape,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Syntax => "invalid JSON",
            Fault::Truncated => "unexpected end",
            Fault::Shape => "neither an export document nor an array of rows",
        })
    }
}

impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        ReadError::Malformed {
            fault: match error.classify() {
                Category::Eof => Fault::Truncated,
                Category::Data => Fault::Shape,
                Category::Syntax | Category::Io => Fault::Syntax,
            },
            line: error.line(),
            column: error.column(),
        }
    }
}

/// What a document says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The checksum of the rows, as written.
    pub checksum: Option<String>,
    /// The generation of the inventory; 0 if not written.
    pub generation: i64,
    /// Which part of a set the document is; nothing if it is complete by itself.
    pub part: Option<Part>,
    /// When the pass started.
    pub exported_at: Option<Timestamp>,
    /// The cluster's name; empty if not written.
    pub cluster: String,
    /// The value that all documents of one pass share, if written.
    pub export_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHeader {
    schema_version: Option<String>,
    checksum: Option<String>,
    generation: Option<i64>,
    part_index: Option<u64>,
    part_total: Option<u64>,
    exported_at: Option<String>,
    cluster: Option<String>,
    export_id: Option<String>,
}

impl RawHeader {
    /// The header, if its values make sense.
    fn checked(self) -> Option<Header> {
        let part = match (self.part_index, self.part_total) {
            (None, None) => None,
            (index, total) => Some(Part::new(index?, total?)?),
        };
        let exported_at = match self.exported_at {
            None => None,
            Some(text) => Some(text.parse().ok()?),
        };
        Some(Header {
            checksum: self.checksum,
            generation: self.generation.unwrap_or(0),
            part,
            exported_at,
            cluster: self.cluster.unwrap_or_default(),
            export_id: self.export_id,
        })
    }
}

/// A document that was read back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadDocument {
    /// What the document says about itself.
    pub header: Option<Header>,
    /// The rows, in the order they stand in.
    pub rows: Vec<Row>,
}

impl ReadDocument {
    /// Whether the rows are the ones the checksum was made of; a document without checksum says
    /// nothing and passes.
    pub fn is_intact(&self) -> bool {
        let stated = self
            .header
            .as_ref()
            .and_then(|header| header.checksum.as_ref());
        stated.is_none_or(|stated| {
            let found = Snapshot::new(self.rows.iter().cloned()).fingerprint();
            stated.parse::<Fingerprint>() == Ok(found)
        })
    }
}

/// Reads a document. Rows do not say what kind of target they belong to, so the caller does.
pub fn read(document: &[u8], owner: TargetKind) -> Result<ReadDocument, ReadError> {
    let mut input = serde_json::Deserializer::from_slice(document);
    let mut rows = Rows::of(owner);
    match document.trim_ascii_start().first() {
        None => Ok(ReadDocument::default()),
        Some(b'{') => {
            // The header first: rows of a version that is not ours may look like anything.
            let header: RawHeader = serde_json::from_slice(document)?;
            match header.schema_version.as_deref() {
                Some(SCHEMA_VERSION) => {}
                Some("") | None => return Err(shape(document)),
                Some(other) => return Err(ReadError::UnsupportedVersion(other.to_owned())),
            }
            let header = header.checked().ok_or_else(|| shape(document))?;
            Ok(ReadDocument {
                header: Some(header),
                rows: Envelope(&mut rows).deserialize(&mut input)?,
            })
        }
        Some(_) => {
            let rows = rows.deserialize(&mut input)?;
            input.end()?;
            Ok(ReadDocument { header: None, rows })
        }
    }
}

/// The fault of a document that is JSON but nothing we know; its place is the beginning.
fn shape(document: &[u8]) -> ReadError {
    let blank = document.len() - document.trim_ascii_start().len();
    let lines = document[..blank].iter().filter(|&&byte| byte == b'\n');
    ReadError::Malformed {
        fault: Fault::Shape,
        line: 1 + lines.count(),
        column: 0,
    }
}

/// Decodes rows one by one, so that no tree of the whole document ever exists.
struct Rows {
    owner: TargetKind,
    interner: Interner,
    attributes: AttributesBuffer,
}

impl Rows {
    fn of(owner: TargetKind) -> Self {
        Rows {
            owner,
            interner: Interner::new(),
            attributes: AttributesBuffer::new(),
        }
    }

    /// The row, unless its identity is longer than a row can hold.
    fn row(&mut self, raw: &RawRow) -> Option<Row> {
        let text = |field: &Option<String>| field.as_ref().map_or(0, String::len);
        let length = [
            text(&raw.target_namespace),
            text(&raw.target_name),
            text(&raw.namespace),
            text(&raw.name),
            text(&raw.group),
            text(&raw.version),
            text(&raw.kind),
            text(&raw.uid),
        ]
        .iter()
        .sum::<usize>();
        if length >= u32::MAX as usize {
            return None;
        }
        let origin = self.interner.origin(OriginParts {
            owner: self.owner,
            target_namespace: raw.target_namespace.as_deref().unwrap_or_default(),
            target_name: raw.target_name.as_deref().unwrap_or_default(),
            namespace: raw.namespace.as_deref().unwrap_or_default(),
            group: raw.group.as_deref().unwrap_or_default(),
            version: raw.version.as_deref().unwrap_or_default(),
            kind: raw.kind.as_deref().unwrap_or_default(),
        });
        match &raw.attributes {
            Some(object) => self.attributes.set(object),
            None => self.attributes.set_null(),
        }
        let name = raw.name.as_deref().unwrap_or_default();
        let uid = raw.uid.as_deref().unwrap_or_default();
        Some(
            self.interner
                .row(&origin, name, uid, self.attributes.view()),
        )
    }
}

/// A row as it may stand in a document: keys may be missing or null.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRow {
    target_namespace: Option<String>,
    target_name: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
    uid: Option<String>,
    attributes: Option<Map<String, Value>>,
}

impl<'de> DeserializeSeed<'de> for &mut Rows {
    type Value = Vec<Row>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Row>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Rows {
    type Value = Vec<Row>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rows")
    }

    fn visit_unit<E>(self) -> Result<Vec<Row>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Row>, A::Error> {
        let mut rows = Vec::new();
        while let Some(raw) = items.next_element::<RawRow>()? {
            let row = self.row(&raw);
            rows.push(row.ok_or_else(|| A::Error::custom("a row that is too large"))?);
        }
        Ok(rows)
    }
}

/// The rows of an envelope whose header has been read.
struct Envelope<'r>(&'r mut Rows);

impl<'de> DeserializeSeed<'de> for Envelope<'_> {
    type Value = Vec<Row>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Row>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Envelope<'_> {
    type Value = Vec<Row>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Vec<Row>, A::Error> {
        let mut rows = Vec::new();
        while let Some(key) = members.next_key::<Cow<'de, str>>()? {
            if key == "items" {
                rows = members.next_value_seed(&mut *self.0)?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(rows)
    }
}
