//! A file in which nothing but the time would change does not change.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use kollect_api::InventoryId;
use kollect_inventory::Snapshot;
use kollect_sinks::{
    DocumentOptions,
    layout::{RepoPath, render::render_all},
};
use serde_json::{Value, json};

use crate::rows::{Item, at, header, layout};

fn rows(names: &[&str]) -> Snapshot {
    let row = |name: &&str| {
        let item = json!({"namespace": "n", "name": name, "kind": "Pod", "uid": name, "attributes": {"a": 1}});
        serde_json::from_value::<Item>(item).expect("an item").row()
    };
    Snapshot::new(names.iter().map(row))
}

fn export(
    spec: &Value,
    time: &str,
    names: &[&str],
    held: &BTreeMap<RepoPath, Vec<u8>>,
) -> BTreeMap<RepoPath, Vec<u8>> {
    let layout = layout(spec).expect("a layout");
    let inventory = InventoryId::namespaced("team-a", "web");
    let rows = rows(names);
    let documents = DocumentOptions {
        max_bytes: NonZeroU64::new(450),
        ..DocumentOptions::default()
    };
    let mut header = header(&inventory, &documents);
    header.at = at(time);
    let rendering = render_all(&layout, &header, &rows, held).expect("files");
    let files = rendering.files().map(|file| file.expect("a path"));
    files
        .map(|file| (file.path, file.body.into_bytes()))
        .collect()
}

#[test]
fn the_time_changes_with_the_rows() {
    for spec in [
        json!({"type": "git", "serialization": {"format": "json"}}),
        json!({"type": "git", "serialization": {"format": "yaml"}}),
        json!({"type": "git", "layout": {"mode": "split"}}),
        json!({"type": "git", "layout": {"mode": "split"}, "serialization": {"format": "json"}}),
        json!({"type": "git", "layout": {"mode": "split"}, "serialization": {"format": "ndjson"}}),
    ] {
        // Six rows are several parts where there are parts at all.
        for names in [&["a"][..], &["a", "b", "c", "d", "e", "f"]] {
            let first = export(&spec, "2026-08-01T12:00:00Z", names, &BTreeMap::new());
            let again = export(&spec, "2026-08-01T13:00:00.5Z", names, &first);
            assert_eq!(again, first, "{spec}");
            let more = [names, &["z"]].concat();
            let changed = export(&spec, "2026-08-01T14:00:00Z", &more, &first);
            for (path, bytes) in &changed {
                let text = String::from_utf8_lossy(bytes);
                assert!(!text.contains("T12:00:00"), "{spec} {path}: {text}");
            }
            assert_ne!(changed, first, "{spec}");
        }
    }
}
