//! `'%s has %d replicas'.format([name, count])`.

use std::fmt::Write as _;

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::limits::Budget;
use super::super::time::duration_text;
use super::super::value::{ListRef, Val};
use super::params::{LIST, STRING};
use super::{Function, Ret, method, text};

/// More digits than any double has.
const MOST_DIGITS: usize = 100;

pub(in super::super) const FUNCTIONS: &[Function] = &[method(
    "format",
    &[STRING, LIST],
    Ret::Is(Kind::String),
    format,
)];

fn format<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let template = text(args, 0);
    let mut values = args[1].as_list().into_iter().flat_map(ListRef::iter);
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        budget.build(at)?;
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (digits, after) = precision(rest)?;
        let mut characters = after.chars();
        let clause = characters.next().unwrap_or_default();
        rest = characters.as_str();
        let Some(value) = values.next() else {
            return Err(wrong("there are fewer values than clauses"));
        };
        let before = out.len();
        clause_text(budget, &mut out, clause, digits, &value)?;
        budget.build(out.len() - before)?;
    }
    budget.build(rest.len())?;
    out.push_str(rest);
    Ok(Val::text(out))
}

fn wrong(problem: &'static str) -> EvalError {
    EvalError::argument("format", problem)
}

/// The `.3` of `%.3f`.
fn precision(rest: &str) -> Result<(Option<usize>, &str), EvalError> {
    let Some(rest) = rest.strip_prefix('.') else {
        return Ok((None, rest));
    };
    let end = rest
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(rest.len());
    match rest[..end].parse() {
        Ok(digits) if digits <= MOST_DIGITS => Ok((Some(digits), &rest[end..])),
        _ => Err(wrong("the precision is not a number up to 100")),
    }
}

fn clause_text(
    budget: &mut Budget,
    out: &mut String,
    clause: char,
    digits: Option<usize>,
    value: &Val<'_>,
) -> Result<(), EvalError> {
    // Writing to a string does not fail.
    let _ = match (clause, value) {
        ('s', value) => return plain(budget, out, value),
        ('d', Val::Int(number)) => write!(out, "{number}"),
        ('d', Val::Uint(number)) => write!(out, "{number}"),
        ('d', Val::Double(number)) => {
            out.push_str(&double(*number));
            Ok(())
        }
        ('f' | 'e', Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            out.push_str(&float(clause, digits, value));
            Ok(())
        }
        ('b', Val::Bool(flag)) => write!(out, "{}", u8::from(*flag)),
        ('b', Val::Int(number)) => write!(out, "{}{:b}", sign(*number), number.unsigned_abs()),
        ('b', Val::Uint(number)) => write!(out, "{number:b}"),
        ('o', Val::Int(number)) => write!(out, "{}{:o}", sign(*number), number.unsigned_abs()),
        ('o', Val::Uint(number)) => write!(out, "{number:o}"),
        ('x', Val::Int(number)) => write!(out, "{}{:x}", sign(*number), number.unsigned_abs()),
        ('x', Val::Uint(number)) => write!(out, "{number:x}"),
        ('X', Val::Int(number)) => write!(out, "{}{:X}", sign(*number), number.unsigned_abs()),
        ('X', Val::Uint(number)) => write!(out, "{number:X}"),
        ('x' | 'X', Val::Bytes(bytes)) => hex(budget, out, bytes, clause),
        ('x' | 'X', value) if value.as_str().is_some() => {
            let bytes = value.as_str().unwrap_or_default().as_bytes();
            hex(budget, out, bytes, clause)
        }
        ('d' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X', value) => {
            let call = format!("format %{clause}");
            return Err(EvalError::overload(&call, [value.kind().name()]));
        }
        _ => return Err(wrong("unknown clause; there are %s %d %f %e %b %o %x %X")),
    };
    Ok(())
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

fn hex(budget: &mut Budget, out: &mut String, bytes: &[u8], clause: char) -> std::fmt::Result {
    // What does not fit is not written; the caller's own charge then reports the limit.
    if budget.build(2 * bytes.len()).is_err() {
        return Ok(());
    }
    bytes.iter().try_for_each(|byte| match clause {
        'x' => write!(out, "{byte:02x}"),
        _ => write!(out, "{byte:02X}"),
    })
}

fn double(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned()
    } else {
        number.to_string()
    }
}

fn float(clause: char, digits: Option<usize>, value: &Val<'_>) -> String {
    #[expect(clippy::cast_precision_loss)]
    let number = match value {
        Val::Int(number) => *number as f64,
        Val::Uint(number) => *number as f64,
        Val::Double(number) => *number,
        _ => f64::NAN,
    };
    if !number.is_finite() {
        return double(number);
    }
    let digits = digits.unwrap_or(6);
    if clause == 'f' {
        return format!("{number:.digits$}");
    }
    let scientific = format!("{number:.digits$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// The text of any value for `%s`.
fn plain(budget: &mut Budget, out: &mut String, value: &Val<'_>) -> Result<(), EvalError> {
    budget.charge(1)?;
    match value {
        Val::Null => out.push_str("null"),
        Val::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Val::Int(number) => out.push_str(&number.to_string()),
        Val::Uint(number) => out.push_str(&number.to_string()),
        Val::Double(number) => out.push_str(&double(*number)),
        Val::Bytes(bytes) => {
            budget.build(bytes.len())?;
            out.push_str(&String::from_utf8_lossy(bytes));
        }
        Val::Timestamp(time) => out.push_str(&time.text()),
        Val::Duration(nanos) => out.push_str(&duration_text(*nanos)),
        Val::Type(kind) => out.push_str(kind.name()),
        other => {
            if let Some(text) = other.as_str() {
                budget.build(text.len())?;
                out.push_str(text);
            } else if let Some(list) = other.as_list() {
                out.push('[');
                for (at, item) in list.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    plain(budget, out, &item)?;
                }
                out.push(']');
            } else if let Some(map) = other.as_map() {
                let mut entries = Vec::new();
                for (key, value) in map.entries() {
                    let mut name = String::new();
                    plain(budget, &mut name, &key)?;
                    entries.push((name, value));
                }
                entries.sort_by(|(left, _), (right, _)| left.cmp(right));
                out.push('{');
                for (at, (name, value)) in entries.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    out.push_str(name);
                    out.push_str(": ");
                    plain(budget, out, value)?;
                }
                out.push('}');
            } else {
                return Err(EvalError::overload("format %s", [other.kind().name()]));
            }
        }
    }
    Ok(())
}
