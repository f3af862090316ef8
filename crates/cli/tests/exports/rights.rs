//! The operator without one right at a time: what it may not write it does not keep trying, it says
//! what is missing, and everything else goes on.
//!
//! One operator sees all of it: each namespace, or each cluster-scoped object, lacks another right.

use std::{collections::BTreeMap, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kollect_operator::lease;
use kollect_testkit::{
    Trouble,
    postgres::Tls,
    rbac,
    trouble::{Effect, on},
};
use serde_json::{Value, json};

use crate::stage::Stage;

/// Verb and resource of what is refused in a namespace of its own.
const NAMESPACED: [(&str, &str); 13] = [
    ("patch", "kollecttargets"),
    ("patch", "kollecttargets/status"),
    ("patch", "kollectinventories"),
    ("patch", "kollectinventories/status"),
    ("patch", "kollectdatabasesinks"),
    ("patch", "kollectdatabasesinks/status"),
    ("patch", "kollectsnapshotsinks/status"),
    ("patch", "kollecteventsinks/status"),
    ("patch", "kollectconnectiontests"),
    ("patch", "kollectconnectiontests/status"),
    ("delete", "kollectconnectiontests"),
    ("create", "events"),
    ("patch", "events"),
];

/// What is refused for one cluster-scoped object.
const CLUSTER: [(&str, &str); 4] = [
    ("patch", "kollectclustertargets"),
    ("patch", "kollectclustertargets/status"),
    ("patch", "kollectclusterinventories"),
    ("patch", "kollectclusterinventories/status"),
];

/// What is refused to a candidate for a lease.
const LEASES: [&str; 3] = ["get", "create", "update"];

/// Rights that are not used in a quiet minute: nothing has to fail for want of them.
const RARE: [&str; 1] = ["patch events"];

fn object(kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    let mut metadata = json!({"name": name});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec,
    })
}

/// One of everything in a namespace.
pub(crate) fn team(namespace: &str, dsn: &str) -> Vec<Value> {
    let ours = |kind: &str, name: &str, spec: Value| object(kind, namespace, name, &spec);
    let core = |kind: &str, name: &str, field: &str, content: Value| {
        let metadata = json!({"name": name, "namespace": namespace});
        json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, field: content})
    };
    let postgres = json!({
        "type": "postgres", "cluster": "east",
        "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
    });
    let mut asked = postgres.clone();
    asked["connectionTest"] = false.into();
    let mut asked = ours("KollectDatabaseSink", "asked", asked);
    asked["metadata"]["annotations"] = json!({"kollect.dev/test-connection": "true"});
    vec![
        core("Secret", "dsn", "stringData", json!({"dsn": dsn})),
        core("ConfigMap", "m", "data", json!({"number": "1"})),
        ours(
            "KollectProfile",
            "maps",
            json!({
                "targetGVK": {"version": "v1", "kind": "ConfigMap"},
                "attributes": [{"name": "number", "path": "$.data.number"}],
            }),
        ),
        ours(
            "KollectTarget",
            "maps",
            json!({"profileRef": "maps", "includedNamespaces": [namespace]}),
        ),
        ours("KollectDatabaseSink", "pg", postgres),
        asked,
        ours(
            "KollectSnapshotSink",
            "git",
            json!({"type": "git", "endpoint": "https://127.0.0.1:1/nowhere.git"}),
        ),
        ours(
            "KollectEventSink",
            "nats",
            json!({"type": "nats", "nats": {"url": "nats://127.0.0.1:1", "subject": "s"}}),
        ),
        ours(
            "KollectInventory",
            "inv",
            json!({"databaseSinkRefs": [{"name": "pg"}], "exportMinInterval": "0s"}),
        ),
        ours(
            "KollectConnectionTest",
            "test",
            json!({"sinkRef": {"databaseSinkRef": "pg"}, "ttlSecondsAfterFinished": 0}),
        ),
    ]
}

/// The writes that were refused so far, by request.
fn refused(trouble: &Trouble) -> BTreeMap<String, u64> {
    let counts = trouble.counts().into_iter();
    let refused = counts.filter(|count| count.status == 403);
    refused
        .filter(|count| !matches!(&*count.request.verb, "list" | "watch"))
        .map(|count| {
            let request = count.request;
            let key = format!(
                "{} {} {}/{}",
                request.verb, request.resource, request.namespace, request.name
            );
            (key, count.times)
        })
        .collect()
}

fn condition(stage: &Stage, path: &str, type_: &str) -> Result<String> {
    let object = stage
        .api()?
        .get(&format!("/apis/kollect.dev/v1alpha1/{path}"))?;
    let conditions = object["status"]["conditions"].as_array().cloned();
    let said = conditions.unwrap_or_default();
    let said = said.iter().find(|condition| condition["type"] == type_);
    let said = said.with_context(|| format!("no {type_} on {path}"))?;
    let text = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
    Ok(format!("{}/{}", text("status"), text("reason")))
}

#[test]
fn c1_c6_without_one_right_at_a_time_nothing_spins_and_everything_else_goes_on() -> Result<()> {
    let mut stage = Stage::new()?;
    let trouble = Trouble::with(stage.plane.cluster())?;
    let reads = [rbac::read("", &["configmaps", "secrets"])];
    let user = stage.plane.cluster().account(
        &stage.namespace,
        &[rbac::OPERATOR, rbac::CLUSTER_FACTS, &reads],
    )?;
    let dsn = stage.database.url(Tls::Off);
    let mut objects = Vec::new();
    let mut lacking = BTreeMap::new();
    for (number, (verb, resource)) in NAMESPACED.into_iter().enumerate() {
        let namespace = format!("lacks-{number}");
        trouble.rule(on(verb, resource).within(&namespace), Effect::Status(403));
        objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"tier": "lacking"}},
        }));
        objects.extend(team(&namespace, &dsn));
        lacking.insert(format!("{verb} {resource}"), namespace);
    }
    for (number, (verb, resource)) in CLUSTER.into_iter().enumerate() {
        let name = format!("lacks-{number}");
        trouble.rule(on(verb, resource).named(&name), Effect::Status(403));
        let selector = json!({"matchLabels": {"tier": "lacking"}});
        if resource.starts_with("kollectclustertargets") {
            let profile = json!({"name": "maps", "namespace": "lacks-0"});
            let spec = json!({"profileRef": profile, "namespaceSelector": selector});
            objects.push(object("KollectClusterTarget", "", &name, &spec));
        } else {
            let spec = json!({
                "namespaceSelector": selector,
                "databaseSinkRefs": [{"name": "pg", "namespace": "lacks-0"}],
            });
            objects.push(object("KollectClusterInventory", "", &name, &spec));
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    stage.plane.cluster().apply(&list.to_string())?;
    let kubeconfig = trouble.kubeconfig(&user)?;
    stage.start_as(&kubeconfig, &[])?;
    let leader = stage.operator.take();
    // Others lack a right to their lease, so they never lead.
    let mut candidates = Vec::new();
    for verb in LEASES {
        let namespace = stage.plane.cluster().create_namespace("lease")?;
        trouble.rule(on(verb, "leases").within(&namespace), Effect::Status(403));
        if verb != "create" {
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
            let lease = json!({"metadata": {"name": lease::NAME}});
            stage.api()?.post(&path, &lease)?;
        }
        let namespace = format!("--leader-elect-namespace={namespace}");
        stage.start_as(&kubeconfig, &["--leader-elect", &namespace])?;
        candidates.extend(stage.operator.take());
    }
    stage.operator = leader;

    // What can be done is done, and what cannot is said.
    let of = |right: &str| lacking.get(right).context("a right of the list");
    for (right, kind, type_, expected) in [
        (
            "patch kollecttargets",
            "kollecttargets/maps",
            "Degraded",
            "True/FinalizerNotAdded",
        ),
        (
            "patch kollecttargets",
            "kollecttargets/maps",
            "Ready",
            "True/Collecting",
        ),
        (
            "patch kollectinventories",
            "kollectinventories/inv",
            "Ready",
            "False/FinalizerNotAdded",
        ),
        (
            "patch kollecttargets/status",
            "kollectinventories/inv",
            "Ready",
            "True/Exported",
        ),
        (
            "create events",
            "kollectinventories/inv",
            "Ready",
            "True/Exported",
        ),
    ] {
        let path = format!("namespaces/{}/{kind}", of(right)?);
        stage.eventually(&format!("{right}: {kind} {type_}"), || {
            let said = condition(&stage, &path, type_)?;
            ensure!(said == expected, "{said}");
            Ok(())
        })?;
    }

    thread::sleep(Duration::from_mins(1));
    let before = refused(&trouble);
    thread::sleep(Duration::from_secs(20));
    let after = refused(&trouble);
    for (request, times) in &after {
        let more = times - before.get(request).unwrap_or(&0);
        // Events about several objects are created under one path.
        let objects = if request.starts_with("create events") {
            5
        } else {
            1
        };
        ensure!(more <= 2 * objects, "{request}: {more} times in 20 s");
    }
    drop(candidates);
    let leases = LEASES.iter().map(|verb| format!("{verb} leases"));
    for right in NAMESPACED
        .iter()
        .chain(&CLUSTER)
        .map(|(verb, resource)| format!("{verb} {resource}"))
        .chain(leases)
    {
        let tried = after
            .keys()
            .any(|request| request.starts_with(&format!("{right} ")));
        ensure!(
            tried || RARE.contains(&&*right),
            "{right} was never needed: {after:#?}"
        );
    }
    let rows = stage.database.psql(&format!(
        "SELECT count(*) FROM items WHERE inventory_namespace = '{}'",
        of("patch kollectinventories")?
    ))?;
    ensure!(
        rows == "0",
        "{rows} rows of an inventory that could not be cleaned up"
    );
    Ok(())
}
