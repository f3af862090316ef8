//! Mode `snapshots`: the whole inventory with every export.

use std::num::NonZeroU64;

use kollect_inventory::Snapshot;
use kollect_sinks::{Delivery, DeliveryRows, Demand, DocumentOptions, conformance::rows::Rows};
use serde_json::{Value, json};

use super::stage::{Place, blocking, delivery, everything, inventory, reader};

async fn found(place: &Place) -> Vec<Value> {
    let (stream, subject) = (place.stream.clone(), place.subject.clone());
    blocking(move || reader().all(&stream, &subject))
        .await
        .expect("messages")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_is_a_message_with_everything() {
    let place = Place::new().await;
    let sink = place.sink(json!({"mode": "snapshots"})).await;
    assert_eq!(sink.demand(), Demand::Documents);
    let rows = Rows::new().deployments(3, 1);
    everything(&sink, &rows).await.expect("an export");
    everything(&sink, &Snapshot::default())
        .await
        .expect("nothing is left");
    sink.retire(&inventory()).await.expect("retired");
    let messages = found(&place).await;
    let told: Vec<_> = messages
        .iter()
        .map(|m| (&m["body"]["event"], &m["body"]["payload"]["itemCount"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("snapshot"), &json!(3)),
            (&json!("snapshot"), &json!(0)),
            (&json!("deleted"), &json!(0)),
        ]
    );
    let first = &messages[0];
    assert_eq!(first["body"]["inventory"], "web");
    assert_eq!(first["body"]["payload"]["generation"], 1);
    let headers = &first["headers"];
    assert_eq!(headers["Kollect-Inventory"], "web");
    assert_eq!(headers["Kollect-Namespace"], "team-a");
    assert_eq!(headers["Kollect-Cluster"], "prod-west");
    assert_eq!(headers["Kollect-Checksum"], rows.fingerprint().to_string());
    assert_eq!(messages[2]["body"]["payload"]["generation"], 1);
}

/// Parts are smaller than what the export asks for and what the server takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_inventories_come_in_parts() {
    let place = Place::new().await;
    let sink = place.sink(json!({"mode": "snapshots"})).await;
    let rows = Rows::new().deployments(12_000, 1);
    everything(&sink, &rows).await.expect("an export");
    let parts = found(&place).await;
    assert!(parts.len() > 1, "the server takes 1 MiB");
    let totals: u64 = parts
        .iter()
        .map(|part| {
            part["body"]["payload"]["itemCount"]
                .as_u64()
                .expect("a number")
        })
        .sum();
    assert_eq!(totals, 12_000);
    let few = Rows::new().deployments(40, 1);
    let asked = Delivery {
        documents: DocumentOptions {
            max_bytes: NonZeroU64::new(2_000),
            ..DocumentOptions::default()
        },
        ..delivery(&inventory(), DeliveryRows::All(few))
    };
    sink.deliver(&asked).await.expect("an export");
    let now = found(&place).await;
    let last = &now.last().expect("a part")["body"]["payload"];
    assert_eq!(last["partIndex"], last["partTotal"]);
    assert!(
        now.len() > parts.len() + 1 || now.len() == 16,
        "the stream keeps 16"
    );
}
