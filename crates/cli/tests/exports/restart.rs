//! What a restart of a healthy installation changes: nothing.

use std::{collections::BTreeMap, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::postgres::Tls;
use serde_json::{Value, json};

use crate::stage::Stage;

const NAMESPACES: usize = 10;
const TARGETS: usize = 5;

/// The kinds whose statuses we write.
const KINDS: [&str; 5] = [
    "kollecttargets",
    "kollectinventories",
    "kollectdatabasesinks",
    "kollectclustertargets",
    "kollectclusterinventories",
];

/// Teams with targets, an inventory and a sink each, and a platform above them.
fn populate(stage: &Stage) -> Result<()> {
    let mut objects = Vec::new();
    let ours = |kind: &str, namespace: &str, name: &str, spec: Value| {
        let mut metadata = json!({"name": name});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec,
        })
    };
    let refs = json!([{"name": "pg"}]);
    for team in 0..NAMESPACES {
        let namespace = &format!("team-{team}");
        let core = |kind: &str, name: &str, more: (&str, Value)| {
            let mut object = json!({
                "apiVersion": "v1", "kind": kind,
                "metadata": {"name": name, "namespace": namespace},
            });
            object[more.0] = more.1;
            object
        };
        objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"tier": "shop"}},
        }));
        let dsn = stage.database.url(Tls::Off);
        objects.push(core("Secret", "dsn", ("stringData", json!({"dsn": dsn}))));
        for number in 0..2 {
            let data = json!({"number": number.to_string()});
            objects.push(core("ConfigMap", &format!("m-{number}"), ("data", data)));
        }
        let profile = json!({
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "attributes": [{"name": "number", "path": "cel:int(object.data.number)"}],
        });
        objects.push(ours("KollectProfile", namespace, "maps", profile));
        for number in 0..TARGETS {
            let target = json!({"profileRef": "maps", "includedNamespaces": [namespace]});
            let name = format!("t-{number}");
            objects.push(ours("KollectTarget", namespace, &name, target));
        }
        let sink = json!({
            "type": "postgres", "cluster": "east",
            "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
        });
        objects.push(ours("KollectDatabaseSink", namespace, "pg", sink));
        // Some refresh, some do not.
        let interval = if team % 2 == 0 { "0s" } else { "30s" };
        let inventory = json!({"databaseSinkRefs": refs, "exportMinInterval": interval});
        objects.push(ours("KollectInventory", namespace, "inv", inventory));
    }
    let target = json!({
        "profileRef": {"name": "maps", "namespace": "team-0"},
        "namespaceSelector": {"matchLabels": {"tier": "shop"}},
    });
    objects.push(ours("KollectClusterTarget", "", "all", target));
    let rollup = json!({
        "namespaceSelector": {"matchLabels": {"tier": "shop"}},
        "databaseSinkRefs": [{"name": "pg", "namespace": "team-0"}], "exportMinInterval": "0s",
    });
    objects.push(ours("KollectClusterInventory", "", "platform", rollup));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    stage.plane.cluster().apply(&list.to_string()).map(|_| ())
}

/// Everything that we wrote statuses of, but for the stage's own team: kind and name to object.
fn objects(stage: &Stage) -> Result<BTreeMap<String, Value>> {
    let api = stage.api()?;
    let mut all = BTreeMap::new();
    for kind in KINDS {
        let list = api.get(&format!("/apis/kollect.dev/v1alpha1/{kind}"))?;
        let items = list["items"].as_array().context("a list has items")?;
        for item in items {
            let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
            if text("namespace") != stage.namespace {
                let name = format!("{kind} {}/{}", text("namespace"), text("name"));
                all.insert(name, item.clone());
            }
        }
    }
    Ok(all)
}

/// `Type=Status/Reason` of the conditions of an object, sorted.
fn conditions(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array();
    let mut all: Vec<String> = conditions
        .into_iter()
        .flatten()
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            format!("{}={}/{}", text("type"), text("status"), text("reason"))
        })
        .collect();
    all.sort();
    all
}

/// Events about everything but the stage's own team: what they say and how often.
fn events(stage: &Stage) -> Result<Vec<String>> {
    let list = stage.api()?.get("/api/v1/events")?;
    let items = list["items"].as_array().context("a list has items")?;
    let mut all: Vec<String> = items
        .iter()
        .filter(|event| event["involvedObject"]["namespace"] != stage.namespace.as_str())
        .map(|event| {
            let object = &event["involvedObject"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!(
                "{} {} x{} {} {}/{}: {}",
                text(&event["type"]),
                text(&event["reason"]),
                event["count"],
                text(&object["kind"]),
                text(&object["namespace"]),
                text(&object["name"]),
                text(&event["message"]),
            )
        })
        .collect();
    all.sort();
    Ok(all)
}

fn expect_healthy(stage: &Stage) -> Result<()> {
    stage.eventually("everything healthy and at rest", || {
        let objects = objects(stage)?;
        ensure!(objects.len() == NAMESPACES * (TARGETS + 2) + 2);
        for (name, object) in &objects {
            let said = conditions(object);
            let wanted = match name.split_once(' ').context("a kind")?.0 {
                "kollectdatabasesinks" => "ConnectionVerified=True/ConnectionOK",
                "kollectinventories" | "kollectclusterinventories" => "Synced=True/UpToDate",
                _ => "Ready=True/Collecting",
            };
            ensure!(said.iter().any(|c| c == wanted), "{name}: {said:?}");
        }
        Ok(())
    })
}

#[test]
fn c4_c16_f4_f5_a_restart_of_a_healthy_installation_changes_nothing() -> Result<()> {
    let mut stage = Stage::new()?;
    populate(&stage)?;
    stage.put("s-1", 1)?;
    stage.inventory("0s")?;
    stage.start()?;
    expect_healthy(&stage)?;
    // The last status is written when nothing has happened for a while.
    thread::sleep(Duration::from_secs(8));
    let told = events(&stage)?;
    let warnings: Vec<_> = told.iter().filter(|e| e.starts_with("Warning")).collect();
    ensure!(warnings.is_empty(), "at the first start: {warnings:#?}");
    ensure!(
        told.len() <= NAMESPACES + 1,
        "an event per inventory that exports for the first time: {told:#?}"
    );
    let before = objects(&stage)?;
    for round in 1..=2_u64 {
        let operator = stage.operator.take().context("it runs")?;
        if round == 1 {
            operator.terminate()?;
        } else {
            operator.kill()?;
        }
        stage.start()?;
        // Somebody else's change shows that the new process does its work.
        stage.put("s-1", 10 + round)?;
        stage.expect_in_step("items")?;
        thread::sleep(Duration::from_secs(8));
        let after = objects(&stage)?;
        for (name, object) in &before {
            let now = after.get(name).with_context(|| format!("{name} is gone"))?;
            ensure!(
                conditions(now) == conditions(object),
                "{name}: {:?} became {:?}",
                conditions(object),
                conditions(now)
            );
            ensure!(
                now["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"],
                "{name} was written: {:#}\nbecame {:#}",
                object["status"],
                now["status"]
            );
        }
        let now = events(&stage)?;
        ensure!(now == told, "{told:#?}\nbecame {now:#?}");
    }
    Ok(())
}
