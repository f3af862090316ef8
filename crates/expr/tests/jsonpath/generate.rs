//! Random objects, and random paths that mostly find something in them.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

/// An object with few different names and values, so that paths meet them again.
pub(crate) fn object() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1..2_i64).prop_map(Value::from),
        select(vec![0.5, 1.0]).prop_map(Value::from),
        select(vec!["", "a", "1"]).prop_map(Value::from),
    ];
    let value = scalar.prop_recursive(3, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            list_of_maps(inner.clone()),
            members(inner),
        ]
    });
    members(prop_oneof![value.clone(), list_of_maps(value)])
}

/// What Kubernetes objects are mostly made of.
fn list_of_maps(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec(members(value), 1..4).prop_map(Value::from)
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let names = select(vec!["a", "b", "c", "d.e"]);
    prop::collection::btree_map(names, value, 1..4).prop_map(|members| {
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    })
}

/// An object and a path of the dialect that was found by walking through it. Now and then its
/// last step does not fit what lies there.
pub(crate) fn object_and_path() -> impl Strategy<Value = (Value, String)> {
    (object(), route()).prop_map(|(object, route)| {
        let path = route.through(&object);
        (object, path)
    })
}

/// An object and several such paths.
pub(crate) fn object_and_paths() -> impl Strategy<Value = (Value, Vec<String>)> {
    (object(), prop::collection::vec(route(), 1..4)).prop_map(|(object, routes)| {
        let paths = routes.iter().map(|route| route.through(&object)).collect();
        (object, paths)
    })
}

/// Decisions on the way: what to write for each step, and where to go on.
#[derive(Debug)]
struct Route {
    turns: Vec<(Index, Index, Index)>,
    descent_at_end: bool,
}

fn route() -> impl Strategy<Value = Route> {
    let turn = any::<(Index, Index, Index)>();
    (prop::collection::vec(turn, 1..6), any::<Index>()).prop_map(|(turns, end)| Route {
        turns,
        descent_at_end: end.index(8) == 0,
    })
}

impl Route {
    fn through(&self, object: &Value) -> String {
        let mut path = "$".to_owned();
        let mut place = object;
        for (form, child, detail) in &self.turns {
            let children = children(place);
            if children.is_empty() || detail.index(12) == 0 {
                path.push_str(&misfit(*form));
                break;
            }
            let at = child.index(children.len());
            let (name, next) = children[at];
            path.push_str(&match name {
                Some(name) => member_step(name, *form),
                None if detail.index(2) == 1 => filter(next, *form, *child),
                None => element_step(at, *form),
            });
            place = next;
            if !place.is_array() && !place.is_object() && form.index(4) > 0 {
                break;
            }
        }
        if self.descent_at_end {
            path.push_str("..");
        }
        path
    }
}

fn children(value: &Value) -> Vec<(Option<&str>, &Value)> {
    match value {
        Value::Array(elements) => elements.iter().map(|element| (None, element)).collect(),
        Value::Object(members) => {
            let named = members
                .iter()
                .map(|(name, value)| (Some(name.as_str()), value));
            named.collect()
        }
        _ => Vec::new(),
    }
}

fn misfit(form: Index) -> String {
    let steps = [
        "[0]",
        "[*]",
        ".a",
        "['nope']",
        "[-7]",
        "[1:0]",
        ".*",
        "..b",
        "..*",
        "..[0]",
        "..[*]",
        "..[?(@.a)]",
        "[?(@.a==1)]",
        "['a',0]",
        "..['a','b']",
    ];
    steps[form.index(steps.len())].to_owned()
}

fn member_step(name: &str, form: Index) -> String {
    let escaped = name.replace('.', "\\.");
    let forms = [
        format!(".{escaped}"),
        format!("['{name}']"),
        format!("[\"{name}\"]"),
        format!("..{escaped}"),
        format!("['{name}','a']"),
        format!("[\"b\",'{name}','{name}']"),
        ".*".to_owned(),
    ];
    forms[form.index(forms.len())].clone()
}

fn element_step(position: usize, form: Index) -> String {
    let forms = [
        format!("[{position}]"),
        "[-1]".to_owned(),
        "[*]".to_owned(),
        ".*".to_owned(),
        format!("[{position}:]"),
        format!("[:{}]", position + 1),
        "[::2]".to_owned(),
        format!("[{position},0]"),
        format!("[-2:,{position}]"),
        "..[0]".to_owned(),
    ];
    forms[form.index(forms.len())].clone()
}

/// A filter that looks at something of `element`, and often selects it.
fn filter(element: &Value, form: Index, detail: Index) -> String {
    let mut steps = vec!["@".to_owned()];
    let mut value = element;
    loop {
        let children = children(value);
        if children.is_empty() {
            break;
        }
        let (name, next) = children[detail.index(children.len())];
        steps.push(match name {
            Some(name) => format!("['{name}']"),
            None => ["[0]", "[*]", ".*"][form.index(3)].to_owned(),
        });
        value = next;
    }
    let path = steps.concat();
    let operators = ["==", "==", "!=", "<", "<=", ">", ">="];
    let operator = operators[detail.index(operators.len())];
    match (value, form.index(6)) {
        (_, 0) | (Value::Null | Value::Array(_) | Value::Object(_), _) => format!("[?({path})]"),
        (_, 1) => format!("[?({path} {operator} @.a)]"),
        (_, 2) => format!("[?({path} {operator} 0)]"),
        (_, 3) => format!("[?(@..a {operator} {value})]"),
        _ => format!("[?({path} {operator} {value})]"),
    }
}

/// How often generated paths find something: a property that holds for nothing says nothing.
#[test]
fn most_generated_paths_find_something() {
    use kollect_expr::jsonpath::Path;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut found, mut failed, mut filtered) = (0, 0, 0);
    for _ in 0..1000 {
        let (object, text) = object_and_path()
            .new_tree(&mut runner)
            .expect("a case")
            .current();
        let path = Path::parse(&text).expect("of the dialect");
        match path.find(&object) {
            Ok(matches) if matches.is_empty() => {}
            Ok(_) => {
                found += 1;
                filtered += usize::from(text.contains("[?("));
            }
            Err(_) => failed += 1,
        }
    }
    assert!(found > 500, "{found} of 1000 find something");
    assert!(
        filtered > 80,
        "{filtered} of 1000 find something with a filter"
    );
    assert!(failed > 20, "{failed} of 1000 do not fit");
}
