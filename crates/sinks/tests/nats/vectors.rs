//! The vectors of change events, against a real server.

use kollect_api::InventoryId;
use kollect_inventory::{
    HeldRows, Interner, OriginParts, Row, Snapshot, TargetKind, attributes::AttributesBuffer,
};
use kollect_sinks::{
    DeliveryRows, ReadBack, Why,
    conformance::rows::{Rows, item},
};
use serde_json::{Value, json};

use super::stage::{Place, blocking, changes, delivery, everything, inventory, reader};

fn of(rows: &[&Row]) -> Snapshot {
    rows.iter().map(|row| (*row).clone()).collect()
}

/// A row with a uid of its own choice.
pub(crate) fn row(name: &str, uid: &str, replicas: u64) -> Row {
    let mut interner = Interner::new();
    let origin = interner.origin(OriginParts {
        owner: TargetKind::Target,
        target_namespace: "team-a",
        target_name: "deployments",
        namespace: "team-a",
        group: "apps",
        version: "v1",
        kind: "Deployment",
    });
    let mut attributes = AttributesBuffer::new();
    attributes.start().attribute("replicas").unsigned(replicas);
    interner.row(&origin, name, uid, attributes.view())
}

/// C1 to C6: a stream from first contact over changes and restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_to_c6_first_contact_changes_and_restarts() {
    let place = Place::new().await;
    let [a, b] = [row("a", "uid-a", 1), row("b", "uid-b", 1)];
    let sink = place.sink(json!({})).await;
    let both = of(&[&a, &b]);
    let receipt = everything(&sink, &both).await.expect("C1");
    assert_eq!((receipt.written, receipt.removed), (2, 0));
    assert_eq!(receipt.read_back, Some(ReadBack::Compared));
    assert_eq!(place.appended().await, 2, "C1");

    let a2 = row("a", "uid-a", 2);
    let changed = of(&[&a2, &b]);
    changes(&sink, &both, &changed).await.expect("C2");
    assert_eq!(place.appended().await, 3, "C2: one record");
    assert_eq!(place.newest().await["a"], Some(item(&a2)));

    let without = of(&[&a2]);
    let receipt = changes(&sink, &changed, &without).await.expect("C3");
    assert_eq!((receipt.written, receipt.removed), (0, 1));
    assert_eq!(place.appended().await, 4, "C3");
    let newest = place.newest().await;
    assert_eq!((&newest["a"], &newest["b"]), (&Some(item(&a2)), &None));

    let sink = place.sink(json!({})).await;
    let receipt = everything(&sink, &without).await.expect("C4");
    assert_eq!((receipt.written, receipt.removed), (0, 0), "C4");
    assert_eq!(place.appended().await, 4, "C4: a restart says nothing");

    let [a3, b2, c] = [
        row("a", "uid-a", 3),
        row("b", "uid-b2", 1),
        row("c", "uid-c", 1),
    ];
    let sink = place.sink(json!({})).await;
    let three = of(&[&a3, &b2, &c]);
    let receipt = everything(&sink, &three).await.expect("C5");
    assert_eq!((receipt.written, receipt.removed), (3, 0), "C5");
    assert_eq!(
        place.newest().await["b"],
        Some(item(&b2)),
        "C5: another uid"
    );

    let sink = place.sink(json!({})).await;
    let receipt = everything(&sink, &of(&[&b2, &c])).await.expect("C6");
    assert_eq!((receipt.written, receipt.removed), (0, 1), "C6");
    let newest = place.newest().await;
    assert_eq!(
        (&newest["a"], &newest["b"]),
        (&None, &Some(item(&b2))),
        "C6"
    );
    let receipt = everything(&sink, &of(&[&b2, &c])).await.expect("again");
    assert_eq!(
        (receipt.written, receipt.removed),
        (0, 0),
        "it is told once"
    );
}

/// A delete says which row is gone and nothing else, and takes the past of its subject with it: it
/// goes by itself later, and must not uncover what stood before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_is_the_last_word_on_its_subject() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    let [one, two] = [row("a", "uid-a", 1), row("a", "uid-a", 2)];
    everything(&sink, &of(&[&one])).await.expect("all rows");
    changes(&sink, &of(&[&one]), &of(&[&two]))
        .await
        .expect("a change");
    changes(&sink, &of(&[&two]), &Snapshot::default())
        .await
        .expect("a delete");
    let all = place.messages(false).await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["sequence"], 3);
    assert_eq!(all[0]["headers"]["Nats-TTL"], "720h");
    let mut expected = item(&one);
    expected
        .as_object_mut()
        .expect("an item")
        .remove("attributes");
    assert_eq!(all[0]["body"]["item"], expected);
    assert_eq!(all[0]["body"]["event"], "delete");
}

/// C9: the same state again, within the time in which the server drops repeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_back_and_forth() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    let [a, b] = [of(&[&row("a", "u", 1)]), of(&[&row("a", "u", 2)])];
    everything(&sink, &a).await.expect("A");
    changes(&sink, &a, &b).await.expect("B");
    changes(&sink, &b, &a).await.expect("A again");
    assert_eq!(place.newest().await["a"], Some(item(&row("a", "u", 1))));
    assert_eq!(place.appended().await, 3);
}

/// C10, C11: inventories and clusters whose names look alike share a stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_c11_neighbours_with_similar_names() {
    let place = Place::new().await;
    let rows = of(&[&row("a", "u", 1), &row("b", "v", 1)]);
    let mut sinks = Vec::new();
    // All four are called eu_w in subjects.
    for cluster in ["eu.w", "eu/w", "eu_w", "eu w"] {
        sinks.push(place.sink(json!({"cluster": cluster})).await);
    }
    let inventories = [
        InventoryId::namespaced("a", "x"),
        InventoryId::namespaced("a", "x-y"),
        InventoryId::namespaced("a", "x.y"),
        InventoryId::cluster("x"),
        InventoryId::namespaced("cluster", "x"),
    ];
    let mut written = 0;
    for sink in &sinks {
        for inventory in &inventories {
            let content = DeliveryRows::All(rows.clone());
            let receipt = sink.deliver(&delivery(inventory, content)).await;
            written += receipt.expect("all rows").written;
        }
    }
    assert_eq!(written, 4 * 5 * 2);
    // One goes; everybody else has what it had.
    sinks[0].retire(&inventories[0]).await.expect("retired");
    let mut again = 0;
    for (at, sink) in sinks.iter().enumerate() {
        for inventory in &inventories {
            if (at, inventory) == (0, &inventories[0]) {
                continue;
            }
            let content = DeliveryRows::All(rows.clone());
            let receipt = sink.deliver(&delivery(inventory, content)).await;
            let receipt = receipt.expect("all rows");
            again += receipt.written + receipt.removed;
        }
    }
    assert_eq!(again, 0, "nobody else lost anything");
}

/// C12: names as awkward as they get.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_awkward_names() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    let long = "x".repeat(253);
    let names = ["a.b", "a:b", "A_b", "a_b", "ä\nb", "a b", ">", "*", &long];
    let rows: Snapshot = names
        .iter()
        .enumerate()
        .map(|(at, name)| row(name, &at.to_string(), 1))
        .collect();
    everything(&sink, &rows).await.expect("all rows");
    let newest = place.newest().await;
    assert_eq!(newest.len(), names.len());
    assert!(newest.contains_key("ä\nb"));
    let sink = place.sink(json!({})).await;
    let receipt = everything(&sink, &rows).await.expect("again");
    assert_eq!((receipt.written, receipt.removed), (0, 0));
}

/// C13: rows that the stream dropped are published again when all rows are compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c13_what_the_stream_dropped_comes_back() {
    let place = Place::new().await;
    let config = json!({
        "name": place.stream, "subjects": [format!("{}.>", place.subject)],
        "storage": "memory", "max_msgs": 2, "discard": "old", "retention": "limits",
    });
    blocking(move || reader().create(&config))
        .await
        .expect("a stream");
    let sink = place
        .sink(json!({"provisioning": {"mode": "existing"}}))
        .await;
    let rows = of(&[&row("a", "a", 1), &row("b", "b", 1), &row("c", "c", 1)]);
    everything(&sink, &rows).await.expect("all rows");
    assert_eq!(place.newest().await.len(), 2, "one was dropped");
    let receipt = everything(&sink, &rows).await.expect("a refresh");
    assert_eq!(receipt.written, 1);
}

/// C15: one row is too large for the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_row_above_the_limit_is_told() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    let mut rows = Rows::new();
    let large = rows.config_map("large", &json!({"text": "x".repeat(2 << 20)}));
    let others: Vec<Row> = (0..99)
        .map(|n| row(&format!("app-{n}"), &n.to_string(), 1))
        .collect();
    let all: Snapshot = others.iter().cloned().chain([large.clone()]).collect();
    let receipt = everything(&sink, &all).await.expect("the others");
    assert_eq!(receipt.written, 99);
    let skipped = receipt.skipped.expect("one is left out");
    assert_eq!(
        (skipped.rows, &*skipped.first),
        (1, "ConfigMap/team-a/large")
    );
    assert_eq!(skipped.why, Why::TooLarge { limit: 1 << 20 });
    assert_eq!(place.newest().await.len(), 99);
    // It is told until it fits.
    let without = Snapshot::new(others.iter().cloned());
    let unchanged = changes(&sink, &all, &all).await.expect("no change");
    assert_eq!(unchanged.skipped, Some(skipped));
    let receipt = changes(&sink, &all, &without).await.expect("it goes");
    assert_eq!(receipt.skipped, None);
}

/// C16: an inventory that is no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_everything_of_an_inventory_goes() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    let rows = Rows::new().deployments(300, 1);
    everything(&sink, &rows).await.expect("all rows");
    // By a process that never delivered.
    let sink = place.sink(json!({})).await;
    let receipt = sink.retire(&inventory()).await.expect("retired");
    assert_eq!(receipt.removed, 300);
    assert!(place.newest().await.values().all(Option::is_none));
    let receipt = sink.retire(&inventory()).await.expect("again");
    assert_eq!(receipt.removed, 0);
}

/// Rows of a target of which nothing is known are neither published nor deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_held_targets_stay_as_they_are() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    let mut rows = Rows::new();
    let (node, deployment) = (rows.node("n1"), rows.deployment("api", 1));
    everything(&sink, &of(&[&node, &deployment]))
        .await
        .expect("all rows");
    let known = of(&[&node]).holding(vec![HeldRows::of_target("deployments")]);
    let receipt = everything(&sink, &known).await.expect("what is known");
    assert_eq!((receipt.written, receipt.removed), (0, 0));
    let receipt = everything(&sink, &of(&[&node]))
        .await
        .expect("all is known");
    assert_eq!(receipt.removed, 1);
}

/// C19: the SDK of another language reads a message as a CloudEvent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_messages_are_cloud_events() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    everything(&sink, &of(&[&row("a", "u", 1)]))
        .await
        .expect("all rows");
    let message = place.messages(true).await.remove(0);
    let script = "\
import json, sys
from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.formats.json import JSONFormat
given = json.load(sys.stdin)
body = json.dumps(given['body']).encode()
event = from_binary(HTTPMessage(headers=given['headers'], body=body), JSONFormat())
print(json.dumps({
    'type': event.get_type(), 'source': event.get_source(), 'subject': event.get_subject(),
    'specversion': event.get_specversion(), 'id': event.get_id(), 'data': event.get_data(),
}))
";
    let python = blocking(|| kollect_testkit::python::environment(&kollect_testkit::nats::CLIENTS))
        .await
        .expect("python");
    let given = message.clone();
    let output = blocking(move || {
        use std::io::Write;
        let mut child = std::process::Command::new(python)
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("python");
        let mut input = child.stdin.take().expect("input");
        input
            .write_all(given.to_string().as_bytes())
            .expect("written");
        drop(input);
        child.wait_with_output().expect("an end")
    })
    .await;
    let event: Value = serde_json::from_slice(&output.stdout).expect("a valid event");
    assert_eq!(event["type"], "dev.kollect.row.upsert");
    assert_eq!(event["source"], "/kollect/prod-west/team-a/web");
    assert_eq!(event["subject"], "apps/v1/Deployment/team-a/a");
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["id"], message["headers"]["Nats-Msg-Id"]);
    assert_eq!(event["data"]["item"]["name"], "a");
}

/// C18, and what a restart reads: one change is one message however many rows there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_many_rows_and_one_change() {
    let place = Place::new().await;
    let sink = place.sink(json!({})).await;
    let before = Rows::new().deployments(20_000, 1);
    let began = std::time::Instant::now();
    everything(&sink, &before).await.expect("all rows");
    println!("20,000 rows at first contact: {:?}", began.elapsed());
    let mut changed: Vec<Row> = before.rows().to_vec();
    changed[777] = Rows::new().deployment("app-00777", 9);
    let after = Snapshot::new(changed);
    let began = std::time::Instant::now();
    changes(&sink, &before, &after).await.expect("one change");
    println!("one change: {:?}", began.elapsed());
    assert_eq!(place.appended().await, 20_001);
    let sink = place.sink(json!({})).await;
    let began = std::time::Instant::now();
    let receipt = everything(&sink, &after).await.expect("a restart");
    println!("a restart with 20,000 rows: {:?}", began.elapsed());
    assert_eq!((receipt.written, receipt.removed), (0, 0));
}
