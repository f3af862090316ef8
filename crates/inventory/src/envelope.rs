//! The export document: an envelope around rows.
//!
//! One compact JSON object without trailing newline; its keys have a fixed order. The checksum
//! stands before the rows it covers, so it is known before the first byte is written (a snapshot
//! computes it once), and the rows are then encoded on the way out: a document of a million rows
//! is never in memory as text.

use std::sync::Arc;

use jiff::Timestamp;

use crate::canonical::{self, Length, Out};
use crate::fingerprint::Fingerprint;
use crate::part::Part;
use crate::row::Row;
use crate::snapshot::Snapshot;

/// The version of the document format that this crate writes and reads.
pub const SCHEMA_VERSION: &str = "kollect.dev/v1alpha1";

/// What one export pass says about itself; the same in every document of that pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// `metadata.generation` of the inventory; 0 is not written.
    pub generation: i64,
    /// When the pass started.
    pub exported_at: Timestamp,
    /// The cluster's name; empty is not written.
    pub cluster: String,
    /// One value per pass. Generation and part count stay the same when only content changes, so
    /// this is what tells a consumer that two parts do not belong together.
    pub export_id: Option<String>,
}

impl Pass {
    /// A pass with nothing but its time.
    pub fn at(exported_at: Timestamp) -> Self {
        Pass {
            generation: 0,
            exported_at,
            cluster: String::new(),
            export_id: None,
        }
    }

    /// Everything before the rows.
    fn write_head(
        &self,
        part: Option<Part>,
        checksum: Fingerprint,
        items: usize,
        out: &mut impl Out,
    ) {
        out.put("{\"schemaVersion\":");
        canonical::string(out, SCHEMA_VERSION);
        out.put(",\"checksum\":\"");
        out.put(checksum.hex().as_str());
        out.put("\"");
        if self.generation != 0 {
            out.put(",\"generation\":");
            canonical::signed(out, self.generation);
        }
        if let Some(part) = part {
            out.put(",\"partIndex\":");
            canonical::unsigned(out, part.index());
            out.put(",\"partTotal\":");
            canonical::unsigned(out, part.total());
        }
        out.put(",\"itemCount\":");
        canonical::unsigned(out, items as u64);
        out.put(",\"exportedAt\":\"");
        // Prints UTC with as many fraction digits as needed and a final Z.
        out.put(&self.exported_at.to_string());
        out.put("\"");
        if !self.cluster.is_empty() {
            out.put(",\"cluster\":");
            canonical::string(out, &self.cluster);
        }
        if let Some(id) = &self.export_id {
            out.put(",\"exportId\":");
            canonical::string(out, id);
        }
        out.put(",\"items\":");
    }

    /// The length of a document around `items` rows, without the array of rows itself.
    ///
    /// All checksums are equally long, so the length does not depend on the rows.
    pub(crate) fn frame_len(&self, part: Option<Part>, items: usize) -> u64 {
        let checksum = Fingerprint::of_parts([]);
        let head = Length::of(|out| self.write_head(part, checksum, items, out));
        head as u64 + 1
    }
}

/// One document, ready to be written any number of times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pass: Arc<Pass>,
    part: Option<Part>,
    rows: Snapshot,
}

impl Document {
    /// The document with all rows.
    pub fn whole(pass: Arc<Pass>, rows: Snapshot) -> Self {
        Document {
            pass,
            part: None,
            rows,
        }
    }

    /// The document with some of the rows.
    pub(crate) fn part_of(pass: Arc<Pass>, part: Part, rows: Snapshot) -> Self {
        Document {
            pass,
            part: Some(part),
            rows,
        }
    }

    /// The pass that made the document.
    pub fn pass(&self) -> &Pass {
        &self.pass
    }

    /// Which part of a set this is; nothing if it is complete by itself.
    pub fn part(&self) -> Option<Part> {
        self.part
    }

    /// The rows in canonical order.
    pub fn rows(&self) -> &Snapshot {
        &self.rows
    }

    /// The checksum of the rows.
    pub fn checksum(&self) -> Fingerprint {
        self.rows.fingerprint()
    }

    /// The length of the document in bytes.
    pub fn byte_len(&self) -> u64 {
        self.pass.frame_len(self.part, self.rows.len()) + self.rows.items_len()
    }

    fn write_head(&self, out: &mut impl Out) {
        let (checksum, items) = (self.checksum(), self.rows.len());
        self.pass.write_head(self.part, checksum, items, out);
    }

    /// Writes the whole document.
    pub fn write(&self, out: &mut impl Out) {
        self.write_head(out);
        write_rows(self.rows.rows(), 0, out, |_| false);
        out.put("}");
    }

    /// The document in pieces of `size` bytes or a little more (a row is never cut).
    ///
    /// The pieces share the rows and outlive this handle, so they can feed a request body.
    pub fn chunks(&self, size: usize) -> Chunks {
        Chunks {
            document: self.clone(),
            size: size.max(1),
            next: Some(0),
        }
    }
}

/// Writes rows from `start` on as a piece of a JSON array, until all are written or `full`.
/// Returns the next row, or nothing when the array is closed.
fn write_rows<O: Out>(
    rows: &[Row],
    start: usize,
    out: &mut O,
    full: impl Fn(&O) -> bool,
) -> Option<usize> {
    if start == 0 {
        out.put("[");
    }
    for (at, row) in rows.iter().enumerate().skip(start) {
        if full(out) {
            return Some(at);
        }
        if at > 0 {
            out.put(",");
        }
        row.write_json(out);
    }
    out.put("]");
    None
}

/// The pieces of a document, encoded one at a time.
#[derive(Debug, Clone)]
pub struct Chunks {
    document: Document,
    size: usize,
    /// The next row to write; nothing when the document is finished.
    next: Option<usize>,
}

impl Iterator for Chunks {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let start = self.next?;
        let mut chunk = Vec::with_capacity(self.size + self.size / 8);
        if start == 0 {
            self.document.write_head(&mut chunk);
        }
        let size = self.size;
        let rows = self.document.rows.rows();
        // At least one row per piece, whatever the size, so that the document ends.
        let begin = chunk.len();
        self.next = write_rows(rows, start, &mut chunk, |chunk| {
            chunk.len() >= size && chunk.len() > begin + 1
        });
        if self.next.is_none() {
            chunk.put("}");
        }
        Some(chunk)
    }
}
