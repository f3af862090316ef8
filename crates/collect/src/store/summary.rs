//! Numbers for statuses and metrics, read when they are asked for.

use std::collections::BTreeMap;

use super::Store;
use super::failures::Failure;
use super::locks::{lock, read};
use super::target::TargetRows;
use crate::plan::TargetKey;

/// What is known about a target beside its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSummary {
    /// Which target.
    pub key: TargetKey,
    /// Everything it collects has been listed once.
    pub complete: bool,
    /// The number of rows: `status.collectedCount`, `kollect_collected_objects`.
    pub rows: usize,
    /// The number of objects whose extraction fails: `status.extractionFailures`.
    pub failing: usize,
    /// The most recent failure: `status.lastExtractionError`. It stays until no object fails.
    pub last_failure: Option<Box<str>>,
    /// Some of the failing objects, newest last.
    pub failures: Vec<Failure>,
    /// How often a policy of a rule could not be evaluated.
    pub policy_failures: u64,
    /// The most recent one.
    pub last_policy_failure: Option<Box<str>>,
    /// Bytes on the heap for the target.
    pub bytes: usize,
}

/// What is known about the store as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreSummary {
    /// The number of rows: `kollect_collect_items_total`.
    pub rows: usize,
    /// Bytes on the heap for rows, their index and their shared texts.
    pub bytes: usize,
    /// The number of targets.
    pub targets: usize,
    /// The number of targets that have not been listed completely.
    pub incomplete: usize,
}

/// What a target takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Rows.
    pub rows: u64,
    /// Bytes on the heap for these rows.
    pub bytes: u64,
    /// Everything it collects has been listed once.
    pub complete: bool,
}

impl TargetRows {
    fn summary(&self) -> TargetSummary {
        // Before any lock is taken: it takes those of the stripes, which come first.
        let bytes = self.bytes();
        let failing = self.failing();
        let failures = lock(&self.failures);
        let policy = lock(&self.policy_failures);
        TargetSummary {
            key: self.key.clone(),
            complete: self.is_complete(),
            rows: self.rows(),
            failing,
            last_failure: failures.last().filter(|_| failing > 0),
            failures: failures.recent().filter(|_| failing > 0).cloned().collect(),
            policy_failures: policy.count,
            last_policy_failure: policy.last.clone(),
            bytes,
        }
    }
}

impl Store {
    /// What is known about one target, if it collects or may come to collect.
    pub fn summary(&self, key: &TargetKey) -> Option<TargetSummary> {
        let directory = read(&self.0.directory);
        directory.targets.get(key).map(|target| target.summary())
    }

    /// What is known about all targets. Targets that ended are not in it, so series made from it
    /// vanish with them.
    pub fn summaries(&self) -> Vec<TargetSummary> {
        let directory = read(&self.0.directory);
        directory
            .targets
            .values()
            .map(|target| target.summary())
            .collect()
    }

    /// What every target takes, without waiting for anybody who writes rows.
    pub fn usage(&self) -> BTreeMap<TargetKey, Usage> {
        let directory = read(&self.0.directory);
        let usage = directory.targets.iter();
        usage
            .map(|(key, target)| {
                let usage = Usage {
                    rows: target.rows() as u64,
                    bytes: target.row_bytes() as u64,
                    complete: target.is_complete(),
                };
                (key.clone(), usage)
            })
            .collect()
    }

    /// What is known about the store as a whole.
    pub fn totals(&self) -> StoreSummary {
        let directory = read(&self.0.directory);
        let mut totals = StoreSummary {
            targets: directory.targets.len(),
            ..StoreSummary::default()
        };
        for target in directory.targets.values() {
            totals.rows += target.rows();
            totals.bytes += target.bytes();
            totals.incomplete += usize::from(!target.is_complete());
        }
        totals
    }
}
