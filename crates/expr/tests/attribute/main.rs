//! The choice of the language, the Secret guard and the fields of Helm releases.

mod budgets;
#[path = "../jsonpath/table.rs"]
mod table;

use kollect_expr::attribute::{AttributePath, EvalError, PathError};
use kollect_expr::jsonpath::{Path, Shape};
use kollect_expr::{Extent, JsonType, Output, ReadSet, Step, helm};
use proptest::prelude::*;
use serde_json::{Value, json};
use table::{Expected, rows};

fn language(path: &AttributePath) -> &'static str {
    match path {
        AttributePath::Cel(_) => "CEL",
        AttributePath::JsonPath(_) => "JSONPath",
        AttributePath::Helm(_) => "Helm",
    }
}

#[test]
fn the_prefix_decides_the_language() {
    for row in rows(include_str!("../data/attribute/paths.txt")) {
        let (id, text) = (row[0], row[1]);
        match (AttributePath::parse(text), Expected::parse(row[2])) {
            (Ok(path), Expected::Value(expected)) => {
                assert_eq!(language(&path), expected, "{id} {text}");
            }
            (Err(error), Expected::Refused(start)) => {
                let message = error.to_string();
                assert!(message.starts_with(&start), "{id} {text}: {message}");
            }
            (found, expected) => panic!("{id} {text}: expected {expected:?}, found {found:?}"),
        }
    }
}

#[test]
fn the_secret_guard_looks_at_what_is_read() {
    for row in rows(include_str!("../data/attribute/secret-guard.txt")) {
        let (id, text, expected) = (row[0], row[1], row[2]);
        let path = AttributePath::parse(text).expect(text);
        let found = if path.reads_secret_data() {
            "guarded"
        } else {
            "free"
        };
        assert_eq!(found, expected, "{id} {text}");
    }
}

#[test]
fn helm_fields_are_found_in_the_release() {
    let release: Value =
        serde_json::from_str(include_str!("../data/attribute/release.json")).expect("valid JSON");
    for row in rows(include_str!("../data/attribute/helm.txt")) {
        let (id, field) = (row[0], row[1]);
        let found = helm::Field::parse(field).expect(field).get(&release);
        match (found, Expected::parse(row[2])) {
            (Ok(None), Expected::Nothing) => {}
            (Ok(Some(output)), Expected::Value(value)) => {
                assert_eq!(output.to_value(), value, "{id} {field}");
            }
            (Err(error), Expected::Error(part)) => {
                let text = error.to_string();
                assert!(text.contains(&part), "{id} {field}: {text}");
            }
            (found, expected) => panic!("{id} {field}: expected {expected:?}, found {found:?}"),
        }
    }
}

#[test]
fn x16_the_parent_of_denied_members_comes_without_them() {
    let chart = helm::Field::parse("chart").expect("a field");
    let document = json!({"chart": {
        "z": 1, "values": {}, "a": 2, "templates": 1, "files": 1, "raw": 1,
    }});
    let Ok(Some(Output::Map(members))) = chart.get(&document) else {
        panic!("a map without the denied member")
    };
    let names: Vec<_> = members.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a", "z"], "keys ascend");

    // Where nothing is denied, nothing is copied.
    for (field, document) in [
        ("chart", json!({"chart": {"metadata": {}}})),
        ("chart", json!({"chart": "text"})),
        (
            "chart.metadata",
            json!({"chart": {"metadata": {"values": 1}}}),
        ),
        ("config", json!({"config": {"values": 1, "templates": 2}})),
    ] {
        let found = helm::Field::parse(field).expect(field).get(&document);
        assert!(
            matches!(found, Ok(Some(Output::Borrowed(_)))),
            "{field} {document}"
        );
    }
}

#[test]
fn a15_notes_need_the_permission() {
    for (field, needed) in [
        ("config", true),
        ("config.db", true),
        ("info.notes", true),
        ("info.notes.x", true),
        ("info", false),
        ("info.status", false),
        ("notes", false),
    ] {
        let path = AttributePath::parse(&format!("helm:release.{field}")).expect(field);
        assert_eq!(path.reads_secret_data(), needed, "{field}");
    }
    let info = helm::Field::parse("info").expect("a field");
    let document = json!({"info": {"notes": "first password: x", "status": "deployed"}});
    let without = info.get(&document).expect("fits").expect("there");
    assert_eq!(without.to_value(), json!({"status": "deployed"}));
    let with = info.get_permitted(&document).expect("fits").expect("there");
    assert_eq!(with.to_value(), document["info"]);
}

#[test]
fn documents_of_any_shape_are_no_crash() {
    let field = helm::Field::parse("info.status").expect("a field");
    assert_eq!(field.get(&Value::Null), Ok(None));
    assert_eq!(field.get(&json!({"info": null})), Ok(None));
    for (document, place, found) in [
        (json!("text"), "the release document", JsonType::String),
        (json!([1]), "the release document", JsonType::Array),
        (json!({"info": [1]}), "info", JsonType::Array),
        (json!({"info": true}), "info", JsonType::Boolean),
    ] {
        let place = place.to_owned();
        assert_eq!(
            field.get(&document),
            Err(helm::EvalError::NotAnObject { place, found })
        );
    }
}

#[test]
fn helm_paths_read_the_stored_release_only() {
    let path = AttributePath::parse("helm:release.status").expect("a field");
    let mut expected = ReadSet::nothing();
    expected.insert(
        [Step::Member("data"), Step::Member("release")],
        Extent::Whole,
    );
    assert_eq!(path.reads(), expected);
    assert!(!path.reads_secret_data());
}

#[test]
fn reads_are_those_of_the_language() {
    let text = "$.spec.containers[*].image";
    let path = AttributePath::parse(text).expect(text);
    assert_eq!(path.reads(), *Path::parse(text).expect(text).reads());
    let path = AttributePath::parse("cel:object.spec.replicas").expect("an expression");
    assert!(path.reads().may_read_root_member("spec"));
    assert!(!path.reads().may_read_root_member("status"));
}

#[test]
fn x22_the_key_of_the_value_is_known_where_the_path_says_it() {
    let cases = [
        ("$.spec.values.password", Some("password")),
        ("{.spec['api.token']}", Some("api.token")),
        ("$.spec.users[*].password", Some("password")),
        ("helm:release.config.db.password", Some("password")),
        ("helm:release.chartVersion", Some("version")),
        ("cel:object.spec.password", None),
        ("$.spec.*", None),
    ];
    for (text, expected) in cases {
        let path = AttributePath::parse(text).expect(text);
        assert_eq!(path.sensitive_name(), expected, "{text}");
    }
}

#[test]
fn messages_say_the_language_once_and_stay_short() {
    let long = format!("cel:{}", "nosuch".repeat(300));
    let word = format!("{}:x", "w".repeat(3000));
    for (text, prefix) in [
        ("$.a[", "parse JSONPath: "),
        ("cel:1 +", "compile CEL: "),
        (long.as_str(), "compile CEL: "),
        (word.as_str(), "unknown prefix \"www"),
        ("cel:\n1 +\n\n+ 'x", "compile CEL: "),
    ] {
        let error = AttributePath::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(prefix), "{error}");
        assert!(error.len() <= 256 && !error.contains('\n'), "{error:?}");
    }
    let object = json!({"a": {"b": 1}});
    let path = Path::parse("$.a[*]").expect("a path");
    let error = EvalError::from(path.evaluate(&object, Shape::Plain).expect_err("an object"));
    assert_eq!(
        error.to_string(),
        "eval JSONPath: [*] needs an array, but $.a is an object"
    );
}

#[test]
fn x19_helm_messages_hold_no_values() {
    const MARKER: &str = "MARKER-c2VjcmV0";
    let document = json!({"config": MARKER, "info": [MARKER], "name": {"x": MARKER}});
    for field in ["config.db", "config.db.x", "info.status", "name.x.y"] {
        let error = helm::Field::parse(field).expect(field).get(&document);
        let error = EvalError::from(error.expect_err(field));
        assert!(!error.to_string().contains(MARKER), "{error}");
        assert!(!format!("{error:?}").contains(MARKER), "{error:?}");
    }
    let long = helm::Field::parse(&"config.".repeat(500)[..3499]).expect("names");
    let mut document = json!(MARKER);
    for _ in 0..100 {
        document = json!({"config": document});
    }
    let error = long.get(&document).expect_err("too deep").to_string();
    assert!(error.len() <= 256 && !error.contains(MARKER), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_compiled_or_refused_with_a_short_message(
        prefix in prop::sample::select(vec!["", "cel:", "helm:release.", "$", "{", "object"]),
        text in any::<String>(),
    ) {
        if let Err(error) = AttributePath::parse(&format!("{prefix}{text}")) {
            let error = error.to_string();
            prop_assert!(error.len() <= 256, "{}", error);
            prop_assert!(!error.contains('\n'), "{}", error);
        }
    }
}

#[test]
fn compiled_paths_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<AttributePath>();
    shared::<PathError>();
}
