//! Durations as users write them: `30s`, `1h30m`, `1.5h`, `0`.
//!
//! The text is kept as it was given. Nothing that Kollect writes back changes a user's spelling
//! (a rewritten `spec` would bump the generation), and a malformed text that reached storage makes
//! its one object invalid instead of breaking the decoding of a whole list.

use std::{fmt, time::Duration as StdDuration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// The longest duration any field takes.
pub const MAX: StdDuration = StdDuration::from_hours(24);

/// A duration in the notation of Kubernetes, kept as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(String);

/// Why a duration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not follow the grammar.
    #[error("must be a duration such as 30s, 5m or 1h30m (units ns, us, ms, s, m, h)")]
    Malformed,
    /// The value is below zero.
    #[error("must not be negative")]
    Negative,
    /// The value is above [`MAX`].
    #[error("must be at most 24h")]
    TooLong,
}

impl Duration {
    /// Wraps a text without judging it; [`Duration::get`] does that.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value, if the text is well formed and within zero to [`MAX`].
    pub fn get(&self) -> Result<StdDuration, DurationError> {
        let nanos = kollect_expr::duration::nanoseconds(&self.0).ok_or(DurationError::Malformed)?;
        let nanos = u128::try_from(nanos).map_err(|_| DurationError::Negative)?;
        if nanos > MAX.as_nanos() {
            return Err(DurationError::TooLong);
        }
        Ok(StdDuration::from_nanos(
            u64::try_from(nanos).expect("24h of nanoseconds fit"),
        ))
    }
}

impl From<StdDuration> for Duration {
    fn from(value: StdDuration) -> Self {
        Self(format(value))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 64,
            "x-kubernetes-validations": schema::rules(&[(
                "duration(self) >= duration('0s') && duration(self) <= duration('24h')",
                "must be a duration from 0s to 24h, such as 30s or 1h30m",
            )]),
        })
    }
}

/// The normal form: `1h0m0s`, `1m30s`, `500ms`, `0s`.
pub fn format(value: StdDuration) -> String {
    let nanos = value.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < 1_000_000_000 {
        let (scale, unit) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "\u{b5}s"),
            _ => (1_000_000, "ms"),
        };
        return format!("{}{unit}", decimal(nanos, scale));
    }
    let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
    let minutes = nanos / 60_000_000_000;
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// `value / scale` with as many decimals as it has.
fn decimal(value: u128, scale: u128) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_users_write() {
        let seconds = |s| Ok(StdDuration::from_secs(s));
        for (text, expected) in [
            ("30s", seconds(30)),
            ("0", seconds(0)),
            ("0s", seconds(0)),
            ("+5m", seconds(300)),
            ("1h30m", seconds(5_400)),
            ("1.5h", seconds(5_400)),
            ("24h", seconds(86_400)),
            (".5m", seconds(30)),
            ("500ms", Ok(StdDuration::from_millis(500))),
            ("3\u{b5}s", Ok(StdDuration::from_micros(3))),
            ("24h1s", Err(DurationError::TooLong)),
            ("9999999999999999999h", Err(DurationError::TooLong)),
            ("-1s", Err(DurationError::Negative)),
            ("1d", Err(DurationError::Malformed)),
            ("30", Err(DurationError::Malformed)),
            ("abc", Err(DurationError::Malformed)),
            ("", Err(DurationError::Malformed)),
            ("-", Err(DurationError::Malformed)),
            (".s", Err(DurationError::Malformed)),
            ("1.2.3s", Err(DurationError::Malformed)),
            (
                "99999999999999999999999999999999999999999h",
                Err(DurationError::Malformed),
            ),
        ] {
            assert_eq!(Duration::new(text).get(), expected, "{text:?}");
        }
    }

    #[test]
    fn writes_the_normal_form() {
        for (nanos, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5\u{b5}s"),
            (500_000_000, "500ms"),
            (30_000_000_000, "30s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (61_500_000_000, "1m1.5s"),
        ] {
            assert_eq!(format(StdDuration::from_nanos(nanos)), expected);
        }
    }

    proptest! {
        #[test]
        fn formatting_and_reading_back_is_the_identity(nanos in 0..=86_400_000_000_000_u64) {
            let value = StdDuration::from_nanos(nanos);
            prop_assert_eq!(Duration::from(value).get(), Ok(value));
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,40}") {
            let _ = Duration::new(text).get();
        }
    }
}
