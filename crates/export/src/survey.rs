//! A look at all rows of an inventory, for its status.
//!
//! Counting, fingerprinting and sharding read every row, so a survey is made now and then and off
//! the path of deliveries, which cost only what changed.

use std::{num::NonZeroU64, sync::Arc};

use jiff::Timestamp;
use kollect_api::inventory::Dedupe;
use kollect_collect::store::{Revision, RowSelection, Store};
use kollect_inventory::{Pass, Rollup, Snapshot, Splitter, parts_digest};

/// The rows of one namespace in a rollup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The namespace.
    pub namespace: String,
    /// Its rows, after merging.
    pub rows: usize,
    /// The targets that contributed.
    pub targets: usize,
    /// The checksum of the rows.
    pub checksum: String,
}

/// All rows at one moment, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The moment.
    pub revision: Revision,
    /// The number of rows.
    pub rows: usize,
    /// What identifies the content: the fingerprint of the rows or the digest of the rollup.
    pub checksum: String,
    /// The namespaces of a rollup.
    pub shares: Vec<Share>,
    /// The digest of the documents, for each size that was asked for. A size that a single row
    /// exceeds has none.
    pub parts: Vec<(Option<NonZeroU64>, String)>,
}

impl Survey {
    /// Looks at the rows as they are now.
    pub fn take(
        store: &Store,
        scope: &RowSelection,
        dedupe: Dedupe,
        sizes: &[Option<NonZeroU64>],
    ) -> Self {
        let (snapshot, revision) = store.snapshot(scope);
        match scope {
            RowSelection::Namespace(_) => Survey {
                revision,
                rows: snapshot.len(),
                checksum: snapshot.fingerprint().to_string(),
                shares: Vec::new(),
                parts: parts(&snapshot, sizes),
            },
            RowSelection::Cluster { .. } => {
                let rollup = Rollup::new(snapshot.rows().iter().cloned(), dedupe);
                let shares = rollup.shards().iter().map(|shard| Share {
                    namespace: shard.namespace().to_owned(),
                    rows: shard.item_count(),
                    targets: shard.target_count(),
                    checksum: shard.fingerprint().to_string(),
                });
                Survey {
                    revision,
                    rows: rollup.rows().len(),
                    checksum: rollup.digest().to_string(),
                    shares: shares.collect(),
                    parts: Vec::new(),
                }
            }
        }
    }

    /// What identifies the content for a sink that writes documents of at most this size, or for
    /// one that writes rows.
    pub fn checksum_of(&self, documents: bool, size: Option<NonZeroU64>) -> Option<&str> {
        if !documents || !self.shares.is_empty() {
            return Some(&self.checksum);
        }
        let parts = self.parts.iter().find(|(known, _)| *known == size);
        parts.map_or(Some(&*self.checksum), |(_, digest)| Some(digest))
    }
}

fn parts(snapshot: &Snapshot, sizes: &[Option<NonZeroU64>]) -> Vec<(Option<NonZeroU64>, String)> {
    if sizes.is_empty() {
        return Vec::new();
    }
    let splitter = Splitter::new(snapshot.clone());
    // A header of fixed width: equal rows give equal digests, whenever they are looked at.
    let pass = Arc::new(Pass::at(Timestamp::UNIX_EPOCH));
    let mut digests = Vec::new();
    for size in sizes {
        if let Ok(documents) = splitter.split(&pass, *size) {
            digests.push((*size, parts_digest(&documents).to_string()));
        }
    }
    digests
}
