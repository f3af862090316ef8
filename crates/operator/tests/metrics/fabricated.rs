//! A collection without a cluster: targets, a plan and rows, made by hand.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kollect_api::GroupVersionKind;
use kollect_collect::{
    engine::{Tally, Traffic, WatchState},
    gates::Version,
    plan::{KindFact, NamespaceFacts, NamespaceListing, Plan, ProfileFact, TargetKey, World},
    store::{Limits, Stamp, Store},
};
use kollect_inventory::AttributesBuffer;
use kollect_operator::metrics::{Metrics, Observed, Readiness, Scene};
use kollect_watch::{
    Interruption, InterruptionClass, ObjectIdentity, Resource, WatchCounters,
    access::{Permission, Reviewer},
};
use kube::{Client, Config};
use serde_json::{Value, json};

/// A collection in the making.
pub(crate) struct Fabricated {
    pub(crate) observed: Arc<Observed>,
    pub(crate) metrics: Metrics,
    world: World,
    plan: Arc<Plan>,
}

impl Fabricated {
    /// Nothing is collected yet. Needs a runtime, which a client lives in.
    pub(crate) fn new(sample_interval: Duration) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let nowhere = "http://127.0.0.1:1".parse().expect("an address");
        let client = Client::try_from(Config::new(nowhere)).expect("a client");
        let store = Store::new(Limits::default(), || {});
        let reviewer = Arc::new(Reviewer::new(client));
        let observed = Arc::new(Observed::new(store, Arc::new(Tally::default()), reviewer));
        let mut world = World::default();
        world.kinds.set(
            GroupVersionKind::new("", "v1", "ConfigMap"),
            KindFact::Served(Arc::new(maps())),
        );
        let facts = NamespaceFacts {
            labels: BTreeMap::from([("tier".to_owned(), "app".to_owned())]),
            ..NamespaceFacts::default()
        };
        let names = ["a", "b"].map(|name| (name.to_owned(), facts.clone()));
        world.namespaces = NamespaceListing::Complete(BTreeMap::from(names));
        Self {
            metrics: Metrics::new(Arc::clone(&observed), sample_interval),
            observed,
            world,
            plan: Arc::default(),
        }
    }

    /// A profile of ConfigMaps in namespace `a`.
    pub(crate) fn profile(&mut self, name: &str, spec: Value) {
        let mut spec = spec;
        spec["targetGVK"] = json!({"version": "v1", "kind": "ConfigMap"});
        let profile = json!({"metadata": {"name": name, "namespace": "a"}, "spec": spec});
        let profile = with_type("KollectProfile", profile);
        let fact = ProfileFact::Found(Arc::new(serde_json::from_value(profile).expect("one")));
        let key = ("a".to_owned(), name.to_owned());
        self.world.profiles.insert(key, fact);
    }

    /// A target in namespace `a`.
    pub(crate) fn target(&mut self, name: &str, profile: &str) {
        let target = json!({
            "metadata": {"name": name, "namespace": "a"},
            "spec": {"profileRef": profile},
        });
        let target = serde_json::from_value(with_type("KollectTarget", target));
        self.world.targets.push(Arc::new(target.expect("a target")));
    }

    /// A cluster target.
    pub(crate) fn cluster_target(&mut self, name: &str, profile: &str) {
        let target = json!({
            "metadata": {"name": name},
            "spec": {
                "profileRef": {"name": profile, "namespace": "a"},
                "namespaceSelector": {"matchLabels": {"tier": "app"}},
            },
        });
        let target = serde_json::from_value(with_type("KollectClusterTarget", target));
        let target = Arc::new(target.expect("a target"));
        self.world.cluster_targets.push(target);
    }

    pub(crate) fn remove_target(&mut self, name: &str) {
        self.world
            .targets
            .retain(|target| target.metadata.name.as_deref() != Some(name));
    }

    /// A pass of the control loop, in which everything is allowed.
    pub(crate) fn pass(&mut self) {
        let begun = self.observed.passes.begin();
        for review in self.plan.next(&self.world).reviews {
            self.world.access.set(review, Permission::Allowed);
        }
        let plan = Arc::new(self.plan.next(&self.world));
        let store = &self.observed.store;
        store.apply(&plan, &plan.delta_from(&self.plan));
        let watches: BTreeSet<_> = plan
            .resources()
            .flat_map(|resource| resource.watches.clone())
            .collect();
        let state = |watch| WatchState {
            watch,
            listed: true,
            interruption: Some(Interruption {
                class: InterruptionClass::Throttled,
                retry_in: Duration::ZERO,
                failures: 1,
                message: String::new(),
            }),
            counters: Arc::<WatchCounters>::default(),
        };
        let traffic = plan
            .resources()
            .map(|resource| (Arc::clone(&resource.resource), Traffic::default()));
        self.observed.publish(Scene {
            readiness: Readiness::Ready,
            plan: Arc::clone(&plan),
            watches: watches.into_iter().map(state).collect(),
            traffic: traffic.collect(),
        });
        self.observed.passes.end(begun, &plan);
        self.plan = plan;
    }

    /// Writes the row of an object of namespace `a`.
    pub(crate) fn row(&self, target: &TargetKey, name: &str, attributes: &Value) {
        let mut buffer = AttributesBuffer::new();
        buffer.set(attributes.as_object().expect("an object"));
        let feed = self.observed.store.feed(target).expect("it collects");
        feed.put(self.stamp(), object(name), buffer.view());
    }

    /// Removes that row.
    pub(crate) fn no_row(&self, target: &TargetKey, name: &str) {
        let feed = self.observed.store.feed(target).expect("it collects");
        feed.delete(Version::new(9), object(name));
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            epoch: self.plan.epoch(),
            version: Version::new(1),
        }
    }

    /// All samples whose line begins with this.
    pub(crate) fn samples(&self, begin: &str) -> Vec<String> {
        let page = self.metrics.render();
        let lines = page.lines().filter(|line| line.starts_with(begin));
        lines.map(str::to_owned).collect()
    }
}

fn object(name: &str) -> ObjectIdentity<&str> {
    ObjectIdentity {
        namespace: "a",
        name,
        uid: name,
    }
}

fn maps() -> Resource {
    Resource {
        group: String::new(),
        version: "v1".to_owned(),
        plural: "configmaps".to_owned(),
        namespaced: true,
    }
}

fn with_type(kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = "kollect.dev/v1alpha1".into();
    object["kind"] = kind.into();
    object
}
