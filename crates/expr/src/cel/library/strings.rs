//! Text: search, cut, join, change. Positions count characters (code points), not bytes.

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::limits::Budget;
use super::super::value::{ListRef, Val};
use super::params::{INT, LIST, STRING};
use super::{Function, Ret, function, int, method, text};

const TEXT: Ret = Ret::Is(Kind::String);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    method("charAt", &[STRING, INT], TEXT, char_at),
    method("indexOf", &[STRING, STRING], Ret::Is(Kind::Int), index_of),
    method(
        "indexOf",
        &[STRING, STRING, INT],
        Ret::Is(Kind::Int),
        index_of,
    ),
    method(
        "lastIndexOf",
        &[STRING, STRING],
        Ret::Is(Kind::Int),
        last_index_of,
    ),
    method(
        "lastIndexOf",
        &[STRING, STRING, INT],
        Ret::Is(Kind::Int),
        last_index_of,
    ),
    method("join", &[LIST], TEXT, join),
    method("join", &[LIST, STRING], TEXT, join),
    method("lowerAscii", &[STRING], TEXT, |budget, args| {
        budget.build(text(args, 0).len())?;
        Ok(Val::text(text(args, 0).to_ascii_lowercase()))
    }),
    method("upperAscii", &[STRING], TEXT, |budget, args| {
        budget.build(text(args, 0).len())?;
        Ok(Val::text(text(args, 0).to_ascii_uppercase()))
    }),
    method("replace", &[STRING, STRING, STRING], TEXT, replace),
    method("replace", &[STRING, STRING, STRING, INT], TEXT, replace),
    method("split", &[STRING, STRING], Ret::ListOf(Kind::String), split),
    method(
        "split",
        &[STRING, STRING, INT],
        Ret::ListOf(Kind::String),
        split,
    ),
    method("substring", &[STRING, INT], TEXT, substring),
    method("substring", &[STRING, INT, INT], TEXT, substring),
    method("trim", &[STRING], TEXT, |budget, args| {
        let whole = text(args, 0);
        budget.charge_text(whole.len())?;
        let start = whole.len() - whole.trim_start().len();
        Ok(args[0].part(start..start + whole.trim().len()))
    }),
    method("reverse", &[STRING], TEXT, |budget, args| {
        budget.build(text(args, 0).len())?;
        Ok(Val::text(text(args, 0).chars().rev().collect()))
    }),
    function("strings.quote", &[STRING], TEXT, quote),
];

/// The byte position of a character position; the position after the last character counts.
fn byte_at(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    text.char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()])
        .nth(at)
}

fn characters<'a>(text: &str) -> Val<'a> {
    Val::Int(i64::try_from(text.chars().count()).unwrap_or(i64::MAX))
}

fn out_of_range(place: &str) -> EvalError {
    EvalError::OutOfRange {
        place: place.into(),
    }
}

fn char_at<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let whole = text(args, 0);
    budget.charge_text(whole.len())?;
    let start = byte_at(whole, int(args, 1)).ok_or_else(|| out_of_range("charAt"))?;
    let length = whole[start..].chars().next().map_or(0, char::len_utf8);
    Ok(args[0].part(start..start + length))
}

/// Where a search begins, as a byte position. Nothing was given: at `default`.
fn start(function: &'static str, args: &[Val<'_>], default: usize) -> Result<usize, EvalError> {
    match args.get(2) {
        None => Ok(default),
        Some(_) => byte_at(text(args, 0), int(args, 2)).ok_or_else(|| out_of_range(function)),
    }
}

/// Where nothing at all is found: at the given position, but not beyond the end.
fn nothing_found_at<'a>(
    function: &'static str,
    args: &[Val<'a>],
    default: Val<'a>,
) -> Result<Val<'a>, EvalError> {
    match args.get(2) {
        None => Ok(default),
        Some(Val::Int(at)) if *at >= 0 => match characters(text(args, 0)) {
            Val::Int(end) => Ok(Val::Int(end.min(*at))),
            other => Ok(other),
        },
        Some(_) => Err(out_of_range(function)),
    }
}

fn index_of<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let (whole, part) = (text(args, 0), text(args, 1));
    budget.charge_text(2 * whole.len())?;
    if part.is_empty() {
        return nothing_found_at("indexOf", args, Val::Int(0));
    }
    let start = start("indexOf", args, 0)?;
    Ok(match whole[start..].find(part) {
        Some(found) => characters(&whole[..start + found]),
        None => Val::Int(-1),
    })
}

fn last_index_of<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let (whole, part) = (text(args, 0), text(args, 1));
    budget.charge_text(2 * whole.len())?;
    if part.is_empty() {
        return nothing_found_at("lastIndexOf", args, characters(whole));
    }
    // Every start is tried, and a try looks at the whole part at worst.
    budget.charge((whole.len() as u64).saturating_mul(part.len() as u64) / 64)?;
    let start = start("lastIndexOf", args, whole.len())?;
    let found = whole
        .char_indices()
        .rev()
        .find(|(at, _)| *at <= start && whole[*at..].starts_with(part));
    Ok(found.map_or(Val::Int(-1), |(at, _)| characters(&whole[..at])))
}

fn join<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let separator = text(args, 1);
    let mut joined = String::new();
    for (at, item) in args[0]
        .as_list()
        .into_iter()
        .flat_map(ListRef::iter)
        .enumerate()
    {
        let Some(part) = item.as_str() else {
            return Err(EvalError::overload("join", ["list", item.kind().name()]));
        };
        budget.charge(1)?;
        budget.build(part.len() + separator.len())?;
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(part);
    }
    Ok(Val::text(joined))
}

fn replace<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let (whole, from, to) = (text(args, 0), text(args, 1), text(args, 2));
    budget.charge_text(whole.len())?;
    let most = match args.get(3) {
        // A negative number means all of them.
        Some(Val::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let count = whole.matches(from).take(most).count();
    budget.build(whole.len() + count.saturating_mul(to.len()))?;
    Ok(Val::text(whole.replacen(from, to, count)))
}

fn split<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let (whole, separator) = (text(args, 0), text(args, 1));
    budget.charge_text(whole.len())?;
    let most = match args.get(2) {
        Some(Val::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let mut parts = Vec::new();
    let mut start = 0;
    while parts.len() < most {
        budget.build_items(1)?;
        let rest = &whole[start..];
        // Without a separator every character is a part.
        let (length, step) = if parts.len() + 1 == most {
            (rest.len(), None)
        } else if separator.is_empty() {
            let length = rest.chars().next().map_or(0, char::len_utf8);
            (length, (length < rest.len()).then_some(length))
        } else {
            match rest.find(separator) {
                Some(length) => (length, Some(length + separator.len())),
                None => (rest.len(), None),
            }
        };
        if separator.is_empty() && rest.is_empty() {
            break;
        }
        parts.push(args[0].part(start..start + length));
        match step {
            Some(step) => start += step,
            None => break,
        }
    }
    Ok(Val::list(parts))
}

fn substring<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let whole = text(args, 0);
    budget.charge_text(whole.len())?;
    let start = byte_at(whole, int(args, 1));
    let end = match args.get(2) {
        None => Some(whole.len()),
        Some(_) => byte_at(whole, int(args, 2)),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end => Ok(args[0].part(start..end)),
        _ => Err(out_of_range("substring")),
    }
}

fn quote<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let plain = text(args, 0);
    budget.build(2 * plain.len() + 2)?;
    let mut quoted = String::with_capacity(plain.len() + 2);
    quoted.push('"');
    for character in plain.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(Val::text(quoted))
}
