//! The inventories: keeps an exporter for each, tells it what to do, and writes down what it says.
//!
//! ```text
//! configuration, sinks, Secrets ─> plan ─> order ─> exporter ─> sinks
//!                                    │                │
//!                                    └─> status <─────┘ report
//! ```

pub mod plan;
pub mod status;
pub mod subject;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::InventoryId;
use kollect_api::SinkKey;
use kollect_api::{
    KollectClusterInventory, KollectInventory,
    condition::{Condition, ConditionStatus, ConditionType, Reason},
    inventory::{KollectClusterInventoryStatus, KollectInventoryStatus},
};
use kollect_collect::store::Store;
use kollect_export::{
    Calls, Exporter, Order, Report,
    order::Source,
    report::{LaneState, RetireState},
};
use kollect_sinks::SinkError;
use kube::{Client, Resource};
use tokio::{
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    plan::{InventoryPlan, World, plan},
    status::{InventoryFacts, InventoryStatus, PATIENCE, is_retired, transitions},
    subject::Subject,
};
use crate::{
    configuration::Configuration, metrics::exports::Exports, sink_objects::SinkObjects, writer,
};

/// Changes of the configuration are gathered for this long.
const GATHER: Duration = Duration::from_millis(20);
/// How often plans are made anew although nothing changed: some depend on the time.
const REPLAN: Duration = Duration::from_secs(30);
/// Writes that say nothing new but numbers are this far apart.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// A write that takes longer has failed.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);
/// How long to wait after a write that failed.
const WRITE_RETRY: Duration = Duration::from_secs(5);

/// ExportSettings of exports.
#[derive(Debug, Clone)]
pub struct ExportSettings {
    /// How long a deleted inventory waits for a sink that cannot be cleaned up.
    pub cleanup_patience: Duration,
}

impl Default for ExportSettings {
    fn default() -> Self {
        Self {
            cleanup_patience: Duration::from_mins(10),
        }
    }
}

/// An inventory object of either kind.
#[derive(Debug, Clone)]
enum Object {
    Namespaced(Arc<KollectInventory>),
    Cluster(Arc<KollectClusterInventory>),
}

/// What runs for one inventory.
struct Running {
    orders: watch::Sender<Arc<Order>>,
    reports: watch::Receiver<Report>,
    stop: CancellationToken,
    task: JoinHandle<()>,
    uid: String,
    /// The status that was written last, and the version of the object it was based on.
    written: Option<(Option<String>, InventoryStatus)>,
    written_at: Option<Instant>,
    writing: bool,
    retry_at: Option<Instant>,
    /// What was last seen, and since when.
    seen: Option<(Report, bool)>,
    since: Instant,
    /// What was told last about a sink that keeps rows of a deleted inventory.
    warned: &'static str,
    /// The inventory as it was planned last, so that a report costs a look at one inventory.
    planned: Arc<Planned>,
    /// When to look again although nothing is reported.
    wake: Option<Instant>,
}

/// An inventory and its plan.
struct Planned {
    subject: Subject,
    object: Object,
    plan: InventoryPlan,
}

/// Keeps an exporter for every inventory.
pub struct Inventories {
    client: Client,
    configuration: Arc<Configuration>,
    sinks: Arc<SinkObjects>,
    store: Store,
    calls: Arc<Calls>,
    settings: ExportSettings,
    running: BTreeMap<InventoryId, Running>,
    exports: Arc<Exports>,
    news: Arc<Notify>,
    configured: Arc<Notify>,
    writes: JoinSet<Written>,
}

/// A write has ended.
struct Written {
    id: InventoryId,
    base: Option<String>,
    /// The status, unless it was a finalizer.
    status: Option<InventoryStatus>,
    result: Result<(), String>,
}

impl Inventories {
    /// Exports rows of `store` to `sinks`.
    pub fn new(
        client: Client,
        configuration: Arc<Configuration>,
        sinks: Arc<SinkObjects>,
        store: Store,
        calls: Arc<Calls>,
        exports: Arc<Exports>,
        settings: ExportSettings,
    ) -> Self {
        Self {
            client,
            configured: configuration.changed.subscribe(),
            configuration,
            sinks,
            store,
            calls,
            exports,
            settings,
            running: BTreeMap::new(),
            news: Arc::new(Notify::new()),
            writes: JoinSet::new(),
        }
    }

    /// Runs until `stop`. Deliveries under way may end.
    pub async fn run(mut self, stop: &CancellationToken) {
        let mut changed = true;
        let mut replan_at = Instant::now();
        while !stop.is_cancelled() {
            if self.configuration.is_listed() {
                if changed || replan_at <= Instant::now() {
                    self.plan();
                    replan_at = Instant::now() + REPLAN;
                } else {
                    self.look();
                }
            }
            let wakes = self.running.values().filter_map(|running| running.wake);
            let wake = wakes.min().map_or(replan_at, |wake| wake.min(replan_at));
            changed = tokio::select! {
                () = stop.cancelled() => break,
                () = self.configured.notified() => { sleep(GATHER).await; true }
                () = self.news.notified() => false,
                Some(written) = self.writes.join_next() => {
                    if let Ok(written) = written { self.written(written); }
                    false
                }
                () = sleep_until(wake) => false,
            };
        }
        let running = std::mem::take(&mut self.running);
        for running in running.values() {
            running.stop.cancel();
        }
        for (_, running) in running {
            // Each says farewell in a bounded time.
            let _ = running.task.await;
        }
        let end = async { while self.writes.join_next().await.is_some() {} };
        let _ = timeout(WRITE_DEADLINE, end).await;
    }

    /// Makes all plans anew.
    fn plan(&mut self) {
        self.sinks.follow_secrets();
        let all = self.sinks.all();
        let uids = all.into_iter().filter_map(|sink| sink.meta.uid).collect();
        self.calls.pool.retain(&uids);
        let configuration = Arc::clone(&self.configuration);
        let scopes = configuration.scopes.all();
        let cluster_scopes = configuration.cluster_scopes.all();
        let namespaces = configuration.namespace_listing();
        let cluster_targets = configuration.cluster_targets.all();
        let sinks = Arc::clone(&self.sinks);
        let world = World {
            scopes: &scopes,
            cluster_scopes: &cluster_scopes,
            namespaces: &namespaces,
            cluster_targets: &cluster_targets,
            find: &|key| sinks.find(key),
            access: &|sink| sinks.access(sink),
            now: Timestamp::now(),
        };
        let mut objects = BTreeMap::new();
        for inventory in configuration.inventories.all() {
            let subject = Subject::from(&*inventory);
            objects.insert(subject.id.clone(), (subject, Object::Namespaced(inventory)));
        }
        for inventory in configuration.cluster_inventories.all() {
            let subject = Subject::from(&*inventory);
            objects.insert(subject.id.clone(), (subject, Object::Cluster(inventory)));
        }
        self.forget(&objects);
        for (subject, object) in objects.into_values() {
            self.mind(subject, object, &world);
        }
        self.count();
    }

    /// Looks at the inventories that have something new to say, or whose time has come.
    fn look(&mut self) {
        let now = Instant::now();
        let due = |running: &Running| {
            running.reports.has_changed().unwrap_or(false)
                || running.wake.is_some_and(|wake| wake <= now)
        };
        let due: Vec<Arc<Planned>> = self
            .running
            .values()
            .filter(|running| due(running))
            .map(|running| Arc::clone(&running.planned))
            .collect();
        for planned in due {
            self.tend(&planned);
        }
        self.count();
    }

    fn count(&self) {
        let mut states = BTreeMap::from([("all", 0), ("some", 0), ("none", 0)]);
        for running in self.running.values() {
            *states.entry(running.state()).or_default() += 1;
        }
        self.exports.inventories(states);
    }

    /// Ends the exporters of inventories that are gone, or that are another object now.
    fn forget(&mut self, objects: &BTreeMap<InventoryId, (Subject, Object)>) {
        self.running.retain(|id, running| {
            let same = objects
                .get(id)
                .is_some_and(|(subject, _)| subject.uid == running.uid);
            if !same {
                running.stop.cancel();
            }
            same
        });
    }

    /// Plans one inventory and looks at it.
    fn mind(&mut self, subject: Subject, object: Object, world: &World<'_>) {
        if !object.has_finalizer() {
            if subject.deleted_at.is_none() {
                // Before the first row leaves, it must be sure that rows are removed again.
                self.write_finalizer(&subject.id, &object, true);
            } else if let Some(running) = self.running.remove(&subject.id) {
                running.stop.cancel();
            }
            return;
        }
        let plan = plan(&subject, world);
        for key in &plan.orphans {
            tracing::warn!(
                inventory = %subject.id, sink = %key,
                "the sink is gone; rows that it may still hold are left there"
            );
        }
        let planned = Arc::new(Planned {
            subject,
            object,
            plan,
        });
        self.ensure(&planned);
        self.tend(&planned);
    }

    /// Looks at what an exporter says, and writes it down.
    fn tend(&mut self, planned: &Planned) {
        let Planned {
            subject,
            object,
            plan,
        } = planned;
        let Some(running) = self.running.get_mut(&subject.id) else {
            return;
        };
        let report = running.reports.borrow_and_update().clone();
        running.look(&report, plan.gate.is_some());
        let wake = if subject.deleted_at.is_some() {
            self.part(subject, object, plan, &report)
        } else {
            self.write_status(subject, object, plan, &report)
        };
        if let Some(running) = self.running.get_mut(&subject.id) {
            running.wake = wake;
        }
    }

    /// The exporter of an inventory, with its newest order.
    fn ensure(&mut self, planned: &Arc<Planned>) {
        let (id, order) = (&planned.subject.id, &planned.plan.order);
        if let Some(running) = self.running.get_mut(id) {
            running.planned = Arc::clone(planned);
            let mut order = order.clone();
            // Only an exporter that begins has to know what an earlier process did.
            for sink in &mut order.deliver {
                sink.resume = None;
            }
            running.orders.send_if_modified(|known| {
                let news = **known != order;
                if news {
                    *known = Arc::new(order);
                }
                news
            });
            return;
        }
        let (orders, follow) = watch::channel(Arc::new(order.clone()));
        let (tell, reports) = watch::channel(Report::default());
        let exporter = Exporter::new(
            self.store.clone(),
            Arc::clone(&self.calls),
            follow,
            tell,
            Arc::clone(&self.news),
        );
        let stop = CancellationToken::new();
        let task = tokio::spawn(exporter.run(stop.clone()));
        let running = Running {
            orders,
            reports,
            stop,
            task,
            uid: planned.subject.uid.clone(),
            written: None,
            written_at: None,
            writing: false,
            retry_at: None,
            seen: None,
            since: Instant::now(),
            warned: "",
            planned: Arc::clone(planned),
            wake: None,
        };
        self.running.insert(id.clone(), running);
    }

    /// A deleted inventory: when its rows have left all sinks, it may go.
    fn part(
        &mut self,
        subject: &Subject,
        object: &Object,
        plan: &InventoryPlan,
        report: &Report,
    ) -> Option<Instant> {
        let mut left = Vec::new();
        for sink in &plan.order.retire {
            if is_retired(report, &sink.key) {
                continue;
            }
            let failure = report
                .retiring
                .iter()
                .find_map(|retire| match &retire.state {
                    RetireState::Failed(error) if retire.key == sink.key => Some(error.clone()),
                    _ => None,
                });
            // Without credentials nothing can be cleaned up, and whoever removed them knows.
            let hopeless = matches!(&sink.source, Source::Held(SinkError::Terminal(_)));
            if hopeless {
                self.warn(
                    subject,
                    object,
                    &sink.key,
                    failure.as_ref(),
                    "is left as it is",
                );
                continue;
            }
            left.push((sink.key.clone(), failure));
        }
        for key in &plan.orphans {
            tracing::warn!(inventory = %subject.id, sink = %key, "the sink is gone; nothing is cleaned up there");
        }
        let waited = subject
            .deleted_at
            .map(|at| Timestamp::now().duration_since(at));
        let waited = waited.and_then(|waited| Duration::try_from(waited).ok());
        let patience = self.settings.cleanup_patience;
        if left.is_empty() || waited.is_some_and(|waited| waited > patience) {
            for (key, failure) in &left {
                self.warn(
                    subject,
                    object,
                    key,
                    failure.as_ref(),
                    "could not be cleaned up in time; what it holds of this inventory has to be removed by hand",
                );
            }
            self.write_finalizer(&subject.id, object, false);
            return None;
        }
        if let Some((key, Some(error))) = left.iter().find(|(_, failure)| failure.is_some()) {
            let (key, error) = (key.clone(), error.clone());
            self.warn(
                subject,
                object,
                &key,
                Some(&error),
                "cannot be cleaned up; trying again",
            );
        }
        let rest = patience.saturating_sub(waited.unwrap_or_default());
        Some(Instant::now() + rest + Duration::from_secs(1))
    }

    /// Tells, once for each turn of things, that a sink keeps rows of an inventory that goes.
    fn warn(
        &mut self,
        subject: &Subject,
        object: &Object,
        key: &SinkKey,
        error: Option<&SinkError>,
        what: &'static str,
    ) {
        let Some(running) = self.running.get_mut(&subject.id) else {
            return;
        };
        if std::mem::replace(&mut running.warned, what) == what {
            return;
        }
        let why = error.map(|error| format!(": {error}")).unwrap_or_default();
        let message = format!("sink {key} {what}{why}");
        tracing::warn!(inventory = %subject.id, message);
        let condition = Condition::new(
            ConditionType::Degraded,
            ConditionStatus::True,
            Reason::CleanupTerminal,
            message,
            Some(subject.generation),
            Time(Timestamp::now()),
        );
        let (client, event) = (self.client.clone(), object.event(&condition));
        tokio::spawn(async move { writer::send(&client, &event).await });
    }

    fn write_finalizer(&mut self, id: &InventoryId, object: &Object, add: bool) {
        if let Some(running) = self.running.get_mut(id) {
            if running.writing {
                return;
            }
            running.writing = true;
        }
        let (client, object, id) = (self.client.clone(), object.clone(), id.clone());
        self.writes.spawn(async move {
            let write = object.write_finalizer(&client, add);
            Written {
                base: object.version(),
                status: None,
                result: within_deadline(write).await,
                id,
            }
        });
    }

    fn write_status(
        &mut self,
        subject: &Subject,
        object: &Object,
        plan: &InventoryPlan,
        report: &Report,
    ) -> Option<Instant> {
        let running = self.running.get_mut(&subject.id)?;
        let now = Instant::now();
        let steady = now.duration_since(running.since);
        let before = match &running.written {
            Some((base, status)) if *base == object.version() => status.clone(),
            _ => subject.status.clone(),
        };
        let facts = InventoryFacts {
            generation: subject.generation,
            cluster: subject.rollup.is_some(),
            plan,
            report,
            steady,
        };
        let after = status::status(&before, &facts, &Time(Timestamp::now()));
        let settles = (steady <= PATIENCE).then(|| running.since + PATIENCE + GATHER);
        if after == before {
            return settles;
        }
        if running.writing {
            // The end of the write brings the next look.
            return None;
        }
        if let Some(at) = running.retry_at.filter(|at| *at > now) {
            return Some(at);
        }
        let news = transitions(&before, &after).next().is_some();
        let due = running.written_at.map(|at| at + WRITE_PAUSE);
        if let Some(due) = due.filter(|due| !news && *due > now) {
            return Some(due);
        }
        running.writing = true;
        let (client, object, id) = (self.client.clone(), object.clone(), subject.id.clone());
        self.writes.spawn(async move {
            let write = object.write_status(&client, &after);
            let result = within_deadline(write).await;
            if result.is_ok() {
                for condition in transitions(&before, &after) {
                    writer::send(&client, &object.event(condition)).await;
                }
            }
            Written {
                base: object.version(),
                status: Some(after),
                result,
                id,
            }
        });
        settles
    }

    fn written(&mut self, written: Written) {
        let Some(running) = self.running.get_mut(&written.id) else {
            return;
        };
        running.writing = false;
        running.wake = Some(Instant::now());
        match (written.result, written.status) {
            (Ok(()), Some(status)) => {
                running.written = Some((written.base, status));
                running.written_at = Some(Instant::now());
                running.retry_at = None;
            }
            (Ok(()), None) => {}
            (Err(error), _) => {
                tracing::warn!(inventory = %written.id, error, "cannot write; trying again");
                running.retry_at = Some(Instant::now() + WRITE_RETRY);
            }
        }
    }
}

impl Running {
    /// How many of the sinks hold the current rows.
    fn state(&self) -> &'static str {
        let report = self.reports.borrow();
        let good = report.lanes.iter();
        let good = good.filter(|lane| lane.state == LaneState::InStep).count();
        match good {
            0 if !report.lanes.is_empty() => "none",
            good if good < report.lanes.len() => "some",
            _ => "all",
        }
    }

    /// Takes note of what is seen, and since when.
    fn look(&mut self, report: &Report, gated: bool) {
        let seen = self.seen.as_ref();
        let same = seen.is_some_and(|(known, gate)| {
            let states = |report: &Report| {
                let lanes = report.lanes.iter();
                lanes.map(|lane| lane.state.clone()).collect::<Vec<_>>()
            };
            *gate == gated
                && known.waiting_for.is_some() == report.waiting_for.is_some()
                && states(known) == states(report)
        });
        if !same {
            self.since = Instant::now();
        }
        self.seen = Some((report.clone(), gated));
    }
}

impl Object {
    fn version(&self) -> Option<String> {
        match self {
            Object::Namespaced(inventory) => inventory.metadata.resource_version.clone(),
            Object::Cluster(inventory) => inventory.metadata.resource_version.clone(),
        }
    }

    fn has_finalizer(&self) -> bool {
        match self {
            Object::Namespaced(inventory) => {
                writer::has_finalizer(&**inventory, kollect_api::meta::INVENTORY_FINALIZER)
            }
            Object::Cluster(inventory) => {
                writer::has_finalizer(&**inventory, kollect_api::meta::CLUSTER_INVENTORY_FINALIZER)
            }
        }
    }

    async fn write_finalizer(&self, client: &Client, add: bool) -> kube::Result<()> {
        async fn write<K>(client: &Client, object: &K, name: &str, add: bool) -> kube::Result<()>
        where
            K: writer::ApiOf + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
        {
            let written = if add {
                writer::add_finalizer(client, object, name).await
            } else {
                writer::remove_finalizer(client, object, name).await
            };
            written.map(drop)
        }
        match self {
            Object::Namespaced(inventory) => {
                let name = kollect_api::meta::INVENTORY_FINALIZER;
                write(client, &**inventory, name, add).await
            }
            Object::Cluster(inventory) => {
                let name = kollect_api::meta::CLUSTER_INVENTORY_FINALIZER;
                write(client, &**inventory, name, add).await
            }
        }
    }

    async fn write_status(&self, client: &Client, status: &InventoryStatus) -> kube::Result<()> {
        match self {
            Object::Namespaced(inventory) => {
                let status = KollectInventoryStatus::from(status.clone());
                let written = writer::write_status(client, &**inventory, &status).await;
                written.map(drop)
            }
            Object::Cluster(inventory) => {
                let status = KollectClusterInventoryStatus::from(status.clone());
                let written = writer::write_status(client, &**inventory, &status).await;
                written.map(drop)
            }
        }
    }

    fn event(&self, condition: &Condition) -> k8s_openapi::api::core::v1::Event {
        fn event<K: Resource<DynamicType = ()>>(
            object: &K,
            condition: &Condition,
        ) -> k8s_openapi::api::core::v1::Event {
            let component = format!("{}-controller", K::kind(&()).to_lowercase());
            writer::event(object, condition, &component, Timestamp::now())
        }
        match self {
            Object::Namespaced(inventory) => event(&**inventory, condition),
            Object::Cluster(inventory) => event(&**inventory, condition),
        }
    }
}

/// A write that is too late has failed; one that somebody else overtook has not, because the next
/// version of the object brings the next try.
async fn within_deadline(write: impl Future<Output = kube::Result<()>>) -> Result<(), String> {
    match timeout(WRITE_DEADLINE, write).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if writer::is_outdated(&error) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {WRITE_DEADLINE:?}")),
    }
}
