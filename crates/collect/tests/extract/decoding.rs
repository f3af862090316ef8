//! Objects from bytes.

use kollect_watch::ObjectContent;
use std::collections::BTreeMap;

use kollect_api::GroupVersionKind;
use kollect_collect::{DecodeError, Extractor, ObjectType, Projection, extract::Settings};
use kollect_expr::ReadSet;
use serde_json::{Value, json};

use crate::support::{extract, profile, simple_profile};

fn deployments() -> ObjectType {
    ObjectType::from(&GroupVersionKind::new("apps", "v1", "Deployment"))
}

/// A projection for profiles that read these paths.
fn projection(paths: &[&str]) -> Projection {
    let attributes: Vec<(&str, &str)> = paths.iter().map(|path| (*path, *path)).collect();
    let extractor = Extractor::new(&simple_profile(&attributes), &Settings::default());
    Projection::new(deployments(), [extractor.reads()])
}

fn decoded(projection: &Projection, json: &str) -> Value {
    projection
        .decode(json.as_bytes())
        .expect("an object")
        .value()
        .clone()
}

#[test]
fn only_what_is_read_is_decoded() {
    let projection = projection(&["$.spec.replicas", "cel:object.spec.list.map(e, e.a)"]);
    let object = r#"{
        "metadata": {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "7",
            "labels": {"app": "web", "kollect.dev/watch": "enabled"},
            "managedFields": [{"manager": "m"}]},
        "spec": {"replicas": 3, "list": [{"a": 1, "b": 2}, "text", null], "other": {"x": 1}},
        "status": {"x": 1}
    }"#;
    assert_eq!(
        decoded(&projection, object),
        json!({
            "metadata": {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "7",
                "labels": {"kollect.dev/watch": "enabled"}},
            "spec": {"replicas": 3, "list": [{"a": 1}, "text", null]},
        })
    );
}

#[test]
fn objects_say_who_they_are() {
    let projection = projection(&["$.metadata.labels"]);
    let json = br#"{"metadata":{"name":"web","namespace":"a","uid":"u","resourceVersion":"7",
        "labels":{"app":"web","n":5}}}"#;
    let object = projection.decode(json).expect("an object");
    assert_eq!(object.name(), "web");
    assert_eq!(object.namespace(), "a");
    assert_eq!(object.uid(), "u");
    assert_eq!(object.resource_version(), "7");
    assert_eq!(object.label("app"), Some("web"));
    assert_eq!(object.label("nope"), None);
    assert_eq!(object.labels().collect::<Vec<_>>(), [("app", "web")]);
    let bare = projection
        .decode(br#"{"metadata":{"name":"node"}}"#)
        .expect("an object");
    assert_eq!(
        (bare.namespace(), bare.uid(), bare.resource_version()),
        ("", "", "")
    );
    assert_eq!(bare.labels().count(), 0);
}

/// Items of lists lack their type, and metadata-only objects call themselves something else.
#[test]
fn the_type_does_not_depend_on_how_an_object_came() {
    let typed = projection(&["$.kind", "$.apiVersion"]);
    let forms = [
        r#"{"metadata":{"name":"n"}}"#,
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"n"}}"#,
        r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"n"}}"#,
    ];
    for form in forms {
        let object = decoded(&typed, form);
        assert_eq!(
            (&object["apiVersion"], &object["kind"]),
            (&json!("apps/v1"), &json!("Deployment"))
        );
    }
    // Where nobody reads the type, it is not there.
    assert_eq!(
        decoded(&projection(&[]), forms[2]),
        json!({"metadata": {"name": "n"}})
    );

    let cases = [("", "v1"), ("core", "v1"), ("apps", "apps/v1")];
    for (group, api_version) in cases {
        let gvk = GroupVersionKind::new(group, "v1", "X");
        assert_eq!(ObjectType::from(&gvk).api_version, api_version);
    }
}

#[test]
fn metadata_alone_is_enough_for_some_profiles() {
    let cases = [
        (true, vec![]),
        (
            true,
            vec!["$.metadata.labels", "cel:object.metadata.name", "$.kind"],
        ),
        (false, vec!["$.metadata.labels", "$.spec.replicas"]),
        (false, vec!["cel:has(object.status)"]),
        (false, vec!["cel:size(object)"]),
        (false, vec!["$.*.name"]),
        (false, vec!["$..name"]),
        (false, vec!["cel:object"]),
    ];
    for (expected, paths) in cases {
        let metadata = projection(&paths).content() == ObjectContent::Metadata;
        assert_eq!(metadata, expected, "{paths:?}");
    }
}

#[test]
fn bytes_that_are_something_else_are_refused_without_showing_them() {
    use DecodeError::{NoName, NotAnObject, Truncated};

    let projection = projection(&["$.spec.replicas"]);
    let objects: [(&[u8], DecodeError); 9] = [
        (b"", Truncated),
        (b"{\"metadata\":{\"name\":\"s3cr3t\"", Truncated),
        (
            b"{\"metadata\":{\"name\":s3cr3t}}",
            DecodeError::Syntax {
                line: 1,
                column: 21,
            },
        ),
        (
            b"{\"metadata\":{\"name\":\"a\"}} s3cr3t",
            DecodeError::Syntax {
                line: 1,
                column: 27,
            },
        ),
        (b"[\"s3cr3t\"]", NotAnObject),
        (b"\"s3cr3t\"", NotAnObject),
        (b"{}", NoName),
        (b"{\"metadata\":{\"name\":5}}", NoName),
        (b"{\"metadata\":\"s3cr3t\"}", NoName),
    ];
    for (bytes, expected) in objects {
        let error = projection.decode(bytes).expect_err("no object");
        assert_eq!(error, expected, "{}", String::from_utf8_lossy(bytes));
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
    }
}

/// As a watch sees it, and so a person in a status.
#[test]
fn c14_a_watch_is_told_where_an_object_is_broken() {
    let projection = projection(&["$.spec.replicas"]);
    let said = |json: &str| {
        let decoded = kollect_watch::Decode::decode(&projection, json.as_bytes());
        decoded.map(drop).expect_err("no object").to_string()
    };
    // In what is read and in what is skipped.
    for json in [
        r#"{"metadata":{"name":"web"},"spec":{"replicas":hunter2}}"#,
        r#"{"metadata":{"name":"web"},hunter2}"#,
        r#"{"metadata":{"name":"web"},"status":{"conditions":[{"type":hunter2}]}}"#,
    ] {
        // The parser counts the bytes it has looked at.
        let at = json.find("hunter2").expect("it is there");
        let places = [at, at + 1];
        let expected =
            places.map(|at| format!("cannot decode the object at byte {at}: this is no JSON"));
        let said = said(json);
        assert!(expected.contains(&said), "{said}, not at {at}");
    }
    // The place says nothing where something is missing.
    for (json, expected) in [
        (
            r#"{"metadata":{"name":"web"}"#,
            "cannot decode the object: the text ends too early",
        ),
        (
            "[]",
            "cannot decode the object: this is no Kubernetes object",
        ),
    ] {
        assert_eq!(said(json), expected);
    }
}

#[test]
fn strange_json_is_decoded_or_refused_but_never_a_crash() {
    let narrow = projection(&["$.spec.replicas"]);
    let wide = Projection::new(deployments(), [&ReadSet::everything()]);
    let deep = |levels: usize| {
        let open = "[".repeat(levels);
        let close = "]".repeat(levels);
        format!(r#"{{"metadata":{{"name":"a"}},"x":{open}{close},"spec":{{"replicas":1}}}}"#)
    };
    // What nobody reads may be as deep as it likes; what is read may not.
    assert_eq!(decoded(&narrow, &deep(100_000))["spec"]["replicas"], 1);
    assert!(matches!(
        wide.decode(deep(100_000).as_bytes()),
        Err(DecodeError::Syntax { .. })
    ));
    assert!(wide.decode(deep(100).as_bytes()).is_ok());

    // The last of equal keys counts, as everywhere.
    let twice = r#"{"metadata":{"name":"a"},"spec":{"replicas":1},"metadata":{"name":"b"},"spec":{"replicas":{"x":1},"replicas":2}}"#;
    for projection in [&narrow, &wide] {
        let object = decoded(projection, twice);
        assert_eq!(
            (&object["metadata"]["name"], &object["spec"]["replicas"]),
            (&json!("b"), &json!(2))
        );
    }

    let numbers = [
        ("18446744073709551615", Some(json!(u64::MAX))),
        (
            "18446744073709551616",
            Some(json!(18_446_744_073_709_551_616.0)),
        ),
        ("-9223372036854775808", Some(json!(i64::MIN))),
        ("-0", Some(json!(-0.0))),
        ("1e308", Some(json!(1e308))),
        ("1e999", None),
        ("01", None),
        ("NaN", None),
    ];
    for (text, expected) in numbers {
        let json = format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"replicas":{text}}}}}"#);
        for projection in [&narrow, &wide] {
            let number = projection.decode(json.as_bytes()).ok();
            let number = number.map(|object| object.value()["spec"]["replicas"].clone());
            assert_eq!(number, expected, "{text}");
        }
    }

    let mut not_text = br#"{"metadata":{"name":"a"},"x":"?","spec":{"replicas":"?"}}"#.to_vec();
    not_text[30] = 0xff;
    assert!(
        narrow.decode(&not_text).is_ok(),
        "what nobody reads is not looked at"
    );
    assert!(wide.decode(&not_text).is_err());
    let last = not_text.len() - 4;
    not_text[last] = 0xff;
    assert!(narrow.decode(&not_text).is_err());
}

/// Wildcards at many depths combine to more places than anybody wants to plan for.
#[test]
fn a_profile_of_many_wildcards_is_decoded_whole() {
    let attributes: Vec<Value> = (0..40)
        .map(|at| {
            let steps: String = (0..40)
                .map(|step| if step == at { ".a" } else { ".*" })
                .collect();
            json!({"name": format!("a{at}"), "path": format!("${steps}"), "optional": true})
        })
        .collect();
    let spec = json!({"targetGVK": {"version": "v1", "kind": "X"}, "attributes": attributes});
    let extractor = Extractor::new(&profile(&BTreeMap::new(), spec), &Settings::default());
    let projection = Projection::new(deployments(), [extractor.reads()]);
    assert!(projection.reads().is_everything());
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "n"}});
    let decoded = projection
        .decode(object.to_string().as_bytes())
        .expect("an object");
    assert_eq!(extract(&extractor, decoded.value()), Ok(json!({})));
}
