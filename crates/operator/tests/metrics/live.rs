//! The control loop on a real API server, seen through its metrics.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use kollect_api::crd;
use kollect_operator::{
    controller::{CollectionSettings, Controller},
    metrics::{Metrics, Readiness},
};
use kollect_testkit::{Cluster, ControlPlane, control_plane::Options, wait::eventually};
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_shows_in_its_metrics() -> Result<()> {
    // A cluster of its own: the numbers are about everything that is collected in it.
    let start = || ControlPlane::start_with(Options { controllers: false });
    let plane = spawn_blocking(start).await??;
    let cluster = plane.cluster().clone();
    let prepared = cluster.clone();
    let namespace = spawn_blocking(move || prepare(&prepared)).await??;
    let stop = CancellationToken::new();
    let client = cluster.client(cluster.admin())?;
    let controller = Controller::new(&client, CollectionSettings::default(), &stop);
    let observed = Arc::clone(controller.observed());
    assert!(matches!(observed.scene().readiness, Readiness::Listing(_)));
    let metrics = Arc::new(Metrics::new(Arc::clone(&observed), Duration::ZERO));
    let token = stop.clone();
    let running = tokio::spawn(async move { controller.run(&token).await });

    let target = format!("target_namespace=\"{namespace}\",target_name=\"maps\"");
    let page = Arc::clone(&metrics);
    let collected =
        format!("kollect_collected_objects{{profile=\"maps\",gvk=\"/v1/ConfigMap\",{target}}}");
    spawn_blocking(move || {
        eventually("three rows", || {
            let rows = value(&page.render(), &collected);
            ensure!(rows == Some(3.0), "{rows:?}");
            Ok(())
        })
    })
    .await??;
    assert_eq!(observed.scene().readiness, Readiness::Ready);
    let place = "{group=\"\",version=\"v1\",resource=\"configmaps\"}";
    let events = format!("kollect_watch_events_total{place}");
    let first = metrics.render();
    ensure!(value(&first, &events) >= Some(3.0), "{first}");
    ensure!(value(&first, &format!("kollect_watch_bytes_total{place}")) > Some(100.0));
    ensure!(value(&first, "kollect_collect_dispatch_duration_seconds_count") >= Some(3.0));
    ensure!(value(&first, "kollect_access_cache_total{result=\"miss\"}") > Some(0.0));
    let listings = "kollect_watch_listings_total{group=\"\",version=\"v1\",\
                    resource=\"configmaps\",cause=\"initial\"}";
    ensure!(value(&first, listings) == Some(1.0), "{first}");
    let terminal =
        "kollect_reconcile_errors_total{kind=\"KollectTarget\",error_class=\"terminal\"}";
    ensure!(value(&first, terminal) == Some(0.0), "{first}");

    // The new profile reads other parts of objects, and fails on them. What the listing that
    // follows carries is added to what was carried before.
    let profile = profile(&namespace, "cel:object.data.missing");
    spawn_blocking(move || cluster.apply(&profile)).await??;
    let page = Arc::clone(&metrics);
    let last = spawn_blocking(move || {
        eventually("three failures", || {
            let page = page.render();
            ensure!(value(&page, terminal) >= Some(3.0), "{page}");
            Ok(page)
        })
    })
    .await??;
    ensure!(value(&last, &events) >= value(&first, &events).map(|events| events + 3.0));
    stop.cancel();
    running.await?;
    Ok(())
}

fn value(page: &str, series: &str) -> Option<f64> {
    let begin = format!("{series} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&begin))?;
    line.parse().ok()
}

fn profile(namespace: &str, path: &str) -> String {
    json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
        "metadata": {"name": "maps", "namespace": namespace},
        "spec": {
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "attributes": [{"name": "value", "path": path}],
        },
    })
    .to_string()
}

fn prepare(cluster: &Cluster) -> Result<String> {
    cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
    let namespace = cluster.create_namespace("metrics")?;
    cluster.apply(&profile(&namespace, "$.metadata.name"))?;
    let target = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
        "metadata": {"name": "maps", "namespace": namespace},
        "spec": {"profileRef": "maps", "labelSelector": {"matchLabels": {"of": "metrics"}}},
    });
    cluster.apply(&target.to_string())?;
    for name in ["x", "y", "z"] {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {"of": "metrics"}},
            "data": {"value": name},
        });
        cluster.apply(&map.to_string())?;
    }
    Ok(namespace)
}
