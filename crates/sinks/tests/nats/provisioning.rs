//! Streams: created, checked, never changed.

use std::sync::Arc;

use kollect_inventory::Snapshot;
use kollect_sinks::{ReadBack, Sink, SinkError, conformance::rows::Rows};
use kollect_testkit::names::unique;
use serde_json::{Value, json};

use super::stage::{Place, blocking, everything, reader};

async fn create(config: Value) {
    blocking(move || reader().create(&config))
        .await
        .expect("a stream");
}

async fn terminal(sink: &Arc<dyn Sink>, parts: &[&str]) {
    let rows = Rows::new().deployments(1, 1);
    let error = everything(sink, &rows).await.expect_err("it cannot work");
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    for part in parts {
        assert!(error.message().contains(part), "{error}");
    }
    let probed = sink.probe().await;
    assert!(matches!(probed, Err(SinkError::Terminal(_))), "{probed:?}");
}

/// E27: a missing stream is created, with its subjects and what deletes need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_stream_is_created() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    let said = sink.probe().await.expect("a probe");
    assert!(said.contains("will be created"), "{said}");
    assert_eq!(place.info().await, Value::Null, "a probe creates nothing");
    everything(&sink, &Snapshot::default())
        .await
        .expect("no rows");
    let config = place.info().await["config"].clone();
    let subject = &place.subject;
    assert_eq!(config["subjects"], json!([subject, format!("{subject}.>")]));
    assert_eq!(config["storage"], "file");
    assert_eq!(config["max_msgs_per_subject"], 16);
    for flag in ["allow_direct", "allow_msg_ttl", "allow_rollup_hdrs"] {
        assert_eq!(config[flag], true, "{flag}");
    }
    let said = sink.probe().await.expect("a probe");
    assert!(said.contains(&place.stream), "{said}");
}

/// 07-W8: what an administrator set stays, also when it could be better.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_there_is_not_changed() {
    let place = Place::new().await;
    let config = json!({
        "name": place.stream, "subjects": ["other.thing", format!("{}.>", place.subject)],
        "storage": "memory", "retention": "limits", "max_age": 3_600_000_000_000_i64,
        "max_msgs_per_subject": 3, "discard": "old",
    });
    let config = match config {
        Value::Object(mut map) => {
            map["subjects"][0] = unique("other").into();
            Value::Object(map)
        }
        _ => unreachable!(),
    };
    create(config).await;
    let before = place.info().await["config"].clone();
    let sink = place.sink(json!({})).await;
    let mut rows = Rows::new();
    let two = rows.deployments(2, 1);
    everything(&sink, &two).await.expect("all rows");
    // No deletes that go by themselves, but deletes.
    everything(&sink, &rows.deployments(1, 1))
        .await
        .expect("one less");
    let newest = place.messages(true).await;
    let gone = newest.iter().find(|m| m["body"]["event"] == "delete");
    assert!(gone.expect("a delete")["headers"]["Nats-TTL"].is_null());
    assert_eq!(place.info().await["config"], before);
}

/// `provisioning.mode: existing` creates nothing and says what is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn existing_means_existing() {
    let place = Place::new().await;
    let sink = place
        .sink(json!({"provisioning": {"mode": "existing"}}))
        .await;
    terminal(&sink, &[&place.stream, &format!("{}.>", place.subject)]).await;
    assert_eq!(place.info().await, Value::Null);
}

/// A stream that was named and has other subjects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_stream_has_to_have_the_subject() {
    let place = Place::new().await;
    create(json!({"name": place.stream, "subjects": [place.subject], "storage": "memory"})).await;
    let sink = place.sink(json!({})).await;
    terminal(&sink, &[&place.stream, &format!("{}.>", place.subject)]).await;
}

/// E28: the subject belongs to another stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_belongs_to_one_stream() {
    let place = Place::new().await;
    let owner = unique("owner");
    let subjects = json!([format!("{}.>", place.subject)]);
    create(json!({"name": owner, "subjects": subjects, "storage": "memory"})).await;
    let sink = place.sink(json!({})).await;
    let rows = Rows::new().deployments(1, 1);
    let error = everything(&sink, &rows).await.expect_err("it cannot work");
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    assert!(
        error.message().starts_with("nats create stream: "),
        "{error}"
    );
    assert!(error.message().contains(&owner), "{error}");
}

/// The usual stream is somebody else's: the sink has one of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_stream_may_be_taken() {
    let first = Place::new().await;
    let second = Place::new().await;
    let mut streams = Vec::new();
    for place in [&first, &second] {
        let sink = place.sink(json!({"nats": {"stream": null}})).await;
        let rows = Rows::new().deployments(2, 1);
        everything(&sink, &rows).await.expect("all rows");
        let subject = place.subject.replace('.', "_");
        let own = format!("kollect_events_{subject}");
        let pattern = format!("{}.>", place.subject);
        for stream in ["kollect_events".to_owned(), own] {
            let (name, pattern) = (stream.clone(), pattern.clone());
            let found = blocking(move || reader().newest(&name, &pattern)).await;
            if found.is_ok_and(|found| found.len() == 2) {
                streams.push(stream);
            }
        }
    }
    assert_eq!(streams.len(), 2);
    assert_ne!(streams[0], streams[1]);
}

/// A work queue has no readers like ours: all rows are published, and it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_work_queue_cannot_be_read_back() {
    let place = Place::new().await;
    let subjects = json!([format!("{}.>", place.subject)]);
    create(json!({
        "name": place.stream, "subjects": subjects, "storage": "memory", "retention": "workqueue",
    }))
    .await;
    let sink = place.sink(json!({})).await;
    let rows = Rows::new().deployments(2, 1);
    let receipt = everything(&sink, &rows).await.expect("a replay");
    assert_eq!(receipt.written, 2);
    let told = matches!(receipt.read_back, Some(ReadBack::Replayed(_)));
    assert!(told, "{receipt:?}");
}
