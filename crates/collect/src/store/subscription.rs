//! Reading the store as an inventory.

use std::sync::Arc;

use kollect_inventory::{Delta, Snapshot};

use super::locks::read;
use super::selection::RowSelection;
use super::subscriber::Subscriber;
use super::{Inner, Revision};
use crate::plan::TargetKey;

/// Follows the rows of one inventory.
///
/// Take what there is, deliver it, wait to be woken, take again. The first thing taken is always
/// all rows; from then on it is what changed since.
#[derive(Debug)]
pub struct Subscription {
    pub(super) inner: Arc<Inner>,
    pub(super) subscriber: Arc<Subscriber>,
}

/// What an inventory has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// Nothing may be exported yet: these targets have not been listed completely. Before the
    /// first plan the list is empty, because not even the targets are known.
    Waiting(Vec<TargetKey>),
    /// Nothing changed.
    Nothing,
    /// These are all rows. Whatever else the sinks hold of this inventory is to be removed.
    Everything(Snapshot, Revision),
    /// These rows changed since the last time.
    Changes(Delta, Revision),
}

impl Subscription {
    /// Takes what there is. While a contributing target is not complete, nothing is taken; changes
    /// go on piling up.
    pub fn take(&self) -> Taken {
        self.inner.take(&self.subscriber)
    }

    /// The targets that have not been listed completely, or nothing if all have. Takes nothing;
    /// whatever happens from now on wakes the reader again.
    pub fn waiting_for(&self) -> Option<Vec<TargetKey>> {
        read(&self.inner.directory).waiting_for(&self.subscriber)
    }

    /// Follows other rows from now on. The next thing taken is all rows.
    pub fn follow(&self, scope: RowSelection) {
        self.inner.follow(&self.subscriber, scope);
    }

    /// Has all rows taken the next time, for example because a delivery failed and it is not
    /// known what the sink holds.
    pub fn start_over(&self) {
        self.subscriber.start_over();
    }

    /// How many changes are waiting; none says that all rows are.
    pub fn backlog(&self) -> Option<usize> {
        self.subscriber.backlog()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.inner.unsubscribe(&self.subscriber);
    }
}
