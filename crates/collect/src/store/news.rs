//! Whom to tell about changes, once no lock is held.

use std::sync::Arc;

use super::signals::Signals;
use super::subscriber::Subscriber;
use crate::plan::TargetKey;

/// Gathered while locks are held, told afterwards: those who are woken may do what they like.
#[derive(Debug, Default)]
#[must_use = "somebody waits for it"]
pub(super) struct News {
    /// Readers that have something to take.
    pub(super) readers: Vec<Arc<Subscriber>>,
    /// Targets whose status changed.
    pub(super) statuses: Vec<TargetKey>,
}

impl News {
    /// Adds what else there is to tell.
    pub(super) fn join(&mut self, other: News) {
        self.readers.extend(other.readers);
        self.statuses.extend(other.statuses);
    }

    /// Tells everybody. No lock may be held.
    pub(super) fn tell(self, signals: &Signals) {
        for reader in self.readers {
            reader.wake();
        }
        for key in self.statuses {
            signals.raise(&key);
        }
    }
}
