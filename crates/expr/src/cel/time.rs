//! Points in time and spans, with the forms and ranges that CEL gives them.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use crate::duration::nanoseconds;

const NANOS: i64 = 1_000_000_000;
const UNIX_EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// 0001-01-01T00:00:00Z, the first second there is.
const FIRST: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z, the last one.
const LAST: i64 = 253_402_300_799;

/// A point in time between the years 1 and 9999. (jiff's own ends a day before the last of them, so
/// that every point has a local time; CEL takes the whole year.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp {
    seconds: i64,
    nanos: u32,
}

/// A date with a time of day, on some clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: i64,
    /// 1 to 31.
    pub(super) day: i64,
    /// 0 to 365.
    pub(super) day_of_year: i64,
    /// 0 is Sunday.
    pub(super) weekday: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) nanos: i64,
}

impl Timestamp {
    /// The point `seconds` after 1970, if it is in range.
    pub(super) fn from_unix(seconds: i64, nanos: u32) -> Option<Self> {
        ((FIRST..=LAST).contains(&seconds) && i64::from(nanos) < NANOS)
            .then_some(Timestamp { seconds, nanos })
    }

    /// Whole seconds since 1970.
    pub(super) fn unix(self) -> i64 {
        self.seconds
    }

    pub(super) fn plus(self, nanos: i64) -> Option<Self> {
        let total = i64::from(self.nanos) + nanos.rem_euclid(NANOS);
        let seconds = self.seconds + nanos.div_euclid(NANOS) + total / NANOS;
        Self::from_unix(seconds, u32::try_from(total % NANOS).ok()?)
    }

    /// The span from `earlier` to this point, in nanoseconds.
    pub(super) fn since(self, earlier: Timestamp) -> Option<i64> {
        (self.seconds - earlier.seconds)
            .checked_mul(NANOS)?
            .checked_add(i64::from(self.nanos) - i64::from(earlier.nanos))
    }

    /// Reads RFC 3339: `2026-01-02T03:04:05.678+01:00`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i32> {
            let digits = bytes.get(from..to)?;
            digits.iter().try_fold(0, |sum, digit| {
                digit
                    .is_ascii_digit()
                    .then(|| sum * 10 + i32::from(digit - b'0'))
            })
        };
        let mark = |at: usize, expected: u8| bytes.get(at).filter(|byte| **byte == expected);
        let pair = |at: usize| i8::try_from(number(at, at + 2)?).ok();
        let year = i16::try_from(number(0, 4)?).ok()?;
        let (month, day, hour) = (pair(5)?, pair(8)?, pair(11)?);
        let (minute, second) = (pair(14)?, pair(17)?);
        mark(4, b'-').and(mark(7, b'-')).and(mark(10, b'T'))?;
        mark(13, b':').and(mark(16, b':'))?;
        let local = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
        let mut at = 19;
        let mut nanos = 0;
        if mark(at, b'.').is_some() {
            let digits = bytes[at + 1..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if digits == 0 {
                return None;
            }
            // Digits beyond nanoseconds are cut off.
            nanos = number(at + 1, at + 1 + digits.min(9))?;
            for _ in digits..9 {
                nanos *= 10;
            }
            at += 1 + digits;
        }
        let offset = match bytes.get(at..)? {
            b"Z" => 0,
            [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
                let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                let seconds = hours * 3600 + minutes * 60;
                if *sign == b'-' { -seconds } else { seconds }
            }
            _ => return None,
        };
        let seconds = local.duration_since(UNIX_EPOCH).as_secs() - i64::from(offset);
        Self::from_unix(seconds, u32::try_from(nanos).ok()?)
    }

    /// RFC 3339 in UTC, with a fraction only if there is one.
    pub(super) fn text(self) -> String {
        let civil = self.civil(0);
        let mut text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
        );
        if self.nanos != 0 {
            let fraction = format!(".{:09}", self.nanos);
            text.push_str(fraction.trim_end_matches('0'));
        }
        text.push('Z');
        text
    }

    /// The date and time on a clock `offset` seconds ahead of UTC.
    fn civil(self, offset: i64) -> Civil {
        // A clock ahead of UTC may show the year 10000, where jiff's calendar has ended. After 400
        // years the calendar repeats itself to the weekday, so it is read that much earlier.
        const YEARS: i64 = 400;
        const SECONDS: i64 = 146_097 * 86_400;
        let shifted = SignedDuration::from_secs(self.seconds + offset - SECONDS);
        let local = UNIX_EPOCH.saturating_add(shifted);
        Civil {
            year: i64::from(local.year()) + YEARS,
            month: local.month().into(),
            day: local.day().into(),
            day_of_year: i64::from(local.day_of_year()) - 1,
            weekday: local.weekday().to_sunday_zero_offset().into(),
            hour: local.hour().into(),
            minute: local.minute().into(),
            second: local.second().into(),
            nanos: self.nanos.into(),
        }
    }

    /// The date and time in a zone: an IANA name or an offset such as `+02:00`. Nothing if there
    /// is no such zone.
    pub(super) fn in_zone(self, zone: Option<&str>) -> Option<Civil> {
        let offset = match zone {
            None | Some("" | "UTC") => 0,
            Some(zone) if zone.contains(':') => parse_offset(zone)?,
            Some(zone) => {
                let zone = TimeZone::get(zone).ok()?;
                let time = jiff::Timestamp::from_second(self.seconds).ok()?;
                let offset: Offset = zone.to_offset(time);
                i64::from(offset.seconds())
            }
        };
        Some(self.civil(offset))
    }
}

/// `+02:00`, `-08:00` or `02:00` in seconds.
fn parse_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |text: &str, most: i64| -> Option<i64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits
            .then(|| text.parse().ok())
            .flatten()
            .filter(|value| *value <= most)
    };
    Some(sign * (number(hours, 23)? * 3600 + number(minutes, 59)? * 60))
}

/// Reads a span such as `1h30m`, `-1.5s`, `10ms` into as many nanoseconds as CEL can hold.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    i64::try_from(nanoseconds(text)?).ok()
}

/// A span in seconds, as `string(duration)` writes it: `90s`, `1.5s`.
pub(super) fn duration_text(nanos: i64) -> String {
    #[expect(clippy::cast_precision_loss)]
    let seconds = (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / 1e9;
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_from_year_1_to_9999_survive_being_written() {
        // A step of some days and an odd time of day meets every month, weekday and leap year.
        for seconds in (FIRST..=LAST).step_by(1_000_003).chain([LAST]) {
            let time = Timestamp::from_unix(seconds, 7).unwrap();
            assert_eq!(Timestamp::parse(&time.text()), Some(time));
        }
    }

    #[test]
    fn a_clock_may_show_years_before_the_first_and_after_the_last() {
        for (seconds, zone, date, day_of_year, weekday, hour) in [
            (LAST, "+14:00", (10_000, 1, 1), 0, 6, 13),
            (LAST, "+00:00", (9999, 12, 31), 364, 5, 23),
            (FIRST, "-01:00", (0, 12, 31), 365, 0, 23),
            (FIRST, "+00:00", (1, 1, 1), 0, 1, 0),
            (951_782_400, "+01:00", (2000, 2, 29), 59, 2, 1),
        ] {
            let time = Timestamp::from_unix(seconds, 0).unwrap();
            let local = time.in_zone(Some(zone)).unwrap();
            assert_eq!((local.year, local.month, local.day), date);
            assert_eq!(local.day_of_year, day_of_year, "{date:?}");
            assert_eq!(local.weekday, weekday, "{date:?}");
            assert_eq!(local.hour, hour, "{date:?}");
        }
    }

    #[test]
    fn timestamps_read_and_write_rfc_3339() {
        let table = [
            ("2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05Z")),
            (
                "2026-01-02T03:04:05.120+01:30",
                Some("2026-01-02T01:34:05.12Z"),
            ),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            (
                "9999-12-31T23:59:59.999999999Z",
                Some("9999-12-31T23:59:59.999999999Z"),
            ),
            ("2024-02-29T00:00:00Z", Some("2024-02-29T00:00:00Z")),
            ("2023-02-29T00:00:00Z", None),
            ("0000-12-31T23:59:59Z", None),
            ("10000-01-01T00:00:00Z", None),
            ("2026-01-02T24:00:00Z", None),
            ("2026-01-02T03:04:60Z", None),
            ("2026-01-02 03:04:05Z", None),
            ("2026-01-02T03:04:05", None),
            ("2026-01-02T03:04:05.Z", None),
            ("2026-01-02T03:04:05Zx", None),
            ("2026-01-02T03:04:05é", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found = Timestamp::parse(text).map(Timestamp::text);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn durations_read_and_write() {
        let table = [
            ("90s", Some((90_000_000_000, "90s"))),
            ("1h30m", Some((5_400_000_000_000, "5400s"))),
            ("-1.5s", Some((-1_500_000_000, "-1.5s"))),
            ("1.5h", Some((5_400_000_000_000, "5400s"))),
            ("10ms", Some((10_000_000, "0.01s"))),
            ("0", Some((0, "0s"))),
            ("1us2ns", Some((1_002, "0.000001002s"))),
            (
                "-9223372036854775808ns",
                Some((i64::MIN, "-9223372036.854776s")),
            ),
            ("9223372036854775808ns", None),
            ("1x", None),
        ];
        for (text, expected) in table {
            let found = parse_duration(text);
            assert_eq!(found, expected.map(|(nanos, _)| nanos), "{text}");
            if let Some((nanos, written)) = expected {
                assert_eq!(duration_text(nanos), written, "{text}");
            }
        }
    }
}
