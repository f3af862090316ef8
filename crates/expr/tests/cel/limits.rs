//! Hostile texts: whatever the text, the answer comes soon and the process stays alive.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use kollect_expr::cel::{CompileError, Limits, MAX_TEXT, Program};
use serde_json::{Value, json};

/// Much less than any thread of the program has.
const SMALL_STACK: usize = 512 << 10;

/// How long this thread has been computing: on a busy machine the clock on the wall says little.
fn computing() -> Duration {
    let nanos = std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| ANCHOR.elapsed(), Duration::from_nanos)
}

/// How long this thread has been computing since.
fn since(start: Duration) -> Duration {
    computing().saturating_sub(start)
}

/// The clock where the system does not tell.
static ANCHOR: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A bound for optimised code; other builds take several times as long.
fn bound(millis: u64) -> Duration {
    let factor = if cfg!(debug_assertions) { 5 } else { 1 };
    Duration::from_millis(millis * factor)
}

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(SMALL_STACK)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap();
}

/// Texts that nest or chain `n` times, each in another way.
fn shapes(n: usize) -> Vec<(&'static str, String)> {
    let wrap = |open: &str, inner: &str, close: &str| open.repeat(n) + inner + &close.repeat(n);
    let chain = |first: &str, next: &str| first.to_owned() + &next.repeat(n);
    vec![
        ("parentheses", wrap("(", "1", ")")),
        ("parentheses with operators", wrap("(1+", "1", ")")),
        ("lists", wrap("[", "1", "]")),
        ("maps", wrap("{'a':", "1", "}")),
        ("calls", wrap("dyn(", "1", ")")),
        ("methods", wrap("'a'.contains(", "'a'", ")")),
        ("macros", wrap("[1].map(x,", "1", ")")),
        ("two-variable macros", wrap("[1].all(k,v,", "true", ")")),
        ("binds", wrap("cel.bind(x,1,", "1", ")")),
        ("all precedences", wrap("(1||1&&1==1+1*-", "1", ")")),
        ("indexes in indexes", wrap("object[", "0", "]")),
        ("optional indexes", wrap("object[?", "0", "]")),
        ("unary minus", wrap("-", "object.a", "")),
        ("not", wrap("!", "object.a", "")),
        ("mixed unary", wrap("!-", "object.a", "")),
        ("not in parentheses", wrap("!(", "object.a", ")")),
        ("ternaries to the right", wrap("true?1:", "1", "")),
        ("ternaries of paths", wrap("object.a?1:", "1", "")),
        ("ternaries in conditions", wrap("(", "true", "?true:false)")),
        ("sums", chain("object.a", "+1")),
        ("constant sums", chain("1", "+1")),
        ("comparisons", chain("1", "==1")),
        ("members", chain("object", ".a")),
        ("quoted members", chain("object", ".`a`")),
        ("optional members", chain("object", ".?a")),
        ("elements", chain("object", "[0]")),
        ("optional elements", chain("object", "[?0]")),
        ("method chains", chain("'a'", ".trim()")),
        (
            "method chains with arguments",
            chain("'a'", ".replace('a','b')"),
        ),
        ("macro chains", chain("[1]", ".map(x,x)")),
        ("and", chain("true", "&&true")),
        ("or of paths", chain("object.a", "||object.b")),
        ("and in or", chain("true", "||true&&false")),
        (
            "list items",
            wrap("[", &"1,".repeat(n), "").replace("[[", "[") + "]",
        ),
        ("unclosed brackets", "[".repeat(n)),
        ("unclosed maps", "{1:".repeat(n)),
        ("unclosed calls", "f(".repeat(n)),
        ("closing brackets", ")".repeat(n)),
        ("questions", "?".repeat(n)),
        ("struct literals", "a{b:".repeat(n)),
        ("quotes", "'".repeat(n)),
        ("backticks", "`".repeat(n)),
        ("dots", ".".repeat(n)),
    ]
}

fn run(text: &str, object: &Value) -> Result<(), String> {
    match Program::compile(text) {
        Err(error) => Err(error.to_string()),
        Ok(program) => match program.evaluate(object) {
            Ok(_) | Err(_) => Ok(()),
        },
    }
}

#[test]
fn no_text_overflows_a_small_stack() {
    on_a_small_stack(|| {
        let object = json!({"a": {"a": 1}, "b": true});
        for n in (1..=110).chain([200, 500, 1500, 4095]) {
            for (name, text) in shapes(n) {
                let start = computing();
                let _ = run(&text, &object);
                let time = since(start);
                assert!(time < bound(100), "{name} x {n}: {time:?}");
            }
        }
    });
}

#[test]
fn deep_and_long_texts_are_refused_with_a_clear_error() {
    let start = computing();
    let deep = "TooDeep";
    for (name, text) in shapes(1500) {
        let Err(error) = Program::compile(&text) else {
            // Wide is not deep.
            assert!(
                matches!(
                    name,
                    "list items" | "and" | "mixed unary" | "not" | "unary minus"
                ),
                "{name}"
            );
            continue;
        };
        if text.len() > MAX_TEXT {
            assert!(
                matches!(error, CompileError::TooLong { .. }),
                "{name}: {error}"
            );
        } else {
            let kind = format!("{error:?}");
            assert!(
                kind.starts_with(deep) || kind.starts_with("Syntax"),
                "{name}: {error}"
            );
        }
    }
    let sum = format!("1{}", "+1".repeat(1499));
    assert!(matches!(
        Program::compile(&sum),
        Err(CompileError::TooDeep { .. })
    ));
    let long = format!("'{}'", "x".repeat(10_000));
    assert_eq!(
        Program::compile(&long).unwrap_err(),
        CompileError::TooLong {
            length: 10_002,
            limit: MAX_TEXT
        }
    );
    assert!(since(start) < bound(100), "{:?}", since(start));
}

#[test]
fn realistic_nesting_is_not_refused() {
    let sum = format!("'a'{}", " + object.metadata.name".repeat(50));
    let cases = [
        sum.as_str(),
        "object.a.b.c.d.e.f.g.h.i.j.k.l.m.n[0][1][2]['x']['y'].z",
        "(((((((((((((((((((((((((((((((1)))))))))))))))))))))))))))))))",
        "object.a ? 1 : object.b ? 2 : object.c ? 3 : object.d ? 4 : object.e ? 5 : object.f ? 6 : 7",
        "object.x.map(a, a.y.map(b, b.z.map(c, c.w.map(d, d.filter(e, e.f.exists(g, g.h == a.i)))))) ",
    ];
    for text in cases {
        Program::compile(text).unwrap();
    }
}

/// `[1,2].map(a, [1,2].map(b, …))`: 2^n elements.
fn nested_maps(n: usize) -> String {
    let mut text = "1".to_owned();
    for level in 0..n {
        text = format!("[1,2].map(v{level}, {text})");
    }
    text
}

#[test]
fn nested_macros_run_out_of_budget_soon() {
    let program = Program::compile(&nested_maps(20)).unwrap();
    let fastest = (0..5)
        .map(|_| {
            let start = computing();
            let error = program.evaluate(&Value::Null).unwrap_err();
            assert!(error.is_limit(), "{error}");
            since(start)
        })
        .min()
        .unwrap();
    assert!(fastest < bound(100), "{fastest:?}");
}

#[test]
fn limits_hold_and_are_not_absorbed() {
    let small = Limits {
        steps: 1000,
        built_bytes: 1000,
    };
    let big = "lists.range(1000).all(x, true)";
    for text in [
        big.to_owned(),
        format!("{big} || object.t"),
        format!("true && [1].exists(x, {big}) || object.t"),
        format!("[1, 2].all(x, {big}) || object.t"),
        "(object.a + 'aaaaaaaaaaaa').replace('', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb')".to_owned(),
        "[object.a, object.a].map(x, [x, x]).map(x, [x, x]).map(x, [x, x]).map(x, [x, x]).map(x, [x, x]).map(x, [x, x, x, x, x, x, x])".to_owned(),
        "cel.bind(a, [object.a, object.a, object.a, object.a], cel.bind(b, [a, a, a, a], cel.bind(c, [b, b, b, b], [c, c, c, c, c])))".to_owned(),
        "cel.bind(a, [object.a, object.a, object.a, object.a], cel.bind(b, [a, a, a, a], cel.bind(c, [b, b, b, b], cel.bind(d, [c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c], d == d))))".to_owned(),
    ] {
        let program = Program::compile(&text).unwrap();
        let object = json!({"a": "text", "t": true});
        let error = program.evaluate_with(&object, &small).unwrap_err();
        assert!(error.is_limit(), "{text}: {error}");
    }
}

#[test]
fn costly_functions_end_within_the_budget() {
    let text = "a".repeat(200_000);
    let object = json!({"text": text, "list": (0..20_000).collect::<Vec<_>>()});
    for expression in [
        "object.list.map(x, object.text.contains('b')).size()",
        "object.list.map(x, object.text.matches('(a|b)*c')).size()",
        "object.list.map(x, object.text.matches('a{50}' + string(x))).size()",
        "object.text.lastIndexOf(object.text.substring(1) + 'b')",
        "object.list.transformMapEntry(i, v, {20000 - v: v}).size()",
        "object.text.matches('(a?){100}(a?){100}b')",
        "object.text.substring(0, 2000).findAll('a*b|a').size()",
        "object.list.distinct().size()",
        "sets.contains(object.list, object.list)",
        "object.list.map(x, object.text.size())",
        "object.list.map(x, object.text + 'x').size()",
        "object.list.map(x, object.list.sort()).size()",
        "object.list.exists(x, object.list.exists(y, x == -y - 1))",
        "object.list.map(x, object.text == object.text.substring(0))",
        "'%s'.format([object.list.map(x, object.text)])",
        "object.text.split('').distinct()",
        "object.list.map(x, timestamp(x).getHours('Europe/Berlin')).size()",
    ] {
        let program = Program::compile(expression).unwrap();
        let start = computing();
        let _ = program.evaluate(&object);
        let time = since(start);
        assert!(time < bound(300), "{expression}: {time:?}");
    }
}

#[test]
fn short_expressions_cannot_ask_for_gigabytes() {
    let object = json!({"text": "a".repeat(200_000), "list": (0..20_000).collect::<Vec<_>>()});
    for expression in [
        "object.list.map(x, object.text)",
        "object.list.map(x, object)",
        "object.list.map(x, [object])",
        "object.list.map(x, {'k': object.list})",
        "cel.bind(s, object.text + 'x', object.list.map(x, s))",
        "cel.bind(s, object.text + 'x', object.list.map(x, {s: s}))",
        "cel.bind(s, [object.text + 'x'], object.list.map(x, s[0] + 'y')).size()",
        "object.list.map(x, lists.range(10000)).size()",
        "object.text.replace('', object.text)",
        "object.text.split('').map(x, object.text).join(object.text)",
        "object.list.map(x, bytes(object.text)).size()",
        "cel.bind(l, object.list + object.list, [l, l, l, l, l, l].flatten() + l).map(x, object.list)",
    ] {
        let program = Program::compile(expression).unwrap();
        let error = program.evaluate(&object).unwrap_err();
        assert!(error.is_limit(), "{expression}: {error}");
    }
    // Once is fine, however large the object is.
    for expression in [
        "object",
        "object.text",
        "object.list",
        "object.list.filter(x, x > 5)",
    ] {
        let program = Program::compile(expression).unwrap();
        assert!(program.evaluate(&object).is_ok(), "{expression}");
    }
}
