//! Which writes are still worth something.
//!
//! **Decisions grow old.** Between the moment a worker decides about an object and the moment it
//! writes, the target may have been changed: other rules, another profile, other namespaces. Such
//! a decision must not be written, because the list that follows the change may already have
//! looked at the object. It is not lost either: that list is made after the change, so it shows
//! the object.
//!
//! **Lists are knowledge.** After a list of a namespace has ended, everything up to its version is
//! known: what it did not show as collected is not collected. So a write about such an object that
//! is not newer than the list comes from somebody who is behind. That knowledge ends when the
//! target changes.

use kollect_watch::WatchScope;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::gates::Version;
use crate::plan::{Again, Collection, Epoch, Revision};

/// What is valid for a target.
#[derive(Debug)]
pub(super) struct Validity {
    collection: Arc<Collection>,
    everywhere: Since,
    /// Namespaces for which something else holds than everywhere. Only namespaces the target
    /// collects from are in here.
    apart: BTreeMap<Arc<str>, Since>,
}

/// Since when things are as they are.
#[derive(Debug, Clone, Copy)]
struct Since {
    /// Decisions of older plans are worth nothing.
    epoch: Epoch,
    /// Listings up to this number began before.
    listing: u32,
    /// Everything up to this version has been listed since.
    listed: Version,
}

impl Validity {
    /// Everything starts with the plan of this epoch.
    pub(super) fn new(collection: Arc<Collection>, epoch: Epoch) -> Self {
        Validity {
            collection,
            everywhere: Since {
                epoch,
                listing: 0,
                listed: Version::UNKNOWN,
            },
            apart: BTreeMap::new(),
        }
    }

    fn since(&self, namespace: &str) -> &Since {
        self.apart.get(namespace).unwrap_or(&self.everywhere)
    }

    /// Whether a decision about an object in this namespace counts.
    pub(super) fn accepts(&self, namespace: &str, epoch: Epoch) -> bool {
        epoch >= self.since(namespace).epoch && self.collection.reach.contains_key(namespace)
    }

    /// The version up to which a namespace is known.
    pub(super) fn listed(&self, namespace: &str) -> Version {
        self.since(namespace).listed
    }

    /// Whether a listing says everything about a namespace: the target looks there, and has not
    /// begun to look with other eyes since the listing began.
    pub(super) fn believes(&self, number: u32, namespace: &str) -> bool {
        number > self.since(namespace).listing && self.collection.reach.contains_key(namespace)
    }

    /// The target goes on differently from the plan of this epoch on. `listings` is the number of
    /// listings that have begun before.
    pub(super) fn revise(
        &mut self,
        collection: Arc<Collection>,
        epoch: Epoch,
        listings: u32,
        revision: &Revision,
    ) {
        self.collection = collection;
        let since = Since {
            epoch,
            listing: listings,
            listed: Version::UNKNOWN,
        };
        let again = match &revision.again {
            Again::Everything => {
                self.everywhere = since;
                self.apart.clear();
                return;
            }
            Again::Nothing => &BTreeSet::new(),
            Again::Namespaces(namespaces) => namespaces,
        };
        // A namespace that left is refused by not being in reach, and is one to be looked at again
        // when it returns.
        self.apart
            .retain(|name, _| self.collection.reach.contains_key(name));
        self.apart
            .extend(again.iter().map(|name| (Arc::clone(name), since)));
    }

    /// A listing has shown everything up to a version. One that began before the target was
    /// changed proves nothing, because it was looked at with other eyes.
    pub(super) fn finish(&mut self, number: u32, scope: &WatchScope, version: Version) {
        let learn = |since: &mut Since| {
            if number > since.listing && !version.is_before(since.listed) {
                since.listed = version;
            }
        };
        match scope {
            WatchScope::All => {
                learn(&mut self.everywhere);
                self.apart.values_mut().for_each(learn);
            }
            WatchScope::Namespace(name) if self.collection.reach.contains_key(name) => {
                let everywhere = self.everywhere;
                learn(self.apart.entry(Arc::clone(name)).or_insert(everywhere));
            }
            WatchScope::Namespace(_) => {}
        }
    }
}
