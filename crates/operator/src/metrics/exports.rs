//! What exports and probes count.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kollect_api::{InventoryId, InventoryScope, SinkKey, sink::SinkType};
use kollect_collect::engine::Durations;
use kollect_export::{ExportTask, Observer, SinkSource};
use kollect_sinks::{Receipt, SinkError};

use super::{
    catalogue as names,
    page::{Family, Page},
    passes::{BOUNDS, ErrorClass, Outcome, Resolution},
};
use crate::{keeper::Keeper, probes::ProbeObserver};

const KIND: &str = "KollectInventory";
const CLUSTER_KIND: &str = "KollectClusterInventory";

/// A delivery of this many bytes or more is worth a look.
const SPILL_WARN: u64 = 1024 * 1024;

/// The buckets of the time one export takes: those of a pass, and up to the deadline.
const EXPORT_BOUNDS: [Duration; 14] = {
    let mut bounds = [Duration::ZERO; 14];
    let mut at = 0;
    while at < BOUNDS.len() {
        bounds[at] = BOUNDS[at];
        at += 1;
    }
    bounds[11] = Duration::from_secs(30);
    bounds[12] = Duration::from_mins(1);
    bounds[13] = Duration::from_mins(2);
    bounds
};

/// Counts of exports and probes so far.
#[derive(Debug, Default)]
pub struct Exports {
    counts: Mutex<Counts>,
    /// Who counts tasks that panicked.
    keeper: Keeper,
}

#[derive(Debug, Default)]
struct Counts {
    sinks: BTreeMap<&'static str, Sink>,
    errors: BTreeMap<(&'static str, ErrorClass), u64>,
    /// Failed deliveries by kind of inventory.
    failures: BTreeMap<(&'static str, ErrorClass), u64>,
    /// Deliveries by type of sink, its namespace and how they ended.
    deliveries: BTreeMap<(&'static str, String, Outcome), u64>,
    spilling: u64,
    /// What became of references to sinks, and how often each result was new.
    known: BTreeMap<(InventoryId, SinkKey), Resolution>,
    references: BTreeMap<(&'static str, &'static str, Resolution), u64>,
    items: u64,
    probes: BTreeMap<(&'static str, bool), u64>,
    debounced: u64,
    inventories: BTreeMap<&'static str, usize>,
}

#[derive(Debug)]
struct Sink {
    durations: Durations<14>,
    bytes: u64,
    written: u64,
    removed: u64,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            durations: Durations::new(EXPORT_BOUNDS),
            bytes: 0,
            written: 0,
            removed: 0,
        }
    }
}

impl Exports {
    /// Tells `keeper` of tasks that panicked.
    pub fn kept_by(keeper: Keeper) -> Self {
        Self {
            keeper,
            ..Self::default()
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many inventories are in each state, and how many rows they select.
    pub fn inventories(&self, states: BTreeMap<&'static str, usize>, items: u64) {
        let mut counts = self.counts();
        counts.inventories = states;
        counts.items = items;
    }

    /// What became of an inventory's references to sinks. Counted when it is new.
    pub fn resolved(
        &self,
        inventory: &InventoryId,
        references: impl IntoIterator<Item = (SinkKey, Resolution)>,
    ) {
        let mut counts = self.counts();
        for (key, result) in references {
            let label = (kind(inventory), key.family.as_str(), result);
            let known = counts.known.insert((inventory.clone(), key), result);
            if known != Some(result) {
                *counts.references.entry(label).or_default() += 1;
            }
        }
    }

    /// Only these inventories are left.
    pub fn retain(&self, inventories: &BTreeSet<&InventoryId>) {
        let mut counts = self.counts();
        counts.known.retain(|(id, _), _| inventories.contains(id));
    }

    /// Failed deliveries, by kind of inventory.
    pub(super) fn errors(&self, family: &mut Family) {
        let counts = self.counts();
        for kind in [KIND, CLUSTER_KIND] {
            for class in ErrorClass::ALL {
                let count = counts.failures.get(&(kind, class)).copied();
                family.counter(&[kind, class.as_str()], count.unwrap_or(0));
            }
        }
    }

    /// References to sinks.
    pub(super) fn references(&self, family: &mut Family) {
        for ((kind, sort, result), count) in &self.counts().references {
            family.counter(&[kind, sort, result.as_str()], *count);
        }
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
        let family = page.family(&names::SINK_EXPORTS);
        for ((sink, namespace, outcome), count) in &counts.deliveries {
            family.counter(&[sink, namespace, outcome.as_str()], *count);
        }
        let family = page.family(&names::SINK_ERRORS);
        // Also those that never happened: what is not there before cannot be seen to grow.
        for sink in SinkType::ALL.map(SinkType::as_str) {
            for class in ErrorClass::ALL {
                let count = counts.errors.get(&(sink, class)).copied();
                family.counter(&[sink, class.as_str()], count.unwrap_or(0));
            }
        }
        page.family(&names::EXPORT_SPILL_WARN)
            .counter(&[], counts.spilling);
        page.family(&names::EXPORT_SHARD_WARN).counter(&[], 0);
        let family = page.family(&names::EXPORT_DEBOUNCED);
        family.counter(&["KollectInventory"], counts.debounced);
        let family = page.family(&names::CONNECTION_TEST);
        for sink in SinkType::ALL.map(SinkType::as_str) {
            for (success, result) in [(true, "success"), (false, "failure")] {
                let count = counts.probes.get(&(sink, success)).copied();
                family.counter(&[sink, result], count.unwrap_or(0));
            }
        }
        page.family(&names::INVENTORY_ITEMS)
            .gauge(&[], counts.items);
        let family = page.family(&names::INVENTORIES);
        for (state, count) in &counts.inventories {
            family.gauge(&[state], *count as u64);
        }
    }
}

impl Observer for Exports {
    fn delivered(
        &self,
        source: &SinkSource,
        inventory: &InventoryId,
        took: Duration,
        result: Result<&Receipt, &SinkError>,
    ) {
        let mut counts = self.counts();
        let sink = source.spec.sink_type().as_str();
        let of = counts.sinks.entry(sink).or_default();
        of.durations.observe(took);
        let outcome = match result {
            Ok(receipt) => {
                of.bytes += receipt.bytes;
                of.written += receipt.written;
                of.removed += receipt.removed;
                counts.spilling += u64::from(receipt.bytes >= SPILL_WARN);
                Outcome::Success
            }
            Err(error) => {
                let class = match error {
                    SinkError::Transient(_) | SinkError::OutOfStep(_) => ErrorClass::Transient,
                    SinkError::Terminal(_) => ErrorClass::Terminal,
                    SinkError::Forbidden(_) => ErrorClass::Forbidden,
                };
                *counts.errors.entry((sink, class)).or_default() += 1;
                let failures = &mut counts.failures;
                *failures.entry((kind(inventory), class)).or_default() += 1;
                Outcome::Failure
            }
        };
        // The sinks of other inventories are in as many namespaces as there are tenants.
        let namespace = match inventory.scope {
            InventoryScope::Cluster => source.key.namespace.clone(),
            InventoryScope::Namespace(_) => String::new(),
        };
        let deliveries = &mut counts.deliveries;
        *deliveries.entry((sink, namespace, outcome)).or_default() += 1;
    }

    fn panicked(&self, task: ExportTask) {
        self.keeper.count(task.as_str());
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

/// The kind of an inventory.
fn kind(inventory: &InventoryId) -> &'static str {
    match inventory.scope {
        InventoryScope::Cluster => CLUSTER_KIND,
        InventoryScope::Namespace(_) => KIND,
    }
}
