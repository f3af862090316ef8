//! Arbitrary values for the laws.

use kollect_inventory::{Attributes, AttributesBuffer, Interner, OriginParts, Row, TargetKind};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Number, Value};

/// JSON numbers of every kind that a decoder produces.
fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("finite", Number::from_f64)
            .prop_map(Value::Number),
        (-1e22..1e22_f64).prop_map(Value::from),
        (-1e-5..1e-5_f64).prop_map(Value::from),
        (-1_000_i32..1_000).prop_map(|whole| Value::from(f64::from(whole))),
        // Numbers that are the beginning of other numbers.
        select(&[1.0, 12.0, 1.5, -1.0, -1.5, 1e21, 0.0][..]).prop_map(Value::from),
    ]
}

/// Text with a good share of what needs an escape.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9./-]{0,24}",
        "[<>&\"\\\\\u{0}-\u{1f}\u{2027}-\u{202a}€é\u{1f600}a]{0,40}",
        any::<String>(),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number(),
        text().prop_map(Value::String),
    ]
}

/// Any JSON value.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Any attributes: an object or null.
pub(crate) fn attributes() -> impl Strategy<Value = AttributesBuffer> {
    let members = prop::collection::vec((select(&["a", "b", "<"][..]), scalar()), 0..3);
    prop_oneof![
        1 => Just(AttributesBuffer::new()),
        4 => members.prop_map(|members| {
            let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
            let mut buffer = AttributesBuffer::new();
            buffer.set(&members.collect::<Map<_, _>>());
            buffer
        }),
    ]
}

/// Any row, from a domain so small that identities meet often.
pub(crate) fn row() -> impl Strategy<Value = Row> {
    let fields = (
        select(&["team-a", "team-b"][..]),
        select(&["t", "\"t", "<t", "t "][..]),
        select(&["team-a", ""][..]),
        select(&["a", "b", "a!", "a-"][..]),
        select(
            &[
                "0b7e3c1a-5d2f-4e60-9a8b-c0ffee123456",
                "0b7e3c1a-5d2f-4e60-9a8b-c0ffee123457",
                "u",
                "u1",
            ][..],
        ),
        select(&["apps", ""][..]),
        select(&["v1", "v2"][..]),
    );
    (fields, attributes()).prop_map(|(fields, attributes)| {
        let (target_namespace, target_name, namespace, name, uid, group, version) = fields;
        let mut interner = Interner::new();
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace,
            target_name,
            namespace,
            group,
            version,
            kind: "Deployment",
        });
        interner.row(&origin, name, uid, attributes.view())
    })
}

/// A row like any other of these but for its kind, uid and attributes.
pub(crate) fn close_row() -> impl Strategy<Value = Row> {
    let parts = (
        select(&["apps", "", "batch"][..]),
        select(&["v1", "v2"][..]),
        select(&["u", "u1"][..]),
    );
    (parts, attributes()).prop_map(|((group, version, uid), attributes)| {
        let mut interner = Interner::new();
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: "t",
            namespace: "team-a",
            group,
            version,
            kind: "Deployment",
        });
        interner.row(&origin, "a", uid, attributes.view())
    })
}

/// Several rows in any order, some with the same identity.
pub(crate) fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(row(), 0..24)
}

/// A row as JSON text.
pub(crate) fn json_of(row: &Row) -> String {
    let mut text = String::new();
    row.write_json(&mut text);
    text
}

/// The same object seen by the same target, with these attributes, in other memory.
pub(crate) fn with_attributes(row: &Row, attributes: Attributes<'_>) -> Row {
    let mut interner = Interner::new();
    let origin = interner.origin(row.origin().parts());
    interner.row(&origin, row.name(), &row.uid().text(), attributes)
}
