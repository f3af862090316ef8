//! Numbers: extremes, rounding, bits.

use std::cmp::Ordering;

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::limits::Budget;
use super::super::ops::{OVERFLOW, number_order};
use super::super::value::{ListRef, Val};
use super::params::{DOUBLE, INT, LIST, NUMBER, UINT};
use super::{Function, Ret, function};

const TO_DOUBLE: Ret = Ret::Is(Kind::Double);
const TO_INT: Ret = Ret::Is(Kind::Int);
const TO_UINT: Ret = Ret::Is(Kind::Uint);
const TO_BOOL: Ret = Ret::Is(Kind::Bool);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function("math.greatest", &[NUMBER], Ret::Dyn, greatest).variadic(),
    function("math.greatest", &[LIST], Ret::ElementOf(0), greatest),
    function("math.least", &[NUMBER], Ret::Dyn, least).variadic(),
    function("math.least", &[LIST], Ret::ElementOf(0), least),
    function("math.ceil", &[DOUBLE], TO_DOUBLE, |_, args| {
        Ok(Val::Double(double(args).ceil()))
    }),
    function("math.floor", &[DOUBLE], TO_DOUBLE, |_, args| {
        Ok(Val::Double(double(args).floor()))
    }),
    function("math.round", &[DOUBLE], TO_DOUBLE, |_, args| {
        Ok(Val::Double(double(args).round()))
    }),
    function("math.trunc", &[DOUBLE], TO_DOUBLE, |_, args| {
        Ok(Val::Double(double(args).trunc()))
    }),
    function("math.isInf", &[DOUBLE], TO_BOOL, |_, args| {
        Ok(Val::Bool(double(args).is_infinite()))
    }),
    function("math.isNaN", &[DOUBLE], TO_BOOL, |_, args| {
        Ok(Val::Bool(double(args).is_nan()))
    }),
    function("math.isFinite", &[DOUBLE], TO_BOOL, |_, args| {
        Ok(Val::Bool(double(args).is_finite()))
    }),
    function("math.abs", &[DOUBLE], TO_DOUBLE, abs),
    function("math.abs", &[INT], TO_INT, abs),
    function("math.abs", &[UINT], TO_UINT, abs),
    function("math.sign", &[DOUBLE], TO_DOUBLE, sign),
    function("math.sign", &[INT], TO_INT, sign),
    function("math.sign", &[UINT], TO_UINT, sign),
    function("math.sqrt", &[NUMBER], TO_DOUBLE, sqrt),
    function("math.bitAnd", &[INT, INT], TO_INT, |_, args| {
        bits(args, |left, right| left & right)
    }),
    function("math.bitAnd", &[UINT, UINT], TO_UINT, |_, args| {
        bits(args, |left, right| left & right)
    }),
    function("math.bitOr", &[INT, INT], TO_INT, |_, args| {
        bits(args, |left, right| left | right)
    }),
    function("math.bitOr", &[UINT, UINT], TO_UINT, |_, args| {
        bits(args, |left, right| left | right)
    }),
    function("math.bitXor", &[INT, INT], TO_INT, |_, args| {
        bits(args, |left, right| left ^ right)
    }),
    function("math.bitXor", &[UINT, UINT], TO_UINT, |_, args| {
        bits(args, |left, right| left ^ right)
    }),
    function("math.bitNot", &[INT], TO_INT, |_, args| {
        bits(args, |left, _| !left)
    }),
    function("math.bitNot", &[UINT], TO_UINT, |_, args| {
        bits(args, |left, _| !left)
    }),
    function("math.bitShiftLeft", &[INT, INT], TO_INT, |_, args| {
        shift(args, u64::checked_shl)
    }),
    function("math.bitShiftLeft", &[UINT, INT], TO_UINT, |_, args| {
        shift(args, u64::checked_shl)
    }),
    function("math.bitShiftRight", &[INT, INT], TO_INT, |_, args| {
        shift(args, u64::checked_shr)
    }),
    function("math.bitShiftRight", &[UINT, INT], TO_UINT, |_, args| {
        shift(args, u64::checked_shr)
    }),
];

fn double(args: &[Val<'_>]) -> f64 {
    match args {
        [Val::Double(number)] => *number,
        _ => f64::NAN,
    }
}

fn greatest<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    extreme(budget, "math.greatest", args, Ordering::Greater)
}

fn least<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    extreme(budget, "math.least", args, Ordering::Less)
}

fn extreme<'a>(
    budget: &mut Budget,
    name: &'static str,
    args: &[Val<'a>],
    wanted: Ordering,
) -> Result<Val<'a>, EvalError> {
    let numbers: Vec<Val<'a>> = match args {
        [list] if list.as_list().is_some() => {
            list.as_list().into_iter().flat_map(ListRef::iter).collect()
        }
        numbers => numbers.to_vec(),
    };
    budget.charge_items(numbers.len())?;
    let mut best: Option<Val<'a>> = None;
    for number in numbers {
        if !matches!(number, Val::Int(_) | Val::Uint(_) | Val::Double(_)) {
            return Err(EvalError::overload(name, [number.kind().name()]));
        }
        // The first of equal numbers wins, whatever its type.
        best = Some(match best {
            Some(best) if number_order(&number, &best) != Some(wanted) => best,
            _ => number,
        });
    }
    best.ok_or_else(|| EvalError::argument(name, "the list is empty"))
}

fn abs<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    match &args[0] {
        Val::Int(number) => number.checked_abs().map(Val::Int).ok_or(OVERFLOW),
        Val::Double(number) => Ok(Val::Double(number.abs())),
        other => Ok(other.clone()),
    }
}

fn sign<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    Ok(match &args[0] {
        Val::Int(number) => Val::Int(number.signum()),
        Val::Uint(number) => Val::Uint(u64::from(*number > 0)),
        Val::Double(number) if *number == 0.0 || number.is_nan() => Val::Double(*number),
        Val::Double(number) => Val::Double(number.signum()),
        other => other.clone(),
    })
}

#[expect(clippy::cast_precision_loss)]
fn sqrt<'a>(_: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let number = match &args[0] {
        Val::Int(number) => *number as f64,
        Val::Uint(number) => *number as f64,
        _ => double(args),
    };
    Ok(Val::Double(number.sqrt()))
}

/// The bit pattern of an integer, and the way back to its type.
#[expect(clippy::cast_sign_loss, clippy::cast_possible_wrap)]
fn on_bits<'a>(number: &Val<'a>, compute: impl FnOnce(u64) -> u64) -> Val<'a> {
    match number {
        Val::Int(number) => Val::Int(compute(*number as u64) as i64),
        Val::Uint(number) => Val::Uint(compute(*number)),
        other => other.clone(),
    }
}

#[expect(clippy::cast_sign_loss)]
fn bits<'a>(args: &[Val<'a>], compute: fn(u64, u64) -> u64) -> Result<Val<'a>, EvalError> {
    let right = match args.get(1) {
        Some(Val::Int(number)) => *number as u64,
        Some(Val::Uint(number)) => *number,
        _ => 0,
    };
    Ok(on_bits(&args[0], |left| compute(left, right)))
}

fn shift<'a>(args: &[Val<'a>], compute: fn(u64, u32) -> Option<u64>) -> Result<Val<'a>, EvalError> {
    let Some(distance) = u64::try_from(super::int(args, 1)).ok() else {
        return Err(EvalError::argument(
            "math.bitShift",
            "the distance is negative",
        ));
    };
    // A distance beyond the width leaves nothing.
    let distance = u32::try_from(distance).unwrap_or(u32::MAX);
    Ok(on_bits(&args[0], |left| {
        compute(left, distance).unwrap_or(0)
    }))
}
