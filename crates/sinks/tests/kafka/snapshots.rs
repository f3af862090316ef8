//! Mode `snapshots`: the whole inventory per export.

use kollect_inventory::Snapshot;
use kollect_sinks::{
    Demand,
    conformance::rows::{Rows, item},
};
use kollect_testkit::names::unique;
use serde_json::json;

use super::{
    broker::{all, inventory, sink},
    reader::{ask, records},
};

/// E35 with the broker's limit as the ceiling: parts in order, nothing lost, none too large.
#[tokio::test]
async fn e35_parts_follow_the_limit_of_the_topic() {
    let mut make = Rows::new();
    let topic = unique("snapshots");
    let config = json!({"max.message.bytes": "20000"});
    ask(json!({"do": "create", "topic": topic, "config": config})).await;
    let sink = sink(&topic, json!({"mode": "snapshots"})).await;
    assert_eq!(sink.demand(), Demand::Documents);
    let rows = make.deployments(200, 1);
    let receipt = all(&sink, &rows).await.unwrap();
    let found = records(&topic).await;
    assert_eq!(receipt.written, found.len() as u64);
    assert!(found.len() > 1, "{} parts", found.len());
    let mut items = Vec::new();
    for (at, record) in found.iter().enumerate() {
        let body = record.value.as_ref().unwrap();
        assert_eq!(record.key, "prod-west/team-a/team-inventory");
        assert_eq!(record.headers["Kollect-Inventory"], "team-inventory");
        assert_eq!(
            (&body["event"], &body["scope"]),
            (&json!("snapshot"), &json!("namespace"))
        );
        let payload = &body["payload"];
        assert_eq!(payload["generation"], 3);
        assert_eq!(payload["partIndex"], at + 1, "in order");
        assert_eq!(payload["partTotal"], found.len());
        items.extend(payload["items"].as_array().unwrap().clone());
    }
    let expected: Vec<_> = rows.rows().iter().map(item).collect();
    assert_eq!(items, expected);
}

#[tokio::test]
async fn empty_and_deleted_inventories_are_told() {
    let topic = unique("snapshots");
    let sink = sink(&topic, json!({"mode": "snapshots"})).await;
    all(&sink, &Snapshot::default()).await.unwrap();
    sink.retire(&inventory()).await.unwrap();
    let found = records(&topic).await;
    let told: Vec<_> = found
        .iter()
        .map(|record| {
            let body = record.value.as_ref().unwrap();
            let payload = &body["payload"];
            (
                body["event"].clone(),
                payload["itemCount"].clone(),
                payload["generation"].clone(),
            )
        })
        .collect();
    let row = |event: &str| (json!(event), json!(0), json!(3));
    assert_eq!(told, [row("snapshot"), row("deleted")]);
}
