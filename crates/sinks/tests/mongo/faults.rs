//! A server that dies in the middle, again and again; and the reader who shares no code with us.

use std::{sync::Arc, time::Duration};

use kollect_inventory::Snapshot;
use kollect_sinks::{Sink, SinkError};
use kollect_testkit::Mongo;
use serde_json::{Value, json};

use super::{
    items::{Items, deployment, deployments},
    server::{Stage, T1, T2, T3, changes, everything, inventory},
};

/// How often a server is killed. `cargo xtask soak` asks for more.
fn kills() -> u64 {
    let asked = std::env::var("KOLLECT_SERVER_KILLS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// Delivers until it is accepted; what may heal is tried again.
pub(crate) async fn until_accepted(sink: &dyn Sink, rows: &Snapshot) {
    for _ in 0..60 {
        match everything(sink, &inventory(), T2, rows).await {
            Ok(_) => return,
            Err(SinkError::Transient(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(other) => panic!("a failure that heals became one that does not: {other}"),
        }
    }
    panic!("no delivery was accepted");
}

/// What a reader finds: uid and replicas.
pub(crate) async fn found(stage: &Stage) -> Vec<(String, i64)> {
    let documents = stage.documents().await;
    let mut found: Vec<(String, i64)> = documents
        .iter()
        .map(|document| {
            let payload = document.get_document("payload").expect("a payload");
            let attributes = payload.get_document("attributes").expect("attributes");
            let replicas = attributes.get_i32("replicas").expect("a number");
            let uid = document.get_str("source_uid").expect("a uid");
            (uid.to_owned(), replicas.into())
        })
        .collect();
    found.sort();
    found
}

pub(crate) fn expected(rows: usize, replicas: i64) -> Vec<(String, i64)> {
    (0..rows)
        .map(|number| (format!("uid-{number:06}"), replicas))
        .collect()
}

/// Killed in the middle of deliveries: what was acknowledged is there afterwards, and the next
/// delivery puts right what was not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_killed_in_the_middle_of_deliveries() {
    let mut server = tokio::task::spawn_blocking(|| Mongo::start().expect("a server"))
        .await
        .expect("a server");
    let stage = Stage::on(&server).await;
    let uri = format!("{}&serverSelectionTimeoutMS=3000", stage.uri);
    let sink = Arc::new(stage.sink_at(&uri, json!({})).expect("a sink"));
    everything(&*sink, &inventory(), T1, &deployments(1_500, 0))
        .await
        .expect("delivered");
    for kill in 1..=kills() {
        let rows = if kill % 2 == 0 { 1_500 } else { 2_500 };
        let next = deployments(rows, kill);
        let delivering = {
            let (sink, next) = (Arc::clone(&sink), next.clone());
            tokio::spawn(async move { everything(&*sink, &inventory(), T2, &next).await })
        };
        tokio::time::sleep(Duration::from_millis(kill * 23 % 120)).await;
        tokio::task::block_in_place(|| server.members()[0].server.kill().expect("killed"));
        let outcome = delivering.await.expect("no panic");
        if let Err(error) = &outcome {
            assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
        }
        tokio::task::block_in_place(|| server.resume().expect("back"));
        let replicas = i64::try_from(kill).expect("small");
        if outcome.is_ok() {
            assert_eq!(found(&stage).await, expected(rows, replicas), "kill {kill}");
            // M6: the server is another process now.
            let refused = changes(&*sink, &inventory(), T3, &next, &Snapshot::default()).await;
            let refused = refused.expect_err("not trusted before a full delivery");
            let told = matches!(refused, SinkError::OutOfStep(_) | SinkError::Transient(_));
            assert!(told, "{refused:?}");
        }
        until_accepted(&*sink, &next).await;
        assert_eq!(
            found(&stage).await,
            expected(rows, replicas),
            "after kill {kill}"
        );
    }
    drop(sink);
    drop(stage);
    tokio::task::spawn_blocking(move || drop(server))
        .await
        .expect("stopped");
}

/// Read by another library in another language: types, names, values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_library_reads_the_rows() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let attributes = json!({
        "image": "registry.example/app:1.2", "replicas": 3, "big": 9_007_199_254_740_993_u64,
        "huge": u64::MAX, "ratio": 0.1, "ready": true, "none": null,
        "labels": {"app.kubernetes.io/name": "api", "$dollar": "x"}, "ports": [80, 443],
    });
    let rows = Items::default().snapshot([&deployment("uid-1", &attributes)]);
    everything(&sink, &inventory(), T1, &rows)
        .await
        .expect("delivered");
    let script = "
rows = list(client[sys.argv[1]].items.find({'payload.attributes.image': 'registry.example/app:1.2'}))
row = rows[0]
a = row['payload']['attributes']
print(json.dumps({
    'rows': len(rows), 'keys': sorted(row), 'labels': a['labels'],
    'types': {k: type(v).__name__ for k, v in a.items()},
    'big': str(a['big']), 'huge': str(a['huge']), 'exported_at': row['exported_at'].isoformat(),
}))";
    let database = stage.user.database.clone();
    let printed = tokio::task::spawn_blocking(move || {
        Mongo::shared()
            .expect("a server")
            .script(script, &[&database])
    });
    let printed = printed.await.expect("a reader").expect("a reader");
    let found: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(
        found,
        json!({
            "rows": 1,
            "keys": ["_id", "cluster", "content_hash", "exported_at", "inventory_name",
                "inventory_namespace", "payload", "resource_namespace", "source_uid", "target_name"],
            "labels": {"app.kubernetes.io/name": "api", "$dollar": "x"},
            "types": {"image": "str", "replicas": "int", "big": "Int64", "huge": "Decimal128",
                "ratio": "float", "ready": "bool", "none": "NoneType", "labels": "dict", "ports": "list"},
            "big": "9007199254740993", "huge": "18446744073709551615",
            "exported_at": "2026-01-15T12:00:01",
        })
    );
}
