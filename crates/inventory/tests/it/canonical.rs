//! Canonical JSON: vectors for its two hard parts, and its laws.

use kollect_inventory::canonical::{self, Length, View};
use kollect_inventory::{CanonicalJson, CanonicalRef};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::any;

fn canonical(value: &Value) -> String {
    CanonicalJson::from(value).as_str().to_owned()
}

#[test]
fn floats() {
    for line in include_str!("../data/floats.tsv").lines().skip(1) {
        let (bits, expected) = line.split_once('\t').expect("two columns");
        let float = f64::from_bits(u64::from_str_radix(bits, 16).expect("sixteen digits"));
        let mut text = String::new();
        canonical::float(&mut text, float).expect("finite");
        assert_eq!(text, expected, "{bits}");
    }
}

#[test]
fn what_is_not_finite_has_no_form() {
    for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut text = String::new();
        assert!(canonical::float(&mut text, float).is_err());
        assert_eq!(text, "");
        let json = CanonicalJson::build(|slot| assert!(slot.float(float).is_err()));
        assert!(json.borrowed().is_null());
    }
}

#[test]
fn strings() {
    let cases: Vec<Map<String, Value>> =
        serde_json::from_str(include_str!("../data/strings.json")).expect("the data file");
    for case in cases {
        let mut text = String::new();
        canonical::string(&mut text, case["text"].as_str().expect("text"));
        assert_eq!(text, case["canonical"].as_str().expect("canonical"));
    }
}

#[test]
fn integers_keep_all_their_digits() {
    assert_eq!(
        canonical(&json!([u64::MAX, i64::MIN, 0, -1])),
        "[18446744073709551615,-9223372036854775808,0,-1]"
    );
}

#[test]
fn keys_are_in_byte_order_at_every_level() {
    let value = json!({"b": {"é": 1, "z": 2, "A": 3}, "a": [{"y": 1, "x": 2}], "aa": 0, "": 1});
    assert_eq!(
        canonical(&value),
        r#"{"":1,"a":[{"x":2,"y":1}],"aa":0,"b":{"A":3,"z":2,"é":1}}"#
    );
}

#[test]
fn a_tree_is_written_piece_by_piece_and_always_closed() {
    let json = CanonicalJson::build(|slot| {
        let mut object = slot.object();
        object.member("enabled").bool(true);
        let mut list = object.member("list").array();
        list.item().signed(-1);
        list.item().string("<");
        list.item().object().end();
        // Left empty: becomes null, and everything open is closed by going out of scope.
        let _ = list.item();
        drop(list);
        let spliced = CanonicalJson::from(&json!([2.0]));
        object.member("spliced").canonical(spliced.borrowed());
        object.member("tree").value(&json!({"b": 1, "a": 2}));
        object.member("unsigned").unsigned(7);
    });
    assert_eq!(
        json.as_str(),
        r#"{"enabled":true,"list":[-1,"\u003c",{},null],"spliced":[2],"tree":{"a":2,"b":1},"unsigned":7}"#
    );
}

#[test]
#[should_panic(expected = "unique and ascending")]
fn keys_out_of_order_are_refused() {
    let mut text = String::new();
    let mut object = canonical::Slot::new(&mut text).object();
    object.member("b").null();
    object.member("a").null();
}

#[test]
fn single_attributes_are_read_without_a_tree() {
    let json = CanonicalJson::from(&json!({
        "a\"b": 1, "labels": {"app": "x", "nested": {"replicas": 9}}, "list": [1, "],}", {"k": []}],
        "negative": -1.5, "no": null, "ok": true, "replicas": 3, "text": "a<b"
    }));
    let row = json.borrowed();
    assert_eq!(
        row.get("replicas").and_then(CanonicalRef::as_f64),
        Some(3.0)
    );
    assert_eq!(
        row.get("negative").and_then(CanonicalRef::as_f64),
        Some(-1.5)
    );
    assert_eq!(row.get("a\"b").map(CanonicalRef::as_str), Some("1"));
    assert_eq!(
        row.get("text").map(CanonicalRef::view),
        Some(View::Text("a<b".into()))
    );
    assert_eq!(
        row.get("ok").map(CanonicalRef::view),
        Some(View::Bool(true))
    );
    assert_eq!(row.get("no").map(CanonicalRef::view), Some(View::Null));
    assert_eq!(row.get("missing"), None);
    // The raw text of an escaped key is another key.
    assert_eq!(row.get("a\\\"b"), None);
    assert_eq!(row.get("\"a\\\"b\""), None);
    assert_eq!(row.get("replicas").expect("there").get("replicas"), None);
    let labels = row.get("labels").expect("there");
    assert_eq!(labels.get("app").map(CanonicalRef::as_str), Some("\"x\""));
    let list: Vec<_> = row
        .get("list")
        .expect("there")
        .items()
        .map(CanonicalRef::as_str)
        .collect();
    assert_eq!(list, ["1", "\"],}\"", "{\"k\":[]}"]);
}

/// Equal as JSON: `2.0` and `2` are the same number, and so are a float and its digits.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Writes a value as JSON that is valid but as far from canonical as it gets.
fn scrambled(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members: Vec<_> = map
                .iter()
                .rev()
                .map(|(key, value)| format!("{} :\n{}", json!(key), scrambled(value)))
                .collect();
            format!("{{ {} }}", members.join(" , "))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(scrambled).collect();
            format!("[\t{} ]", items.join(",\r\n"))
        }
        Value::String(text) => {
            let escaped: Vec<_> = text
                .encode_utf16()
                .map(|unit| format!("\\u{unit:04X}"))
                .collect();
            format!("\"{}\"", escaped.concat())
        }
        other => other.to_string(),
    }
}

#[test]
fn in_the_middle_between_two_texts_the_even_digit_is_taken() {
    let mut text = String::new();
    canonical::float(&mut text, f64::from_bits(4_831_237_967_354_965_834)).expect("finite");
    assert_eq!(text, "985345805145577.2");
}

proptest! {
    #[test]
    fn it_parses_back_equal(value in any::json()) {
        let text = canonical(&value);
        let back: Value = serde_json::from_str(&text).expect("canonical text is JSON");
        prop_assert!(same(&value, &back), "{text}");
        prop_assert_eq!(canonical(&back), text);
    }

    #[test]
    fn it_does_not_depend_on_how_the_value_was_spelled(value in any::json()) {
        let parsed = CanonicalJson::parse(scrambled(&value).as_bytes()).expect("valid JSON");
        prop_assert_eq!(parsed, CanonicalJson::from(&value));
    }

    #[test]
    fn every_destination_sees_the_same_text(value in any::json()) {
        let mut bytes = Vec::new();
        canonical::Slot::new(&mut bytes).value(&value);
        prop_assert_eq!(&bytes, &canonical(&value).into_bytes());
        prop_assert_eq!(Length::of(|out| canonical::Slot::new(out).value(&value)), bytes.len());
    }

    #[test]
    fn shortest_digits_agree_with_the_standard_library(bits in any::<u64>()) {
        let float = f64::from_bits(bits);
        prop_assume!(float.is_finite());
        let mut text = String::new();
        canonical::float(&mut text, float).expect("finite");
        prop_assert_eq!(text.parse::<f64>().expect("a number").to_bits(), bits);
        let digits = |text: &str| -> String {
            let mantissa = text.split('e').next().unwrap_or_default();
            let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
            digits.trim_matches('0').to_owned()
        };
        let (ours, theirs) = (digits(&text), digits(&format!("{float:e}")));
        // A number in the middle between two shortest texts has two: the library takes the upper
        // one, we the even one. The number parses back from ours, as was just seen.
        let middle = ours.len() == theirs.len()
            && ours[..ours.len() - 1] == theirs[..theirs.len() - 1]
            && ours.ends_with(['0', '2', '4', '6', '8']);
        prop_assert!(ours == theirs || middle, "{ours} and {theirs}");
    }


    #[test]
    fn scanning_agrees_with_parsing(value in any::json(), key in any::text()) {
        let text = CanonicalJson::from(&value);
        let view = text.borrowed();
        let found = view.get(&key).map(|found| found.as_str().to_owned());
        prop_assert_eq!(found, value.get(&key).map(canonical));
        if let Value::Object(map) = &value {
            let members: Map<String, Value> = view
                .members()
                .map(|(key, value)| (key.into_owned(), value.to_value().expect("JSON")))
                .collect();
            prop_assert!(same(&Value::Object(members), &value));
            for (key, value) in map {
                let found = view.get(key).map(|found| found.as_str().to_owned());
                prop_assert_eq!(found, Some(canonical(value)));
            }
        }
        if let Value::Array(items) = &value {
            let found: Vec<_> = view.items().map(CanonicalRef::as_str.to_owned()).collect();
            prop_assert_eq!(found, items.iter().map(canonical).collect::<Vec<_>>());
        }
        // Through serde, for formats other than JSON.
        prop_assert!(same(&serde_json::to_value(view).expect("serialises"), &value));
    }

    #[test]
    fn any_bytes_parse_or_fail_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = CanonicalJson::parse(&bytes);
    }
}
