//! Metrics of the collection, computed when somebody looks.
//!
//! Nothing is kept up to date for the case that a scraper comes: a scrape reads the store, the
//! plan in force and a few counters through [`Observed`] and writes what it finds. So no gauge can
//! be stale, and series of targets, attributes and resources that are gone are gone too.
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`catalogue`] | every metric with its type, labels and meaning |
//! | [`admissions`] | what webhooks count |
//! | [`observed`] | what a scrape may look at, published by the control loop |
//! | [`conditions`] | what our objects say of themselves |
//! | [`exports`] | what exports and probes count |
//! | [`passes`] | what the control loop of the collection counts |
//! | [`reconciles`] | what the other control loops count |
//! | `profile_series` | the series that profiles define |
//! | `page` | samples as OpenMetrics text |

pub mod admissions;
pub mod catalogue;
pub mod conditions;
pub mod exports;
pub mod observed;
mod page;
pub mod passes;
mod profile_series;
pub mod reconciles;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use kollect_collect::plan::TargetKey;
use kollect_inventory::TargetKind;
use kollect_watch::{ListingCause, Resource, WatchScope, connection::load};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::Registry,
};

use self::{catalogue as names, page::Page, passes::ErrorClass, profile_series::ProfileSeries};

pub use self::observed::{Observed, Readiness, Scene};

/// How long series of profiles may be reused unless somebody says otherwise.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);

/// The page of metrics.
#[derive(Debug)]
pub struct Metrics(Registry);

impl Metrics {
    /// Reads from `observed`. The rows of a target are looked through at most once per
    /// `sample_interval`, so that scrapers cannot keep the process busy.
    pub fn new(observed: Arc<Observed>, sample_interval: Duration) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Collection {
            observed,
            series: Mutex::new(ProfileSeries::new(sample_interval)),
        }));
        Self(registry)
    }

    /// The page as OpenMetrics text. Looks through rows: not for a thread that must not wait.
    pub fn render(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut page, &self.0);
        page
    }
}

/// The collection as a scrape sees it.
struct Collection {
    observed: Arc<Observed>,
    series: Mutex<ProfileSeries>,
}

impl Collector for Collection {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::default();
        let scene = self.observed.scene();
        self.reconciliation(&mut page);
        self.rows(&scene, &mut page);
        watches(&scene, &mut page);
        self.dispatch(&mut page);
        self.references(&mut page);
        self.observed.exports.write(&mut page);
        self.observed.admissions.write(&mut page);
        conditions::write(self.observed.told(), &mut page);
        self.series
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write(&self.observed.store, &scene.plan, Instant::now(), &mut page);
        page.encode(encoder)
    }
}

impl Collection {
    fn reconciliation(&self, page: &mut Page) {
        let passes = &self.observed.passes;
        let counts = passes.counts();
        let total = page.family(&names::RECONCILE_TOTAL);
        for ((owner, outcome), count) in &counts.passes {
            total.counter(&[controller(*owner), outcome.as_str()], *count);
        }
        let reconciles = &self.observed.reconciles;
        reconciles.totals(total);
        let durations = page.family(&names::RECONCILE_DURATION);
        for owner in OWNERS {
            durations.histogram(&[controller(owner)], passes.durations());
        }
        reconciles.durations(durations);
        let depth = page.family(&names::WORKQUEUE_DEPTH);
        for owner in OWNERS {
            let under_way = u64::from(passes.is_under_way());
            depth.gauge(&[controller(owner)], under_way);
        }
        reconciles.depths(depth);
        let errors = page.family(&names::RECONCILE_ERRORS);
        for owner in OWNERS {
            for class in ErrorClass::ALL {
                let mut count = counts.errors.get(&(owner, class)).copied().unwrap_or(0);
                if class == ErrorClass::Terminal {
                    count += self.observed.tally.extraction_failures(owner);
                }
                // Also 0: what is not there before it happens cannot be seen to grow.
                errors.counter(&[kind(owner), class.as_str()], count);
            }
        }
        self.observed.exports.errors(errors);
        let restarts = page.family(&names::TASK_RESTARTS);
        for (task, count) in self.observed.keeper.restarts() {
            restarts.counter(&[task], count);
        }
        let lists = page.family(&names::WATCH_MAP_ERRORS);
        for watch in ["sink", "store"] {
            lists.counter(&["KollectInventory", watch], 0);
        }
        let cache = page.family(&names::FINGERPRINT_CACHE);
        for result in ["hit", "miss"] {
            cache.counter(&["KollectInventory", result], 0);
        }
    }

    fn rows(&self, scene: &Scene, page: &mut Page) {
        let totals = self.observed.store.totals();
        page.family(&names::COLLECT_ITEMS)
            .gauge(&[], totals.rows as u64);
        page.family(&names::STORE_BYTES)
            .gauge(&[], totals.bytes as u64);
        let summaries = self.observed.store.summaries();
        let policies = page.family(&names::POLICY_ERRORS);
        for summary in &summaries {
            let labels = [&*summary.key.namespace, &*summary.key.name];
            policies.counter(&labels, summary.policy_failures);
        }
        let rows: BTreeMap<TargetKey, u64> = summaries
            .into_iter()
            .map(|summary| (summary.key, summary.rows as u64))
            .collect();
        let mut by_resource: BTreeMap<&Resource, u64> = BTreeMap::new();
        let collected = page.family(&names::COLLECTED_OBJECTS);
        for target in scene.plan.targets() {
            let (Some(collection), Some(rows)) = (target.collection(), rows.get(&target.key))
            else {
                continue;
            };
            *by_resource.entry(&collection.resource).or_default() += rows;
            let extraction = &collection.extraction;
            let gvk = extraction.gvk();
            let gvk = format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind);
            let profile = extraction.profile.metadata.name.as_deref();
            let labels = [
                profile.unwrap_or_default(),
                &gvk,
                &target.key.namespace,
                &target.key.name,
            ];
            collected.gauge(&labels, *rows);
        }
        let objects = page.family(&names::INFORMER_OBJECTS);
        for (resource, rows) in by_resource {
            objects.gauge(&place(resource), rows);
        }
    }

    fn dispatch(&self, page: &mut Page) {
        page.family(&names::DISPATCH_DURATION)
            .histogram(&[], &self.observed.tally.dispatch);
        page.family(&names::DISPATCH_QUEUE_DEPTH).gauge(&[], 0);
        page.family(&names::DISPATCH_BACKPRESSURE).counter(&[], 0);
    }

    fn references(&self, page: &mut Page) {
        let family = page.family(&names::STATIC_REF_RESOLUTION);
        for (result, count) in self.observed.passes.counts().references {
            let labels = ["KollectClusterTarget", "profile", result.as_str()];
            family.counter(&labels, count);
        }
        self.observed.exports.references(family);
        let reviewer = &self.observed.reviewer;
        let cache = page.family(&names::ACCESS_CACHE);
        cache.counter(&["hit"], reviewer.hits());
        cache.counter(&["miss"], reviewer.misses());
        let in_flight = page.family(&names::API_IN_FLIGHT);
        for kind in load::Kind::ALL {
            in_flight.gauge(&[kind.as_str()], load::in_flight(kind));
        }
        let waiting = page.family(&names::API_WAITING);
        for kind in load::Kind::ALL {
            waiting.gauge(&[kind.as_str()], load::waiting(kind));
        }
    }
}

fn watches(scene: &Scene, page: &mut Page) {
    let mut wide: BTreeMap<&Resource, bool> = BTreeMap::new();
    let mut interrupted: BTreeMap<(&Resource, &str), u64> = BTreeMap::new();
    for state in &scene.watches {
        let resource = &*state.watch.resource;
        *wide.entry(resource).or_default() |= state.watch.scope == WatchScope::All;
        if let Some(interruption) = &state.interruption {
            let class = interruption.class.as_str();
            *interrupted.entry((resource, class)).or_default() += 1;
        }
    }
    let family = page.family(&names::INFORMER_CLUSTER_WIDE);
    for (resource, wide) in &wide {
        family.gauge(&place(resource), u64::from(*wide));
    }
    let family = page.family(&names::INFORMER_RESYNC);
    for resource in wide.keys() {
        family.counter(&place(resource), 0);
    }
    let family = page.family(&names::WATCH_INTERRUPTED);
    for ((resource, class), count) in interrupted {
        let [group, version, plural] = place(resource);
        family.gauge(&[group, version, plural, class], count);
    }

    let traffic: Vec<_> = scene
        .traffic
        .iter()
        .map(|(resource, traffic)| (place(resource), &traffic.tally, traffic.carried()))
        .collect();
    let family = page.family(&names::NAMESPACE_MISMATCH);
    for (place, tally, _) in &traffic {
        family.counter(place, tally.namespace_mismatches());
    }
    let family = page.family(&names::WATCH_EVENTS);
    for (place, _, carried) in &traffic {
        family.counter(place, carried.events);
    }
    let family = page.family(&names::WATCH_BYTES);
    for (place, _, carried) in &traffic {
        family.counter(place, carried.bytes);
    }
    let family = page.family(&names::WATCH_RECONNECTS);
    for (place, _, carried) in &traffic {
        family.counter(place, carried.reconnects);
    }
    let family = page.family(&names::WATCH_LISTINGS);
    for ([group, version, plural], _, carried) in &traffic {
        for (cause, count) in ListingCause::ALL.into_iter().zip(carried.listings) {
            if count > 0 {
                family.counter(&[group, version, plural, cause.as_str()], count);
            }
        }
    }
}

const OWNERS: [TargetKind; 2] = [TargetKind::Target, TargetKind::ClusterTarget];

fn place(resource: &Resource) -> [&str; 3] {
    [&resource.group, &resource.version, &resource.plural]
}

fn controller(owner: TargetKind) -> &'static str {
    match owner {
        TargetKind::Target => "kollecttarget",
        TargetKind::ClusterTarget => "kollectclustertarget",
    }
}

fn kind(owner: TargetKind) -> &'static str {
    match owner {
        TargetKind::Target => "KollectTarget",
        TargetKind::ClusterTarget => "KollectClusterTarget",
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection").finish_non_exhaustive()
    }
}
