//! Keeps finalizers and statuses of targets in step with their collection.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::{KollectClusterTarget, KollectTarget, condition, meta, target::TargetStatus};
use kollect_collect::{
    engine::Engine,
    gates::Version,
    plan::{Plan, TargetKey, TargetPlan, TargetState},
};
use kollect_inventory::TargetKind;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::{
    configuration::Configuration,
    control_loop::earliest,
    sink_objects, sink_usability,
    target_status::{self, TargetFacts, Trouble},
    write_queue::{EndedWrite, WriteQueue, WriteSlots},
    writer::{self, ApiOf, WriteError},
};

/// What is common to both kinds of target.
trait Target: ApiOf + Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    const FINALIZER: &'static str;
    const COMPONENT: &'static str;

    fn key(&self) -> TargetKey;
    fn status(&self) -> Option<&TargetStatus>;
    fn profile(&self) -> String;
    const CLUSTER: bool;
}

impl Target for KollectTarget {
    const FINALIZER: &'static str = meta::TARGET_FINALIZER;
    const COMPONENT: &'static str = "kollecttarget-controller";
    const CLUSTER: bool = false;

    fn key(&self) -> TargetKey {
        let meta = &self.metadata;
        TargetKey::namespaced(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }

    fn status(&self) -> Option<&TargetStatus> {
        self.status.as_ref()
    }

    fn profile(&self) -> String {
        format!("{:?}", self.spec.profile_ref)
    }
}

impl Target for KollectClusterTarget {
    const FINALIZER: &'static str = meta::CLUSTER_TARGET_FINALIZER;
    const COMPONENT: &'static str = "kollectclustertarget-controller";
    const CLUSTER: bool = true;

    fn key(&self) -> TargetKey {
        TargetKey::cluster(self.metadata.name.as_deref().unwrap_or_default())
    }

    fn status(&self) -> Option<&TargetStatus> {
        self.status.as_ref()
    }

    fn profile(&self) -> String {
        let reference = &self.spec.profile_ref;
        format!(
            "{:?} in namespace {:?}",
            reference.name,
            reference.namespace()
        )
    }
}

/// What is remembered of the writes of one target.
#[derive(Debug, Clone, Default)]
struct Record {
    /// The version that our last write made. Until the watch shows it, what was written is better
    /// known than what is shown.
    version: Version,
    /// The status that was written last, and when.
    status: Option<(TargetStatus, Instant)>,
    /// What was known when there was nothing to write, and about which version of the object: as
    /// long as both stay the same there is nothing to do.
    settled: Option<(TargetFacts, Option<String>)>,
}

/// What there is to write about one target.
#[derive(Debug, Default)]
struct Work {
    finalizers: Option<Finalizer>,
    /// The status and the one it follows.
    status: Option<(TargetStatus, TargetStatus)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finalizer {
    Add,
    Remove,
}

/// What was written.
#[derive(Debug)]
struct Written {
    /// The version that it made.
    version: Version,
    status: Option<TargetStatus>,
}

/// Writes finalizers, statuses and events of targets.
pub struct Targets {
    client: Client,
    count_resync: Duration,
    records: BTreeMap<TargetKey, Record>,
    writes: WriteQueue<TargetKey, Written>,
    failures: BTreeMap<TargetKind, u64>,
}

impl Targets {
    /// Writes through `client`, when there are slots; numbers alone are written at most this often.
    pub fn new(client: Client, slots: WriteSlots, count_resync: Duration) -> Self {
        Self {
            client,
            count_resync,
            records: BTreeMap::new(),
            writes: WriteQueue::new(slots),
            failures: BTreeMap::new(),
        }
    }

    /// Begins to bring all targets up to date. Returns when to look again, if not before.
    pub fn update(
        &mut self,
        configuration: &Configuration,
        engine: &Engine,
        plan: &Plan,
    ) -> Option<Instant> {
        let inventories = configuration.inventories.all();
        let usable = sink_usability::by_namespace(inventories.iter().map(AsRef::as_ref), |key| {
            sink_objects::find(configuration, key)
        });
        let sinks = |namespace: &str| {
            let sinks = usable.get(namespace).cloned();
            sinks.unwrap_or(target_status::Sinks::None)
        };
        let targets = configuration.targets.all();
        let cluster_targets = configuration.cluster_targets.all();
        let known: BTreeSet<TargetKey> = targets
            .iter()
            .map(|target| target.key())
            .chain(cluster_targets.iter().map(|target| target.key()))
            .collect();
        self.records.retain(|key, _| known.contains(key));
        self.writes.retain(|key| known.contains(key));
        earliest(
            self.update_kind(targets, engine, plan, Some(&sinks)),
            self.update_kind(cluster_targets, engine, plan, None),
        )
    }

    /// Begins no more writes: this replica does not lead.
    pub fn stand_down(&mut self) {
        self.writes.withdraw_all();
    }

    /// Waits until a write has ended and there is something to do about it. May be given up at any
    /// time.
    pub async fn written(&mut self) {
        loop {
            let ended = self.writes.next().await;
            if self.note(ended) {
                return;
            }
        }
    }

    /// How many writes have failed since this was last asked, by kind of target.
    pub fn take_failures(&mut self) -> BTreeMap<TargetKind, u64> {
        std::mem::take(&mut self.failures)
    }

    fn update_kind<K: Target>(
        &mut self,
        targets: Vec<Arc<K>>,
        engine: &Engine,
        plan: &Plan,
        sinks: Option<&dyn Fn(&str) -> target_status::Sinks>,
    ) -> Option<Instant> {
        let now = Time(Timestamp::now());
        let moment = Instant::now();
        let mut next = None;
        for target in targets {
            let key = target.key();
            if self.writes.defer(&key) {
                continue;
            }
            let record = self.records.entry(key.clone()).or_default();
            let mut work = Work {
                finalizers: record.finalizers(&*target),
                status: None,
            };
            let target_plan = plan.target(&key);
            if let Some(target_plan) = target_plan.filter(|_| !is_deleted(&*target)) {
                let namespace = target.meta().namespace.as_deref().unwrap_or_default();
                let sinks = sinks.map(|sinks| sinks(namespace));
                let facts = facts(&*target, target_plan, engine, sinks);
                let known = (facts, target.meta().resource_version.clone());
                if work.finalizers.is_none() && record.settled.as_ref() == Some(&known) {
                    self.writes.withdraw(&key);
                    continue;
                }
                let facts = &known.0;
                let before = record.status(&*target);
                let after = target_status::status(&before, facts, &now);
                let due = record.due(&before, &after, self.count_resync);
                match due.filter(|due| *due > moment) {
                    // A count that moves all the time is not worth a write each time.
                    Some(due) => next = earliest(next, Some(due)),
                    None if after == before => record.settled = Some(known),
                    None => work.status = Some((before, after)),
                }
            }
            if work.finalizers.is_some() || work.status.is_some() {
                let version = target.meta().resource_version.clone();
                let write = write(self.client.clone(), target, work);
                self.writes.submit(key, version, write);
            } else {
                self.writes.withdraw(&key);
            }
        }
        next
    }

    /// Takes note of how a write ended. Returns whether there is something left to write.
    fn note(&mut self, ended: EndedWrite<TargetKey, Written>) -> bool {
        match ended.result {
            Ok(written) => {
                let Some(record) = self.records.get_mut(&ended.key) else {
                    // Gone in the meantime.
                    return false;
                };
                if written.version.is_after(record.version) {
                    record.version = written.version;
                }
                if let Some(status) = written.status {
                    record.status = Some((status, Instant::now()));
                }
                ended.superseded
            }
            Err(error) => {
                if !error.is_outdated() {
                    *self.failures.entry(ended.key.owner).or_default() += 1;
                }
                true
            }
        }
    }
}

impl Record {
    /// Whether the watch is behind our own writes.
    fn is_ahead_of<K: Target>(&self, target: &K) -> bool {
        let shown = target.meta().resource_version.as_deref();
        Version::parse(shown.unwrap_or_default()).is_before(self.version)
    }

    /// What is to be done about our finalizer.
    fn finalizers<K: Target>(&self, target: &K) -> Option<Finalizer> {
        if self.is_ahead_of(target) {
            return None;
        }
        match (
            is_deleted(target),
            writer::has_finalizer(target, K::FINALIZER),
        ) {
            (false, false) => Some(Finalizer::Add),
            // Its rows left the store with the plan that no longer has it.
            (true, true) => Some(Finalizer::Remove),
            _ => None,
        }
    }

    /// The status as far as it is known: what was written last, or what the watch shows.
    fn status<K: Target>(&self, target: &K) -> TargetStatus {
        match &self.status {
            Some((status, _)) if self.is_ahead_of(target) => status.clone(),
            _ => target.status().cloned().unwrap_or_default(),
        }
    }

    /// When a new status may be written, if it can wait.
    fn due(
        &self,
        before: &TargetStatus,
        after: &TargetStatus,
        patience: Duration,
    ) -> Option<Instant> {
        let (_, at) = self.status.as_ref()?;
        (before != after && only_numbers_differ(before, after)).then(|| *at + patience)
    }
}

fn is_deleted<K: Target>(target: &K) -> bool {
    target.meta().deletion_timestamp.is_some()
}

/// Writes what there is to write, and sends the events that belong to it.
async fn write<K: Target>(
    client: Client,
    target: Arc<K>,
    work: Work,
) -> Result<Written, WriteError> {
    let version = |object: &K| {
        let version = object.meta().resource_version.as_deref();
        Version::parse(version.unwrap_or_default())
    };
    let mut written = Written {
        version: Version::UNKNOWN,
        status: None,
    };
    if let Some(finalizer) = work.finalizers {
        let object = match finalizer {
            Finalizer::Add => writer::add_finalizer(&client, &*target, K::FINALIZER).await?,
            Finalizer::Remove => writer::remove_finalizer(&client, &*target, K::FINALIZER).await?,
        };
        written.version = version(&object);
    }
    if let Some((before, after)) = work.status {
        let object = writer::write_status(&client, &*target, &after).await?;
        written.version = version(&object);
        let now = Timestamp::now();
        let events: Vec<_> = condition::transitions(&before.conditions, &after.conditions)
            .map(|condition| writer::event(&*target, condition, K::COMPONENT, now))
            .collect();
        written.status = Some(after);
        writer::send_all(&client, &events).await;
    }
    Ok(written)
}

fn facts<K: Target>(
    target: &K,
    plan: &TargetPlan,
    engine: &Engine,
    sinks: Option<target_status::Sinks>,
) -> TargetFacts {
    let summary = engine.store().summary(&plan.key);
    let resource = plan.collection().map(|collection| &collection.resource);
    let interruption = engine
        .watches()
        .filter(|state| Some(&state.watch.resource) == resource)
        .find_map(|state| state.interruption)
        .map(|interruption| interruption.message);
    TargetFacts {
        generation: target.meta().generation,
        profile: target.profile(),
        cluster: K::CLUSTER,
        trouble: plan.degradation().map(|degradation| Trouble {
            reason: degradation.reason,
            message: degradation.message.clone(),
        }),
        undecided: matches!(plan.state, TargetState::Undecided(_)),
        matched_namespaces: plan.namespaces.matched.clone(),
        effective_namespaces: plan.namespaces.effective.clone(),
        outside_scope: plan.namespaces.outside_scope.clone(),
        forbidden: plan.forbidden_message(),
        active_rules: plan.active_rules,
        complete: summary.as_ref().is_some_and(|summary| summary.complete),
        interruption,
        rows: summary.as_ref().map_or(0, |summary| summary.rows),
        failures: summary.as_ref().map_or(0, |summary| summary.failing),
        policy_failure: summary
            .as_ref()
            .and_then(|summary| summary.last_policy_failure.clone())
            .map(Into::into),
        last_failure: summary
            .and_then(|summary| summary.last_failure)
            .map(Into::into),
        sinks,
    }
}

/// Whether two statuses say the same, but for counts and the sentences that repeat them.
fn only_numbers_differ(before: &TargetStatus, after: &TargetStatus) -> bool {
    let plain = |status: &TargetStatus| {
        let mut plain = status.clone();
        plain.collected_count = plain.collected_count.map(|_| 0);
        plain.collected_count_updated_at = None;
        plain.extraction_failures = i64::from(plain.extraction_failures > 0);
        plain.last_extraction_error = None;
        for condition in &mut plain.conditions {
            condition.message.clear();
        }
        plain
    };
    plain(before) == plain(after)
}
