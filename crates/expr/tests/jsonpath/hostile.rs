//! Input nobody meant well: random, endless, nested, and objects whose values must not leak.

use std::time::{Duration, Instant};

use kollect_expr::{
    jsonpath::{EvalError, Path, Problem, Shape},
    pointer::Pointer,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generate::{object, object_and_path};
use crate::removal::remove;

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused_with_a_short_message(text in any::<String>()) {
        for parsed in [Path::parse(&text), Path::parse_removal(&text)] {
            if let Err(error) = parsed {
                assert_presentable(&error.to_string());
            }
        }
        let _ = Pointer::parse(&text);
    }

    #[test]
    fn path_like_text_on_any_object_never_panics(
        text in "[$.{\\[](\\.|\\[|\\]|[abc]|[0-9]|'|\"|\\*|:|,|\\?|\\(|\\)|@|==|<|\\\\| |\\}|-){0,24}",
        object in object(),
    ) {
        if let Ok(path) = Path::parse_removal(&text) {
            let _ = path.evaluate(&object, Shape::List);
            let _ = remove(&path, &mut object.clone());
        }
    }

    #[test]
    fn both_shapes_agree_with_the_matches((object, text) in object_and_path()) {
        let path = Path::parse(&text).expect("generated from the grammar");
        let plain = path.evaluate(&object, Shape::Plain);
        let list = path.evaluate(&object, Shape::List);
        match path.find(&object) {
            Err(error) => {
                assert_presentable(&error.to_string());
                prop_assert_eq!(plain, Err(error.clone()));
                prop_assert_eq!(list, Err(error));
            }
            Ok(found) => {
                let values: Vec<Value> = found.iter().copied().cloned().collect();
                let plain = plain.expect("as found").map(|output| output.to_value());
                let list = list.expect("as found").map(|output| output.to_value());
                match values.as_slice() {
                    [] => prop_assert_eq!((plain, list), (None, None)),
                    [only] if path.is_definite() => {
                        prop_assert_eq!((&plain, &list), (&Some(only.clone()), &Some(only.clone())));
                    }
                    [only] => {
                        prop_assert_eq!(plain, Some(only.clone()));
                        prop_assert_eq!(list, Some(json!([only])));
                    }
                    several => {
                        prop_assert_eq!(plain, Some(json!(several)));
                        prop_assert_eq!(list, Some(json!(several)));
                    }
                }
            }
        }
    }
}

fn assert_presentable(text: &str) {
    assert!(text.len() <= 240, "{} bytes: {text}", text.len());
    assert!(
        !text.contains(char::is_control),
        "more than one line: {text:?}"
    );
}

#[test]
fn endless_paths_are_refused_at_once() {
    let start = Instant::now();
    let cases = [
        (format!("$.{}", "a".repeat(10_000)), Problem::TooLong),
        (format!("${}", "[".repeat(4095)), Problem::Bracket),
        (format!("${}", ".a".repeat(2047)), Problem::TooManySteps),
        (format!("${}", "[0]".repeat(1000)), Problem::TooManySteps),
        (format!("$.a[?({}", "@[".repeat(1000)), Problem::Bracket),
        (format!("$.a{}", "[?(@".repeat(900)), Problem::NestedFilter),
        (format!("{}.a", "{".repeat(1000)), Problem::Unexpected('{')),
        (format!("$['{}", "\\'".repeat(1000)), Problem::UnclosedQuote),
    ];
    for (text, problem) in cases {
        let error = Path::parse(&text).expect_err("endless");
        assert_eq!(*error.problem(), problem, "{}…", &text[..20]);
        assert_presentable(&error.to_string());
    }
    assert!(
        start.elapsed() < Duration::from_millis(100),
        "took {:?}",
        start.elapsed()
    );
}

#[test]
fn work_that_multiplies_is_stopped() {
    let mut nested = json!("leaf");
    for _ in 0..100 {
        nested = json!({"a": nested, "b": ["x".repeat(100)]});
    }
    let wide = json!({"a": vec!["y".repeat(1000); 1000]});
    let long = json!({"a": [{"x": "z".repeat(1_000_000)}]});
    let xs = format!("@[{}]", ["'x'"; 200].join(","));
    let cases = [
        (&nested, "$..*..*..*..*..*".to_owned()),
        (&nested, "$..a..a..a..a..".to_owned()),
        (&nested, "$".to_owned() + &"['a','a']".repeat(30)),
        // Few steps, but over many children or long texts, or with much to hand out.
        (&wide, format!("$[{}]..x", ["'a'"; 1000].join(","))),
        (&long, format!("$.a[?({xs} < {xs})]")),
        (&wide, format!("$.a[{}]", ["0:"; 40].join(","))),
    ];
    let start = Instant::now();
    for (object, text) in &cases {
        let path = Path::parse(text).expect(text);
        let result = path.evaluate(object, Shape::Plain);
        assert_eq!(result, Err(EvalError::TooMuchWork), "{text}");
    }
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "took {:?}",
        start.elapsed()
    );
}

#[test]
fn a_large_list_without_repetition_is_within_the_limits() {
    let object = json!({"list": (0..200_000).map(|n| json!({"n": n})).collect::<Vec<_>>()});
    for (text, expected) in [("$.list[*].n", 200_000), ("$.list[?(@.n<1000)].n", 1000)] {
        let path = Path::parse(text).expect(text);
        assert_eq!(
            path.find(&object).map(|found| found.len()),
            Ok(expected),
            "{text}"
        );
    }
}

#[test]
fn x09_messages_name_paths_and_types_but_no_values() {
    const MARKER: &str = "MARKER-c2VjcmV0";
    let scalars = [
        json!(MARKER),
        json!({MARKER: MARKER, "a": MARKER}),
        json!(8_675_309),
        json!(true),
    ];
    let long = format!("$.{}[0]", "näme".repeat(500));
    let broken = "$.a['b\nc'][*]";
    let mut seen = 0;
    for value in &scalars {
        let object = json!({"a": value, "näme".repeat(500): value, "l": [value, value]});
        for text in [
            "$.a[*]",
            "$.a[0]",
            "$.a[-1]",
            "$.a[0:1]",
            "$.a[?(@.x==1)]",
            "$.a[0,1]",
            "{ .a [*] }",
            "$.l[*][*]",
            "$.l[0][0]",
            "$[*]",
            "$.*[*]",
            "$['a','l'][0]",
            &long,
            broken,
        ] {
            let path = Path::parse(text).expect(text);
            let Err(error) = path.evaluate(&object, Shape::Plain) else {
                assert_eq!(text, broken, "{value}");
                continue;
            };
            seen += 1;
            let text = error.to_string();
            assert_presentable(&text);
            assert!(
                !text.contains(MARKER) && !text.contains("8675309"),
                "{text}"
            );
            assert!(!format!("{error:?}").contains(MARKER), "{error:?}");
        }
    }
    assert!(seen >= 50, "only {seen} errors were looked at");
    let object = json!({"a": {"b\nc": MARKER}});
    let error = Path::parse(broken)
        .expect("quoted")
        .find(&object)
        .expect_err("text");
    assert_presentable(&error.to_string());
}
