//! JSON numbers in their canonical form.
//!
//! Integers are plain digits. Floats have the shortest digits that read back as the same number,
//! no fraction when they are whole, and an exponent only below 1e-6 and from 1e21 on: `2`, `0.1`,
//! `1e-7`, `1e+21`.

use serde_json::Number;

use super::out::Out;

/// The value is NaN or infinite, and JSON has no form for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("NaN and infinity have no JSON form")]
pub struct NotFinite;

/// Writes a signed integer.
pub fn signed(out: &mut impl Out, number: i64) {
    out.put(itoa::Buffer::new().format(number));
}

/// Writes an unsigned integer.
pub fn unsigned(out: &mut impl Out, number: u64) {
    out.put(itoa::Buffer::new().format(number));
}

/// Writes a float, or nothing when it is not finite.
pub fn float(out: &mut impl Out, number: f64) -> Result<(), NotFinite> {
    if !number.is_finite() {
        return Err(NotFinite);
    }
    let mut buffer = zmij::Buffer::new();
    let shortest = buffer.format_finite(number);
    let (mantissa, exponent) = match shortest.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(0)),
        None => (shortest, 0_i32),
    };
    let mantissa = mantissa.strip_suffix(".0").unwrap_or(mantissa);
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        out.put(mantissa);
        out.put(if exponent < 0 { "e" } else { "e+" });
        out.put(itoa::Buffer::new().format(exponent));
    } else if exponent == 0 {
        out.put(mantissa);
    } else {
        positional(out, mantissa, exponent);
    }
    Ok(())
}

/// Writes `mantissa` (at most one digit before the point) times ten to `exponent` without exponent.
fn positional(out: &mut impl Out, mantissa: &str, exponent: i32) {
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let shift = exponent.unsigned_abs() as usize;
    out.put(sign);
    if exponent < 0 {
        out.put("0.");
        out.put(zeros(shift.saturating_sub(whole.len())));
        out.put(whole);
        out.put(fraction);
    } else {
        // Below 1e21 but with an exponent: a whole number, so the fraction is used up.
        out.put(whole);
        out.put(fraction);
        out.put(zeros(shift.saturating_sub(fraction.len())));
    }
}

fn zeros(count: usize) -> &'static str {
    &"000000000000000000000"[..count.min(21)]
}

/// Writes a number as it was decoded.
pub fn number(out: &mut impl Out, number: &Number) {
    if let Some(value) = number.as_u64() {
        unsigned(out, value);
    } else if let Some(value) = number.as_i64() {
        signed(out, value);
    } else if number
        .as_f64()
        .is_none_or(|value| float(out, value).is_err())
    {
        // Decoders refuse such numbers unless they keep digits as text; this is their only reading.
        out.put("null");
    }
}
