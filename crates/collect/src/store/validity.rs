//! Which decisions are still worth something.
//!
//! Between the moment a worker decides about an object and the moment it writes, the target may
//! have been changed: other rules, another profile, other namespaces. Such a decision must not be
//! written, because the list that follows the change may already have looked at the object. It is
//! not lost either: that list is made after the change, so it shows the object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::{Again, Collection, Epoch, Revision};

/// What is valid for a target.
#[derive(Debug)]
pub(super) struct Validity {
    collection: Arc<Collection>,
    /// Decisions of older plans are worth nothing.
    floor: Epoch,
    /// Higher floors of single namespaces.
    floors: BTreeMap<Arc<str>, Epoch>,
}

impl Validity {
    /// Everything starts with the plan of this epoch.
    pub(super) fn new(collection: Arc<Collection>, epoch: Epoch) -> Self {
        Validity {
            collection,
            floor: epoch,
            floors: BTreeMap::new(),
        }
    }

    /// Whether a decision about an object in this namespace counts.
    pub(super) fn accepts(&self, namespace: &str, epoch: Epoch) -> bool {
        epoch >= self.floor
            && self
                .floors
                .get(namespace)
                .is_none_or(|floor| epoch >= *floor)
            && self.collection.reach.contains_key(namespace)
    }

    /// The target goes on differently from the plan of this epoch on.
    pub(super) fn revise(
        &mut self,
        collection: Arc<Collection>,
        epoch: Epoch,
        revision: &Revision,
    ) {
        self.collection = collection;
        let again = match &revision.again {
            Again::Everything => {
                self.floor = epoch;
                self.floors.clear();
                return;
            }
            Again::Nothing => &BTreeSet::new(),
            Again::Namespaces(namespaces) => namespaces,
        };
        // A namespace that left is refused by not being in reach, and gets a floor when it
        // returns; so floors never outnumber the namespaces of the target.
        self.floors
            .retain(|name, _| self.collection.reach.contains_key(name));
        self.floors
            .extend(again.iter().map(|name| (Arc::clone(name), epoch)));
    }
}
