//! What keeps namespaces apart, on a real API server: permissions for Secrets, whole objects, scopes
//! that are demanded, quotas.

use anyhow::{Result, ensure};
use kollect_collect::plan::{self, TargetKey};
use kollect_operator::controller::CollectionSettings;
use kollect_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::{
    operator::Operator,
    stage::{Scene, stage},
};

/// Waits for a condition of the scenario's target that says this.
fn expect_condition(scene: &Scene, type_: &str, reason: &str, says: &str) -> Result<()> {
    eventually("a condition", || {
        let (status, found, message) = scene.condition(type_)?;
        ensure!(
            found == reason && message.contains(says),
            "{type_}={status} {found} {message}"
        );
        Ok(())
    })
}

fn scope(scene: &Scene, spec: &Value) -> Result<()> {
    scene.apply(&json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectScope",
        "metadata": {"name": "s", "namespace": scene.namespace}, "spec": spec,
    }))
}

/// The values that rows show, by namespace.
fn tokens(operator: &Operator, scene: &Scene) -> Vec<(String, String)> {
    let rows = operator.rows(scene).into_iter();
    let rows = rows.filter(|(object, _)| object.contains("token"));
    rows.map(|(object, attributes)| {
        let namespace = object.split('/').next().unwrap_or_default();
        (namespace.trim_matches('"').to_owned(), attributes)
    })
    .collect()
}

#[test]
fn a12_what_secrets_of_other_namespaces_keep_takes_an_administrators_word() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "tenant")?;
    let (own, other) = (
        scene.namespace.clone(),
        plane.cluster().create_namespace("other")?,
    );
    for namespace in [&own, &other] {
        scene.apply(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "token", "namespace": namespace}, "stringData": {"value": "x"},
        }))?;
    }
    scene.apply(&json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
        "metadata": {
            "name": "maps", "namespace": own,
            "annotations": {"kollect.dev/allow-secret-extraction": "true"},
        },
        "spec": {
            "targetGVK": {"version": "v1", "kind": "Secret"},
            "attributes": [{"name": "kept", "path": "$.data.value", "optional": true}],
        },
    }))?;
    scene.target(json!({"includedNamespaces": [own, other], "names": ["token"]}))?;
    let operator = Operator::start(plane.cluster())?;
    let expect = |namespaces: &[&String]| {
        eventually("the rows that are allowed", || {
            let found = tokens(&operator, &scene);
            let mut expected: Vec<_> = namespaces
                .iter()
                .map(|name| ((*name).clone(), json!({"kept": "eA=="}).to_string()))
                .collect();
            expected.sort();
            ensure!(found == expected, "{found:?}");
            Ok(())
        })
    };
    expect(&[&own])?;
    let line = format!("spec.allowSensitiveCollection: [{{by: [{own}], from: [{other}]}}]");
    expect_condition(&scene, "Degraded", "SensitiveCollectionDenied", &line)?;

    let grants = |by: &str| {
        scene.apply(&json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectClusterScope",
            "metadata": {"name": own},
            "spec": {"allowSensitiveCollection": [{"by": [by], "from": [other]}]},
        }))
    };
    grants(&own)?;
    expect(&[&own, &other])?;
    expect_condition(&scene, "Ready", "Collecting", "collecting")?;
    // What is taken back is gone at once.
    grants("somebody-else")?;
    expect(&[&own])?;

    let annotate = |value: &str| {
        let annotation = format!("kollect.dev/allow-sensitive-collection-by={value}");
        let namespace = ["annotate", "--overwrite", "namespace", &other, &annotation];
        scene.cluster.kubectl(&namespace).map(|_| ())
    };
    annotate(&format!("x,{own}"))?;
    expect(&[&own, &other])?;
    annotate("x")?;
    expect(&[&own])?;
    scene
        .cluster
        .kubectl(&["delete", "kollectclusterscope", &own])
        .map(|_| ())
}

#[test]
fn t5_whole_objects_that_may_not_leave_any_more_stay_as_they_were() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "whole")?;
    let namespace = scene.namespace.clone();
    scene.maps(&namespace, 0..3, "first")?;
    let profile = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
        "metadata": {"name": "maps", "namespace": namespace},
        "spec": {
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "export": {"mode": "Resource", "include": "All"},
        },
    });
    scene.apply(&profile)?;
    scene.target(json!({"includedNamespaces": [namespace]}))?;
    let operator = Operator::start(plane.cluster())?;
    operator.expect(&scene, &profile, &[&namespace])?;
    let before = operator.rows(&scene);

    scope(&scene, &json!({"allowResourceExport": false}))?;
    let denied = "ScopeResourceExportDenied";
    expect_condition(&scene, "Degraded", denied, "allowResourceExport: false")?;
    scene.maps(&namespace, 0..5, "second")?;
    scene.delete_map(&namespace, 0)?;
    // Whoever may collect here has seen all that: nothing is on its way any more.
    scene.apply(&json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
        "metadata": {"name": "names", "namespace": namespace},
        "spec": {
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "attributes": [{"name": "value", "path": "$.data.value"}],
        },
    }))?;
    scene.apply(&json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
        "metadata": {"name": "names", "namespace": namespace},
        "spec": {"profileRef": "names", "includedNamespaces": [namespace]},
    }))?;
    eventually("the rows of somebody who may", || {
        let rows = operator
            .store
            .rows(&TargetKey::namespaced(&namespace, "names"));
        ensure!(rows.len() == 4, "{} rows", rows.len());
        Ok(())
    })?;
    assert_eq!(operator.rows(&scene), before);

    scope(&scene, &json!({"allowResourceExport": true}))?;
    operator.expect(&scene, &profile, &[&namespace])
}

#[test]
fn where_scopes_are_demanded_a_target_without_one_has_its_own_namespace() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "demanded")?;
    let own = scene.namespace.clone();
    let other = plane.cluster().create_namespace("demanded-other")?;
    for namespace in [&own, &other] {
        scene.maps(namespace, 0..2, "x")?;
    }
    let profile = scene.profile(&json!([{"name": "value", "path": "$.data.value"}]))?;
    let both = json!([{
        "key": "kubernetes.io/metadata.name", "operator": "In", "values": [own, other],
    }]);
    scene.target(json!({"namespaceSelector": {"matchExpressions": both}}))?;
    let settings = CollectionSettings {
        plan: plan::Settings {
            require_scope: true,
            ..plan::Settings::default()
        },
        ..CollectionSettings::default()
    };
    let operator = Operator::start_as(plane.cluster(), plane.cluster().admin(), settings)?;
    operator.expect(&scene, &profile, &[&own])?;
    scope(&scene, &json!({"allowedNamespaces": [own, other]}))?;
    operator.expect(&scene, &profile, &[&own, &other])?;
    let scopes = ["delete", "kollectscope", "s", "-n", &own];
    scene.cluster.kubectl(&scopes)?;
    operator.expect(&scene, &profile, &[&own])
}

#[test]
fn over_quota_the_newest_target_gives_way_and_nothing_else_changes() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "quota")?;
    let namespace = scene.namespace.clone();
    scene.maps(&namespace, 0..8, "x")?;
    let profile = scene.profile(&json!([{"name": "value", "path": "$.data.value"}]))?;
    scope(&scene, &json!({"quota": {"rows": 10}}))?;
    scene.target(json!({"includedNamespaces": [namespace]}))?;
    let operator = Operator::start(plane.cluster())?;
    operator.expect(&scene, &profile, &[&namespace])?;
    // Times of creation have whole seconds.
    eventually("another second", || {
        let text = scene.cluster.kubectl(&[
            "get",
            "kollecttarget",
            "maps",
            "-n",
            &namespace,
            "-o",
            "jsonpath={.metadata.creationTimestamp}",
        ])?;
        let created: k8s_openapi::jiff::Timestamp = text.trim().parse()?;
        ensure!(k8s_openapi::jiff::Timestamp::now().as_second() > created.as_second() + 1);
        Ok(())
    })?;
    // By its name it would come first.
    scene.apply(&json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
        "metadata": {"name": "another", "namespace": namespace},
        "spec": {"profileRef": "maps", "includedNamespaces": [namespace]},
    }))?;
    let newest = || {
        let text = scene.cluster.kubectl(&[
            "get",
            "kollecttarget",
            "another",
            "-n",
            &namespace,
            "-o",
            "jsonpath={.status.conditions}",
        ])?;
        anyhow::Ok(text)
    };
    eventually("the newest target over quota", || {
        let said = newest()?;
        ensure!(
            said.contains("QuotaExceeded") && said.contains("may have 10 rows"),
            "{said}"
        );
        Ok(())
    })?;
    // The first goes on.
    scene.maps(&namespace, 0..8, "y")?;
    operator.expect(&scene, &profile, &[&namespace])?;
    expect_condition(&scene, "Ready", "Collecting", "collecting")?;

    scope(&scene, &json!({"quota": {"rows": 100, "targets": 2}}))?;
    eventually("the newest target within quota", || {
        let key = TargetKey::namespaced(&namespace, "another");
        let rows = operator.store.rows(&key).len();
        ensure!(rows == 8, "{rows} rows: {}", newest()?);
        Ok(())
    })?;
    scope(&scene, &json!({"quota": {"targets": 1}}))?;
    eventually("one target too many", || {
        let said = newest()?;
        ensure!(said.contains("may have 1 targets"), "{said}");
        Ok(())
    })?;
    let key = TargetKey::namespaced(&namespace, "another");
    assert_eq!(operator.store.rows(&key).len(), 8, "its rows stay");
    operator.expect(&scene, &profile, &[&namespace])
}
