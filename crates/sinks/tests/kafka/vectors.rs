//! The vectors C1–C19 of change events, read by another client.

use std::{fmt::Write as _, io::Write as _, sync::Arc, time::Duration};

use kollect_api::InventoryId;
use kollect_inventory::{Row, Snapshot};
use kollect_sinks::{
    DeliveryRows, ReadBack, Sink, SinkError, Why,
    conformance::rows::{Rows, item},
};
use kollect_testkit::{Kafka, kafka::USER, names::unique, python};
use serde_json::{Value, json};

use super::{
    broker::{all, changes, delivery, eventually, inventory, kafka, open, sink},
    reader::{Record, ask, ask_at, ends, newest, records},
};

/// Events with the names of their objects, in the order of partitions; sorted, since rows of one
/// delivery go to several.
fn story(records: &[Record]) -> Vec<(&str, &str)> {
    let mut story: Vec<_> = records
        .iter()
        .map(|record| (record.name(), record.event()))
        .collect();
    story.sort_by_key(|(name, _)| *name);
    story
}

/// The records that a topic has now and had not before.
async fn since(topic: &str, before: &mut Vec<Record>) -> Vec<Record> {
    let now = records(topic).await;
    let news = now
        .iter()
        .filter(|record| !before.contains(record))
        .cloned()
        .collect();
    *before = now;
    news
}

fn rows<const N: usize>(rows: [Row; N]) -> Snapshot {
    Snapshot::new(rows)
}

/// The items of a topic, sorted.
async fn items(topic: &str) -> Vec<String> {
    let mut items: Vec<_> = newest(topic)
        .await
        .iter()
        .filter(|body| body["event"] == "upsert")
        .map(|body| body["item"].to_string())
        .collect();
    items.sort();
    items
}

fn expected(rows: &Snapshot) -> Vec<String> {
    let mut items: Vec<_> = rows
        .rows()
        .iter()
        .map(|row| item(row).to_string())
        .collect();
    items.sort();
    items
}

#[tokio::test]
async fn c1_to_c6_one_record_per_change_and_none_per_restart() {
    let mut make = Rows::new();
    let topic = unique("c1");
    let first = sink(&topic, json!({})).await;
    let (a, b) = (make.deployment("a", 1), make.deployment("b", 1));
    let one = rows([a, b.clone()]);
    let receipt = all(&first, &one).await.unwrap();
    assert_eq!(receipt.read_back, Some(ReadBack::Compared));
    assert_eq!((receipt.written, receipt.removed), (2, 0));
    let mut seen = Vec::new();
    let news = since(&topic, &mut seen).await;
    assert_eq!(story(&news), [("a", "upsert"), ("b", "upsert")], "C1");
    let body = news[0].value.as_ref().unwrap();
    let keys: Vec<_> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 8, "{keys:?}");
    assert_eq!(news[0].headers["Kollect-Event"], "upsert");
    assert_eq!(
        news[0].headers["ce_source"],
        "/kollect/prod-west/team-a/team-inventory"
    );

    let a = make.deployment("a", 2);
    let two = rows([a.clone(), b]);
    changes(&first, &one, &two).await.unwrap();
    assert_eq!(
        story(&since(&topic, &mut seen).await),
        [("a", "upsert")],
        "C2"
    );

    let three = rows([a]);
    changes(&first, &two, &three).await.unwrap();
    let news = since(&topic, &mut seen).await;
    assert_eq!(story(&news), [("b", "delete"), ("b", "tombstone")], "C3");
    assert_eq!(
        news[0].headers, news[1].headers,
        "a tombstone repeats the headers"
    );
    assert_eq!(news[0].partition, news[1].partition);

    let second = sink(&topic, json!({})).await;
    let receipt = all(&second, &three).await.unwrap();
    assert_eq!((receipt.written, receipt.removed), (0, 0));
    assert_eq!(story(&since(&topic, &mut seen).await), [], "C4");

    // Down: a changes, c appears, b is back with another uid.
    let b = make.deployment("b", 7);
    let four = rows([make.deployment("a", 3), b, make.deployment("c", 1)]);
    let third = sink(&topic, json!({})).await;
    all(&third, &four).await.unwrap();
    let upserts = [("a", "upsert"), ("b", "upsert"), ("c", "upsert")];
    assert_eq!(story(&since(&topic, &mut seen).await), upserts, "C5");

    let five = rows([make.deployment("b", 7), make.deployment("c", 1)]);
    let fourth = sink(&topic, json!({})).await;
    let receipt = all(&fourth, &five).await.unwrap();
    assert_eq!((receipt.written, receipt.removed), (0, 1));
    let news = since(&topic, &mut seen).await;
    assert_eq!(story(&news), [("a", "delete"), ("a", "tombstone")], "C6");
    let gone = &news[0].value.as_ref().unwrap()["item"];
    assert_eq!(gone["name"], "a");
    assert_eq!(gone.get("attributes"), None);
    assert_eq!(items(&topic).await, expected(&five));
}

/// Connections end at any moment; afterwards the newest per key is right, and no row was repeated
/// more than once per interruption.
#[tokio::test]
async fn c7_lost_acknowledgements_leave_no_consumer_wrong() {
    let wire = kafka().await.wire().unwrap();
    let mechanism = json!({"kafka": {"saslMechanism": "SCRAM-SHA-512"}});
    let topic = unique("c7");
    let password = kafka().await.password();
    let secret = [("username", USER), ("password", password)];
    let sink = open(&wire.broker(), &topic, mechanism, &secret)
        .await
        .unwrap();
    let mut make = Rows::new();
    all(&sink, &make.deployments(1, 0)).await.unwrap();
    for (round, delay) in [0, 1, 3, 10, 30].into_iter().enumerate() {
        let before = records(&topic).await.len();
        let wanted = make.deployments(400, round as u64 + 1);
        let cut = async {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            wire.proxy.cut();
        };
        let (first, ()) = tokio::join!(all(&sink, &wanted), cut);
        if first.is_err() {
            all(&sink, &wanted).await.unwrap();
        }
        assert_eq!(items(&topic).await, expected(&wanted), "after {delay} ms");
        let published = records(&topic).await.len() - before;
        assert!(published <= 800, "{published} records for 400 rows");
    }
}

/// The broker is killed under churn; what happened meanwhile is there afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c8_an_outage_costs_no_last_state() {
    let start = tokio::task::spawn_blocking(|| Kafka::start().unwrap());
    let mut own = start.await.unwrap();
    let topic = unique("c8");
    let sink = open(&own.plain(), &topic, json!({}), &[]).await.unwrap();
    let mut make = Rows::new();
    let mut held = make.deployments(20, 0);
    all(&sink, &held).await.unwrap();
    let mut in_step = true;
    for replicas in 1..8 {
        match replicas {
            2 => tokio::task::block_in_place(|| own.server().kill().unwrap()),
            5 => tokio::task::block_in_place(|| own.server().resume().unwrap()),
            _ => {}
        }
        let next = make.deployments(20 - replicas, replicas as u64);
        let outcome = if in_step {
            changes(&sink, &held, &next).await
        } else {
            all(&sink, &next).await
        };
        match &outcome {
            Ok(_) => held = next,
            Err(SinkError::Transient(_)) => {}
            Err(other) => panic!("an outage heals by itself: {other:?}"),
        }
        in_step = outcome.is_ok();
        assert!(replicas < 5 || in_step, "the broker is back: {outcome:?}");
    }
    let bodies = ask_at(&own.plain(), json!({"do": "newest", "topic": topic})).await;
    let mut found: Vec<_> = bodies
        .as_array()
        .unwrap()
        .iter()
        .filter(|body| body["event"] == "upsert")
        .map(|body| body["item"].to_string())
        .collect();
    found.sort();
    assert_eq!(found, expected(&held));
}

#[tokio::test]
async fn c9_the_last_state_is_there_even_if_it_was_before() {
    let mut make = Rows::new();
    let topic = unique("c9");
    let sink = sink(&topic, json!({})).await;
    let [a, b] = [1, 2].map(|replicas| rows([make.deployment("x", replicas)]));
    all(&sink, &a).await.unwrap();
    changes(&sink, &a, &b).await.unwrap();
    changes(&sink, &b, &a).await.unwrap();
    assert_eq!(records(&topic).await.len(), 3);
    assert_eq!(items(&topic).await, expected(&a));
}

/// C10, C11, C16: everybody reads back and deletes their own rows only.
#[tokio::test]
async fn c10_c11_c16_inventories_are_told_apart() {
    let mut make = Rows::new();
    let topic = unique("c10");
    let same = make.deployments(3, 1);
    let sinks = [
        sink(&topic, json!({"cluster": "a"})).await,
        sink(&topic, json!({"cluster": "a/b"})).await,
    ];
    let inventories = [
        InventoryId::namespaced("a", "x"),
        InventoryId::namespaced("a", "x-y"),
        InventoryId::namespaced("cluster", "x"),
        InventoryId::cluster("x"),
    ];
    for sink in &sinks {
        for inventory in &inventories {
            let rows = DeliveryRows::All(same.clone());
            let receipt = sink.deliver(&delivery(inventory, rows)).await.unwrap();
            assert_eq!((receipt.written, receipt.removed), (3, 0), "{inventory}");
        }
    }
    let there = sinks.len() * inventories.len() * 3;
    assert_eq!(newest(&topic).await.len(), there, "no key is shared");
    let receipt = sinks[0].retire(&inventories[0]).await.unwrap();
    assert_eq!(receipt.removed, 3);
    let left = newest(&topic).await;
    assert_eq!(left.len(), there - 3);
    let own = |body: &Value| body["cluster"] == "a" && body["namespace"] == "a";
    assert!(
        !left
            .iter()
            .any(|body| own(body) && body["inventory"] == "x")
    );
}

#[tokio::test]
async fn c12_awkward_names_stay_distinct() {
    let mut make = Rows::new();
    let topic = unique("c12");
    let sink = sink(&topic, json!({})).await;
    let long = "n".repeat(253);
    let names = [
        "a.b",
        "a:b",
        "a/b",
        "a%2Fb",
        "A.B",
        "system:node",
        "ü\n\"x",
        &long,
    ];
    let rows: Snapshot = names.iter().map(|name| make.deployment(name, 1)).collect();
    all(&sink, &rows).await.unwrap();
    assert_eq!(items(&topic).await, expected(&rows));
    let restarted = super::broker::sink(&topic, json!({})).await;
    assert_eq!(all(&restarted, &rows).await.unwrap().written, 0);
    all(&restarted, &Snapshot::default()).await.unwrap();
    assert_eq!(items(&topic).await, Vec::<String>::new());
}

#[tokio::test]
async fn c13_what_retention_took_is_published_again() {
    let mut make = Rows::new();
    let topic = unique("c13");
    let create = json!({"do": "create", "topic": topic, "config": {"cleanup.policy": "delete"}});
    ask(create).await;
    let sink = sink(&topic, json!({})).await;
    let rows = make.deployments(5, 1);
    let receipt = all(&sink, &rows).await.unwrap();
    let note = receipt.note.unwrap();
    assert!(note.contains("is not compacted"), "{note}");
    ask(json!({"do": "forget", "topic": topic})).await;
    assert_eq!(items(&topic).await.len(), 0);
    assert_eq!(all(&sink, &rows).await.unwrap().written, 5);
    assert_eq!(items(&topic).await, expected(&rows));
}

/// Who may not read repeats everything and says when it is complete.
#[tokio::test]
async fn c14_without_the_right_to_read_everything_is_repeated() {
    let mut make = Rows::new();
    let topic = unique("c14");
    ask(json!({"do": "create", "topic": topic})).await;
    let operations = ["WRITE", "DESCRIBE"];
    ask(json!({"do": "allow", "topic": topic, "user": USER, "operations": operations})).await;
    let kafka = kafka().await;
    let (ca, password) = (kafka.ca_pem(), kafka.password());
    let tls = json!({"tls": {"caSecretRef": {"name": "ca"}}});
    let secret = [("username", USER), ("password", password), ("ca.crt", &ca)];
    let sink = open(&kafka.sasl(), &topic, tls, &secret).await.unwrap();
    eventually("the rule is in force", async || {
        let probed = sink.probe().await.unwrap();
        probed.contains("may not be read")
    })
    .await;
    let rows = make.deployments(3, 1);
    // An empty topic needs no reading.
    all(&sink, &rows).await.unwrap();
    let receipt = all(&sink, &rows).await.unwrap();
    let Some(ReadBack::Replayed(why)) = receipt.read_back else {
        panic!("{receipt:?}");
    };
    assert!(why.contains("grant the sink's user Read"), "{why}");
    let found = records(&topic).await;
    let synced: Vec<_> = found
        .iter()
        .filter(|record| record.event() == "synced")
        .collect();
    assert_eq!(found.len() - synced.len(), 6);
    assert_eq!(synced.len(), 1);
    assert_eq!(synced[0].key, "prod-west/team-a/team-inventory");
    assert_eq!(synced[0].value.as_ref().unwrap()["count"], 3);
    assert_eq!(synced[0].headers["ce_type"], "dev.kollect.inventory.synced");
    sink.retire(&inventory()).await.unwrap();
    let last = records(&topic).await;
    let counts: Vec<_> = last
        .iter()
        .filter(|record| record.event() == "synced")
        .map(|record| record.value.as_ref().unwrap()["count"].clone())
        .collect();
    assert_eq!(counts, [3, 0], "retired: none are left");
}

#[tokio::test]
async fn a_topic_beyond_the_limit_is_not_read() {
    let mut make = Rows::new();
    let topic = unique("limit");
    let rows = make.deployments(50, 1);
    all(&sink(&topic, json!({})).await, &rows).await.unwrap();
    for (limit, reason) in [(0, "is never read"), (1000, "more than the 1000 bytes")] {
        let limited = sink(&topic, json!({"kafka": {"readBackLimit": limit}})).await;
        let receipt = all(&limited, &rows).await.unwrap();
        assert_eq!(receipt.written, 50);
        let Some(ReadBack::Replayed(why)) = receipt.read_back else {
            panic!("{receipt:?}");
        };
        assert!(why.contains(reason), "{why}");
    }
    assert_eq!(items(&topic).await, expected(&rows));
}

#[tokio::test]
async fn c15_a_row_that_is_too_large_holds_up_nobody() {
    let mut make = Rows::new();
    for compression in ["none", "gzip"] {
        let topic = unique("c15");
        let spec = json!({"serialization": {"compression": compression}});
        let sink = sink(&topic, spec).await;
        let mut random = kollect_sinks::conformance::rows::Random::new(7);
        // Compression does not make it small.
        let mut text = String::new();
        for _ in 0..130_000 {
            write!(text, "{:016x}", random.draw()).unwrap();
        }
        let text = if compression == "gzip" {
            text.repeat(2)
        } else {
            text
        };
        let large = make.config_map("large", &json!({"text": text}));
        let small = make.deployments(99, 1);
        let both = Snapshot::new(small.rows().iter().cloned().chain([large]));
        let receipt = all(&sink, &both).await.unwrap();
        assert_eq!(receipt.written, 99, "{compression}");
        let skipped = receipt.skipped.unwrap();
        assert_eq!(
            (skipped.rows, skipped.first.as_str()),
            (1, "ConfigMap/team-a/large")
        );
        assert_eq!(skipped.why, Why::TooLarge { limit: 1_048_588 });
        assert_eq!(items(&topic).await, expected(&small), "{compression}");
        // It is remembered while others change, and forgotten when it is gone.
        let next = Snapshot::new(
            both.rows()
                .iter()
                .cloned()
                .chain([make.deployment("new", 1)]),
        );
        let receipt = changes(&sink, &both, &next).await.unwrap();
        assert_eq!(receipt.skipped.map(|skipped| skipped.rows), Some(1));
        let receipt = changes(&sink, &next, &small).await.unwrap();
        assert_eq!(receipt.skipped, None);
    }
}

/// The topic is created compacted, with the broker's number of partitions; after compaction a reader
/// from the beginning finds the inventory.
#[tokio::test]
async fn c17_a_compacted_topic_is_the_inventory() {
    let mut make = Rows::new();
    let created = unique("c17-created");
    all(&sink(&created, json!({})).await, &make.deployments(1, 1))
        .await
        .unwrap();
    let config = ask(json!({"do": "config", "topic": created})).await;
    assert_eq!(config["cleanup.policy"], "compact");
    let partitions = ask(json!({"do": "partitions", "topic": created})).await;
    assert_eq!(partitions, json!([0, 1, 2]));

    let topic = unique("c17");
    let config = json!({
        "cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0", "max.compaction.lag.ms": "100",
    });
    ask(json!({"do": "create", "topic": topic, "count": 1, "config": config})).await;
    let sink = sink(&topic, json!({})).await;
    let mut before = make.deployments(30, 0);
    all(&sink, &before).await.unwrap();
    let mut published = 30;
    for round in 1..200 {
        let next = make.deployments(30 - round % 10, round as u64);
        let receipt = changes(&sink, &before, &next).await.unwrap();
        published += receipt.written + 2 * receipt.removed;
        before = next;
        tokio::time::sleep(Duration::from_millis(60)).await;
        if round > 10 && (records(&topic).await.len() as u64) < published / 2 {
            break;
        }
        assert!(round < 199, "the broker does not compact");
    }
    assert_eq!(items(&topic).await, expected(&before));
    let restarted = super::broker::sink(&topic, json!({})).await;
    let receipt = all(&restarted, &before).await.unwrap();
    assert_eq!(
        (receipt.written, receipt.removed),
        (0, 0),
        "read back over gaps"
    );
}

#[tokio::test]
async fn c18_one_change_among_many_is_one_record() {
    let mut make = Rows::new();
    let topic = unique("c18");
    let sink = sink(&topic, json!({"serialization": {"compression": "snappy"}})).await;
    let many = make.deployments(20_000, 1);
    all(&sink, &many).await.unwrap();
    let count = |ends: Option<Vec<i64>>| ends.unwrap().iter().sum::<i64>();
    let before = count(ends(&topic).await);
    assert_eq!(before, 20_000);
    let changed = make.deployment("app-04711", 9);
    let next = Snapshot::new(many.rows().iter().cloned().chain([changed]));
    let receipt = changes(&sink, &many, &next).await.unwrap();
    assert_eq!((receipt.written, receipt.read_back), (1, None));
    assert_eq!(count(ends(&topic).await), before + 1);
}

const CLOUD_EVENTS: &str = r#"
import json, sys
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary
from cloudevents.core.formats.json import JSONFormat

for line in sys.stdin:
    record = json.loads(line)
    headers = {name: value.encode() for name, value in record["headers"].items()}
    value = json.dumps(record["value"]).encode()
    event = from_binary(KafkaMessage(headers, record["key"], value), JSONFormat())
    print(json.dumps([event.get_type(), event.get_source(), event.get_subject(),
        event.get_datacontenttype(), event.get_specversion(), event.get_data()["event"]]))
"#;

#[tokio::test]
async fn c19_cloudevents_of_another_language_read_it() {
    let mut make = Rows::new();
    let topic = unique("c19");
    let sink = sink(&topic, json!({})).await;
    let row = rows([make.deployment("a", 1)]);
    all(&sink, &row).await.unwrap();
    changes(&sink, &row, &Snapshot::default()).await.unwrap();
    let lines: String = records(&topic)
        .await
        .iter()
        .filter(|record| record.value.is_some())
        .map(|record| {
            let Record {
                key,
                value,
                headers,
                ..
            } = record;
            json!({"key": key, "value": value, "headers": headers}).to_string() + "\n"
        })
        .collect();
    let read = tokio::task::spawn_blocking(move || {
        let python = python::environment(&["cloudevents==2.2.0"]).unwrap();
        let mut child = std::process::Command::new(python)
            .args(["-c", CLOUD_EVENTS])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(lines.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    });
    let output = read.await.unwrap();
    let found: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let event = |word: &str| {
        json!([
            format!("dev.kollect.row.{word}"),
            "/kollect/prod-west/team-a/team-inventory",
            "apps/v1/Deployment/team-a/a",
            "application/json",
            "1.0",
            word,
        ])
    };
    assert_eq!(found, [event("upsert"), event("delete")]);
}

/// The partition is the one that the Java client would choose.
#[tokio::test]
async fn keys_are_where_the_java_client_puts_them() {
    let mut make = Rows::new();
    let topic = unique("java");
    let count = 7;
    ask(json!({"do": "create", "topic": topic, "count": count})).await;
    let sink: Arc<dyn Sink> = sink(&topic, json!({})).await;
    all(&sink, &make.deployments(40, 1)).await.unwrap();
    let found = records(&topic).await;
    // librdkafka has the same function, for whoever asks for it.
    let keys: Vec<_> = found.iter().map(|record| &record.key).collect();
    let chosen = ask(json!({"do": "murmur2", "topic": topic, "keys": keys})).await;
    let partitions: Vec<_> = found.iter().map(|record| record.partition).collect();
    assert_eq!(chosen, json!(partitions));
}

/// The consumer of the documentation, as it stands there.
#[tokio::test]
async fn the_documented_consumer_builds_the_table() {
    let page = include_str!("../../../../docs/sinks/kafka.md");
    let (_, rest) = page.split_once("```python\n").unwrap();
    let (program, _) = rest.split_once("```").unwrap();
    let mut make = Rows::new();
    let topic = unique("documented");
    let sink = sink(&topic, json!({})).await;
    let before = make.deployments(4, 1);
    all(&sink, &before).await.unwrap();
    let after = rows([make.deployment("app-00001", 2), make.deployment("new", 1)]);
    changes(&sink, &before, &after).await.unwrap();
    let broker = kafka().await.plain();
    let run = tokio::task::spawn_blocking(move || {
        let python = python::environment(&[super::reader::CLIENT]).unwrap();
        let mut command = std::process::Command::new(python);
        command
            .args(["-c", program, &broker, &topic])
            .output()
            .unwrap()
    });
    let output = run.await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "Deployment team-a app-00001 {\"image\": \"registry/app-00001:1\", \"replicas\": 2}\n\
         Deployment team-a new {\"image\": \"registry/new:1\", \"replicas\": 1}\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
