//! Whether everything a target collects has been listed once.

use kollect_watch::WatchScope;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How far a target is with its first listing.
///
/// Once complete it stays so: a namespace that joins later, or a list that is repeated, does not
/// make unknown what was known. Collecting another kind does; that is a new target here.
#[derive(Debug)]
pub(super) enum Sync {
    /// It is not even known what will be collected.
    Unknown,
    /// Some namespaces have not been listed yet.
    Partial {
        /// All that belong to the target.
        all: BTreeSet<Arc<str>>,
        /// Those not listed yet.
        unlisted: BTreeSet<Arc<str>>,
    },
    /// All have.
    Complete,
}

impl Sync {
    /// Everything is still to be listed. A target that collects from nowhere is complete at once.
    pub(super) fn expecting(all: BTreeSet<Arc<str>>) -> Self {
        if all.is_empty() {
            Sync::Complete
        } else {
            Sync::Partial {
                unlisted: all.clone(),
                all,
            }
        }
    }

    /// The target now collects from these namespaces. Returns whether that completed it.
    pub(super) fn expect(&mut self, now: BTreeSet<Arc<str>>) -> bool {
        let Sync::Partial { all, unlisted } = self else {
            return false;
        };
        unlisted.retain(|name| now.contains(name));
        unlisted.extend(now.difference(all).cloned());
        *all = now;
        self.settle()
    }

    /// A scope has been listed. Returns whether that completed the target.
    pub(super) fn listed(&mut self, scope: &WatchScope) -> bool {
        let Sync::Partial { unlisted, .. } = self else {
            return false;
        };
        unlisted.retain(|namespace| !scope.contains(namespace));
        self.settle()
    }

    fn settle(&mut self) -> bool {
        let complete = matches!(self, Sync::Partial { unlisted, .. } if unlisted.is_empty());
        if complete {
            *self = Sync::Complete;
        }
        complete
    }

    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Sync::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn scope(name: &str) -> WatchScope {
        WatchScope::Namespace(name.into())
    }

    #[test]
    fn complete_when_every_namespace_was_listed_and_for_good() {
        let mut sync = Sync::expecting(names(&["a", "b"]));
        assert!(!sync.listed(&scope("a")));
        assert!(!sync.expect(names(&["a", "b", "c"])));
        assert!(!sync.listed(&scope("b")));
        assert!(sync.listed(&scope("c")));
        assert!(!sync.expect(names(&["d"])));
        assert!(sync.is_complete());
    }

    #[test]
    fn a_namespace_that_left_is_not_waited_for_and_one_that_came_back_is() {
        let mut sync = Sync::expecting(names(&["a", "b"]));
        assert!(!sync.listed(&scope("a")));
        assert!(!sync.expect(names(&["b"])));
        assert!(!sync.expect(names(&["a", "b"])));
        assert!(!sync.listed(&scope("b")));
        assert!(sync.expect(names(&["b"])));
    }

    #[test]
    fn a_wide_listing_covers_all_and_nothing_is_complete_at_once() {
        assert!(Sync::expecting(names(&["a", "b"])).listed(&WatchScope::All));
        assert!(Sync::expecting(names(&[])).is_complete());
        assert!(!Sync::Unknown.listed(&WatchScope::All));
    }
}
