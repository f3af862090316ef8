//! Which parts of the object a program reads.

use std::fmt::Write as _;

use kollect_expr::ReadNode;
use kollect_expr::cel::{Program, ResultType};

/// The tree as paths: `.name`, `[*]`, with `*` for everything below, `#` for keys or length.
fn paths(node: &ReadNode, at: &str, out: &mut Vec<String>) {
    let marks = format!(
        "{}{}",
        if node.whole() { "*" } else { "" },
        if node.shape() { "#" } else { "" }
    );
    let leaf = node.members().is_empty() && node.any().is_none();
    if leaf || !marks.is_empty() {
        let mut path = at.to_owned();
        if !marks.is_empty() {
            let _ = write!(path, " {marks}");
        }
        out.push(path);
    }
    for (name, member) in node.members() {
        paths(member, &format!("{at}.{name}"), out);
    }
    if let Some(any) = node.any() {
        paths(any, &format!("{at}[*]"), out);
    }
}

#[test]
fn programs_read_what_they_name() {
    let table: &[(&str, &[&str])] = &[
        ("1 + 1", &[""]),
        ("object", &[" *"]),
        ("object.spec.replicas", &[".spec.replicas *"]),
        ("object['spec']['replicas']", &[".spec.replicas *"]),
        ("object.spec.replicas > 1", &[".spec.replicas"]),
        ("has(object.spec.a)", &[".spec.a"]),
        (
            "has(object.a) ? object.b : object.c",
            &[".a", ".b *", ".c *"],
        ),
        ("size(object.spec.containers)", &[".spec.containers #"]),
        (
            "object.spec.containers.map(c, c.image)",
            &[".spec.containers[*].image *"],
        ),
        (
            "object.spec.containers.filter(c, c.name == 'a').map(c, c.image)",
            &[".spec.containers[*].image *", ".spec.containers[*].name"],
        ),
        (
            "object.spec.containers.filter(c, c.name == 'a')",
            &[".spec.containers[*] *", ".spec.containers[*].name"],
        ),
        (
            "object.spec.containers.filter(c, c.name == 'a').size()",
            &[".spec.containers[*].name"],
        ),
        (
            "object.spec.containers.exists(c, c.ports.exists(p, p.port == 80))",
            &[".spec.containers[*].ports[*].port"],
        ),
        (
            "object.spec.containers.map(c, {'n': c.name})",
            &[".spec.containers[*].name *"],
        ),
        (
            "object.spec.containers.map(c, c.ports).flatten()",
            &[".spec.containers[*].ports *"],
        ),
        (
            "object.spec.containers[0].image",
            &[".spec.containers[*].image *"],
        ),
        ("object.list[object.at].x", &[".at", ".list[*].x *"]),
        (
            "object.metadata.labels.map(k, k)",
            &[".metadata.labels[*] *"],
        ),
        (
            "object.metadata.labels.transformList(k, v, v)",
            &[".metadata.labels[*] *"],
        ),
        (
            "'app' in object.metadata.labels",
            &[".metadata.labels #", ".metadata.labels[*]"],
        ),
        (
            "object.a in object.list",
            &[".a *", ".list #", ".list[*] *"],
        ),
        ("object.a == object.b", &[".a *", ".b *"]),
        ("object.a == null", &[".a"]),
        ("object.a + object.b", &[".a[*] *", ".b[*] *"]),
        ("object.a + 'x'", &[".a"]),
        ("object.a.startsWith(object.b)", &[".a", ".b"]),
        ("type(object.a)", &[".a"]),
        ("object.?a.?b.orValue('x')", &[".a.b *"]),
        ("object.?a.hasValue()", &[".a"]),
        ("object[?'a'].?b", &[".a.b *"]),
        ("object.?a.optMap(v, v.b)", &[".a.b *"]),
        ("optional.of(object.a).value().b", &[".a.b *"]),
        (
            "cel.bind(s, object.spec, s.a + s.b == 'x')",
            &[".spec.a[*]", ".spec.b[*]"],
        ),
        (
            "cel.bind(s, object.spec, [s.a, s.b])[0].c",
            &[".spec.a.c *", ".spec.b.c *"],
        ),
        ("dyn(object.a).b", &[".a.b *"]),
        (
            "object.list.sortBy(x, x.a).map(x, x.b)",
            &[".list[*].a", ".list[*].b *"],
        ),
        ("object.list.first().name", &[".list *"]),
        (
            "object.list.transformMapEntry(i, v, {v.name: v.value})",
            &[".list[*].name", ".list[*].value *"],
        ),
        (
            "(object.a ? object.b : object.c).d",
            &[".a", ".b.d *", ".c.d *"],
        ),
        ("quantity(object.a).isGreaterThan(quantity('1'))", &[".a"]),
        ("object.list.join(',')", &[".list *"]),
        ("'%s'.format([object.a])", &[".a *"]),
        ("size(object)", &[" #"]),
        ("object.a || object.b && !object.c", &[".a", ".b", ".c"]),
    ];
    for (expression, expected) in table {
        let program = Program::compile(expression).unwrap();
        let mut found = Vec::new();
        paths(program.reads().root(), "", &mut found);
        assert_eq!(found, *expected, "{expression}");
    }
}

#[test]
fn a_web_of_places_ends_in_everything() {
    let mut text = "x.z".to_owned();
    for _ in 0..15 {
        text = format!("cel.bind(x, object.c ? x.a : x.b, {text})");
    }
    let program = Program::compile(&format!("cel.bind(x, object, {text})")).unwrap();
    assert!(program.reads().is_everything());
}

#[test]
fn the_type_of_the_result_is_known_where_it_can_be() {
    let table = [
        ("object.a", ResultType::Dyn),
        ("object.a > 1", ResultType::Bool),
        ("object.a && object.b", ResultType::Bool),
        ("has(object.a)", ResultType::Bool),
        ("object.a.exists(x, x)", ResultType::Bool),
        ("object.a.startsWith('a')", ResultType::Bool),
        ("1 + 1", ResultType::Other("int")),
        ("'truthy'", ResultType::Other("string")),
        ("object.a.map(x, x)", ResultType::Other("list")),
        ("{'a': 1}", ResultType::Other("map")),
        ("object.a ? true : false", ResultType::Bool),
        ("object.a ? true : object.b", ResultType::Dyn),
        ("object.?a.orValue(false)", ResultType::Dyn),
        ("object.?a", ResultType::Other("optional_type")),
        ("object.a + 'x'", ResultType::Other("string")),
        ("object.a + object.b", ResultType::Dyn),
        ("string(object.a)", ResultType::Other("string")),
        ("[true][0]", ResultType::Bool),
    ];
    for (expression, expected) in table {
        let program = Program::compile(expression).unwrap();
        assert_eq!(program.result_type(), expected, "{expression}");
    }
}

#[test]
fn a_condition_holds_for_true_only() {
    let object = serde_json::json!({"t": true, "s": "True", "n": 1, "replicas": 3});
    let table = [
        ("true", Some(true)),
        ("object.t", Some(true)),
        ("object.replicas > 2", Some(true)),
        ("'true'", Some(true)),
        ("object.s", Some(true)),
        ("'truthy'", Some(false)),
        ("'T'", Some(true)),
        ("'1'", Some(true)),
        ("1", Some(false)),
        ("object.n", Some(false)),
        ("null", Some(false)),
        ("[true]", Some(false)),
        ("object", Some(false)),
        ("has(object.missing) && object.missing > 2", Some(false)),
        ("object.missing || true", Some(true)),
        ("object.missing > 2", None),
    ];
    for (expression, expected) in table {
        let program = Program::compile(expression).unwrap();
        assert_eq!(program.test(&object).ok(), expected, "{expression}");
    }
}
