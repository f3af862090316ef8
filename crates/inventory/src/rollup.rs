//! The rows of many namespaces in one inventory.
//!
//! A cluster inventory gathers the rows of cluster targets namespace by namespace. Each namespace
//! is a [`Shard`] with its own fingerprint, so a caller may keep the shards that did not change
//! and build only the others anew; the rollup's digest is made of the shards' digests.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use kollect_api::inventory::Dedupe;

use crate::fingerprint::Fingerprint;
use crate::row::Row;
use crate::snapshot::Snapshot;

/// Merges rows, keeping the position of the first row of each object.
///
/// Which row stays does not depend on the order in which rows come: it is the one of the target
/// with the greatest name, then the one that is last in canonical order. Attributes of several
/// rows are never mixed.
pub fn merge(rows: impl IntoIterator<Item = Row>, dedupe: Dedupe) -> Vec<Row> {
    let rows = rows.into_iter();
    if dedupe == Dedupe::KeepAll {
        return rows.collect();
    }
    let hasher = DefaultHashBuilder::default();
    let hash = |row: &Row| hasher.hash_one((row.origin().namespace(), row.uid()));
    let mut seen: HashTable<usize> = HashTable::new();
    let mut merged: Vec<Row> = Vec::new();
    for row in rows {
        let found = seen.find(hash(&row), |&at| is_same_object(&merged[at], &row));
        if let Some(&at) = found {
            if rank(&merged[at]) <= rank(&row) {
                merged[at] = row;
            }
        } else {
            seen.insert_unique(hash(&row), merged.len(), |&at| hash(&merged[at]));
            merged.push(row);
        }
    }
    merged
}

/// The rows of an inventory: merged if it asks for that, and in canonical order.
pub fn merged(rows: impl IntoIterator<Item = Row>, dedupe: Dedupe) -> Snapshot {
    Snapshot::new(merge(rows, dedupe))
}

fn is_same_object(a: &Row, b: &Row) -> bool {
    a.uid() == b.uid() && a.origin().namespace() == b.origin().namespace()
}

fn rank(row: &Row) -> impl Ord {
    (row.origin().target_name(), row.identity())
}

/// The rows of one target namespace, merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    namespace: Box<str>,
    targets: usize,
    rows: Snapshot,
}

impl Shard {
    /// Merges what the cluster targets collected in `namespace`.
    pub fn new(namespace: &str, rows: impl IntoIterator<Item = Row>, dedupe: Dedupe) -> Self {
        let rows: Vec<Row> = rows.into_iter().collect();
        let targets = rows
            .iter()
            .map(|row| row.origin().target_name())
            .collect::<HashSet<_>>()
            .len();
        Shard {
            namespace: namespace.into(),
            targets,
            rows: merged(rows, dedupe),
        }
    }

    /// The namespace the rows were collected in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// How many targets contributed at least one row, before merging.
    pub fn target_count(&self) -> usize {
        self.targets
    }

    /// How many rows are left after merging.
    pub fn item_count(&self) -> usize {
        self.rows.len()
    }

    /// The rows in canonical order.
    pub fn rows(&self) -> &Snapshot {
        &self.rows
    }

    /// The content fingerprint of this shard.
    pub fn fingerprint(&self) -> Fingerprint {
        self.rows.fingerprint()
    }
}

/// All shards of a cluster inventory, and their rows together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    shards: Vec<Shard>,
    rows: Snapshot,
}

impl Rollup {
    /// Sorts rows into shards by target namespace and merges them.
    pub fn new(rows: impl IntoIterator<Item = Row>, dedupe: Dedupe) -> Self {
        let all = Snapshot::new(rows);
        // Canonical order starts with the target namespace.
        let shards = all
            .rows()
            .chunk_by(|a, b| a.origin().target_namespace() == b.origin().target_namespace())
            .filter_map(|rows| {
                let namespace = rows.first()?.origin().target_namespace();
                Some(Shard::new(namespace, rows.iter().cloned(), dedupe))
            })
            .collect();
        Self::of_shards(shards, dedupe)
    }

    /// Puts shards together; shards without rows are left out.
    pub fn of_shards(mut shards: Vec<Shard>, dedupe: Dedupe) -> Self {
        shards.retain(|shard| !shard.rows.is_empty());
        shards.sort_by(|a, b| a.namespace.cmp(&b.namespace));
        let rows = shards.iter().flat_map(|shard| shard.rows.rows()).cloned();
        let rows = merged(rows, dedupe);
        Rollup { shards, rows }
    }

    /// The shards in namespace order.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The rows of all shards, merged once more, because a cluster-scoped object belongs to no
    /// namespace and may have been seen from several.
    pub fn rows(&self) -> &Snapshot {
        &self.rows
    }

    /// The rollup digest.
    pub fn digest(&self) -> Fingerprint {
        Fingerprint::of_shards(
            self.shards
                .iter()
                .map(|shard| (shard.namespace(), shard.fingerprint())),
        )
    }
}
