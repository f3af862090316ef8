//! Whether everything a target collects has been listed once.

use kollect_watch::WatchScope;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a target collects from.
#[derive(Debug, Clone, Default)]
pub(super) struct Expected {
    /// All namespaces that belong to it.
    pub(super) all: BTreeSet<Arc<str>>,
    /// Those that may not be read, while others may: nobody waits for them.
    pub(super) refused: BTreeSet<Arc<str>>,
}

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
        expected: Expected,
        /// Those not listed yet.
        unlisted: BTreeSet<Arc<str>>,
    },
    /// All have, but for some that may not be read.
    Complete {
        /// Namespaces of which nothing is known, because they could not be listed in this process.
        dark: BTreeSet<Arc<str>>,
    },
}

impl Sync {
    /// Everything is still to be listed. A target that collects from nowhere is complete at once.
    pub(super) fn expecting(expected: Expected) -> Self {
        let mut sync = Sync::Partial {
            unlisted: expected.all.clone(),
            expected,
        };
        sync.settle();
        sync
    }

    /// The target now collects from these namespaces. Returns whether that completed it, or
    /// settled what becomes of something dark.
    pub(super) fn expect(&mut self, now: Expected) -> bool {
        match self {
            Sync::Unknown => false,
            Sync::Partial { expected, unlisted } => {
                unlisted.retain(|name| now.all.contains(name));
                unlisted.extend(now.all.difference(&expected.all).cloned());
                *expected = now;
                self.settle()
            }
            Sync::Complete { dark } => forget(dark, |name| !now.all.contains(name)),
        }
    }

    /// A scope has been listed, as far as the list `speaks_for` namespaces in it. Returns whether
    /// that completed the target, or settled what there is in something dark.
    pub(super) fn listed(&mut self, scope: &WatchScope, speaks_for: impl Fn(&str) -> bool) -> bool {
        let listed = |name: &str| scope.contains(name) && speaks_for(name);
        match self {
            Sync::Unknown => false,
            Sync::Partial { unlisted, .. } => {
                forget(unlisted, listed);
                self.settle()
            }
            Sync::Complete { dark } => forget(dark, listed),
        }
    }

    fn settle(&mut self) -> bool {
        let Sync::Partial { expected, unlisted } = self else {
            return false;
        };
        let complete = unlisted.is_subset(&expected.refused);
        if complete {
            let dark = std::mem::take(unlisted);
            *self = Sync::Complete { dark };
        }
        complete
    }

    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Sync::Complete { .. })
    }

    /// The namespaces of which nothing is known although the target is complete.
    pub(super) fn dark(&self) -> Option<&BTreeSet<Arc<str>>> {
        match self {
            Sync::Complete { dark } if !dark.is_empty() => Some(dark),
            _ => None,
        }
    }
}

/// Takes names out. Returns whether there were any.
fn forget(names: &mut BTreeSet<Arc<str>>, goes: impl Fn(&str) -> bool) -> bool {
    let before = names.len();
    names.retain(|name| !goes(name));
    names.len() < before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn expected(all: &[&str], refused: &[&str]) -> Expected {
        Expected {
            all: names(all),
            refused: names(refused),
        }
    }

    fn all_of(names: &[&str]) -> Expected {
        expected(names, &[])
    }

    fn list(sync: &mut Sync, name: &str) -> bool {
        sync.listed(&WatchScope::Namespace(name.into()), |_| true)
    }

    #[test]
    fn complete_when_every_namespace_was_listed_and_for_good() {
        let mut sync = Sync::expecting(all_of(&["a", "b"]));
        assert!(!list(&mut sync, "a"));
        assert!(!sync.expect(all_of(&["a", "b", "c"])));
        assert!(!list(&mut sync, "b"));
        assert!(list(&mut sync, "c"));
        assert!(!sync.expect(all_of(&["d"])));
        assert!(sync.is_complete());
    }

    #[test]
    fn a_namespace_that_left_is_not_waited_for_and_one_that_came_back_is() {
        let mut sync = Sync::expecting(all_of(&["a", "b"]));
        assert!(!list(&mut sync, "a"));
        assert!(!sync.expect(all_of(&["b"])));
        assert!(!sync.expect(all_of(&["a", "b"])));
        assert!(!list(&mut sync, "b"));
        assert!(sync.expect(all_of(&["b"])));
    }

    #[test]
    fn a_wide_listing_covers_all_and_nothing_is_complete_at_once() {
        let all = WatchScope::All;
        assert!(Sync::expecting(all_of(&["a", "b"])).listed(&all, |_| true));
        assert!(Sync::expecting(all_of(&[])).is_complete());
        assert!(!Sync::Unknown.listed(&all, |_| true));
    }

    #[test]
    fn a_list_says_nothing_of_namespaces_it_does_not_speak_for() {
        let mut sync = Sync::expecting(all_of(&["a", "b"]));
        assert!(!sync.listed(&WatchScope::All, |name| name != "b"));
        assert!(list(&mut sync, "b"));
    }

    #[test]
    fn what_may_not_be_read_is_not_waited_for_and_stays_dark_until_it_was_listed_or_left() {
        let mut sync = Sync::expecting(expected(&["a", "b", "c"], &["b", "c"]));
        assert!(!sync.is_complete());
        assert!(list(&mut sync, "a"));
        assert_eq!(sync.dark(), Some(&names(&["b", "c"])));
        // That it may be read now does not mean that it was.
        assert!(!sync.expect(all_of(&["a", "b", "c"])));
        assert_eq!(sync.dark(), Some(&names(&["b", "c"])));
        assert!(list(&mut sync, "b"));
        assert!(sync.expect(all_of(&["a", "b"])));
        assert_eq!(sync.dark(), None);
        // What was listed is known, and what joins later was never anybody's.
        assert!(!sync.expect(expected(&["a", "b", "d"], &["b", "d"])));
        assert_eq!(sync.dark(), None);
    }
}
