//! Points in time and spans, with the forms and ranges that CEL gives them.

use jiff::tz::{Offset, TimeZone};

use crate::duration::nanoseconds;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// 0001-01-01T00:00:00Z, the first second there is.
const FIRST: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z, the last one.
const LAST: i64 = 253_402_300_799;

/// A point in time between the years 1 and 9999.
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
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = bytes.get(from..to)?;
            digits.iter().try_fold(0, |sum, digit| {
                digit
                    .is_ascii_digit()
                    .then(|| sum * 10 + i64::from(digit - b'0'))
            })
        };
        let mark = |at: usize, expected: u8| bytes.get(at).filter(|byte| **byte == expected);
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        mark(4, b'-').and(mark(7, b'-')).and(mark(10, b'T'))?;
        mark(13, b':').and(mark(16, b':'))?;
        if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
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
        let seconds = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
        Self::from_unix(seconds - offset, u32::try_from(nanos).ok()?)
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
        let local = self.seconds + offset;
        let days = local.div_euclid(DAY);
        let time = local.rem_euclid(DAY);
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - days_from_civil(year, 1, 1),
            weekday: (days + 4).rem_euclid(7),
            hour: time / 3600,
            minute: time / 60 % 60,
            second: time % 60,
            nanos: i64::from(self.nanos),
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

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar. The year is counted from March, so that the
/// leap day is its last one.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
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
    fn every_day_from_year_1_to_9999_survives_the_calendar() {
        for days in (FIRST / DAY)..=(LAST / DAY) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
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
