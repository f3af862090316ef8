//! What an evaluation costs in allocations; time is measured by the benchmarks.

use allocation_counter::measure;
use kollect_expr::jsonpath::{Path, Shape};
use serde_json::{Value, json};

use crate::OBJECT_A;

fn allocations(path: &str, object: &Value) -> u64 {
    let path = Path::parse(path).expect(path);
    let mut found = None;
    let cost = measure(|| {
        found = path
            .evaluate(object, Shape::Plain)
            .expect("fits the object");
    });
    assert!(found.is_some(), "{path} must find something to be measured");
    cost.count_total
}

#[test]
fn definite_paths_allocate_nothing() {
    for path in [
        "$.metadata.name",
        "$.metadata.labels",
        "$.spec.containers[-1].image",
        "$",
    ] {
        assert_eq!(allocations(path, &OBJECT_A), 0, "{path}");
    }
}

#[test]
fn a_list_costs_its_own_memory() {
    for path in [
        "$.spec.containers[*].image",
        "$.spec.containers[0,1].name",
        "$.spec.containers[?(@.image!='x')].name",
        "$.metadata.labels.*",
    ] {
        assert_eq!(allocations(path, &OBJECT_A), 1, "{path}");
    }
    let long = json!({"list": vec![json!({"image": "i"}); 500]});
    assert_eq!(allocations("$.list[*].image", &long), 2);
}

#[test]
fn one_match_among_many_allocates_nothing() {
    let path = "$.status.conditions[?(@.type=='Available')].status";
    assert_eq!(allocations(path, &OBJECT_A), 0);
}
