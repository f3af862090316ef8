//! The bytes of a file, a piece at a time.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use flate2::write::GzEncoder;
use kollect_api::sink::common::{Compression, Format};
use kollect_inventory::{Document, Row, Snapshot};
use sha2::{Digest, Sha256};

use super::csv::Table;
use super::path::RepoPath;
use super::yaml;

/// Bytes per piece; a row is never cut, so a piece may be a little larger.
const PIECE: usize = 64 * 1024;

/// A file to be written.
#[derive(Debug, Clone)]
pub struct File {
    /// Where.
    pub path: RepoPath,
    /// What.
    pub body: Body,
}

/// What a file holds. Documents are encoded while they are read, so a million rows are never in
/// memory as text.
#[derive(Debug, Clone)]
pub struct Body(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Bytes(Vec<u8>),
    Document(Document, Encoding),
    #[cfg_attr(not(feature = "object-store"), allow(dead_code))]
    Made(Arc<dyn Making>),
}

/// Bytes that a backend makes in a way of its own, such as columns.
pub trait Making: fmt::Debug + Send + Sync {
    /// The bytes in pieces.
    fn pieces(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send>;

    /// What the bytes say, apart from when they were made.
    fn identity(&self, digest: &mut Sha256);
}

/// How a document becomes bytes.
#[derive(Debug, Clone)]
pub(super) struct Encoding {
    pub(super) lines: Lines,
    pub(super) compression: Compression,
}

/// What stands around and in front of rows.
#[derive(Debug, Clone)]
pub(super) enum Lines {
    Envelope,
    Yaml,
    Ndjson,
    Csv(Arc<Table>),
}

impl Encoding {
    /// Everything that decides the bytes of a document but its rows.
    fn name(&self) -> String {
        let compression = self.compression.as_str();
        match &self.lines {
            Lines::Envelope => format!("envelope {compression} "),
            Lines::Yaml => format!("yaml {compression} "),
            Lines::Ndjson => format!("ndjson {compression} "),
            Lines::Csv(table) => format!(
                "csv {compression} {:?} {:?} {:?} ",
                table.columns, table.cluster, table.inventory
            ),
        }
    }
}

impl Lines {
    fn head(&self, out: &mut String, rows: &Snapshot) {
        match self {
            Lines::Csv(table) => table.header(out),
            Lines::Yaml if rows.is_empty() => out.push_str("[]\n"),
            _ => {}
        }
    }

    fn row(&self, out: &mut String, row: &Row) {
        match self {
            Lines::Csv(table) => table.row(out, row),
            Lines::Yaml => yaml::row_entry(out, row),
            Lines::Ndjson | Lines::Envelope => {
                row.write_json(out);
                out.push('\n');
            }
        }
    }
}

impl Body {
    pub(super) fn of_bytes(bytes: Vec<u8>) -> Self {
        Body(Kind::Bytes(bytes))
    }

    pub(super) fn of_document(document: Document, encoding: Encoding) -> Self {
        Body(Kind::Document(document, encoding))
    }

    /// A body that somebody else makes.
    #[cfg(feature = "object-store")]
    pub(crate) fn made(making: impl Making + 'static) -> Self {
        Body(Kind::Made(Arc::new(making)))
    }

    /// Tells whether two bodies say the same: everything that decides the bytes but the time of the
    /// delivery, as hexadecimal digits.
    pub fn identity(&self) -> String {
        let mut digest = Sha256::new();
        match &self.0 {
            Kind::Bytes(bytes) => digest.update(bytes),
            Kind::Made(making) => making.identity(&mut digest),
            Kind::Document(document, encoding) => {
                let pass = document.pass();
                let part = document.part().map(|part| (part.index(), part.total()));
                let (generation, cluster) = (pass.generation, &pass.cluster);
                digest.update(format!("document 1 {generation} {cluster:?} {part:?} "));
                digest.update(encoding.name());
                digest.update(document.checksum().as_bytes());
            }
        }
        hex(&digest.finalize())
    }

    /// The bytes in pieces of moderate size.
    pub fn pieces(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        match &self.0 {
            Kind::Bytes(bytes) => Box::new(std::iter::once(bytes.clone())),
            Kind::Made(making) => making.pieces(),
            Kind::Document(document, encoding) => {
                let plain: Box<dyn Iterator<Item = Vec<u8>> + Send> = match &encoding.lines {
                    Lines::Envelope => Box::new(document.chunks(PIECE)),
                    lines => Box::new(Pieces {
                        rows: document.rows().clone(),
                        lines: lines.clone(),
                        next: Some(0),
                    }),
                };
                match encoding.compression {
                    Compression::Gzip => Box::new(Compressed::new(plain, gzip())),
                    Compression::Zstd => Box::new(Compressed::new(plain, zstd())),
                    Compression::None | Compression::Snappy => plain,
                }
            }
        }
    }

    /// Writes all bytes.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.0 {
            Kind::Bytes(bytes) => out.write_all(bytes),
            Kind::Document(..) | Kind::Made(_) => {
                self.pieces().try_for_each(|piece| out.write_all(&piece))
            }
        }
    }

    /// All bytes at once; for small files and tests.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.0 {
            Kind::Bytes(bytes) => bytes,
            Kind::Document(..) | Kind::Made(_) => self.pieces().flatten().collect(),
        }
    }
}

/// Rows one after the other.
struct Pieces {
    rows: Snapshot,
    lines: Lines,
    /// The next row; nothing when all are written.
    next: Option<usize>,
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let start = self.next?;
        let mut out = String::with_capacity(PIECE + PIECE / 8);
        if start == 0 {
            self.lines.head(&mut out, &self.rows);
        }
        let rows = &self.rows.rows()[start..];
        let mut written = 0;
        for row in rows {
            self.lines.row(&mut out, row);
            written += 1;
            if out.len() >= PIECE {
                break;
            }
        }
        self.next = (written < rows.len()).then_some(start + written);
        Some(out.into_bytes())
    }
}

/// An encoder that compresses into memory.
trait Compress: Write + Send {
    fn take(&mut self) -> Vec<u8>;
    fn finish(self: Box<Self>) -> io::Result<Vec<u8>>;
}

impl Compress for GzEncoder<Vec<u8>> {
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.get_mut())
    }

    fn finish(self: Box<Self>) -> io::Result<Vec<u8>> {
        GzEncoder::finish(*self)
    }
}

impl Compress for zstd::Encoder<'static, Vec<u8>> {
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.get_mut())
    }

    fn finish(self: Box<Self>) -> io::Result<Vec<u8>> {
        zstd::Encoder::finish(*self)
    }
}

/// No time and no file name go into the head, so equal rows are equal bytes.
fn gzip() -> Box<dyn Compress> {
    Box::new(GzEncoder::new(Vec::new(), flate2::Compression::default()))
}

fn zstd() -> Box<dyn Compress> {
    let encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL);
    Box::new(encoder.expect("the level is one that the library names"))
}

/// Pieces of another iterator, compressed.
struct Compressed {
    plain: Box<dyn Iterator<Item = Vec<u8>> + Send>,
    encoder: Option<Box<dyn Compress>>,
}

impl Compressed {
    fn new(plain: Box<dyn Iterator<Item = Vec<u8>> + Send>, encoder: Box<dyn Compress>) -> Self {
        Compressed {
            plain,
            encoder: Some(encoder),
        }
    }
}

impl Iterator for Compressed {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut encoder = self.encoder.take()?;
        loop {
            match self.plain.next() {
                Some(piece) => {
                    encoder.write_all(&piece).expect("memory takes everything");
                    let out = encoder.take();
                    if !out.is_empty() {
                        self.encoder = Some(encoder);
                        return Some(out);
                    }
                }
                None => return Some(encoder.finish().expect("memory takes everything")),
            }
        }
    }
}

/// Two lower-case digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// What the format calls itself.
pub(super) fn content_type(format: Format) -> &'static str {
    match format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
        Format::Ndjson => "application/x-ndjson",
        Format::Csv => "text/csv",
        Format::Parquet => "application/vnd.apache.parquet",
    }
}
