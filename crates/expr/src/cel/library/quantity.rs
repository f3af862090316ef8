//! Kubernetes quantities: `500m`, `1.5Gi`, `2e3`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::error::EvalError;
use super::super::kind::{Kind, Kinds};
use super::super::value::Val;
use super::opaque::Opaque;
use super::params::{INT, STRING};
use super::{Function, Ret, function, int, method, text};

const QUANTITY: Kinds = Kinds::of(&[Kind::Quantity]);
const TO_QUANTITY: Ret = Ret::Is(Kind::Quantity);
const TO_BOOL: Ret = Ret::Is(Kind::Bool);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function("quantity", &[STRING], TO_QUANTITY, |_, args| {
        Quantity::parse(text(args, 0)).map(value).ok_or_else(|| {
            EvalError::argument("quantity", "not a quantity such as 500m, 1.5Gi or 2e3")
        })
    }),
    function("isQuantity", &[STRING], TO_BOOL, |_, args| {
        Ok(Val::Bool(Quantity::parse(text(args, 0)).is_some()))
    }),
    function("sign", &[QUANTITY], Ret::Is(Kind::Int), sign),
    method("sign", &[QUANTITY], Ret::Is(Kind::Int), sign),
    method(
        "isGreaterThan",
        &[QUANTITY, QUANTITY],
        TO_BOOL,
        |_, args| Ok(Val::Bool(quantity(&args[0]) > quantity(&args[1]))),
    ),
    method("isLessThan", &[QUANTITY, QUANTITY], TO_BOOL, |_, args| {
        Ok(Val::Bool(quantity(&args[0]) < quantity(&args[1])))
    }),
    method(
        "compareTo",
        &[QUANTITY, QUANTITY],
        Ret::Is(Kind::Int),
        |_, args| Ok(Val::Int(quantity(&args[0]).cmp(&quantity(&args[1])) as i64)),
    ),
    method(
        "asApproximateFloat",
        &[QUANTITY],
        Ret::Is(Kind::Double),
        |_, args| {
            #[expect(clippy::cast_precision_loss)]
            let units = quantity(&args[0]).nanos as f64 / 1e9;
            Ok(Val::Double(units))
        },
    ),
    method("asInteger", &[QUANTITY], Ret::Is(Kind::Int), |_, args| {
        quantity(&args[0])
            .integer()
            .map(Val::Int)
            .ok_or_else(|| EvalError::argument("asInteger", "the quantity is no 64-bit integer"))
    }),
    method("isInteger", &[QUANTITY], TO_BOOL, |_, args| {
        Ok(Val::Bool(quantity(&args[0]).integer().is_some()))
    }),
    method("add", &[QUANTITY, QUANTITY], TO_QUANTITY, |_, args| {
        Ok(value(quantity(&args[0]).plus(quantity(&args[1]), 1)))
    }),
    method("add", &[QUANTITY, INT], TO_QUANTITY, |_, args| {
        Ok(value(
            quantity(&args[0]).plus(Quantity::whole(int(args, 1)), 1),
        ))
    }),
    method("sub", &[QUANTITY, QUANTITY], TO_QUANTITY, |_, args| {
        Ok(value(quantity(&args[0]).plus(quantity(&args[1]), -1)))
    }),
    method("sub", &[QUANTITY, INT], TO_QUANTITY, |_, args| {
        Ok(value(
            quantity(&args[0]).plus(Quantity::whole(int(args, 1)), -1),
        ))
    }),
];

fn value<'a>(quantity: Quantity) -> Val<'a> {
    Val::Opaque(Arc::new(Opaque::Quantity(quantity)))
}

fn quantity(value: &Val<'_>) -> Quantity {
    if let Val::Opaque(opaque) = value
        && let Opaque::Quantity(quantity) = &**opaque
    {
        return *quantity;
    }
    Quantity::whole(0)
}

fn sign<'a>(_: &mut super::Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    Ok(Val::Int(quantity(&args[0]).nanos.signum() as i64))
}

const NANOS: i128 = 1_000_000_000;

/// The suffixes and the power each stands for.
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Decimal,
    Binary,
    Exponent,
}

/// An amount in billionths, which is the finest grain a quantity has. Amounts beyond ±1.7e29 are
/// held at that bound.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Quantity {
    nanos: i128,
    style: Style,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Quantity {
    fn whole(units: i64) -> Self {
        Quantity {
            nanos: i128::from(units) * NANOS,
            style: Style::Decimal,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Quantity> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let (style, power, factor) = interpret(suffix)?;
        // Digits times 10^power, in billionths.
        let power = power
            .saturating_add(9)
            .saturating_sub(i32::try_from(fraction.len()).ok()?);
        let mut digits: i128 = 0;
        let mut overflow = false;
        for digit in whole.bytes().chain(fraction.bytes()) {
            match digits
                .checked_mul(10)
                .and_then(|sum| sum.checked_add(i128::from(digit - b'0')))
            {
                Some(sum) => digits = sum,
                None => overflow = true,
            }
        }
        let scaled = digits
            .checked_mul(factor)
            .and_then(|amount| scale(amount, power));
        let nanos = match scaled {
            Some(amount) if !overflow => amount,
            _ => i128::MAX,
        };
        Some(Quantity {
            nanos: if negative { -nanos } else { nanos },
            style,
        })
    }

    fn integer(self) -> Option<i64> {
        (self.nanos % NANOS == 0)
            .then(|| i64::try_from(self.nanos / NANOS).ok())
            .flatten()
    }

    fn plus(self, other: Quantity, sign: i128) -> Quantity {
        Quantity {
            nanos: self.nanos.saturating_add(other.nanos.saturating_mul(sign)),
            style: if self.nanos == 0 {
                other.style
            } else {
                self.style
            },
        }
    }

    /// The canonical text: the largest suffix that needs no fraction.
    pub(in super::super) fn text(self) -> String {
        let whole = self.nanos % NANOS == 0;
        if self.style == Style::Binary && whole && self.nanos.abs() >= 1024 * NANOS {
            let units = self.nanos / NANOS;
            let (suffix, bits) = BINARY
                .iter()
                .rev()
                .find(|(_, bits)| units % (1 << bits) == 0)
                .map_or(("", 0), |(suffix, bits)| (*suffix, *bits));
            return format!("{}{suffix}", units >> bits);
        }
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let mut amount = self.nanos;
        let mut power = -9;
        while amount % 1000 == 0 && (power < 18 || self.style == Style::Exponent) {
            amount /= 1000;
            power += 3;
        }
        if self.style == Style::Exponent {
            return if power == 0 {
                amount.to_string()
            } else {
                format!("{amount}e{power}")
            };
        }
        let suffix = DECIMAL
            .iter()
            .find(|(_, known)| *known == power)
            .map_or("", |(suffix, _)| suffix);
        format!("{amount}{suffix}")
    }
}

/// Style, power of ten and factor of a suffix.
fn interpret(suffix: &str) -> Option<(Style, i32, i128)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((Style::Decimal, *power, 1));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((Style::Binary, 0, 1 << bits));
    }
    let power = suffix.strip_prefix(['e', 'E'])?;
    // A sign alone or nothing is no power; the parser of integers agrees.
    Some((Style::Exponent, power.parse().ok()?, 1))
}

/// `amount * 10^power`; what is finer than a billionth is rounded away from zero, so that a small
/// amount never becomes nothing.
fn scale(amount: i128, power: i32) -> Option<i128> {
    if amount == 0 {
        return Some(0);
    }
    match u32::try_from(power) {
        Ok(power) => 10_i128.checked_pow(power)?.checked_mul(amount),
        Err(_) => match 10_i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => Some(amount / divisor + i128::from(amount % divisor != 0)),
            None => Some(1),
        },
    }
}
