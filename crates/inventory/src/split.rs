//! Cutting the rows of one pass into documents of bounded size.
//!
//! Only where somebody asked for a ceiling; nothing else here limits the size of a document.
//!
//! Rows are taken in the order of their own JSON text, which keeps a row in its part while rows
//! behind it come and go. The size of a growing part is a sum: the frame around the rows depends
//! on a few numbers only, and every row is measured once, however many parts and ceilings there
//! are.

use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

use crate::envelope::{Document, Pass};
use crate::fingerprint::Fingerprint;
use crate::part::Part;
use crate::row::Row;
use crate::snapshot::Snapshot;

/// A single row needs a larger document than the ceiling allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "single item export envelope exceeds maxExportBytes ({ceiling}): {} needs {needed} bytes; \
     raise maxExportBytes to at least that, or let the profile extract less",
    row.identity()
)]
pub struct RowTooLarge {
    /// The ceiling that was asked for.
    pub ceiling: NonZeroU64,
    /// What a document with this row alone needs.
    pub needed: u64,
    /// The row.
    pub row: Row,
}

/// Cuts one snapshot, for any number of ceilings.
#[derive(Debug)]
pub struct Splitter {
    rows: Snapshot,
    /// The rows in the order of their JSON text, each with its length; made when first needed.
    measured: OnceLock<Vec<(Row, u64)>>,
}

impl Splitter {
    /// A splitter of these rows.
    pub fn new(rows: Snapshot) -> Self {
        Splitter {
            rows,
            measured: OnceLock::new(),
        }
    }

    /// The documents of one pass, none larger than `ceiling`.
    ///
    /// Without a ceiling, without rows, or if everything fits, that is one document without part
    /// numbers, the same as an export that was never split.
    pub fn split(
        &self,
        pass: &Arc<Pass>,
        ceiling: Option<NonZeroU64>,
    ) -> Result<Vec<Document>, RowTooLarge> {
        let whole = Document::whole(Arc::clone(pass), self.rows.clone());
        match ceiling {
            Some(ceiling) if !self.rows.is_empty() && whole.byte_len() > ceiling.get() => {
                self.fill_parts(pass, ceiling)
            }
            _ => Ok(vec![whole]),
        }
    }

    fn fill_parts(
        &self,
        pass: &Arc<Pass>,
        ceiling: NonZeroU64,
    ) -> Result<Vec<Document>, RowTooLarge> {
        let measured = self.measured.get_or_init(|| measure(&self.rows));
        let frame = Frame::new(pass, measured.len());
        let mut parts: Vec<Vec<Row>> = Vec::new();
        let mut rows: Vec<Row> = Vec::new();
        let mut rows_len = 0;
        for (row, row_len) in measured {
            if !rows.is_empty() && frame.len(rows.len() + 1, rows_len + row_len) > ceiling.get() {
                parts.push(std::mem::take(&mut rows));
                rows_len = 0;
            }
            if rows.is_empty() {
                let needed = frame.len(1, *row_len);
                if needed > ceiling.get() {
                    return Err(RowTooLarge {
                        ceiling,
                        needed,
                        row: row.clone(),
                    });
                }
            }
            rows.push(row.clone());
            rows_len += row_len;
        }
        parts.push(rows);
        let total = parts.len() as u64;
        Ok(parts
            .into_iter()
            .zip(1..)
            .filter_map(|(rows, index)| {
                let part = Part::new(index, total)?;
                Some(Document::part_of(
                    Arc::clone(pass),
                    part,
                    Snapshot::new(rows),
                ))
            })
            .collect())
    }
}

/// The parts digest of some documents.
pub fn parts_digest(documents: &[Document]) -> Fingerprint {
    Fingerprint::of_parts(documents.iter().map(Document::checksum))
}

/// The rows in the order of their JSON text. Canonical order is almost the same, so sorting is
/// close to one pass.
fn measure(rows: &Snapshot) -> Vec<(Row, u64)> {
    let mut measured: Vec<(Row, u64)> = rows
        .rows()
        .iter()
        .map(|row| (row.clone(), row.json_len() as u64))
        .collect();
    measured.sort_by(|(a, _), (b, _)| a.compare_json(b));
    measured
}

/// What stands around the rows of a part while the number of parts is not known yet: both part
/// numbers are taken to be as wide as they can get, with one row per part.
struct Frame {
    without_count: u64,
}

impl Frame {
    fn new(pass: &Pass, rows: usize) -> Self {
        let widest = Part::new(rows as u64, rows as u64);
        let frame = pass.frame_len(widest, 0);
        Frame {
            without_count: frame - digits(0),
        }
    }

    /// The length of a document with `count` rows of `rows_len` bytes together.
    fn len(&self, count: usize, rows_len: u64) -> u64 {
        let brackets = 2;
        let commas = (count as u64).saturating_sub(1);
        self.without_count + digits(count) + brackets + commas + rows_len
    }
}

fn digits(number: usize) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::attributes::Attributes;
    use crate::intern::Interner;
    use crate::origin::{OriginParts, TargetKind};
    use crate::row::encodes;

    fn rows(count: usize) -> Snapshot {
        let mut interner = Interner::new();
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: "deployments",
            namespace: "team-a",
            group: "apps",
            version: "v1",
            kind: "Deployment",
        });
        let row = |index| {
            let name = format!("web-{index}");
            interner.row(&origin, &name, &name, Attributes::NULL)
        };
        Snapshot::new((0..count).map(row))
    }

    #[test]
    fn every_row_is_encoded_a_fixed_number_of_times() {
        let pass = Arc::new(Pass::at(Timestamp::UNIX_EPOCH));
        for count in [100, 1_000, 10_000] {
            let splitter = Splitter::new(rows(count));
            let ceiling = |bytes| NonZeroU64::new(bytes);
            let (documents, encodes) =
                encodes::during(|| splitter.split(&pass, ceiling(2_000)).expect("fits"));
            assert!(documents.len() > count / 20);
            // Once for the length of the whole, once for the length of each row.
            assert_eq!(encodes, 2 * count);
            let (_, encodes) = encodes::during(|| splitter.split(&pass, ceiling(3_000)));
            assert_eq!(encodes, 0, "another ceiling reuses what was measured");
            let (_, encodes) = encodes::during(|| parts_digest(&documents));
            assert_eq!(encodes, count, "each part is digested once");
            let (_, encodes) = encodes::during(|| parts_digest(&documents));
            assert_eq!(encodes, 0);
        }
    }

    #[test]
    fn parts_are_as_full_as_they_can_be() {
        let pass = Arc::new(Pass::at(Timestamp::UNIX_EPOCH));
        let all = rows(150);
        let splitter = Splitter::new(all.clone());
        // The numbers of parts as wide as they may get, as if every row had its own part.
        let widest = Part::new(150, 150).expect("a part");
        let needed = |rows: Vec<Row>| {
            Document::part_of(Arc::clone(&pass), widest, Snapshot::new(rows)).byte_len()
        };
        for bytes in (400..4_000).step_by(37) {
            let documents = splitter.split(&pass, NonZeroU64::new(bytes)).expect("fits");
            let parts: Vec<&[Row]> = documents.iter().map(|part| part.rows().rows()).collect();
            assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), 150);
            for pair in parts.windows(2) {
                assert!(needed(pair[0].to_vec()) <= bytes);
                // These names sort alike as texts and as rows.
                let first_of_next = pair[1][0].clone();
                assert!(needed([pair[0], &[first_of_next]].concat()) > bytes);
            }
        }
    }

    #[test]
    fn without_a_ceiling_nothing_is_measured() {
        let pass = Arc::new(Pass::at(Timestamp::UNIX_EPOCH));
        let splitter = Splitter::new(rows(100));
        let (documents, encodes) = encodes::during(|| splitter.split(&pass, None));
        assert_eq!(documents.map(|documents| documents.len()), Ok(1));
        assert_eq!(encodes, 0);
    }
}
