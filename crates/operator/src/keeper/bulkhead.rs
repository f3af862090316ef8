//! Keeps the panics of one object away from the others of the same loop.

use std::{
    collections::BTreeMap,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::condition::Condition;
use tokio::time::Instant;

use super::{EndedHow, Keeper, back_off};
use crate::statements;

/// What came of looking at an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt<T> {
    /// It was looked at.
    Done(T),
    /// That panicked; it is looked at again then.
    Panicked(Instant),
    /// It panicked lately, and is left alone until then.
    Resting(Instant),
}

impl<T> Attempt<T> {
    /// When to look again at an object that panicked.
    pub fn again(&self) -> Option<Instant> {
        match self {
            Self::Done(_) => None,
            Self::Panicked(at) | Self::Resting(at) => Some(*at),
        }
    }
}

/// Looks at objects one by one. One that makes this panic rests for a while.
#[derive(Debug)]
pub struct Bulkhead<K> {
    keeper: Keeper,
    task: &'static str,
    hurt: BTreeMap<K, (u32, Instant)>,
}

/// Without a keeper of its own; to be put back after a moment.
impl<K> Default for Bulkhead<K> {
    fn default() -> Self {
        Self {
            keeper: Keeper::default(),
            task: "",
            hurt: BTreeMap::new(),
        }
    }
}

impl<K: Clone + Ord + Display> Bulkhead<K> {
    /// For the objects of one task.
    pub fn new(keeper: Keeper, task: &'static str) -> Self {
        Self {
            keeper,
            task,
            hurt: BTreeMap::new(),
        }
    }

    /// Does what there is to do for an object, unless it rests. A panic is told, as an event about
    /// the object.
    pub fn attempt<T>(
        &mut self,
        key: &K,
        work: impl FnOnce() -> T,
        tell: impl FnOnce(&Condition),
    ) -> Attempt<T> {
        if let Some(until) = self.rests(key) {
            return Attempt::Resting(until);
        }
        if let Ok(done) = catch_unwind(AssertUnwindSafe(work)) {
            self.forget(key);
            return Attempt::Done(done);
        }
        let again = self.note(key, EndedHow::Panicked);
        tell(&statements::panic_condition(Time(Timestamp::now())));
        Attempt::Panicked(again)
    }

    /// Something that ran for this object ended. Returns until when it rests.
    pub fn note(&mut self, key: &K, how: EndedHow) -> Instant {
        let failures = self.hurt.get(key).map_or(0, |(failures, _)| *failures);
        let failures = failures.saturating_add(1);
        let wait = back_off(failures);
        self.keeper.note(self.task, key, how, wait);
        let until = Instant::now() + wait;
        self.hurt.insert(key.clone(), (failures, until));
        until
    }

    /// Until when an object rests, if it does.
    pub fn rests(&self, key: &K) -> Option<Instant> {
        let (_, until) = self.hurt.get(key)?;
        (Instant::now() < *until).then_some(*until)
    }

    /// All is well with an object.
    pub fn forget(&mut self, key: &K) {
        self.hurt.remove(key);
    }

    /// Forgets the objects for which this does not hold.
    pub fn retain(&mut self, holds: impl Fn(&K) -> bool) {
        self.hurt.retain(|key, _| holds(key));
    }
}
