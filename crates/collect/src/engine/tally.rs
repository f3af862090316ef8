//! What the collection counts, for metrics.
//!
//! Dispatchers add with relaxed atomics and nothing else; whoever reads adds up. Counts of watches
//! that ended are kept with their resource, so that a count never falls while the resource is
//! watched, and are forgotten with it.

use kollect_watch::{ListingCause, Resource, WatchCounters};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kollect_inventory::TargetKind;

/// How long something took, as a histogram with fixed buckets.
#[derive(Debug)]
pub struct Durations<const N: usize> {
    bounds: [Duration; N],
    /// One per bound, and one for everything above.
    buckets: [AtomicU64; N],
    above: AtomicU64,
    nanoseconds: AtomicU64,
}

impl<const N: usize> Durations<N> {
    /// No durations yet; `bounds` ascend.
    pub const fn new(bounds: [Duration; N]) -> Self {
        Self {
            bounds,
            buckets: [const { AtomicU64::new(0) }; N],
            above: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// Adds one.
    pub fn observe(&self, took: Duration) {
        let bucket = self.bounds.iter().position(|bound| took <= *bound);
        bucket
            .map_or(&self.above, |at| &self.buckets[at])
            .fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The upper bound of each bucket in seconds and how many fell into it, the last one without
    /// a bound.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().map(Duration::as_secs_f64);
        let counts = self.buckets.iter().chain([&self.above]);
        bounds
            .chain([f64::INFINITY])
            .zip(counts.map(|count| count.load(Ordering::Relaxed)))
            .collect()
    }

    /// All durations together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

/// The buckets of the time one event takes.
const DISPATCH: [Duration; 11] = {
    let micros = [
        500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    ];
    let mut bounds = [Duration::ZERO; 11];
    let mut at = 0;
    while at < micros.len() {
        bounds[at] = Duration::from_micros(micros[at]);
        at += 1;
    }
    bounds
};

/// What all dispatchers count together.
#[derive(Debug)]
pub struct Tally {
    /// How long one event takes for all targets of its resource: match, extract, store.
    pub dispatch: Durations<11>,
    target_failures: AtomicU64,
    cluster_target_failures: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            dispatch: Durations::new(DISPATCH),
            target_failures: AtomicU64::new(0),
            cluster_target_failures: AtomicU64::new(0),
        }
    }
}

impl Tally {
    /// How often an object could not be extracted for a target of this kind.
    pub fn extraction_failures(&self, owner: TargetKind) -> u64 {
        self.failures(owner).load(Ordering::Relaxed)
    }

    pub(super) fn extraction_failed(&self, owner: TargetKind) {
        self.failures(owner).fetch_add(1, Ordering::Relaxed);
    }

    fn failures(&self, owner: TargetKind) -> &AtomicU64 {
        match owner {
            TargetKind::Target => &self.target_failures,
            TargetKind::ClusterTarget => &self.cluster_target_failures,
        }
    }
}

/// What the dispatchers of one resource count.
#[derive(Debug, Default)]
pub struct ResourceTally {
    namespace_mismatches: AtomicU64,
}

impl ResourceTally {
    /// How often a target did not get an object because of its namespace.
    pub fn namespace_mismatches(&self) -> u64 {
        self.namespace_mismatches.load(Ordering::Relaxed)
    }

    pub(super) fn mismatched(&self, targets: usize) {
        if targets > 0 {
            self.namespace_mismatches
                .fetch_add(targets as u64, Ordering::Relaxed);
        }
    }
}

/// What watches and lists have carried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// Objects and deletions that arrived.
    pub events: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Requests made because the one before ended.
    pub reconnects: u64,
    /// Listings, by cause in the order of [`ListingCause::ALL`].
    pub listings: [u64; ListingCause::ALL.len()],
}

impl Carried {
    fn add(&mut self, counters: &WatchCounters) {
        self.events += counters.events();
        self.bytes += counters.bytes();
        self.reconnects += counters.reconnects();
        for (count, cause) in self.listings.iter_mut().zip(ListingCause::ALL) {
            *count += counters.listings(cause);
        }
    }
}

/// The traffic of one resource: watches that run, lists beside them, and what has ended.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// What the dispatchers count.
    pub tally: Arc<ResourceTally>,
    ended: Carried,
    running: Vec<Arc<WatchCounters>>,
}

impl Traffic {
    /// Everything carried so far.
    pub fn carried(&self) -> Carried {
        let mut carried = self.ended.clone();
        for counters in &self.running {
            carried.add(counters);
        }
        carried
    }
}

/// The traffic of all resources.
#[derive(Debug, Default)]
pub(super) struct Ledger(BTreeMap<Arc<Resource>, Traffic>);

impl Ledger {
    /// The tally of a resource.
    pub(super) fn tally(&mut self, resource: &Arc<Resource>) -> Arc<ResourceTally> {
        let traffic = self.0.entry(Arc::clone(resource)).or_default();
        Arc::clone(&traffic.tally)
    }

    /// Counts what a watch or list carries from now on.
    pub(super) fn started(&mut self, resource: &Arc<Resource>, counters: &Arc<WatchCounters>) {
        let traffic = self.0.entry(Arc::clone(resource)).or_default();
        traffic.running.push(Arc::clone(counters));
    }

    /// Keeps the final counts of what is no longer `live`, and forgets resources that are not
    /// `wanted`.
    pub(super) fn tidy<'c>(
        &mut self,
        live: impl Iterator<Item = &'c Arc<WatchCounters>>,
        wanted: impl Fn(&Resource) -> bool,
    ) {
        let live: BTreeSet<*const WatchCounters> = live.map(Arc::as_ptr).collect();
        self.0.retain(|resource, traffic| {
            let Traffic { ended, running, .. } = traffic;
            running.retain(|counters| {
                let lives = live.contains(&Arc::as_ptr(counters));
                if !lives {
                    ended.add(counters);
                }
                lives
            });
            wanted(resource) || !running.is_empty()
        });
    }

    /// A copy whose counts go on.
    pub(super) fn copy(&self) -> Vec<(Arc<Resource>, Traffic)> {
        let all = self.0.iter();
        all.map(|(resource, traffic)| (Arc::clone(resource), traffic.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let durations = Durations::new([Duration::from_millis(1), Duration::from_millis(5)]);
        for micros in [1, 1_000, 1_001, 5_000, 5_001, 9_000_000] {
            durations.observe(Duration::from_micros(micros));
        }
        let expected = [(0.001, 2), (0.005, 2), (f64::INFINITY, 2)];
        assert_eq!(durations.buckets(), expected);
        assert_eq!(durations.sum(), Duration::from_micros(9_012_003));
    }

    #[test]
    fn what_is_no_longer_wanted_and_no_longer_runs_is_forgotten() {
        let resource = Arc::new(Resource {
            group: String::new(),
            version: "v1".into(),
            plural: "pods".into(),
            namespaced: true,
        });
        let counters = Arc::new(WatchCounters::default());
        let mut ledger = Ledger::default();
        ledger.tally(&resource).mismatched(3);
        ledger.started(&resource, &counters);
        let running = |ledger: &Ledger| {
            let all = ledger.copy();
            all.first().map(|(_, traffic)| traffic.running.len())
        };
        ledger.tidy([&counters].into_iter(), |_| false);
        assert_eq!(running(&ledger), Some(1), "it still runs");
        ledger.tidy(std::iter::empty(), |_| true);
        assert_eq!(running(&ledger), Some(0), "it has ended");
        assert_eq!(ledger.copy()[0].1.tally.namespace_mismatches(), 3);
        ledger.tidy(std::iter::empty(), |_| false);
        assert_eq!(running(&ledger), None);
    }
}
