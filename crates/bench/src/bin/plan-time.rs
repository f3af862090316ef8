//! Times of planning in a large installation: a plan from nothing, and the ones that follow.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kollect_api::GroupVersionKind;
use kollect_bench::bar::{self, Bar};
use kollect_collect::plan::{KindFact, NamespaceFacts, NamespaceListing, Plan, ProfileFact, World};
use kollect_watch::{
    Resource, WatchScope,
    access::{Permission, Review},
};
use serde_json::{Value, json};

const TARGETS: usize = 1_000;
const NAMESPACES: usize = 1_000;
const ROUNDS: usize = 7;

fn main() -> ExitCode {
    println!("{TARGETS} targets that all collect from the same {NAMESPACES} namespaces");
    let alike = times(&world(|_| json!({})));
    println!("\n{TARGETS} targets, each of which excludes another of {NAMESPACES} namespaces");
    let different = times(&world(
        |at| json!({"excludedNamespaces": [format!("ns-{:04}", at % NAMESPACES)]}),
    ));
    let ratio = |time: Duration| time.as_secs_f64() / different.nothing.as_secs_f64();
    bar::report(&[
        Bar {
            name: "nothing changed, against a plan of different targets from nothing",
            figure: ratio(different.unchanged.max(different.written)),
            most: 0.03,
            unit: "x",
        },
        Bar {
            name: "one target was edited, against the same",
            figure: ratio(different.edited),
            most: 0.5,
            unit: "x",
        },
        Bar {
            name: "one namespace was labelled, targets that are alike, against the same",
            figure: ratio(alike.labelled),
            most: 0.1,
            unit: "x",
        },
    ])
}

/// How long plans take.
struct Times {
    nothing: Duration,
    unchanged: Duration,
    written: Duration,
    edited: Duration,
    labelled: Duration,
}

fn times(world: &World) -> Times {
    let first = Plan::new().next(world);
    let edited = {
        let mut world = world.clone();
        world.targets[7] = target(7, json!({"excludedNamespaces": ["ns-0003"]}));
        world
    };
    let written = {
        let mut world = world.clone();
        let mut target = kollect_api::KollectTarget::clone(&world.targets[7]);
        target.metadata.resource_version = Some("2".to_owned());
        world.targets[7] = Arc::new(target);
        world
    };
    let labelled = {
        let mut world = world.clone();
        world.namespaces = namespaces(Some(3));
        world
    };
    Times {
        nothing: report("from nothing", &Plan::new(), world),
        unchanged: report("nothing changed", &first, world),
        written: report("the status of one target was written", &first, &written),
        edited: report("one target was edited", &first, &edited),
        labelled: report("one namespace was labelled", &first, &labelled),
    }
}

/// The median time to plan, with what has to be done afterwards.
fn report(what: &str, before: &Plan, world: &World) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            let plan = before.next(world);
            let delta = plan.delta_from(before);
            let took = started.elapsed();
            black_box((plan, delta));
            took
        })
        .collect();
    times.sort();
    let median = times[ROUNDS / 2];
    println!("{median:>12.3?}  {what}");
    median
}

fn world(spec: impl Fn(usize) -> Value) -> World {
    let gvk = GroupVersionKind::new("apps", "v1", "Deployment");
    let resource = Arc::new(Resource {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        plural: "deployments".to_owned(),
        namespaced: true,
    });
    let mut world = World {
        namespaces: namespaces(None),
        ..World::default()
    };
    world
        .kinds
        .set(gvk, KindFact::Served(Arc::clone(&resource)));
    let review = Review {
        resource,
        scope: WatchScope::All,
    };
    world.access.set(review, Permission::Allowed);
    let profile = json!({
        "metadata": {"namespace": "home", "name": "p"},
        "spec": {
            "targetGVK": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "attributes": [{"name": "replicas", "path": "$.spec.replicas"}],
        },
    });
    let profile = serde_json::from_value(profile).expect("a profile");
    let key = ("home".to_owned(), "p".to_owned());
    world
        .profiles
        .insert(key, ProfileFact::Found(Arc::new(profile)));
    world.targets = (0..TARGETS).map(|at| target(at, spec(at))).collect();
    world
}

fn target(at: usize, mut spec: Value) -> Arc<kollect_api::KollectTarget> {
    spec["profileRef"] = "p".into();
    let metadata = json!({
        "namespace": "home", "name": format!("target-{at:04}"), "resourceVersion": "1",
    });
    let target = json!({"metadata": metadata, "spec": spec});
    Arc::new(serde_json::from_value(target).expect("a target"))
}

/// The namespaces, one of them opted out.
fn namespaces(disabled: Option<usize>) -> NamespaceListing {
    let all = (0..NAMESPACES).map(|at| {
        let name = format!("ns-{at:04}");
        let mut labels = BTreeMap::from([
            ("kubernetes.io/metadata.name".to_owned(), name.clone()),
            ("team".to_owned(), format!("team-{}", at % 20)),
        ]);
        if disabled == Some(at) {
            labels.insert("kollect.dev/watch".to_owned(), "disabled".to_owned());
        }
        let facts = NamespaceFacts {
            labels,
            annotations: BTreeMap::new(),
        };
        (name, facts)
    });
    NamespaceListing::Complete(all.collect())
}
