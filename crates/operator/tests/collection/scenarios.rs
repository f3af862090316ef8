//! What can happen to a collection.

use std::thread;

use anyhow::{Result, ensure};
use kollect_operator::controller::CollectionSettings;
use kollect_testkit::{
    rbac::{Rule, Scope},
    wait::eventually,
};
use serde_json::{Value, json};

use crate::{
    operator::Operator,
    stage::{Scene, stage},
};

fn attributes() -> Value {
    json!([
        {"name": "value", "path": "$.data.value"},
        {"name": "number", "path": "cel:int(object.data.number)", "optional": true},
    ])
}

#[test]
fn rows_follow_changes_and_survive_a_restart() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "follow")?;
    let namespace = scene.namespace.clone();
    let profile = scene.profile(&attributes())?;
    scene.maps(&namespace, 0..20, "first")?;
    scene.target(json!({"includedNamespaces": [namespace]}))?;
    {
        let operator = Operator::start(plane.cluster())?;
        operator.expect(&scene, &profile, &[&namespace])?;
        eventually("a ready target", || {
            let (status, reason, message) = scene.condition("Ready")?;
            ensure!(
                status == "True" && reason == "Collecting",
                "{status} {reason} {message}"
            );
            ensure!(message.ends_with("collecting"), "{message}");
            Ok(())
        })?;
        scene.maps(&namespace, 10..30, "second")?;
        scene.delete_map(&namespace, 3)?;
        operator.expect(&scene, &profile, &[&namespace])?;
    }
    // Things happen while nobody looks.
    scene.maps(&namespace, 0..2, "third")?;
    scene.delete_map(&namespace, 5)?;
    let operator = Operator::start(plane.cluster())?;
    operator.expect(&scene, &profile, &[&namespace])
}

#[test]
fn edits_of_profile_target_and_namespaces_reach_the_rows() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "edits")?;
    let (a, b) = (
        scene.namespace.clone(),
        scene.cluster.create_namespace("edits-b")?,
    );
    scene.maps(&a, 0..5, "a")?;
    scene.maps(&b, 0..7, "b")?;
    let profile = scene.profile(&attributes())?;
    scene.target(json!({"includedNamespaces": [a]}))?;
    let operator = Operator::start(plane.cluster())?;
    operator.expect(&scene, &profile, &[&a])?;

    // The profile reads more than before: objects must be seen again.
    let wider = scene.profile(&json!([
        {"name": "value", "path": "$.data.value"},
        {"name": "labels", "path": "$.metadata.labels", "optional": true},
    ]))?;
    operator.expect(&scene, &wider, &[&a])?;

    // The target moves to another namespace, then to both.
    scene.target(json!({"includedNamespaces": [b]}))?;
    operator.expect(&scene, &wider, &[&b])?;
    scene.target(json!({"includedNamespaces": [a, b]}))?;
    operator.expect(&scene, &wider, &[&a, &b])?;

    // By label: in, out and opted out.
    scene.target(json!({"namespaceSelector": {"matchLabels": {"scene": "edits"}}}))?;
    operator.expect(&scene, &wider, &[])?;
    scene
        .cluster
        .kubectl(&["label", "namespace", &b, "scene=edits"])?;
    operator.expect(&scene, &wider, &[&b])?;
    scene
        .cluster
        .kubectl(&["label", "namespace", &a, "scene=edits"])?;
    operator.expect(&scene, &wider, &[&a, &b])?;
    scene
        .cluster
        .kubectl(&["label", "namespace", &b, "kollect.dev/watch=disabled"])?;
    operator.expect(&scene, &wider, &[&a])?;
    scene
        .cluster
        .kubectl(&["label", "namespace", &b, "kollect.dev/watch-", "scene-"])?;
    operator.expect(&scene, &wider, &[&a])?;

    // Suspended: the rows go, and come back.
    scene.target(json!({"includedNamespaces": [a], "suspend": true}))?;
    operator.expect_count(&scene, 0)?;
    eventually("a suspended target", || {
        let (status, reason, _) = scene.condition("Degraded")?;
        ensure!(status == "True" && reason == "Suspended");
        Ok(())
    })?;
    scene.target(json!({"includedNamespaces": [a], "suspend": false}))?;
    operator.expect(&scene, &wider, &[&a])?;

    // The profile goes: definite, so the rows go. It comes back, and so do they.
    scene
        .cluster
        .kubectl(&["delete", "kollectprofile", "maps", "-n", &a])?;
    operator.expect_count(&scene, 0)?;
    let profile = scene.profile(&attributes())?;
    operator.expect(&scene, &profile, &[&a])?;

    // A deleted target takes its rows along and is not held back by its finalizer.
    scene
        .cluster
        .kubectl(&["delete", "kollecttarget", "maps", "-n", &a, "--timeout=20s"])?;
    operator.expect_count(&scene, 0)
}

#[test]
fn a_scope_stops_what_it_forbids() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "scope")?;
    let namespace = scene.namespace.clone();
    scene.maps(&namespace, 0..3, "x")?;
    let profile = scene.profile(&attributes())?;
    scene.target(json!({"includedNamespaces": [namespace]}))?;
    let operator = Operator::start(plane.cluster())?;
    operator.expect(&scene, &profile, &[&namespace])?;
    let scope = |gvks: Value| {
        scene.apply(&json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectScope",
            "metadata": {"name": "s", "namespace": namespace}, "spec": {"allowedGVKs": gvks},
        }))
    };
    scope(json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]))?;
    operator.expect_count(&scene, 0)?;
    eventually("a denied target", || {
        let (status, reason, message) = scene.condition("Ready")?;
        ensure!(
            status == "False" && reason == "ScopeGVKDenied",
            "{status} {reason} {message}"
        );
        Ok(())
    })?;
    scope(json!([{"version": "v1", "kind": "ConfigMap"}]))?;
    operator.expect(&scene, &profile, &[&namespace])
}

#[test]
fn a_kind_that_is_installed_late_starts_by_itself_and_holds_nobody_up() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "late")?;
    let namespace = scene.namespace.clone();
    let group = format!("{namespace}.example.test");
    scene.maps(&namespace, 0..3, "x")?;
    let maps = scene.profile(&attributes())?;
    scene.target(json!({"includedNamespaces": [namespace]}))?;
    scene.apply(&json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
        "metadata": {"name": "gateways", "namespace": namespace},
        "spec": {
            "targetGVK": {"group": group, "version": "v1", "kind": "Gateway"},
            "attributes": [{"name": "host", "path": "$.spec.host"}],
        },
    }))?;
    scene.apply(&json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
        "metadata": {"name": "gateways", "namespace": namespace},
        "spec": {"profileRef": "gateways", "includedNamespaces": [namespace]},
    }))?;
    let operator = Operator::start(plane.cluster())?;
    operator.expect(&scene, &maps, &[&namespace])?;
    let gateways = || {
        let key = kollect_collect::plan::TargetKey::namespaced(&namespace, "gateways");
        operator.store.rows(&key).len()
    };
    assert_eq!(gateways(), 0);

    let plural = format!("gateways.{group}");
    scene.apply(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": plural},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Gateway", "plural": "gateways", "singular": "gateway"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }))?;
    let wait = [
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd",
        &plural,
    ];
    scene.cluster.kubectl(&wait)?;
    eventually("the first gateway", || {
        scene.apply(&json!({
            "apiVersion": format!("{group}/v1"), "kind": "Gateway",
            "metadata": {"name": "g", "namespace": namespace}, "spec": {"host": "h"},
        }))
    })?;
    eventually("a row of the new kind", || {
        ensure!(gateways() == 1);
        Ok(())
    })?;

    // The kind goes again: its rows go, the others stay.
    scene
        .cluster
        .kubectl(&["delete", "crd", &plural, "--timeout=30s"])?;
    eventually("no row of the old kind", || {
        ensure!(gateways() == 0);
        Ok(())
    })?;
    operator.expect(&scene, &maps, &[&namespace])
}

#[test]
fn an_api_server_that_restarts_or_forgets_loses_nothing() -> Result<()> {
    let mut plane = stage();
    let scene = Scene::new(plane.cluster(), "outage")?;
    let namespace = scene.namespace.clone();
    scene.maps(&namespace, 0..30, "before")?;
    let profile = scene.profile(&attributes())?;
    scene.target(json!({"includedNamespaces": [namespace]}))?;
    let operator = Operator::start(plane.cluster())?;
    operator.expect(&scene, &profile, &[&namespace])?;

    plane.apiserver().kill()?;
    thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(
        operator.rows(&scene).len(),
        30,
        "an outage is no reason to forget rows"
    );
    plane.apiserver().resume()?;
    scene.maps(&namespace, 20..40, "after")?;
    scene.delete_map(&namespace, 1)?;
    operator.expect(&scene, &profile, &[&namespace])?;

    // All history is gone: watches must list again.
    scene.maps(&namespace, 0..1, "again")?;
    plane.forget_history()?;
    scene.delete_map(&namespace, 2)?;
    scene.maps(&namespace, 40..45, "late")?;
    operator.expect(&scene, &profile, &[&namespace])
}

#[test]
fn objects_that_change_while_they_are_listed_end_up_right() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "churn")?;
    let namespace = scene.namespace.clone();
    scene.maps(&namespace, 0..400, "old")?;
    let profile = scene.profile(&attributes())?;
    scene.target(json!({"includedNamespaces": [namespace]}))?;
    let churn = {
        let (cluster, namespace) = (scene.cluster.clone(), namespace.clone());
        thread::spawn(move || -> Result<()> {
            let scene = Scene {
                cluster,
                namespace: namespace.clone(),
            };
            for round in 0..13 {
                scene.maps(&namespace, 0..400, &format!("round {round}"))?;
                scene.delete_map(&namespace, round)?;
            }
            Ok(())
        })
    };
    let operator = Operator::start(plane.cluster())?;
    churn.join().expect("the churn ends")?;
    operator.expect(&scene, &profile, &[&namespace])
}

#[test]
fn d11_rights_that_go_take_no_rows_along() -> Result<()> {
    let plane = stage();
    let cluster = plane.cluster();
    let scene = Scene::new(cluster, "rights")?;
    let (a, b) = (
        scene.namespace.clone(),
        cluster.create_namespace("rights-b")?,
    );
    scene.maps(&a, 0..3, "a")?;
    scene.maps(&b, 0..4, "b")?;
    let profile = scene.profile(&attributes())?;
    scene.target(json!({"includedNamespaces": [a, b]}))?;
    let user = cluster.create_service_account(&a, "operator")?;
    let read: &[&str] = &["get", "list", "watch"];
    let kinds: &[&str] = &[
        "kollectprofiles",
        "kollecttargets",
        "kollectclustertargets",
        "kollectscopes",
        "kollectclusterscopes",
        "kollectinventories",
        "kollectclusterinventories",
        "kollectconnectiontests",
        "kollectsnapshotsinks",
        "kollectdatabasesinks",
        "kollecteventsinks",
    ];
    cluster.grant(
        Scope::Cluster,
        &user,
        &[
            Rule {
                group: "kollect.dev",
                resources: kinds,
                verbs: read,
            },
            Rule {
                group: "kollect.dev",
                resources: &["kollecttargets", "kollecttargets/status"],
                verbs: &["patch", "update"],
            },
            Rule {
                group: "",
                resources: &["namespaces"],
                verbs: read,
            },
            Rule {
                group: "apiextensions.k8s.io",
                resources: &["customresourcedefinitions"],
                verbs: read,
            },
            Rule {
                group: "",
                resources: &["events"],
                verbs: &["create"],
            },
        ],
    )?;
    let maps = [Rule {
        group: "",
        resources: &["configmaps"],
        verbs: &["list", "watch"],
    }];
    cluster.grant(Scope::Namespace(&a), &user, &maps)?;
    let operator = Operator::start_as(cluster, &user, CollectionSettings::default())?;
    operator.expect(&scene, &profile, &[&a])?;
    eventually("the denied namespace in the status", || {
        let (status, reason, message) = scene.condition("Synced")?;
        ensure!(
            status == "True" && reason == "ScopeForbidden",
            "{status} {reason} {message}"
        );
        ensure!(message.contains(&b), "{message}");
        Ok(())
    })?;

    // Access to the other namespace is granted; within the review interval its rows come.
    cluster.grant(Scope::Namespace(&b), &user, &maps)?;
    operator.expect(&scene, &profile, &[&a, &b])?;

    // And taken away again: what was read there stays, and the status says what may not be read.
    let bindings = cluster.kubectl(&["get", "rolebinding", "-n", &b, "-o", "name"])?;
    for binding in bindings.lines() {
        cluster.kubectl(&["delete", "-n", &b, binding])?;
    }
    eventually("the denied namespace in the status", || {
        let (status, reason, message) = scene.condition("Degraded")?;
        ensure!(
            status == "True" && reason == "ScopeForbidden",
            "{status} {reason} {message}"
        );
        ensure!(message.contains(&b), "{message}");
        ensure!(
            message.contains("list and watch on configmaps"),
            "{message}"
        );
        Ok(())
    })?;
    operator.expect(&scene, &profile, &[&a, &b])
}
