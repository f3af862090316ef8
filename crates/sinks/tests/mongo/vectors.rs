//! The vectors: deliveries in, documents out. They are the ones of PostgreSQL: a consumer can move
//! from one to the other.

use std::collections::BTreeMap;

use kollect_api::InventoryId;
use kollect_inventory::{HeldRows, Snapshot};
use kollect_sinks::{Sink, SinkError};
use mongodb::bson::{Bson, doc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    items::{Items, deployment, deployments},
    server::{COLLECTION, Stage, T1, T2, T3, changes, everything, inventory, plain},
};

#[derive(Deserialize)]
struct File {
    items: BTreeMap<String, Value>,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    id: String,
    /// Settings of PostgreSQL: such a vector is not for us.
    spec: Option<Value>,
    steps: Vec<Step>,
    table: Vec<String>,
}

#[derive(Deserialize)]
struct Step {
    deliver: Option<Vec<String>>,
    #[serde(default)]
    retire: bool,
    cluster: Option<String>,
    inventory: Option<String>,
    at: Option<String>,
}

const TIMES: [(&str, &str); 3] = [("t1", T1), ("t2", T2), ("t3", T3)];
const COLUMNS: [&str; 6] = [
    "inventory_namespace",
    "inventory_name",
    "target_name",
    "source_uid",
    "cluster",
    "resource_namespace",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors() {
    let file = include_str!("../postgres/vectors.yaml");
    let file: File = serde_saphyr::from_str(file).expect("vectors");
    let stage = Stage::new().await;
    let mut run = 0;
    for vector in file.vectors.iter().filter(|vector| vector.spec.is_none()) {
        run += 1;
        let mut items = Items::default();
        let mut sinks: BTreeMap<String, _> = BTreeMap::new();
        for step in &vector.steps {
            let cluster = step.cluster.as_deref().unwrap_or("prod-west");
            let sink = sinks
                .entry(cluster.to_owned())
                .or_insert_with(|| stage.sink(json!({"cluster": cluster})));
            let inventory = step.inventory.as_deref().unwrap_or("team-a/team-inventory");
            let inventory = match inventory.split_once('/') {
                Some((namespace, name)) => InventoryId::namespaced(namespace, name),
                None => InventoryId::cluster(inventory),
            };
            if step.retire {
                sink.retire(&inventory).await.expect("retired");
            }
            if let Some(names) = &step.deliver {
                let rows = items.snapshot(names.iter().map(|name| &file.items[name]));
                let at = step.at.as_deref().unwrap_or("t1");
                let at = TIMES
                    .iter()
                    .find(|(name, _)| *name == at)
                    .expect("a time")
                    .1;
                let done = everything(sink, &inventory, at, &rows).await;
                done.unwrap_or_else(|error| panic!("{}: {error}", vector.id));
            }
        }
        let mut expected = vector.table.clone();
        expected.sort();
        assert_eq!(table(&stage, &file).await, expected, "{}", vector.id);
        let cleared = stage.collection().delete_many(doc! {}).await;
        cleared.expect("cleared");
    }
    assert!(run >= 15, "only {run} vectors were for us");
}

/// The collection with payloads and times by their names.
async fn table(stage: &Stage, file: &File) -> Vec<String> {
    let documents = stage.documents().await;
    let mut lines: Vec<String> = documents
        .iter()
        .map(|document| {
            let text = |column: &&str| document.get_str(column).expect("a text").to_owned();
            let columns: Vec<String> = COLUMNS.iter().map(text).collect();
            let payload = plain(document.get("payload").expect("a payload"));
            let item = file.items.iter().find(|(_, item)| **item == payload);
            let item = item.map_or_else(|| payload.to_string(), |(name, _)| name.clone());
            let time = document.get_datetime("exported_at").expect("a time");
            let time = time.try_to_rfc3339_string().expect("a time");
            let time = TIMES
                .iter()
                .find(|(_, text)| *text == time)
                .map_or(time.as_str(), |(name, _)| name);
            format!("{}|{item}|{time}", columns.join("|"))
        })
        .collect();
    lines.sort();
    lines
}

/// D2: the document keeps its id, and one change is one document.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_keeps_the_id() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let before = deployments(2_500, 1);
    everything(&sink, &inventory(), T1, &before).await.unwrap();
    let ids = |documents: Vec<mongodb::bson::Document>| {
        documents
            .into_iter()
            .map(|document| {
                let key = document.get_str("source_uid").unwrap().to_owned();
                (key, document.get("_id").cloned().unwrap())
            })
            .collect::<BTreeMap<String, Bson>>()
    };
    let first = ids(stage.documents().await);
    let mut items = Items::default();
    let changed = items.row(&deployment("uid-000007", &json!({"replicas": 2})));
    let after: Snapshot = before
        .rows()
        .iter()
        .filter(|row| row.name() != "uid-000007")
        .cloned()
        .chain([changed])
        .collect();
    let receipt = changes(&sink, &inventory(), T2, &before, &after)
        .await
        .unwrap();
    assert_eq!((receipt.written, receipt.removed), (1, 0));
    let full = everything(&sink, &inventory(), T3, &after).await.unwrap();
    assert_eq!((full.written, full.removed, full.bytes), (0, 0, 0));
    assert_eq!(ids(stage.documents().await), first);
}

/// D33: the rows that the validator takes are written, the others are named, nothing is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_validator_may_refuse_rows() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let mut items = Items::default();
    let mut row = |uid: &str| items.row(&deployment(uid, &json!({"secret": "s3cr3t-value"})));
    let seed: Snapshot = [row("uid-seed")].into_iter().collect();
    everything(&sink, &inventory(), T1, &seed).await.unwrap();
    let validator =
        doc! {"collMod": COLLECTION, "validator": {"source_uid": {"$ne": "uid-poison"}}};
    stage.database().run_command(validator).await.unwrap();

    let rows: Snapshot = [row("uid-ok"), row("uid-poison")].into_iter().collect();
    let error = everything(&sink, &inventory(), T2, &rows)
        .await
        .unwrap_err();
    let SinkError::Terminal(text) = &error else {
        panic!("{error:?}");
    };
    assert!(text.starts_with("mongodb upsert"), "{text}");
    assert!(text.contains("Deployment/team-a/uid-poison"), "{text}");
    assert!(!text.contains("s3cr3t"), "{text}");
    let mut uids: Vec<_> = stage
        .documents()
        .await
        .iter()
        .map(|document| document.get_str("source_uid").unwrap().to_owned())
        .collect();
    uids.sort();
    assert_eq!(uids, ["uid-ok", "uid-seed"]);
}

/// A row beyond 16 MB is left out and named; all others are written, and it returns when it fits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_may_be_too_large() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let mut items = Items::default();
    let mut set = |size: usize| -> Snapshot {
        let sized = deployment("uid-sized", &json!({"text": "x".repeat(size)}));
        [deployment("uid-plain", &json!({})), sized]
            .iter()
            .map(|item| items.row(item))
            .collect()
    };
    let small = set(10);
    let large = set(17 << 20);
    let largest = set((16 << 20) - 2_000);
    let uids = || async { stage.documents().await.len() };

    let receipt = everything(&sink, &inventory(), T1, &large).await.unwrap();
    let skipped = receipt.skipped.expect("told");
    assert_eq!(
        (skipped.rows, skipped.first.as_str()),
        (1, "Deployment/team-a/uid-sized")
    );
    assert_eq!(uids().await, 1);
    let receipt = changes(&sink, &inventory(), T2, &large, &small)
        .await
        .unwrap();
    assert_eq!((receipt.written, receipt.skipped), (1, None));
    assert_eq!(uids().await, 2);
    let receipt = changes(&sink, &inventory(), T2, &small, &large)
        .await
        .unwrap();
    assert_eq!(receipt.skipped.map(|skipped| skipped.rows), Some(1));
    assert_eq!(uids().await, 1, "what it was earlier is not shown");
    let receipt = everything(&sink, &inventory(), T3, &largest).await.unwrap();
    assert_eq!((receipt.written, receipt.skipped), (1, None));
    assert_eq!(uids().await, 2);
}

/// Rows of targets of which nothing is known stay as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_held_targets_stay() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let mut items = Items::default();
    let node = json!({
        "targetNamespace": "team-a", "targetName": "nodes", "namespace": "", "name": "n",
        "version": "v1", "kind": "Node", "uid": "uid-node", "attributes": null,
    });
    let api = deployment("uid-api", &json!({}));
    let both = items.snapshot([&node, &api]);
    everything(&sink, &inventory(), T1, &both).await.unwrap();
    for rows in [items.snapshot([&api]), Snapshot::default()] {
        let held = rows.clone().holding(vec![HeldRows::of_target("nodes")]);
        everything(&sink, &inventory(), T2, &held).await.unwrap();
        assert_eq!(stage.documents().await.len(), rows.len() + 1);
    }
    everything(&sink, &inventory(), T3, &Snapshot::default())
        .await
        .unwrap();
    assert_eq!(stage.documents().await.len(), 0);
}

/// Somebody emptied the collection, or wrote there: changes are not applied to what was not left
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_notice_what_others_did() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let (two, three, changed) = (deployments(2, 1), deployments(3, 1), deployments(2, 2));
    for (from, to, what) in [(&two, &changed, "an update"), (&two, &three, "an insert")] {
        everything(&sink, &inventory(), T1, from).await.unwrap();
        if to.len() == 2 {
            stage.collection().delete_many(doc! {}).await.unwrap();
        } else {
            let other = stage.sink(json!({}));
            everything(&other, &inventory(), T1, &deployments(3, 9))
                .await
                .unwrap();
        }
        let error = changes(&sink, &inventory(), T2, from, to)
            .await
            .unwrap_err();
        assert!(
            matches!(error, SinkError::OutOfStep(_)),
            "{what}: {error:?}"
        );
        everything(&sink, &inventory(), T3, to).await.unwrap();
        assert_eq!(stage.documents().await.len(), to.len());
    }
}
