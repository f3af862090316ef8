//! YAML, one text per value.
//!
//! Block style, two blanks per level, sequences not indented below their key, keys in byte order,
//! no line folding: a change of one value is a change of one line. Strings are plain where both
//! YAML 1.1 and 1.2 read them as the same string, and quoted where either would see something
//! else, such as the country `no` or the version `1.10`.

use std::borrow::Cow;

use kollect_inventory::{
    Attributes, CanonicalRef, Row,
    canonical::{Out, View},
};

use super::scalar::{self, Style};

/// Beyond this many bytes parsers no longer take the text before a colon for a key.
const LONGEST_KEY: usize = 1000;

/// Writes a row as a mapping.
pub(super) fn row(out: &mut String, row: &Row) {
    mapping(out, members(row), 0, false);
}

/// Writes a row as one entry of a sequence of rows.
pub(super) fn row_entry(out: &mut String, row: &Row) {
    out.put("- ");
    mapping(out, members(row), 2, true);
}

/// Writes attributes as a mapping; a row without any has an empty one.
pub(super) fn attributes(out: &mut String, attributes: Attributes<'_>) {
    if attributes.iter().next().is_none() {
        out.put("{}\n");
    } else {
        mapping(out, named(attributes), 0, false);
    }
}

/// Writes any value.
pub(super) fn value(out: &mut String, value: CanonicalRef<'_>) {
    match value.view() {
        View::Object(members) if !is_empty(value) => {
            mapping(
                out,
                members.map(|(key, value)| (key, Node::Json(value))),
                0,
                false,
            );
        }
        View::List(items) if !is_empty(value) => sequence(out, items, 0, false),
        View::Text(text) if text.contains('\n') => {
            scalar::double_quoted(out, &text);
            out.put("\n");
        }
        _ => {
            simple(out, value, 0);
            out.put("\n");
        }
    }
}

/// What stands behind a key.
enum Node<'a> {
    Text(Cow<'a, str>),
    Json(CanonicalRef<'a>),
    Attributes(Attributes<'a>),
}

/// The members of a row in key order.
fn members(row: &Row) -> impl Iterator<Item = (Cow<'_, str>, Node<'_>)> {
    let origin = row.origin();
    let text = |text| Some(Node::Text(Cow::Borrowed(text)));
    let attributes = match row.attributes() {
        attributes if attributes.is_null() => Node::Json(CanonicalRef::NULL),
        attributes => Node::Attributes(attributes),
    };
    let group = (!origin.group().is_empty()).then(|| Node::Text(origin.group().into()));
    [
        ("attributes", Some(attributes)),
        ("group", group),
        ("kind", text(origin.kind())),
        ("name", text(row.name())),
        ("namespace", text(origin.namespace())),
        ("targetName", text(origin.target_name())),
        ("targetNamespace", text(origin.target_namespace())),
        ("uid", Some(Node::Text(row.uid().to_string().into()))),
        ("version", text(origin.version())),
    ]
    .into_iter()
    .filter_map(|(key, node)| Some((Cow::Borrowed(key), node?)))
}

fn named(attributes: Attributes<'_>) -> impl Iterator<Item = (Cow<'_, str>, Node<'_>)> {
    attributes
        .iter()
        .map(|(name, value)| (name, Node::Json(value)))
}

/// Writes members at a depth; the first stands where the line is already, if it is `started`.
fn mapping<'a>(
    out: &mut String,
    members: impl Iterator<Item = (Cow<'a, str>, Node<'a>)>,
    depth: usize,
    mut started: bool,
) {
    for (key, node) in members {
        if !std::mem::take(&mut started) {
            indent(out, depth);
        }
        if key.len() > LONGEST_KEY {
            out.put("? ");
            in_line(out, &key);
            out.put("\n");
            indent(out, depth);
        } else {
            in_line(out, &key);
        }
        out.put(":");
        match node {
            Node::Text(text) => {
                out.put(" ");
                string(out, &text, depth + 2);
                out.put("\n");
            }
            Node::Json(value) => below(out, value, depth),
            Node::Attributes(attributes) if attributes.iter().next().is_none() => {
                out.put(" {}\n");
            }
            Node::Attributes(attributes) => {
                out.put("\n");
                mapping(out, named(attributes), depth + 2, false);
            }
        }
    }
}

/// Writes the value of a key that stands at a depth.
fn below(out: &mut String, value: CanonicalRef<'_>, depth: usize) {
    match value.view() {
        View::Object(members) if !is_empty(value) => {
            out.put("\n");
            let members = members.map(|(key, value)| (key, Node::Json(value)));
            // The iterators of nested mappings would nest in each other's types.
            mapping(
                out,
                Box::new(members) as Box<dyn Iterator<Item = _>>,
                depth + 2,
                false,
            );
        }
        View::List(items) if !is_empty(value) => {
            out.put("\n");
            sequence(out, items, depth, false);
        }
        _ => {
            out.put(" ");
            simple(out, value, depth + 2);
            out.put("\n");
        }
    }
}

fn sequence<'a>(
    out: &mut String,
    items: impl Iterator<Item = CanonicalRef<'a>>,
    depth: usize,
    mut started: bool,
) {
    for item in items {
        if !std::mem::take(&mut started) {
            indent(out, depth);
        }
        out.put("- ");
        match item.view() {
            View::Object(members) if !is_empty(item) => {
                let members = members.map(|(key, value)| (key, Node::Json(value)));
                mapping(
                    out,
                    Box::new(members) as Box<dyn Iterator<Item = _>>,
                    depth + 2,
                    true,
                );
            }
            View::List(items) if !is_empty(item) => sequence(out, items, depth + 2, true),
            _ => {
                simple(out, item, depth + 2);
                out.put("\n");
            }
        }
    }
}

fn is_empty(value: CanonicalRef<'_>) -> bool {
    matches!(value.as_str(), "{}" | "[]")
}

/// Writes what needs no line of its own. Further lines of a text stand at `depth`.
fn simple(out: &mut String, value: CanonicalRef<'_>, depth: usize) {
    match value.view() {
        View::Text(text) => string(out, &text, depth),
        View::Number(number) => self::number(out, number),
        _ => out.put(value.as_str()),
    }
}

/// Writes a number. An exponent without a fraction is a string for YAML 1.1, and a negative zero
/// without one is an integer for both.
fn number(out: &mut String, number: &str) {
    match number.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => {
            out.put(mantissa);
            out.put(".0e");
            out.put(exponent);
        }
        None if number == "-0" => out.put("-0.0"),
        _ => out.put(number),
    }
}

fn string(out: &mut String, text: &str, depth: usize) {
    match scalar::style(text) {
        Style::Literal => literal(out, text, depth),
        style => scalar::write(out, text, style),
    }
}

/// Writes a text that has to stay in one line.
fn in_line(out: &mut String, text: &str) {
    match scalar::style(text) {
        Style::Literal => scalar::double_quoted(out, text),
        style => scalar::write(out, text, style),
    }
}

/// Writes a text line by line, without its last line break, which the caller writes.
fn literal(out: &mut String, text: &str, depth: usize) {
    out.put("|");
    if text.starts_with([' ', '\n']) {
        // Where the text itself starts with blanks, its depth has to be said.
        out.put("2");
    }
    let content = text.trim_end_matches('\n');
    match text.len() - content.len() {
        0 => out.put("-"),
        1 => {}
        _ => out.put("+"),
    }
    let lines = text.strip_suffix('\n').unwrap_or(text);
    for line in lines.split('\n') {
        out.put("\n");
        if !line.is_empty() {
            indent(out, depth);
            out.put(line);
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    const BLANKS: &str = "                                                                ";
    let mut rest = depth;
    while rest > 0 {
        let now = rest.min(BLANKS.len());
        out.put(&BLANKS[..now]);
        rest -= now;
    }
}
