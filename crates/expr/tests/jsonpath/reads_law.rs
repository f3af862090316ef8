//! A path sees no difference between an object and what it says it reads of it.

use kollect_expr::jsonpath::{Path, Shape};
use kollect_expr::{Extent, ReadSet, Step};
use proptest::prelude::*;

use crate::generate::{object_and_path, object_and_paths};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_projection_gives_the_same_result((object, text) in object_and_path()) {
        let path = Path::parse(&text).expect("generated from the grammar");
        let projected = path.reads().project(&object);
        for shape in [Shape::Plain, Shape::List] {
            prop_assert_eq!(
                path.evaluate(&projected, shape),
                path.evaluate(&object, shape),
                "{} on {}", path, projected
            );
        }
        prop_assert_eq!(path.reads().project(&projected), projected, "projecting again changes nothing");
    }

    #[test]
    fn paths_of_a_union_do_not_disturb_each_other((object, texts) in object_and_paths()) {
        let paths: Vec<Path> = texts.iter().map(|text| Path::parse(text).expect("generated")).collect();
        let mut union = ReadSet::nothing();
        for path in &paths {
            union.merge(path.reads());
        }
        let projected = union.project(&object);
        for path in &paths {
            prop_assert_eq!(path.evaluate(&projected, Shape::Plain), path.evaluate(&object, Shape::Plain));
        }
    }
}

fn set(paths: &[(&[Step<'_>], Extent)]) -> ReadSet {
    let mut set = ReadSet::nothing();
    for (path, extent) in paths {
        set.insert(path.iter().copied(), *extent);
    }
    set
}

#[test]
fn reads_are_as_narrow_as_the_path() {
    use Extent::{Presence, Whole};
    use Step::{Any, Member};

    let spec = Member("spec");
    let cases: [(&str, ReadSet); 12] = [
        ("$", ReadSet::everything()),
        ("$..a", ReadSet::everything()),
        ("$.spec.a", set(&[(&[spec, Member("a")], Whole)])),
        ("$.spec..a", set(&[(&[spec], Whole)])),
        ("$.spec[0].a", set(&[(&[spec, Any, Member("a")], Whole)])),
        ("$.spec[*]", set(&[(&[spec, Any], Whole)])),
        ("$.spec[1:].a", set(&[(&[spec, Any, Member("a")], Whole)])),
        ("$.*.a", set(&[(&[Any, Member("a")], Whole)])),
        (
            "$['a','b'].c",
            set(&[
                (&[Member("a"), Member("c")], Whole),
                (&[Member("b"), Member("c")], Whole),
            ]),
        ),
        ("$.spec[0,1,-1]", set(&[(&[spec, Any], Whole)])),
        (
            "$.spec[?(@.type==\"x\")].status",
            set(&[
                (&[spec, Any, Member("type")], Presence),
                (&[spec, Any, Member("status")], Whole),
            ]),
        ),
        (
            "$.spec[?(@.a[0].b)].c",
            set(&[
                (&[spec, Any, Member("a"), Any, Member("b")], Presence),
                (&[spec, Any, Member("c")], Whole),
            ]),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(*Path::parse(text).expect(text).reads(), expected, "{text}");
    }
}

#[test]
fn unions_that_multiply_are_read_as_a_whole() {
    let text = format!("$.spec{}", "['a','b']".repeat(200));
    let path = Path::parse(&text).expect("within the limits");
    let mut node = path.reads().root();
    assert!(!node.whole());
    node = &node.members()["spec"];
    for _ in 0..6 {
        assert!(!node.whole());
        node = &node.members()["a"];
    }
    assert!(node.whole());
}
