//! What must hold for any input that a tenant or a cluster can send.
//!
//! Each [`Target`] takes bytes, treats them as one kind of input and panics if a promise is
//! broken: an expression that hangs, an error that is not one short line, a projection that makes
//! a difference. The same functions are called by two drivers: the one in [`driver`], which runs
//! for a few seconds as an ordinary test, and libFuzzer under `fuzz/`, which runs for as long as
//! somebody lets it.

pub mod driver;
mod targets;

/// A kind of input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name, also of its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// Checks one input.
    pub check: fn(&[u8]),
    /// The longest input worth trying.
    pub longest: usize,
    /// Pieces of the input's language.
    pub words: &'static [&'static str],
}

/// CEL expressions.
#[rustfmt::skip]
pub const CEL: Target = Target {
    name: "cel",
    check: targets::cel,
    longest: 2100,
    words: &[
        "object", ".spec", "['a']", "[0]", "has(", ".map(x, ", ".filter(x, ", ".exists(x, ",
        " + ", " == ", " in ", " ? ", " : ", "size(", "'", "\"", "b'", "r'''", "1u", "1.5e3", "-",
        "!", "&&", "||", "timestamp('2026-01-02T03:04:05Z')", "duration('1h')", ".getHours()",
        "null", "{", "}", "[", "]", ".?a", ".orValue(", "int(", "string(", ".matches('", ")",
        "`a.b`", "//", "\n", "9223372036854775807",
    ],
};

/// JSONPaths, of attributes and of removals.
#[rustfmt::skip]
pub const JSON_PATH: Target = Target {
    name: "jsonpath",
    check: targets::json_path,
    longest: 4200,
    words: &[
        "$", ".", "..", "[*]", ".*", "[0]", "[-1]", "[1:3]", "[::2]", "['a']", "[\"b\"]",
        "['a','b']", "[?(@.a==\"x\")]", "[?(@.a)]", "[?(@.b[0] > 1.5)]", "spec", "list", "\\.",
        "{", "}", "]", ")", "9223372036854775808", " ",
    ],
};

/// Helm release documents, as they are and wrapped as Helm stores them.
#[rustfmt::skip]
pub const HELM: Target = Target {
    name: "helm",
    check: targets::helm,
    longest: 16_384,
    words: &[
        "{", "}", "[", "]", "\"", ":", ",", "null", "\"chart\"", "\"metadata\"", "\"name\"",
        "\"config\"", "\"manifest\"", "\"templates\"", "H4sI", "\u{1f}\u{8b}\u{8}", "=", "1e999",
        "\\u0000",
    ],
};

/// The bytes of objects.
#[rustfmt::skip]
pub const OBJECT: Target = Target {
    name: "object",
    check: targets::object,
    longest: 65_536,
    words: &[
        "{", "}", "[", "]", "\"", ":", ",", "null", "true", "-0", "1e999", "18446744073709551616",
        "\"metadata\"", "\"name\"", "\"spec\"", "\"list\"", "\"labels\"", "\"managedFields\"",
        "\"a\"", "\\ud800", "\\", "\"items\"", " ", "\u{0}",
    ],
};

/// All of them.
pub const TARGETS: [Target; 4] = [CEL, JSON_PATH, HELM, OBJECT];
