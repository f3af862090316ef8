//! The record of inventories: a reader can tell "no change" from "nobody is watching".

use std::{sync::Arc, time::Duration};

use kollect_api::InventoryId;
use kollect_inventory::HeldRows;
use kollect_sinks::{DeliveryRows, Sink};
use kollect_testkit::postgres::Database;
use serde_json::json;

use super::{
    items::deployments,
    server::{T1, T2, T3, changes, database, delivery, everything, inventory, sink, sql},
};

const RECORD: &str = "SET TIME ZONE 'UTC'; SELECT table_name, cluster, inventory_namespace, inventory_name, rows, \
     to_char(last_export_at, 'SS'), to_char(last_change_at, 'SS'), healthy, \
     operator_version ~ '^[0-9]+[.]', seen_at BETWEEN now() - interval '1 hour' AND clock_timestamp(), lag >= interval '0' \
     FROM kollect_inventories ORDER BY 1, 2, 3, 4";

async fn record(database: &Database) -> Vec<String> {
    let lines = sql(database, RECORD).await;
    lines
        .into_iter()
        .map(|line| {
            let (facts, rest) = line.split_at(line.len() - "|t|t|t".len());
            assert_eq!(rest, "|t|t|t", "version, sign of life, lag");
            facts.to_owned()
        })
        .collect()
}

/// Few rows and many: deliveries are on record in their own transaction, with what they did.
#[tokio::test]
async fn deliveries_are_on_record() {
    for count in [5, 2_000] {
        let database = database("record");
        let sink = sink(&database, json!({}));
        let line = |rows: usize, exported: &str, changed: &str, healthy: &str| {
            vec![format!(
                "items|prod-west|team-a|team-inventory|{rows}|{exported}|{changed}|{healthy}"
            )]
        };
        let rows = deployments(count, 1);
        let deliver = async |at: &str, rows: &_| {
            let done = everything(&sink, &inventory(), at, rows).await;
            done.expect("delivered");
            record(&database).await
        };
        assert_eq!(deliver(T1, &rows).await, line(count, "01", "01", "t"));
        assert_eq!(deliver(T2, &rows).await, line(count, "02", "01", "t"));
        let next = deployments(count - 1, 2);
        changes(&sink, &inventory(), T3, &rows, &next)
            .await
            .expect("changes");
        let changed = line(count - 1, "02", "03", "t");
        assert_eq!(record(&database).await, changed, "rows are counted");
        let held = next.clone().holding(vec![HeldRows::of_target("other")]);
        assert_eq!(deliver(T3, &held).await, line(count - 1, "03", "03", "f"));
        let none = deployments(0, 1);
        assert_eq!(deliver(T3, &none).await, line(0, "03", "03", "t"));

        let other = InventoryId::namespaced("team-b", "other");
        everything(&sink, &other, T1, &rows).await.expect("another");
        let elsewhere = super::server::sink(&database, json!({"postgres": {"table": "more"}}));
        everything(&elsewhere, &inventory(), T1, &rows)
            .await
            .expect("another table");
        assert_eq!(record(&database).await.len(), 3);
        sink.retire(&other).await.expect("retired");
        sink.retire(&inventory()).await.expect("retired");
        let left = record(&database).await;
        assert!(left.len() == 1 && left[0].starts_with("more|"), "{left:?}");
    }
}

/// At rest there is a sign of life every few minutes, and not more often.
#[tokio::test]
async fn looks_are_on_record_now_and_then() {
    let seen = "SELECT seen_at, last_export_at FROM kollect_inventories";
    for count in [5, 500] {
        let database = database("signs");
        let sink = sink(&database, json!({}));
        assert!(sink.longest_silence().expect("a limit") < Duration::from_mins(5));
        everything(&sink, &inventory(), T1, &deployments(count, 1))
            .await
            .expect("delivered");
        let look = async || {
            let asked = delivery(&inventory(), T2, DeliveryRows::Changes(Arc::default()));
            let confirmed = sink.confirm(&asked).await.expect("an answer");
            assert!(confirmed.is_some());
            sql(&database, seen).await
        };
        let first = look().await;
        assert_eq!(look().await, first, "too early");
        for touched in [false, true] {
            tokio::time::pause();
            tokio::time::advance(Duration::from_mins(4)).await;
            tokio::time::resume();
            if touched {
                sql(&database, "UPDATE items SET payload = payload").await;
            }
            let before = sql(&database, seen).await;
            let after = look().await;
            assert_ne!(after, before, "four minutes later");
            assert_eq!(look().await, after);
        }
    }
}

/// Rows are written without it, whoever took it away; and it comes back.
#[tokio::test]
async fn rows_do_not_depend_on_it() {
    let database = database("recordless");
    let deliver = async |spec: serde_json::Value, rows: usize| {
        let sink = sink(&database, spec);
        let (first, next) = (deployments(rows, 1), deployments(rows, 2));
        let receipt = everything(&sink, &inventory(), T1, &first).await;
        assert_eq!(receipt.expect("delivered").note, None);
        sink.deliver(&delivery(
            &inventory(),
            T2,
            DeliveryRows::Changes(Arc::new(kollect_inventory::Delta::between(&first, &next))),
        ))
        .await
        .expect("changes");
        sink
    };
    let exists = "SELECT to_regclass('kollect_inventories') IS NOT NULL";
    // Nobody may make it.
    sql(&database, "CREATE SCHEMA made; CREATE ROLE modest_record").await;
    let made = deliver(json!({}), 2).await;
    assert_eq!(sql(&database, exists).await, ["t"]);
    // Dropped while it is in use.
    sql(&database, "DROP TABLE kollect_inventories").await;
    everything(&made, &inventory(), T3, &deployments(2, 3))
        .await
        .expect("it is made again");
    assert_eq!(record(&database).await.len(), 1);
    // Something else has its name.
    sql(
        &database,
        "DROP TABLE kollect_inventories; CREATE VIEW kollect_inventories AS SELECT 1 AS mine",
    )
    .await;
    deliver(json!({}), 3).await;
    assert_eq!(
        sql(&database, "SELECT mine FROM kollect_inventories").await,
        ["1"]
    );
    sql(&database, "DROP VIEW kollect_inventories").await;
    // Nothing is made in a mode that makes nothing.
    deliver(json!({"provisioning": {"mode": "existing"}}), 4).await;
    assert_eq!(sql(&database, exists).await, ["f"]);
    // Somebody takes away the right to write it.
    deliver(json!({}), 5).await;
    sql(
        &database,
        "GRANT ALL ON items TO modest_record; GRANT ALL ON kollect_inventories TO modest_record",
    )
    .await;
    let role = json!({"options": {"role": "modest_record"}});
    let modest = deliver(role, 6).await;
    assert!(record(&database).await[0].contains("|6|"), "on record");
    sql(
        &database,
        "REVOKE ALL ON kollect_inventories FROM modest_record",
    )
    .await;
    let (before, after) = (deployments(6, 2), deployments(7, 2));
    changes(&modest, &inventory(), T3, &before, &after)
        .await
        .expect("rows go on");
    everything(&modest, &inventory(), T3, &deployments(40, 2))
        .await
        .expect("rows go on");
    assert!(record(&database).await[0].contains("|6|"), "as it was");
}
