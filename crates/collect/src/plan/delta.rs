//! What a new plan changes.

use kollect_watch::{Resource, WatchScope};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

use super::Plan;
use super::collection::{Collection, Reach};
use super::key::TargetKey;
use super::target::{Course, TargetPlan};
use super::watch::Watch;

/// The way from one plan to the next. What is not mentioned stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanDelta {
    /// What happens with targets.
    pub targets: BTreeMap<TargetKey, TargetChange>,
    /// Watches to open. Their first list goes to all targets in their scope.
    pub open: BTreeSet<Watch>,
    /// Watches to close: at once if `open` has none for the resource, else as soon as those have
    /// finished their first list.
    pub close: BTreeSet<Watch>,
    /// Lists to make beside watches that stay open, and the targets they are for.
    pub relist: BTreeMap<(Arc<Resource>, WatchScope), BTreeSet<TargetKey>>,
}

/// What happens with one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetChange {
    /// It starts to collect.
    Start,
    /// It starts anew, because it now collects another kind: all its rows go first.
    Restart,
    /// It goes on, differently.
    Revise(Revision),
    /// It stops; its rows go.
    End,
    /// Whether it will collect is not known. It has no rows and is not complete.
    Wait,
}

/// How a target that goes on changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revision {
    /// Namespaces it no longer wants; their rows go at once.
    pub left: BTreeSet<Arc<str>>,
    /// Namespaces that cannot be read any more, though it wants them; their rows stay as they are,
    /// whatever lists under way say, until they are looked at again.
    pub lost: BTreeSet<Arc<str>>,
    /// What has to be looked at again.
    pub again: Again,
}

/// Which objects have to be decided about again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Again {
    /// None.
    #[default]
    Nothing,
    /// All of the target: its profile or its selection changed.
    Everything,
    /// Those in these namespaces: they are new to the target, or their labels or annotations
    /// changed in a way that matters to it.
    Namespaces(BTreeSet<Arc<str>>),
}

impl PlanDelta {
    pub(super) fn between(old: &Plan, new: &Plan, limit: usize) -> Self {
        let mut delta = PlanDelta::default();
        let mut moves = Moves::default();
        for (key, target) in &new.targets {
            let before = old.targets.get(key);
            if before.is_some_and(|before| Arc::ptr_eq(before, target)) {
                continue;
            }
            let change = change(before.map(|plan| &**plan), target, &mut moves);
            if let Some(change) = change {
                delta.targets.insert(key.clone(), change);
            }
        }
        for (key, plan) in &old.targets {
            if !new.targets.contains_key(key) && !matches!(plan.course, Course::Stop) {
                delta.targets.insert(key.clone(), TargetChange::End);
            }
        }
        let before: BTreeSet<&Watch> = old.watches().collect();
        let after: BTreeSet<&Watch> = new.watches().collect();
        let owned = |watches: &mut dyn Iterator<Item = &&Watch>| {
            watches.map(|watch| Watch::clone(watch)).collect()
        };
        delta.open = owned(&mut after.difference(&before));
        delta.close = owned(&mut before.difference(&after));
        delta.find_relists(new, limit);
        delta
    }

    /// Whether nothing has to be done.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.open.is_empty() && self.close.is_empty()
    }

    /// Finds what must be listed although no watch is opened for it.
    fn find_relists(&mut self, plan: &Plan, limit: usize) {
        for (key, change) in &self.targets {
            let Some(target) = plan.targets.get(key) else {
                continue;
            };
            let Some(collection) = target.collection() else {
                continue;
            };
            let namespaces: Vec<&Arc<str>> = match change {
                TargetChange::End | TargetChange::Wait => continue,
                TargetChange::Start | TargetChange::Restart => collection.reach.keys().collect(),
                TargetChange::Revise(revision) => match &revision.again {
                    Again::Nothing => continue,
                    Again::Everything => collection.reach.keys().collect(),
                    Again::Namespaces(namespaces) => namespaces.iter().collect(),
                },
            };
            let watches = plan.watches_of(&collection.resource);
            // One large list is a smaller burden than many small ones.
            let scopes: BTreeSet<WatchScope> = if namespaces.len() > limit
                && watches.iter().any(|watch| watch.scope == WatchScope::All)
            {
                BTreeSet::from([WatchScope::All])
            } else {
                namespaces.into_iter().map(WatchScope::of).collect()
            };
            for scope in scopes {
                // Without a watch there is nothing to list yet; a new watch lists by itself.
                let watch = watches.iter().find(|watch| watch.scope.covers(&scope));
                if watch.is_some_and(|watch| !self.open.contains(watch)) {
                    let place = (Arc::clone(&collection.resource), scope);
                    self.relist.entry(place).or_default().insert(key.clone());
                }
            }
        }
    }
}

fn change(old: Option<&TargetPlan>, new: &TargetPlan, moves: &mut Moves) -> Option<TargetChange> {
    let before = old.map(|old| &old.course);
    match (before, &new.course) {
        (Some(Course::Collect(old)), Course::Collect(new)) => {
            if old.resource != new.resource || old.extraction.gvk() != new.extraction.gvk() {
                return Some(TargetChange::Restart);
            }
            let revision = revision(old, new, moves);
            (revision != Revision::default()).then_some(TargetChange::Revise(revision))
        }
        (_, Course::Collect(_)) => Some(TargetChange::Start),
        (None | Some(Course::Stop), Course::Stop) | (Some(Course::Wait), Course::Wait) => None,
        (_, Course::Stop) => Some(TargetChange::End),
        (_, Course::Wait) => Some(TargetChange::Wait),
    }
}

fn revision(old: &Collection, new: &Collection, moves: &mut Moves) -> Revision {
    let left = moves.between(&old.wanted, &new.wanted).left.clone();
    let moved = moves.between(&old.reach, &new.reach);
    let lost = moved.left.difference(&left).cloned().collect();
    let other_selection =
        !Arc::ptr_eq(&old.selection, &new.selection) && old.selection != new.selection;
    let asked_for = old.requested_at != new.requested_at && new.requested_at.is_some();
    let again = if old.extraction != new.extraction || other_selection || asked_for {
        Again::Everything
    } else if moved.changed.is_empty() {
        Again::Nothing
    } else {
        Again::Namespaces(moved.changed.clone())
    };
    Revision { left, lost, again }
}

/// How reaches differ, found once for all targets that share them.
#[derive(Debug, Default)]
struct Moves(HashMap<(*const Reach, *const Reach), Moved>);

/// How one reach differs from the one before.
#[derive(Debug, Default)]
struct Moved {
    left: BTreeSet<Arc<str>>,
    /// New, or with another gate.
    changed: BTreeSet<Arc<str>>,
}

impl Moves {
    fn between(&mut self, old: &Arc<Reach>, new: &Arc<Reach>) -> &Moved {
        let pair = (Arc::as_ptr(old), Arc::as_ptr(new));
        self.0.entry(pair).or_insert_with(|| {
            if Arc::ptr_eq(old, new) {
                return Moved::default();
            }
            let left = old.keys().filter(|name| !new.contains_key(*name));
            let changed = new.iter();
            let changed = changed.filter(|(name, gate)| old.get(*name) != Some(gate));
            Moved {
                left: left.cloned().collect(),
                changed: changed.map(|(name, _)| Arc::clone(name)).collect(),
            }
        })
    }
}
