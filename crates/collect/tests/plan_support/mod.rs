//! Worlds written as manifests, for tests of plans, gates and the store.
#![allow(dead_code, reason = "every test program uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kollect_api::GroupVersionKind;
use kollect_collect::plan::{
    KindFact, NamespaceFacts, NamespaceListing, Plan, ProfileFact, Readable, TargetKey, World,
};
use kollect_watch::{
    Resource,
    access::{Permission, Review},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads a file of test data.
pub(crate) fn data<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/plan")
        .join(name);
    let text = std::fs::read_to_string(&path).expect("the file is there");
    yaml(&text)
}

/// Reads YAML in which only `true` and `false` are booleans.
pub(crate) fn yaml<T: DeserializeOwned>(text: &str) -> T {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Kinds that every test cluster serves: group, version, kind, plural, namespaced.
const KINDS: [(&str, &str, &str, &str, bool); 6] = [
    ("apps", "v1", "Deployment", "deployments", true),
    ("", "v1", "Pod", "pods", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "Node", "nodes", false),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", true),
    (
        "gateway.networking.k8s.io",
        "v1",
        "Gateway",
        "gateways",
        true,
    ),
];

pub(crate) fn resource(kind: &str) -> Arc<Resource> {
    let known = KINDS.iter().find(|known| known.2 == kind);
    let &(group, version, _, plural, namespaced) = known.expect("the kind is known");
    Arc::new(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        namespaced,
    })
}

pub(crate) fn gvk(kind: &str) -> GroupVersionKind {
    let known = KINDS.iter().find(|known| known.2 == kind);
    let &(group, version, kind, ..) = known.expect("the kind is known");
    GroupVersionKind::new(group, version, kind)
}

/// A world in which every kind is served and nothing else exists.
pub(crate) fn empty_world() -> World {
    let mut world = World {
        namespaces: NamespaceListing::Complete(BTreeMap::new()),
        ..World::default()
    };
    for (_, _, kind, ..) in KINDS {
        world.kinds.set(gvk(kind), KindFact::Served(resource(kind)));
    }
    world
}

/// The world of some manifests.
pub(crate) fn world(manifests: &str) -> World {
    let mut world = empty_world();
    for manifest in yaml::<Vec<Value>>(manifests) {
        add(&mut world, manifest);
    }
    world
}

/// The API server gives every namespace its name as label.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A selector of all namespaces. A cluster target must have one: everything is meant only if it is
/// said.
pub(crate) fn everywhere() -> Value {
    json!({"matchExpressions": [{"key": NAME_LABEL, "operator": "Exists"}]})
}

/// Adds an object to a world, in place of one with the same name.
pub(crate) fn add(world: &mut World, manifest: Value) {
    fn read<T: DeserializeOwned>(manifest: Value) -> T {
        serde_json::from_value(manifest).unwrap_or_else(|error| panic!("{error}"))
    }
    remove(world, &manifest);
    match kind_of(&manifest).as_str() {
        "Namespace" => {
            let name = text(&manifest, "name");
            let map = |key: &str| -> BTreeMap<String, String> {
                serde_json::from_value(manifest["metadata"][key].clone()).unwrap_or_default()
            };
            let mut labels = map("labels");
            labels.insert(NAME_LABEL.to_owned(), name.clone());
            let facts = NamespaceFacts {
                labels,
                annotations: map("annotations"),
            };
            namespaces(world).insert(name, facts);
        }
        "KollectProfile" => {
            let key = (text(&manifest, "namespace"), text(&manifest, "name"));
            let profile = ProfileFact::Found(Arc::new(read(manifest)));
            world.profiles.insert(key, profile);
        }
        "KollectTarget" => world.targets.push(Arc::new(read(manifest))),
        "KollectClusterTarget" => world.cluster_targets.push(Arc::new(read(manifest))),
        "KollectScope" => readable(&mut world.scopes).push(Arc::new(read(manifest))),
        "KollectClusterScope" => {
            readable(&mut world.cluster_scopes).push(Arc::new(read(manifest)));
        }
        other => panic!("{other:?} is not part of a world"),
    }
}

/// Takes an object out of a world.
pub(crate) fn remove(world: &mut World, manifest: &Value) {
    let (namespace, name) = (text(manifest, "namespace"), text(manifest, "name"));
    let is = |metadata: &kube::api::ObjectMeta| {
        metadata.name.as_deref() == Some(&name)
            && metadata.namespace.as_deref().unwrap_or_default() == namespace
    };
    match kind_of(manifest).as_str() {
        "Namespace" => {
            namespaces(world).remove(&name);
        }
        "KollectProfile" => {
            world.profiles.remove(&(namespace.clone(), name.clone()));
        }
        "KollectTarget" => world.targets.retain(|target| !is(&target.metadata)),
        "KollectClusterTarget" => world.cluster_targets.retain(|target| !is(&target.metadata)),
        "KollectScope" => readable(&mut world.scopes).retain(|scope| !is(&scope.metadata)),
        "KollectClusterScope" => {
            readable(&mut world.cluster_scopes).retain(|scope| !is(&scope.metadata));
        }
        _ => {}
    }
}

fn kind_of(manifest: &Value) -> String {
    manifest["kind"].as_str().unwrap_or_default().to_owned()
}

fn text(manifest: &Value, key: &str) -> String {
    manifest["metadata"][key]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn namespaces(world: &mut World) -> &mut BTreeMap<String, NamespaceFacts> {
    match &mut world.namespaces {
        NamespaceListing::Complete(all) | NamespaceListing::Partial(all) => all,
        NamespaceListing::Unread | NamespaceListing::Unreadable(_) => {
            panic!("the namespaces of this world are not read")
        }
    }
}

fn readable<T: Default>(value: &mut Readable<T>) -> &mut T {
    if let Readable::Failed(_) = value {
        *value = Readable::default();
    }
    match value {
        Readable::Read(read) => read,
        Readable::Failed(_) => unreachable!("replaced above"),
    }
}

/// Answers every review of a plan and plans again, until nothing is unanswered.
pub(crate) fn settle(
    old: &Plan,
    world: &mut World,
    answer: impl Fn(&Review) -> Permission,
) -> Plan {
    loop {
        let plan = old.next(world);
        let open: Vec<Review> = plan
            .reviews
            .iter()
            .filter(|review| world.access.get(review).is_none())
            .cloned()
            .collect();
        if open.is_empty() {
            return plan;
        }
        for review in open {
            let permission = answer(&review);
            world.access.set(review, permission);
        }
    }
}

/// The plan of a world in which everything is allowed.
pub(crate) fn plan(old: &Plan, world: &mut World) -> Plan {
    settle(old, world, |_| Permission::Allowed)
}

/// A target's key, written as `namespace/name`, or `name` for a cluster target.
pub(crate) fn key(text: &str) -> TargetKey {
    match text.split_once('/') {
        Some((namespace, name)) => TargetKey::namespaced(namespace, name),
        None => TargetKey::cluster(text),
    }
}

/// Names as text.
pub(crate) fn names<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> Vec<String> {
    names.into_iter().map(|name| (**name).to_owned()).collect()
}
