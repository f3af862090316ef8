//! Which keys are sensitive.

use std::borrow::Cow;

/// Always sensitive; nothing switches them off. Written as they are compared.
const BUILT_IN: [&str; 10] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "credential",
    "auth",
    "clientsecret",
    "connectionstring",
];

/// From this length on a scrub key also matches as the end of a longer key.
const SUFFIX_LENGTH: usize = 3;

/// A set of sensitive keys.
///
/// A key matches when it equals a scrub key or, for scrub keys of more than two characters, ends
/// with one. Before that, blanks around both are dropped, letter case and the characters `-`, `_`
/// and `.` are ignored, and the key may have a plural `s`: `API-Keys` matches `apiKey`.
#[derive(Debug, Clone)]
pub struct ScrubKeys {
    /// Folded keys of at least [`SUFFIX_LENGTH`] characters.
    suffixes: Box<[Box<str>]>,
    /// Folded keys that are too short to be looked for at the end of others.
    short: Box<[Box<str>]>,
    /// Bit `b` is set when an ASCII byte `b` ends a suffix: most keys are settled by their last
    /// letter.
    last_bytes: u128,
}

impl Default for ScrubKeys {
    fn default() -> Self {
        ScrubKeys::new([""; 0])
    }
}

impl ScrubKeys {
    /// The built-in keys and these. Blank ones and repetitions are dropped.
    pub fn new<K: AsRef<str>>(further: impl IntoIterator<Item = K>) -> Self {
        let mut keys: Vec<Box<str>> = BUILT_IN.into_iter().map(Into::into).collect();
        keys.extend(further.into_iter().map(|key| fold(key.as_ref()).into()));
        keys.retain(|key| !key.is_empty());
        keys.sort_unstable();
        keys.dedup();
        let (suffixes, short): (Vec<_>, Vec<_>) = keys
            .into_iter()
            .partition(|key| key.chars().count() >= SUFFIX_LENGTH);
        let last_bytes = suffixes
            .iter()
            .filter_map(|key| key.bytes().next_back())
            .filter(u8::is_ascii)
            .fold(0, |bits, byte| bits | 1 << byte);
        ScrubKeys {
            suffixes: suffixes.into(),
            short: short.into(),
            last_bytes,
        }
    }

    /// Whether a key is sensitive.
    pub fn matches(&self, key: &str) -> bool {
        if key.is_ascii() && self.short.is_empty() {
            return self.ascii_ends_sensitively(key.trim().as_bytes());
        }
        let folded = fold(key);
        let singular = folded.strip_suffix('s').unwrap_or(&folded);
        [&*folded, singular].into_iter().any(|key| {
            self.short.iter().any(|short| **short == *key)
                || self.suffixes.iter().any(|suffix| key.ends_with(&**suffix))
        })
    }

    /// The same answer for the usual case, from the last letter backwards and without a copy.
    fn ascii_ends_sensitively(&self, key: &[u8]) -> bool {
        let mut letters = backwards(key);
        let whole = letters.clone();
        match letters.next() {
            Some(b's') => self.ends_with_suffix(&letters) || self.ends_with_suffix(&whole),
            Some(_) => self.ends_with_suffix(&whole),
            None => false,
        }
    }

    fn ends_with_suffix(&self, letters: &(impl Iterator<Item = u8> + Clone)) -> bool {
        let is_candidate = letters
            .clone()
            .next()
            .is_some_and(|last| self.last_bytes >> last & 1 == 1);
        is_candidate
            && self.suffixes.iter().any(|suffix| {
                let mut letters = letters.clone();
                suffix
                    .bytes()
                    .rev()
                    .all(|byte| letters.next() == Some(byte))
            })
    }
}

/// The letters of an ASCII key that are compared, last one first.
fn backwards(key: &[u8]) -> impl Iterator<Item = u8> + Clone {
    key.iter()
        .rev()
        .filter(|byte| !matches!(byte, b'-' | b'_' | b'.'))
        .map(u8::to_ascii_lowercase)
}

/// A key as it is compared.
fn fold(key: &str) -> Cow<'_, str> {
    let key = key.trim();
    let is_folded = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if key.bytes().all(is_folded) {
        return Cow::Borrowed(key);
    }
    Cow::Owned(key.to_lowercase().replace(['-', '_', '.'], ""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn built_in_keys_are_written_as_they_are_compared() {
        for key in BUILT_IN {
            assert_eq!(fold(key), key);
        }
    }

    #[test]
    fn letters_that_only_become_ascii_in_lower_case_are_seen() {
        // The Kelvin sign is a capital k to Unicode.
        assert!(ScrubKeys::default().matches("to\u{212a}en"));
        assert!(ScrubKeys::new(["SCHLÜSSEL"]).matches("mein-schlüssel"));
        assert!(!ScrubKeys::new(["schlüssel"]).matches("schlussel"));
    }

    proptest! {
        #[test]
        fn the_fast_way_agrees_with_the_plain_one(
            key in "[ ]?[a-zA-Z_.-]{0,6}([pP]ass_?word|TOKEN|auth|api[-_.]?key|tls|x)?[sS-]{0,3}[ ]?",
        ) {
            let fast = ScrubKeys::new(["tls"]);
            // A short key makes the plain way be taken; this one matches nothing.
            let plain = ScrubKeys::new(["tls", "?"]);
            prop_assert_eq!(fast.matches(&key), plain.matches(&key));
        }
    }
}
