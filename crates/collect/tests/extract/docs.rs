//! What the documentation shows is true.

use std::fs;
use std::path::Path;

use kollect_api::KollectProfile;
use kollect_api::profile::PrunePreset;
use kollect_collect::Extractor;
use kollect_collect::extract::{DEFAULT_MAX_ROW_BYTES, Settings};
use kollect_collect::prune::{DEFAULTS, IDENTITY, preset};
use serde_json::Value;

use crate::support::{extract, yaml};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/profiles.md");
    fs::read_to_string(path).expect("the documentation")
}

/// The code blocks that begin with this line.
fn blocks<'d>(document: &'d str, fence: &str) -> Vec<&'d str> {
    let start = format!("```{fence}\n");
    let blocks = document.split(start.as_str()).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect()
}

#[test]
fn examples_give_the_rows_they_show() {
    let document = document();
    let profiles = blocks(&document, "yaml profile");
    let objects = blocks(&document, "yaml object");
    let rows = blocks(&document, "json row");
    assert!(profiles.len() >= 2);
    assert_eq!((profiles.len(), objects.len()), (rows.len(), rows.len()));
    for ((profile, object), row) in profiles.iter().zip(objects).zip(rows) {
        let profile: KollectProfile = yaml(profile);
        let object: Value = yaml(object);
        let expected: Value = serde_json::from_str(row).expect("a row");
        let extractor = Extractor::new(&profile, &Settings::default());
        assert_eq!(extract(&extractor, &object), Ok(expected));
    }
}

#[test]
fn the_lists_of_pointers_are_those_of_the_code() {
    let document = document();
    let lists = [
        ("defaults", DEFAULTS),
        ("`GitOps`", preset(PrunePreset::GitOps)),
        ("`ArgoCD`", preset(PrunePreset::ArgoCD)),
        ("`Flux`", preset(PrunePreset::Flux)),
    ];
    for (name, pointers) in lists {
        let listed: Vec<String> = pointers.iter().map(|text| format!("`{text}`")).collect();
        let row = format!("| {name} | {} |", listed.join(", "));
        assert!(document.contains(&row), "{row}");
    }
    for pointer in IDENTITY {
        assert!(document.contains(&format!("`{pointer}`")), "{pointer}");
    }
}

#[test]
fn the_limits_are_those_of_the_code() {
    assert_eq!(DEFAULT_MAX_ROW_BYTES, 256 * 1024);
    assert_eq!(kollect_expr::jsonpath::MAX_BYTES, 4096);
    assert_eq!(kollect_expr::jsonpath::MAX_STEPS, 256);
    assert_eq!(kollect_expr::jsonpath::MAX_WORK, 1_000_000);
    assert_eq!(kollect_collect::helm_release::MAX_DOCUMENT_BYTES, 8 << 20);
    assert_eq!(kollect_collect::series::MAX_COMBINATIONS, 200);
}
