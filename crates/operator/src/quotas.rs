//! Asks what namespaces use, and has it judged by [`quota`](crate::quota).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kollect_api::{KollectScope, SinkKey, reference::SinkFamily, scope::Quota};
use kollect_collect::{
    plan::{Excess, TargetKey},
    store::Store,
};
use kube::core::ObjectMeta;
use tokio::time::{Instant, sleep};

use crate::{
    configuration::Configuration,
    mirrors::Mirrors,
    quota::{Limits, QuotaBook, Used, sinks_over},
};

/// How often it is looked at what rows have come to.
const LOOK: Duration = Duration::from_secs(1);

/// What is over quota, and what to say about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OverQuota {
    /// Targets that are not collected.
    pub targets: BTreeMap<TargetKey, Excess>,
    /// Sinks that are not used.
    pub sinks: BTreeMap<SinkKey, String>,
}

/// The quotas of all namespaces.
#[derive(Debug)]
pub struct Quotas {
    defaults: Quota,
    book: QuotaBook,
    mirrors: Mirrors,
    in_force: bool,
    last: OverQuota,
}

/// What one namespace has.
#[derive(Debug, Default)]
struct Holdings {
    targets: Vec<Used>,
    sinks: Vec<(Option<Timestamp>, SinkKey)>,
}

impl Quotas {
    /// Quotas with these defaults.
    pub fn new(defaults: Quota, mirrors: Mirrors) -> Self {
        Self {
            defaults,
            book: QuotaBook::default(),
            mirrors,
            in_force: false,
            last: OverQuota::default(),
        }
    }

    /// Whether anything is limited, as of the last look.
    pub fn in_force(&self) -> bool {
        self.in_force
    }

    /// What is over quota now.
    pub fn judge(
        &mut self,
        configuration: &Configuration,
        store: &Store,
        now: Instant,
    ) -> OverQuota {
        let scopes = configuration.scopes.all();
        let own = |scope: &Arc<KollectScope>| scope.spec.quota.is_some();
        self.in_force = self.defaults != Quota::default() || scopes.iter().any(own);
        if !self.in_force {
            self.last = OverQuota::default();
            return OverQuota::default();
        }
        let mut by_namespace: BTreeMap<&str, Vec<&KollectScope>> = BTreeMap::new();
        for scope in &scopes {
            let namespace = scope.metadata.namespace.as_deref().unwrap_or_default();
            by_namespace.entry(namespace).or_default().push(scope);
        }
        let unreadable = configuration.unreadable_scopes();
        let unknown = configuration.scopes.unknown_everywhere().is_some();
        let mut over = OverQuota::default();
        let all = holdings(configuration, store);
        self.mirrors.retain(|namespace| all.contains_key(namespace));
        let known = all.values().flat_map(|holdings| &holdings.targets);
        let known: BTreeSet<&TargetKey> = known.map(|used| &used.key).collect();
        self.book.retain(|key| known.contains(key));
        for (namespace, holdings) in &all {
            if unknown || unreadable.contains_key(namespace) {
                // What it may use is not known: it stays as it was.
                over.keep(&self.last, namespace);
                continue;
            }
            let scopes = by_namespace.get(namespace.as_str()).into_iter().flatten();
            let limits = Limits::new(&self.defaults, &scopes.map(|scope| scope.ceiling()));
            if limits.is_empty() {
                continue;
            }
            let mirrors = self
                .mirrors
                .bytes_of(namespace, &holdings.sinks, configuration, &limits);
            let targets = &holdings.targets;
            let said = self.book.judge(namespace, targets, &limits, mirrors, now);
            over.targets.extend(said);
            over.sinks
                .extend(sinks_over(namespace, &holdings.sinks, &limits));
        }
        self.last = over.clone();
        over
    }

    /// Waits until something else is over quota than was. May be given up at any time.
    pub async fn changed(&mut self, configuration: &Configuration, store: &Store) {
        let before = self.last.clone();
        loop {
            sleep(LOOK).await;
            if self.judge(configuration, store, Instant::now()) != before {
                return;
            }
        }
    }
}

impl OverQuota {
    /// Takes over what was said about a namespace.
    fn keep(&mut self, last: &OverQuota, namespace: &str) {
        let targets = last.targets.iter();
        let targets = targets.filter(|(key, _)| &*key.namespace == namespace);
        self.targets
            .extend(targets.map(|(key, said)| (key.clone(), said.clone())));
        let sinks = last.sinks.iter();
        let sinks = sinks.filter(|(key, _)| key.namespace == namespace);
        self.sinks
            .extend(sinks.map(|(key, said)| (key.clone(), said.clone())));
    }
}

/// What every namespace has. Objects that are being deleted do not count.
fn holdings(configuration: &Configuration, store: &Store) -> BTreeMap<String, Holdings> {
    let usage = store.usage();
    let mut all: BTreeMap<String, Holdings> = BTreeMap::new();
    let mut of = |meta: &ObjectMeta, note: &mut dyn FnMut(&mut Holdings, &str, &str)| {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        if meta.deletion_timestamp.is_none() {
            let holdings = all.entry(namespace.to_owned()).or_default();
            note(holdings, namespace, name);
        }
    };
    let created = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map(|time| time.0);
    for target in configuration.targets.all() {
        let meta = &target.metadata;
        of(meta, &mut |holdings, namespace, name| {
            let key = TargetKey::namespaced(namespace, name);
            let used = usage.get(&key).copied().unwrap_or_default();
            let counted = target.status.as_ref().and_then(|said| said.collected_count);
            holdings.targets.push(Used {
                created: created(meta),
                generation: meta.generation,
                rows: used.rows,
                bytes: used.bytes,
                collected: counted.is_some() || used.complete,
                listed: used.complete,
                key,
            });
        });
    }
    let mut sink = |family: SinkFamily, meta: &ObjectMeta| {
        of(meta, &mut |holdings, namespace, name| {
            let key = SinkKey::new(family, namespace, name);
            holdings.sinks.push((created(meta), key));
        });
    };
    for one in configuration.snapshot_sinks.all() {
        sink(SinkFamily::Snapshot, &one.metadata);
    }
    for one in configuration.database_sinks.all() {
        sink(SinkFamily::Database, &one.metadata);
    }
    for one in configuration.event_sinks.all() {
        sink(SinkFamily::Event, &one.metadata);
    }
    all
}
