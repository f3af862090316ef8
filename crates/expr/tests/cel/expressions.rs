//! Random expressions and objects for the property tests.
//!
//! The variable `x` is bound everywhere: macros bind it, and the whole expression sits inside one.
//! Literals are wrapped in `dyn`, so that the checker accepts all combinations and the evaluator
//! has to deal with them.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

/// Names of members; few, so that paths often lead somewhere.
const NAMES: &[&str] = &["a", "b", "c", "list", "map"];

/// An object of a few levels with the members that the paths of the expressions name.
pub(crate) fn objects() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        select(vec![0.0, 1.0, 2.5, -1.5]).prop_map(Value::from),
        select(vec!["", "a", "ab", "b", "1", "true"]).prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((select(NAMES), inner), 0..5).prop_map(members),
        ]
    });
    // `list` is always a list: standard macros are tried on it.
    let list = prop::collection::vec(tree.clone(), 0..4).prop_map(Value::Array);
    let rest = prop::collection::vec((select(NAMES), tree), 1..6);
    (rest, list).prop_map(|(rest, list)| {
        let mut object = members(rest);
        object["list"] = list;
        object
    })
}

fn members(members: Vec<(&str, Value)>) -> Value {
    let members: Map<String, Value> = members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Value::Object(members)
}

/// Expressions of the language itself, without the libraries. Macros go through lists only,
/// because the order of maps is ours, and `in` looks in lists only, because the evaluator that
/// these are compared with refuses to look for some keys in a map.
pub(crate) fn standard() -> impl Strategy<Value = String> {
    tree(&[
        "({} + {})",
        "({} - {})",
        "({} * {})",
        "({} / {})",
        "({} % {})",
        "({} == {})",
        "({} != {})",
        "({} < {})",
        "({} >= {})",
        "({} && {})",
        "({} || {})",
        "({} in [{}, {}])",
        "(!{})",
        "(-{})",
        "({} ? {} : {})",
        "[{}, {}]",
        "[{}]",
        "{'a': {}, 'b': {}}",
        "{}[{}]",
        "{}.a",
        "{}.list",
        "size({})",
        "dyn({})",
        "int({})",
        "string({})",
        "bool({})",
        "{}.contains({})",
        "{}.startsWith({})",
        "{}.endsWith({})",
        "[{}, object.a].all(x, {})",
        "object.list.all(x, {})",
        "[{}, object.a].exists(x, {})",
        "object.list.exists(x, {})",
        "[{}, object.a].exists_one(x, {})",
        "object.list.exists_one(x, {})",
        "[{}, object.a].map(x, {})",
        "object.list.map(x, {})",
        "[{}, object.a].map(x, {}, {})",
        "object.list.map(x, {}, {})",
        "[{}, object.a].filter(x, {})",
        "object.list.filter(x, {})",
    ])
}

/// Expressions with everything there is.
pub(crate) fn all() -> impl Strategy<Value = String> {
    let libraries = tree(&[
        "({} + {})",
        "({} == {})",
        "({} != {})",
        "({} in {})",
        "({} ? {} : {})",
        "({} || {})",
        "[{}, ?{}]",
        "{'a': {}, ?'b': {}}",
        "{}[{}]",
        "{}.?a",
        "{}[?{}]",
        "{}.a",
        "has({}.a)",
        "{}.?a.orValue({})",
        "{}.?list.hasValue()",
        "{}.?b.value()",
        "{}.?b.or({})",
        "{}.?a.optMap(x, {})",
        "{}.?a.optFlatMap(x, {})",
        "optional.of({})",
        "optional.ofNonZeroValue({})",
        "cel.bind(x, {}, {})",
        "type({})",
        "size({})",
        "dyn({})",
        "string({})",
        "{}.all(k, x, {})",
        "{}.exists(k, x, {})",
        "{}.existsOne(k, x, {})",
        "{}.transformList(k, x, {})",
        "{}.transformList(k, x, {}, {})",
        "{}.transformMap(k, x, {})",
        "{}.transformMapEntry(k, x, {string(k): {}})",
        "{}.transformMapEntry(k, x, {})",
        "{}.map(x, {})",
        "{}.filter(x, {})",
        "{}.sortBy(x, {})",
        "{}.first()",
        "{}.last()",
        "{}.flatten()",
        "{}.distinct()",
        "{}.sort()",
        "{}.reverse()",
        "{}.slice(0, 1)",
        "{}.join(',')",
        "{}.indexOf({})",
        "{}.includes({})",
        "{}.sum()",
        "{}.max()",
        "{}.isSorted()",
        "sets.contains({}, {})",
        "math.greatest({})",
        "'%s'.format([{}])",
        "{}.split('a')",
        "{}.matches('a+')",
        "{}.unwrapOpt()",
    ]);
    prop_oneof![standard(), libraries]
}

/// Trees of these templates, inside a macro that binds `x`.
fn tree(templates: &'static [&'static str]) -> impl Strategy<Value = String> {
    let leaf = select(vec![
        "dyn(1)",
        "dyn(0)",
        "dyn(-2)",
        "dyn(2u)",
        "dyn(1.5)",
        "dyn('a')",
        "dyn('ab')",
        "dyn(true)",
        "dyn(false)",
        "dyn(null)",
        "dyn([])",
        "dyn({})",
        "object",
        "object.a",
        "object.b",
        "object.list",
        "object.map",
        "object.a.b",
        "object.map.list",
        "object['c']",
        "object.list[0]",
        "object.list[1].a",
        "x",
        "x.a",
        "x.list",
        "x[0]",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 24, 3, move |inner| {
        (select(templates), prop::collection::vec(inner, 3)).prop_map(|(template, parts)| {
            let mut pieces = template.split("{}");
            let mut text = pieces.next().unwrap_or_default().to_owned();
            for (piece, part) in pieces.zip(parts) {
                text.push_str(&part);
                text.push_str(piece);
            }
            text
        })
    })
    .prop_map(|body| format!("[object].map(x, {body})"))
}
