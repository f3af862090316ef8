//! A text as its readers may decode it, with the way back to where each byte stands.
//!
//! Searching in decoded text finds a value in every spelling of an encoding (`%2F`, `%2f`, only
//! some characters encoded) without enumerating the spellings.

use std::ops::Range;

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use percent_encoding::percent_decode;

use super::search::Needles;

/// Reads base64 from the middle of something: no padding, loose ends allowed.
const FRAGMENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decoded bytes, each with its place in the original text.
pub(super) struct View {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl View {
    /// The text as it is and as readers may decode it: percent-encoding once and twice, with and
    /// without `+` for blanks, and backslash escapes of JSON and of Rust.
    pub(super) fn all(text: &str) -> Vec<View> {
        let plain = View {
            bytes: text.as_bytes().to_vec(),
            places: (0..text.len()).map(|at| at..at + 1).collect(),
        };
        let mut views = vec![plain];
        if text.contains('\\') {
            views.push(views[0].unescaped());
        }
        if text.contains(['%', '+']) {
            for index in 0..views.len() {
                let once = views[index].percent_decoded(false);
                views.push(views[index].percent_decoded(true));
                views.push(once.percent_decoded(false));
                views.push(once);
            }
        }
        views
    }

    fn percent_decoded(&self, plus_is_blank: bool) -> View {
        self.decoded(|rest| match rest {
            [b'%', _, _, ..] => {
                let mut bytes = percent_decode(&rest[..3]);
                // One byte if it is an escape; otherwise all three come back.
                match (bytes.next(), bytes.next()) {
                    (Some(byte), None) => Some((vec![byte], 3)),
                    _ => None,
                }
            }
            [b'+', ..] if plus_is_blank => Some((vec![b' '], 1)),
            _ => None,
        })
    }

    fn unescaped(&self) -> View {
        self.decoded(|rest| {
            let [b'\\', kind, tail @ ..] = rest else {
                return None;
            };
            let simple = |byte: u8| Some((vec![byte], 2));
            match kind {
                b'n' => simple(b'\n'),
                b'r' => simple(b'\r'),
                b't' => simple(b'\t'),
                b'0' => simple(0),
                b'u' => unicode_escape(tail).map(|(character, used)| {
                    let mut buffer = [0; 4];
                    let encoded = character.encode_utf8(&mut buffer);
                    (encoded.as_bytes().to_vec(), used + 2)
                }),
                other => simple(*other),
            }
        })
    }

    /// Rewrites the view; `step` says which bytes the beginning of the rest stands for, and how
    /// long that beginning is.
    fn decoded(&self, step: impl Fn(&[u8]) -> Option<(Vec<u8>, usize)>) -> View {
        let mut view = View {
            bytes: Vec::with_capacity(self.bytes.len()),
            places: Vec::with_capacity(self.bytes.len()),
        };
        let mut at = 0;
        while at < self.bytes.len() {
            let Some((bytes, used)) = step(&self.bytes[at..]) else {
                view.bytes.push(self.bytes[at]);
                view.places.push(self.places[at].clone());
                at += 1;
                continue;
            };
            let place = self.places[at].start..self.places[at + used - 1].end;
            view.places.extend(bytes.iter().map(|_| place.clone()));
            view.bytes.extend(bytes);
            at += used;
        }
        view
    }

    /// Hides values wherever they stand.
    pub(super) fn hide(&self, values: &Needles, hidden: &mut [bool]) {
        // Of the values that end at one place, the longest hides the others.
        let mut from = vec![usize::MAX; self.bytes.len() + 1];
        for found in values.find(&self.bytes) {
            from[found.end] = from[found.end].min(found.start);
        }
        // Backwards, what is hidden already need not be hidden again.
        let mut done = self.bytes.len();
        for (end, start) in from.into_iter().enumerate().rev() {
            if start < end.min(done) {
                self.mark(start..end.min(done), hidden);
                done = start;
            }
        }
    }

    /// Hides names where no letter or digit touches them, in any letter case.
    pub(super) fn hide_words(&self, names: &Needles, hidden: &mut [bool]) {
        let is_inside = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        for found in names.find(&self.bytes) {
            let before = found.start.checked_sub(1).and_then(|at| self.bytes.get(at));
            if !is_inside(before) && !is_inside(self.bytes.get(found.end)) {
                self.mark(found, hidden);
            }
        }
    }

    /// Hides every run of base64 that holds one of the values, as a whole: what surrounds a
    /// password in a header belongs to it. A run may begin with letters of the surrounding text,
    /// so all four alignments are read.
    pub(super) fn hide_base64(&self, values: &Needles, hidden: &mut [bool]) {
        for run in self.base64_runs() {
            let alphabet: Vec<u8> = self.bytes[run.clone()]
                .iter()
                .map(|byte| match byte {
                    b'-' => b'+',
                    b'_' => b'/',
                    other => *other,
                })
                .collect();
            let holds_one = (0..4.min(alphabet.len())).any(|offset| {
                let mut piece = &alphabet[offset..];
                if piece.len() % 4 == 1 {
                    piece = &piece[..piece.len() - 1];
                }
                FRAGMENT
                    .decode(piece)
                    .is_ok_and(|decoded| values.are_in(&decoded))
            });
            if holds_one {
                self.mark(run, hidden);
            }
        }
    }

    fn base64_runs(&self) -> Vec<Range<usize>> {
        let is_digit =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
        let mut runs = Vec::new();
        let mut start = 0;
        for run in self.bytes.split(|byte| !is_digit(byte)) {
            if run.len() >= 4 {
                runs.push(start..start + run.len());
            }
            start += run.len() + 1;
        }
        runs
    }

    fn mark(&self, range: Range<usize>, hidden: &mut [bool]) {
        for place in &self.places[range] {
            hidden[place.clone()].fill(true);
        }
    }
}

/// `\uXXXX` of JSON and `\u{X…}` of Rust, after the `u`. Halves of a pair are left alone.
fn unicode_escape(tail: &[u8]) -> Option<(char, usize)> {
    let (digits, used) = match tail {
        [b'{', rest @ ..] => {
            let end = rest.iter().take(7).position(|byte| *byte == b'}')?;
            (&rest[..end], end + 2)
        }
        _ => (tail.get(..4)?, 4),
    };
    let digits = std::str::from_utf8(digits).ok()?;
    let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    Some((character, used))
}

/// Hides the user information of URLs: always for web addresses, otherwise if there is a password.
/// A bare user as in `ssh://git@host` tells nothing.
pub(super) fn hide_userinfo(text: &str, hidden: &mut [bool]) {
    for (at, separator) in text.match_indices("://") {
        let start = at + separator.len();
        let rest = &text[start..];
        let end = rest
            .find(|c: char| {
                c == '/' || c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')
            })
            .unwrap_or(rest.len());
        let Some(userinfo) = rest[..end].rfind('@').map(|end| &rest[..end]) else {
            continue;
        };
        let scheme = text[..at]
            .rsplit(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'))
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        if matches!(scheme.as_str(), "http" | "https") || userinfo.contains(':') {
            hidden[start..start + userinfo.len()].fill(true);
        }
    }
}
