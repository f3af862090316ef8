//! Nothing to pay at rest: what is there is found out by digests, not by sending it.

use kollect_inventory::{HeldRows, Snapshot};
use kollect_sinks::{DeliveryRows, Sink, postgres::PostgresSink};
use kollect_testkit::{Postgres, Proxy, postgres::Tls};
use serde_json::{Value, json};

use super::{
    items::{Items, deployment, deployments},
    server::{T1, T2, T3, changes, database, delivery, everything, inventory, sink, sql},
};

/// Asks whether the table holds what it was given.
async fn confirmed(sink: &PostgresSink) -> bool {
    let asked = delivery(
        &inventory(),
        T3,
        DeliveryRows::Changes(std::sync::Arc::default()),
    );
    let answer = sink.confirm(&asked).await.expect("an answer");
    if let Some(receipt) = &answer {
        assert_eq!((receipt.written, receipt.removed, receipt.bytes), (0, 0, 0));
    }
    answer.is_some()
}

async fn deliver(sink: &PostgresSink, rows: &Snapshot) -> (u64, u64, u64) {
    let receipt = everything(sink, &inventory(), T2, rows).await;
    let receipt = receipt.expect("delivered");
    (receipt.written, receipt.removed, receipt.bytes)
}

/// What changes do to the digests is what the table has afterwards, for few rows and for many,
/// with history and without.
#[tokio::test]
async fn changes_are_followed_without_looking() {
    for (count, spec) in [
        (5, json!({})),
        (3_000, json!({})),
        (3_000, json!({"postgres": {"history": {"table": "log"}}})),
    ] {
        let database = database("followed");
        let sink = sink(&database, spec);
        assert!(sink.confirms());
        assert!(!confirmed(&sink).await, "nothing was delivered yet");
        let mut rows = deployments(count, 1);
        deliver(&sink, &rows).await;
        assert!(confirmed(&sink).await);
        // One row, a few, and so many that they go through COPY; rows that come and rows that go.
        for (kept, replicas) in [(count, 2), (count - 2, 2), (count + 3, 3)] {
            let next = deployments(kept, replicas);
            changes(&sink, &inventory(), T2, &rows, &next)
                .await
                .expect("changes");
            assert!(confirmed(&sink).await, "{kept} rows");
            assert!(confirmed(&sink).await, "twice");
            rows = next;
        }
        assert_eq!(deliver(&sink, &rows).await.0, 0);
        if count > 32 {
            assert_eq!(deliver(&sink, &rows).await.2, 0, "nothing is sent");
        }
    }
}

const SPOILED: [&str; 5] = [
    "UPDATE items SET payload = jsonb_set(payload, '{attributes,replicas}', '9') WHERE source_uid = 'uid-000123'",
    "UPDATE items SET resource_namespace = 'x' WHERE source_uid = 'uid-000123'",
    "DELETE FROM items WHERE source_uid = 'uid-000123'",
    "INSERT INTO items SELECT inventory_namespace, inventory_name, 'deployments', 'stray', cluster, \
     resource_namespace, payload, exported_at FROM items LIMIT 1",
    "TRUNCATE items",
];

/// Whatever somebody does to the rows is noticed, before and after changes, and only shards that
/// differ are sent.
#[tokio::test]
async fn what_somebody_did_is_noticed_and_mended() {
    let database = database("spoiled");
    let sink = sink(&database, json!({}));
    let mut rows = deployments(2_000, 1);
    let whole = deliver(&sink, &rows).await.2;
    for (round, harm) in (2..).zip(SPOILED) {
        for changed in [false, true] {
            if changed {
                let mut next = rows.rows().to_vec();
                next[7] =
                    Items::default().row(&deployment("uid-000007", &json!({"replicas": round})));
                let next = Snapshot::new(next);
                changes(&sink, &inventory(), T2, &rows, &next)
                    .await
                    .expect("a change");
                rows = next;
            }
            assert!(confirmed(&sink).await, "before: {harm}");
            sql(&database, harm).await;
            assert!(!confirmed(&sink).await, "{harm}");
            let (written, removed, bytes) = deliver(&sink, &rows).await;
            assert!(written + removed > 0, "{harm}");
            if !harm.starts_with("TRUNCATE") {
                assert_eq!(written + removed, 1, "{harm}");
                assert!(bytes < whole / 20, "{harm}: {bytes} of {whole} bytes");
            }
            assert!(confirmed(&sink).await, "after: {harm}");
        }
    }
    let right = "SELECT count(*), count(*) FILTER (WHERE payload->'attributes'->>'replicas' = '1') FROM items";
    assert_eq!(sql(&database, right).await, ["2000|1999"]);
}

/// A delivery that failed leaves no doubt about what was there before.
#[tokio::test]
async fn a_failure_costs_no_second_delivery_of_everything() {
    let database = database("unsure");
    let sink = sink(&database, json!({}));
    let rows = deployments(2_000, 1);
    let whole = deliver(&sink, &rows).await.2;
    let mut next = rows.rows().to_vec();
    next[7] = Items::default().row(&deployment("uid-000007", &json!({"replicas": 2})));
    let next = Snapshot::new(next);
    sql(
        &database,
        "ALTER TABLE items ADD CHECK (payload->'attributes'->>'replicas' <> '2')",
    )
    .await;
    let refused = changes(&sink, &inventory(), T2, &rows, &next).await;
    refused.expect_err("a constraint");
    sql(
        &database,
        "ALTER TABLE items DROP CONSTRAINT items_payload_check",
    )
    .await;
    let (written, removed, bytes) = deliver(&sink, &next).await;
    assert_eq!((written, removed), (1, 0));
    assert!(bytes < whole / 20, "{bytes} of {whole} bytes");
}

/// Uids of all kinds are in the same shard here and there: nothing is deleted that was not sent.
#[tokio::test]
async fn shards_are_the_same_here_and_there() {
    let database = database("shards");
    let sink = sink(&database, json!({}));
    let mut uids: Vec<String> = [
        "",
        "a",
        "F",
        "ü",
        "日本",
        "f\u{301}",
        "0e4c3f0a-4f63-4c5e-9b0e-2b1f0c9d8e7f",
        "x ",
        "\u{1f600}a",
        "a\u{1f600}",
        "%",
        "nul\0",
        "0",
        "00",
        "g0",
        "0g",
    ]
    .map(str::to_owned)
    .to_vec();
    uids.extend((0..64).map(|n| format!("uid-{n:x}")));
    let items: Vec<Value> = uids.iter().map(|uid| deployment(uid, &json!({}))).collect();
    let rows = Items::default().snapshot(&items);
    deliver(&sink, &rows).await;
    let count = rows.len().to_string();
    for uid in &uids {
        let uid = uid.replace('\0', "\u{fffd}");
        sql(
            &database,
            &format!("UPDATE items SET payload = '{{}}' WHERE source_uid = '{uid}'"),
        )
        .await;
        let (written, removed, _) = deliver(&sink, &rows).await;
        assert_eq!((written, removed), (1, 0), "{uid:?}");
        assert_eq!(
            sql(&database, "SELECT count(*) FROM items").await,
            [&*count]
        );
    }
}

/// Digests say nothing of rows that are not known: those are never taken for confirmed.
#[tokio::test]
async fn held_rows_are_not_confirmed() {
    let database = database("held-rest");
    let sink = sink(&database, json!({}));
    deliver(&sink, &deployments(100, 1)).await;
    let held = deployments(40, 1).holding(vec![HeldRows::of_target("deployments")]);
    assert_eq!(deliver(&sink, &held).await.1, 0, "nothing goes");
    assert!(!confirmed(&sink).await);
    assert_eq!(deliver(&sink, &deployments(40, 1)).await.1, 60);
    assert!(confirmed(&sink).await);
}

/// Whoever wants every pass to rewrite all rows gets that.
#[tokio::test]
async fn rows_that_are_rewritten_are_not_confirmed() {
    let database = database("rewritten");
    let sink = sink(&database, json!({"options": {"refreshExportedAt": "true"}}));
    deliver(&sink, &deployments(100, 1)).await;
    assert!(!sink.confirms());
    assert_eq!(deliver(&sink, &deployments(100, 1)).await.0, 100);
}

/// The sizes of the contract: 100,000 rows at rest cost no more than 64 KiB on the wire.
#[tokio::test]
async fn a_hundred_thousand_rows_at_rest_cost_a_few_bytes() {
    let database = database("wire");
    let port = Postgres::shared().expect("a server").port();
    let proxy = Proxy::to(("127.0.0.1", port)).expect("a wire");
    let url = database.url(Tls::Off);
    let url = url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    let sink = super::server::sink_at(&url, json!({})).expect("a sink");
    let rows = deployments(100_000, 1);
    deliver(&sink, &rows).await;
    let mut next = rows.rows().to_vec();
    next[7] = Items::default().row(&deployment("uid-000007", &json!({"replicas": 2})));
    let next = Snapshot::new(next);
    for changed in [false, true] {
        if changed {
            changes(&sink, &inventory(), T1, &rows, &next)
                .await
                .expect("a change");
        }
        for _ in 0..2 {
            let before = proxy.carried();
            assert!(confirmed(&sink).await);
            let used = proxy.carried() - before;
            assert!(used < 64 << 10, "{used} bytes, changed: {changed}");
        }
    }
    // All rows in hand, as after a failure: still nothing is sent but the question.
    let before = proxy.carried();
    assert_eq!(deliver(&sink, &next).await, (0, 0, 0));
    let used = proxy.carried() - before;
    assert!(used < 64 << 10, "{used} bytes");
}
