//! From when until when a certificate holds.
//!
//! Checking signatures and names is for rustls; it just does not tell these two times, nor does it
//! check them of an authority. A certificate is read only as far as to find them.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::BACKDATED;

/// From when until when a certificate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Not before.
    pub from: Timestamp,
    /// Not after.
    pub until: Timestamp,
}

impl Validity {
    /// Reads a certificate in DER; nothing if it is none.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (certificate, _) = element(certificate, SEQUENCE)?;
        let (body, _) = element(certificate, SEQUENCE)?;
        // The version may be left out, for certificates of long ago.
        let body = element(body, VERSION).map_or(body, |(_, rest)| rest);
        let (_serial, body) = element(body, INTEGER)?;
        let (_algorithm, body) = element(body, SEQUENCE)?;
        let (_issuer, body) = element(body, SEQUENCE)?;
        let (validity, _) = element(body, SEQUENCE)?;
        let (from, rest) = time(validity)?;
        let (until, _) = time(rest)?;
        Some(Self { from, until })
    }

    /// When it was made, as far as that can be told: ours begin in the past.
    pub fn made(&self) -> Timestamp {
        match self.from.checked_add(BACKDATED) {
            Ok(made) if made < self.until => made,
            _ => self.from,
        }
    }

    /// Whether two thirds of its life are over.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let (made, until) = (self.made().as_second(), self.until.as_second());
        let life = until.saturating_sub(made);
        now.as_second() >= made.saturating_add(life - life / 3)
    }

    /// Whether it has ended.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        now > self.until
    }
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// What an element of this type holds, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // Lengths of up to four bytes; certificates are not larger.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let length = bytes
                .iter()
                .fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    (found == tag).then_some((content, rest))
}

fn time(der: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (text, rest, long) = match element(der, UTC_TIME) {
        Some((text, rest)) => (text, rest, false),
        None => element(der, GENERALIZED_TIME).map(|(text, rest)| (text, rest, true))?,
    };
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let year = if long { 4 } else { 2 };
    if text.len() != year + 10 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i8>().ok();
    let short = text.get(..year)?.parse::<i16>().ok()?;
    let at = match short {
        _ if long => short,
        0..50 => 2000 + short,
        _ => 1900 + short,
    };
    let part = |index: usize| number(year + 2 * index, year + 2 * index + 2);
    let (month, day, hour, minute, second) = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
    let time = DateTime::new(at, month, day, hour, minute, second, 0).ok()?;
    let time = time.to_zoned(TimeZone::UTC).ok()?;
    Some((time.timestamp(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_forms_are_read() {
        for (tag, text, expected) in [
            (UTC_TIME, "261118020409Z", Some("2026-11-18T02:04:09Z")),
            (UTC_TIME, "491231235959Z", Some("2049-12-31T23:59:59Z")),
            (UTC_TIME, "500101000000Z", Some("1950-01-01T00:00:00Z")),
            (
                GENERALIZED_TIME,
                "20500101000000Z",
                Some("2050-01-01T00:00:00Z"),
            ),
            (UTC_TIME, "261318020409Z", None),
            (UTC_TIME, "2611180204Z", None),
            (UTC_TIME, "261118020409", None),
            (UTC_TIME, "26111802040aZ", None),
            (GENERALIZED_TIME, "261118020409Z", None),
        ] {
            let length = u8::try_from(text.len()).expect("a short text");
            let der = [&[tag, length][..], text.as_bytes()].concat();
            let read = time(&der).map(|(time, _)| time.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn certificates_tell_their_times_and_nothing_else_does() {
        let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2026, 1, 2);
        params.not_after = rcgen::date_time_ymd(2051, 3, 4);
        let key = rcgen::KeyPair::generate().expect("a key");
        let der = params
            .self_signed(&key)
            .expect("a certificate")
            .der()
            .to_vec();
        let validity = Validity::of(&der).expect("a certificate");
        assert_eq!(validity.from.to_string(), "2026-01-02T00:00:00Z");
        assert_eq!(validity.until.to_string(), "2051-03-04T00:00:00Z");
        for end in 0..der.len().min(200) {
            assert_eq!(Validity::of(&der[..end]), None, "cut at {end}");
        }
        assert_eq!(Validity::of(b"no certificate"), None);
        assert_eq!(
            Validity::of(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]),
            None
        );
    }
}
