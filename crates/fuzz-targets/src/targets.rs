//! The promises.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use kollect_api::GroupVersionKind;
use kollect_collect::{ObjectType, Projection, helm_release};
use kollect_expr::attribute::AttributePath;
use kollect_expr::cel::Program;
use kollect_expr::helm::Field;
use kollect_expr::jsonpath::{Path, Shape};
use kollect_expr::{Extent, ReadSet, Removals, Step};
use serde_json::{Value, json};

/// An object with something of everything, for expressions to look at.
static OBJECT: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web", "a.b/c": "d"}},
        "spec": {
            "a": 1, "b": -2.5, "big": 9_007_199_254_740_993_u64, "text": "ü\u{1F600}", "none": null,
            "list": [{"a": "x", "b": [2, 1]}, {"a": 80}, [1, [2]], "z", true],
            "empty": [], "map": {"x": {"y": {"z": 1}}}, "time": "2026-01-02T03:04:05Z",
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
});

/// Messages are one short line.
fn assert_message(error: &impl Display) {
    let message = error.to_string();
    assert!(message.len() <= 512, "{} bytes", message.len());
    assert!(!message.contains(['\n', '\r']), "{message}");
}

/// An expression is compiled or refused, evaluates to JSON or fails, and sees no difference
/// between an object and what it says it reads of it.
pub(crate) fn cel(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let program = match Program::compile(text) {
        Ok(program) => program,
        Err(error) => return assert_message(&error),
    };
    let whole = program.evaluate(&OBJECT);
    match &whole {
        Ok(output) => drop(output.to_value()),
        Err(error) => assert_message(error),
    }
    let projected = program.reads().project(&OBJECT);
    assert_eq!(program.evaluate(&projected), whole, "{text}");
}

/// A path is parsed or refused, finds or fails, and sees no difference between an object and what
/// it says it reads of it. Removing what it finds leaves the object in one piece.
pub(crate) fn json_path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Path::parse(text) {
        Ok(path) => {
            let projected = path.reads().project(&OBJECT);
            for shape in [Shape::Plain, Shape::List] {
                let whole = path.evaluate(&OBJECT, shape);
                if let Err(error) = &whole {
                    assert_message(error);
                }
                assert_eq!(path.evaluate(&projected, shape), whole, "{text}");
            }
        }
        Err(error) => assert_message(&error),
    }
    match Path::parse_removal(text) {
        Ok(path) => {
            let mut removals = Removals::new();
            match removals.add_path(&path, &OBJECT) {
                Ok(()) => {
                    let mut object = OBJECT.clone();
                    removals.apply(&mut object);
                    assert!(object.is_object());
                }
                Err(error) => assert_message(&error),
            }
        }
        Err(error) => assert_message(&error),
    }
    if let Err(error) = AttributePath::parse(text) {
        assert_message(&error);
    }
}

/// A payload is decoded or refused, and what is never exported is not in the document.
pub(crate) fn helm(data: &[u8]) {
    if let Ok(payload) = std::str::from_utf8(data) {
        check_release(payload);
    }
    check_release(&BASE64_STANDARD.encode(data));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(data).expect("memory");
    let stored = BASE64_STANDARD.encode(gzip.finish().expect("memory"));
    check_release(&BASE64_STANDARD.encode(stored));
}

fn check_release(payload: &str) {
    let document = match helm_release::decode(payload) {
        Ok(document) => document,
        Err(error) => return assert_message(&error),
    };
    for denied in ["manifest", "hooks"] {
        assert_eq!(document.get(denied), None);
    }
    for denied in ["templates", "files", "values", "raw"] {
        let chart = document.get("chart");
        assert_eq!(chart.and_then(|chart| chart.get(denied)), None);
    }
    for field in [
        "releaseName",
        "chartVersion",
        "config",
        "info.status.x",
        "chart",
    ] {
        let field = Field::parse(field).expect("a field");
        if let Err(error) = field.get(&document) {
            assert_message(&error);
        }
    }
}

/// Decoders of growing appetite.
static PROJECTIONS: LazyLock<Vec<Projection>> = LazyLock::new(|| {
    use Step::{Any, Member};
    let object_type = || ObjectType::from(&GroupVersionKind::new("apps", "v1", "Deployment"));
    let mut some = ReadSet::nothing();
    some.insert(
        [Member("spec"), Member("list"), Any, Member("a")],
        Extent::Whole,
    );
    some.insert([Member("spec"), Member("a")], Extent::Presence);
    some.insert([Member("metadata"), Member("labels")], Extent::Whole);
    let mut shapes = some.clone();
    shapes.insert([Member("spec")], Extent::Shape);
    shapes.insert([Any, Member("a"), Any], Extent::Presence);
    [ReadSet::nothing(), some, shapes, ReadSet::everything()]
        .iter()
        .map(|reads| Projection::new(object_type(), [reads]))
        .collect()
});

/// Bytes are decoded or refused, and what is decoded is what the reads leave of the whole object.
pub(crate) fn object(data: &[u8]) {
    let whole: Option<Value> = serde_json::from_slice(data).ok();
    for projection in &*PROJECTIONS {
        match projection.decode(data) {
            Ok(object) => {
                if let Some(mut whole) = whole.clone() {
                    whole["apiVersion"] = "apps/v1".into();
                    whole["kind"] = "Deployment".into();
                    assert_eq!(object.value(), &projection.reads().project(&whole));
                }
            }
            Err(error) => assert_message(&error),
        }
    }
}
