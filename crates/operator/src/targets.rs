//! Keeps finalizers and statuses of targets in step with their collection.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::{KollectClusterTarget, KollectTarget, meta, target::TargetStatus};
use kollect_collect::{
    engine::Engine,
    plan::{Plan, TargetKey, TargetPlan, TargetState},
};
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::{
    configuration::Configuration,
    sinks_behind::sinks_behind,
    target_status::{self, TargetFacts, Trouble},
    writer::{self, ApiOf},
};

/// How many objects are written at the same time.
const PARALLEL: usize = 8;
/// How long to wait after a write that failed for an unknown reason.
const RETRY: Duration = Duration::from_secs(5);

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

/// What was written last, until the watch shows it.
#[derive(Debug, Clone)]
struct Written {
    /// The version of the object that the write was based on.
    base: Option<String>,
    status: TargetStatus,
    at: Instant,
}

/// Writes finalizers, statuses and events of targets.
pub struct Targets {
    client: Client,
    count_resync: Duration,
    written: BTreeMap<TargetKey, Written>,
    retry_at: Option<Instant>,
}

/// One object to write.
struct Job<K> {
    target: Arc<K>,
    before: TargetStatus,
    after: TargetStatus,
}

impl Targets {
    /// Writes through `client`; numbers alone are written at most this often.
    pub fn new(client: Client, count_resync: Duration) -> Self {
        Self {
            client,
            count_resync,
            written: BTreeMap::new(),
            retry_at: None,
        }
    }

    /// Brings all targets up to date. Returns when to look again, if not before.
    pub async fn update(
        &mut self,
        configuration: &Configuration,
        engine: &Engine,
        plan: &Plan,
    ) -> Option<Instant> {
        self.retry_at = None;
        let inventories = configuration.inventories.all();
        let probes = configuration.probes();
        let sinks = |namespace: &str| {
            sinks_behind(namespace, inventories.iter().map(AsRef::as_ref), &probes)
        };
        let mut next = None;
        let targets = configuration.targets.all();
        next = earliest(
            next,
            self.update_kind(targets, engine, plan, Some(&sinks)).await,
        );
        let targets = configuration.cluster_targets.all();
        next = earliest(next, self.update_kind(targets, engine, plan, None).await);
        self.written.retain(|key, _| plan.target(key).is_some());
        earliest(next, self.retry_at)
    }

    async fn update_kind<K: Target>(
        &mut self,
        targets: Vec<Arc<K>>,
        engine: &Engine,
        plan: &Plan,
        sinks: Option<&(dyn Fn(&str) -> target_status::Sinks + Sync)>,
    ) -> Option<Instant> {
        let now = Time(Timestamp::now());
        let moment = Instant::now();
        let mut next = None;
        let mut jobs = Vec::new();
        for target in targets {
            if target.meta().deletion_timestamp.is_some() {
                // Its rows left the store with the plan that no longer has it.
                if writer::has_finalizer(&*target, K::FINALIZER) {
                    self.note(
                        writer::remove_finalizer(&self.client, &*target, K::FINALIZER).await,
                        &*target,
                    );
                }
                continue;
            }
            if !writer::has_finalizer(&*target, K::FINALIZER) {
                self.note(
                    writer::add_finalizer(&self.client, &*target, K::FINALIZER).await,
                    &*target,
                );
                // The watch brings the object back with its finalizer; the status follows then.
                continue;
            }
            let key = target.key();
            let Some(target_plan) = plan.target(&key) else {
                continue;
            };
            let namespace = target.meta().namespace.as_deref().unwrap_or_default();
            let facts = facts(
                &*target,
                target_plan,
                engine,
                sinks.map(|sinks| sinks(namespace)),
            );
            let (before, since) = self.before(&*target, &key);
            let after = target_status::status(&before, &facts, &now);
            if after == before && target.status().is_some() {
                continue;
            }
            let due = since.map(|since| since + self.count_resync);
            if target.status().is_some() && only_numbers_differ(&before, &after) {
                // A count that moves all the time is not worth a write each time.
                if let Some(due) = due.filter(|due| *due > moment) {
                    next = earliest(next, Some(due));
                    continue;
                }
            }
            jobs.push(Job {
                target,
                before,
                after,
            });
        }
        self.write(jobs).await;
        next
    }

    async fn write<K: Target>(&mut self, jobs: Vec<Job<K>>) {
        let client = &self.client;
        let results: Vec<_> = stream::iter(jobs)
            .map(|job| async move {
                let result = writer::write_status(client, &*job.target, &job.after).await;
                if result.is_ok() {
                    for condition in target_status::transitions(&job.before, &job.after) {
                        let now = Timestamp::now();
                        let event = writer::event(&*job.target, condition, K::COMPONENT, now);
                        writer::send(client, &event).await;
                    }
                }
                (job, result)
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        for (job, result) in results {
            if result.is_ok() {
                let written = Written {
                    base: job.target.meta().resource_version.clone(),
                    status: job.after,
                    at: Instant::now(),
                };
                self.written.insert(job.target.key(), written);
            }
            self.note(result, &*job.target);
        }
    }

    /// The status as far as it is known: what was written last, or what the watch shows.
    fn before<K: Target>(&self, target: &K, key: &TargetKey) -> (TargetStatus, Option<Instant>) {
        let shown = target.status().cloned().unwrap_or_default();
        match self.written.get(key) {
            Some(written) if written.base == target.meta().resource_version => {
                (written.status.clone(), Some(written.at))
            }
            Some(written) => (shown, Some(written.at)),
            None => (shown, None),
        }
    }

    fn note<K: Target>(&mut self, result: kube::Result<()>, target: &K) {
        match result {
            Ok(()) => {}
            // The next version of the object brings the next try.
            Err(error) if writer::is_outdated(&error) => {}
            Err(error) => {
                tracing::warn!(target = %target.key(), %error, "cannot write; trying again");
                self.retry_at = earliest(self.retry_at, Some(Instant::now() + RETRY));
            }
        }
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
            reason: degradation.reason.into(),
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

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    [a, b].into_iter().flatten().min()
}
