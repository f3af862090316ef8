//! What happens when statuses cannot be written.

use std::{
    net::TcpListener,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kollect_api::{KollectClusterInventory, KollectTarget, target::TargetStatus};
use kollect_inventory::TargetKind;
use kollect_operator::{
    metrics::passes::Outcome,
    writer::{self, DEADLINE},
};
use kollect_testkit::{Cluster, wait::eventually};
use kube::Api;
use serde_json::json;

use crate::{
    operator::Operator,
    stage::{Scene, stage},
};

/// Makes the API server hang whenever the status of a target of one namespace is written, until
/// dropped.
struct Hang<'c> {
    cluster: &'c Cluster,
    begun: mpsc::Receiver<Instant>,
}

impl<'c> Hang<'c> {
    fn in_namespace(cluster: &'c Cluster, namespace: &str) -> Result<Self> {
        // Takes connections and says nothing, so that a call of it lasts as long as it may.
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let (sender, begun) = mpsc::channel();
        thread::spawn(move || {
            let mut held = Vec::new();
            while let Ok((connection, _)) = listener.accept() {
                held.push(connection);
                if sender.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        let webhook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "hang"},
            "webhooks": [{
                "name": "hang.example.test",
                "clientConfig": {"url": format!("https://127.0.0.1:{port}/")},
                "rules": [{
                    "apiGroups": ["kollect.dev"], "apiVersions": ["v1alpha1"],
                    "operations": ["UPDATE"], "resources": ["kollecttargets/status"],
                }],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "timeoutSeconds": 30, "failurePolicy": "Fail",
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
            }],
        });
        cluster.apply(&webhook.to_string())?;
        Ok(Self { cluster, begun })
    }
}

impl Drop for Hang<'_> {
    fn drop(&mut self) {
        let hang = ["delete", "validatingwebhookconfiguration", "hang"];
        let deleted = self.cluster.kubectl(&hang);
        assert!(deleted.is_ok() || thread::panicking(), "{deleted:?}");
    }
}

/// Whoever computed a status from an older version of the object is refused, and nothing is lost of
/// what others wrote; the operator itself then computes it anew.
#[test]
fn s22_b14_a_stale_status_cannot_win() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "stale")?;
    scene.profile(&json!([{"name": "value", "path": "$.data.value"}]))?;
    scene.maps(&scene.namespace, 0..3, "a")?;
    scene.target(json!({"includedNamespaces": [scene.namespace]}))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let forged = |reason: &str| -> TargetStatus {
        let condition = json!({
            "type": "Ready", "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(json!({"conditions": [condition]})).expect("a status")
    };
    runtime.block_on(async {
        let client = plane.cluster().client(plane.cluster().admin())?;
        let api: Api<KollectTarget> = Api::namespaced(client.clone(), &scene.namespace);
        let old = api.get("maps").await?.metadata;
        let (first, second) = (forged("First"), forged("Second"));
        writer::write_status_of::<KollectTarget, _>(&client, &old, &first).await?;
        let refused = writer::write_status_of::<KollectTarget, _>(&client, &old, &second).await;
        let error = refused.err().context("a stale status was taken")?;
        ensure!(error.is_outdated(), "{error}");
        let (_, reason, _) = scene.condition("Ready")?;
        ensure!(reason == "First", "{reason}");
        let now = api.get("maps").await?.metadata;
        writer::write_status_of::<KollectTarget, _>(&client, &now, &second).await?;
        anyhow::Ok(())
    })?;

    let _operator = Operator::start(plane.cluster())?;
    let healthy = || {
        eventually("a true status", || {
            let (status, reason, _) = scene.condition("Ready")?;
            ensure!(
                status == "True" && reason == "Collecting",
                "{status} {reason}"
            );
            Ok(())
        })
    };
    healthy()?;
    // Somebody writes while the operator runs: its next status is based on what they wrote.
    runtime.block_on(async {
        let client = plane.cluster().client(plane.cluster().admin())?;
        let api: Api<KollectTarget> = Api::namespaced(client.clone(), &scene.namespace);
        let now = api.get("maps").await?.metadata;
        let forged = forged("Forged");
        writer::write_status_of::<KollectTarget, _>(&client, &now, &forged).await?;
        anyhow::Ok(())
    })?;
    healthy()
}

#[test]
fn a_status_write_that_hangs_holds_up_nothing_and_is_counted() -> Result<()> {
    let plane = stage();
    let slow = Scene::new(plane.cluster(), "slow")?;
    let other = Scene::new(plane.cluster(), "other")?;
    for scene in [&slow, &other] {
        scene.profile(&json!([{"name": "value", "path": "$.data.value"}]))?;
        scene.maps(&scene.namespace, 0..3, "a")?;
    }
    let hang = Hang::in_namespace(plane.cluster(), &slow.namespace)?;
    let operator = Operator::start(plane.cluster())?;
    let target = json!({"includedNamespaces": [slow.namespace]});
    slow.target(target.clone())?;
    // The API server learns of webhooks with some delay; every write before that goes through.
    let begun = eventually("a status write that hangs", || {
        let begun = hang.begun.recv_timeout(Duration::from_millis(500));
        if begun.is_err() {
            let suspended = json!({"includedNamespaces": [slow.namespace], "suspend": true});
            slow.target(suspended)?;
            slow.target(target.clone())?;
        }
        Ok(begun?)
    })?;
    other.target(json!({"includedNamespaces": [other.namespace]}))?;
    operator.expect_count(&other, 3)?;
    operator.expect_count(&slow, 3)?;
    eventually("a ready neighbour", || {
        let (status, reason, _) = other.condition("Ready")?;
        ensure!(status == "True", "{reason}");
        Ok(())
    })?;
    assert!(begun.elapsed() < DEADLINE, "the write has ended by now");

    eventually("a counted failure", || {
        let counts = operator.observed.passes.counts();
        let failed = counts.passes.get(&(TargetKind::Target, Outcome::Failure));
        ensure!(failed >= Some(&1), "{counts:?}");
        Ok(())
    })?;
    drop(hang);
    eventually("a status after all", || {
        let (status, reason, _) = slow.condition("Ready")?;
        ensure!(status == "True", "{reason}");
        Ok(())
    })
}

#[test]
fn b8_equally_named_sinks_of_two_namespaces_have_entries_of_their_own() -> Result<()> {
    let plane = stage();
    let cluster = plane.cluster();
    let inventory = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectClusterInventory",
        "metadata": {"name": "two"}, "spec": {"namespaceSelector": {"matchLabels": {"team": "b8"}}},
    });
    cluster.apply(&inventory.to_string())?;
    let api = cluster.api(cluster.admin())?;
    let path = "/apis/kollect.dev/v1alpha1/kollectclusterinventories/two";
    let write = |entries: serde_json::Value| -> Result<u16> {
        let mut object = api.get(path)?;
        object["status"] = json!({"sinkExports": entries});
        let answer = api.request("PUT", &format!("{path}/status"), Some(&object))?;
        Ok(answer.status)
    };
    let entry = |namespace: &str| json!({"name": "database/pg", "namespace": namespace});
    assert_eq!(write(json!([entry("a"), entry("b")]))?, 200);
    assert_eq!(
        write(json!([entry("a"), entry("a")]))?,
        422,
        "one entry per sink"
    );
    // What an earlier version stored has no namespace, and still says nothing about one.
    assert_eq!(write(json!([{"name": "database/pg"}]))?, 200);
    let stored: KollectClusterInventory = serde_json::from_value(api.get(path)?)?;
    let entries = stored.status.unwrap_or_default().sink_exports;
    assert_eq!((entries.len(), &entries[0].namespace), (1, &None));
    Ok(())
}
