//! Servers as administrators run them: behind a pooler, followed by standbys, with rules of their
//! own for rows and names.

use std::sync::Arc;

use kollect_api::InventoryId;
use kollect_sinks::{DeliveryRows, Sink, SinkError, postgres::PostgresSink};
use kollect_testkit::{Postgres, pgbouncer::PgBouncer, postgres::Tls};
use serde_json::json;

use super::{
    items::deployments,
    server::{
        T1, T2, T3, changes, database, delivery, everything, inventory, sink_at, sql, try_sql,
    },
};

/// Everything a sink does, behind a pooler that gives each transaction whichever of two processes
/// is free, side by side with others who do the same to other tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_a_pooler_meet_any_process() {
    let database = database("pooled");
    let server = Postgres::shared().expect("a server");
    let pooler = tokio::task::spawn_blocking(move || PgBouncer::start(server, 2))
        .await
        .expect("a thread")
        .expect("a pooler");
    let url = |name: &str| {
        format!(
            "postgres://tenant@127.0.0.1:{}/{}?sslmode=disable&application_name={name}&statement_timeout=60s",
            pooler.port(),
            database.name
        )
    };
    let work = (0..6).map(|number| {
        let spec = json!({
            "cluster": format!("cluster-{number}"),
            "postgres": {
                "table": format!("items{}", number % 3),
                "history": {"table": format!("log{}", number % 3)},
                "views": [{"name": format!("web{}", number % 3), "target": "deployments", "columns": [{"name": "replicas"}]}],
            },
        });
        let sink = sink_at(&url(&format!("c{number}")), spec).expect("a sink");
        async move {
            let few = InventoryId::namespaced("team-a", "few");
            for (inventory, count) in [(inventory(), 400), (few, 10)] {
                let mut rows = deployments(count, 1);
                for replicas in 2..12 {
                    everything(&sink, &inventory, T1, &rows).await?;
                    let next = deployments(count - 1, replicas);
                    changes(&sink, &inventory, T2, &rows, &next).await?;
                    let asked = delivery(&inventory, T3, DeliveryRows::Changes(Arc::default()));
                    assert!(sink.confirm(&asked).await?.is_some(), "as it was left");
                    rows = deployments(count, replicas);
                }
                everything(&sink, &inventory, T3, &rows).await?;
            }
            sink.probe().await?;
            Ok::<_, SinkError>(())
        }
    });
    for done in futures::future::join_all(work).await {
        done.expect("behind a pooler as anywhere");
    }
    for table in 0..3 {
        let rows = format!(
            "SELECT cluster, inventory_name, count(*), min(payload->'attributes'->>'replicas') FROM items{table} \
             GROUP BY 1, 2 ORDER BY 1, 2"
        );
        let expected: Vec<String> = [table, table + 3]
            .iter()
            .flat_map(|number| {
                [("few", 10), ("team-inventory", 400)]
                    .map(|(name, count)| format!("cluster-{number}|{name}|{count}|11"))
            })
            .collect();
        assert_eq!(sql(&database, &rows).await, expected);
    }
    let prepared = "SELECT count(*) FROM kollect_inventories";
    assert_eq!(sql(&database, prepared).await, ["12"]);
}

/// A standby takes no writes, and says so in words that help.
#[tokio::test]
async fn a_standby_says_what_to_do() {
    let database = database("followed-server");
    sql(&database, "CREATE TABLE marker (a int)").await;
    let server = Postgres::shared().expect("a server");
    let standby = tokio::task::spawn_blocking(move || server.standby())
        .await
        .expect("a thread")
        .expect("a standby");
    let url = database.url(Tls::Off);
    let there = url.replace(
        &format!(":{}/", server.port()),
        &format!(":{}/", standby.port()),
    );
    let both = url.replace(
        &format!("127.0.0.1:{}/", server.port()),
        &format!("127.0.0.1:{},127.0.0.1:{}/", standby.port(), server.port()),
    ) + "&target_session_attrs=read-write";
    let sink = sink_at(&there, json!({})).expect("a sink");
    for error in [
        everything(&sink, &inventory(), T1, &deployments(3, 1))
            .await
            .unwrap_err(),
        sink.probe().await.unwrap_err(),
    ] {
        assert!(
            matches!(&error, SinkError::Transient(text)
                if text.contains("read-only standby") && text.contains("target_session_attrs=read-write")),
            "{error:?}"
        );
    }
    let sink = sink_at(&both, json!({})).expect("a sink");
    everything(&sink, &inventory(), T1, &deployments(3, 1))
        .await
        .expect("the primary is found");
    assert_eq!(sql(&database, "SELECT count(*) FROM items").await, ["3"]);
}

/// What an administrator has set up for rows is respected, and no rows of others are touched:
/// partitions, rules for rows, a search path that leads elsewhere.
#[tokio::test]
async fn an_administrators_rules_are_respected() {
    let database = database("ruled");
    sql(
        &database,
        "CREATE ROLE west_writer; CREATE SCHEMA elsewhere; \
         CREATE TABLE elsewhere.items (trap int); CREATE TABLE elsewhere.kollect_inventories (trap int); \
         CREATE TABLE items (inventory_namespace TEXT NOT NULL, inventory_name TEXT NOT NULL, \
           target_name TEXT NOT NULL, source_uid TEXT NOT NULL, cluster TEXT NOT NULL, \
           resource_namespace TEXT NOT NULL, payload JSONB NOT NULL, exported_at TIMESTAMPTZ NOT NULL, \
           PRIMARY KEY (inventory_namespace, inventory_name, cluster, target_name, source_uid)) \
           PARTITION BY LIST (cluster); \
         CREATE TABLE items_west PARTITION OF items FOR VALUES IN ('prod-west'); \
         CREATE TABLE items_rest PARTITION OF items DEFAULT; \
         ALTER TABLE items ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY own_cluster ON items USING (cluster = 'prod-west') WITH CHECK (cluster = 'prod-west'); \
         GRANT USAGE, CREATE ON SCHEMA public TO west_writer; GRANT ALL ON items TO west_writer",
    )
    .await;
    let url = database.url(Tls::Off) + "&search_path=elsewhere";
    let of = |cluster: &str| -> PostgresSink {
        let spec = json!({"cluster": cluster, "options": {"role": "west_writer"}});
        sink_at(&url, spec).expect("a sink")
    };
    let owner = sink_at(&url, json!({"cluster": "prod-east"})).expect("a sink");
    everything(&owner, &inventory(), T1, &deployments(50, 1))
        .await
        .expect("the owner writes what it likes");
    let west = of("prod-west");
    for count in [5, 50] {
        let (rows, next) = (deployments(count, 1), deployments(count + 1, 2));
        everything(&west, &inventory(), T1, &rows)
            .await
            .expect("all");
        changes(&west, &inventory(), T2, &rows, &next)
            .await
            .expect("changes");
        let asked = delivery(&inventory(), T3, DeliveryRows::Changes(Arc::default()));
        assert!(west.confirm(&asked).await.expect("a look").is_some());
    }
    let rows = "SELECT tableoid::regclass, cluster, count(*) FROM items GROUP BY 1, 2 ORDER BY 2";
    let expected = ["items_rest|prod-east|50", "items_west|prod-west|51"];
    assert_eq!(sql(&database, rows).await, expected);
    // Rows that the rules forbid are refused with the server's words.
    let east = of("prod-east");
    let error = everything(&east, &inventory(), T1, &deployments(60, 1)).await;
    let error = error.expect_err("a policy");
    assert!(
        matches!(&error, SinkError::Forbidden(text) if text.contains("row-level security")),
        "{error:?}"
    );
    assert_eq!(sql(&database, rows).await, expected);
    west.retire(&inventory()).await.expect("retired");
    assert_eq!(sql(&database, rows).await, expected[..1]);
    try_sql(&database, "SELECT trap FROM elsewhere.items")
        .await
        .expect("left alone");
}
