//! Spans of time in Go's notation, such as `1h30m`: what `duration()` of CEL takes, and what
//! Kubernetes means by a duration in a manifest.

/// Nanoseconds of a text such as `1h30m`, `-1.5s`, `10ms` or `0`, fractions of one cut off; nothing
/// if the text does not follow the grammar. Each user of it has a range of its own, and some tell
/// a text that is out of range from one that is none, so nothing is refused for its value here
/// (unless it does not even fit into the result).
pub fn nanoseconds(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        // Digits beyond the eighteenth are far below a nanosecond.
        let fraction = &fraction[..fraction.len().min(18)];
        let places = u32::try_from(fraction.len()).ok()?;
        let term = number(whole)?
            .checked_mul(unit)?
            .checked_add(number(fraction)? * unit / 10_i128.pow(places))?;
        total = total.checked_add(term)?;
        rest = after;
    }
    Some(if negative { -total } else { total })
}

/// The digits at the beginning, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The value of digits, none of which mean zero.
fn number(digits: &str) -> Option<i128> {
    if digits.is_empty() {
        return Some(0);
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read() {
        for (text, expected) in [
            ("90s", Some(90_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("+5m", Some(300_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            ("10ms", Some(10_000_000)),
            ("0", Some(0)),
            ("-0", Some(0)),
            (".5s", Some(500_000_000)),
            ("5.s", Some(5_000_000_000)),
            ("1us2ns", Some(1_002)),
            ("1\u{b5}s", Some(1_000)),
            ("1\u{3bc}s", Some(1_000)),
            // Exact to the last nanosecond, also where a unit is no power of ten.
            ("0.00000000009m", Some(5)),
            ("0.123456789012h", Some(444_444_440_443)),
            ("0.9999999999999999999999999s", Some(999_999_999)),
            (
                "00000000000000000000000000000000000000000000001s",
                Some(1_000_000_000),
            ),
            // More than any user takes is still a duration,
            (
                "9999999999999999999h",
                Some(35_999_999_999_999_999_996_400_000_000_000),
            ),
            // unless there is no number for it.
            ("99999999999999999999999999999999999999999h", None),
            ("99999999999999999999999999999999999999h", None),
            ("170141183460469231731687303715884105727ns1ns", None),
            ("s", None),
            ("1", None),
            ("1.", None),
            (".", None),
            (".s", None),
            ("1x", None),
            ("1d", None),
            ("1 s", None),
            ("1.2.3s", None),
            ("1s-", None),
            ("--1s", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(nanoseconds(text), expected, "{text:?}");
        }
    }
}
