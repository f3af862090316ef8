use mongodb::bson::{Bson, Document, doc};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn encoded(json: &str) -> Result<Document, Unstorable> {
    let bytes = payload(json.as_bytes())?;
    Ok(Document::from_reader(&bytes[..]).expect("BSON that its own library reads"))
}

/// M2: exactly the number that was written, in the smallest type that holds it.
#[test]
fn numbers_are_kept() {
    for (text, expected) in [
        ("0", Bson::Int32(0)),
        ("-1", Bson::Int32(-1)),
        ("2147483647", Bson::Int32(i32::MAX)),
        ("2147483648", Bson::Int64(2_147_483_648)),
        ("-2147483649", Bson::Int64(-2_147_483_649)),
        ("9007199254740993", Bson::Int64(9_007_199_254_740_993)),
        ("9223372036854775807", Bson::Int64(i64::MAX)),
        ("-9223372036854775808", Bson::Int64(i64::MIN)),
        ("9223372036854775808", decimal("9223372036854775808")),
        ("18446744073709551615", decimal("18446744073709551615")),
        ("0.1", Bson::Double(0.1)),
        ("1.0", Bson::Double(1.0)),
        ("1e21", Bson::Double(1e21)),
        ("5e-324", Bson::Double(5e-324)),
    ] {
        let found = encoded(&format!("{{\"n\":{text}}}")).unwrap();
        assert_eq!(found.get("n"), Some(&expected), "{text}");
    }
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(Decimal128::from_str(text).unwrap())
}

#[test]
fn shapes_and_names_are_kept() {
    let found = encoded(
        r#"{"a":[{"b":[[],{},null,true,false,""]}],"":1,"a.b":"x","$type":"y","_id":2,"z\u0000":3,"n":"a\u0000b"}"#,
    );
    let expected = doc! {
        "a": [{"b": [[], {}, null, true, false, ""]}],
        "": 1, "a.b": "x", "$type": "y", "_id": 2, "z\u{fffd}": 3, "n": "a\u{0}b",
    };
    assert_eq!(found, Ok(expected));
}

#[test]
fn what_no_server_stores_is_noticed() {
    assert_eq!(encoded("[]"), Err(Unstorable), "no object");
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(LARGEST));
    assert_eq!(encoded(&long), Err(Unstorable), "too long a text");
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(2_000_000));
    assert_eq!(encoded(&many), Err(Unstorable), "too many numbers");
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(300), "]".repeat(300));
    assert_eq!(encoded(&deep), Err(Unstorable), "too deep");
}

/// As JSON has it.
fn plain(value: &Bson) -> Value {
    match value {
        Bson::Document(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), plain(value)))
            .collect(),
        Bson::Array(values) => values.iter().map(plain).collect(),
        Bson::Int32(number) => json!(number),
        Bson::Int64(number) => json!(number),
        Bson::Double(number) => json!(number),
        Bson::String(text) => json!(text),
        Bson::Boolean(value) => json!(value),
        Bson::Null => Value::Null,
        other => panic!("{other:?}"),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no others", |number| number.is_finite())
            .prop_map(Value::from),
        "\\PC*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("\\PC*", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_reader_finds_what_was_written(value in value()) {
        let text = json!({"v": value}).to_string();
        let found = encoded(&text).unwrap();
        prop_assert_eq!(plain(&Bson::Document(found)), json!({"v": value}));
    }
}
