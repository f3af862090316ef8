//! The vectors: deliveries in, rows out.

use std::collections::BTreeMap;

use kollect_api::{InventoryId, sink::SinkSpec};
use kollect_inventory::Snapshot;
use kollect_sinks::Sink;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    items::{Items, deployment, deployments},
    server::{T1, T2, T3, changes, database, everything, inventory, sink, sql},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    items: BTreeMap<String, Value>,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    #[serde(default)]
    spec: Value,
    steps: Vec<Step>,
    table: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    deliver: Option<Vec<String>>,
    #[serde(default)]
    retire: bool,
    #[serde(default = "west")]
    cluster: String,
    #[serde(default = "team_inventory")]
    inventory: String,
    #[serde(default = "first")]
    at: String,
}

fn west() -> String {
    "prod-west".into()
}

fn team_inventory() -> String {
    "team-a/team-inventory".into()
}

fn first() -> String {
    "t1".into()
}

const TIMES: [(&str, &str); 3] = [("t1", T1), ("t2", T2), ("t3", T3)];

#[tokio::test]
async fn vectors() {
    let file: File = serde_saphyr::from_str(include_str!("vectors.yaml")).expect("vectors");
    for vector in &file.vectors {
        let database = database("vectors");
        sql(&database, "CREATE SCHEMA \"we\"\"ird\"").await;
        let mut items = Items::default();
        let mut sinks: BTreeMap<String, _> = BTreeMap::new();
        for step in &vector.steps {
            let sink = sinks.entry(step.cluster.clone()).or_insert_with(|| {
                let mut changes = json!({"cluster": step.cluster});
                if let (Some(changes), Some(spec)) =
                    (changes.as_object_mut(), vector.spec.as_object())
                {
                    changes.extend(spec.clone());
                }
                sink(&database, changes)
            });
            let inventory = match step.inventory.split_once('/') {
                Some((namespace, name)) => InventoryId::namespaced(namespace, name),
                None => InventoryId::cluster(&step.inventory),
            };
            if step.retire {
                sink.retire(&inventory).await.expect("retired");
            }
            if let Some(names) = &step.deliver {
                let rows = items.snapshot(names.iter().map(|name| &file.items[name]));
                let at = TIMES
                    .iter()
                    .find(|(name, _)| *name == step.at)
                    .expect("a time")
                    .1;
                let done = everything(sink, &inventory, at, &rows).await;
                done.unwrap_or_else(|error| panic!("{}: {error}", vector.id));
            }
        }
        assert_eq!(
            table(&database, vector, &file).await,
            vector.table,
            "{}",
            vector.id
        );
    }
}

/// The table with payloads and times by their names.
async fn table(
    database: &kollect_testkit::postgres::Database,
    vector: &Vector,
    file: &File,
) -> Vec<String> {
    let (schema, table) = match &vector.spec["postgres"] {
        Value::Object(names) => (
            names["schema"]
                .as_str()
                .unwrap_or("public")
                .replace('"', "\"\""),
            names["table"]
                .as_str()
                .unwrap_or("items")
                .replace('"', "\"\""),
        ),
        _ => ("public".into(), "items".into()),
    };
    let key = "inventory_namespace, inventory_name, target_name, source_uid, cluster";
    let rows = sql(
        database,
        &format!(
            "SELECT json_build_array({key}, resource_namespace), payload, \
             to_char(exported_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') \
             FROM \"{schema}\".\"{table}\" ORDER BY {key}"
        ),
    )
    .await;
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let (columns, rest) = row.split_once("]|").expect("columns");
            let (payload, time) = rest.rsplit_once('|').expect("a time");
            let columns: Vec<String> =
                serde_json::from_str(&format!("{columns}]")).expect("columns");
            let payload: Value = serde_json::from_str(payload).expect("a payload");
            let item = file.items.iter().find(|(_, item)| **item == payload);
            let item = item.map_or_else(|| payload.to_string(), |(name, _)| name.clone());
            let time = TIMES
                .iter()
                .find(|(_, text)| *text == time)
                .map_or(time, |(name, _)| name);
            format!("{}|{item}|{time}", columns.join("|"))
        })
        .collect();
    lines.sort();
    lines
}

/// D20 and D21: few rows need no temporary table, many do.
#[tokio::test]
async fn only_many_rows_need_the_right_to_temporary_tables() {
    let database = database("temporary");
    let role = kollect_testkit::names::unique("poor");
    sql(
        &database,
        &format!(
            "CREATE ROLE \"{role}\" LOGIN PASSWORD 'x'; \
             GRANT USAGE, CREATE ON SCHEMA public TO \"{role}\"; \
             REVOKE TEMPORARY ON DATABASE \"{}\" FROM PUBLIC",
            database.name
        ),
    )
    .await;
    let sink = sink(&database, json!({"options": {"role": role}}));
    let few = deployments(31, 1);
    let receipt = everything(&sink, &inventory(), T1, &few)
        .await
        .expect("31 rows");
    assert_eq!((receipt.written, receipt.removed), (31, 0));
    let error = everything(&sink, &inventory(), T2, &deployments(32, 1))
        .await
        .unwrap_err();
    let text = error.message().to_owned();
    assert!(
        matches!(error, kollect_sinks::SinkError::Forbidden(_)),
        "{error:?}"
    );
    assert!(
        text.starts_with("postgres bulk upsert: create staging: "),
        "{text}"
    );
    assert!(!text.contains(&database.name), "{text}");
    assert_eq!(sql(&database, "SELECT count(*) FROM items").await, ["31"]);

    sql(
        &database,
        &format!(
            "GRANT TEMPORARY ON DATABASE \"{}\" TO PUBLIC",
            database.name
        ),
    )
    .await;
    let receipt = everything(&sink, &inventory(), T2, &deployments(32, 1))
        .await
        .expect("32 rows");
    assert_eq!(
        (receipt.written, receipt.removed),
        (1, 0),
        "only the new row is written"
    );
}

/// D22: one row that the table refuses, and nothing of the delivery stays, in all three ways of
/// writing.
#[tokio::test]
async fn a_refused_row_undoes_the_delivery() {
    let database = database("poison");
    let sink = sink(&database, json!({}));
    let mut items = Items::default();
    let mut snapshot = |uids: &[String]| -> Snapshot {
        let values: Vec<Value> = uids.iter().map(|uid| deployment(uid, &json!({}))).collect();
        items.snapshot(&values)
    };
    let seed = snapshot(&["uid-seed".into()]);
    everything(&sink, &inventory(), T1, &seed)
        .await
        .expect("seed");
    sql(
        &database,
        "ALTER TABLE items ADD CONSTRAINT no_poison CHECK (source_uid <> 'uid-poison')",
    )
    .await;

    let small: Vec<String> = ["uid-ok", "uid-poison"].map(String::from).to_vec();
    let large: Vec<String> = (0..100)
        .map(|n| format!("uid-{n}"))
        .chain(small.clone())
        .collect();
    for (rows, prefix) in [
        (snapshot(&small), "postgres upsert: "),
        (snapshot(&large), "postgres bulk upsert: merge: "),
    ] {
        let error = everything(&sink, &inventory(), T2, &rows)
            .await
            .unwrap_err();
        let text = error.message();
        assert!(
            matches!(&error, kollect_sinks::SinkError::Terminal(_)),
            "{error:?}"
        );
        assert!(
            text.starts_with(prefix) && text.contains("no_poison"),
            "{text}"
        );
        assert_eq!(
            sql(&database, "SELECT source_uid FROM items").await,
            ["uid-seed"]
        );
        // A full delivery that failed leaves nothing to build changes on.
        let refused = changes(&sink, &inventory(), T2, &seed, &rows)
            .await
            .unwrap_err();
        assert!(
            matches!(refused, kollect_sinks::SinkError::OutOfStep(_)),
            "{refused:?}"
        );
        everything(&sink, &inventory(), T1, &seed)
            .await
            .expect("seed");
        let error = changes(&sink, &inventory(), T2, &seed, &rows)
            .await
            .unwrap_err();
        assert!(error.message().contains("no_poison"), "{error}");
        assert_eq!(
            sql(&database, "SELECT source_uid FROM items").await,
            ["uid-seed"]
        );
    }
}

/// D30 with many rows, and then the winner goes.
#[tokio::test]
async fn the_row_behind_another_comes_back() {
    let database = database("shared");
    let sink = sink(&database, json!({}));
    let mut items = Items::default();
    let mut values: Vec<Value> = (0..40)
        .map(|n| deployment(&format!("uid-{n}"), &json!({})))
        .collect();
    let mut twin = values[7].clone();
    twin["targetNamespace"] = json!("team-b");
    let alone = items.snapshot(&values);
    values.push(twin);
    let both = items.snapshot(&values);
    let owner = "SELECT payload->>'targetNamespace' FROM items WHERE source_uid = 'uid-7'";

    let receipt = everything(&sink, &inventory(), T1, &both)
        .await
        .expect("both");
    assert_eq!(receipt.written, 40);
    assert_eq!(sql(&database, owner).await, ["team-b"]);
    let receipt = changes(&sink, &inventory(), T2, &both, &alone)
        .await
        .expect("one goes");
    assert_eq!((receipt.written, receipt.removed), (1, 0));
    assert_eq!(sql(&database, owner).await, ["team-a"]);

    // The other way round nobody knows of the first one: all rows are asked for, once.
    let error = changes(&sink, &inventory(), T2, &alone, &both)
        .await
        .unwrap_err();
    assert!(
        matches!(error, kollect_sinks::SinkError::OutOfStep(_)),
        "{error:?}"
    );
    everything(&sink, &inventory(), T2, &both)
        .await
        .expect("both");
    let receipt = changes(&sink, &inventory(), T3, &both, &alone)
        .await
        .expect("one goes");
    assert_eq!((receipt.written, receipt.removed), (1, 0));
    assert_eq!(sql(&database, owner).await, ["team-a"]);
}

/// The statement for previews.
#[test]
fn expected_ddl() {
    let ddl = |postgres: Value| {
        let SinkSpec::Database(spec) = super::server::spec(json!({"postgres": postgres})) else {
            panic!("a database sink");
        };
        kollect_sinks::postgres::expected_ddl(&spec.postgres.expect("postgres"))
    };
    let text = ddl(json!({"schema": "we\"ird", "table": "ta\"ble"}));
    assert!(
        text.starts_with("CREATE TABLE IF NOT EXISTS \"we\"\"ird\".\"ta\"\"ble\" (\n"),
        "{text}"
    );
    let text = ddl(json!({"schema": " ", "table": "  "}));
    assert!(
        text.starts_with("CREATE TABLE IF NOT EXISTS \"public\".\"inventory_items\" ("),
        "{text}"
    );
    assert!(
        text.contains(
            "PRIMARY KEY (inventory_namespace, inventory_name, cluster, target_name, source_uid)\n)"
        ),
        "{text}"
    );
}
