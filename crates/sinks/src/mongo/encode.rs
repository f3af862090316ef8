//! Rows as documents.
//!
//! The item's JSON text becomes BSON as it is read: no tree of values in between, and an end when it
//! grows beyond what a server stores. Numbers are kept exactly: whole ones as the smallest of the
//! two integer types that holds them, or as a decimal where neither does; others are doubles in
//! JSON already.

use std::{fmt, io::Write as _, str::FromStr};

use jiff::Timestamp;
use kollect_inventory::Row;
use mongodb::bson::{DateTime, Decimal128, RawDocumentBuf, cstr};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::names::Partition;
use crate::database::{self, resource_namespace};

/// The largest document that a server stores.
pub(super) const LARGEST: usize = 16 << 20;
/// What a server adds to a new document: a field with its id.
const ID: usize = 17;

/// How rows are encoded. Changed when the same row would become another document.
const ENCODING: &[u8] = b"kollect mongodb 1";

/// Types of BSON.
const DOUBLE: u8 = 0x01;
const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const BOOLEAN: u8 = 0x08;
const NULL: u8 = 0x0a;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;
const DECIMAL: u8 = 0x13;

/// A row that no server stores: it is too large, or nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unstorable;

/// A row as a document, without its id.
pub(super) struct Encoded {
    pub(super) document: RawDocumentBuf,
    /// Bytes of the row as JSON.
    pub(super) bytes: u64,
}

/// The document of a row.
pub(super) fn document(
    row: &Row,
    partition: &Partition<'_>,
    at: Timestamp,
) -> Result<Encoded, Unstorable> {
    let mut json = Vec::new();
    row.write_json(&mut json);
    let payload = RawDocumentBuf::from_bytes(payload(&json)?).map_err(|_| Unstorable)?;
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("inventory_namespace"), partition.namespace);
    document.append(cstr!("inventory_name"), partition.name);
    document.append(cstr!("cluster"), partition.cluster);
    document.append(cstr!("target_name"), row.origin().target_name());
    document.append(cstr!("source_uid"), &*row.uid().text());
    let namespace = resource_namespace(row, partition.namespace);
    document.append(cstr!("resource_namespace"), namespace);
    document.append(cstr!("payload"), payload);
    let at = DateTime::from_millis(at.as_millisecond());
    document.append(cstr!("exported_at"), at);
    document.append(cstr!("content_hash"), content_hash(row));
    if document.as_bytes().len() + ID > LARGEST {
        return Err(Unstorable);
    }
    Ok(Encoded {
        document,
        bytes: json.len() as u64,
    })
}

/// What tells one content of a row from another, beside its key.
pub(super) fn content_hash(row: &Row) -> i64 {
    database::content_hash(ENCODING, row)
}

/// A JSON object as BSON.
fn payload(json: &[u8]) -> Result<Vec<u8>, Unstorable> {
    // A type stands in front of every value; the outermost has none.
    let mut out = vec![0];
    let element = Element {
        kind: 0,
        out: &mut out,
    };
    let mut reader = serde_json::Deserializer::from_slice(json);
    element.deserialize(&mut reader).map_err(|_| Unstorable)?;
    let kind = out.remove(0);
    if kind == DOCUMENT {
        Ok(out)
    } else {
        Err(Unstorable)
    }
}

/// A value on its way into a document.
struct Element<'b> {
    /// Where its type stands.
    kind: usize,
    out: &'b mut Vec<u8>,
}

impl Element<'_> {
    fn put<E: Error>(self, kind: u8, bytes: &[u8]) -> Result<(), E> {
        if self.out.len() + bytes.len() > LARGEST {
            return Err(E::custom("too large"));
        }
        self.out[self.kind] = kind;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Leaves room for a length, and fills it in when the content is known.
    fn nested<E: Error>(
        self,
        kind: u8,
        content: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.out[self.kind] = kind;
        let start = self.out.len();
        self.out.extend([0; 4]);
        content(self.out)?;
        self.out.push(0);
        let length = self.out.len() - start;
        let length = i32::try_from(length).map_err(|_| E::custom("too large"))?;
        self.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put(NULL, &[])
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(BOOLEAN, &[u8::from(value)])
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match i32::try_from(value) {
            Ok(small) => self.put(INT32, &small.to_le_bytes()),
            Err(_) => self.put(INT64, &value.to_le_bytes()),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => {
                let decimal = Decimal128::from_str(&value.to_string()).map_err(E::custom)?;
                self.put(DECIMAL, &decimal.bytes())
            }
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.put(DOUBLE, &value.to_le_bytes())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        let length = i32::try_from(value.len() + 1).map_err(|_| E::custom("too large"))?;
        if self.out.len() + value.len() > LARGEST {
            return Err(E::custom("too large"));
        }
        self.out[self.kind] = STRING;
        self.out.extend(length.to_le_bytes());
        self.out.extend_from_slice(value.as_bytes());
        self.out.push(0);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.nested(ARRAY, |out| {
            for place in 0_u32.. {
                let kind = out.len();
                out.push(0);
                write!(out, "{place}").map_err(A::Error::custom)?;
                out.push(0);
                let element = Element { kind, out };
                if items.next_element_seed(element)?.is_none() {
                    // There is none: its name goes again.
                    out.truncate(kind);
                    break;
                }
            }
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.nested(DOCUMENT, |out| {
            loop {
                let kind = out.len();
                if fields.next_key_seed(Name(out))?.is_none() {
                    return Ok(());
                }
                fields.next_value_seed(Element { kind, out })?;
            }
        })
    }
}

/// The name of a field, with room for its type in front.
struct Name<'b>(&'b mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<(), D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        let Name(out) = self;
        if out.len() + name.len() > LARGEST {
            return Err(E::custom("too large"));
        }
        out.push(0);
        if name.contains('\0') {
            // It would end the name.
            out.extend_from_slice(name.replace('\0', "\u{fffd}").as_bytes());
        } else {
            out.extend_from_slice(name.as_bytes());
        }
        out.push(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
