//! Regular expressions in the syntax of RE2, which is what CEL means by a pattern.
//!
//! The engine used here has nearly the same syntax. [`translate`] rewrites the differences: the
//! short classes (`\d`, `\w`, `\s`, `\b`) mean ASCII, classes do not nest and have no set
//! operators, `\Q…\E` quotes, and a brace that counts nothing is a brace.

use std::borrow::Cow;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::super::error::EvalError;
use super::super::limits::Budget;
use super::super::value::Val;
use super::opaque::Opaque;
use super::text;
use crate::budget::{CompileBudget, Exhausted};

/// A regular expression with the price of using it.
///
/// Matching is linear in the text, but on bad days also in the size of the pattern: the engine
/// then follows all its states at once. The price per byte covers such days.
#[derive(Debug, Clone)]
pub(in super::super) struct Pattern {
    pub(super) regex: Regex,
    steps_per_byte: u64,
}

/// Compiled sizes in bytes, with the price of patterns up to that size.
const TIERS: [(usize, u64); 4] = [
    (4 << 10, 2),
    (16 << 10, 30),
    (64 << 10, 200),
    (256 << 10, 800),
];
/// How many of the tiers a pattern may use that is compiled during the evaluation.
const COMPUTED_TIERS: usize = 3;
/// How much a search may remember between bytes, as a multiple of the compiled size. It is kept
/// for every pattern and thread that searched once, so small patterns get little.
const CACHE_PER_BYTE: usize = 16;
/// What a byte of a compiled pattern costs of the budget for compiling.
const COMPILE_STEPS_PER_BYTE: u64 = 10;

impl Pattern {
    /// Compiles a pattern; `pay` is asked before each attempt whether one of that many bytes is
    /// still possible.
    fn compile<E>(
        pattern: &str,
        tiers: usize,
        mut pay: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Result<Pattern, regex::Error>, E> {
        let translated = translate(pattern);
        let mut result = Err(regex::Error::CompiledTooBig(0));
        for (size, steps_per_byte) in &TIERS[..tiers] {
            pay(*size)?;
            result = RegexBuilder::new(&translated)
                .size_limit(*size)
                .dfa_size_limit((*size * CACHE_PER_BYTE).min(1 << 20))
                .nest_limit(50)
                .build()
                .map(|regex| Pattern {
                    regex,
                    steps_per_byte: *steps_per_byte,
                });
            if !matches!(result, Err(regex::Error::CompiledTooBig(_))) {
                break;
            }
        }
        Ok(result)
    }

    /// Pays for one search through `length` bytes.
    pub(super) fn pay(&self, budget: &mut Budget, length: usize) -> Result<(), EvalError> {
        budget.charge((length as u64).saturating_mul(self.steps_per_byte))
    }
}

/// A literal pattern, ready to be a constant of a program.
pub(in super::super) fn literal(
    pattern: &str,
    budget: &mut CompileBudget,
) -> Result<Result<Val<'static>, regex::Error>, Exhausted> {
    let pattern = Pattern::compile(pattern, TIERS.len(), |bytes| {
        budget.charge(bytes as u64 * COMPILE_STEPS_PER_BYTE)
    })?;
    Ok(pattern.map(|pattern| Val::Opaque(Arc::new(Opaque::Pattern(pattern)))))
}

/// The regular expression in an argument: compiled with the program if it is a literal, now if it
/// is computed.
pub(super) fn argument<'v>(
    budget: &mut Budget,
    function: &'static str,
    args: &'v [Val<'_>],
    at: usize,
) -> Result<Cow<'v, Pattern>, EvalError> {
    if let Some(Val::Opaque(opaque)) = args.get(at)
        && let Opaque::Pattern(pattern) = &**opaque
    {
        return Ok(Cow::Borrowed(pattern));
    }
    let pattern = text(args, at);
    // Compiling takes as long as thousands of steps.
    budget.charge(20 * pattern.len() as u64)?;
    let compiled = Pattern::compile(pattern, COMPUTED_TIERS, |bytes| {
        budget.charge(bytes as u64 / 2)
    })?;
    match compiled {
        Ok(pattern) => Ok(Cow::Owned(pattern)),
        Err(_) => Err(EvalError::argument(
            function,
            "invalid or too large regular expression",
        )),
    }
}

/// Rewrites a pattern from RE2 to the syntax of the engine.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class = Class::Outside;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = match (character, class) {
            ('\\', _) => escape(after, class, &mut out),
            ('[', Class::Outside) => {
                class = Class::Start;
                out.push('[');
                match after.strip_prefix('^') {
                    Some(after) => {
                        out.push('^');
                        after
                    }
                    None => after,
                }
            }
            // The first bracket of a class is an ordinary character.
            (']', Class::Start) => {
                out.push_str("\\]");
                class = Class::Inside;
                after
            }
            (']', Class::Inside) => {
                class = Class::Outside;
                out.push(']');
                after
            }
            ('[', _) => {
                class = Class::Inside;
                posix_class(after, &mut out)
            }
            ('&' | '~', Class::Start | Class::Inside) => {
                class = Class::Inside;
                out.push('\\');
                out.push(character);
                after
            }
            // The first of two dashes may mean a range, the second is its end.
            ('-', Class::Start) => {
                class = Class::Inside;
                out.push_str("\\-");
                after
            }
            ('-', Class::Inside) if after.starts_with('-') => {
                out.push_str("-\\-");
                &after[1..]
            }
            ('{', Class::Outside) if !is_count(after) => {
                out.push_str("\\{");
                after
            }
            (other, _) => {
                if class == Class::Start {
                    class = Class::Inside;
                }
                out.push(other);
                after
            }
        };
        if class == Class::Start && !out.ends_with(['[', '^']) {
            class = Class::Inside;
        }
    }
    out
}

/// Where in a pattern a character is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Outside,
    /// Behind the `[` or `[^` of a class.
    Start,
    Inside,
}

/// Rewrites what follows a backslash; returns what is left.
fn escape<'p>(after: &'p str, class: Class, out: &mut String) -> &'p str {
    let Some(character) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let rest = &after[character.len_utf8()..];
    let outside = class == Class::Outside;
    let short = match character {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\f\\r ",
        'D' => "^0-9",
        'W' => "^0-9A-Za-z_",
        'S' => "^\\t\\n\\f\\r ",
        'b' if outside => {
            out.push_str("(?-u:\\b)");
            return rest;
        }
        'Q' if outside => {
            let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(quoted));
            return rest;
        }
        other => {
            out.push('\\');
            out.push(other);
            return rest;
        }
    };
    // Inside of a class a list of characters needs no brackets of its own, a negated one does.
    if outside || character.is_ascii_uppercase() {
        out.push('[');
        out.push_str(short);
        out.push(']');
    } else {
        out.push_str(short);
    }
    rest
}

/// `[:alpha:]` inside of a class stays; any other bracket there is an ordinary character.
fn posix_class<'p>(after: &'p str, out: &mut String) -> &'p str {
    if after.starts_with(':')
        && let Some(end) = after.find(":]")
    {
        out.push('[');
        out.push_str(&after[..end + 2]);
        return &after[end + 2..];
    }
    out.push_str("\\[");
    after
}

/// Whether a repetition such as `2}`, `2,}` or `2,3}` follows.
fn is_count(after: &str) -> bool {
    let Some((count, _)) = after.split_once('}') else {
        return false;
    };
    let (least, most) = count.split_once(',').unwrap_or((count, ""));
    !least.is_empty()
        && least
            .bytes()
            .chain(most.bytes())
            .all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn compiled(pattern: &str) -> Result<Pattern, regex::Error> {
        let Ok(result) = Pattern::compile(pattern, TIERS.len(), |_| Ok::<_, Infallible>(()));
        result
    }

    #[test]
    fn patterns_mean_what_they_mean_in_re2() {
        let table = [
            (r"^\d+$", "123", true),
            (r"^\d+$", "١٢٣", false),
            (r"^\w+$", "abc_1", true),
            (r"^\w+$", "é", false),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[\D]+$", "ab", true),
            (r"^[\D]+$", "a1", false),
            (r"\bb\b", "a b c", true),
            (r"^[[]$", "[", true),
            (r"^[]]$", "]", true),
            (r"^[^]]$", "a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^[[:alpha:]_]+$", "a_b", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[+--]+$", "+,-", true),
            (r"^[--/]+$", "-./", true),
            (r"^[-a]+$", "-a", true),
            (r"^[a~~]+$", "a~", true),
            (r"^a{2}$", "aa", true),
            (r"^a{2,}$", "aaa", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^a{,3}$", "a{,3}", true),
            (r"^{x}$", "{x}", true),
            (r"^\Qa.b[\E+$", "a.b[[", true),
            (r"^.$", "é", true),
            (r"(?i)^É$", "é", true),
            (r"^[\]x]+$", "]x", true),
            (r"^\[\]$", "[]", true),
            (r"^(?P<name>a)$", "a", true),
        ];
        for (pattern, subject, expected) in table {
            let found = compiled(pattern)
                .unwrap_or_else(|error| panic!("{pattern}: {error}"))
                .regex
                .is_match(subject);
            assert_eq!(found, expected, "{pattern} on {subject}");
        }
    }

    #[test]
    fn broken_and_huge_patterns_are_refused() {
        for pattern in ["(", "[", "*", "(?<", "\\", "(a{1000}){1000}", r"\pQ"] {
            assert!(compiled(pattern).is_err(), "{pattern}");
        }
    }
}
