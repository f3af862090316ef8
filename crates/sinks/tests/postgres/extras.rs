//! Views and the history.

use std::sync::Arc;

use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{AttributeTypes, DeliveryRows, Sink, postgres::PostgresSink};
use serde_json::{Value, json};

use super::{
    items::{Items, deployment, deployments},
    server::{T1, T2, T3, changes, database, everything, inventory, sink, sql},
};

fn view(columns: &Value) -> Value {
    json!({"postgres": {"views": [{"name": "web", "target": "deployments", "columns": columns}]}})
}

/// Typed columns; a value of another type is NULL and no error.
#[tokio::test]
async fn views_show_attributes_as_columns() {
    let database = database("views");
    let columns = json!([
        {"name": "replicas", "type": "bigint"},
        {"name": "load", "attribute": "cpu load", "type": "double precision"},
        {"name": "ready", "type": "boolean"},
        {"name": "since", "attribute": "created'At", "type": "timestamptz"},
        {"name": "image"},
        {"name": "la\"bels", "attribute": "labels", "type": "jsonb"},
    ]);
    let sink = sink(&database, view(&columns));
    let mut items = Items::default();
    let good = json!({
        "replicas": 3, "cpu load": 0.25, "ready": true, "created'At": "2026-02-28T23:59:59.5+02:00",
        "image": "nginx:1", "labels": {"a": 1},
    });
    let texts = json!({
        "replicas": "-9223372036854775808", "cpu load": "1e3", "ready": "false",
        "created'At": "2024-02-29T00:00:00Z", "image": 5, "labels": "x",
    });
    let mut rows = vec![
        deployment("uid-good", &good),
        deployment("uid-texts", &texts),
        deployment("uid-none", &json!({})),
    ];
    // Nothing of this may make the view fail.
    let odd = [
        "x",
        "",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:00+15:00",
        "1900-02-29T00:00:00Z",
        "99999999999999999999",
        "9223372036854775808",
        "1.5",
        "1e400",
        "1e-400",
        "NaN",
        "Infinity",
        "0x10",
        " 1",
        "1\n",
        "TRUE",
        "t",
        "yes",
        "now",
        "infinity",
        "--1",
    ];
    for (number, value) in odd.iter().enumerate() {
        let attributes =
            json!({"replicas": value, "cpu load": value, "ready": value, "created'At": value});
        rows.push(deployment(&format!("uid-odd-{number:02}"), &attributes));
    }
    for (number, value) in [
        json!(1.5),
        json!(1e300),
        json!([1]),
        json!({"a": 1}),
        json!(null),
        json!(true),
        json!(u64::MAX),
    ]
    .iter()
    .enumerate()
    {
        let attributes = json!({"replicas": value, "cpu load": value, "ready": value, "created'At": value, "image": value});
        rows.push(deployment(&format!("uid-json-{number}"), &attributes));
    }
    let mut other = deployment("uid-other", &good);
    other["targetName"] = json!("others");
    rows.push(other);
    let receipt = everything(&sink, &inventory(), T1, &items.snapshot(&rows))
        .await
        .expect("delivered");
    assert_eq!(receipt.note, None);

    let header = "SELECT inventory_namespace, inventory_name, cluster, namespace, name, uid FROM web WHERE uid = 'uid-good'";
    assert_eq!(
        sql(&database, header).await,
        ["team-a|team-inventory|prod-west|team-a|uid-good|uid-good"]
    );
    let typed = "SET TIME ZONE 'UTC'; SELECT uid, replicas + 1, load * 2, NOT ready, since, image, \"la\"\"bels\" FROM web \
                 WHERE uid NOT LIKE '%odd%' AND uid NOT LIKE '%json%' ORDER BY uid";
    assert_eq!(
        sql(&database, typed).await,
        [
            "uid-good|4|0.5|f|2026-02-28 21:59:59.5+00|nginx:1|{\"a\": 1}",
            "uid-none||||||",
            "uid-texts|-9223372036854775807|2000|t|2024-02-29 00:00:00+00|5|\"x\"",
        ]
    );
    let odd = "SELECT count(*), count(replicas), count(load), count(ready), count(since) FROM web WHERE uid LIKE '%odd%'";
    // Numbers that fit are numbers: two that are too large for bigint, and 1.5.
    assert_eq!(sql(&database, odd).await, ["25|0|3|0|0"]);
    let json = "SELECT count(*), count(replicas), count(load), count(ready), count(since) FROM web WHERE uid LIKE '%json%'";
    assert_eq!(sql(&database, json).await, ["7|0|2|1|0"]);
}

/// Views follow the spec, keep what was granted if they can, and never take somebody else's name.
#[tokio::test]
async fn views_follow_the_spec() {
    let database = database("view-changes");
    let deliver = async |columns: Value| {
        let sink = sink(&database, view(&columns));
        everything(&sink, &inventory(), T1, &deployments(2, 5))
            .await
            .expect("delivered")
            .note
    };
    let columns = "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'web'::regclass AND attnum > 7";
    let replicas = json!({"name": "replicas", "type": "bigint"});
    assert_eq!(deliver(json!([replicas])).await, None);
    sql(&database, "GRANT SELECT ON web TO PUBLIC").await;
    let identity = sql(
        &database,
        "SELECT oid, xmin FROM pg_class WHERE relname = 'web'",
    )
    .await;
    assert_eq!(deliver(json!([replicas])).await, None);
    assert_eq!(
        sql(
            &database,
            "SELECT oid, xmin FROM pg_class WHERE relname = 'web'"
        )
        .await,
        identity,
        "nothing to do"
    );

    assert_eq!(deliver(json!([replicas, {"name": "image"}])).await, None);
    assert_eq!(sql(&database, columns).await, ["replicas,image"]);
    assert_eq!(
        sql(
            &database,
            "SELECT has_table_privilege('public', 'web', 'SELECT')"
        )
        .await,
        ["t"]
    );

    // What others may have built on a view of ours is never broken: another one is made.
    sql(&database, "CREATE VIEW built AS SELECT replicas FROM web").await;
    for _ in 0..2 {
        let note = deliver(json!([{"name": "image"}]))
            .await
            .expect("a warning");
        assert!(note.contains("is view \"public\".\"web_2\""), "{note}");
    }
    assert_eq!(sql(&database, columns).await, ["replicas,image"]);
    let second = columns.replace("'web'", "'web_2'");
    assert_eq!(sql(&database, &second).await, ["image"]);
    assert!(
        deliver(json!([{"name": "image"}, replicas]))
            .await
            .is_some()
    );
    assert_eq!(
        sql(&database, &second).await,
        ["image,replicas"],
        "it grows"
    );
    assert_eq!(
        deliver(json!([replicas, {"name": "image"}])).await,
        None,
        "back"
    );

    sql(
        &database,
        "DROP VIEW built; DROP VIEW web; CREATE VIEW web AS SELECT 1 AS mine",
    )
    .await;
    let note = deliver(json!([replicas])).await.expect("a warning");
    assert!(note.contains("was not made by Kollect"), "{note}");
    assert_eq!(sql(&database, "SELECT mine FROM web").await, ["1"]);
}

const HISTORY: &str = "SELECT source_uid, operation, payload->'attributes'->>'replicas', \
     to_char(valid_from AT TIME ZONE 'UTC', 'SS') FROM log ORDER BY entry, source_uid";

/// Every change of a row is an entry, however it was delivered; a row that stays is none.
#[tokio::test]
async fn history_has_every_change() {
    // Few rows, and so many that all of them go through COPY.
    for rest in [0, 1_500] {
        let database = database("history");
        let sink = sink(
            &database,
            json!({"postgres": {"history": {"table": "log"}}}),
        );
        let mut items = Items::default();
        let mut snapshot = |rows: &[(&str, u64)]| -> Snapshot {
            let rows: Vec<Value> = rows
                .iter()
                .map(|(uid, replicas)| deployment(uid, &json!({"replicas": replicas})))
                .chain((0..rest).map(|n| deployment(&format!("rest-{n}"), &json!({}))))
                .collect();
            items.snapshot(&rows)
        };
        let first = snapshot(&[("a", 1), ("b", 1)]);
        let second = snapshot(&[("a", 2), ("b", 1), ("c", 1)]);
        let third = snapshot(&[("a", 2)]);
        everything(&sink, &inventory(), T1, &first)
            .await
            .expect("first");
        everything(&sink, &inventory(), T2, &second)
            .await
            .expect("second");
        changes(&sink, &inventory(), T3, &second, &third)
            .await
            .expect("third");
        everything(&sink, &inventory(), T3, &third)
            .await
            .expect("third again");
        let log: Vec<String> = sql(&database, HISTORY)
            .await
            .into_iter()
            .filter(|line| !line.starts_with("rest"))
            .collect();
        assert_eq!(log.len(), 6, "{log:?}");
        assert_eq!(log[..2], ["a|insert|1|01", "b|insert|1|01"]);
        let (mut middle, mut last) = (log[2..4].to_vec(), log[4..].to_vec());
        middle.sort();
        last.sort();
        assert_eq!(middle, ["a|update|2|02", "c|insert|1|02"]);
        assert_eq!(last, ["b|delete||03", "c|delete||03"]);

        // What was there at a moment.
        let at = |moment: &str| {
            format!(
                "SELECT source_uid, payload->'attributes'->>'replicas' FROM ( \
                   SELECT DISTINCT ON (inventory_namespace, inventory_name, cluster, target_name, source_uid) * \
                   FROM log WHERE valid_from <= '{moment}' \
                   ORDER BY inventory_namespace, inventory_name, cluster, target_name, source_uid, entry DESC) latest \
                 WHERE operation <> 'delete' AND source_uid NOT LIKE 'rest%' ORDER BY source_uid"
            )
        };
        assert_eq!(sql(&database, &at(T1)).await, ["a|1", "b|1"]);
        assert_eq!(sql(&database, &at(T2)).await, ["a|2", "b|1", "c|1"]);
        assert_eq!(sql(&database, &at(T3)).await, ["a|2"]);

        sink.retire(&inventory()).await.expect("retired");
        let ended = sql(
            &database,
            "SELECT operation FROM log WHERE source_uid = 'a' ORDER BY entry DESC LIMIT 1",
        )
        .await;
        assert_eq!(ended, ["delete"]);
        assert_eq!(sql(&database, "SELECT count(*) FROM items").await, ["0"]);
    }
}

/// A full pass that rewrites times is no change.
#[tokio::test]
async fn refreshed_times_are_no_history() {
    let database = database("history-refresh");
    let sink = sink(
        &database,
        json!({"options": {"refreshExportedAt": "true"}, "postgres": {"history": {"table": "log"}}}),
    );
    for rows in [deployments(3, 1), deployments(50, 1)] {
        everything(&sink, &inventory(), T1, &rows)
            .await
            .expect("delivered");
        let receipt = everything(&sink, &inventory(), T2, &rows)
            .await
            .expect("delivered");
        assert_eq!(receipt.written, rows.len() as u64, "rewritten");
        assert_eq!(
            sql(&database, "SELECT count(*) FROM log").await,
            [rows.len().to_string()]
        );
    }
    // The history is lost, not the rows: it begins anew.
    sql(&database, "DROP TABLE log CASCADE").await;
    everything(&sink, &inventory(), T3, &deployments(51, 1))
        .await
        .expect("delivered");
    assert_eq!(
        sql(&database, "SELECT operation FROM log").await,
        ["insert"]
    );
}

/// Every target has a view with the types that profiles declare. It grows, it never breaks what
/// others built on it, and it goes with the last row.
#[tokio::test]
async fn views_follow_profiles() {
    let database = database("target-views");
    let own = sink(&database, json!({"options": {"targetViews": "true"}}));
    let mut items = Items::default();
    let mut row = |uid: &str, target: &str, attributes: Value| {
        let mut item = deployment(uid, &attributes);
        item["targetName"] = json!(target);
        items.row(&item)
    };
    let types = |pairs: &[(&str, &str)]| {
        let one = |(name, word): &(&str, &str)| {
            (
                (*name).to_owned(),
                [(*word).to_owned()].into_iter().collect(),
            )
        };
        Arc::new(pairs.iter().map(one).collect::<AttributeTypes>())
    };
    let deliver = async |sink: &PostgresSink, content: DeliveryRows, declared| {
        let mut delivery = super::server::delivery(&inventory(), T1, content);
        delivery.documents.types = declared;
        sink.deliver(&delivery).await.expect("delivered");
    };
    let columns = async |view: &str| {
        let question = format!(
            "SELECT string_agg(attname || ' ' || format_type(atttypid, NULL), ', ' ORDER BY attnum) \
             FROM pg_attribute WHERE attrelid = to_regclass('{view}') AND attnum > 7"
        );
        sql(&database, &question).await.concat()
    };
    let first = Snapshot::new([
        row(
            "a",
            "web",
            json!({"image": "x", "replicas": 1, "labels": {"a": 1}}),
        ),
        row("b", "nodes", json!({"name": "n"})),
    ]);
    let declared = types(&[("image", "string"), ("replicas", "int"), ("name", "string")]);
    deliver(
        &own,
        DeliveryRows::All(first.clone()),
        Arc::clone(&declared),
    )
    .await;
    assert_eq!(
        columns("web").await,
        "image text, labels jsonb, replicas bigint"
    );
    assert_eq!(columns("nodes").await, "attr_name text");
    sql(
        &database,
        "CREATE VIEW built AS SELECT replicas + 1 AS more FROM web",
    )
    .await;
    let comment = "SELECT col_description('web'::regclass, 8)";
    assert_eq!(
        sql(&database, comment).await,
        ["attribute image of target web"]
    );

    // An attribute more, another less: the view grows, for changes as for everything.
    let second = Snapshot::new([
        row("a", "web", json!({"image": "x", "age": 3, "replicas": 1})),
        row("b", "nodes", json!({"name": "n"})),
    ]);
    let delta = DeliveryRows::Changes(Arc::new(Delta::between(&first, &second)));
    deliver(&own, delta, Arc::clone(&declared)).await;
    let grown = "image text, labels jsonb, replicas bigint, age jsonb";
    assert_eq!(columns("web").await, grown);
    // Another cluster with an older profile finds everything it wants.
    let other = sink(
        &database,
        json!({"cluster": "east", "options": {"targetViews": "true"}}),
    );
    deliver(&other, DeliveryRows::All(first.clone()), declared).await;
    assert_eq!(columns("web").await, grown);
    assert_eq!(columns("web_2").await, "");
    // A type that changed is another view.
    let retyped = types(&[
        ("image", "string"),
        ("replicas", "string"),
        ("name", "string"),
    ]);
    deliver(&own, DeliveryRows::All(second), retyped).await;
    assert_eq!(columns("web").await, grown);
    assert_eq!(
        columns("web_2").await,
        "age jsonb, image text, replicas text"
    );
    assert_eq!(sql(&database, "SELECT more FROM built").await, ["2", "2"]);
    // Views go with the last row of their target, unless somebody built on them.
    own.retire(&inventory()).await.expect("retired");
    assert_eq!(columns("nodes").await, "attr_name text", "others have rows");
    other.retire(&inventory()).await.expect("retired");
    assert_eq!(columns("nodes").await, "");
    assert_eq!(columns("web").await, grown, "somebody built on it");
    assert_eq!(columns("web_2").await, "");
}
