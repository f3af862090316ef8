//! One inventory of all Deployments in one table of PostgreSQL.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kollect_api::crd;
use kollect_testkit::Cluster;
use serde_json::json;
use tokio::time::sleep;

use crate::{cluster::create_namespaces, load};

/// Applies a profile, a target for all namespaces, a sink with this connection string and an
/// inventory with this interval.
pub fn configure(
    cluster: &Cluster,
    dsn: &str,
    namespaces: usize,
    interval: Option<&str>,
) -> Result<()> {
    cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
    create_namespaces(cluster, namespaces)?;
    let home = load::namespace(0, namespaces);
    let ours = |kind: &str, name: &str, spec: serde_json::Value| {
        json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": home}, "spec": spec,
        })
    };
    let mut inventory = json!({"databaseSinkRefs": [{"name": "pg"}]});
    if let Some(interval) = interval {
        inventory["exportMinInterval"] = json!(interval);
    }
    let manifests = [
        load::profile(),
        load::target(namespaces),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "dsn", "namespace": home},
            "stringData": {"dsn": dsn},
        }),
        ours(
            "KollectDatabaseSink",
            "pg",
            json!({
                "type": "postgres", "cluster": "bench",
                "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
            }),
        ),
        ours("KollectInventory", "inv", inventory),
    ];
    for manifest in manifests {
        cluster.apply(&manifest.to_string())?;
    }
    Ok(())
}

/// All rows arrive in one transaction, so the first time there is any there are all.
pub async fn wait_for_rows(table: &tokio_postgres::Client, objects: usize) -> Result<()> {
    let started = Instant::now();
    loop {
        let any = table
            .query_one("SELECT to_regclass('items') IS NOT NULL", &[])
            .await?;
        let rows: i64 = if any.get(0) {
            let any = "SELECT count(*) FROM (SELECT 1 FROM items LIMIT 1) AS first";
            table.query_one(any, &[]).await?.get(0)
        } else {
            0
        };
        if rows > 0 {
            break;
        }
        ensure!(
            started.elapsed() < Duration::from_mins(10),
            "no rows after ten minutes"
        );
        sleep(Duration::from_millis(10)).await;
    }
    let rows: i64 = table
        .query_one("SELECT count(*) FROM items", &[])
        .await?
        .get(0);
    ensure!(
        rows == i64::try_from(objects)?,
        "{rows} rows instead of {objects}"
    );
    Ok(())
}
