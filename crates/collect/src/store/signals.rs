//! Which targets have news for their status.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::plan::TargetKey;

/// Called when there is something to take. It is called from whatever thread made the change, with
/// no lock held, so it may be anything that does not block: notify a task, set a flag.
pub(super) type Wake = Box<dyn Fn() + Send + Sync>;

/// A set of targets that is filled by writers and emptied by one reader. A target is in it at most
/// once, and never lost.
pub(super) struct Signals {
    dirty: Mutex<BTreeSet<TargetKey>>,
    wake: Wake,
}

impl Signals {
    pub(super) fn new(wake: Wake) -> Self {
        Signals {
            dirty: Mutex::default(),
            wake,
        }
    }

    /// Adds a target. Call without holding any lock.
    pub(super) fn raise(&self, key: &TargetKey) {
        let first = {
            let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
            let first = dirty.is_empty();
            dirty.insert(key.clone());
            first
        };
        if first {
            (self.wake)();
        }
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> BTreeSet<TargetKey> {
        std::mem::take(&mut self.dirty.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals")
            .field("dirty", &self.dirty)
            .finish_non_exhaustive()
    }
}
