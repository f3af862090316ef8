//! The vectors of `tests/data/layout/vectors.yaml`.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use kollect_api::InventoryId;
use kollect_inventory::Snapshot;
use kollect_sinks::{
    DocumentOptions,
    layout::{Embedding, Nothing, RepoPath, render::render_all},
};
use serde::Deserialize;
use serde_json::Value;

use crate::rows::{Item, header, layout};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    items: BTreeMap<String, Item>,
    contents: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    id: String,
    spec: Value,
    #[serde(default)]
    inventory: BTreeMap<String, String>,
    embedding: Option<Vec<String>>,
    max_document_bytes: Option<NonZeroU64>,
    items: Vec<Value>,
    #[serde(default)]
    #[expect(dead_code, reason = "for readers of the file")]
    better: String,
    mode: Option<String>,
    prunes: Option<bool>,
    checksum: Option<String>,
    skipped: Option<usize>,
    files: Option<BTreeMap<String, String>>,
    order: Option<Vec<String>>,
    paths: Option<Vec<String>>,
    count: Option<usize>,
    contains: Option<BTreeMap<String, String>>,
    error: Option<String>,
}

fn check(case: &Case, vectors: &Vectors) {
    let id = &case.id;
    let inventory = match case.inventory.get("cluster") {
        Some(name) => InventoryId::cluster(name),
        None => InventoryId::namespaced("team-a", "web"),
    };
    let embedding = match &case.embedding {
        None => Embedding::Unknown,
        Some(keys) => Embedding::Known(keys.iter().cloned().collect()),
    };
    let rows = case.items.iter().map(|item| match item {
        Value::String(name) => vectors.items[name].row(),
        item => serde_json::from_value::<Item>(item.clone())
            .expect("an item")
            .row(),
    });
    let rows = Snapshot::new(rows);
    let documents = DocumentOptions {
        max_bytes: case.max_document_bytes,
        embedding,
        ..DocumentOptions::default()
    };
    let header = header(&inventory, &documents);
    let layout = layout(&case.spec).unwrap_or_else(|error| panic!("{id}: {error}"));
    let rendering = match (render_all(&layout, &header, &rows, &Nothing), &case.error) {
        (Ok(rendering), None) => rendering,
        (Ok(_), Some(_)) => panic!("{id}: should have failed"),
        (Err(error), None) => panic!("{id}: {error}"),
        (Err(error), Some(part)) => {
            assert!(error.to_string().contains(part), "{id}: {error}");
            return;
        }
    };
    let files: Vec<(String, String)> = rendering
        .files()
        .map(|file| {
            let file = file.unwrap_or_else(|error| panic!("{id}: {error}"));
            let bytes = file.body.into_bytes();
            (
                file.path.to_string(),
                String::from_utf8_lossy(&bytes).into_owned(),
            )
        })
        .collect();
    let order: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let paths = rendering.paths().expect("paths");
    assert_eq!(
        paths.iter().map(RepoPath::as_str).collect::<Vec<_>>(),
        order,
        "{id}"
    );
    let mut sorted = order.clone();
    sorted.sort_unstable();

    let mode = rendering.mode();
    if let Some(expected) = &case.mode {
        assert_eq!(mode.as_str(), expected, "{id}");
    }
    if let Some(expected) = case.prunes {
        assert_eq!(layout.prunes(mode), expected, "{id}");
    }
    if let Some(expected) = &case.checksum {
        assert_eq!(rows.fingerprint().to_string(), *expected, "{id}");
    }
    assert_eq!(rendering.skipped(), case.skipped.unwrap_or(0), "{id}");
    if let Some(expected) = &case.files {
        let found: BTreeMap<String, String> = files.iter().cloned().collect();
        let expected: BTreeMap<String, String> = expected
            .iter()
            .map(|(path, text)| match text.strip_prefix('=') {
                Some(name) => (path.clone(), vectors.contents[name].clone()),
                None => (path.clone(), text.clone()),
            })
            .collect();
        assert_eq!(found, expected, "{id}");
    }
    if let Some(expected) = &case.order {
        assert_eq!(&order, expected, "{id}");
    }
    if let Some(expected) = &case.paths {
        assert_eq!(&sorted, expected, "{id}");
    }
    if let Some(expected) = case.count {
        sorted.dedup();
        assert_eq!(sorted.len(), expected, "{id}: {sorted:?}");
    }
    for (path, part) in case.contains.iter().flatten() {
        let found = files.iter().find(|(other, _)| other == path);
        let (_, text) = found.unwrap_or_else(|| panic!("{id}: no {path} among {order:?}"));
        assert!(text.contains(part), "{id}: {text}");
    }
}

#[test]
fn vectors() {
    let vectors: Vectors =
        serde_saphyr::from_str(include_str!("../data/layout/vectors.yaml")).expect("vectors");
    assert!(vectors.cases.len() > 50);
    for case in &vectors.cases {
        check(case, &vectors);
    }
}

#[test]
fn v44_parquet_has_a_fixed_place() {
    let inventory = InventoryId::namespaced("team-a", "deployments");
    for (cluster, expected) in [
        (
            "prod-west",
            "inventory/cluster=prod-west/ns=team-a/name=deployments/generation=7.parquet",
        ),
        (
            " prod-west ",
            "inventory/cluster=prod-west/ns=team-a/name=deployments/generation=7.parquet",
        ),
        (
            "a/b c",
            "inventory/cluster=a_b_c/ns=team-a/name=deployments/generation=7.parquet",
        ),
        (
            "",
            "inventory/cluster=default/ns=team-a/name=deployments/generation=7.parquet",
        ),
    ] {
        let layout = layout(&serde_json::json!({
            "type": "s3",
            "cluster": cluster,
            "pathTemplate": "{namespace}/{name}.x",
            "objectStore": {"format": "parquet", "partitioning": "generation"},
        }))
        .expect("a layout");
        let path = layout.document_path(&inventory, 7).expect("a path");
        assert_eq!(path.as_str(), expected);
    }
}

#[test]
fn only_a_plain_tree_can_be_written_from_changes() {
    for (layout_block, everything) in [
        (serde_json::json!({"mode": "perResource"}), false),
        (
            serde_json::json!({"mode": "split", "index": {"enabled": false}}),
            false,
        ),
        (serde_json::json!({"mode": "split"}), true),
        (
            serde_json::json!({"mode": "perResource", "index": {"enabled": true}}),
            true,
        ),
        (serde_json::json!({"mode": "document"}), true),
        (serde_json::json!({}), true),
        (
            serde_json::json!({"mode": "perResource", "pathTemplate": "{generation}/{uid}"}),
            true,
        ),
    ] {
        let layout = layout(&serde_json::json!({"type": "git", "layout": layout_block}));
        assert_eq!(
            layout.expect("a layout").needs_everything(),
            everything,
            "{layout_block}"
        );
    }
}
