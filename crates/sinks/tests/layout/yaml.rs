//! Whatever a value is, its YAML reads back as that value.

use kollect_api::InventoryId;
use kollect_inventory::Snapshot;
use kollect_sinks::{
    DocumentOptions,
    layout::{Nothing, render::render_all},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::rows::{Item, header, layout};

/// Texts that a YAML reader may take for something else.
fn texts() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "",
        " ",
        "~",
        "null",
        "Null",
        "true",
        "Yes",
        "no",
        "off",
        "y",
        "N",
        "1",
        "-1",
        "+1",
        "1.0",
        "1.",
        ".5",
        "1e3",
        "1E+3",
        "0x1F",
        "0o17",
        "017",
        "0b1",
        "1_000",
        ".inf",
        "-.Inf",
        ".NaN",
        "1:30",
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        "12:30:45",
        "<<",
        "=",
        "-",
        "--",
        "---",
        "...",
        "- a",
        "a: b",
        "a:",
        ":a",
        "a #b",
        "#a",
        "@a",
        "`a`",
        "%a",
        "!a",
        "!!str a",
        "&a",
        "*a",
        "|",
        ">",
        "[a]",
        "{a}",
        "a, b",
        "'a'",
        "\"a\"",
        "it's",
        "a\\b",
        "\\n",
        "a\tb",
        "\t",
        "a\n",
        "a\nb",
        "\n",
        "\n\n",
        "\na",
        " a\nb",
        "a\n b\n",
        "a\n\n",
        "a\n\nb",
        "a \nb ",
        "a\n ",
        "# a\nb",
        "---\na",
        "a\r\nb",
        "\r",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{0}",
        "\u{7f}",
        "ü",
        "日本",
        "🦀",
        "\u{a0}a",
        "?",
        "? a",
        "?a",
        "a ?",
        "key: [1, 2]",
        "  leading",
        "trailing  ",
        "\u{fffd}",
        "- a\n- b\n",
        "a:\n  b: c\n",
        "\u{e000}",
        "\u{ffff}",
    ]);
    prop_oneof![
        3 => odd.prop_map(str::to_owned),
        2 => "[ab:#\\- \n\t'\"0-9.eE+]{0,12}",
        1 => any::<String>(),
        1 => "\\PC{0,20}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        any::<u64>().prop_map(|number| json!(number)),
        prop::num::f64::NORMAL.prop_map(|number| json!(number)),
        (-1000..1000_i32).prop_map(|number| json!(f64::from(number) / 8.0)),
        texts().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(texts(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Equal as YAML sees it: a number is what it amounts to.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_i64().is_some_and(|a| b.as_i64() == Some(a))
                || a.as_u64().is_some_and(|a| b.as_u64() == Some(a))
                || a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn yaml_of(attributes: &Map<String, Value>, mode: &str) -> String {
    let item = Item {
        target_name: None,
        namespace: "team-a".to_owned(),
        name: "x".to_owned(),
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        uid: "u".to_owned(),
        attributes: Some(attributes.clone()),
    };
    let layout = layout(&json!({"type": "git", "layout": {"mode": mode, "content": "attributes"}}));
    let layout = layout.expect("a layout");
    let inventory = InventoryId::namespaced("team-a", "web");
    let rows = Snapshot::new([item.row()]);
    let documents = DocumentOptions::default();
    let header = header(&inventory, &documents);
    let rendering = render_all(&layout, &header, &rows, &Nothing).expect("files");
    let file = rendering.files().next().expect("a file").expect("a path");
    String::from_utf8(file.body.into_bytes()).expect("text")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn yaml_reads_back(
        attributes in prop::collection::btree_map(texts(), values(), 0..6),
    ) {
        let attributes: Map<String, Value> = attributes.into_iter().collect();
        let expected = Value::Object(attributes.clone());
        let yaml = yaml_of(&attributes, "perResource");
        let found: Value = serde_saphyr::from_str(&yaml)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{yaml}")))?;
        prop_assert!(same(&found, &expected), "{yaml}\n{found}\n{expected}");

        // In a document everything stands four columns further to the right, in a list.
        let yaml = yaml_of(&attributes, "document");
        let found: Value = serde_saphyr::from_str(&yaml)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{yaml}")))?;
        prop_assert!(same(&found[0]["attributes"], &expected), "{yaml}\n{found}\n{expected}");
    }
}

#[test]
fn long_keys_have_their_own_form() {
    let key = "k".repeat(2_000);
    let attributes: Map<String, Value> = [(key, json!({"a": [1, "x\ny\n"]}))].into_iter().collect();
    let yaml = yaml_of(&attributes, "perResource");
    let found: Value = serde_saphyr::from_str(&yaml).expect("YAML");
    assert_eq!(found, Value::Object(attributes));
}
