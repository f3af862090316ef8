//! Tables that are missing, made by others, or made earlier.

use kollect_sinks::{Sink, SinkError};
use kollect_testkit::{names::unique, postgres::Database};
use serde_json::{Value, json};

use super::{
    items::deployments,
    server::{T1, T2, changes, database, everything, inventory, sink, sql},
};

/// The table as earlier versions made it.
const ORIGINAL: &str = "CREATE TABLE items (inventory_namespace TEXT NOT NULL, inventory_name TEXT NOT NULL, \
     target_name TEXT NOT NULL, source_uid TEXT NOT NULL, cluster TEXT NOT NULL DEFAULT '', \
     resource_namespace TEXT NOT NULL DEFAULT '', payload JSONB NOT NULL, exported_at TIMESTAMPTZ NOT NULL, \
     PRIMARY KEY (inventory_namespace, inventory_name, target_name, source_uid))";

const KEY: &str = "SELECT string_agg(a.attname, ',' ORDER BY array_position(x.indkey::int2[], a.attnum)) \
     FROM pg_index x JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = ANY (x.indkey) \
     WHERE x.indrelid = 'items'::regclass AND x.indisprimary";

const NEW_KEY: &str = "inventory_namespace,inventory_name,cluster,target_name,source_uid";
const OLD_KEY: &str = "inventory_namespace,inventory_name,target_name,source_uid";

/// A role that may use the table and nothing else.
async fn writer(database: &Database) -> Value {
    let role = unique("writer");
    sql(
        database,
        &format!(
            "CREATE ROLE \"{role}\"; GRANT USAGE ON SCHEMA public TO \"{role}\"; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO \"{role}\""
        ),
    )
    .await;
    json!({"role": role})
}

/// Many operators meet at an empty database.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn operators_create_the_table_at_the_same_time() {
    let database = database("rush");
    let extras = json!({"postgres": {"history": {"table": "log"}, "views": [{"name": "seen", "target": "deployments"}]}});
    let deliveries = (0..8).map(|number| {
        let mut changes = extras.clone();
        changes["cluster"] = json!(format!("cluster-{number}"));
        let sink = sink(&database, changes);
        tokio::spawn(async move { everything(&sink, &inventory(), T1, &deployments(3, 1)).await })
    });
    for delivery in deliveries.collect::<Vec<_>>() {
        let receipt = delivery.await.expect("no panic").expect("delivered");
        assert_eq!((receipt.written, receipt.note), (3, None));
    }
    assert_eq!(
        sql(
            &database,
            "SELECT count(*), count(DISTINCT cluster) FROM seen"
        )
        .await,
        ["24|8"]
    );
}

/// A role without the right to create anything uses a table that exists.
#[tokio::test]
async fn an_existing_table_needs_no_right_to_create() {
    let database = database("modest");
    let maker = sink(&database, json!({}));
    everything(&maker, &inventory(), T1, &deployments(1, 1))
        .await
        .expect("made");
    let options = writer(&database).await;
    for mode in ["ensure", "existing"] {
        let sink = sink(
            &database,
            json!({"options": options, "provisioning": {"mode": mode}}),
        );
        everything(&sink, &inventory(), T1, &deployments(2, 1))
            .await
            .expect(mode);
        sink.retire(&inventory()).await.expect(mode);
        sink.probe().await.expect(mode);
    }
    let elsewhere = sink(
        &database,
        json!({"options": options, "postgres": {"table": "elsewhere"}}),
    );
    let error = everything(&elsewhere, &inventory(), T1, &deployments(1, 1))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SinkError::Forbidden(text) if text.starts_with("postgres create table: permission denied")),
        "{error:?}"
    );
    sql(&database, "REVOKE INSERT ON items FROM PUBLIC").await;
    let role = options["role"].as_str().expect("a role");
    sql(
        &database,
        &format!("REVOKE INSERT ON items FROM \"{role}\""),
    )
    .await;
    let sink = sink(&database, json!({"options": options}));
    let error = everything(&sink, &inventory(), T1, &deployments(1, 1))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SinkError::Forbidden(text) if text.contains("items")),
        "{error:?}"
    );
    // Granted later, without a change here.
    sql(&database, &format!("GRANT INSERT ON items TO \"{role}\"")).await;
    everything(&sink, &inventory(), T1, &deployments(1, 1))
        .await
        .expect("granted");
}

/// `existing` creates nothing and says what is wrong.
#[tokio::test]
async fn existing_mode_checks() {
    for (setup, says) in [
        (
            "SELECT 1",
            "\"public\".\"items\" does not exist, and spec.provisioning.mode is existing",
        ),
        (
            "CREATE VIEW items AS SELECT 1 AS payload",
            "\"public\".\"items\" is not a table",
        ),
        (
            "CREATE TABLE items (id int PRIMARY KEY)",
            "has no column inventory_namespace of type text",
        ),
        (
            "CREATE TABLE items (inventory_namespace text, inventory_name text, target_name text, source_uid text, \
             cluster text, resource_namespace text, payload json, exported_at timestamptz)",
            "column payload of postgres table \"public\".\"items\" has type json; it must be jsonb",
        ),
        (
            "CREATE TABLE items (inventory_namespace text, inventory_name text, target_name text, source_uid text, \
             cluster text, resource_namespace text, payload jsonb, exported_at timestamptz)",
            "ADD PRIMARY KEY (inventory_namespace, inventory_name, cluster, target_name, source_uid)",
        ),
        (
            "CREATE TABLE items (inventory_namespace text, inventory_name text, target_name text, source_uid text, \
             cluster text, resource_namespace text, payload jsonb, exported_at timestamptz); \
             CREATE UNIQUE INDEX ON items (inventory_namespace, inventory_name, cluster, target_name, source_uid) \
             WHERE cluster <> ''",
            "has no unique key",
        ),
    ] {
        let database = database("existing");
        sql(&database, setup).await;
        let before = sql(&database, "SELECT count(*) FROM pg_class").await;
        let sink = sink(&database, json!({"provisioning": {"mode": "existing"}}));
        let delivered = everything(&sink, &inventory(), T1, &deployments(1, 1))
            .await
            .unwrap_err();
        for error in [delivered, sink.probe().await.unwrap_err()] {
            assert!(
                matches!(&error, SinkError::Terminal(text) if text.contains(says)),
                "{error:?}"
            );
        }
        assert_eq!(
            sql(&database, "SELECT count(*) FROM pg_class").await,
            before
        );
    }
}

/// What a database administrator adds survives and is no obstacle.
#[tokio::test]
async fn tables_of_an_administrator() {
    for (setup, what) in [
        (
            "CREATE TABLE items (inventory_namespace varchar(63), inventory_name text, target_name text, \
             source_uid text, cluster text, resource_namespace text, payload jsonb, exported_at timestamptz, \
             team text DEFAULT 'x'); \
             CREATE UNIQUE INDEX ON items (cluster, source_uid, target_name, inventory_name, inventory_namespace)",
            "another order and more columns",
        ),
        (
            "CREATE TABLE items (inventory_namespace text, inventory_name text, target_name text, source_uid text, \
             cluster text, resource_namespace text, payload jsonb, exported_at timestamptz, \
             PRIMARY KEY (inventory_namespace, inventory_name, cluster, target_name, source_uid)) \
             PARTITION BY LIST (cluster); \
             CREATE TABLE items_west PARTITION OF items FOR VALUES IN ('prod-west'); \
             CREATE TABLE items_rest PARTITION OF items DEFAULT",
            "partitions",
        ),
    ] {
        let database = database("custom");
        sql(&database, setup).await;
        let sink = sink(&database, json!({"provisioning": {"mode": "existing"}}));
        let (few, many) = (deployments(3, 1), deployments(50, 2));
        for (before, after) in [(&few, &many), (&many, &few)] {
            everything(&sink, &inventory(), T1, before)
                .await
                .expect(what);
            let receipt = changes(&sink, &inventory(), T2, before, after)
                .await
                .expect(what);
            assert_eq!(receipt.written, after.len() as u64, "{what}");
            let count = sql(&database, "SELECT count(*) FROM items").await;
            assert_eq!(count, [after.len().to_string()], "{what}");
        }
        if what == "partitions" {
            everything(&sink, &inventory(), T1, &few).await.expect(what);
            sql(&database, "TRUNCATE items_west").await;
            let error = changes(&sink, &inventory(), T2, &few, &many)
                .await
                .unwrap_err();
            assert!(matches!(error, SinkError::OutOfStep(_)), "{error:?}");
        }
    }
}

/// The table of an earlier version, used by nobody else, gets the new key.
#[tokio::test]
async fn the_original_table_is_upgraded() {
    let database = database("upgrade");
    sql(
        &database,
        &format!(
            "{ORIGINAL}; INSERT INTO items VALUES ('team-a', 'team-inventory', 'deployments', 'uid-old', \
             'prod-west', 'team-a', '{{}}', now())"
        ),
    )
    .await;
    let sink = sink(&database, json!({}));
    let receipt = everything(&sink, &inventory(), T1, &deployments(2, 1))
        .await
        .expect("delivered");
    assert_eq!(
        (receipt.written, receipt.removed, receipt.note),
        (2, 1, None)
    );
    assert_eq!(sql(&database, KEY).await, [NEW_KEY]);
}

/// Another cluster uses it too, perhaps with an earlier version: the key stays, with a warning.
#[tokio::test]
async fn a_shared_original_table_keeps_its_key() {
    let database = database("shared-original");
    sql(
        &database,
        &format!(
            "{ORIGINAL}; INSERT INTO items VALUES ('team-a', 'team-inventory', 'deployments', 'uid-000001', \
             'east', 'team-a', '{{}}', now()), ('team-a', 'team-inventory', 'deployments', 'uid-east', 'east', \
             'team-a', '{{}}', now())"
        ),
    )
    .await;
    let west = sink(&database, json!({}));
    let (one, two) = (deployments(1, 1), deployments(2, 1));
    let receipt = everything(&west, &inventory(), T1, &one)
        .await
        .expect("delivered");
    let note = receipt.note.expect("a warning");
    assert!(note.contains("does not contain the cluster"), "{note}");
    assert_eq!(sql(&database, KEY).await, [OLD_KEY]);
    // Where both have the same object, the row goes back and forth, as it always did.
    everything(&west, &inventory(), T1, &two)
        .await
        .expect("delivered");
    let rows = sql(
        &database,
        "SELECT source_uid, cluster FROM items ORDER BY 1",
    )
    .await;
    assert_eq!(
        rows,
        [
            "uid-000000|prod-west",
            "uid-000001|prod-west",
            "uid-east|east"
        ]
    );

    // Somebody upgrades the table under a running sink.
    sql(
        &database,
        &format!("ALTER TABLE items DROP CONSTRAINT items_pkey, ADD PRIMARY KEY ({NEW_KEY})"),
    )
    .await;
    let receipt = changes(&west, &inventory(), T2, &two, &one).await;
    // The key's index has files of its own; the table is the same one.
    let receipt = receipt.expect("delivered with the other key");
    assert_eq!((receipt.written, receipt.removed), (0, 1));
    let receipt = everything(&west, &inventory(), T2, &two)
        .await
        .expect("delivered");
    assert_eq!(receipt.written, 1);
}

/// The table vanished, or is another one: it is made anew, and all rows are asked for.
#[tokio::test]
async fn a_vanished_table_is_made_again() {
    let (one, two) = (deployments(1, 1), deployments(2, 1));
    for accident in [
        "DROP TABLE items",
        "TRUNCATE items",
        "ALTER TABLE items RENAME TO items_old; CREATE TABLE items (LIKE items_old INCLUDING ALL)",
        "VACUUM FULL items",
    ] {
        let database = database("vanished");
        let sink = sink(&database, json!({}));
        everything(&sink, &inventory(), T1, &one)
            .await
            .expect("delivered");
        sql(&database, accident).await;
        let error = changes(&sink, &inventory(), T2, &one, &two)
            .await
            .unwrap_err();
        assert!(
            matches!(error, SinkError::OutOfStep(_)),
            "{accident}: {error:?}"
        );
        let untouched = sql(&database, "SELECT count(*) FROM items").await;
        assert_eq!(
            untouched,
            [if accident.starts_with("VACUUM") {
                "1"
            } else {
                "0"
            }],
            "{accident}"
        );
        everything(&sink, &inventory(), T2, &two)
            .await
            .expect("all rows");
        assert_eq!(
            sql(&database, "SELECT count(*) FROM items").await,
            ["2"],
            "{accident}"
        );
    }
    let database = database("vanished");
    let sink = sink(&database, json!({}));
    everything(&sink, &inventory(), T1, &one)
        .await
        .expect("delivered");
    sql(&database, "DROP TABLE items").await;
    everything(&sink, &inventory(), T1, &two)
        .await
        .expect("made again at once");
    sql(&database, "DROP TABLE items").await;
    sink.retire(&inventory()).await.expect("nothing to remove");
    assert_eq!(
        sql(&database, "SELECT to_regclass('items') IS NULL").await,
        ["t"],
        "nothing was created"
    );
}

/// In `existing` mode a table that vanished is an error, not a reason to make one.
#[tokio::test]
async fn existing_mode_makes_no_table_again() {
    let database = database("vanished");
    sql(&database, ORIGINAL).await;
    let sink = sink(&database, json!({"provisioning": {"mode": "existing"}}));
    let one = deployments(1, 1);
    let receipt = everything(&sink, &inventory(), T1, &one)
        .await
        .expect("delivered");
    assert!(
        receipt
            .note
            .is_some_and(|note| note.contains("does not contain the cluster"))
    );
    sql(&database, "DROP TABLE items").await;
    let error = everything(&sink, &inventory(), T1, &one).await.unwrap_err();
    assert!(
        matches!(&error, SinkError::Terminal(text) if text.contains("does not exist")),
        "{error:?}"
    );
}
