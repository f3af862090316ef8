//! A store, an exporter and sinks that write down every call.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kollect_api::{
    GroupVersionKind, InventoryId, SinkKey, inventory::Dedupe, reference::SinkFamily,
    sink::SinkSpec,
};
use kollect_collect::{
    gates::Version,
    plan::{KindFact, NamespaceFacts, NamespaceListing, Plan, ProfileFact, TargetKey, World},
    store::{Limits, RowSelection, Stamp, Store},
};
use kollect_export::{
    Calls, Configuration, Exporter, Order, Permits, Pool, Report, SinkOrder, SinkSource,
    delivery::{ExportTask, Observer},
    exporter::Surveyor,
    order::{Resume, Source},
    survey::Survey,
};
use kollect_inventory::AttributesBuffer;
use kollect_sinks::{
    Delivery, DeliveryRows, Demand, DocumentOptions, Receipt, Sink, SinkError,
    credentials::Materials,
};
use kollect_watch::{ObjectIdentity, WatchScope, access::Permission};
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// How a sink behaves.
#[derive(Debug, Clone, Default)]
pub(crate) enum Mood {
    #[default]
    Fine,
    Fails(SinkError),
    /// Accepts after this long.
    Slow(Duration),
    /// Fails after this long.
    SlowlyFails(Duration, SinkError),
    /// Never answers.
    Hangs,
    Panics,
    /// Cannot even be opened.
    NotOpened(SinkError),
    OpeningPanics,
}

/// A call that reached a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// Milliseconds since the beginning.
    pub(crate) at: u64,
    pub(crate) sink: String,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// All rows, by name.
    All(Vec<String>),
    /// These rows came or changed, those went.
    Changes(Vec<String>, Vec<String>),
    /// Whether it holds what it was given.
    Look,
    Retire,
}

#[derive(Debug, Default)]
struct Backend {
    mood: Mood,
    demand: Option<Demand>,
    /// Whether it can say that it holds what it was given, and what it says.
    confirms: Option<bool>,
}

/// The world of the sinks.
#[derive(Debug)]
pub(crate) struct Backends {
    begun: Instant,
    behaviour: Mutex<BTreeMap<String, Backend>>,
    calls: Mutex<Vec<Call>>,
    /// The generation of the inventory that each delivery was for.
    pub(crate) generations: Mutex<Vec<(String, i64)>>,
    /// The versions of sinks that were opened.
    pub(crate) opened: Mutex<Vec<(String, u128)>>,
}

impl Backends {
    fn confirms(&self, name: &str) -> Option<bool> {
        let behaviour = self.behaviour.lock().expect("backends");
        behaviour.get(name)?.confirms
    }

    fn mood(&self, name: &str) -> Mood {
        let behaviour = self.behaviour.lock().expect("backends");
        let backend = behaviour.get(name);
        backend
            .map(|backend| backend.mood.clone())
            .unwrap_or_default()
    }
}

#[derive(Debug)]
struct Recorder {
    name: String,
    backends: Arc<Backends>,
}

impl Recorder {
    async fn answer(&self, what: What) -> Result<Receipt, SinkError> {
        let at = u64::try_from(self.backends.begun.elapsed().as_millis()).expect("short");
        let call = Call {
            at,
            sink: self.name.clone(),
            what,
        };
        self.backends.calls.lock().expect("calls").push(call);
        match self.backends.mood(&self.name) {
            // Whoever is called was opened, or is asked by a test that leaves that out.
            Mood::Fine | Mood::NotOpened(_) | Mood::OpeningPanics => Ok(Receipt::default()),
            Mood::Fails(error) => Err(error),
            Mood::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(Receipt::default())
            }
            Mood::SlowlyFails(time, error) => {
                tokio::time::sleep(time).await;
                Err(error)
            }
            Mood::Hangs => std::future::pending().await,
            Mood::Panics => panic!("a sink panics"),
        }
    }
}

/// Counts what an exporter tells.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) delivered: AtomicUsize,
    pub(crate) failed: AtomicUsize,
    pub(crate) panics: Mutex<Vec<ExportTask>>,
    /// The next thing that is told panics.
    pub(crate) panics_next: AtomicBool,
}

impl Observer for Told {
    fn delivered(
        &self,
        _: &SinkSource,
        _: &InventoryId,
        _: Duration,
        result: Result<&Receipt, &SinkError>,
    ) {
        let count = match result {
            Ok(_) => &self.delivered,
            Err(_) => &self.failed,
        };
        count.fetch_add(1, Ordering::SeqCst);
    }

    fn debounced(&self) {
        assert!(
            !self.panics_next.swap(false, Ordering::SeqCst),
            "an observer panics"
        );
    }

    fn panicked(&self, task: ExportTask) {
        self.panics.lock().expect("panics").push(task);
    }
}

#[async_trait]
impl Sink for Recorder {
    fn demand(&self) -> Demand {
        let backends = self.backends.behaviour.lock().expect("backends");
        let demand = backends.get(&self.name).and_then(|backend| backend.demand);
        demand.unwrap_or(Demand::Changes)
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        let names = |rows: &mut dyn Iterator<Item = &kollect_inventory::Row>| {
            rows.map(|row| row.name().to_owned()).collect::<Vec<_>>()
        };
        let what = match &delivery.rows {
            DeliveryRows::All(rows) => What::All(names(&mut rows.rows().iter())),
            DeliveryRows::Changes(delta) => {
                What::Changes(names(&mut delta.upserts()), names(&mut delta.deletes()))
            }
        };
        let generation = (self.name.clone(), delivery.generation);
        let generations = &self.backends.generations;
        generations.lock().expect("generations").push(generation);
        self.answer(what).await
    }

    fn confirms(&self) -> bool {
        self.backends.confirms(&self.name).is_some()
    }

    fn longest_silence(&self) -> Option<Duration> {
        Some(Duration::from_mins(4))
    }

    async fn confirm(&self, _: &Delivery) -> Result<Option<Receipt>, SinkError> {
        let receipt = self.answer(What::Look).await?;
        let same = self.backends.confirms(&self.name) == Some(true);
        Ok(same.then_some(receipt))
    }

    async fn retire(&self, _: &InventoryId) -> Result<Receipt, SinkError> {
        self.answer(What::Retire).await
    }

    async fn probe(&self) -> Result<String, SinkError> {
        match self.backends.mood(&self.name) {
            Mood::Hangs => std::future::pending().await,
            Mood::Panics => panic!("a probe panics"),
            _ => Ok(String::new()),
        }
    }
}

/// One inventory `inv` in namespace `team-a` with one target `t`.
pub(crate) struct Stage {
    pub(crate) backends: Arc<Backends>,
    pub(crate) order: Order,
    store: Store,
    world: World,
    target: TargetKey,
    plan: Arc<Plan>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) told: Arc<Told>,
    /// Whether this process leads.
    pub(crate) leads: Arc<AtomicBool>,
    surveyor: Surveyor,
    orders: watch::Sender<Arc<Order>>,
    reports: watch::Receiver<Report>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
    version: u64,
    begun: Instant,
}

impl Stage {
    /// Nothing runs yet; the target has not been listed.
    pub(crate) fn new() -> Self {
        Self::with_permits(8)
    }

    /// With so many quick calls at a time.
    pub(crate) fn with_permits(permits: usize) -> Self {
        let begun = Instant::now();
        let backends = Arc::new(Backends {
            begun,
            behaviour: Mutex::default(),
            calls: Mutex::default(),
            generations: Mutex::default(),
            opened: Mutex::default(),
        });
        let order = Order {
            inventory: InventoryId::namespaced("team-a", "inv"),
            generation: 1,
            scope: RowSelection::Namespace("team-a".to_owned()),
            dedupe: Dedupe::KeepAll,
            open: true,
            deliver: Vec::new(),
            retire: Vec::new(),
        };
        let (told, leads) = (Arc::<Told>::default(), Arc::new(AtomicBool::new(true)));
        let built = Arc::clone(&backends);
        let calls = Arc::new(Calls {
            pool: Pool::with_opener(move |source| {
                let sink: Arc<dyn Sink> = Arc::new(Recorder {
                    name: source.key.name.clone(),
                    backends: Arc::clone(&built),
                });
                let mood = built.mood(&source.key.name);
                let opened = (source.key.name.clone(), source.version);
                built.opened.lock().expect("openings").push(opened);
                Box::pin(async move {
                    match mood {
                        Mood::NotOpened(error) => Err(error),
                        Mood::OpeningPanics => panic!("an opening panics"),
                        _ => Ok(sink),
                    }
                })
            }),
            deadline: Duration::from_mins(2),
            permits: Permits::new(permits),
            probes: Permits::new(4),
            observer: Arc::clone(&told) as _,
            may_write: {
                let leads = Arc::clone(&leads);
                Box::new(move || leads.load(Ordering::SeqCst))
            },
        });
        let (orders, _) = watch::channel(Arc::new(order.clone()));
        let (_, reports) = watch::channel(Report::default());
        let mut stage = Self {
            backends,
            order,
            store: Store::new(Limits::default(), || {}),
            world: world(),
            target: TargetKey::namespaced("team-a", "t"),
            plan: Arc::default(),
            calls,
            told,
            leads,
            surveyor: Survey::take,
            orders,
            reports,
            stop: CancellationToken::new(),
            task: None,
            version: 1,
            begun,
        };
        stage.replan();
        stage
    }

    /// The cluster inventory `inv` of the rows that the cluster target `t` collects in `team-a`.
    pub(crate) fn of_a_rollup() -> Self {
        let mut stage = Self::new();
        let target = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectClusterTarget",
            "metadata": {"name": "t"},
            "spec": {
                "profileRef": {"name": "p", "namespace": "team-a"},
                "namespaceSelector": {"matchLabels": {"tier": "app"}},
            },
        });
        let target = serde_json::from_value(target).expect("a cluster target");
        stage.world.targets.clear();
        stage.world.cluster_targets = vec![Arc::new(target)];
        stage.target = TargetKey::cluster("t");
        stage.replan();
        stage.order.inventory = InventoryId::cluster("inv");
        stage.order.scope = RowSelection::Cluster {
            targets: ["t".to_owned()].into(),
            namespaces: ["team-a".to_owned()].into(),
        };
        stage
    }

    fn replan(&mut self) {
        for review in self.plan.next(&self.world).reviews {
            self.world.access.set(review, Permission::Allowed);
        }
        let plan = Arc::new(self.plan.next(&self.world));
        self.store.apply(&plan, &plan.delta_from(&self.plan));
        self.plan = plan;
    }

    /// The first listing of the target ends with these rows.
    pub(crate) fn listed(&mut self, rows: &[(&str, i64)]) {
        for (name, replicas) in rows {
            self.put(name, *replicas);
        }
        let feed = self.store.feed(&self.target).expect("the target collects");
        let listing = feed.begin_listing(WatchScope::All);
        for (name, replicas) in rows {
            let mut attributes = AttributesBuffer::new();
            attributes.start().attribute("replicas").signed(*replicas);
            listing.put(self.stamp(), object(name), attributes.view());
        }
        listing.finish(Version::new(self.version));
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            epoch: self.plan.epoch(),
            version: Version::new(self.version),
        }
    }

    pub(crate) fn put(&mut self, name: &str, replicas: i64) {
        self.version += 1;
        let mut attributes = AttributesBuffer::new();
        attributes.start().attribute("replicas").signed(replicas);
        let feed = self.store.feed(&self.target).expect("the target collects");
        feed.put(self.stamp(), object(name), attributes.view());
    }

    pub(crate) fn delete(&mut self, name: &str) {
        self.version += 1;
        let feed = self.store.feed(&self.target).expect("the target collects");
        feed.delete(Version::new(self.version), object(name));
    }

    /// Refers to a sink.
    pub(crate) fn sink(&mut self, name: &str, interval: Duration) -> &mut SinkOrder {
        self.order.deliver.push(sink_order(name, interval));
        self.order.deliver.last_mut().expect("just pushed")
    }

    pub(crate) fn mood(&self, sink: &str, mood: Mood) {
        let mut backends = self.backends.behaviour.lock().expect("backends");
        backends.entry(sink.to_owned()).or_default().mood = mood;
    }

    /// From now on this sink says whether it holds what it was given.
    pub(crate) fn confirms(&self, sink: &str, same: bool) {
        let mut backends = self.backends.behaviour.lock().expect("backends");
        backends.entry(sink.to_owned()).or_default().confirms = Some(same);
    }

    /// From now on this sink, which is referred to already, wants all rows every time.
    pub(crate) fn writes_documents(&mut self, sink: &str) {
        self.demands(sink, Demand::Documents);
    }

    /// From now on this sink, which is referred to already, wants to be given this.
    pub(crate) fn demands(&mut self, sink: &str, demand: Demand) {
        let mut backends = self.backends.behaviour.lock().expect("backends");
        backends.entry(sink.to_owned()).or_default().demand = Some(demand);
        let mut orders = self.order.deliver.iter_mut();
        let order = orders
            .find(|order| order.key.name == sink)
            .expect("a reference");
        if let Source::Ready(source) = &mut order.source {
            Arc::make_mut(source).demand = demand;
        }
    }

    /// Refers to a sink of another namespace.
    pub(crate) fn sink_of(&mut self, namespace: &str, name: &str) {
        let order = self.sink(name, Duration::ZERO);
        namespace.clone_into(&mut order.key.namespace);
        if let Source::Ready(source) = &mut order.source {
            namespace.clone_into(&mut Arc::make_mut(source).key.namespace);
        }
    }

    /// The sink of a reference.
    pub(crate) fn source(&self, at: usize) -> Arc<SinkSource> {
        match &self.order.deliver[at].source {
            Source::Ready(source) => Arc::clone(source),
            other => panic!("{other:?}"),
        }
    }

    /// Delivers nothing to a sink, as some other inventory.
    pub(crate) async fn attempt(&self, source: &Arc<SinkSource>) -> Result<Receipt, SinkError> {
        let turn = self.calls.turn(source).await;
        let turn = turn.map_err(|no_turn| no_turn.error().clone())?;
        let inventory = InventoryId::namespaced("team-a", "other");
        self.calls.retire(turn, &inventory).await
    }

    /// Surveys rows in another way. To be said before the exporter starts.
    pub(crate) fn surveyed_by(&mut self, surveyor: Surveyor) {
        self.surveyor = surveyor;
    }

    /// Starts the exporter with a keeper that begins it anew when it panics.
    pub(crate) fn go_kept(&mut self) {
        let (orders, follow) = watch::channel(Arc::new(self.order.clone()));
        let (tell, reports) = watch::channel(Report::default());
        let (store, calls) = (self.store.clone(), Arc::clone(&self.calls));
        let kept = Exporter::keep(
            store,
            calls,
            follow,
            tell,
            Arc::default(),
            self.stop.clone(),
        );
        (self.orders, self.reports) = (orders, reports);
        self.task = Some(tokio::spawn(kept));
    }

    /// Starts the exporter, or gives it the current order.
    pub(crate) fn go(&mut self) {
        let order = Arc::new(self.order.clone());
        if self.task.is_some() {
            self.orders.send_replace(order);
            return;
        }
        let (orders, follow) = watch::channel(order);
        let (tell, reports) = watch::channel(Report::default());
        let exporter = Exporter::new(
            self.store.clone(),
            Arc::clone(&self.calls),
            follow,
            tell,
            Arc::new(Notify::new()),
        )
        .surveyed_by(self.surveyor);
        (self.orders, self.reports) = (orders, reports);
        self.task = Some(tokio::spawn(exporter.run(self.stop.clone())));
    }

    /// Lets time pass until this many milliseconds after the beginning.
    pub(crate) async fn until(&self, at: u64) {
        sleep_until(self.begun + Duration::from_millis(at)).await;
    }

    /// Stops the exporter and waits for its end. Another one may be started.
    pub(crate) async fn stopped(&mut self) {
        std::mem::take(&mut self.stop).cancel();
        if let Some(task) = self.task.take() {
            task.await.expect("no panic");
        }
    }

    pub(crate) fn report(&self) -> Report {
        self.reports.borrow().clone()
    }

    /// The calls since the last look.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.backends.calls.lock().expect("calls"))
    }

    /// The seconds of the calls to one sink since the last look.
    pub(crate) fn seconds(&self, sink: &str) -> Vec<u64> {
        let calls = self.calls();
        let calls = calls.iter().filter(|call| call.sink == sink);
        calls.map(|call| call.at / 1_000).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) fn sink_order(name: &str, interval: Duration) -> SinkOrder {
    let key = SinkKey {
        family: SinkFamily::Database,
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
    };
    let spec = json!({
        "type": "postgres",
        "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
    });
    let spec = serde_json::from_value(spec).expect("a sink");
    SinkOrder {
        source: Source::Ready(Arc::new(SinkSource {
            key: key.clone(),
            uid: format!("uid-{name}"),
            version: 1,
            demand: Demand::Changes,
            spec: Arc::new(SinkSpec::Database(spec)),
            materials: Arc::new(Materials::default()),
        })),
        key,
        configuration: Configuration(1),
        interval,
        change_interval: Duration::ZERO,
        documents: DocumentOptions::default(),
        resume: None,
    }
}

/// What an earlier process left in the status.
pub(crate) fn resumed(checksum: &str, seconds_ago: i64) -> Resume {
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds_ago);
    Resume {
        checksum: checksum.to_owned(),
        at,
    }
}

fn object(name: &str) -> ObjectIdentity<&str> {
    ObjectIdentity {
        namespace: "team-a",
        name,
        uid: name,
    }
}

fn world() -> World {
    let mut world = World::default();
    let resource = kollect_watch::Resource {
        group: String::new(),
        version: "v1".to_owned(),
        plural: "configmaps".to_owned(),
        namespaced: true,
    };
    let gvk = GroupVersionKind::new("", "v1", "ConfigMap");
    world.kinds.set(gvk, KindFact::Served(Arc::new(resource)));
    let facts = NamespaceFacts {
        labels: BTreeMap::from([("tier".to_owned(), "app".to_owned())]),
        ..NamespaceFacts::default()
    };
    let namespace = ("team-a".to_owned(), facts);
    world.namespaces = NamespaceListing::Complete(BTreeMap::from([namespace]));
    let profile = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
        "metadata": {"name": "p", "namespace": "team-a"},
        "spec": {
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "attributes": [{"name": "replicas", "path": "$.data.replicas"}],
        },
    });
    let profile = serde_json::from_value(profile).expect("a profile");
    let key = ("team-a".to_owned(), "p".to_owned());
    world
        .profiles
        .insert(key, ProfileFact::Found(Arc::new(profile)));
    let target = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
        "metadata": {"name": "t", "namespace": "team-a"},
        "spec": {"profileRef": "p", "includedNamespaces": ["team-a"]},
    });
    let target = serde_json::from_value(target).expect("a target");
    world.targets = vec![Arc::new(target)];
    world
}
