//! What is asked of the API server, and what is decoded.

use kollect_collect::{
    gates::{Decision, ObjectView, Skip},
    plan::{Plan, Watch},
};
use kollect_watch::ObjectContent;
use serde_json::{Value, json};

use crate::support::{add, key, plan, resource, world};

/// A world with one target per spec, all of the kind Deployment.
fn manifests(targets: &[(Value, Value)]) -> String {
    let mut all = vec![json!({"kind": "Namespace", "metadata": {"name": "team-a"}})];
    for (index, (attributes, spec)) in targets.iter().enumerate() {
        let metadata = json!({"namespace": "team-a", "name": format!("t{index}")});
        let gvk = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
        all.push(json!({"kind": "KollectProfile", "metadata": metadata,
            "spec": {"targetGVK": gvk, "attributes": attributes}}));
        let mut spec = spec.clone();
        spec["profileRef"] = metadata["name"].clone();
        all.push(json!({"kind": "KollectTarget", "metadata": metadata, "spec": spec}));
    }
    serde_json::to_string(&all).expect("JSON is YAML")
}

fn watch(old: &Plan, targets: &[(Value, Value)]) -> (Plan, Watch) {
    let plan = plan(old, &mut world(&manifests(targets)));
    let resource = plan
        .resource(&resource("Deployment"))
        .expect("it is watched");
    let watches: Vec<Watch> = resource.watches.iter().cloned().collect();
    let [watch] = <[Watch; 1]>::try_from(watches).expect("there is one watch");
    (plan, watch)
}

fn labels() -> Value {
    json!([{"name": "app", "path": "$.metadata.labels.app"}])
}

fn replicas() -> Value {
    json!([{"name": "replicas", "path": "$.spec.replicas"}])
}

fn rule(rule: Value) -> Value {
    let mut rule = rule;
    rule["gvk"] = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    rule
}

#[test]
fn metadata_is_enough_when_nobody_reads_more() {
    let policy = |text: &str| json!({"resourceRules": [rule(json!({"matchPolicy": text}))]});
    for (targets, content) in [
        (vec![(labels(), json!({}))], ObjectContent::Metadata),
        (vec![(replicas(), json!({}))], ObjectContent::Object),
        (
            vec![(labels(), json!({})), (replicas(), json!({}))],
            ObjectContent::Object,
        ),
        (
            vec![(labels(), policy("object.metadata.name != 'x'"))],
            ObjectContent::Metadata,
        ),
        (
            vec![(labels(), policy("object.spec.replicas > 1"))],
            ObjectContent::Object,
        ),
        (
            vec![(labels(), policy("object.kind == 'Deployment'"))],
            ObjectContent::Metadata,
        ),
    ] {
        assert_eq!(
            watch(&Plan::new(), &targets).1.content,
            content,
            "{targets:?}"
        );
    }
}

#[test]
fn the_server_filters_labels_when_all_targets_agree() {
    let app = json!({"matchLabels": {"app": "shop"}});
    let expressions = json!([
        {"key": "tier", "operator": "NotIn", "values": ["c", "b"]},
        {"key": "app", "operator": "In", "values": ["shop"]},
        {"key": "new", "operator": "Exists"},
        {"key": "old", "operator": "DoesNotExist"},
    ]);
    let shop = || (labels(), json!({"labelSelector": app}));
    let ruled = |rules: Value| (labels(), json!({"resourceRules": rules}));
    let by_rule = rule(json!({"matchLabels": {"app": "shop"}}));
    for (targets, selector) in [
        (vec![shop()], Some("app=shop")),
        (vec![shop(), shop()], Some("app=shop")),
        (
            vec![shop(), ruled(json!([by_rule, by_rule]))],
            Some("app=shop"),
        ),
        (vec![shop(), (labels(), json!({}))], None),
        (vec![ruled(json!([by_rule, rule(json!({}))]))], None),
        (vec![(labels(), json!({"names": ["web"]}))], None),
        (
            vec![(
                labels(),
                json!({"labelSelector": {"matchExpressions": expressions}}),
            )],
            Some("app in (shop),new,!old,tier notin (b,c)"),
        ),
    ] {
        let found = watch(&Plan::new(), &targets).1.selector;
        assert_eq!(found.as_deref(), selector, "{targets:?}");
    }
}

#[test]
fn a_watch_that_delivers_more_than_needed_stays() {
    let narrow = [(
        labels(),
        json!({"labelSelector": {"matchLabels": {"app": "shop"}}}),
    )];
    let (first, before) = watch(&Plan::new(), &narrow);
    assert_eq!(
        (before.selector.as_deref(), before.content),
        (Some("app=shop"), ObjectContent::Metadata)
    );

    let (second, wide) = watch(&first, &[(replicas(), json!({}))]);
    assert_eq!(
        (wide.selector.as_deref(), wide.content),
        (None, ObjectContent::Object)
    );
    let delta = second.delta_from(&first);
    assert!(delta.open.contains(&wide) && delta.close.contains(&before));
    assert!(delta.relist.is_empty(), "the new watch lists by itself");

    let (third, kept) = watch(&second, &narrow);
    assert_eq!(kept, wide);
    assert!(third.delta_from(&second).open.is_empty());
}

#[test]
fn c_27_only_what_somebody_reads_is_decoded() {
    let policy = json!({"resourceRules": [rule(json!({
        "matchLabels": {"app": "shop"},
        "matchPolicy": "object.spec.paused != true",
    }))]});
    let (plan, _) = watch(&Plan::new(), &[(replicas(), policy), (labels(), json!({}))]);
    let resource = plan
        .resource(&resource("Deployment"))
        .expect("it is watched");
    let object = json!({
        "metadata": {"name": "web", "namespace": "team-a", "uid": "u", "resourceVersion": "7",
            "labels": {"app": "shop", "other": "x", "kollect.dev/watch": "enabled"},
            "managedFields": [{"manager": "kubectl"}]},
        "spec": {"replicas": 3, "paused": false, "template": {"spec": {}}},
        "status": {"replicas": 3},
    });
    let decoded = resource.projection.decode(object.to_string().as_bytes());
    assert_eq!(
        *decoded.expect("it is an object").value(),
        json!({
            "metadata": {"name": "web", "namespace": "team-a", "uid": "u", "resourceVersion": "7",
                "labels": {"app": "shop", "kollect.dev/watch": "enabled"}},
            "spec": {"replicas": 3, "paused": false},
        })
    );
}

#[test]
fn whoever_asks_why_an_object_is_missing_gets_the_reason() {
    let (plan, _) = watch(
        &Plan::new(),
        &[(
            labels(),
            json!({"includedNamespaces": ["team-a"], "names": ["web"]}),
        )],
    );
    let target = plan.target(&key("team-a/t0")).expect("it is planned");
    let collection = target.collection().expect("it collects");
    for (namespace, name, expected) in [
        ("team-a", "web", Decision::Collect),
        ("team-a", "api", Decision::Skip(Skip::Name)),
        ("team-b", "web", Decision::Skip(Skip::Namespace)),
    ] {
        let object = json!({"metadata": {"namespace": namespace, "name": name}});
        let verdict = collection.decide(&ObjectView::new(&object));
        assert_eq!(verdict.decision, expected, "{namespace}/{name}");
    }
}

#[test]
fn c_38_an_event_visits_only_targets_of_its_namespace() {
    let spec = |namespaces: &[&str]| json!({"includedNamespaces": namespaces});
    let targets = [
        (labels(), spec(&["team-a"])),
        (labels(), spec(&["team-a", "team-b"])),
        (labels(), spec(&["team-b"])),
    ];
    let mut world = world(&manifests(&targets));
    add(
        &mut world,
        json!({"kind": "Namespace", "metadata": {"name": "team-b"}}),
    );
    let plan = plan(&Plan::new(), &mut world);
    let resource = plan
        .resource(&resource("Deployment"))
        .expect("it is watched");
    for (namespace, interested, uninterested) in [("team-a", 2, 1), ("team-b", 2, 1), ("x", 0, 3)] {
        assert_eq!(
            resource.interests(namespace).count(),
            interested,
            "{namespace}"
        );
        assert_eq!(
            resource.uninterested(namespace),
            uninterested,
            "{namespace}"
        );
    }
}

#[test]
fn a_watch_that_is_about_to_be_replaced_serves_only_whom_it_shows_enough() {
    let shop = json!({"labelSelector": {"matchLabels": {"app": "shop"}}});
    let (first, narrow) = watch(&Plan::new(), &[(labels(), shop.clone())]);
    let (second, wide) = watch(
        &first,
        &[
            (labels(), shop.clone()),
            (labels(), json!({})),
            (replicas(), shop),
        ],
    );
    let serves = |watch: &Watch| {
        ["team-a/t0", "team-a/t1", "team-a/t2"].map(|name| {
            let target = second.target(&key(name)).expect("it is planned");
            watch.serves(target.collection().expect("it collects"))
        })
    };
    // The second target wants objects it does not show, the third wants more of each object.
    assert_eq!(serves(&narrow), [true, false, false]);
    assert_eq!(serves(&wide), [true, true, true]);
}
