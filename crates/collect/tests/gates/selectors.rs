//! Compiled label selectors mean what the API says.

use std::collections::BTreeMap;

use kollect_api::selector::{LabelRequirement, LabelSelector};
use kollect_collect::gates::{ObjectView, Selector};
use proptest::prelude::*;
use serde_json::json;

fn selector() -> impl Strategy<Value = LabelSelector> {
    let key = || prop_oneof![4 => "[ab]", 1 => Just("not a key".to_owned())];
    let operator = prop_oneof![
        Just("In"),
        Just("NotIn"),
        Just("Exists"),
        Just("DoesNotExist"),
        Just("Bogus")
    ];
    let values = prop::collection::vec("[xy]", 0..3);
    let requirement =
        (key(), operator, values).prop_map(|(key, operator, values)| LabelRequirement {
            key,
            operator: operator.to_owned(),
            values,
        });
    (
        prop::collection::btree_map(key(), "[xy]", 0..3),
        prop::collection::vec(requirement, 0..3),
    )
        .prop_map(|(match_labels, match_expressions)| LabelSelector {
            match_labels,
            match_expressions,
        })
}

proptest! {
    #[test]
    fn a_selector_matches_as_its_source_does_or_does_not_compile(
        selector in selector(),
        labels in prop::collection::btree_map("[ab]", "[xy]", 0..3),
    ) {
        let object = json!({"metadata": {"labels": labels}});
        match Selector::compile(&selector) {
            Ok(compiled) => {
                prop_assert_eq!(compiled.matches(&labels), selector.matches(&labels));
                prop_assert_eq!(compiled.matches(&ObjectView::new(&object)), selector.matches(&labels));
                prop_assert_eq!(compiled.is_empty(), selector.is_empty());
            }
            // What does not compile never matches anything either.
            Err(_) => prop_assert!(!selector.matches(&labels)),
        }
    }
}

#[test]
fn equal_meanings_compile_to_equal_selectors() {
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let requirement = |key: &str, values: &[&str]| LabelRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let one = LabelSelector {
        match_labels: labels(&[("a", "1"), ("b", "2")]),
        match_expressions: vec![requirement("c", &["x", "y"]), requirement("d", &["z"])],
    };
    let other = LabelSelector {
        match_expressions: vec![requirement("d", &["z", "z"]), requirement("c", &["y", "x"])],
        ..one.clone()
    };
    let [one, other] = [one, other].map(|selector| Selector::compile(&selector).expect("valid"));
    assert_eq!(one, other);
    assert_eq!(one.query(), "a=1,b=2,c in (x,y),d in (z)");
}
