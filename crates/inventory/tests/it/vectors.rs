//! Vectors of documents, fingerprints and splitting.

use std::num::NonZeroU64;
use std::sync::Arc;

use kollect_inventory::{Document, Pass, Snapshot, Splitter, TargetKind, parts_digest};
use serde_json::Value;

use crate::items::rows_of;

fn table(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("the data file")
}

fn pass_of(case: &Value) -> Arc<Pass> {
    let time = case["exportedAt"].as_str().expect("a time");
    Arc::new(Pass {
        generation: case["generation"].as_i64().expect("a generation"),
        cluster: case["cluster"].as_str().unwrap_or_default().to_owned(),
        ..Pass::at(time.parse().expect("a time"))
    })
}

fn text_of(document: &Document) -> String {
    let mut text = String::new();
    document.write(&mut text);
    text
}

#[test]
fn envelopes() {
    let documents = [
        ("v1.json", include_str!("../data/documents/v1.json")),
        ("v3.json", include_str!("../data/documents/v3.json")),
        ("v4.json", include_str!("../data/documents/v4.json")),
    ];
    for case in table(include_str!("../data/envelopes.json")) {
        let id = &case["id"];
        let rows = Snapshot::new(rows_of(&case["rows"], TargetKind::Target));
        let document = Document::whole(pass_of(&case), rows);
        let (_, expected) = documents
            .iter()
            .find(|(name, _)| case["document"] == *name)
            .expect("a known document");
        assert_eq!(text_of(&document), expected.trim_end(), "{id}");
        assert_eq!(document.checksum().to_string(), case["checksum"], "{id}");
        if let Some(digest) = case["partsDigest"].as_str() {
            assert_eq!(parts_digest(&[document]).to_string(), digest, "{id}");
        }
    }
}

#[test]
fn splitting() {
    let case: Value = serde_json::from_str(include_str!("../data/split.json")).expect("the data");
    let pass = pass_of(&case);
    let splitter = Splitter::new(Snapshot::new(rows_of(&case["rows"], TargetKind::Target)));
    for case in case["cases"].as_array().expect("cases") {
        let ceiling = case["ceiling"].as_u64().and_then(NonZeroU64::new);
        let Some(expected) = case["parts"].as_array() else {
            let error = splitter.split(&pass, ceiling).expect_err("too small");
            let message = error.to_string();
            let start = format!(
                "single item export envelope exceeds maxExportBytes ({})",
                case["ceiling"]
            );
            assert!(message.starts_with(&start), "{message}");
            assert!(
                message.contains(
                    "Deployment default/nginx-0 (uid uid-0) of target default/nginx-deployments"
                ),
                "{message}"
            );
            assert!(message.contains("needs 620 bytes"), "{message}");
            assert!(
                !message.contains("xxx"),
                "values stay out of errors: {message}"
            );
            continue;
        };
        let documents = splitter.split(&pass, ceiling).expect("fits");
        let lengths: Vec<_> = documents
            .iter()
            .map(|document| text_of(document).len())
            .collect();
        assert_eq!(Value::from(lengths), Value::from(expected.clone()));
        assert_eq!(parts_digest(&documents).to_string(), case["digest"]);
        let single = expected.len() == 1;
        for (document, index) in documents.iter().zip(1..) {
            let part = document.part().map(|part| (part.index(), part.total()));
            let expected = (!single).then_some((index, expected.len() as u64));
            assert_eq!(part, expected);
        }
    }
}
