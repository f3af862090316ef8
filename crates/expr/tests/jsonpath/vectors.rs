//! What paths yield.

use kollect_expr::Output;
use kollect_expr::jsonpath::{Path, Shape};
use serde_json::{Value, json};

use crate::OBJECT_A;
use crate::table::{Expected, rows};

#[test]
fn paths_yield_what_the_table_says() {
    let mut failures = Vec::new();
    for row in rows(include_str!("../data/jsonpath/vectors.txt")) {
        let (id, path) = (row[0], row[1]);
        for (column, shape) in [(2, Shape::Plain), (3, Shape::List)] {
            let Some(expected) = row.get(column) else {
                continue;
            };
            if let Err(found) = check(path, shape, &Expected::parse(expected)) {
                failures.push(format!(
                    "{id} {path} {shape:?}: expected {expected}, found {found}"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check(path: &str, shape: Shape, expected: &Expected) -> Result<(), String> {
    let path = match (Path::parse(path), expected) {
        (Err(error), Expected::Refused(part)) if mentions(&error.to_string(), part) => {
            return Ok(());
        }
        (Err(error), _) => return Err(error.to_string()),
        (Ok(path), _) => path,
    };
    let result = path.evaluate(&OBJECT_A, shape);
    let projected = path.reads().project(&OBJECT_A);
    assert_eq!(
        path.evaluate(&projected, shape),
        result,
        "{path} on the projection"
    );
    match (result, expected) {
        (Ok(None), Expected::Nothing) => Ok(()),
        (Ok(Some(output)), Expected::Value(value)) if output.to_value() == whole_or(value) => {
            Ok(())
        }
        (Err(error), Expected::Error(part)) if mentions(&error.to_string(), part) => Ok(()),
        (Ok(found), _) => Err(format!("{:?}", found.map(|output| output.to_value()))),
        (Err(error), _) => Err(error.to_string()),
    }
}

/// The text contains `part`; a position in `part` closes the text.
fn mentions(text: &str, part: &str) -> bool {
    let (part, position) = match part.split_once(" (at ") {
        Some((part, position)) => (part, format!(" (at {position}")),
        None => (part, String::new()),
    };
    text.contains(part) && text.ends_with(&position)
}

/// The marker `{"..whole":true}` stands for the object itself.
fn whole_or(value: &Value) -> Value {
    if *value == json!({"..whole": true}) {
        OBJECT_A.clone()
    } else {
        value.clone()
    }
}

#[test]
fn find_yields_all_matches_in_order() {
    let path = Path::parse("$.spec.containers[*].image").expect("a path");
    let matches = path.find(&OBJECT_A).expect("an array");
    assert_eq!(*matches, [&json!("app:1.0"), &json!("side:2.0")]);
    assert_eq!(matches.into_iter().count(), 2);
    assert!(path.find(&json!({})).expect("nothing").is_empty());
}

#[test]
fn results_borrow_from_the_object() {
    let path = Path::parse("$.metadata.labels").expect("a path");
    let Ok(Some(Output::Borrowed(found))) = path.evaluate(&OBJECT_A, Shape::Plain) else {
        panic!("a definite path hands out the value it found");
    };
    assert!(std::ptr::eq(
        found,
        &raw const OBJECT_A["metadata"]["labels"]
    ));
}

#[test]
fn definite_paths_are_names_and_indexes() {
    for path in ["$", "$.a", "$.a[0]['b']", "{.a[-1]}"] {
        assert!(Path::parse(path).expect(path).is_definite(), "{path}");
    }
    for path in [
        "$.a[*]",
        "$.*",
        "$..a",
        "$.a[0:1]",
        "$.a[0,1]",
        "$['a','b']",
        "$.a[?(@.b)]",
    ] {
        assert!(!Path::parse(path).expect(path).is_definite(), "{path}");
    }
}

#[test]
fn x22_the_last_member_is_the_key_of_what_is_found() {
    let cases = [
        ("$.spec.values.password", Some("password")),
        ("$.metadata.labels['a.b/c']", Some("a.b/c")),
        ("$.spec.tokens[0]", Some("tokens")),
        ("$.spec.tokens[*]", Some("tokens")),
        ("$.users[*].password", Some("password")),
        ("$.users[?(@.admin==true)].password", Some("password")),
        ("$..password", Some("password")),
        ("$", None),
        ("$.spec.*", None),
        ("$.spec..", None),
        ("$.spec..[0]", None),
        ("$.spec['user','password']", None),
    ];
    for (path, expected) in cases {
        assert_eq!(
            Path::parse(path).expect(path).last_member(),
            expected,
            "{path}"
        );
    }
}

#[test]
fn filters_compare_booleans_nulls_and_elements_themselves() {
    let object = json!({
        "flags": [{"on": true}, {"on": false}, {"on": "true"}, {"on": null}, {}, 7],
        "words": ["a", "b", 1, null, ["a"]],
        "pairs": [{"a": 1, "b": 1.0}, {"a": 1, "b": 2}, {"a": null, "b": null}, {"a": [], "b": []}],
    });
    let cases = [
        ("$.flags[?(@.on==true)]", json!([{"on": true}])),
        ("$.flags[?(@.on!=true)]", json!([{"on": false}])),
        ("$.flags[?(@.on<true)]", json!(null)),
        (
            "$.flags[?(@.on)]",
            json!([{"on": true}, {"on": false}, {"on": "true"}, {"on": null}]),
        ),
        ("$.words[?(@==\"a\")]", json!(["a"])),
        ("$.words[?(@!='a')]", json!(["b"])),
        ("$.words[?(@)]", json!(["a", "b", 1, null, ["a"]])),
        ("$.words[?(@[0]=='a')]", json!([["a"]])),
        (
            "$.pairs[?(@.a==@.b)]",
            json!([{"a": 1, "b": 1.0}, {"a": null, "b": null}]),
        ),
        ("$.pairs[?(@.a!=@.b)]", json!([{"a": 1, "b": 2}])),
        ("$.pairs[?(@.a<@.b)]", json!([{"a": 1, "b": 2}])),
    ];
    for (text, expected) in cases {
        let path = Path::parse(text).expect(text);
        let found = path.evaluate(&object, Shape::List).expect(text);
        let found = found.map_or(Value::Null, |output| output.to_value());
        assert_eq!(found, expected, "{text}");
    }
}

/// The examples of the documentation, so that it cannot say what is not so.
#[test]
fn the_documented_examples_hold() {
    let page = include_str!("../../../../docs/jsonpath.md");
    let (_, examples) = page
        .split_once("## Examples")
        .expect("a section of examples");
    let (examples, _) = examples.split_once("\n## ").expect("a section behind it");
    let (_, block) = examples.split_once("```json").expect("an object");
    let (object, table) = block.split_once("```").expect("the end of the object");
    let object: Value = serde_json::from_str(object).expect("valid JSON");
    let mut checked = 0;
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = row
            .split(" | ")
            .map(|c| c.trim_matches(['|', ' ', '`']))
            .collect();
        let path = Path::parse(columns[0]).expect(row);
        let found = path.evaluate(&object, Shape::Plain).expect(row);
        match Expected::parse(columns[1]) {
            Expected::Nothing => assert_eq!(found, None, "{row}"),
            Expected::Value(value) => assert_eq!(found.expect(row).to_value(), value, "{row}"),
            other => panic!("{row}: {other:?}"),
        }
        checked += 1;
    }
    assert_eq!(checked, 15);
}
