//! Whether the parts of an export are all there and belong together.

use std::collections::BTreeMap;

use crate::part::Part;
use crate::read::{Header, ReadDocument};
use crate::row::Row;
use crate::snapshot::Snapshot;

/// Why some documents are not one complete export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    /// There is no document at all.
    #[error("no document was given")]
    Nothing,
    /// Parts are missing; wait for them or read again.
    #[error("parts {missing:?} of {total} are missing")]
    Missing {
        /// The numbers of the missing parts; at most the first hundred.
        missing: Vec<u64>,
        /// How many parts there should be.
        total: u64,
    },
    /// The documents come from different passes; read again after the export has finished.
    #[error("the documents come from different export passes: {0} differs")]
    Mixed(&'static str),
    /// A part number appears twice, or next to a document that is complete by itself.
    #[error("the documents overlap")]
    Overlap,
}

/// The rows of a complete export.
///
/// A document without part numbers is complete by itself. Parts must all be there and agree on
/// generation, time, export id, cluster and part count: generation alone stays the same when only
/// content changes, so it would not show that a set was torn.
pub fn join(documents: impl IntoIterator<Item = ReadDocument>) -> Result<Snapshot, Incomplete> {
    let mut documents = documents.into_iter();
    let first = documents.next().ok_or(Incomplete::Nothing)?;
    let Some((header, part)) = numbered(&first) else {
        return match documents.next() {
            None => Ok(Snapshot::new(first.rows)),
            Some(_) => Err(Incomplete::Overlap),
        };
    };
    let mut parts: BTreeMap<u64, Vec<Row>> = BTreeMap::from([(part.index(), first.rows)]);
    for document in documents {
        let (other, number) = numbered(&document).ok_or(Incomplete::Overlap)?;
        if let Some(difference) = difference(&header, &other) {
            return Err(Incomplete::Mixed(difference));
        }
        if parts.insert(number.index(), document.rows).is_some() {
            return Err(Incomplete::Overlap);
        }
    }
    let missing: Vec<u64> = (1..=part.total())
        .filter(|index| !parts.contains_key(index))
        .take(100)
        .collect();
    if missing.is_empty() {
        Ok(Snapshot::new(parts.into_values().flatten()))
    } else {
        Err(Incomplete::Missing {
            missing,
            total: part.total(),
        })
    }
}

fn numbered(document: &ReadDocument) -> Option<(Header, Part)> {
    let header = document.header.as_ref()?;
    Some((header.clone(), header.part?))
}

/// The first thing that two parts of one set should have in common and do not.
fn difference(a: &Header, b: &Header) -> Option<&'static str> {
    let total = |header: &Header| header.part.map(Part::total);
    [
        ("partTotal", total(a) == total(b)),
        ("generation", a.generation == b.generation),
        ("exportedAt", a.exported_at == b.exported_at),
        ("exportId", a.export_id == b.export_id),
        ("cluster", a.cluster == b.cluster),
    ]
    .into_iter()
    .find_map(|(key, equal)| (!equal).then_some(key))
}
