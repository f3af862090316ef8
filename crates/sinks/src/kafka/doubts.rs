//! What was sent and never acknowledged.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

/// Keys of batches that were sent and never acknowledged, by the inventory's prefix.
#[derive(Debug, Default)]
pub(super) struct Doubts(Mutex<HashMap<String, BTreeSet<String>>>);

impl Doubts {
    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<String, BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add<'k>(&self, prefix: &str, keys: impl Iterator<Item = &'k str>) {
        let mut all = self.all();
        let doubtful = all.entry(prefix.to_owned()).or_default();
        doubtful.extend(keys.map(str::to_owned));
    }

    pub(super) fn settle<'k>(&self, prefix: &str, keys: impl Iterator<Item = &'k str>) {
        let mut all = self.all();
        if let Some(doubtful) = all.get_mut(prefix) {
            for key in keys {
                doubtful.remove(key);
            }
            if doubtful.is_empty() {
                all.remove(prefix);
            }
        }
    }

    /// The keys of an inventory.
    pub(super) fn of(&self, prefix: &str) -> Vec<String> {
        let all = self.all();
        let doubtful = all.get(prefix).into_iter().flatten();
        doubtful.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_settled_by_key() {
        let doubts = Doubts::default();
        doubts.add("c/n/i", ["a", "b"].into_iter());
        doubts.add("c/n/j", ["a"].into_iter());
        doubts.settle("c/n/i", ["a"].into_iter());
        assert_eq!(doubts.of("c/n/i"), ["b"]);
        assert_eq!(doubts.of("c/n/j"), ["a"]);
        doubts.settle("c/n/i", ["b"].into_iter());
        assert!(doubts.of("c/n/i").is_empty());
        assert_eq!(doubts.all().len(), 1);
    }
}
