//! A part of a target's objects, as plain data: every rule about writes is here.
//!
//! Writes come from several sources that are not ordered among each other: a watch, a second watch
//! that is about to replace it, a list beside them. These rules make the result independent of
//! how they interleave:
//!
//! * A write about an older version of an object than is known is dropped; so is one about an
//!   object that a later list has not shown.
//! * A listing marks what it shows. When it ends, what it did not mark goes, unless it is newer
//!   than the listing: then the watch that continues after the listing speaks for it.
//! * While a listing is under way, objects that vanish are remembered, so that the listing cannot
//!   bring back an older state of them.
//! * A decision made with a plan that is no longer valid is dropped.
//!
//! [`Validity`](super::validity::Validity) says what is valid and what has been listed.

use kollect_watch::{ObjectIdentity, WatchScope};
use std::hash::BuildHasher;

use hashbrown::hash_table::Entry as Slot;
use hashbrown::{DefaultHashBuilder, HashTable};
use kollect_inventory::{Attributes, Row, Uid};

use super::entry::{Content, Entry, Outcome, State};
use crate::gates::Version;

/// Some of the objects of a target.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    table: HashTable<Entry>,
    /// The listings under way.
    listings: Vec<(u32, WatchScope)>,
    closed: bool,
}

/// One write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) object: ObjectIdentity<&'a str>,
    pub(super) version: Version,
    /// The plan with which it was decided is still valid.
    pub(super) valid: bool,
    /// Objects of the namespace that are not known did not exist, or were not collected, up to
    /// this version.
    pub(super) listed: Version,
    /// The listing it belongs to; none for what a watch reports.
    pub(super) listing: Option<u32>,
    pub(super) content: Content<'a>,
}

/// What a write, or an end of something, did.
#[derive(Debug, Default)]
pub(super) struct Effect {
    /// Rows before and after; both absent if no row changed.
    pub(super) before: Option<Row>,
    pub(super) after: Option<Row>,
    /// Change of the number of failing objects.
    pub(super) failing: isize,
    /// The object that fails no more.
    pub(super) recovered: Option<Row>,
    /// Change of the bytes on the heap for rows.
    pub(super) bytes: isize,
}

pub(super) fn hash_of(hasher: &DefaultHashBuilder, namespace: &str, name: &str) -> u64 {
    hasher.hash_one((namespace, name))
}

fn hash_entry(hasher: &DefaultHashBuilder, entry: &Entry) -> u64 {
    hash_of(hasher, entry.row.origin().namespace(), entry.row.name())
}

impl Stripe {
    /// Takes a write. `row` makes a row with the given attributes for the object.
    pub(super) fn write(
        &mut self,
        hash: u64,
        write: &Write<'_>,
        hasher: &DefaultHashBuilder,
        row: impl FnOnce(Attributes<'_>) -> Row,
    ) -> (Outcome, Effect) {
        let unaffected = |outcome| (outcome, Effect::default());
        let Write {
            object, version, ..
        } = *write;
        if self.closed {
            return unaffected(Outcome::Closed);
        }
        // That an object is gone is a fact, whatever the plan says.
        let superseded = !write.valid && !matches!(write.content, Content::Deleted);
        let mark = self.mark(write);
        let (state, attributes) = write.content.parts();
        let remember = write.listing.is_none() && self.is_listed(object.namespace);
        let is_object = |entry: &Entry| {
            entry.row.name() == object.name && entry.row.origin().namespace() == object.namespace
        };
        match self
            .table
            .entry(hash, is_object, |entry| hash_entry(hasher, entry))
        {
            Slot::Vacant(_) if superseded => unaffected(Outcome::Superseded),
            Slot::Vacant(_) if version.is_within(write.listed) => unaffected(Outcome::Stale),
            Slot::Vacant(_) if state == State::Gone && !remember => unaffected(Outcome::Unchanged),
            Slot::Vacant(slot) => {
                let entry = Entry {
                    row: row(attributes),
                    version,
                    mark,
                    state,
                };
                let effect = Effect {
                    after: entry.visible().cloned(),
                    failing: isize::from(state == State::Failed),
                    bytes: size(&entry.row),
                    ..Effect::default()
                };
                slot.insert(entry);
                let changed = state != State::Gone;
                (outcome(changed), effect)
            }
            Slot::Occupied(mut slot) => {
                let entry = slot.get_mut();
                // Whatever comes of the write, the listing showed that the object exists.
                entry.mark = entry.mark.max(mark);
                if superseded {
                    return unaffected(Outcome::Superseded);
                }
                if version.is_before(entry.version) {
                    return unaffected(Outcome::Stale);
                }
                let same_uid = entry.row.uid() == Uid::new(object.uid);
                // The end of an earlier object of that name says nothing about this one, unless
                // it is certainly later than what is known.
                if matches!(write.content, Content::Deleted)
                    && !same_uid
                    && !version.is_after(entry.version)
                {
                    return unaffected(Outcome::Stale);
                }
                let same = same_uid
                    && entry.state == state
                    && (state != State::Collected || entry.row.attributes() == attributes);
                let mut effect = Effect {
                    failing: isize::from(state == State::Failed)
                        - isize::from(entry.state == State::Failed),
                    ..Effect::without(entry)
                };
                if state == State::Failed {
                    effect.recovered = None;
                }
                if state == State::Gone && !remember {
                    let changed = entry.state != State::Gone;
                    slot.remove();
                    return (outcome(changed), effect);
                }
                if version != Version::UNKNOWN {
                    entry.version = version;
                }
                if same {
                    return unaffected(Outcome::Unchanged);
                }
                let changed = entry.state != State::Gone || state != State::Gone;
                entry.row = row(attributes);
                entry.state = state;
                effect.after = entry.visible().cloned();
                effect.bytes += size(&entry.row);
                (outcome(changed), effect)
            }
        }
    }

    /// The listing that a write confirms the object for. What a watch reports is none, except
    /// where its version cannot be compared with that of the listing: then it has to count as
    /// newer, so that it is not swept away.
    fn mark(&self, write: &Write<'_>) -> u32 {
        let newest = || self.listings.iter().map(|(number, _)| *number).max();
        match write.listing {
            Some(number) => number,
            None if write.version == Version::UNKNOWN => newest().unwrap_or(0),
            None => 0,
        }
    }

    fn is_listed(&self, namespace: &str) -> bool {
        self.listings
            .iter()
            .any(|(_, scope)| scope.contains(namespace))
    }

    /// A listing begins.
    pub(super) fn begin(&mut self, number: u32, scope: WatchScope) {
        self.listings.push((number, scope));
    }

    /// A listing ends, complete as of `at`, or abandoned. `speaks_for` tells of which namespaces
    /// in its scope it knows everything.
    pub(super) fn end(
        &mut self,
        number: u32,
        at: Option<Version>,
        speaks_for: impl Fn(&str) -> bool,
        hasher: &DefaultHashBuilder,
    ) -> Vec<Effect> {
        let position = self.listings.iter().position(|(known, _)| *known == number);
        let Some((_, scope)) = position.map(|position| self.listings.swap_remove(position)) else {
            return Vec::new();
        };
        let mut effects = at.map_or_else(Vec::new, |at| {
            self.remove(hasher, |entry| {
                entry.state != State::Gone
                    && entry.mark < number
                    && scope.contains(entry.row.origin().namespace())
                    && speaks_for(entry.row.origin().namespace())
                    && !entry.version.is_after(at)
            })
        });
        if self.listings.is_empty() {
            effects.extend(self.remove(hasher, |entry| entry.state == State::Gone));
        }
        effects
    }

    /// All objects of a namespace go.
    pub(super) fn leave(&mut self, namespace: &str, hasher: &DefaultHashBuilder) -> Vec<Effect> {
        self.remove(hasher, |entry| entry.row.origin().namespace() == namespace)
    }

    /// All objects go, and none comes any more.
    pub(super) fn close(&mut self, hasher: &DefaultHashBuilder) -> Vec<Effect> {
        self.closed = true;
        self.remove(hasher, |_| true)
    }

    fn remove(
        &mut self,
        hasher: &DefaultHashBuilder,
        mut goes: impl FnMut(&Entry) -> bool,
    ) -> Vec<Effect> {
        let removed = self.table.extract_if(|entry| goes(entry));
        let effects = removed.map(|entry| Effect::without(&entry)).collect();
        if self.table.capacity() > 64 && self.table.len() < self.table.capacity() / 4 {
            self.table.shrink_to_fit(|entry| hash_entry(hasher, entry));
        }
        effects
    }

    /// The row of one object.
    pub(super) fn row(&self, hash: u64, namespace: &str, name: &str) -> Option<&Row> {
        let is_object =
            |entry: &Entry| entry.row.name() == name && entry.row.origin().namespace() == namespace;
        self.table.find(hash, is_object)?.visible()
    }

    /// The rows, in no order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.table.iter().filter_map(Entry::visible)
    }

    /// Bytes on the heap for the table.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.allocation_size()
    }
}

impl Effect {
    /// The object goes, with everything that was known about it.
    fn without(entry: &Entry) -> Self {
        let fails = entry.state == State::Failed;
        Effect {
            before: entry.visible().cloned(),
            after: None,
            failing: -isize::from(fails),
            recovered: fails.then(|| entry.row.clone()),
            bytes: -size(&entry.row),
        }
    }
}

fn outcome(changed: bool) -> Outcome {
    if changed {
        Outcome::Changed
    } else {
        Outcome::Unchanged
    }
}

fn size(row: &Row) -> isize {
    isize::try_from(row.heap_bytes()).unwrap_or(isize::MAX)
}
