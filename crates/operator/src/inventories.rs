//! The inventories: keeps an exporter for each, tells it what to do, and writes down what it says.
//!
//! ```text
//! configuration, sinks, Secrets ─> plan ─> order ─> exporter ─> sinks
//!                                    │                │
//!                                    └─> status <─────┘ report
//! ```

pub mod embedding;
mod exporters;
mod finalize;
mod object;
pub mod plan;
mod running;
pub mod status;
pub mod subject;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::{
    InventoryId, InventoryScope, SinkKey,
    condition::{Condition, ConditionStatus, ConditionType, Reason},
};
use kollect_collect::{
    plan::TargetKey,
    store::{RowSelection, Store},
};
use kollect_export::{Calls, Report};
use kollect_inventory::TargetKind;
use kube::Client;
use tokio::{runtime::Handle, sync::Notify, time::Instant};

use self::{
    embedding::ProfilesInUse,
    exporters::Exporters,
    finalize::{NextStep, Notice, farewell},
    object::{FinalizerChange, InventoryObject},
    plan::{Gaps, Held, World, plan},
    running::{Planned, Running},
    status::{InventoryFacts, InventoryStatus, PATIENCE},
    subject::Subject,
};
use crate::{
    configuration::{Configuration, Dependents, Unknown},
    control_loop::{ControlLoop, GATHER, PassCause, earliest},
    events::Events,
    keeper::{Bulkhead, Keeper},
    metrics::{exports::Exports, passes::Resolution},
    sink_objects::{Lookup, SinkObjects},
    statements,
    status_pace::{FIRST_WORD, News, PAUSE},
    write_queue::{EndedWrite, WriteQueue, WriteSlots},
    writer::WriteError,
};

/// How often plans are made anew although nothing changed: some depend on the time.
const REPLAN: Duration = Duration::from_secs(30);
/// For how long statuses of targets are gathered before a plan takes them into account.
const TOLD_GATHER: Duration = Duration::from_millis(200);

/// Settings of exports.
#[derive(Debug, Clone)]
pub struct ExportSettings {
    /// How long a deleted inventory waits for a sink that cannot be cleaned up.
    pub cleanup_patience: Duration,
    /// The size above which documents are split where neither inventory nor reference says one.
    /// Nothing means never.
    pub max_export_bytes: Option<i64>,
}

impl Default for ExportSettings {
    fn default() -> Self {
        Self {
            cleanup_patience: Duration::from_mins(10),
            max_export_bytes: None,
        }
    }
}

/// Keeps an exporter for every inventory.
pub struct Inventories {
    client: Client,
    configuration: Arc<Configuration>,
    sinks: Arc<SinkObjects>,
    calls: Arc<Calls>,
    settings: ExportSettings,
    exporters: Exporters,
    exports: Arc<Exports>,
    replan_at: Instant,
    writes: WriteQueue<WriteKey, Written>,
    /// What panicked when it was planned.
    planning: Bulkhead<InventoryId>,
    /// The version of each inventory that its finalizers were changed on last: until the watch
    /// shows another one, there is nothing to change.
    finalizers: BTreeMap<InventoryId, Option<String>>,
    /// Why finalizers could not be written last time.
    unfinalized: BTreeMap<InventoryId, String>,
    events: Events,
    /// Hears of targets that say something else about themselves.
    told: Arc<Notify>,
}

/// The inventory that is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteKey(InventoryId);

impl fmt::Display for WriteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inventory {}", self.0)
    }
}

/// What was written.
#[derive(Debug)]
pub struct Written(WrittenContent);

#[derive(Debug)]
enum WrittenContent {
    /// A status, what is new in it, and the version of the object that it made.
    Status(Box<InventoryStatus>, News, Option<String>),
    /// Finalizers, based on this version of the object.
    Finalizers(Option<String>),
}

/// What ended beside the loop.
pub enum Ended {
    /// An exporter has something to report.
    Report,
    /// A target says something else about itself.
    Told,
    /// An exporter that was told to stop.
    Exporter,
    /// A write.
    Write(EndedWrite<WriteKey, Written>),
}

/// Which inventories use which sinks; nothing unless all inventories are known.
fn users(
    configuration: &Configuration,
    objects: &BTreeMap<InventoryId, (Subject, InventoryObject)>,
) -> Option<BTreeSet<(InventoryId, SinkKey)>> {
    let Configuration {
        inventories,
        cluster_inventories,
        ..
    } = configuration;
    let known = inventories.is_listed()
        && cluster_inventories.is_listed()
        && inventories.is_followed()
        && cluster_inventories.is_followed()
        && inventories.unreadable().is_empty()
        && cluster_inventories.unreadable().is_empty();
    let living = objects
        .values()
        .filter(|(subject, _)| subject.deleted_at.is_none());
    known.then(|| {
        living
            .flat_map(|(subject, _)| {
                let sinks = subject.references.iter();
                sinks.map(|sink| (subject.id.clone(), sink.key.clone()))
            })
            .collect()
    })
}

impl Inventories {
    /// Exports rows of `store` to `sinks`. Exporters run in the runtime that calls this, whoever
    /// drives the loop.
    #[expect(clippy::too_many_arguments, reason = "each is a thing of its own")]
    pub fn new(
        client: Client,
        configuration: Arc<Configuration>,
        sinks: Arc<SinkObjects>,
        store: Store,
        calls: Arc<Calls>,
        exports: Arc<Exports>,
        slots: WriteSlots,
        keeper: &Keeper,
        settings: ExportSettings,
    ) -> Self {
        Self {
            client,
            told: configuration.changed.subscribe_told(),
            configuration,
            sinks,
            exporters: Exporters::new(Handle::current(), store, Arc::clone(&calls)),
            calls,
            exports,
            settings,
            replan_at: Instant::now(),
            events: slots.events().clone(),
            writes: WriteQueue::new(slots),
            planning: Bulkhead::new(keeper.clone(), "inventory"),
            finalizers: BTreeMap::new(),
            unfinalized: BTreeMap::new(),
        }
    }
}

impl ControlLoop for Inventories {
    type Ended = Ended;
    const CONTROLLERS: &'static [&'static str] = &["kollectinventory", "kollectclusterinventory"];

    fn failed_write(ended: &Ended) -> Option<&'static str> {
        let Ended::Write(write) = ended else {
            return None;
        };
        write.result.as_ref().err()?;
        Some(match write.key.0.scope {
            InventoryScope::Namespace(_) => "kollectinventory",
            InventoryScope::Cluster => "kollectclusterinventory",
        })
    }

    fn pass(&mut self, cause: PassCause) -> Option<Instant> {
        if cause == PassCause::Configuration || self.replan_at <= Instant::now() {
            self.replan_at = Instant::now() + REPLAN;
            self.plan();
        } else {
            self.observe();
        }
        self.count();
        let wakes = self
            .exporters
            .running
            .values()
            .filter_map(|running| running.wake);
        earliest(wakes.min(), Some(self.replan_at))
    }

    async fn next(&mut self) -> Ended {
        let news = Arc::clone(&self.exporters.news);
        tokio::select! {
            () = news.notified() => Ended::Report,
            _ = self.exporters.ended() => Ended::Exporter,
            () = self.told.notified() => Ended::Told,
            write = self.writes.next() => Ended::Write(write),
        }
    }

    fn ended(&mut self, ended: Ended) {
        let write = match ended {
            Ended::Write(write) => write,
            Ended::Told => {
                // Many targets may have something to say: one plan is enough for all of them.
                self.replan_at = self.replan_at.min(Instant::now() + TOLD_GATHER);
                return;
            }
            Ended::Report => return,
            Ended::Exporter => {
                // Another inventory of that name may have waited for this.
                self.replan_at = Instant::now();
                return;
            }
        };
        let WriteKey(id) = write.key;
        // Whatever came of it: there may be more to write now.
        if let Some(running) = self.exporters.running.get_mut(&id) {
            running.wake = Some(Instant::now());
        }
        let content = match write.result {
            Ok(Written(content)) => content,
            Err(error) => {
                if let WriteError::Finalizer(cause) = &error {
                    self.unfinalized.insert(id.clone(), cause.to_string());
                }
                if !self.exporters.running.contains_key(&id) {
                    // Nothing reports an inventory that does not run yet.
                    self.replan_at = Instant::now();
                }
                return;
            }
        };
        match content {
            WrittenContent::Status(status, news, version) => {
                if let Some(running) = self.exporters.running.get_mut(&id) {
                    running.wrote(*status, news, version);
                }
            }
            WrittenContent::Finalizers(base) => {
                self.unfinalized.remove(&id);
                self.finalizers.insert(id, base);
            }
        }
    }

    async fn finish(mut self) {
        tokio::join!(self.exporters.finish(), self.writes.finish());
    }
}

/// What a reference to a sink led to, if that is known.
fn resolution(found: &Lookup) -> Option<Resolution> {
    match found {
        Lookup::Found(_) => Some(Resolution::Found),
        Lookup::Missing => Some(Resolution::NotFound),
        Lookup::Unreadable { forbidden, .. } => forbidden.then_some(Resolution::Forbidden),
    }
}

impl Inventories {
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
        let profiles = ProfilesInUse::of(&configuration);
        let gaps = gaps(&configuration);
        let store = self.exporters.store.clone();
        let broken = broken(&configuration);
        let held = move |scope: &RowSelection| {
            let targets = store.held(scope);
            let whole = targets.iter().filter(|target| target.namespaces.is_none());
            let others = store.targets(scope) > whole.count();
            let named = |(key, why): (TargetKey, String)| (key.name.to_string(), why);
            let targets = targets.into_iter();
            let targets: Vec<_> = targets
                .map(|target| named((target.key, target.why)))
                .collect();
            let stale: Vec<_> = store.stale(scope).into_iter().map(named).collect();
            let broken = match scope {
                RowSelection::Namespace(namespace) => broken.get(namespace),
                RowSelection::Cluster { .. } => None,
            };
            let is_told = |name: &str| targets.iter().chain(&stale).any(|(told, _)| told == name);
            let broken = broken.into_iter().flatten();
            let broken = broken.filter(|(name, _)| !is_told(name)).cloned().collect();
            Held {
                targets,
                broken,
                others,
                stale,
            }
        };
        let sinks = Arc::clone(&self.sinks);
        let world = World {
            scopes: &scopes,
            cluster_scopes: &cluster_scopes,
            namespaces: &namespaces,
            cluster_targets: &cluster_targets,
            gaps: &gaps,
            held: &held,
            find: &|key| sinks.find(key),
            embedding: &|scope, targets| profiles.embedding(scope, targets),
            types: &|scope, targets| Arc::new(profiles.types(scope, targets)),
            access: &|sink| sinks.access(sink),
            max_export_bytes: self.settings.max_export_bytes,
            now: Timestamp::now(),
        };
        let mut objects = BTreeMap::new();
        for inventory in configuration.inventories.all() {
            let subject = Subject::from(&*inventory);
            let object = InventoryObject::Namespaced(inventory);
            objects.insert(subject.id.clone(), (subject, object));
        }
        for inventory in configuration.cluster_inventories.all() {
            let subject = Subject::from(&*inventory);
            let object = InventoryObject::Cluster(inventory);
            objects.insert(subject.id.clone(), (subject, object));
        }
        self.calls
            .pool
            .census()
            .learn(users(&configuration, &objects));
        self.forget(&objects);
        for (id, (subject, object)) in objects {
            let event = object.clone();
            self.contained(&id, &event, |all| all.plan_one(subject, object, &world));
        }
    }

    /// Does something for one inventory. If it panics, the others are none the worse.
    fn contained(
        &mut self,
        id: &InventoryId,
        object: &InventoryObject,
        work: impl FnOnce(&mut Self),
    ) {
        let mut planning = std::mem::take(&mut self.planning);
        let events = self.events.clone();
        let attempt = planning.attempt(id, || work(self), |panic| events.tell(object.event(panic)));
        self.planning = planning;
        if let Some(again) = attempt.again() {
            self.replan_at = self.replan_at.min(again);
        }
    }

    /// Looks at the inventories that have something new to say, or whose time has come.
    fn observe(&mut self) {
        let now = Instant::now();
        let due: Vec<Arc<Planned>> = self
            .exporters
            .running
            .values()
            .filter(|running| running.is_due(now))
            .map(|running| Arc::clone(&running.planned))
            .collect();
        for planned in due {
            let id = &planned.subject.id;
            self.contained(id, &planned.object, |all| all.sync(&planned));
        }
    }

    fn count(&self) {
        let mut states = BTreeMap::from([("all", 0), ("some", 0), ("none", 0)]);
        for running in self.exporters.running.values() {
            *states.entry(running.state()).or_default() += 1;
        }
        let surveyed = self.exporters.running.values().map(Running::rows);
        self.exports.inventories(states, surveyed.sum());
    }

    /// Ends the exporters of inventories that are gone, or that are another object now.
    fn forget(&mut self, objects: &BTreeMap<InventoryId, (Subject, InventoryObject)>) {
        let gone: Vec<InventoryId> = self
            .exporters
            .running
            .iter()
            .filter(|(id, running)| {
                let known = objects.get(*id);
                known.is_none_or(|(subject, _)| subject.uid != running.uid)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.exporters.end(&id);
        }
        self.finalizers.retain(|id, _| objects.contains_key(id));
        self.unfinalized.retain(|id, _| objects.contains_key(id));
        self.planning.retain(|id| objects.contains_key(id));
        self.exports.retain(&objects.keys().collect());
        self.writes
            .retain(|WriteKey(inventory)| objects.contains_key(inventory));
    }

    /// Plans one inventory and brings it up to date.
    fn plan_one(&mut self, mut subject: Subject, object: InventoryObject, world: &World<'_>) {
        if !object.has_finalizer() {
            if subject.deleted_at.is_none() {
                // Before the first row leaves, it must be sure that rows are removed again.
                self.write_finalizer(&subject, &object, FinalizerChange::Add);
            } else {
                self.writes.withdraw(&WriteKey(subject.id.clone()));
                self.exporters.end(&subject.id);
            }
            return;
        }
        if let Some(running) = self.exporters.running.get(&subject.id) {
            subject.served.clone_from(&running.served);
        }
        let plan = plan(&subject, world);
        let references = subject.references.iter().filter_map(|reference| {
            let found = resolution(&(world.find)(&reference.key))?;
            Some((reference.key.clone(), found))
        });
        self.exports.resolved(&subject.id, references);
        let planned = Arc::new(Planned {
            subject,
            object,
            plan,
        });
        self.exporters.ensure(&planned);
        self.tell_orphans(&planned);
        self.sync(&planned);
    }

    /// Tells, once, of sinks that are gone and may hold rows of an inventory.
    fn tell_orphans(&mut self, planned: &Planned) {
        let Planned { subject, plan, .. } = planned;
        let Some(running) = self.exporters.running.get_mut(&subject.id) else {
            return;
        };
        for key in &plan.orphans {
            if !running.emptied.contains(key) && running.orphans.insert(key.clone()) {
                tracing::warn!(
                    inventory = %subject.id, sink = %key,
                    "the sink is gone; rows that it may still hold are left there"
                );
            }
        }
    }

    /// Looks at what an exporter says, and writes it down.
    fn sync(&mut self, planned: &Planned) {
        let id = &planned.subject.id;
        let Some(running) = self.exporters.running.get_mut(id) else {
            return;
        };
        let report = running.reports.borrow_and_update().clone();
        let doubtful = running.observe(&report, planned.plan.gate.is_some());
        self.sinks.doubt(doubtful);
        let wake = if planned.subject.deleted_at.is_some() {
            self.finalize(planned, &report)
        } else {
            self.write_status(planned, &report)
        };
        if let Some(running) = self.exporters.running.get_mut(id) {
            running.wake = wake;
        }
    }

    /// A deleted inventory: when its rows have left all sinks, it may go.
    fn finalize(&mut self, planned: &Planned, report: &Report) -> Option<Instant> {
        let Planned {
            subject,
            object,
            plan,
        } = planned;
        let running = self.exporters.running.get_mut(&subject.id)?;
        let waited = running.finalizing_for();
        let patience = self.settings.cleanup_patience;
        let farewell = farewell(&plan.order, report, &running.emptied, waited, patience);
        for notice in &farewell.notices {
            self.warn(subject, object, notice);
        }
        match farewell.next {
            NextStep::Release => {
                self.write_finalizer(subject, object, FinalizerChange::Remove);
                None
            }
            NextStep::Wait(rest) => {
                // Nobody reads the status of what is about to go.
                self.writes.withdraw(&WriteKey(subject.id.clone()));
                Some(Instant::now() + rest + Duration::from_secs(1))
            }
        }
    }

    /// Tells, once for each turn of things, that a sink keeps rows of an inventory that goes.
    fn warn(&mut self, subject: &Subject, object: &InventoryObject, notice: &Notice) {
        let Some(running) = self.exporters.running.get_mut(&subject.id) else {
            return;
        };
        let text = notice.fate.text();
        if std::mem::replace(&mut running.warned, text) == text {
            return;
        }
        let why = notice.error.as_ref().map(|error| format!(": {error}"));
        let message = format!("sink {} {text}{}", notice.sink, why.unwrap_or_default());
        tracing::warn!(inventory = %subject.id, message);
        let condition = Condition::new(
            ConditionType::Degraded,
            ConditionStatus::True,
            notice.fate.reason(),
            message,
            Some(subject.generation),
            Time(Timestamp::now()),
        );
        self.events.tell(object.event(&condition));
    }

    /// Writes our finalizer. If that could not be done before, the status says so: nothing is
    /// exported meanwhile.
    fn write_finalizer(
        &mut self,
        subject: &Subject,
        object: &InventoryObject,
        change: FinalizerChange,
    ) {
        let (id, version) = (&subject.id, object.version());
        if self.finalizers.get(id) == Some(&version) {
            return;
        }
        let status = self.unfinalized.get(id).and_then(|why| {
            let now = Time(Timestamp::now());
            let after = status::unfinalized(&subject.status, subject.generation, why, &now);
            object.observe(&self.events, &after.conditions);
            (after != subject.status && change == FinalizerChange::Add).then_some(after)
        });
        let (client, object) = (self.client.clone(), object.clone());
        let (base, events, before) = (
            version.clone(),
            self.events.clone(),
            subject.status.conditions.clone(),
        );
        self.writes
            .submit(WriteKey(id.clone()), version.clone(), async move {
                let Err(error) = object.write_finalizer(&client, change).await else {
                    return Ok(Written(WrittenContent::Finalizers(base)));
                };
                if error.is_outdated() {
                    return Err(error);
                }
                if let Some(after) = status {
                    object.write_status(&client, version, &after).await?;
                    object.tell(&events, &before, &after.conditions);
                }
                Err(WriteError::Finalizer(Box::new(error)))
            });
    }

    fn write_status(&mut self, planned: &Planned, report: &Report) -> Option<Instant> {
        let Planned { subject, plan, .. } = planned;
        let key = WriteKey(subject.id.clone());
        if self.writes.defer(&key) {
            // The end of the write brings the next look.
            return None;
        }
        let degraded = self.degraded(report);
        let object = planned.object.current(&self.configuration);
        let running = self.exporters.running.get_mut(&subject.id)?;
        let now = Instant::now();
        let steady = now.duration_since(running.since);
        let patience = status::patience(now.duration_since(running.started));
        let (base, before) = running.known(&object);
        let facts = InventoryFacts {
            generation: subject.generation,
            cluster: subject.rollup.is_some(),
            plan,
            report,
            steady,
            patience,
            degraded: &degraded,
        };
        let after = status::status(&before, &facts, &Time(Timestamp::now()));
        object.observe(&self.events, &after.conditions);
        let settles = [PATIENCE, patience]
            .into_iter()
            .filter(|patience| steady <= *patience)
            .map(|patience| running.since + patience + GATHER)
            .min();
        if after == before {
            self.writes.withdraw(&key);
            return settles;
        }
        let news = News::of(&before.conditions, &after.conditions);
        let mut due = running.pace.due(news, PAUSE, now);
        let says = |type_: ConditionType| {
            let found = statements::find(&after.conditions, type_);
            found.is_some_and(|one| one.status == ConditionStatus::True)
        };
        let begins = !says(ConditionType::Synced) && !says(ConditionType::Degraded);
        if before.conditions.is_empty() && begins {
            due = due.max(running.started + FIRST_WORD);
        }
        if due > now {
            return earliest(settles, Some(due));
        }
        let (client, events) = (self.client.clone(), self.events.clone());
        self.writes.submit(key, base.clone(), async move {
            let version = object.write_status(&client, base, &after).await?;
            object.tell(&events, &before.conditions, &after.conditions);
            let content = WrittenContent::Status(Box::new(after), news, version);
            Ok(Written(content))
        });
        settles
    }

    /// The targets that are waited for and cannot collect, and why.
    fn degraded(&self, report: &Report) -> Vec<(TargetKey, String)> {
        let waiting = report.waiting_for.iter().flatten();
        let conditions = |key: &TargetKey| {
            let configuration = &self.configuration;
            match key.owner {
                TargetKind::Target => {
                    let target = configuration.targets.get(&key.namespace, &key.name);
                    target.and_then(|target| Some(target.status.as_ref()?.conditions.clone()))
                }
                TargetKind::ClusterTarget => {
                    let target = configuration.cluster_targets.get("", &key.name);
                    target.and_then(|target| Some(target.status.as_ref()?.conditions.clone()))
                }
            }
        };
        let why = |key: &TargetKey| {
            let conditions = conditions(key)?;
            let degraded = statements::find(&conditions, ConditionType::Degraded)?;
            Some((
                key.clone(),
                format!("{}: {}", degraded.reason, degraded.message),
            ))
        };
        waiting.filter_map(why).collect()
    }
}

/// The targets that collect nothing as they are now, and why, by namespace.
fn broken(configuration: &Configuration) -> BTreeMap<String, Vec<(String, String)>> {
    let mut all: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for target in configuration.targets.all() {
        let meta = &target.metadata;
        let conditions = target.status.iter().flat_map(|status| &status.conditions);
        let conditions: Vec<_> = conditions
            .filter(|said| said.observed_generation == meta.generation)
            .cloned()
            .collect();
        let ready = statements::find(&conditions, ConditionType::Ready);
        let degraded = statements::find(&conditions, ConditionType::Degraded);
        let (Some(ready), Some(degraded)) = (ready, degraded) else {
            continue;
        };
        let is_broken = ready.status == ConditionStatus::False
            && degraded.status == ConditionStatus::True
            // Somebody wants it so.
            && degraded.reason != Reason::Suspended.as_str()
            && meta.deletion_timestamp.is_none();
        if is_broken {
            let namespace = meta.namespace.clone().unwrap_or_default();
            let name = meta.name.clone().unwrap_or_default();
            let why = format!("{}: {}", degraded.reason, degraded.message);
            all.entry(namespace).or_default().push((name, why));
        }
    }
    all
}

/// What is not known of the configuration.
fn gaps(configuration: &Configuration) -> Gaps {
    let unreadable = configuration.cluster_targets.unreadable().into_iter();
    let everywhere = |unknown: Option<Unknown>| unknown.map(|unknown| unknown.why);
    Gaps {
        scopes: everywhere(configuration.scopes.unknown_everywhere()),
        unreadable_scopes: configuration.unreadable_scopes(),
        cluster_scopes: configuration.cluster_scopes_unknown(),
        targets: everywhere(configuration.targets.unknown_everywhere()),
        unread_targets: configuration.targets.unknown_namespaces(),
        cluster_targets: configuration
            .cluster_targets
            .unknown()
            .map(|unknown| unknown.why),
        unreadable_cluster_targets: unreadable.map(|((_, name), why)| (name, why)).collect(),
        stale: configuration.stale(Dependents::Teams),
        cluster_stale: configuration.stale(Dependents::Platform),
    }
}
