//! What S3 holds after deliveries, and what it does not.

use kollect_sinks::{DeliveryRows, SinkError};
use kollect_testkit::{S3, s3::READER_KEY};
use serde_json::{Value, json};

use crate::stage::{Sketch, blocking, bucket, delivery, objects, rows};

const AT: &str = "2026-08-01T12:00:00Z";
const LATER: &str = "2026-08-02T12:00:00Z";

fn some() -> kollect_inventory::Snapshot {
    rows(&[
        (
            "Deployment",
            "team-a",
            "api",
            json!({"image": "nginx:1.27", "replicas": 3}),
        ),
        (
            "ConfigMap",
            "team-a",
            "cfg",
            json!({"keys": ["a", "b"], "ok": true}),
        ),
    ])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// S33, S34, V43, V45 and the formats of L8.
#[tokio::test(flavor = "multi_thread")]
async fn formats_have_their_keys() {
    for (extra, key, beginning) in [
        (
            json!({}),
            "inventory/team-a/web.json",
            "{\"schemaVersion\":",
        ),
        (
            json!({"pathTemplate": "{cluster}/{namespace}/{name}{extension}", "cluster": "prod-west"}),
            "prod-west/team-a/web.json",
            "{\"schemaVersion\":",
        ),
        (
            json!({"serialization": {"format": "ndjson"}}),
            "inventory/team-a/web.ndjson",
            "{\"targetNamespace\":\"team-a\"",
        ),
        (
            json!({"serialization": {"format": "csv"}}),
            "inventory/team-a/web.csv",
            "api_version,attr_image,attr_version,attributes,cluster,",
        ),
        (
            json!({"objectStore": {"partitioning": "current"}, "cluster": "lab"}),
            "inventory/cluster_name=lab/inventory=team-a.web/part-0001.json",
            "{\"schemaVersion\":",
        ),
    ] {
        let (bucket, port) = bucket("formats").await;
        let sink = Sketch::s3(&bucket, port, extra.clone())
            .open()
            .await
            .unwrap();
        let receipt = sink.deliver(&delivery(some(), AT)).await.unwrap();
        assert!(receipt.written >= 2 && receipt.bytes > 0, "{receipt:?}");
        let found = objects(&bucket).await;
        let found = found
            .get(key)
            .unwrap_or_else(|| panic!("{extra}: {:?}", found.keys()));
        assert!(text(found).starts_with(beginning), "{}", text(found));
    }
}

/// A document says what it holds, so an equal one is not written again, whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn equal_content_is_not_written_again() {
    let (bucket, port) = bucket("equal").await;
    let sketch = Sketch::s3(&bucket, port, json!({"serialization": {"format": "csv"}}));
    let marks = || {
        let bucket = bucket.clone();
        blocking(move || bucket.objects().unwrap())
    };
    sketch
        .open()
        .await
        .unwrap()
        .deliver(&delivery(some(), AT))
        .await
        .unwrap();
    let before = marks().await;
    let again = sketch.open().await.unwrap();
    let receipt = again.deliver(&delivery(some(), LATER)).await.unwrap();
    assert_eq!((receipt.written, receipt.bytes), (0, 0));
    assert_eq!(marks().await, before);
    // Somebody puts something else there; it says nothing about itself, so it is replaced.
    let (other, key) = (bucket.clone(), "pre/fix/inventory/team-a/web.csv");
    blocking(move || other.write(key, &json!("mine")).unwrap()).await;
    let receipt = again.deliver(&delivery(some(), LATER)).await.unwrap();
    assert!(receipt.written > 0);
    assert!(text(&objects(&bucket).await["inventory/team-a/web.csv"]).contains("nginx:1.27"));
}

/// What an inventory no longer needs goes, and nothing else does.
#[tokio::test(flavor = "multi_thread")]
async fn parts_go_and_strangers_stay() {
    let (bucket, port) = bucket("parts").await;
    let extra = json!({"cluster": "lab"});
    let sink = Sketch::s3(&bucket, port, extra).open().await.unwrap();
    let stranger = bucket.clone();
    let key = "pre/fix/inventory/team-a/web.part-0009-of-0009.json";
    blocking(move || stranger.write(key, &json!("mine")).unwrap()).await;
    let filler = "x".repeat(1000);
    let large = rows(&[
        ("ConfigMap", "team-a", "one", json!({"filler": filler})),
        ("ConfigMap", "team-a", "two", json!({"filler": filler})),
    ]);
    let mut cut = delivery(large, AT);
    cut.documents.max_bytes = std::num::NonZeroU64::new(2000);
    sink.deliver(&cut).await.unwrap();
    let keys: Vec<String> = objects(&bucket).await.into_keys().collect();
    assert_eq!(
        keys,
        [
            "inventory/team-a/web.manifest.json",
            "inventory/team-a/web.part-0001-of-0002.json",
            "inventory/team-a/web.part-0002-of-0002.json",
            "inventory/team-a/web.part-0009-of-0009.json",
        ]
    );
    sink.deliver(&delivery(some(), LATER)).await.unwrap();
    let keys: Vec<String> = objects(&bucket).await.into_keys().collect();
    assert_eq!(
        keys,
        [
            "inventory/team-a/web.json",
            "inventory/team-a/web.part-0009-of-0009.json"
        ]
    );
    sink.retire(&delivery(some(), AT).inventory).await.unwrap();
    let left = blocking(move || bucket.objects().unwrap()).await;
    assert_eq!(left.keys().collect::<Vec<_>>(), [key]);
}

/// L3, L4, L9: days stay, and go when they are too old.
#[tokio::test(flavor = "multi_thread")]
async fn days_are_kept_as_long_as_asked() {
    let (bucket, port) = bucket("dated").await;
    let extra = json!({"cluster": "lab", "objectStore": {"partitioning": "dated", "keepDays": 2}});
    let sink = Sketch::s3(&bucket, port, extra).open().await.unwrap();
    let days = ["2026-11-14", "2026-11-15", "2026-11-16"];
    for day in days {
        let at = format!("{day}T10:00:00Z");
        sink.deliver(&delivery(some(), &at)).await.unwrap();
        sink.deliver(&delivery(some(), &at.replace("T10", "T22")))
            .await
            .unwrap();
    }
    let file = |day: &str, name: &str| {
        format!("inventory/snapshot_date={day}/cluster_name=lab/inventory=team-a.web/{name}")
    };
    let expected: Vec<String> = days[1..]
        .iter()
        .flat_map(|day| [file(day, "latest.json"), file(day, "part-0001.json")])
        .collect();
    let found = objects(&bucket).await;
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), expected);
    let latest: Value = serde_json::from_slice(&found[&expected[0]]).unwrap();
    assert_eq!(latest["rows"], 2);
    assert_eq!(
        latest["inventory"],
        json!({"scope": "Namespaced", "namespace": "team-a", "name": "web"})
    );
    assert_eq!(latest["exportedAt"], "2026-11-15T10:00:00Z");
    let listed = &latest["files"][0];
    assert_eq!(listed["path"], "part-0001.json");
    assert_eq!(listed["bytes"], found[&expected[1]].len());
    assert_eq!(listed["sha256"].as_str().unwrap().len(), 64);
    assert!(listed["etag"].is_string());
    // A history stays when its inventory goes.
    sink.retire(&delivery(some(), AT).inventory).await.unwrap();
    assert_eq!(objects(&bucket).await.len(), 4);
}

/// Many rows go in parts, which become visible together, and leave nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn large_documents_arrive_whole() {
    let (bucket, port) = bucket("large").await;
    let sink = Sketch::s3(&bucket, port, json!({})).open().await.unwrap();
    let filler = "x".repeat(1000);
    let names: Vec<String> = (0..20_000).map(|n| format!("cm-{n:05}")).collect();
    let lines: Vec<_> = names
        .iter()
        .map(|name| ("ConfigMap", "team-a", &**name, json!({"filler": filler})))
        .collect();
    let receipt = sink.deliver(&delivery(rows(&lines), AT)).await.unwrap();
    assert!(receipt.bytes > 2 * (8 << 20), "{receipt:?}");
    let found = objects(&bucket).await;
    let document: Value = serde_json::from_slice(&found["inventory/team-a/web.json"]).unwrap();
    assert_eq!(document["items"].as_array().unwrap().len(), 20_000);
    // Replacing it is conditional as well.
    let fewer = delivery(rows(&lines[1..]), LATER);
    assert!(sink.deliver(&fewer).await.unwrap().bytes > 0);
    assert_eq!(sink.deliver(&fewer).await.unwrap().bytes, 0);
    assert_eq!(
        blocking(move || bucket.uploads().unwrap()).await,
        Vec::<String>::new()
    );
}

/// Two operators with two clusters share a bucket; the second to want a place is refused.
#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_never_touch_each_other() {
    let (bucket, port) = bucket("two").await;
    let of = |cluster: &str| Sketch::s3(&bucket, port, json!({"cluster": cluster}));
    let (east, west) = (
        of("east").open().await.unwrap(),
        of("west").open().await.unwrap(),
    );
    east.deliver(&delivery(some(), AT)).await.unwrap();
    let refused = west.deliver(&delivery(rows(&[]), AT)).await;
    assert!(
        matches!(&refused, Err(SinkError::Terminal(text)) if text.contains("belongs to another")),
        "{refused:?}"
    );
    west.retire(&delivery(some(), AT).inventory).await.unwrap();
    assert!(text(&objects(&bucket).await["inventory/team-a/web.json"]).contains("nginx:1.27"));
}

/// One who may read and not write is told so, and leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_told_that_it_may_not_write() {
    let (bucket, port) = bucket("reader").await;
    let mut sketch = Sketch::s3(&bucket, port, json!({}));
    let text = sketch.open().await.unwrap().probe().await.unwrap();
    assert!(text.contains("can be listed and written"), "{text}");
    sketch.secret[0].1 = READER_KEY.to_owned();
    let sink = sketch.open().await.unwrap();
    for result in [
        sink.probe().await.map(|_| ()),
        sink.deliver(&delivery(some(), AT)).await.map(|_| ()),
    ] {
        assert!(matches!(result, Err(SinkError::Forbidden(_))), "{result:?}");
    }
    assert!(blocking(move || bucket.objects().unwrap()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bucket_is_named() {
    let port = blocking(|| S3::shared().unwrap().port()).await;
    let (bucket, _) = bucket("present").await;
    let mut sketch = Sketch::s3(&bucket, port, json!({}));
    sketch.spec["endpoint"] = json!(format!("http://127.0.0.1:{port}/absent-bucket"));
    let sink = sketch.open().await.unwrap();
    for result in [
        sink.probe().await.map(|_| ()),
        sink.deliver(&delivery(some(), AT)).await.map(|_| ()),
    ] {
        assert!(
            matches!(&result, Err(SinkError::Terminal(text)) if text.contains("\"absent-bucket\"")),
            "{result:?}"
        );
    }
}

/// Changes are for others.
#[tokio::test(flavor = "multi_thread")]
async fn changes_are_not_taken() {
    let (bucket, port) = bucket("changes").await;
    let sink = Sketch::s3(&bucket, port, json!({})).open().await.unwrap();
    let mut changes = delivery(some(), AT);
    changes.rows = DeliveryRows::Changes(std::sync::Arc::default());
    let refused = sink.deliver(&changes).await;
    assert!(
        matches!(refused, Err(SinkError::OutOfStep(_))),
        "{refused:?}"
    );
}
