//! What a history answers, and what it forgets.

use kollect_inventory::Snapshot;
use kollect_sinks::{SinkError, postgres::PostgresSink};
use kollect_testkit::postgres::Database;
use serde_json::{Value, json};

use super::{
    items::{Items, deployment},
    server::{T1, T2, T3, changes, database, everything, inventory, sink, sql},
};

fn rows(replicas: &[(&str, u64)]) -> Snapshot {
    let items: Vec<Value> = replicas
        .iter()
        .map(|(uid, replicas)| deployment(uid, &json!({"replicas": replicas})))
        .collect();
    Items::default().snapshot(&items)
}

fn kept(days: Option<&str>) -> Value {
    let mut spec = json!({"postgres": {"history": {"table": "log"}}});
    if let Some(days) = days {
        spec["options"] = json!({"historyDays": days});
    }
    spec
}

async fn as_of(database: &Database, moment: &str) -> Vec<String> {
    let question = format!(
        "SELECT source_uid, payload->'attributes'->>'replicas' FROM kollect_as_of('{moment}') ORDER BY 1"
    );
    sql(database, &question).await
}

async fn deliver(sink: &PostgresSink, at: &str, now: &Snapshot) {
    everything(sink, &inventory(), at, now)
        .await
        .expect("delivered");
}

/// The function shows the rows of a moment, the view every change with both sides of it.
#[tokio::test]
async fn a_history_is_asked_with_one_query() {
    let database = database("asked");
    let sink = sink(&database, kept(None));
    let (first, second, third) = (
        rows(&[("a", 1), ("b", 1)]),
        rows(&[("a", 2), ("b", 1), ("c", 1)]),
        rows(&[("a", 2), ("c", 1)]),
    );
    deliver(&sink, T1, &first).await;
    deliver(&sink, T2, &second).await;
    changes(&sink, &inventory(), T3, &second, &third)
        .await
        .expect("changes");
    assert_eq!(as_of(&database, T1).await, ["a|1", "b|1"]);
    assert_eq!(as_of(&database, T2).await, ["a|2", "b|1", "c|1"]);
    assert_eq!(as_of(&database, T3).await, ["a|2", "c|1"]);
    assert!(as_of(&database, "2020-01-01T00:00:00Z").await.is_empty());
    let all = "SET TIME ZONE 'UTC'; SELECT kind, namespace, name, operation, to_char(valid_from, 'SS'), \
         to_char(valid_to, 'SS'), deleted, attributes_before->>'replicas', attributes->>'replicas' \
         FROM kollect_changes WHERE cluster = 'prod-west' ORDER BY valid_from, name";
    assert_eq!(
        sql(&database, all).await,
        [
            "Deployment|team-a|a|insert|01|02|f||1",
            "Deployment|team-a|b|insert|01|03|f||1",
            "Deployment|team-a|a|update|02||f|1|2",
            "Deployment|team-a|c|insert|02||f||1",
            "Deployment|team-a|b|delete|03||t|1|",
        ]
    );
    // Another history in the same schema has a function and a view under its own name.
    let other = super::server::sink(
        &database,
        json!({"postgres": {"table": "more", "history": {"table": "more_log"}}}),
    );
    deliver(&other, T1, &rows(&[("z", 9)])).await;
    let theirs = "SELECT source_uid FROM more_log_as_of('2030-01-01')";
    assert_eq!(sql(&database, theirs).await, ["z"]);
    assert_eq!(
        sql(&database, "SELECT uid FROM more_log_changes").await,
        ["z"]
    );
    assert_eq!(as_of(&database, T3).await, ["a|2", "c|1"], "as it was");
}

/// What was superseded too long ago goes, in batches; what was true at the edge stays true.
#[tokio::test]
async fn a_history_forgets_what_is_too_old() {
    const OLD: &str = "2025-11-01T00:00:00Z";
    const LATER: &str = "2025-12-01T00:00:00Z";
    const NOW: &str = "2026-01-15T12:00:00Z";
    let database = database("forgets");
    let before = sink(&database, kept(None));
    deliver(&before, OLD, &rows(&[("a", 1), ("b", 1), ("c", 1)])).await;
    deliver(&before, LATER, &rows(&[("a", 2), ("b", 1)])).await;
    // A row with a long past, and somebody else's.
    sql(
        &database,
        "INSERT INTO log (inventory_namespace, inventory_name, cluster, target_name, source_uid, \
           resource_namespace, valid_from, operation, payload) \
         SELECT 'team-a', 'team-inventory', 'prod-west', 'deployments', 'b', 'team-a', \
           timestamptz '2025-11-02' + n * interval '1 minute', 'update', '{}' FROM generate_series(1, 12000) n; \
         INSERT INTO log (inventory_namespace, inventory_name, cluster, target_name, source_uid, \
           resource_namespace, valid_from, operation, payload) \
         SELECT 'team-a', 'team-inventory', 'elsewhere', 'deployments', 'b', 'team-a', \
           timestamptz '2025-11-02' + n * interval '1 minute', 'update', '{}' FROM generate_series(1, 10) n",
    )
    .await;
    drop(before);
    let sink = sink(&database, kept(Some("30")));
    let now = rows(&[("a", 3), ("b", 1)]);
    deliver(&sink, NOW, &now).await;
    let own = "SELECT count(*) FROM log WHERE cluster = 'prod-west'";
    // Ten thousand at a time; what is left follows with the next look.
    let left: usize = sql(&database, own).await[0].parse().expect("a number");
    assert!((2_000..3_000).contains(&left), "{left}");
    deliver(&sink, NOW, &now).await;
    let entries = "SET TIME ZONE 'UTC'; SELECT source_uid, operation, to_char(valid_from, 'YYYY-MM-DD') \
         FROM log WHERE cluster = 'prod-west' ORDER BY entry";
    assert_eq!(
        sql(&database, entries).await,
        [
            "a|update|2025-12-01",
            "b|update|2025-11-10",
            "a|update|2026-01-15"
        ]
    );
    assert_eq!(
        as_of(&database, "2025-12-20").await.len(),
        3,
        "two, and one elsewhere"
    );
    let others = "SELECT count(*) FROM log WHERE cluster = 'elsewhere'";
    assert_eq!(sql(&database, others).await, ["10"], "not ours");
}

/// Whoever may write a history and not cut it goes on writing.
#[tokio::test]
async fn a_history_that_may_not_be_cut_grows() {
    let database = database("uncut");
    deliver(&sink(&database, kept(None)), T1, &rows(&[("a", 1)])).await;
    sql(
        &database,
        "CREATE ROLE history_writer; GRANT ALL ON items, kollect_inventories TO history_writer; \
         GRANT SELECT, INSERT ON log TO history_writer",
    )
    .await;
    let mut spec = kept(Some("1"));
    spec["options"]["role"] = json!("history_writer");
    let sink = sink(&database, spec);
    deliver(&sink, "2026-03-01T00:00:00Z", &rows(&[("a", 2)])).await;
    assert_eq!(sql(&database, "SELECT count(*) FROM log").await, ["2"]);
    let wrong = super::server::spec(kept(Some("never")));
    let materials = super::server::secret(&wrong, &[("dsn", "postgres://u@h/d")]).expect("one");
    let error = PostgresSink::new(&wrong, materials, &super::server::environment()).unwrap_err();
    assert!(
        matches!(&error, SinkError::Terminal(text) if text.contains("historyDays")),
        "{error:?}"
    );
}
