//! What exports and probes count.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kollect_api::sink::SinkType;
use kollect_collect::engine::Durations;
use kollect_export::Observer;
use kollect_sinks::{Receipt, SinkError};

use super::{
    catalogue as names,
    page::Page,
    passes::{BOUNDS, ErrorClass},
};
use crate::probes::ProbeObserver;

/// Counts of exports and probes so far.
#[derive(Debug, Default)]
pub struct Exports(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sinks: BTreeMap<&'static str, Sink>,
    errors: BTreeMap<(&'static str, ErrorClass), u64>,
    probes: BTreeMap<(&'static str, bool), u64>,
    debounced: u64,
    inventories: BTreeMap<&'static str, usize>,
}

#[derive(Debug)]
struct Sink {
    durations: Durations<11>,
    bytes: u64,
    written: u64,
    removed: u64,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            durations: Durations::new(BOUNDS),
            bytes: 0,
            written: 0,
            removed: 0,
        }
    }
}

impl Exports {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many inventories are in each state.
    pub fn inventories(&self, states: BTreeMap<&'static str, usize>) {
        self.counts().inventories = states;
    }

    pub(super) fn write(&self, page: &mut Page) {
        let counts = self.counts();
        let family = page.family(&names::EXPORT_DURATION);
        for (sink, counts) in &counts.sinks {
            family.histogram(&[sink], &counts.durations);
        }
        let family = page.family(&names::EXPORT_BYTES);
        for (sink, counts) in &counts.sinks {
            family.counter(&[sink], counts.bytes);
        }
        let family = page.family(&names::EXPORT_ROWS);
        for (sink, counts) in &counts.sinks {
            family.counter(&[sink, "written"], counts.written);
            family.counter(&[sink, "removed"], counts.removed);
        }
        let family = page.family(&names::SINK_ERRORS);
        for ((sink, class), count) in &counts.errors {
            family.counter(&[sink, class.as_str()], *count);
        }
        let family = page.family(&names::EXPORT_DEBOUNCED);
        family.counter(&["KollectInventory"], counts.debounced);
        let family = page.family(&names::CONNECTION_TEST);
        for ((sink, success), count) in &counts.probes {
            let result = if *success { "success" } else { "failure" };
            family.counter(&[sink, result], *count);
        }
        let family = page.family(&names::INVENTORIES);
        for (state, count) in &counts.inventories {
            family.gauge(&[state], *count as u64);
        }
    }
}

impl Observer for Exports {
    fn delivered(&self, sink: SinkType, took: Duration, result: Result<&Receipt, &SinkError>) {
        let mut counts = self.counts();
        let of = counts.sinks.entry(sink.as_str()).or_default();
        of.durations.observe(took);
        match result {
            Ok(receipt) => {
                of.bytes += receipt.bytes;
                of.written += receipt.written;
                of.removed += receipt.removed;
            }
            Err(error) => {
                let class = match error {
                    SinkError::Transient(_) | SinkError::OutOfStep(_) => ErrorClass::Transient,
                    SinkError::Terminal(_) => ErrorClass::Terminal,
                    SinkError::Forbidden(_) => ErrorClass::Forbidden,
                };
                *counts.errors.entry((sink.as_str(), class)).or_default() += 1;
            }
        }
    }

    fn debounced(&self) {
        self.counts().debounced += 1;
    }
}

impl ProbeObserver for Exports {
    fn probed(&self, sink: SinkType, success: bool) {
        *self
            .counts()
            .probes
            .entry((sink.as_str(), success))
            .or_default() += 1;
    }
}
