use kollect_watch::{
    Decode as _, InterruptionClass, Resource, WatchScope,
    access::{Permission, Review},
};
use serde_json::{Value, json};

use super::*;
use crate::engine::numbered_projection::NumberedProjection;
use crate::plan::{KindFact, NamespaceFacts, NamespaceListing, Plan, ProfileFact, World};
use crate::store::{Limits, Store};

/// ConfigMaps of one namespace, a plan that changes, and dispatchers without watches.
struct Bench {
    shared: Arc<Shared>,
    world: World,
    projection: u64,
}

fn resource() -> Arc<Resource> {
    Arc::new(Resource {
        group: String::new(),
        version: "v1".to_owned(),
        plural: "configmaps".to_owned(),
        namespaced: true,
    })
}

impl Bench {
    fn new() -> Self {
        let profile = json!({
            "metadata": {"namespace": "a", "name": "p"},
            "spec": {
                "targetGVK": {"version": "v1", "kind": "ConfigMap"},
                "attributes": [{"name": "value", "path": "$.data.value"}],
            },
        });
        let profile: kollect_api::KollectProfile = serde_json::from_value(profile).unwrap();
        let mut world = World::default();
        let gvk = profile.spec.target_gvk.clone();
        let facts = NamespaceFacts::default();
        world.namespaces = NamespaceListing::Complete([("a".to_owned(), facts)].into());
        world.kinds.set(gvk, KindFact::Served(resource()));
        let (namespace, name) = ("a".to_owned(), "p".to_owned());
        let profile = ProfileFact::Found(Arc::new(profile));
        world.profiles.insert((namespace, name), profile);
        let review = Review {
            resource: resource(),
            scope: WatchScope::Namespace("a".into()),
        };
        world.access.set(review, Permission::Allowed);
        Self {
            shared: Arc::new(Shared {
                store: Store::new(Limits::default(), || {}),
                current: std::sync::RwLock::default(),
                news: Arc::default(),
                tally: Arc::default(),
            }),
            world,
            projection: 0,
        }
    }

    /// Adds a target, makes a plan and puts it into force, seen through a new projection.
    fn target(&mut self, name: &str, mut spec: Value) -> Watch {
        if spec.get("profileRef").is_none() {
            spec["profileRef"] = "p".into();
        }
        let metadata = json!({"namespace": "a", "name": name});
        let target = json!({"metadata": metadata, "spec": spec});
        let target = serde_json::from_value(target).unwrap();
        self.world.targets.push(Arc::new(target));
        let before = self.shared.current();
        let plan = Arc::new(before.plan.next(&self.world));
        let delta = plan.delta_from(&before.plan);
        self.projection += 1;
        let current = Current {
            plan: Arc::clone(&plan),
            projections: [(resource(), self.projection)].into(),
        };
        *self.shared.current.write().unwrap() = Arc::new(current);
        self.shared.store.apply(&plan, &delta);
        let mut watches = plan.resource(&resource()).unwrap().watches.iter();
        watches.next().unwrap().clone()
    }

    fn dispatcher(&self, watch: Watch, replaces: &[&Dispatcher]) -> Dispatcher {
        let assignment = Assignment {
            scope: watch.scope.clone(),
            watch,
            only: None,
            replaces: replaces.iter().map(|older| older.feeds()).collect(),
        };
        let shared = Arc::clone(&self.shared);
        Dispatcher::new(shared, assignment, Arc::default(), CancellationToken::new())
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.shared.current().plan)
    }

    fn map(&self, labels: &Value, version: &str) -> WatchDelivery<SeenObject> {
        let object = json!({
            "metadata": {
                "namespace": "a", "name": "map", "uid": "u", "labels": labels,
                "resourceVersion": version,
            },
            "data": {"value": "x"},
        });
        let projection =
            NumberedProjection::new(self.projection, self.plan().resource(&resource()).unwrap());
        let decoded = projection.decode(object.to_string().as_bytes()).unwrap();
        WatchDelivery::Object(decoded.object)
    }

    fn rows(&self, target: &str) -> usize {
        let key = TargetKey::namespaced("a", target);
        self.shared.store.rows(&key).len()
    }
}

fn gone(version: &str) -> WatchDelivery<SeenObject> {
    WatchDelivery::Gone {
        identity: ObjectIdentity {
            namespace: "a".to_owned(),
            name: "map".to_owned(),
            uid: "u".to_owned(),
        },
        resource_version: version.to_owned(),
    }
}

fn finished(version: &str) -> WatchDelivery<SeenObject> {
    let resource_version = version.to_owned();
    WatchDelivery::ListingFinished { resource_version }
}

async fn take(
    dispatcher: &mut Dispatcher,
    deliveries: impl IntoIterator<Item = WatchDelivery<SeenObject>>,
) {
    for delivery in deliveries {
        dispatcher.take(delivery).await;
    }
}

/// A watch of labels, and a wider one that replaces it for the sake of a second target.
async fn replaced(bench: &mut Bench) -> (Dispatcher, Dispatcher) {
    let labelled = json!({"labelSelector": {"matchLabels": {"app": "x"}}});
    let narrow = bench.target("labelled", labelled);
    assert_eq!(narrow.selector.as_deref(), Some("app=x"));
    let mut older = bench.dispatcher(narrow, &[]);
    let map = bench.map(&json!({"app": "x"}), "5");
    take(
        &mut older,
        [WatchDelivery::ListingStarted, map, finished("6")],
    )
    .await;
    assert_eq!(bench.rows("labelled"), 1);
    let wide = bench.target("every", json!({}));
    assert_eq!(wide.selector, None);
    let newer = bench.dispatcher(wide, &[&older]);
    (older, newer)
}

#[tokio::test]
async fn what_leaves_the_labels_of_an_older_watch_is_gone_only_for_its_targets() {
    let mut bench = Bench::new();
    let (mut older, mut newer) = replaced(&mut bench).await;
    let changed = bench.map(&json!({}), "40");
    take(&mut newer, [WatchDelivery::ListingStarted, changed]).await;
    take(&mut older, [gone("40")]).await;
    take(&mut newer, [finished("45")]).await;
    assert_eq!((bench.rows("labelled"), bench.rows("every")), (0, 1));
}

#[tokio::test]
async fn an_empty_list_of_an_older_watch_sweeps_only_its_targets() {
    let mut bench = Bench::new();
    let (mut older, mut newer) = replaced(&mut bench).await;
    let changed = bench.map(&json!({}), "40");
    take(&mut newer, [WatchDelivery::ListingStarted, changed]).await;
    take(&mut older, [WatchDelivery::ListingStarted, finished("44")]).await;
    take(&mut newer, [finished("45")]).await;
    assert_eq!((bench.rows("labelled"), bench.rows("every")), (0, 1));
}

/// Where versions are no numbers their order is not known, so that only the order of watches
/// tells what is old.
#[tokio::test]
async fn a_watch_that_was_replaced_is_not_listened_to() {
    let mut bench = Bench::new();
    let (mut older, mut newer) = replaced(&mut bench).await;
    let back = bench.map(&json!({"app": "x"}), "c");
    take(
        &mut newer,
        [WatchDelivery::ListingStarted, back, finished("d")],
    )
    .await;
    assert_eq!((bench.rows("labelled"), bench.rows("every")), (1, 1));
    take(&mut older, [gone("b")]).await;
    assert_eq!(bench.rows("labelled"), 1, "that was before the list");
    take(&mut older, [WatchDelivery::ListingStarted, finished("b")]).await;
    assert_eq!(bench.rows("labelled"), 1, "nor does it list any more");
    take(&mut newer, [gone("e")]).await;
    assert_eq!((bench.rows("labelled"), bench.rows("every")), (0, 0));
}

#[tokio::test]
async fn a_watch_that_is_closed_writes_nothing_more() {
    let mut bench = Bench::new();
    let watch = bench.target("every", json!({}));
    let mut dispatcher = bench.dispatcher(watch, &[]);
    let map = bench.map(&json!({}), "5");
    take(
        &mut dispatcher,
        [WatchDelivery::ListingStarted, map, finished("6")],
    )
    .await;
    assert_eq!(bench.rows("every"), 1);
    dispatcher.feeds().close();
    take(&mut dispatcher, [gone("7")]).await;
    assert_eq!(bench.rows("every"), 1);
    // Nor after it has asked for feeds again, as with the next plan.
    bench.target("other", json!({}));
    take(&mut dispatcher, [gone("8")]).await;
    assert_eq!(bench.rows("every"), 1);
}

#[tokio::test]
async fn an_interruption_is_news_once() {
    let mut bench = Bench::new();
    let watch = bench.target("every", json!({}));
    let dispatcher = bench.dispatcher(watch, &[]);
    let interruption = Interruption {
        class: InterruptionClass::Unavailable,
        retry_in: std::time::Duration::ZERO,
        failures: 1,
        message: "503".to_owned(),
    };
    let progress = dispatcher.progress();
    assert!(progress.interrupt(Some(interruption.clone())));
    assert!(!progress.interrupt(Some(interruption)), "it lasts");
    assert!(progress.interrupt(None));
}

/// A3: a profile that costs all it may on every object is named in its own target, ever shorter
/// held, and the rows of its neighbours come; the worker is given to others in between.
#[tokio::test]
async fn a3_an_expensive_profile_costs_its_neighbours_little() {
    const OBJECTS: u32 = 60;
    let mut bench = Bench::new();
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let path = format!(
        "cel:{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, {list}.all(f, a + b + c + d + e + f >= 0 || object.data.value == 'y'))))))"
    );
    let attribute = |at: usize| json!({"name": format!("a{at}"), "path": path, "optional": true});
    let profile = json!({
        "metadata": {"namespace": "a", "name": "expensive"},
        "spec": {
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "attributes": (0..50).map(attribute).collect::<Vec<_>>(),
        },
    });
    let profile = ProfileFact::Found(Arc::new(serde_json::from_value(profile).unwrap()));
    let key = ("a".to_owned(), "expensive".to_owned());
    bench.world.profiles.insert(key, profile);
    bench.target("hostile", json!({"profileRef": "expensive"}));
    let watch = bench.target("good", json!({}));
    let mut dispatcher = bench.dispatcher(watch, &[]);

    // Shares the one worker of this test with the dispatcher.
    let turns = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = Arc::clone(&turns);
    let neighbour = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    take(&mut dispatcher, [WatchDelivery::ListingStarted]).await;
    for version in 1..=OBJECTS {
        let object = bench.map(&json!({}), &version.to_string());
        take(&mut dispatcher, [object]).await;
    }
    neighbour.abort();
    let turns = turns.load(std::sync::atomic::Ordering::Relaxed);
    assert!(turns >= 10, "the neighbour had {turns} turns");

    assert_eq!((bench.rows("good"), bench.rows("hostile")), (1, 0));
    let summary = |name: &str| {
        let key = TargetKey::namespaced("a", name);
        bench.shared.store.summary(&key).expect("it is there")
    };
    assert_eq!(summary("good").failing, 0);
    let hostile = summary("hostile");
    assert_eq!(hostile.failing, 1);
    let message = hostile.last_failure.expect("it fails");
    assert!(message.starts_with("a/map: attribute \"a"), "{message}");
    assert!(message.contains("gets less than others"), "{message}");
}
