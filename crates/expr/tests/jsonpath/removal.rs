//! Removing parts of an object by pointers and paths.

use std::sync::LazyLock;

use kollect_expr::{
    Removals,
    jsonpath::{EvalError, Path},
    pointer::{ParseError, Pointer},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generate::{object_and_path, object_and_paths};
use crate::table::rows;

static OBJECT_P: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/jsonpath/object-p.json")).expect("valid JSON")
});

/// Takes all matches of one path out of an object.
pub(crate) fn remove(path: &Path, object: &mut Value) -> Result<(), EvalError> {
    let mut removals = Removals::new();
    removals.add_path(path, object)?;
    removals.apply(object);
    Ok(())
}

#[test]
fn removals_leave_what_the_table_says() {
    for row in rows(include_str!("../data/jsonpath/removals.txt")) {
        let [id, words, place, expected] = row[..] else {
            panic!("four columns in {row:?}")
        };
        let mut object = OBJECT_P.clone();
        let mut removals = Removals::new();
        for word in words.split_whitespace() {
            if word.starts_with('/') {
                removals.add_pointer(&Pointer::parse(word).expect(word), &object);
            } else {
                let path = Path::parse_removal(word).expect(word);
                removals.add_path(&path, &object).expect(word);
            }
        }
        assert_eq!(removals.is_empty(), expected == "unchanged", "{id} {words}");
        removals.apply(&mut object);
        if expected == "unchanged" {
            assert_eq!(object, *OBJECT_P, "{id} {words}");
            continue;
        }
        let found = match place {
            "-" => &object,
            pointer => Pointer::parse(pointer)
                .expect(pointer)
                .resolve(&object)
                .expect(pointer),
        };
        let expected: Value = serde_json::from_str(expected).expect(expected);
        assert_eq!(*found, expected, "{id} {words}");
    }
}

#[test]
fn removal_paths_that_cannot_be_parsed_are_refused() {
    for text in [
        "$.spec.l[0",
        "spec..",
        "spec.l[",
        "@.a",
        "]",
        "",
        "spec.s}",
        "a: {.b}",
        "a....b",
    ] {
        let refused = Path::parse_removal(text).is_err();
        // A bare descent at the end is a path; everything else in the list is a slip.
        assert_eq!(refused, text != "spec..", "{text}");
    }
}

#[test]
fn one_path_alone_removes_its_matches() {
    let mut object = OBJECT_P.clone();
    let path = Path::parse("$.spec.l[0:2]").expect("a path");
    remove(&path, &mut object).expect("within limits");
    assert_eq!(object["spec"], json!({"l": ["three"], "s": "str"}));
}

#[test]
fn ptr1_pointers_are_checked_strictly() {
    for accepted in ["/", "/a", " /a ", "/a/0", "/a~0b~1c", "/~01", "//", "/ä"] {
        assert!(Pointer::parse(accepted).is_ok(), "{accepted:?}");
    }
    assert_eq!(
        Pointer::parse("\t/spec/s ").expect("PR-05").as_str(),
        "/spec/s"
    );
    let refused = [
        ("", ParseError::Blank),
        ("  \t", ParseError::Blank),
        ("a", ParseError::NoSlash),
        ("spec/s", ParseError::NoSlash),
        ("#/a", ParseError::NoSlash),
        ("/a~2", ParseError::Tilde),
        ("/a~", ParseError::Tilde),
        ("/~/0", ParseError::Tilde),
        ("/~~0", ParseError::Tilde),
    ];
    for (text, error) in refused {
        assert_eq!(Pointer::parse(text), Err(error), "{text:?}");
    }
    let long = format!("/{}", "a".repeat(10_000));
    assert_eq!(Pointer::parse(&long), Err(ParseError::TooLong));
}

#[test]
fn pointers_resolve_as_in_the_rfc() {
    // The document of RFC 6901, section 5. The root ("") and "/" are no removals here.
    let document = json!({
        "foo": ["bar", "baz"], "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6,
        " ": 7, "m~n": 8,
    });
    let cases = [
        ("/foo", json!(["bar", "baz"])),
        ("/foo/0", json!("bar")),
        ("/a~1b", json!(1)),
        ("/c%d", json!(2)),
        ("/e^f", json!(3)),
        ("/g|h", json!(4)),
        ("/i\\j", json!(5)),
        ("/k\"l", json!(6)),
        ("/m~0n", json!(8)),
    ];
    for (text, expected) in cases {
        let pointer = Pointer::parse(text).expect(text);
        assert_eq!(pointer.resolve(&document), Some(&expected), "{text}");
    }
    let empty_names = json!({"": {"": 1}});
    let resolve = |text| Pointer::parse(text).expect(text).resolve(&empty_names);
    assert_eq!(resolve("//"), Some(&json!(1)));
    assert_eq!(resolve("/"), None);
}

/// A copy of `value` without what lies at the given addresses, which belong to its parts.
fn without(value: &Value, removed: &[*const Value]) -> Value {
    let kept = |part: &Value| !removed.contains(&(&raw const *part));
    match value {
        Value::Array(elements) => {
            let elements = elements.iter().filter(|element| kept(element));
            Value::Array(elements.map(|element| without(element, removed)).collect())
        }
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| kept(member));
            let copy = |(name, member): (&String, &Value)| (name.clone(), without(member, removed));
            Value::Object(members.map(copy).collect())
        }
        scalar => scalar.clone(),
    }
}

proptest! {
    #[test]
    fn a_path_removes_exactly_its_matches((mut object, text) in object_and_path()) {
        let path = Path::parse(&text).expect("generated from the grammar");
        let expected = match path.find(&object) {
            Ok(found) => {
                let removed: Vec<*const Value> = found.iter().map(|value| &raw const **value).collect();
                without(&object, &removed)
            }
            // A path that does not fit as an attribute still removes where it fits.
            Err(_) => return Ok(()),
        };
        remove(&path, &mut object).expect("small objects are within limits");
        prop_assert_eq!(object, expected);
    }

    #[test]
    fn collecting_twice_or_in_another_order_removes_the_same((object, texts) in object_and_paths()) {
        let paths: Vec<Path> = texts.iter().map(|text| Path::parse(text).expect("generated")).collect();
        let remove = |order: &[&Path]| {
            let mut removals = Removals::new();
            for path in order {
                removals.add_path(path, &object).expect("within limits");
            }
            let mut copy = object.clone();
            removals.apply(&mut copy);
            copy
        };
        let forward: Vec<&Path> = paths.iter().collect();
        let twice_backward: Vec<&Path> = paths.iter().chain(&paths).rev().collect();
        prop_assert_eq!(remove(&forward), remove(&twice_backward));
    }
}
