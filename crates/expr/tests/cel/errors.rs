//! Error texts: they name places and types, never values of the object.

use kollect_expr::cel::Program;
use serde_json::json;

#[test]
fn no_error_shows_a_value_of_the_object() {
    let object = json!({
        "secret": "hunter2", "number": 424_242, "list": ["hunter2", 424_242],
        "map": {"hunter2": "hunter2"}, "deep": {"hunter2": {"x": 1}},
        "pattern": "(hunter2", "keys": ["hunter2", "hunter2"],
    });
    let expressions = [
        "object.secret.member",
        "object.secret + 1",
        "object.number + 'a'",
        "object.number / 0",
        "object.map[object.number]",
        "object.map[object.secret + 'x']",
        "object.list[object.number]",
        "object.map.missing",
        "object.list.filter(x, x == 'hunter2')[5]",
        "int(object.secret)",
        "uint(object.secret)",
        "double(object.secret)",
        "bool(object.secret)",
        "timestamp(object.secret)",
        "timestamp(object.number * 1000000000)",
        "duration(object.secret)",
        "timestamp('2026-01-02T03:04:05Z').getHours(object.secret)",
        "object.secret.matches(object.pattern)",
        "object.secret.find(object.pattern)",
        "object.secret.charAt(object.number)",
        "object.secret.substring(object.number)",
        "object.secret.indexOf('h', object.number)",
        "object.list.slice(0, object.number)",
        "object.list.flatten(-object.number)",
        "object.list.sort()",
        "object.list.sum()",
        "object.list.max()",
        "object.list.join(',')",
        "object.list.sortBy(x, x)",
        "math.greatest(object.list)",
        "base64.decode(object.pattern)",
        "quantity(object.secret)",
        "semver(object.secret)",
        "url(object.secret)",
        "ip(object.secret)",
        "cidr(object.secret)",
        "cidr('10.0.0.0/8').containsIP(object.secret)",
        "(object.secret + '%q').format([1])",
        "'%d'.format([object.secret])",
        "'%d %d'.format([object.number])",
        "{object.secret: 1, 'hunter' + '2': 2}",
        "object.keys.transformMapEntry(i, k, {k: i})",
        "{[object.secret].size(): 1, dyn(object.list): 2}",
        "object.secret ? 1 : 2",
        "object.secret && true",
        "object.list.all(x, x)",
        "object.number.map(x, x)",
        "object.secret < object.number",
        "-object.secret",
        "!object.secret",
        "object.secret in object.number",
        "has(object.list.hunter)",
        "object.?secret.?x.value()",
        "[?object.secret]",
        "object.secret.optMap(x, x)",
        "object.?secret.optFlatMap(x, x)",
        "1.0 / 0.0",
    ];
    for expression in expressions {
        let program = Program::compile(expression).unwrap();
        let error = program.evaluate(&object).unwrap_err();
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(
                !text.contains("hunter2") && !text.contains("424242"),
                "{expression}: {text}"
            );
            assert!(!text.contains('\n'), "{expression}: {text}");
        }
        assert!(error.to_string().len() <= 256);
    }
}

#[test]
fn long_names_do_not_make_long_errors() {
    let name = "é".repeat(1500);
    let object = json!({"text": "t", "list": []});
    for expression in [
        format!("object['{name}']"),
        format!("object['{name}'].x"),
        format!("{{'a': 1}}['{name}']"),
        format!("object.text['{name}']"),
        format!("object.list['{name}']"),
        format!("object.list.map(x, x)['{name}']"),
        format!("has(object.list.map(x, x)[0].`{}`)", "n".repeat(3000)),
        format!("object.text.{}", "n".repeat(3000)),
        format!("timestamp(0).{}", "n".repeat(3000)),
        format!("dyn(timestamp(0)).{}", "n".repeat(3000)),
        format!("{}(1)", "n".repeat(3000)),
        format!("{}.b", "n".repeat(3000)),
        format!("object.text.matches('({name}')"),
        format!("'{name}' + '\\q'"),
        format!("{}{{a: 1}}", "n".repeat(3000)),
    ] {
        let error = match Program::compile(&expression) {
            Err(error) => error.to_string(),
            Ok(program) => program.evaluate(&object).unwrap_err().to_string(),
        };
        assert!(error.len() <= 256, "{} bytes: {error}", error.len());
    }
}

#[test]
fn errors_name_the_place() {
    let object = json!({"spec": {"list": [1], "nothing": null, "text": "t"}});
    let table = [
        ("object.spec.missing.x", "no such key: object.spec.missing"),
        ("object.spec['a b'].x", "no such key: object.spec['a b']"),
        (
            "object.spec.list[7].x",
            "index out of range: object.spec.list[7]",
        ),
        (
            "object.spec.nothing.x",
            "no such key: object.spec.nothing.x (of null_type)",
        ),
        (
            "object.spec.text.x",
            "no such key: object.spec.text.x (of string)",
        ),
        (
            "object.spec.list.map(c, c.image)",
            "no such key: c.image (of int)",
        ),
        (
            "object.spec.list.filter(c, true)[3]",
            "index out of range: [3]",
        ),
        ("object.spec[object.spec.text]", "no such key: [string]"),
        ("object.spec.text + 1", "no such overload: +(string, int)"),
        (
            "object.spec.list.contains('a')",
            "no such overload: contains(list, string)",
        ),
        ("has(object.missing.x)", "no such key: object.missing"),
        (
            "int(object.spec.text)",
            "int: the text is no 64-bit integer",
        ),
        ("1 / (object.spec.list[0] - 1)", "division by zero"),
    ];
    for (expression, expected) in table {
        let program = Program::compile(expression).unwrap();
        let error = program.evaluate(&object).unwrap_err();
        assert_eq!(error.to_string(), expected, "{expression}");
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let table = [
        (" ", "the expression is empty"),
        ("1 +", "1:4: mismatched input '<EOF>' expecting expression"),
        (
            "a.b",
            "undeclared name 'a.b': only 'object' and the variables of macros are known",
        ),
        ("object.x.frobnicate()", "unknown function 'frobnicate'"),
        ("math.frobnicate(1)", "unknown function 'math.frobnicate'"),
        (
            "size(1, 2)",
            "'size' cannot be called with 2 argument(s) this way",
        ),
        (
            "contains('a', 'b')",
            "'contains' cannot be called with 2 argument(s) this way",
        ),
        ("1 + 'a'", "no overload of +(int, string)"),
        ("size(1)", "no overload of size(int)"),
        (
            "'a'.map(x, x)",
            "no overload of the range of a macro(string)",
        ),
        ("[1].all(x, x)", "no overload of all(int)"),
        (
            "object.x.sortBy(1, 2)",
            "sortBy: expects a simple name for its variable",
        ),
        (
            "object.x.all(a, a, true)",
            "all: the two variables need different names",
        ),
        ("object.x.matches('[')", "invalid regular expression: ["),
        ("has(object)", "1:5: invalid argument to has() macro"),
        ("Message{a: 1}", "the message 'Message' is not supported"),
    ];
    for (expression, expected) in table {
        let error = Program::compile(expression).unwrap_err();
        assert_eq!(error.to_string(), expected, "{expression}");
    }
}
