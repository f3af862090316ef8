//! Which messages a delivery needs.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kollect_inventory::{Delta, Row, Snapshot};
use sha2::{Digest, Sha256};

use super::{
    item::{Item, ItemHash},
    source::Source,
};

/// Compares all rows with what a stream says it holds.
///
/// A row costs 32 bytes, whatever its name; only of names that are no row any more the text is kept,
/// because a delete has to tell it.
#[derive(Debug)]
pub struct Comparison<'r> {
    rows: &'r [Row],
    /// In the order of `name`.
    known: Vec<Known>,
    /// Names that the stream holds and no row has.
    gone: BTreeSet<Box<str>>,
}

/// A row, and what the stream says of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// The first 16 bytes of the SHA-256 of its name: tenants choose names, and must not be able to
    /// make two of them look alike.
    name: [u8; 16],
    hash: u64,
    row: u32,
    /// Whether the stream holds a row with that hash.
    held: bool,
}

impl<'r> Comparison<'r> {
    /// Begins with a stream that holds nothing. `name` is what a row is called at the backend: its
    /// key, or its subject. Of several rows with one name the last counts.
    pub fn new(rows: &'r Snapshot, name: impl Fn(&Row) -> String) -> Self {
        let rows = rows.rows();
        let mut known: Vec<Known> = Vec::with_capacity(rows.len());
        known.extend((0..).zip(rows).map(|(row, it)| Known {
            name: digest(&name(it)),
            hash: 0,
            row,
            held: false,
        }));
        known.sort_unstable_by(|a, b| a.name.cmp(&b.name).then(b.row.cmp(&a.row)));
        known.dedup_by(|later, kept| later.name == kept.name);
        Comparison {
            rows,
            known,
            gone: BTreeSet::new(),
        }
    }

    /// The stream has a message under this name, newer than all that were seen of it before: a row
    /// with this hash, or none.
    ///
    /// What cannot be understood is best told as a row with any other hash: it is replaced if a row has
    /// that name, and deleted if none has.
    pub fn saw(&mut self, name: &str, held: Option<ItemHash>) {
        let digest = digest(name);
        if let Ok(at) = self.known.binary_search_by(|known| known.name.cmp(&digest)) {
            let known = &mut self.known[at];
            known.held = held.is_some();
            known.hash = held.map_or(0, |hash| hash.0);
        } else if held.is_none() {
            self.gone.remove(name);
        } else if !self.gone.contains(name) {
            self.gone.insert(name.into());
        }
    }

    /// How many names the stream holds that no row has, so far.
    pub fn gone_so_far(&self) -> usize {
        self.gone.len()
    }

    /// What to publish.
    pub fn finish(self) -> Difference<'r> {
        let mut buffer = Vec::new();
        let mut different: Vec<u32> = self
            .known
            .iter()
            .filter(|known| {
                let row = &self.rows[known.row as usize];
                !known.held || ItemHash::of_row(row, &mut buffer) != ItemHash(known.hash)
            })
            .map(|known| known.row)
            .collect();
        different.sort_unstable();
        Difference {
            upserts: different
                .into_iter()
                .map(|row| &self.rows[row as usize])
                .collect(),
            gone: self.gone.into_iter().collect(),
        }
    }
}

/// What a stream has to be told, so that its newest message per name is the inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference<'r> {
    /// Rows that it lacks or holds otherwise, in canonical order.
    pub upserts: Vec<&'r Row>,
    /// Names it holds that are no rows, in order.
    pub gone: Vec<Box<str>>,
}

fn digest(name: &str) -> [u8; 16] {
    let digest = Sha256::digest(name.as_bytes());
    let (first, _) = digest.split_at(16);
    first.try_into().expect("16 bytes")
}

/// The messages of a delta, one per key: an object that was deleted and created again is only there.
#[derive(Debug)]
pub struct Changes<'d> {
    /// Rows that are new or different.
    pub upserts: Vec<&'d Row>,
    /// Rows that are gone.
    pub deletes: Vec<Item<'d>>,
}

impl<'d> Changes<'d> {
    /// The changes of one inventory.
    pub fn of(source: &Source, delta: &'d Delta) -> Self {
        // Of several rows with one key the last counts, as in a comparison.
        let mut last: BTreeMap<String, usize> = BTreeMap::new();
        let upserts: Vec<&Row> = delta.upserts().collect();
        for (at, row) in upserts.iter().enumerate() {
            last.insert(source.key(&Item::of(row)), at);
        }
        let mut deleted = HashSet::new();
        let deletes = delta.deletes().map(Item::of).filter(|item| {
            let key = source.key(item);
            !last.contains_key(&key) && deleted.insert(key)
        });
        let deletes = deletes.collect();
        let mut kept: Vec<usize> = last.into_values().collect();
        kept.sort_unstable();
        Changes {
            upserts: kept.into_iter().map(|at| upserts[at]).collect(),
            deletes,
        }
    }
}
