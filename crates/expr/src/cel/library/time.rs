//! Accessors of points in time and spans.

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::limits::Budget;
use super::super::time::Civil;
use super::super::value::Val;
use super::params::{DURATION, STRING, TIMESTAMP};
use super::{Function, Ret, method};

const INT: Ret = Ret::Is(Kind::Int);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    method("getFullYear", &[TIMESTAMP], INT, year),
    method("getFullYear", &[TIMESTAMP, STRING], INT, year),
    method("getMonth", &[TIMESTAMP], INT, month),
    method("getMonth", &[TIMESTAMP, STRING], INT, month),
    method("getDayOfYear", &[TIMESTAMP], INT, day_of_year),
    method("getDayOfYear", &[TIMESTAMP, STRING], INT, day_of_year),
    method("getDayOfMonth", &[TIMESTAMP], INT, day_of_month),
    method("getDayOfMonth", &[TIMESTAMP, STRING], INT, day_of_month),
    method("getDate", &[TIMESTAMP], INT, date),
    method("getDate", &[TIMESTAMP, STRING], INT, date),
    method("getDayOfWeek", &[TIMESTAMP], INT, day_of_week),
    method("getDayOfWeek", &[TIMESTAMP, STRING], INT, day_of_week),
    method("getHours", &[TIMESTAMP], INT, hours),
    method("getHours", &[TIMESTAMP, STRING], INT, hours),
    method("getMinutes", &[TIMESTAMP], INT, minutes),
    method("getMinutes", &[TIMESTAMP, STRING], INT, minutes),
    method("getSeconds", &[TIMESTAMP], INT, seconds),
    method("getSeconds", &[TIMESTAMP, STRING], INT, seconds),
    method("getMilliseconds", &[TIMESTAMP], INT, milliseconds),
    method("getMilliseconds", &[TIMESTAMP, STRING], INT, milliseconds),
    // Of a span: the whole of it in the unit.
    method("getHours", &[DURATION], INT, |_, args| {
        span(args, 3_600_000_000_000)
    }),
    method("getMinutes", &[DURATION], INT, |_, args| {
        span(args, 60_000_000_000)
    }),
    method("getSeconds", &[DURATION], INT, |_, args| {
        span(args, 1_000_000_000)
    }),
    method("getMilliseconds", &[DURATION], INT, |_, args| {
        span(args, 1_000_000)
    }),
];

fn span<'a>(args: &[Val<'a>], unit: i64) -> Result<Val<'a>, EvalError> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / unit)),
        _ => Ok(Val::Null),
    }
}

fn civil<'a>(
    function: &'static str,
    args: &[Val<'a>],
    part: fn(Civil) -> i64,
) -> Result<Val<'a>, EvalError> {
    let zone = args.get(1).and_then(Val::as_str);
    match args {
        [Val::Timestamp(time), ..] => match time.in_zone(zone) {
            Some(civil) => Ok(Val::Int(part(civil))),
            None => Err(EvalError::argument(function, "unknown time zone")),
        },
        _ => Ok(Val::Null),
    }
}

/// One function per accessor, because a table row holds a plain function.
macro_rules! accessor {
    ($name:ident, $function:literal, $part:expr) => {
        fn $name<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
            civil($function, args, $part)
        }
    };
}

accessor!(year, "getFullYear", |civil| civil.year);
// Months and days of the month count from 0, `getDate` from 1.
accessor!(month, "getMonth", |civil| civil.month - 1);
accessor!(day_of_year, "getDayOfYear", |civil| civil.day_of_year);
accessor!(day_of_month, "getDayOfMonth", |civil| civil.day - 1);
accessor!(date, "getDate", |civil| civil.day);
accessor!(day_of_week, "getDayOfWeek", |civil| civil.weekday);
accessor!(hours, "getHours", |civil| civil.hour);
accessor!(minutes, "getMinutes", |civil| civil.minute);
accessor!(seconds, "getSeconds", |civil| civil.second);
accessor!(milliseconds, "getMilliseconds", |civil| civil.nanos
    / 1_000_000);
