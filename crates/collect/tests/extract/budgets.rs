//! A profile as a whole is bounded, whatever its expressions do one by one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kollect_collect::Extractor;
use kollect_collect::extract::{Class, Settings};
use serde_json::{Value, json};

use crate::support::{extract, profile};

fn of(attributes: &[Value]) -> Extractor {
    let spec =
        json!({"targetGVK": {"version": "v1", "kind": "ConfigMap"}, "attributes": attributes});
    Extractor::new(&profile(&BTreeMap::new(), spec), &Settings::default())
}

fn attributes(count: usize, optional: bool, path: impl Fn(usize) -> String) -> Vec<Value> {
    (0..count)
        .map(|at| json!({"name": format!("a{at}"), "path": path(at), "optional": optional}))
        .collect()
}

/// Doubles a text of the object until it has a few mebibytes.
fn doubling(_: usize) -> String {
    let mut text = "object.data.a".to_owned();
    for level in 0..11 {
        text = format!("cel.bind(x{level}, {text}, x{level} + x{level})");
    }
    format!("cel:{text}")
}

#[test]
fn a3_many_attributes_that_double_texts_stay_within_a_few_mebibytes() {
    let object = json!({"metadata": {"name": "n"}, "data": {"a": "x".repeat(1000)}});
    for optional in [false, true] {
        let extractor = of(&attributes(256, optional, doubling));
        let mut result = Ok(Value::Null);
        let used = allocation_counter::measure(|| result = extract(&extractor, &object));
        let error = result.expect_err("all attributes together are too large");
        assert!(error.is_over_budget(), "{error}");
        assert!(
            error.to_string().contains("all expressions together"),
            "{error}"
        );
        assert!(used.bytes_max < 12 << 20, "{used:?}");
    }
}

#[test]
fn a3_matches_of_many_paths_are_counted_too() {
    let list: Vec<Value> = (0..20_000).map(Value::from).collect();
    let object = json!({"metadata": {"name": "n"}, "data": {"list": list}});
    let extractor = of(&attributes(256, true, |_| "$.data.list[*]".to_owned()));
    let mut result = Ok(Value::Null);
    let used = allocation_counter::measure(|| result = extract(&extractor, &object));
    assert!(result.expect_err("too much").is_over_budget());
    assert!(used.bytes_max < 12 << 20, "{used:?}");
}

#[test]
fn a3_a_profile_with_too_many_attributes_is_not_compiled() {
    let extractor = of(&attributes(1000, true, |at| {
        format!(
            "cel:object.metadata.name.matches('^(a{{{}}}|b)*$')",
            500 + at
        )
    }));
    let object = json!({"metadata": {"name": "n"}});
    let error = extract(&extractor, &object).expect_err("refused");
    assert_eq!(error.class(), Class::Profile);
    assert!(
        error.to_string().contains("1000 entries, at most 256"),
        "{error}"
    );
}

#[test]
fn a3_a_profile_of_patterns_is_refused_in_little_time() {
    let started = Instant::now();
    let extractor = of(&attributes(256, true, |at| {
        format!(
            "cel:object.metadata.name.matches('^(a{{{}}}|b[0-9a-f]{{40}})*$')",
            500 + at
        )
    }));
    let took = started.elapsed();
    let object = json!({"metadata": {"name": "n"}});
    let error = extract(&extractor, &object).expect_err("refused");
    assert_eq!(error.class(), Class::Profile);
    assert!(
        error.to_string().contains("too expensive to compile"),
        "{error}"
    );
    let factor = if cfg!(debug_assertions) { 30 } else { 1 };
    assert!(took < Duration::from_millis(800) * factor, "{took:?}");
}
