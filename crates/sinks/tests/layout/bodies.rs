//! Documents leave in pieces, compressed where asked for.

use std::io::Read;

use kollect_api::InventoryId;
use kollect_inventory::Snapshot;
use kollect_sinks::{
    DocumentOptions,
    layout::{File, Nothing, render::render_all},
};
use serde_json::{Value, json};

use crate::rows::{Item, header, layout};

fn rows(count: usize) -> Snapshot {
    let row = |index: usize| {
        let item = json!({
            "namespace": format!("n{}", index % 7),
            "name": format!("pod-{index}"),
            "kind": "Pod",
            "uid": format!("uid-{index}"),
            "attributes": {"image": format!("nginx:1.{index}"), "text": "a \"quoted\", line\nand more"},
        });
        serde_json::from_value::<Item>(item).expect("an item").row()
    };
    Snapshot::new((0..count).map(row))
}

fn document(spec: &Value, rows: &Snapshot) -> File {
    let layout = layout(spec).expect("a layout");
    let inventory = InventoryId::namespaced("team-a", "web");
    let documents = DocumentOptions::default();
    let header = header(&inventory, &documents);
    let rendering = render_all(&layout, &header, rows, &Nothing).expect("files");
    let mut files: Vec<File> = rendering
        .files()
        .map(|file| file.expect("a file"))
        .collect();
    assert_eq!(files.len(), 1);
    files.remove(0)
}

#[test]
fn a_document_is_never_in_memory_as_a_whole() {
    let rows = rows(5_000);
    for spec in [
        json!({"type": "git"}),
        json!({"type": "git", "serialization": {"format": "json"}}),
        json!({"type": "git", "serialization": {"format": "ndjson"}}),
        json!({"type": "s3", "serialization": {"format": "csv"}}),
    ] {
        let file = document(&spec, &rows);
        let pieces: Vec<Vec<u8>> = file.body.pieces().collect();
        assert!(pieces.len() > 5, "{spec}");
        assert!(pieces.iter().all(|piece| piece.len() < 80_000), "{spec}");
        let mut written = Vec::new();
        file.body.write_to(&mut written).expect("memory");
        assert_eq!(pieces.concat(), written, "{spec}");
        assert_eq!(file.body.into_bytes(), written, "{spec}");
    }
}

#[test]
fn compressed_documents_are_the_documents() {
    for count in [0, 1, 3_000] {
        let rows = rows(count);
        for format in ["json", "csv"] {
            let spec = |compression: &str| json!({"type": "s3", "serialization": {"format": format, "compression": compression}});
            let plain = document(&spec("none"), &rows);
            let gzip = document(&spec("gzip"), &rows);
            let zstd = document(&spec("zstd"), &rows);
            let snappy = document(&spec("snappy"), &rows);
            assert_eq!(gzip.path.as_str(), format!("{}.gz", plain.path));
            assert_eq!(zstd.path.as_str(), format!("{}.zst", plain.path));
            assert_eq!(snappy.path, plain.path, "has no meaning for text");
            assert_eq!(
                document(&spec("gzip"), &rows).body.into_bytes(),
                gzip.body.clone().into_bytes()
            );

            let plain = plain.body.into_bytes();
            assert_eq!(snappy.body.into_bytes(), plain);
            let mut text = Vec::new();
            let bytes = gzip.body.into_bytes();
            flate2::read::GzDecoder::new(&bytes[..])
                .read_to_end(&mut text)
                .expect("gzip");
            assert_eq!(text, plain);
            let bytes = zstd.body.into_bytes();
            assert_eq!(zstd::decode_all(&bytes[..]).expect("zstd"), plain);
        }
    }
}
