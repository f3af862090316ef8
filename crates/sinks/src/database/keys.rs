//! Several rows under one key.
//!
//! The table knows a row by target name and uid. An inventory knows it by more: two targets of the
//! same name in two namespaces may both see the same Node. Then the later row in the order of the
//! inventory is the one in the table, and the others wait behind it: when the later one goes, the
//! one behind it has to come back.
//!
//! A full delivery sees every such case. For changes, the rows that share a key are remembered
//! here (only those: most inventories have none), so that a change writes what a full delivery
//! would have written.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{BuildHasher, RandomState},
};

use kollect_inventory::{Delta, Row};

/// What the table knows a row by, inside one inventory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) target_name: String,
    pub(crate) uid: String,
}

impl Key {
    pub(crate) fn of(row: &Row) -> Self {
        Self {
            target_name: row.origin().target_name().to_owned(),
            uid: row.uid().to_string(),
        }
    }
}

fn same_key(a: &Row, b: &Row) -> bool {
    a.uid() == b.uid() && a.origin().target_name() == b.origin().target_name()
}

/// The rows that share a key with others, in the order of the inventory: the last one is in the
/// table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SharedKeys(HashMap<Key, Vec<Row>>);

/// A full set of rows with one row per key.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Places of rows that stand behind a later one.
    behind: BTreeSet<usize>,
    pub(crate) shared: SharedKeys,
}

/// What changes do to the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) writes: Vec<Write>,
    pub(crate) deletes: Vec<Key>,
    /// Rows that the table had instead of those, as far as it is known.
    #[cfg(feature = "postgres")]
    pub(crate) replaced: Vec<Row>,
}

/// A row to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) row: Row,
    /// Nothing is known of an earlier row with this key. If the table has one nevertheless, with
    /// other content, another row of the inventory owns it.
    pub(crate) fresh: bool,
}

impl Survey {
    /// Looks for rows with the same key. Sixteen bytes per row, for the time of the call.
    pub(crate) fn of(rows: &[Row]) -> Self {
        let state = RandomState::new();
        let hash = |row: &Row| state.hash_one((row.origin().target_name(), row.uid()));
        let mut hashes: Vec<(u64, usize)> = rows
            .iter()
            .enumerate()
            .map(|(place, row)| (hash(row), place))
            .collect();
        hashes.sort_unstable();
        let mut survey = Self {
            behind: BTreeSet::new(),
            shared: SharedKeys::default(),
        };
        for run in hashes.chunk_by(|a, b| a.0 == b.0) {
            for (index, (_, place)) in run.iter().enumerate() {
                let row = &rows[*place];
                let later = run[index + 1..]
                    .iter()
                    .any(|(_, other)| same_key(row, &rows[*other]));
                if later {
                    survey.behind.insert(*place);
                }
                let earlier = run[..index]
                    .iter()
                    .any(|(_, other)| same_key(row, &rows[*other]));
                if later || earlier {
                    survey
                        .shared
                        .0
                        .entry(Key::of(row))
                        .or_default()
                        .push(row.clone());
                }
            }
        }
        survey
    }

    /// The rows that belong into the table.
    pub(crate) fn winners<'r>(&'r self, rows: &'r [Row]) -> impl Iterator<Item = &'r Row> + Clone {
        let behind = &self.behind;
        rows.iter()
            .enumerate()
            .filter(move |(place, _)| !behind.contains(place))
            .map(|(_, row)| row)
    }

    /// How many rows belong into the table.
    #[cfg(feature = "postgres")]
    pub(crate) fn count(&self, rows: &[Row]) -> usize {
        rows.len() - self.behind.len()
    }
}

impl SharedKeys {
    /// What changes do to the table, and which keys are shared afterwards.
    pub(crate) fn apply(&mut self, delta: &Delta) -> Work {
        let mut by_key: BTreeMap<Key, Vec<_>> = BTreeMap::new();
        for change in delta.changes() {
            by_key
                .entry(Key::of(change.row()))
                .or_default()
                .push(change);
        }
        let mut work = Work::default();
        for (key, changes) in by_key {
            let before: Vec<Row> = match self.0.remove(&key) {
                Some(rows) => rows,
                None => changes
                    .iter()
                    .filter_map(|change| change.before().cloned())
                    .collect(),
            };
            let untouched = before.iter().filter(|row| {
                changes
                    .iter()
                    .all(|change| change.identity() != row.identity())
            });
            let new = changes.iter().filter_map(|change| change.after());
            let mut after: Vec<Row> = untouched.chain(new).cloned().collect();
            after.sort_by(|a, b| a.identity().cmp(&b.identity()));
            #[cfg(feature = "postgres")]
            if after.last() != before.last() {
                work.replaced.extend(before.last().cloned());
            }
            match after.last() {
                None => work.deletes.push(key),
                Some(row) => {
                    if before.last() != Some(row) {
                        work.writes.push(Write {
                            row: row.clone(),
                            fresh: before.is_empty(),
                        });
                    }
                    if after.len() > 1 {
                        self.0.insert(key, after);
                    }
                }
            }
        }
        work
    }
}
