//! How a filter compares what it finds in an element.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::step::{Operand, Operator};

/// A value of JSON that can be compared; arrays and objects cannot.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(&'a Number),
    Text(&'a str),
}

impl<'a> Scalar<'a> {
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Null),
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Number(number) => Some(Self::Number(number)),
            Value::String(text) => Some(Self::Text(text)),
            Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The literal an operand stands for, if it is one.
    pub(super) fn literal(operand: &'a Operand) -> Option<Self> {
        match operand {
            Operand::Path(_) => None,
            Operand::Text(text) => Some(Self::Text(text)),
            Operand::Number(number) => Some(Self::Number(number)),
            Operand::Bool(flag) => Some(Self::Bool(*flag)),
        }
    }

    /// The bytes a comparison may have to look at.
    pub(super) fn text_bytes(self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            _ => 0,
        }
    }
}

impl Operator {
    /// Whether the comparison holds. Sides of different types never match, not even with `!=`:
    /// one odd element must neither fail the path nor be selected by accident.
    pub(super) fn holds(self, left: Scalar<'_>, right: Scalar<'_>) -> bool {
        let ordering = match (left, right) {
            (Scalar::Text(left), Scalar::Text(right)) => left.cmp(right),
            (Scalar::Number(left), Scalar::Number(right)) => compare_numbers(left, right),
            (Scalar::Bool(left), Scalar::Bool(right)) if self.is_equality() => left.cmp(&right),
            (Scalar::Null, Scalar::Null) if self.is_equality() => Ordering::Equal,
            _ => return false,
        };
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    fn is_equality(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual)
    }
}

/// Compares by value, exactly: integers beyond 2^53 are not rounded to meet a float.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_with_float(left, float(right)),
        (None, Some(right)) => compare_with_float(right, float(left)).reverse(),
        (None, None) => float(left).total_cmp(&float(right)),
    }
}

fn integer(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

/// Minus zero equals zero here; `total_cmp` would tell them apart.
fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default() + 0.0
}

/// The conversion saturates beyond the range of `i128`, which no integer of JSON reaches.
#[expect(clippy::cast_possible_truncation)]
fn compare_with_float(integer: i128, float: f64) -> Ordering {
    let whole = float.trunc();
    integer
        .cmp(&(whole as i128))
        .then_with(|| whole.total_cmp(&float))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_compare_by_exact_value() {
        let cases = [
            (json!(3), json!(3.0), Ordering::Equal),
            (json!(3), json!(3.5), Ordering::Less),
            (json!(-3), json!(-3.5), Ordering::Greater),
            (json!(0), json!(-0.0), Ordering::Equal),
            (json!(0.0), json!(-0.0), Ordering::Equal),
            (
                json!(9_007_199_254_740_993_i64),
                json!(9_007_199_254_740_992.0),
                Ordering::Greater,
            ),
            (json!(u64::MAX), json!(i64::MAX), Ordering::Greater),
            (json!(u64::MAX), json!(1e300), Ordering::Less),
            (json!(i64::MIN), json!(-1e300), Ordering::Greater),
            (json!(0.5), json!(1), Ordering::Less),
        ];
        for (left, right, expected) in cases {
            let (Value::Number(a), Value::Number(b)) = (&left, &right) else {
                unreachable!("the table holds numbers")
            };
            assert_eq!(compare_numbers(a, b), expected, "{left} and {right}");
            assert_eq!(
                compare_numbers(b, a),
                expected.reverse(),
                "{right} and {left}"
            );
        }
    }
}
