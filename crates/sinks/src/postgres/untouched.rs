//! What makes a repeated delivery unnecessary: the same rows for a partition that nobody touched.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use kollect_inventory::Snapshot;

/// What a full delivery left, as long as nothing else was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Untouched {
    /// The number of the rows.
    pub(super) content: u64,
    /// What the partition looked like afterwards.
    pub(super) print: String,
}

/// Numbers for sets of rows: equal for equal ones, in one process.
#[derive(Debug, Default)]
pub(super) struct RowNumbers(RandomState);

impl RowNumbers {
    /// The number of these rows.
    pub(super) fn number(&self, snapshot: &Snapshot) -> u64 {
        let mut hasher = self.0.build_hasher();
        for row in snapshot.rows() {
            let origin = row.origin();
            (
                origin.target_namespace(),
                origin.target_name(),
                origin.namespace(),
                (origin.group(), origin.version(), origin.kind()),
                (row.name(), row.uid()),
                row.content_hash(),
            )
                .hash(&mut hasher);
        }
        hasher.finish()
    }
}
