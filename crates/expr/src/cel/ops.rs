//! The operators: which types they take and what they compute.

use std::cmp::Ordering;
use std::sync::Arc;

use super::error::EvalError;
use super::kind::{Kind, Kinds, Type};
use super::limits::Budget;
use super::value::{ListRef, MapRef, Val};

/// An operator with two operands that are both evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

/// Operand types and result type of the arithmetic operators.
const ADD: &[(Kind, Kind, Kind)] = &[
    (Kind::Int, Kind::Int, Kind::Int),
    (Kind::Uint, Kind::Uint, Kind::Uint),
    (Kind::Double, Kind::Double, Kind::Double),
    (Kind::String, Kind::String, Kind::String),
    (Kind::Bytes, Kind::Bytes, Kind::Bytes),
    (Kind::List, Kind::List, Kind::List),
    (Kind::Timestamp, Kind::Duration, Kind::Timestamp),
    (Kind::Duration, Kind::Timestamp, Kind::Timestamp),
    (Kind::Duration, Kind::Duration, Kind::Duration),
];
const SUBTRACT: &[(Kind, Kind, Kind)] = &[
    (Kind::Int, Kind::Int, Kind::Int),
    (Kind::Uint, Kind::Uint, Kind::Uint),
    (Kind::Double, Kind::Double, Kind::Double),
    (Kind::Timestamp, Kind::Timestamp, Kind::Duration),
    (Kind::Timestamp, Kind::Duration, Kind::Timestamp),
    (Kind::Duration, Kind::Duration, Kind::Duration),
];
const MULTIPLY: &[(Kind, Kind, Kind)] = &[
    (Kind::Int, Kind::Int, Kind::Int),
    (Kind::Uint, Kind::Uint, Kind::Uint),
    (Kind::Double, Kind::Double, Kind::Double),
];
const REMAINDER: &[(Kind, Kind, Kind)] = &[
    (Kind::Int, Kind::Int, Kind::Int),
    (Kind::Uint, Kind::Uint, Kind::Uint),
];

impl Op {
    /// The operator behind a function name of the parser.
    pub(super) fn named(name: &str) -> Option<Op> {
        use ::cel::common::ast::operators as names;
        Some(match name {
            names::ADD => Op::Add,
            names::SUBSTRACT => Op::Subtract,
            names::MULTIPLY => Op::Multiply,
            names::DIVIDE => Op::Divide,
            names::MODULO => Op::Remainder,
            names::EQUALS => Op::Equal,
            names::NOT_EQUALS => Op::NotEqual,
            names::LESS => Op::Less,
            names::LESS_EQUALS => Op::LessOrEqual,
            names::GREATER => Op::Greater,
            names::GREATER_EQUALS => Op::GreaterOrEqual,
            names::IN => Op::In,
            _ => return None,
        })
    }

    /// The operator as it is written.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Subtract => "-",
            Op::Multiply => "*",
            Op::Divide => "/",
            Op::Remainder => "%",
            Op::Equal => "==",
            Op::NotEqual => "!=",
            Op::Less => "<",
            Op::LessOrEqual => "<=",
            Op::Greater => ">",
            Op::GreaterOrEqual => ">=",
            Op::In => "in",
        }
    }

    /// The type of the result, or nothing if operands of these types can never work.
    pub(super) fn check(self, left: &Type, right: &Type) -> Option<Type> {
        match self {
            Op::Equal | Op::NotEqual => left.comparable(right).then_some(Type::BOOL),
            Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => {
                let ordered = |kind: Kind| {
                    matches!(
                        kind,
                        Kind::Bool
                            | Kind::Int
                            | Kind::Uint
                            | Kind::Double
                            | Kind::String
                            | Kind::Bytes
                            | Kind::Timestamp
                            | Kind::Duration
                    )
                };
                let both = [left, right];
                (both.iter().all(|side| side.kind().is_none_or(ordered)) && left.comparable(right))
                    .then_some(Type::BOOL)
            }
            Op::In => match right {
                Type::Dyn => Some(Type::BOOL),
                Type::List(element) => left.comparable(element).then_some(Type::BOOL),
                Type::Map(key, _) => left.comparable(key).then_some(Type::BOOL),
                _ => None,
            },
            Op::Add => {
                if let (Type::List(left), Type::List(right)) = (left, right) {
                    return Some(Type::list((**left).clone().join((**right).clone())));
                }
                arithmetic(ADD, left, right)
            }
            Op::Subtract => arithmetic(SUBTRACT, left, right),
            Op::Multiply | Op::Divide => arithmetic(MULTIPLY, left, right),
            Op::Remainder => arithmetic(REMAINDER, left, right),
        }
    }

    /// Computes the result.
    pub(super) fn apply<'a>(
        self,
        budget: &mut Budget,
        left: Val<'a>,
        right: Val<'a>,
    ) -> Result<Val<'a>, EvalError> {
        match self {
            Op::Equal => Ok(Val::Bool(equal(budget, &left, &right)?)),
            Op::NotEqual => Ok(Val::Bool(!equal(budget, &left, &right)?)),
            Op::Less => self.compare(budget, &left, &right, Ordering::is_lt),
            Op::LessOrEqual => self.compare(budget, &left, &right, Ordering::is_le),
            Op::Greater => self.compare(budget, &left, &right, Ordering::is_gt),
            Op::GreaterOrEqual => self.compare(budget, &left, &right, Ordering::is_ge),
            Op::In => self.contains(budget, &left, &right),
            Op::Add => self.add(budget, left, right),
            Op::Subtract => self.subtract(&left, &right),
            Op::Multiply => match (left, right) {
                (Val::Int(left), Val::Int(right)) => int(left.checked_mul(right)),
                (Val::Uint(left), Val::Uint(right)) => uint(left.checked_mul(right)),
                (Val::Double(left), Val::Double(right)) => Ok(Val::Double(left * right)),
                (left, right) => Err(self.mismatch(&left, &right)),
            },
            Op::Divide => match (left, right) {
                (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => Err(BY_ZERO),
                (Val::Int(left), Val::Int(right)) => int(left.checked_div(right)),
                (Val::Uint(left), Val::Uint(right)) => uint(left.checked_div(right)),
                (Val::Double(left), Val::Double(right)) => Ok(Val::Double(left / right)),
                (left, right) => Err(self.mismatch(&left, &right)),
            },
            Op::Remainder => match (left, right) {
                (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => Err(BY_ZERO),
                (Val::Int(left), Val::Int(right)) => int(left.checked_rem(right)),
                (Val::Uint(left), Val::Uint(right)) => uint(left.checked_rem(right)),
                (left, right) => Err(self.mismatch(&left, &right)),
            },
        }
    }

    /// Whether a comparison of the two values holds.
    pub(super) fn holds<'a>(
        self,
        budget: &mut Budget,
        left: Val<'a>,
        right: Val<'a>,
    ) -> Result<bool, EvalError> {
        budget.charge(1)?;
        Ok(matches!(self.apply(budget, left, right)?, Val::Bool(true)))
    }

    #[cold]
    fn mismatch(self, left: &Val<'_>, right: &Val<'_>) -> EvalError {
        EvalError::overload(self.sign(), [left.kind().name(), right.kind().name()])
    }

    fn compare<'a>(
        self,
        budget: &mut Budget,
        left: &Val<'a>,
        right: &Val<'a>,
        accept: fn(Ordering) -> bool,
    ) -> Result<Val<'a>, EvalError> {
        if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
            budget.charge_text(left.len().min(right.len()))?;
        }
        match order(left, right) {
            Some(ordering) => Ok(Val::Bool(accept(ordering))),
            // NaN is not less, equal or greater than any number.
            None if Kinds::NUMBER.has(left.kind()) && Kinds::NUMBER.has(right.kind()) => {
                Ok(Val::Bool(false))
            }
            None => Err(self.mismatch(left, right)),
        }
    }

    fn contains<'a>(
        self,
        budget: &mut Budget,
        item: &Val<'a>,
        container: &Val<'a>,
    ) -> Result<Val<'a>, EvalError> {
        if let Some(list) = container.as_list() {
            for member in list.iter() {
                budget.charge(1)?;
                if equal(budget, item, &member)? {
                    return Ok(Val::Bool(true));
                }
            }
            return Ok(Val::Bool(false));
        }
        match container.as_map() {
            Some(map) => Ok(Val::Bool(map.get(item).is_some())),
            None => Err(self.mismatch(item, container)),
        }
    }

    fn add<'a>(
        self,
        budget: &mut Budget,
        left: Val<'a>,
        right: Val<'a>,
    ) -> Result<Val<'a>, EvalError> {
        match (left, right) {
            (Val::Int(left), Val::Int(right)) => int(left.checked_add(right)),
            (Val::Uint(left), Val::Uint(right)) => uint(left.checked_add(right)),
            (Val::Double(left), Val::Double(right)) => Ok(Val::Double(left + right)),
            (Val::Text(mut left), right) if right.as_str().is_some() => {
                let right = right.as_str().unwrap_or_default();
                // Text that someone else holds too is copied before it grows.
                budget.build(match Arc::get_mut(&mut left) {
                    Some(_) => right.len(),
                    None => left.len() + right.len(),
                })?;
                Arc::make_mut(&mut left).push_str(right);
                Ok(Val::Text(left))
            }
            (Val::Str(left), right) if right.as_str().is_some() => {
                let right = right.as_str().unwrap_or_default();
                let length = left.len() + right.len();
                budget.build(length)?;
                // A third part often follows; with some room it needs no new allocation.
                let mut text = String::with_capacity(length.next_power_of_two().max(32));
                text.push_str(left);
                text.push_str(right);
                Ok(Val::text(text))
            }
            (Val::Bytes(left), Val::Bytes(right)) => {
                budget.build(left.len() + right.len())?;
                Ok(Val::Bytes([&*left, &*right].concat().into()))
            }
            (Val::Timestamp(time), Val::Duration(nanos))
            | (Val::Duration(nanos), Val::Timestamp(time)) => {
                time.plus(nanos).map(Val::Timestamp).ok_or(OVERFLOW)
            }
            (Val::Duration(left), Val::Duration(right)) => {
                left.checked_add(right).map(Val::Duration).ok_or(OVERFLOW)
            }
            (left, right) => match (left.as_list(), right.as_list()) {
                (Some(head), Some(tail)) => {
                    budget.build_items(head.len() + tail.len())?;
                    Ok(Val::list(head.iter().chain(tail.iter()).collect()))
                }
                _ => Err(self.mismatch(&left, &right)),
            },
        }
    }

    fn subtract<'a>(self, left: &Val<'a>, right: &Val<'a>) -> Result<Val<'a>, EvalError> {
        match (left, right) {
            (Val::Int(left), Val::Int(right)) => int(left.checked_sub(*right)),
            (Val::Uint(left), Val::Uint(right)) => uint(left.checked_sub(*right)),
            (Val::Double(left), Val::Double(right)) => Ok(Val::Double(left - right)),
            (Val::Timestamp(left), Val::Timestamp(right)) => {
                left.since(*right).map(Val::Duration).ok_or(OVERFLOW)
            }
            (Val::Timestamp(time), Val::Duration(nanos)) => nanos
                .checked_neg()
                .and_then(|nanos| time.plus(nanos))
                .map(Val::Timestamp)
                .ok_or(OVERFLOW),
            (Val::Duration(left), Val::Duration(right)) => {
                left.checked_sub(*right).map(Val::Duration).ok_or(OVERFLOW)
            }
            (left, right) => Err(self.mismatch(left, right)),
        }
    }
}

pub(super) const OVERFLOW: EvalError = EvalError::Arithmetic {
    problem: "the result is out of range",
};
const BY_ZERO: EvalError = EvalError::Arithmetic {
    problem: "division by zero",
};

fn int<'a>(result: Option<i64>) -> Result<Val<'a>, EvalError> {
    result.map(Val::Int).ok_or(OVERFLOW)
}

fn uint<'a>(result: Option<u64>) -> Result<Val<'a>, EvalError> {
    result.map(Val::Uint).ok_or(OVERFLOW)
}

fn arithmetic(rows: &[(Kind, Kind, Kind)], left: &Type, right: &Type) -> Option<Type> {
    rows.iter()
        .filter(|(l, r, _)| left.may_be(Kinds::of(&[*l])) && right.may_be(Kinds::of(&[*r])))
        .map(|(.., result)| match result {
            Kind::List => Type::list(Type::Dyn),
            kind => Type::Is(*kind),
        })
        .reduce(Type::join)
}

/// `-x`.
pub(super) fn negate<'a>(value: &Val<'a>) -> Result<Val<'a>, EvalError> {
    match value {
        Val::Int(number) => int(number.checked_neg()),
        Val::Double(number) => Ok(Val::Double(-number)),
        Val::Duration(nanos) => nanos.checked_neg().map(Val::Duration).ok_or(OVERFLOW),
        other => Err(EvalError::overload("-", [other.kind().name()])),
    }
}

/// The order of two values of one type, or of two numbers; nothing if they have none.
pub(super) fn order(left: &Val<'_>, right: &Val<'_>) -> Option<Ordering> {
    match (left, right) {
        (Val::Int(left), Val::Int(right)) | (Val::Duration(left), Val::Duration(right)) => {
            Some(left.cmp(right))
        }
        (Val::Bool(left), Val::Bool(right)) => Some(left.cmp(right)),
        (Val::Bytes(left), Val::Bytes(right)) => Some(left.cmp(right)),
        (Val::Timestamp(left), Val::Timestamp(right)) => Some(left.cmp(right)),
        (left, right) => match (left.as_str(), right.as_str()) {
            (Some(left), Some(right)) => Some(left.cmp(right)),
            _ => number_order(left, right),
        },
    }
}

/// The order of two numbers by value, whatever their types.
pub(super) fn number_order(left: &Val<'_>, right: &Val<'_>) -> Option<Ordering> {
    match (left, right) {
        (Val::Int(left), Val::Int(right)) => Some(left.cmp(right)),
        (Val::Uint(left), Val::Uint(right)) => Some(left.cmp(right)),
        (Val::Double(left), Val::Double(right)) => left.partial_cmp(right),
        (Val::Int(left), Val::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Val::Uint(left), Val::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Val::Int(left), Val::Double(right)) => {
            whole_to_double(i128::from(*left), *right, INT_RANGE)
        }
        (Val::Uint(left), Val::Double(right)) => {
            whole_to_double(i128::from(*left), *right, UINT_RANGE)
        }
        (Val::Double(left), Val::Int(right)) => {
            whole_to_double(i128::from(*right), *left, INT_RANGE).map(Ordering::reverse)
        }
        (Val::Double(left), Val::Uint(right)) => {
            whole_to_double(i128::from(*right), *left, UINT_RANGE).map(Ordering::reverse)
        }
        _ => None,
    }
}

/// Compares a whole number with a double as the language defines it: beyond the range of 64 bits
/// the double decides, within it the whole number is rounded to a double.
fn whole_to_double(whole: i128, double: f64, range: (f64, f64)) -> Option<Ordering> {
    if double < range.0 {
        return Some(Ordering::Greater);
    }
    if double > range.1 {
        return Some(Ordering::Less);
    }
    #[expect(clippy::cast_precision_loss)]
    let whole = whole as f64;
    whole.partial_cmp(&double)
}

const INT_RANGE: (f64, f64) = (-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0);
const UINT_RANGE: (f64, f64) = (0.0, 18_446_744_073_709_551_616.0);

/// Deep equality. Numbers compare by value; other values of different types are not equal.
pub(super) fn equal(
    budget: &mut Budget,
    left: &Val<'_>,
    right: &Val<'_>,
) -> Result<bool, EvalError> {
    Ok(match (left, right) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(left), Val::Bool(right)) => left == right,
        (Val::Int(left), Val::Int(right)) | (Val::Duration(left), Val::Duration(right)) => {
            left == right
        }
        (Val::Bytes(left), Val::Bytes(right)) => {
            budget.charge_text(left.len())?;
            left == right
        }
        (Val::Timestamp(left), Val::Timestamp(right)) => left == right,
        (Val::Type(left), Val::Type(right)) => left == right,
        (Val::Optional(left), Val::Optional(right)) => match (left, right) {
            (None, None) => true,
            (Some(left), Some(right)) => {
                budget.charge(1)?;
                equal(budget, left, right)?
            }
            _ => false,
        },
        (Val::Opaque(left), Val::Opaque(right)) => left.same(right),
        (left, right) => {
            if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
                budget.charge_text(left.len())?;
                left == right
            } else if let (Some(left), Some(right)) = (left.as_list(), right.as_list()) {
                equal_lists(budget, left, right)?
            } else if let (Some(left), Some(right)) = (left.as_map(), right.as_map()) {
                equal_maps(budget, left, right)?
            } else {
                number_order(left, right) == Some(Ordering::Equal)
            }
        }
    })
}

fn equal_lists(
    budget: &mut Budget,
    left: ListRef<'_, '_>,
    right: ListRef<'_, '_>,
) -> Result<bool, EvalError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (left, right) in left.iter().zip(right.iter()) {
        budget.charge(1)?;
        if !equal(budget, &left, &right)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps(
    budget: &mut Budget,
    left: MapRef<'_, '_>,
    right: MapRef<'_, '_>,
) -> Result<bool, EvalError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    budget.charge_items(left.len())?;
    for (key, value) in left.entries() {
        match right.get(&key) {
            Some(other) if equal(budget, &value, &other)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// `operand[index]` without the error texts: the member, or why there is none.
pub(super) fn member<'a>(operand: &Val<'a>, key: &Val<'_>) -> Result<Option<Val<'a>>, ()> {
    if let Some(map) = operand.as_map() {
        return Ok(map.get(key));
    }
    match operand.as_list() {
        Some(list) => Ok(usize::try_from(position(key).ok_or(())?)
            .ok()
            .and_then(|at| list.get(at))),
        None => Err(()),
    }
}

/// A list index: an int, or another number with the same value.
pub(super) fn position(key: &Val<'_>) -> Option<i64> {
    match key {
        Val::Int(at) => Some(*at),
        Val::Uint(at) => Some(i64::try_from(*at).unwrap_or(i64::MAX)),
        #[expect(clippy::cast_possible_truncation)]
        Val::Double(at) if at.fract() == 0.0 && at.abs() < 9e15 => Some(*at as i64),
        _ => None,
    }
}

/// Sorts values by their keys, which must all be of one type that has an order. Equal keys keep
/// their order.
pub(super) fn sort_keyed<'a>(
    budget: &mut Budget,
    function: &'static str,
    mut keyed: Vec<(Val<'a>, Val<'a>)>,
) -> Result<Vec<Val<'a>>, EvalError> {
    let Some((first, _)) = keyed.first() else {
        return Ok(Vec::new());
    };
    let kind = first.kind();
    let mut longest = 0;
    for (key, _) in &keyed {
        if key.kind() != kind {
            return Err(EvalError::argument(
                function,
                "the keys have different types",
            ));
        }
        if order(key, key).is_none() {
            return Err(EvalError::overload(function, [kind.name()]));
        }
        longest = longest.max(key.as_str().map_or(0, str::len));
    }
    let comparisons = keyed.len() as u64 * u64::from(keyed.len().ilog2() + 1);
    budget.charge(comparisons * (1 + longest as u64 / 64))?;
    keyed.sort_by(|(left, _), (right, _)| order(left, right).unwrap_or(Ordering::Equal));
    Ok(keyed.into_iter().map(|(_, value)| value).collect())
}
