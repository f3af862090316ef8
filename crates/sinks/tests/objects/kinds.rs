//! What all kinds of object stores have to do alike, beyond the suite.

use std::sync::Arc;

use kollect_sinks::{Sink, SinkError};
use kollect_testkit::Proxy;
use serde_json::{Value, json};

use crate::{
    places::{ALL, Kind, Place},
    stage::{delivery, rows},
};

const AT: &str = "2026-08-01T12:00:00Z";
const LATER: &str = "2026-08-02T12:00:00Z";
const KEY: &str = "pre/fix/inventory/team-a/web.json";

fn some() -> kollect_inventory::Snapshot {
    rows(&[
        (
            "Deployment",
            "team-a",
            "api",
            json!({"image": "nginx:1.27", "replicas": 3}),
        ),
        ("ConfigMap", "team-a", "cfg", json!({"ok": true})),
    ])
}

async fn sink(place: &Place, extra: Value) -> Arc<dyn Sink> {
    let sketch = place.sketch(place.port(), extra);
    sketch.open().await.expect("a sink")
}

/// An equal document is not written again, whoever asks; a strange one is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn equal_content_is_not_written_again() {
    for kind in ALL {
        let place = Place::new(kind, "equal").await;
        let first = sink(&place, json!({})).await;
        first.deliver(&delivery(some(), AT)).await.unwrap();
        let before = place.marks().await;
        let again = sink(&place, json!({})).await;
        let receipt = again.deliver(&delivery(some(), LATER)).await.unwrap();
        assert_eq!((receipt.written, receipt.bytes), (0, 0), "{kind:?}");
        assert_eq!(place.marks().await, before, "{kind:?}");
        place.write(KEY, json!("mine")).await;
        let receipt = again.deliver(&delivery(some(), LATER)).await.unwrap();
        assert!(receipt.written > 0, "{kind:?}");
        let text = String::from_utf8(place.read(KEY).await.unwrap()).unwrap();
        assert!(text.contains("nginx:1.27"), "{kind:?}");
    }
}

/// Many bytes go in parts, become visible together, and replace what was there.
#[tokio::test(flavor = "multi_thread")]
async fn large_documents_arrive_whole() {
    let filler = "x".repeat(1000);
    let names: Vec<String> = (0..20_000).map(|n| format!("cm-{n:05}")).collect();
    let lines: Vec<_> = names
        .iter()
        .map(|name| ("ConfigMap", "team-a", &**name, json!({"filler": filler})))
        .collect();
    let (all, fewer) = (rows(&lines), rows(&lines[1..]));
    for kind in [Kind::Gcs, Kind::AzureKey, Kind::AzureSignature] {
        let place = Place::new(kind, "large").await;
        let sink = sink(&place, json!({})).await;
        let receipt = sink.deliver(&delivery(all.clone(), AT)).await.unwrap();
        assert!(receipt.bytes > 2 * (8 << 20), "{kind:?}: {receipt:?}");
        let document: Value = serde_json::from_slice(&place.read(KEY).await.unwrap()).unwrap();
        assert_eq!(document["items"].as_array().unwrap().len(), 20_000);
        let fewer = delivery(fewer.clone(), LATER);
        assert!(sink.deliver(&fewer).await.unwrap().bytes > 0, "{kind:?}");
        assert_eq!(sink.deliver(&fewer).await.unwrap().bytes, 0, "{kind:?}");
        let document: Value = serde_json::from_slice(&place.read(KEY).await.unwrap()).unwrap();
        assert_eq!(document["items"].as_array().unwrap().len(), 19_999);
    }
}

/// A probe leaves nothing, and says who may not write, and which bucket is not there.
#[tokio::test(flavor = "multi_thread")]
async fn probes_leave_nothing() {
    for kind in ALL {
        let place = Place::new(kind, "probe").await;
        let mut sketch = place.sketch(place.port(), json!({}));
        let text = sketch.open().await.unwrap().probe().await.unwrap();
        assert!(
            text.ends_with("can be listed and written"),
            "{kind:?}: {text}"
        );
        assert!(place.marks().await.is_empty(), "{kind:?}");
        if place.reader(&mut sketch) {
            let sink = sketch.open().await.unwrap();
            for result in [
                sink.probe().await.map(|_| ()),
                sink.deliver(&delivery(some(), AT)).await.map(|_| ()),
            ] {
                let denied = matches!(result, Err(SinkError::Forbidden(_)));
                assert!(denied, "{kind:?}: {result:?}");
            }
            assert!(place.marks().await.is_empty(), "{kind:?}");
        }
        let absent = place.sketch_of("absent-bucket", place.port(), json!({}));
        let sink = absent.open().await.unwrap();
        for result in [
            sink.probe().await.map(|_| ()),
            sink.deliver(&delivery(some(), AT)).await.map(|_| ()),
        ] {
            let named = matches!(&result, Err(SinkError::Terminal(text)) if text.contains("\"absent-bucket\""));
            assert!(named, "{kind:?}: {result:?}");
        }
    }
}

/// Two that write at the same time: one is told to look again, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_writers_one_looks_again() {
    for kind in ALL {
        let place = Place::new(kind, "two").await;
        let (one, other) = (sink(&place, json!({})).await, sink(&place, json!({})).await);
        let of = |replicas: u32| {
            let line = ("Deployment", "team-a", "api", json!({"replicas": replicas}));
            delivery(rows(&[line]), AT)
        };
        for round in 0..8 {
            let (left, right) = (of(2 * round), of(2 * round + 1));
            let (first, second) = tokio::join!(one.deliver(&left), other.deliver(&right));
            for result in [&first, &second] {
                let fine = matches!(result, Ok(_) | Err(SinkError::Transient(_)));
                assert!(fine, "{kind:?}: {result:?}");
            }
            assert!(
                first.is_ok() || second.is_ok(),
                "{kind:?}: {first:?} {second:?}"
            );
        }
        one.deliver(&of(100)).await.unwrap();
        let document: Value = serde_json::from_slice(&place.read(KEY).await.unwrap()).unwrap();
        assert_eq!(document["items"][0]["attributes"]["replicas"], 100);
    }
}

/// A token that is taken back is replaced without a word; a Secret that changes is a new sink.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_replaced() {
    let place = Place::new(Kind::Gcs, "tokens").await;
    let sink = sink(&place, json!({})).await;
    sink.deliver(&delivery(some(), AT)).await.unwrap();
    assert_eq!(place.cloud().asked().len(), 1);
    place.cloud().revoke();
    sink.deliver(&delivery(rows(&[]), LATER)).await.unwrap();
    assert_eq!(place.cloud().asked().len(), 2);
    let asked = &place.cloud().asked()[0];
    assert!(asked.line.starts_with("POST /token"), "{asked:?}");
    place.cloud().revoke();
    place.cloud().refuse(true);
    let failed = sink.deliver(&delivery(some(), LATER)).await;
    assert!(matches!(failed, Err(SinkError::Terminal(_))), "{failed:?}");
}

/// Keys of Google for the protocol of S3 go that way.
#[tokio::test(flavor = "multi_thread")]
async fn hmac_keys_of_google_speak_s3() {
    let place = Place::new(Kind::S3, "hmac").await;
    let mut sketch = place.sketch(place.port(), json!({}));
    sketch.spec["type"] = json!("gcs");
    let sink = sketch.open().await.unwrap();
    sink.deliver(&delivery(some(), AT)).await.unwrap();
    assert!(place.read(KEY).await.is_some());
}

/// A wire that breaks in the middle of an upload leaves what was there.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_upload_changes_nothing() {
    let filler = "x".repeat(1000);
    let names: Vec<String> = (0..20_000).map(|n| format!("cm-{n:05}")).collect();
    let lines: Vec<_> = names
        .iter()
        .map(|name| ("ConfigMap", "team-a", &**name, json!({"filler": filler})))
        .collect();
    let many = rows(&lines);
    for kind in [Kind::Gcs, Kind::AzureKey] {
        let place = Place::new(kind, "broken").await;
        let proxy = Arc::new(Proxy::to(("127.0.0.1", place.port())).unwrap());
        let sketch = place.sketch(proxy.port(), json!({}));
        let sink = sketch.open().await.unwrap();
        sink.deliver(&delivery(some(), AT)).await.unwrap();
        let before = place.read(KEY).await;
        proxy.throttle(Some(4 << 20));
        let large = delivery(many.clone(), LATER);
        let cutting = async {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            proxy.refuse();
        };
        let (failed, ()) = tokio::join!(sink.deliver(&large), cutting);
        assert!(failed.is_err(), "{kind:?}");
        assert_eq!(place.read(KEY).await, before, "{kind:?}");
        proxy.throttle(None);
        proxy.accept().unwrap();
        sink.deliver(&large).await.unwrap();
        assert_ne!(place.read(KEY).await, before, "{kind:?}");
    }
}
