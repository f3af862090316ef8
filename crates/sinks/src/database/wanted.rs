//! The rows that a database should hold of an inventory, beside what it says it holds.
//!
//! Memory stays in proportion to the rows that are to be there, whatever the server sends.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use kollect_inventory::{HeldRows, Row};

/// The rows that should be there, ready to be looked up.
pub(crate) struct Wanted<'r> {
    pub(crate) rows: Vec<&'r Row>,
    table: HashTable<usize>,
    hasher: RandomState,
    held: &'r [HeldRows],
    content_hash: fn(&Row) -> i64,
}

/// What a row of a server means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The row, as it should be.
    Same(usize),
    /// The row, with another content.
    Other(usize),
    /// Not wanted, and it is not known whether it should be.
    Held,
    /// Nobody's.
    Stale,
}

/// What was seen so far of what should be there.
pub(crate) struct Sightings {
    seen: Vec<bool>,
    same: Vec<bool>,
}

impl<'r> Wanted<'r> {
    pub(crate) fn new(
        rows: impl Iterator<Item = &'r Row>,
        held: &'r [HeldRows],
        content_hash: fn(&Row) -> i64,
    ) -> Self {
        let rows: Vec<&Row> = rows.collect();
        let hasher = RandomState::new();
        let mut table = HashTable::with_capacity(rows.len());
        let hash = |row: &Row| hasher.hash_one((row.origin().target_name(), &*row.uid().text()));
        for (place, row) in rows.iter().enumerate() {
            table.insert_unique(hash(row), place, |place| hash(rows[*place]));
        }
        Self {
            rows,
            table,
            hasher,
            held,
            content_hash,
        }
    }

    /// Whether some rows are to stay of which nothing is known.
    #[cfg(feature = "mongodb")]
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    fn find(&self, target_name: &str, uid: &str) -> Option<usize> {
        let hash = self.hasher.hash_one((target_name, uid));
        let same = |place: &usize| {
            let row = self.rows[*place];
            row.origin().target_name() == target_name && *row.uid().text() == *uid
        };
        self.table.find(hash, same).copied()
    }

    /// What a row of the server means, by its key, its namespace and the hash of its content.
    pub(crate) fn judge(
        &self,
        target_name: &str,
        uid: &str,
        namespace: &str,
        hash: Option<i64>,
    ) -> Found {
        let Some(place) = self.find(target_name, uid) else {
            let mut held = self.held.iter();
            let held = held.any(|held| held.covers(target_name, namespace));
            return if held { Found::Held } else { Found::Stale };
        };
        if hash == Some((self.content_hash)(self.rows[place])) {
            Found::Same(place)
        } else {
            Found::Other(place)
        }
    }

    pub(crate) fn sightings(&self) -> Sightings {
        Sightings {
            seen: vec![false; self.rows.len()],
            same: vec![false; self.rows.len()],
        }
    }

    /// The rows that are not there, or are there with another content.
    pub(crate) fn missing(&self, sightings: &Sightings) -> Vec<&'r Row> {
        self.rows
            .iter()
            .zip(&sightings.same)
            .filter(|(_, same)| !**same)
            .map(|(row, _)| *row)
            .collect()
    }
}

impl Sightings {
    /// A row that was there is not there any more.
    #[cfg(feature = "bigquery")]
    pub(crate) fn again(&mut self, place: usize) {
        self.same[place] = false;
    }

    /// Notes what was found, and says whether it is one too many: nobody's, or a second one of a row.
    pub(crate) fn is_surplus(&mut self, found: Found) -> bool {
        match found {
            Found::Held => false,
            Found::Same(place) if !self.seen[place] => {
                self.seen[place] = true;
                self.same[place] = true;
                false
            }
            Found::Other(place) if !self.seen[place] => {
                self.seen[place] = true;
                false
            }
            Found::Same(_) | Found::Other(_) | Found::Stale => true,
        }
    }
}
