//! The functions of the language itself: sizes, text tests, conversions.

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::limits::Budget;
use super::super::time::{Timestamp, duration_text, parse_duration};
use super::super::value::{ListRef, MapRef, Val};
use super::params::{
    ANY, BOOL, BYTES, DOUBLE, DURATION, INT, LIST, MAP, PATTERN, STRING, TIMESTAMP, UINT,
};
use super::{Function, Looks, Ret, function, method, pattern, text};

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function("size", &[STRING], Ret::Is(Kind::Int), size_of_text),
    function("size", &[BYTES], Ret::Is(Kind::Int), size_of_bytes),
    function("size", &[LIST], Ret::Is(Kind::Int), size).looks(Looks::Shape),
    function("size", &[MAP], Ret::Is(Kind::Int), size).looks(Looks::Shape),
    method("size", &[STRING], Ret::Is(Kind::Int), size_of_text),
    method("size", &[BYTES], Ret::Is(Kind::Int), size_of_bytes),
    method("size", &[LIST], Ret::Is(Kind::Int), size).looks(Looks::Shape),
    method("size", &[MAP], Ret::Is(Kind::Int), size).looks(Looks::Shape),
    method(
        "contains",
        &[STRING, STRING],
        Ret::Is(Kind::Bool),
        |budget, args| {
            budget.charge_text(text(args, 0).len())?;
            Ok(Val::Bool(text(args, 0).contains(text(args, 1))))
        },
    ),
    method(
        "startsWith",
        &[STRING, STRING],
        Ret::Is(Kind::Bool),
        |budget, args| {
            budget.charge_text(text(args, 1).len())?;
            Ok(Val::Bool(text(args, 0).starts_with(text(args, 1))))
        },
    ),
    method(
        "endsWith",
        &[STRING, STRING],
        Ret::Is(Kind::Bool),
        |budget, args| {
            budget.charge_text(text(args, 1).len())?;
            Ok(Val::Bool(text(args, 0).ends_with(text(args, 1))))
        },
    ),
    function("matches", &[STRING, PATTERN], Ret::Is(Kind::Bool), matches),
    method("matches", &[STRING, PATTERN], Ret::Is(Kind::Bool), matches),
    function("type", &[ANY], Ret::Is(Kind::Type), |_, args| {
        Ok(Val::Type(args[0].kind()))
    })
    .looks(Looks::Type),
    function("dyn", &[ANY], Ret::Dyn, |_, args| Ok(args[0].clone())).looks(Looks::Through),
    function("bool", &[BOOL], Ret::Is(Kind::Bool), identity),
    function("bool", &[STRING], Ret::Is(Kind::Bool), bool_of_text),
    function("bytes", &[BYTES], Ret::Is(Kind::Bytes), identity),
    function("bytes", &[STRING], Ret::Is(Kind::Bytes), |budget, args| {
        budget.build(text(args, 0).len())?;
        Ok(Val::Bytes(text(args, 0).as_bytes().into()))
    }),
    function("double", &[DOUBLE], Ret::Is(Kind::Double), identity),
    function("double", &[INT], Ret::Is(Kind::Double), double),
    function("double", &[UINT], Ret::Is(Kind::Double), double),
    function("double", &[STRING], Ret::Is(Kind::Double), double),
    function("int", &[INT], Ret::Is(Kind::Int), identity),
    function("int", &[UINT], Ret::Is(Kind::Int), int),
    function("int", &[DOUBLE], Ret::Is(Kind::Int), int),
    function("int", &[STRING], Ret::Is(Kind::Int), int),
    function("int", &[TIMESTAMP], Ret::Is(Kind::Int), int),
    function("int", &[DURATION], Ret::Is(Kind::Int), int),
    function("uint", &[UINT], Ret::Is(Kind::Uint), identity),
    function("uint", &[INT], Ret::Is(Kind::Uint), uint),
    function("uint", &[DOUBLE], Ret::Is(Kind::Uint), uint),
    function("uint", &[STRING], Ret::Is(Kind::Uint), uint),
    function("string", &[STRING], Ret::Is(Kind::String), identity),
    function("string", &[BOOL], Ret::Is(Kind::String), string),
    function("string", &[INT], Ret::Is(Kind::String), string),
    function("string", &[UINT], Ret::Is(Kind::String), string),
    function("string", &[DOUBLE], Ret::Is(Kind::String), string),
    function("string", &[BYTES], Ret::Is(Kind::String), string),
    function("string", &[TIMESTAMP], Ret::Is(Kind::String), string),
    function("string", &[DURATION], Ret::Is(Kind::String), string),
    function(
        "timestamp",
        &[TIMESTAMP],
        Ret::Is(Kind::Timestamp),
        identity,
    ),
    function("timestamp", &[INT], Ret::Is(Kind::Timestamp), timestamp),
    function("timestamp", &[STRING], Ret::Is(Kind::Timestamp), timestamp),
    function("duration", &[DURATION], Ret::Is(Kind::Duration), identity),
    function("duration", &[INT], Ret::Is(Kind::Duration), duration),
    function("duration", &[STRING], Ret::Is(Kind::Duration), duration),
];

fn identity<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    Ok(args[0].clone())
}

fn count<'a>(count: usize) -> Val<'a> {
    Val::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn size_of_text<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let text = text(args, 0);
    budget.charge_text(text.len())?;
    Ok(count(text.chars().count()))
}

fn size_of_bytes<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    match args {
        [Val::Bytes(bytes)] => Ok(count(bytes.len())),
        _ => Ok(Val::Null),
    }
}

fn size<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let list = args[0].as_list().map(ListRef::len);
    let map = || args[0].as_map().map(MapRef::len);
    Ok(count(list.or_else(map).unwrap_or_default()))
}

fn matches<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let subject = text(args, 0);
    let pattern = pattern::argument(budget, "matches", args, 1)?;
    pattern.pay(budget, subject.len())?;
    Ok(Val::Bool(pattern.regex.is_match(subject)))
}

fn bool_of_text<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    match text(args, 0) {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
        _ => Err(EvalError::argument("bool", "the text is no truth value")),
    }
}

#[expect(clippy::cast_precision_loss)]
fn double<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    match &args[0] {
        Val::Int(number) => Ok(Val::Double(*number as f64)),
        Val::Uint(number) => Ok(Val::Double(*number as f64)),
        other => match parse_double(other.as_str().unwrap_or_default()) {
            Some(number) => Ok(Val::Double(number)),
            None => Err(EvalError::argument("double", "the text is no number")),
        },
    }
}

/// Decimal numbers, `NaN` and signed infinity in any letter case.
fn parse_double(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    // What does not fit is an error, not infinity.
    let named = text.contains(['i', 'I']);
    (number.is_finite() || number.is_nan() || named).then_some(number)
}

fn int<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let number = match &args[0] {
        Val::Uint(number) => i64::try_from(*number).ok(),
        // The bounds are exclusive: the doubles next to them are outside of the range.
        #[expect(clippy::cast_possible_truncation)]
        Val::Double(number) if *number > -TWO_63 && *number < TWO_63 => Some(*number as i64),
        Val::Double(_) => None,
        Val::Timestamp(time) => Some(time.unix()),
        Val::Duration(nanos) => Some(*nanos),
        other => {
            let number = other.as_str().and_then(|text| text.parse().ok());
            return match number {
                Some(number) => Ok(Val::Int(number)),
                None => Err(EvalError::argument("int", "the text is no 64-bit integer")),
            };
        }
    };
    number
        .map(Val::Int)
        .ok_or_else(|| EvalError::argument("int", OUT_OF_RANGE))
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;
const OUT_OF_RANGE: &str = "the number is out of range";

fn uint<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let number = match &args[0] {
        Val::Int(number) => u64::try_from(*number).ok(),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Val::Double(number) if *number >= 0.0 && *number < 2.0 * TWO_63 => Some(*number as u64),
        Val::Double(_) => None,
        other => {
            let number = other.as_str().and_then(|text| text.parse().ok());
            return match number {
                Some(number) => Ok(Val::Uint(number)),
                None => Err(EvalError::argument(
                    "uint",
                    "the text is no unsigned 64-bit integer",
                )),
            };
        }
    };
    number
        .map(Val::Uint)
        .ok_or_else(|| EvalError::argument("uint", OUT_OF_RANGE))
}

fn string<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let text = match &args[0] {
        Val::Bool(true) => return Ok(Val::Str("true")),
        Val::Bool(false) => return Ok(Val::Str("false")),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => double_text(*number),
        Val::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(EvalError::argument("string", "the bytes are no UTF-8 text")),
        },
        Val::Timestamp(time) => time.text(),
        Val::Duration(nanos) => duration_text(*nanos),
        other => return Ok(other.clone()),
    };
    budget.build(text.len())?;
    Ok(Val::text(text))
}

/// The shortest text that reads back as the same number, with an exponent for very large and very
/// small ones.
pub(in super::super) fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn timestamp<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let time = match &args[0] {
        Val::Int(seconds) => Timestamp::from_unix(*seconds, 0),
        other => Timestamp::parse(other.as_str().unwrap_or_default()),
    };
    match time {
        Some(time) => Ok(Val::Timestamp(time)),
        None => Err(EvalError::argument(
            "timestamp",
            "not a time in RFC 3339 between the years 1 and 9999",
        )),
    }
}

fn duration<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    match &args[0] {
        Val::Int(nanos) => Ok(Val::Duration(*nanos)),
        other => match parse_duration(other.as_str().unwrap_or_default()) {
            Some(nanos) => Ok(Val::Duration(nanos)),
            None => Err(EvalError::argument(
                "duration",
                "not a duration such as 1h30m or 1.5s within 292 years",
            )),
        },
    }
}
