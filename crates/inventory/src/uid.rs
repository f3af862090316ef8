//! Object uids in 16 bytes.
//!
//! Kubernetes hands out lower-case UUIDs of 36 characters; a million rows would spend 36 MB on
//! them. Everything else that appears where a uid is expected (test fixtures, other API servers)
//! is kept as the text it is, so reading back always gives what was written.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// An object's uid.
#[derive(Debug, Clone, Copy)]
pub enum Uid<'a> {
    /// The 16 bytes of a UUID that was written in lower case with four hyphens.
    Packed([u8; 16]),
    /// Any other text.
    Text(&'a str),
}

/// Where the hyphens of a UUID stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const UUID_LENGTH: usize = 36;

impl<'a> Uid<'a> {
    /// Reads a uid; packs it if that loses nothing.
    pub fn new(text: &'a str) -> Self {
        pack(text.as_bytes()).map_or(Uid::Text(text), Uid::Packed)
    }

    /// The uid as text.
    pub fn text(self) -> UidText<'a> {
        match self {
            Uid::Packed(bytes) => UidText(Form::Inline(unpack(bytes))),
            Uid::Text(text) => UidText(Form::Borrowed(text)),
        }
    }
}

fn pack(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != UUID_LENGTH || HYPHENS.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut digits = text
        .iter()
        .enumerate()
        .filter(|(at, _)| !HYPHENS.contains(at))
        .map(|(_, &byte)| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        });
    let mut packed = [0; 16];
    for byte in &mut packed {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(packed)
}

fn unpack(packed: [u8; 16]) -> [u8; UUID_LENGTH] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; UUID_LENGTH];
    let mut at = 0;
    for byte in packed {
        if HYPHENS.contains(&at) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    text
}

impl PartialEq for Uid<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Uid::Packed(a), Uid::Packed(b)) => a == b,
            _ => *self.text() == *other.text(),
        }
    }
}

impl Eq for Uid<'_> {}

impl Hash for Uid<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A packed uid and the same text must hash alike.
        match self {
            Uid::Packed(bytes) => bytes.hash(state),
            Uid::Text(text) => match pack(text.as_bytes()) {
                Some(bytes) => bytes.hash(state),
                None => text.hash(state),
            },
        }
    }
}

impl Ord for Uid<'_> {
    /// The order of the texts. Lower-case hexadecimal digits sort as their values do, so two
    /// packed uids compare by their bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Uid::Packed(a), Uid::Packed(b)) => a.cmp(b),
            _ => self.text().cmp(&other.text()),
        }
    }
}

impl PartialOrd for Uid<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Uid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The text of a uid; a `str` that may live inside this value.
#[derive(Debug, Clone, Copy)]
pub struct UidText<'a>(Form<'a>);

#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    Inline([u8; UUID_LENGTH]),
    Borrowed(&'a str),
}

impl Deref for UidText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Form::Inline(bytes) => {
                std::str::from_utf8(bytes).expect("hexadecimal digits are ASCII")
            }
            Form::Borrowed(text) => text,
        }
    }
}

impl UidText<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_case_uuids_are_packed() {
        for (text, packed) in [
            ("0b7e3c1a-5d2f-4e60-9a8b-c0ffee123456", true),
            ("00000000-0000-0000-0000-000000000000", true),
            ("ffffffff-ffff-ffff-ffff-ffffffffffff", true),
            ("0B7E3C1A-5D2F-4E60-9A8B-C0FFEE123456", false),
            ("0b7e3c1a-5d2f-4e60-9a8bc-0ffee123456", false),
            ("0b7e3c1a5d2f4e609a8bc0ffee123456", false),
            ("0b7e3c1a-5d2f-4e60-9a8b-c0ffee12345g", false),
            ("uid-abc", false),
            ("", false),
        ] {
            let uid = Uid::new(text);
            assert_eq!(matches!(uid, Uid::Packed(_)), packed, "{text}");
            assert_eq!(&*uid.text(), text);
        }
    }
}
