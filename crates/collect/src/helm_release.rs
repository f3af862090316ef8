//! Getting the release document out of the Secret that Helm keeps it in.
//!
//! Helm stores a release as JSON, usually compressed, in base64, as one member of a Secret whose
//! members are base64 again. The parts of the document that are never exported (rendered
//! manifests, hooks, chart sources and defaults) are also its bulk; they are skipped in the bytes,
//! so nothing downstream can show them.

use std::fmt;
use std::io::Read;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::bufread::GzDecoder;
use kollect_expr::JsonType;
use kollect_expr::helm::{Field, ParseError};
use serde::Deserialize as _;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use thiserror::Error;

/// The largest document that is read, counted after decompression.
pub const MAX_DOCUMENT_BYTES: usize = 8 << 20;

const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Why an object holds no readable release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// There is no `data`.
    #[error("no data: the object holds no Helm release; select Secrets with the label owner=helm")]
    NoData,
    /// `data` is not a map.
    #[error("read secret data: data is {0}, not an object")]
    DataNotAMap(JsonType),
    /// `data` has no member `release`.
    #[error("release not found: data has no member \"release\"; select Secrets of Helm releases")]
    NotFound,
    /// `data.release` is not text.
    #[error("unsupported type: data.release is {0}, not text")]
    NotText(JsonType),
    /// `data.release` is not base64.
    #[error("base64 decode data.release: it is not standard base64")]
    Base64,
    /// The payload begins like gzip, but its header is not.
    #[error("gzip decode release: the header is damaged")]
    GzipHeader,
    /// The compressed payload is damaged or cut off.
    #[error("read gzip release: the compressed payload is damaged or cut off")]
    Gzip,
    /// The document is larger than [`MAX_DOCUMENT_BYTES`].
    #[error("read gzip release: the document is larger than {} MiB", MAX_DOCUMENT_BYTES >> 20)]
    TooLarge,
    /// The payload is not JSON.
    #[error("json decode release: not JSON at line {line}, column {column}")]
    Json {
        /// Line of the document.
        line: usize,
        /// Column in that line.
        column: usize,
    },
    /// The payload is JSON, but neither an object nor `null`.
    #[error("json decode release: the document is not an object")]
    NotAnObject,
}

/// The release document of an object, without the parts that are never exported.
///
/// Kind, type and labels of the object are not looked at: selecting the right ones is the target's
/// job.
pub fn document(object: &Value) -> Result<Value, ReleaseError> {
    let data = match object.get("data") {
        None | Some(Value::Null) => return Err(ReleaseError::NoData),
        Some(Value::Object(data)) => data,
        Some(other) => return Err(ReleaseError::DataNotAMap(JsonType::of(other))),
    };
    match data.get("release") {
        None => Err(ReleaseError::NotFound),
        Some(Value::String(payload)) => decode(payload),
        Some(other) => Err(ReleaseError::NotText(JsonType::of(other))),
    }
}

/// Decodes the text of `data.release`.
pub fn decode(payload: &str) -> Result<Value, ReleaseError> {
    let outer = BASE64_STANDARD
        .decode(payload)
        .map_err(|_| ReleaseError::Base64)?;
    // Releases written by hand or by old versions lack Helm's own layer.
    let stored = BASE64_STANDARD.decode(&outer).unwrap_or(outer);
    if stored.len() > GZIP.len() && stored.starts_with(&GZIP) {
        parse(&gunzip(&stored)?)
    } else if stored.len() > MAX_DOCUMENT_BYTES {
        Err(ReleaseError::TooLarge)
    } else {
        parse(&stored)
    }
}

fn gunzip(stored: &[u8]) -> Result<Vec<u8>, ReleaseError> {
    let mut decoder = GzDecoder::new(stored);
    let mut document = Vec::new();
    let most = MAX_DOCUMENT_BYTES as u64 + 1;
    let read = (&mut decoder).take(most).read_to_end(&mut document);
    match read {
        Ok(_) if document.len() > MAX_DOCUMENT_BYTES => Err(ReleaseError::TooLarge),
        Ok(_) => Ok(document),
        Err(_) if decoder.header().is_none() => Err(ReleaseError::GzipHeader),
        Err(_) => Err(ReleaseError::Gzip),
    }
}

fn parse(document: &[u8]) -> Result<Value, ReleaseError> {
    let mut json = serde_json::Deserializer::from_slice(document);
    let parsed = Exportable { parent: "" }
        .deserialize(&mut json)
        .and_then(|value| json.end().map(|()| value));
    parsed.map_err(|error| {
        if error.is_data() {
            ReleaseError::NotAnObject
        } else {
            ReleaseError::Json {
                line: error.line(),
                column: error.column(),
            }
        }
    })
}

/// Reads an object of the document without the members that are never exported.
struct Exportable {
    /// The field that leads to this object, with a dot behind it.
    parent: &'static str,
}

impl Exportable {
    fn denies(&self, name: &str) -> bool {
        let field = Field::parse(&format!("{}{name}", self.parent));
        matches!(field, Err(ParseError::Denied))
    }

    /// A chart that is no object has nothing to hide; a document that is none is no document.
    fn other<E: Error>(&self, value: impl Into<Value>) -> Result<Value, E> {
        if self.parent.is_empty() {
            Err(E::custom("not an object"))
        } else {
            Ok(value.into())
        }
    }
}

impl<'de> DeserializeSeed<'de> for Exportable {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Exportable {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        self.other(flag)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        self.other(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.other(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        self.other(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.other(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Value, A::Error> {
        self.other(Value::deserialize(SeqAccessDeserializer::new(items))?)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if self.denies(&name) {
                members.next_value::<IgnoredAny>()?;
            } else if self.parent.is_empty() && name == "chart" {
                let chart = members.next_value_seed(Exportable { parent: "chart." })?;
                kept.insert(name, chart);
            } else {
                let value = members.next_value()?;
                kept.insert(name, value);
            }
        }
        Ok(Value::Object(kept))
    }
}
