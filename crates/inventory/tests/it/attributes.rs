//! Attributes: names apart from values, and yet one canonical object.

use kollect_inventory::{Attributes, AttributesBuffer, CanonicalJson, ContentHash};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::any;

fn buffer(value: &Value) -> AttributesBuffer {
    let mut buffer = AttributesBuffer::new();
    match value {
        Value::Object(object) => buffer.set(object),
        _ => buffer.set_null(),
    }
    buffer
}

#[test]
fn attributes_are_written_in_place() {
    let mut buffer = AttributesBuffer::new();
    assert!(buffer.view().is_null());
    assert_eq!(buffer.view().to_json().as_str(), "null");
    let mut writer = buffer.start();
    writer.attribute("a\nb").string("line\nbreak");
    let _ = writer.attribute("left empty");
    writer.attribute("list").array().item().signed(1);
    assert_eq!(
        buffer.view().to_json().as_str(),
        r#"{"a\nb":"line\nbreak","left empty":null,"list":[1]}"#
    );
    let _ = buffer.start();
    assert_eq!(buffer.view().to_json().as_str(), "{}");
    assert!(!buffer.view().is_null());
    assert_eq!(buffer.view().iter().count(), 0);
    assert_ne!(buffer.view(), Attributes::NULL);
    assert_ne!(
        ContentHash::of(buffer.view()),
        ContentHash::of(Attributes::NULL)
    );
}

#[test]
#[should_panic(expected = "unique and ascending")]
fn names_out_of_order_are_refused() {
    let mut buffer = AttributesBuffer::new();
    let mut writer = buffer.start();
    writer.attribute("a").null();
    writer.attribute("a").null();
}

/// Hashes may be kept by those who remember what they sent, so they must not change.
#[test]
fn the_content_hash_is_the_same_in_every_release() {
    for (attributes, expected) in [
        (json!(null), "87840ae398d76003"),
        (json!({}), "6017b8f06fb1f4f4"),
        (json!({"replicas": 2}), "aead2d6b5c83d13c"),
    ] {
        let hash = ContentHash::of(buffer(&attributes).view());
        assert_eq!(format!("{:016x}", hash.0), expected, "{attributes}");
    }
}

proptest! {
    #[test]
    fn they_are_the_canonical_object(members in prop::collection::vec((any::text(), any::json()), 0..5)) {
        let object: Map<String, Value> = members.into_iter().collect();
        let value = Value::Object(object.clone());
        let buffer = buffer(&value);
        let attributes = buffer.view();
        prop_assert_eq!(attributes.to_json(), CanonicalJson::from(&value));
        prop_assert_eq!(attributes.iter().count(), object.len());
        for (name, value) in &object {
            let found = attributes.get(name).map(|found| found.as_str().to_owned());
            prop_assert_eq!(found, Some(CanonicalJson::from(value).as_str().to_owned()));
        }
        let missing = attributes.get("no such name, long enough to be never generated");
        prop_assert!(missing.is_none());
    }

    #[test]
    fn equal_attributes_have_equal_hashes_and_different_ones_do_not(
        a in any::attributes(),
        b in any::attributes(),
    ) {
        let (a, b) = (a.view(), b.view());
        prop_assert_eq!(a == b, a.to_json() == b.to_json());
        prop_assert_eq!(a == b, ContentHash::of(a) == ContentHash::of(b));
    }
}
