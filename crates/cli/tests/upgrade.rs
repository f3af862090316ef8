//! Taking over from the original in place: its definitions and objects are in the cluster, its table has
//! its rows. Our definitions are applied over its own, our operator starts, and the inventory goes on where
//! it was.
//!
//! The definitions of the original are stood in for by some of the same names that accept anything, which
//! is the hardest case: nothing in them kept an object from being what it is.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use kollect_api::crd;
use kollect_testkit::{
    Cluster, ControlPlane, Postgres, RunDir,
    control_plane::Options,
    postgres::{Database, Tls},
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);
/// When the original exported last.
const BEFORE: &str = "2026-01-01T00:00:00Z";

/// The table as the original made it.
const TABLE: &str = "CREATE TABLE inventory_items (
    inventory_namespace TEXT NOT NULL, inventory_name TEXT NOT NULL, target_name TEXT NOT NULL,
    source_uid TEXT NOT NULL, cluster TEXT NOT NULL DEFAULT '', resource_namespace TEXT NOT NULL DEFAULT '',
    payload JSONB NOT NULL, exported_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (inventory_namespace, inventory_name, target_name, source_uid))";

struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually(what: &str, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match check() {
            Ok(()) => return Ok(()),
            Err(error) if begun.elapsed() > PATIENCE => bail!("{what}: {error:#}"),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Definitions with the names of the original.
fn install_original(cluster: &Cluster, run: &RunDir) -> Result<()> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let items: Vec<Value> = crd::all()
        .iter()
        .map(|ours| {
            let spec = &ours.spec;
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": ours.metadata.name},
                "spec": {
                    "group": spec.group, "names": spec.names, "scope": spec.scope,
                    "versions": [{
                        "name": "v1alpha1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": anything}, "subresources": {"status": {}},
                    }],
                },
            })
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = run.write_private("original.json", list.to_string())?;
    let file = file.to_str().context("a path")?;
    cluster.kubectl(&["create", "-f", file])?;
    cluster.kubectl(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "-f",
        file,
    ])?;
    Ok(())
}

fn path(namespace: &str, plural: &str) -> String {
    format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/{plural}")
}

/// Creates an object of the original with its status.
fn create(cluster: &Cluster, namespace: &str, plural: &str, object: &Value) -> Result<()> {
    let api = cluster.api(cluster.admin())?;
    let mut object = object.clone();
    object["apiVersion"] = json!("kollect.dev/v1alpha1");
    object["metadata"]["namespace"] = json!(namespace);
    let name = object["metadata"]["name"].as_str().context("a name")?;
    let place = format!("{}/{name}", path(namespace, plural));
    // A kind is served a moment after its definition was accepted; what is there already stays.
    if !api.request("GET", &place, None)?.is_success() {
        api.post(&path(namespace, plural), &object)?;
    }
    if !object["status"].is_null() {
        let mut created = api.get(&place)?;
        created["status"] = object["status"].clone();
        let answer = api.request("PUT", &format!("{place}/status"), Some(&created))?;
        ensure!(
            answer.is_success(),
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
    }
    Ok(())
}

fn condition(type_: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": reason, "message": "said by the original",
        "lastTransitionTime": BEFORE, "observedGeneration": 1,
    })
}

/// A pipeline of the original: everything there, exported once.
fn fill(cluster: &Cluster, namespace: &str, database: &Database) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "dsn", "namespace": namespace},
        "stringData": {"dsn": database.url(Tls::Off)},
    });
    cluster.apply(&secret.to_string())?;
    let profile = json!({
        "kind": "KollectProfile", "metadata": {"name": "maps"},
        "spec": {
            "targetGVK": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "attributes": [{"name": "number", "path": "$.data.number", "type": "string"}],
        },
    });
    create(cluster, namespace, "kollectprofiles", &profile)?;
    let target = json!({
        "kind": "KollectTarget",
        "metadata": {"name": "maps", "finalizers": ["kollect.dev/target-cleanup"]},
        "spec": {"profileRef": "maps", "includedNamespaces": [namespace], "watchMode": "All"},
        "status": {"conditions": [condition("Ready", "Collecting")], "collectedCount": 2},
    });
    create(cluster, namespace, "kollecttargets", &target)?;
    let sink = json!({
        "kind": "KollectDatabaseSink", "metadata": {"name": "warehouse"},
        "spec": {
            "type": "postgres", "cluster": "east", "connectionTest": false,
            "postgres": {"databaseRef": {"name": "dsn", "key": "dsn"}, "table": "inventory_items"},
        },
        "status": {"conditions": [condition("ConnectionVerified", "ConnectionOK")]},
    });
    create(cluster, namespace, "kollectdatabasesinks", &sink)?;
    let inventory = json!({
        "kind": "KollectInventory",
        "metadata": {"name": "inv", "finalizers": ["kollect.dev/inventory-cleanup"]},
        "spec": {"databaseSinkRefs": [{"name": "warehouse"}], "exportMinInterval": "30s"},
        "status": {
            "conditions": [condition("Ready", "Exported"), condition("Synced", "Exported")],
            "itemCount": 2, "lastExportTime": BEFORE,
            "sinkExports": [{"name": "database/warehouse", "lastExportTime": BEFORE, "lastChecksum": "old"}],
        },
    });
    create(cluster, namespace, "kollectinventories", &inventory)
}

fn uid(cluster: &Cluster, namespace: &str, name: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let map = cluster.api(cluster.admin())?.get(&path)?;
    Ok(map["metadata"]["uid"].as_str().context("a uid")?.to_owned())
}

#[test]
fn the_inventory_of_the_original_goes_on() -> Result<()> {
    let plane = ControlPlane::start_with(Options { controllers: false })?;
    let cluster = plane.cluster();
    let run = RunDir::new("upgrade")?;
    install_original(cluster, &run)?;
    let namespace = cluster.create_namespace("upgrade")?;
    let postgres = Postgres::start()?;
    let database = postgres.create_database("upgrade")?;
    for name in ["one", "two"] {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace}, "data": {"number": name},
        });
        cluster.apply(&map.to_string())?;
    }
    eventually("the kinds", || fill(cluster, &namespace, &database))?;
    database.psql(TABLE)?;
    for (name, uid) in [
        ("one", uid(cluster, &namespace, "one")?),
        ("gone", "0000-gone".to_owned()),
    ] {
        database.psql(&format!(
            "INSERT INTO inventory_items VALUES ('{namespace}', 'inv', 'maps', '{uid}', 'east', '{namespace}', \
             '{{\"name\": \"{name}\", \"attributes\": {{\"number\": \"old\"}}}}', '{BEFORE}')"
        ))?;
    }

    // The definitions first, as docs/operations.md says.
    let definitions = crd::all_yaml();
    let parts: Vec<&str> = definitions.iter().map(|file| file.yaml.as_str()).collect();
    let text = format!("---\n{}", parts.join("\n---\n"));
    let file = run.write_private("install-crds.yaml", text)?;
    let file = file.to_str().context("a path")?;
    cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", file])?;
    let api = cluster.api(cluster.admin())?;
    let inventory = format!("{}/inv", path(&namespace, "kollectinventories"));
    let kept = api.get(&inventory)?;
    ensure!(
        kept["status"]["itemCount"] == 2,
        "the status is lost: {kept:#}"
    );
    ensure!(kept["status"]["lastExportTime"] == BEFORE, "{kept:#}");
    ensure!(
        kept["spec"]["databaseSinkRefs"][0]["name"] == "warehouse",
        "{kept:#}"
    );

    let child = Command::new(env!("CARGO_BIN_EXE_kollect"))
        .args(["operator", "--health-probe-bind-address=0"])
        .arg("--allow-sink-networks=127.0.0.0/8")
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .env("RUST_LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let _operator = Operator(child);

    // One row per object that there is: what the original wrote is taken over, what is gone goes.
    eventually("the rows", || {
        let rows = database.psql(
            "SELECT payload->>'name', payload->'attributes'->>'number' FROM inventory_items ORDER BY 1",
        )?;
        ensure!(rows == "one|one\ntwo|two", "{rows}");
        Ok(())
    })?;
    eventually("the status", || {
        let status = api.get(&inventory)?["status"].take();
        let conditions = status["conditions"].as_array().context("conditions")?;
        let said = |type_: &str| conditions.iter().find(|said| said["type"] == type_);
        let ready = said("Ready").context("Ready")?;
        ensure!(ready["status"] == "True", "{status:#}");
        // It was ready all along.
        ensure!(ready["lastTransitionTime"] == BEFORE, "{status:#}");
        ensure!(status["lastExportTime"] != BEFORE, "{status:#}");
        ensure!(
            status["sinkExports"][0]["name"] == "database/warehouse",
            "{status:#}"
        );
        Ok(())
    })?;
    let target = api.get(&format!("{}/maps", path(&namespace, "kollecttargets")))?;
    let finalizers = json!(["kollect.dev/target-cleanup"]);
    ensure!(target["metadata"]["finalizers"] == finalizers, "{target:#}");
    Ok(())
}
