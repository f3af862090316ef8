//! What the control loops of the leader count: their passes and what failed.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kollect_collect::engine::Durations;

use super::{
    page::Family,
    passes::{BOUNDS, Outcome},
};

/// Counts by controller, which is what the loop of one kind is called on the page.
#[derive(Debug, Default)]
pub struct Reconciles(Mutex<BTreeMap<&'static str, Counts>>);

#[derive(Debug)]
struct Counts {
    success: u64,
    failure: u64,
    under_way: bool,
    durations: Durations<11>,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            success: 0,
            failure: 0,
            under_way: false,
            durations: Durations::new(BOUNDS),
        }
    }
}

impl Reconciles {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<&'static str, Counts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pass of a loop that serves these controllers begins.
    pub fn begin(&self, controllers: &'static [&'static str]) {
        let mut all = self.counts();
        for controller in controllers {
            all.entry(controller).or_default().under_way = true;
        }
    }

    /// It has ended.
    pub fn end(&self, controllers: &'static [&'static str], took: Duration, outcome: Outcome) {
        let mut all = self.counts();
        for controller in controllers {
            let counts = all.entry(controller).or_default();
            counts.under_way = false;
            counts.durations.observe(took);
            counts.count(outcome);
        }
    }

    /// Something that a controller had to do failed: a write, or an object that panicked.
    pub fn failed(&self, controller: &'static str) {
        let mut all = self.counts();
        all.entry(controller).or_default().count(Outcome::Failure);
    }

    pub(super) fn totals(&self, family: &mut Family) {
        for (controller, counts) in &*self.counts() {
            for (outcome, count) in [
                (Outcome::Success, counts.success),
                (Outcome::Failure, counts.failure),
            ] {
                if count > 0 {
                    family.counter(&[controller, outcome.as_str()], count);
                }
            }
        }
    }

    pub(super) fn durations(&self, family: &mut Family) {
        for (controller, counts) in &*self.counts() {
            family.histogram(&[controller], &counts.durations);
        }
    }

    pub(super) fn depths(&self, family: &mut Family) {
        for (controller, counts) in &*self.counts() {
            family.gauge(&[controller], u64::from(counts.under_way));
        }
    }
}

impl Counts {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Success => self.success += 1,
            Outcome::Failure => self.failure += 1,
        }
    }
}
