//! Keeps finalizers and statuses of targets in step with their collection.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::{
    KollectClusterTarget, KollectProfile, KollectTarget, condition::Condition, meta,
    target::TargetStatus,
};
use kollect_collect::{
    engine::Engine,
    gates::Version,
    plan::{Plan, TargetKey, TargetPlan, TargetState},
    store::TargetSummary,
};
use kollect_inventory::TargetKind;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::{
    configuration::Configuration,
    control_loop::earliest,
    events::{self, Events},
    keeper::{Attempt, Bulkhead, Keeper},
    sink_objects, sink_usability,
    status_pace::{FIRST_WORD, News, StatusPace},
    target_status::{self, TargetFacts, Trouble},
    write_queue::{EndedWrite, WriteQueue, WriteSlots},
    writer::{self, ApiOf, WriteError},
};

/// What is common to both kinds of target.
trait Target: ApiOf + Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    const FINALIZER: &'static str;

    fn key(&self) -> TargetKey;
    fn status(&self) -> Option<&TargetStatus>;
    fn profile(&self) -> String;
    const CLUSTER: bool;
}

impl Target for KollectTarget {
    const FINALIZER: &'static str = meta::TARGET_FINALIZER;
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
    /// What our last write made of the object. Until the watch shows it, that is better known than
    /// what is shown.
    version: Version,
    base: Option<String>,
    /// The status that was written last.
    status: Option<TargetStatus>,
    pace: StatusPace,
    /// What was known when there was nothing to write, and about which version of the object: as
    /// long as both stay the same there is nothing to do.
    settled: Option<(TargetFacts, Option<String>)>,
    /// Since when the first listing is awaited.
    listing_since: Option<Instant>,
    /// Why our finalizer could not be added last time.
    finalizer: Option<String>,
}

/// What there is to write about one target.
#[derive(Debug, Default)]
struct Work {
    finalizers: Option<Finalizer>,
    /// The status and the one it follows.
    status: Option<(TargetStatus, TargetStatus)>,
    /// The version of the object that all of it is based on.
    base: Option<String>,
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
    base: Option<String>,
    status: Option<(TargetStatus, News)>,
}

/// Writes finalizers, statuses and events of targets.
pub struct Targets {
    client: Client,
    count_resync: Duration,
    records: BTreeMap<TargetKey, Record>,
    writes: WriteQueue<TargetKey, Written>,
    events: Events,
    failures: BTreeMap<TargetKind, u64>,
    bulkhead: Bulkhead<TargetKey>,
}

impl Targets {
    /// Writes through `client`, when there are slots; numbers alone are written at most this often.
    pub fn new(client: Client, slots: WriteSlots, count_resync: Duration, keeper: &Keeper) -> Self {
        Self {
            client,
            count_resync,
            records: BTreeMap::new(),
            events: slots.events().clone(),
            writes: WriteQueue::new(slots),
            failures: BTreeMap::new(),
            bulkhead: Bulkhead::new(keeper.clone(), "target"),
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
        self.bulkhead.retain(|key| known.contains(key));
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
        let mut next = None;
        for target in targets {
            let sync = |all: &mut Self| {
                let facts = |key: &TargetKey| {
                    let namespace = target.meta().namespace.as_deref().unwrap_or_default();
                    let sinks = sinks.map(|sinks| sinks(namespace));
                    Some(facts(&*target, plan.target(key)?, engine, sinks))
                };
                all.update_one(&target, facts)
            };
            next = earliest(next, self.contained(&target, sync));
        }
        next
    }

    /// Looks after one target. If that panics, the others are none the worse.
    fn contained<K: Target>(
        &mut self,
        target: &Arc<K>,
        work: impl FnOnce(&mut Self) -> Option<Instant>,
    ) -> Option<Instant> {
        let mut bulkhead = std::mem::take(&mut self.bulkhead);
        let events = self.events.clone();
        let tell = |panic: &Condition| {
            events.tell(events::event::<K>(target.meta(), panic, Timestamp::now()));
        };
        let attempt = bulkhead.attempt(&target.key(), || work(self), tell);
        self.bulkhead = bulkhead;
        match attempt {
            Attempt::Done(wake) => wake,
            Attempt::Resting(again) | Attempt::Panicked(again) => Some(again),
        }
    }

    /// Begins to bring one target up to date. Returns when to look again, if not before.
    fn update_one<K: Target>(
        &mut self,
        target: &Arc<K>,
        facts: impl FnOnce(&TargetKey) -> Option<TargetFacts>,
    ) -> Option<Instant> {
        let (now, moment) = (Time(Timestamp::now()), Instant::now());
        let key = target.key();
        if self.writes.defer(&key) {
            return None;
        }
        let mut next = None;
        let record = self.records.entry(key.clone()).or_default();
        let mut work = Work {
            finalizers: record.finalizers(&**target),
            status: None,
            base: record.base(&**target),
        };
        let facts = if is_deleted(&**target) {
            None
        } else {
            facts(&key)
        };
        if let Some(mut facts) = facts {
            facts.finalizer.clone_from(&record.finalizer);
            let patient_until = record.listing(facts.complete, moment);
            facts.catching_up = patient_until.is_some();
            next = patient_until;
            let known = (facts, target.meta().resource_version.clone());
            if work.finalizers.is_none() && record.settled.as_ref() == Some(&known) {
                self.writes.withdraw(&key);
                return next;
            }
            let before = record.status(&**target);
            let after = target_status::status(&before, &known.0, &now);
            self.events.observe::<K>(target.meta(), &after.conditions);
            if after == before {
                record.settled = Some(known);
            } else {
                let mut due = record
                    .pace
                    .due(news(&before, &after), self.count_resync, moment);
                let is_new = before.conditions.is_empty() && known.0.trouble.is_none();
                if let Some(since) = record.listing_since.filter(|_| is_new) {
                    due = due.max(since + FIRST_WORD);
                }
                if due > moment {
                    next = earliest(next, Some(due));
                } else {
                    work.status = Some((before, after));
                }
            }
        }
        if work.finalizers.is_some() || work.status.is_some() {
            let version = work.base.clone();
            let target = Arc::clone(target);
            let write = write(self.client.clone(), self.events.clone(), target, work);
            self.writes.submit(key, version, write);
        } else {
            self.writes.withdraw(&key);
        }
        next
    }

    /// Takes note of how a write ended. Returns whether there is something left to write.
    fn note(&mut self, ended: EndedWrite<TargetKey, Written>) -> bool {
        let record = self.records.get_mut(&ended.key);
        match ended.result {
            Ok(written) => {
                let Some(record) = record else {
                    // Gone in the meantime.
                    return false;
                };
                record.wrote(written);
                ended.superseded
            }
            Err(error) => {
                if !error.is_outdated() {
                    *self.failures.entry(ended.key.owner).or_default() += 1;
                }
                if let Some(record) = record
                    && let WriteError::Finalizer(cause) = &error
                {
                    record.finalizer = Some(cause.to_string());
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
            Some(status) if self.is_ahead_of(target) => status.clone(),
            _ => target.status().cloned().unwrap_or_default(),
        }
    }

    /// The version that belongs to that status.
    fn base<K: Target>(&self, target: &K) -> Option<String> {
        if self.is_ahead_of(target) {
            self.base.clone()
        } else {
            target.meta().resource_version.clone()
        }
    }

    /// Takes note of what was written.
    fn wrote(&mut self, written: Written) {
        let version = Version::parse(written.base.as_deref().unwrap_or_default());
        if version.is_after(self.version) {
            self.version = version;
            self.base = written.base;
        }
        if let Some((status, news)) = written.status {
            self.status = Some(status);
            self.pace.wrote(news, Instant::now());
        }
        self.finalizer = None;
    }

    /// Until when the first listing is not worth telling, if it is awaited.
    fn listing(&mut self, complete: bool, now: Instant) -> Option<Instant> {
        if complete {
            self.listing_since = None;
            return None;
        }
        let since = *self.listing_since.get_or_insert(now);
        let until = since + target_status::PATIENCE;
        (now < until).then_some(until)
    }
}

fn is_deleted<K: Target>(target: &K) -> bool {
    target.meta().deletion_timestamp.is_some()
}

/// Writes what there is to write, and tells what is worth telling about it. A finalizer that cannot
/// be written does not keep the status from saying so.
async fn write<K: Target>(
    client: Client,
    events: Events,
    target: Arc<K>,
    work: Work,
) -> Result<Written, WriteError> {
    let mut meta = target.meta().clone();
    meta.resource_version = work.base;
    let mut unfinalized = None;
    if let Some(finalizer) = work.finalizers {
        let written = match finalizer {
            Finalizer::Add => writer::add_finalizer(&client, &*target, K::FINALIZER).await,
            Finalizer::Remove => writer::remove_finalizer(&client, &*target, K::FINALIZER).await,
        };
        match written {
            Ok(object) => meta = object.meta().clone(),
            Err(error) if error.is_outdated() => return Err(error),
            Err(error) => unfinalized = Some(error),
        }
    }
    let mut status = None;
    if let Some((before, after)) = work.status {
        let object: K = writer::write_status_of(&client, &meta, &after).await?;
        meta = object.meta().clone();
        events.tell_of::<K>(&meta, &before.conditions, &after.conditions);
        let news = news(&before, &after);
        status = Some((after, news));
    }
    match unfinalized {
        Some(error) => Err(WriteError::Finalizer(Box::new(error))),
        None => Ok(Written {
            base: meta.resource_version,
            status,
        }),
    }
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
        unpermitted: plan.unpermitted_message(),
        found_profile: plan
            .collection()
            .filter(|_| K::CLUSTER)
            .map(|collection| name_of(&collection.extraction.profile)),
        unserved: plan.namespaces.unserved.clone(),
        forbidden: plan.forbidden_message(),
        active_rules: plan.active_rules,
        complete: summary.as_ref().is_some_and(|summary| summary.complete),
        catching_up: false,
        cluster_scoped: resource.is_some_and(|resource| !resource.namespaced),
        finalizer: None,
        interruption,
        rows: summary.as_ref().map_or(0, |summary| summary.rows),
        failures: summary.as_ref().map_or(0, |summary| summary.failing),
        policy_failure: summary
            .as_ref()
            .and_then(|summary| summary.last_policy_failure.clone())
            .map(Into::into),
        last_failure: summary.and_then(last_failure),
        sinks,
    }
}

/// Namespace and name of a profile.
fn name_of(profile: &KollectProfile) -> (String, String) {
    let meta = &profile.metadata;
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// The most recent failure, with the object that failed.
fn last_failure(summary: TargetSummary) -> Option<String> {
    let Some(failure) = summary.failures.last() else {
        return summary.last_failure.map(Into::into);
    };
    let object = match &*failure.namespace {
        "" => failure.name.to_string(),
        namespace => format!("{namespace}/{}", failure.name),
    };
    // Whoever reported it may have named it already.
    Some(if failure.message.contains(&object) {
        failure.message.to_string()
    } else {
        format!("{object}: {}", failure.message)
    })
}

/// How much a status says that the one before did not.
fn news(before: &TargetStatus, after: &TargetStatus) -> News {
    let uncounted = |status: &TargetStatus| TargetStatus {
        collected_count: status.collected_count.map(|_| 0),
        collected_count_updated_at: None,
        ..status.clone()
    };
    if uncounted(before) == uncounted(after) {
        News::Numbers
    } else {
        News::of(&before.conditions, &after.conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c19_counts_alone_may_wait() {
        let status = |count: Option<i64>, error: Option<&str>| TargetStatus {
            collected_count: count,
            last_extraction_error: error.map(str::to_owned),
            ..TargetStatus::default()
        };
        for (before, after, expected) in [
            ((Some(1), None), (Some(2), None), News::Numbers),
            ((None, None), (Some(2), None), News::Details),
            ((Some(1), None), (Some(1), Some("a/b: bad")), News::Details),
        ] {
            let found = news(&status(before.0, before.1), &status(after.0, after.1));
            assert_eq!(found, expected, "{before:?} {after:?}");
        }
    }

    #[tokio::test]
    async fn c3_a_panic_about_one_target_is_told_of_it_alone() {
        let target = |name: &str| -> Arc<KollectTarget> {
            let target = serde_json::json!({
                "apiVersion": meta::API_VERSION, "kind": "KollectTarget",
                "metadata": {"name": name, "namespace": "team-a", "uid": name},
                "spec": {"profileRef": "p"},
            });
            Arc::new(serde_json::from_value(target).expect("a target"))
        };
        let (events, mut heard) = Events::heard();
        let keeper = Keeper::default();
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().expect("an address"));
        let client = Client::try_from(nowhere).expect("a client");
        let slots = WriteSlots::new(events);
        let mut targets = Targets::new(client, slots, Duration::from_mins(1), &keeper);
        let (bad, good) = (target("bad"), target("good"));
        let again = targets.contained(&bad, |_| panic!("as asked for"));
        assert!(again.is_some(), "it is tried again");
        let event = heard.try_recv().expect("an event");
        assert_eq!(event.reason.as_deref(), Some("ReconcilePanic"));
        assert_eq!(event.involved_object.name.as_deref(), Some("bad"));
        assert_eq!(keeper.restarts().get("target"), Some(&1));
        let mut looked = Vec::new();
        for target in [&bad, &good] {
            let key = target.key();
            targets.contained(target, |_| {
                looked.push(key.name.to_string());
                None
            });
        }
        assert_eq!(looked, ["good"], "the other one rests for a moment");
        assert!(heard.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn c4_patience_with_a_listing_ends() {
        let mut record = Record::default();
        let now = Instant::now();
        let until = now + target_status::PATIENCE;
        assert_eq!(record.listing(false, now), Some(until));
        assert_eq!(
            record.listing(false, now + Duration::from_secs(1)),
            Some(until)
        );
        assert_eq!(record.listing(false, until), None, "now it is told");
        assert_eq!(record.listing(true, until), None);
        let again = until + Duration::from_secs(1);
        assert_eq!(
            record.listing(false, again),
            Some(again + target_status::PATIENCE),
            "another listing"
        );
    }
}
