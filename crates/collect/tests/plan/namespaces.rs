//! Which namespaces targets mean.

use kollect_collect::plan::{NamespaceListing, Plan, Settings, TargetPlan, World};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{add, data, empty_world, everywhere, key, names, plan};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Table {
    snapshot: Value,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Vector {
    id: String,
    spec: Value,
    #[serde(default)]
    default_included: Vec<String>,
    #[serde(default)]
    default_excluded: Vec<String>,
    #[serde(default)]
    watch_namespaces: Vec<String>,
    listing: Option<String>,
    ceiling: Option<Value>,
    matched: Vec<String>,
    effective: Option<Vec<String>>,
    degraded: Option<String>,
}

fn world_of(table: &Table, vector: &Vector) -> World {
    let mut world = empty_world();
    world.settings = Settings {
        default_included_namespaces: vector.default_included.clone(),
        default_excluded_namespaces: vector.default_excluded.clone(),
        watch_namespaces: vector.watch_namespaces.clone(),
        ..Settings::default()
    };
    for (name, labels) in table.snapshot.as_object().expect("a map of namespaces") {
        let metadata = json!({"name": name, "labels": labels});
        add(
            &mut world,
            json!({"kind": "Namespace", "metadata": metadata}),
        );
    }
    world.namespaces = match (vector.listing.as_deref(), world.namespaces) {
        (None, listing) => listing,
        (Some("partial"), NamespaceListing::Complete(all)) => NamespaceListing::Partial(all),
        _ => NamespaceListing::Partial(std::collections::BTreeMap::new()),
    };
    add(
        &mut world,
        json!({
            "kind": "KollectProfile",
            "metadata": {"namespace": "home", "name": "p"},
            "spec": {"targetGVK": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        }),
    );
    world
}

fn check(vector: &Vector, target: &TargetPlan) {
    let id = &vector.id;
    let effective = vector.effective.as_ref().unwrap_or(&vector.matched);
    assert_eq!(names(&*target.namespaces.matched), vector.matched, "{id}");
    assert_eq!(names(&*target.namespaces.effective), *effective, "{id}");
    let reason = target.degradation().map(|d| d.reason.as_str());
    assert_eq!(reason, vector.degraded.as_deref(), "{id}");
    match target.collection() {
        Some(collection) => assert_eq!(names(collection.reach.keys()), *effective, "{id}"),
        None => assert!(vector.degraded.is_some(), "{id}"),
    }
}

#[test]
fn vectors() {
    let table: Table = data("namespaces.yaml");
    let mut spec_vectors = 0;
    for vector in &table.vectors {
        spec_vectors += usize::from(vector.id.starts_with("NS-"));
        let mut world = world_of(&table, vector);
        if let Some(ceiling) = &vector.ceiling {
            let manifest =
                json!({"kind": "KollectClusterScope", "metadata": {"name": "s"}, "spec": ceiling});
            add(&mut world, manifest);
        } else {
            let mut spec = vector.spec.clone();
            spec["profileRef"] = "p".into();
            let metadata = json!({"namespace": "home", "name": "t"});
            add(
                &mut world,
                json!({"kind": "KollectTarget", "metadata": metadata, "spec": spec}),
            );
        }
        let mut spec = vector.spec.clone();
        spec["profileRef"] = json!({"namespace": "home", "name": "p"});
        if spec
            .get("namespaceSelector")
            .is_none_or(|s| *s == json!({}))
        {
            spec["namespaceSelector"] = everywhere();
        }
        let metadata = json!({"name": "t"});
        let manifest = json!({"kind": "KollectClusterTarget", "metadata": metadata, "spec": spec});
        add(&mut world, manifest);

        let plan = plan(&Plan::new(), &mut world);
        for target in plan.targets() {
            check(vector, target);
        }
        assert!(plan.target(&key("t")).is_some(), "{}", vector.id);
        assert_eq!(
            plan.target(&key("home/t")).is_some(),
            vector.ceiling.is_none(),
            "{}",
            vector.id
        );
    }
    assert_eq!(spec_vectors, 15);
}
