//! What changed between two states, and how changes pile up.
//!
//! A [`Change`] is a pair: the row before and the row after, either of which may be absent. That
//! is all it takes for changes to compose without looking at a full state: the first "before" and
//! the last "after" of a row are its change over the whole time, and if the two are equal nothing
//! happened. So a sink that was away for an hour gets one change per row that is different now,
//! and a row that came and went in between costs nothing.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::identity::Identity;
use crate::row::Row;
use crate::snapshot::Snapshot;

/// One row's change. Never empty: before and after differ, and at least one of them is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    before: Option<Row>,
    after: Option<Row>,
}

impl Change {
    /// The row as it was, unless it is new.
    pub fn before(&self) -> Option<&Row> {
        self.before.as_ref()
    }

    /// The row as it is, unless it is gone.
    pub fn after(&self) -> Option<&Row> {
        self.after.as_ref()
    }

    /// The row as it is or, if it is gone, as it was: both have the same identity.
    pub fn row(&self) -> &Row {
        self.after
            .as_ref()
            .or(self.before.as_ref())
            .expect("a change has at least one side")
    }

    /// Which row changed.
    pub fn identity(&self) -> Identity<'_> {
        self.row().identity()
    }
}

/// A set of changes, at most one per identity, in canonical order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta(BTreeMap<ByIdentity, Change>);

impl Delta {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// The difference between two states.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let mut changes = Vec::new();
        let (mut old, mut new) = (before.rows().iter(), after.rows().iter());
        let (mut left, mut right) = (old.next(), new.next());
        loop {
            let order = match (left, right) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) if a.is_same(b) => Ordering::Equal,
                (Some(a), Some(b)) => a.identity().cmp(&b.identity()),
            };
            let before = left.filter(|_| order.is_le());
            let after = right.filter(|_| order.is_ge());
            if before != after
                && let Some(row) = after.or(before)
            {
                let change = Change {
                    before: before.cloned(),
                    after: after.cloned(),
                };
                changes.push((ByIdentity(row.clone()), change));
            }
            if order.is_le() {
                left = old.next();
            }
            if order.is_ge() {
                right = new.next();
            }
        }
        // The changes are sorted, so the tree is built in one pass.
        Delta(changes.into_iter().collect())
    }

    /// Adds one step of a row's life to what is known already.
    ///
    /// `before` is what the row was just before this step. A replacement under another identity
    /// (the profile now names another version of the kind) is a deletion and an insertion.
    pub fn record(&mut self, before: Option<Row>, after: Option<Row>) {
        match (&before, &after) {
            (None, None) => {}
            (Some(old), Some(new)) if old.identity() != new.identity() => {
                self.step(old.clone(), before, None);
                self.step(new.clone(), None, after);
            }
            (Some(row), _) | (None, Some(row)) => self.step(row.clone(), before, after),
        }
    }

    fn step(&mut self, key: Row, before: Option<Row>, after: Option<Row>) {
        match self.0.entry(ByIdentity(key)) {
            Entry::Vacant(entry) => {
                if before != after {
                    entry.insert(Change { before, after });
                }
            }
            Entry::Occupied(mut entry) => {
                let change = entry.get_mut();
                change.after = after;
                if change.before == change.after {
                    entry.remove();
                }
            }
        }
    }

    /// This change followed by a later one, as one change.
    #[must_use]
    pub fn then(mut self, later: Delta) -> Delta {
        for (ByIdentity(key), change) in later.0 {
            self.step(key, change.before, change.after);
        }
        self
    }

    /// The changes in canonical order.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &Change> {
        self.0.values()
    }

    /// The rows that are gone, as they last were.
    ///
    /// Apply these before the upserts: an object that was deleted and created again under its old
    /// name is a deletion and an upsert, and both may map to one file or one key of a sink that
    /// looks at less than the full identity.
    pub fn deletes(&self) -> impl Iterator<Item = &Row> {
        self.changes()
            .filter(|change| change.after.is_none())
            .filter_map(Change::before)
    }

    /// The rows that are new or different, as they are now.
    pub fn upserts(&self) -> impl Iterator<Item = &Row> {
        self.changes().filter_map(Change::after)
    }

    /// The number of rows that changed.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A row as a map key: found and ordered by its identity alone.
#[derive(Debug, Clone)]
struct ByIdentity(Row);

impl Ord for ByIdentity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.identity().cmp(&other.0.identity())
    }
}

impl PartialOrd for ByIdentity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.0.identity() == other.0.identity()
    }
}

impl Eq for ByIdentity {}
