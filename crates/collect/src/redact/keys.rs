//! Which keys are sensitive.

use std::borrow::Cow;
use std::ops::Range;

use super::names::{FALSE_FRIENDS, LAST_WORDS, PLAIN_KEYS, QUALIFIERS, SUFFIXES, TEXT_SUFFIXES};

/// From this length on a scrub key also matches as the end of a longer key.
const SUFFIX_LENGTH: usize = 3;

/// The longest word of [`LAST_WORDS`] and [`QUALIFIERS`].
const LONGEST_WORD: usize = 16;

/// How sure a key is about its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sensitivity {
    /// Whatever is under it is a secret.
    Any,
    /// Text under it is a secret.
    Text,
}

/// A set of sensitive keys.
///
/// A key matches when it equals a scrub key or, for scrub keys of more than two characters, ends
/// with one. Before that, blanks around both are dropped, letter case and the characters `-`, `_`
/// and `.` are ignored, and the key may have a plural `s`: `API-Keys` matches `apiKey`. Of the
/// built-in ones some match as the last word only, and words at the end that tell nothing about
/// the value are passed over (`names.rs`).
#[derive(Debug, Clone)]
pub struct ScrubKeys {
    /// Folded keys of at least [`SUFFIX_LENGTH`] characters, by their last byte.
    suffixes: Box<[(Box<str>, Sensitivity)]>,
    /// Folded keys that are too short to be looked for at the end of others.
    short: Box<[Box<str>]>,
    /// Which suffixes end with an ASCII byte: most keys are settled by their last letter.
    by_last_byte: Box<[Range<u16>; 128]>,
    /// By first letter, the lengths of words that mean something at the end of a key, as bits: most
    /// words are settled by that.
    word_shapes: [u32; 26],
}

impl Default for ScrubKeys {
    fn default() -> Self {
        ScrubKeys::new([""; 0])
    }
}

impl ScrubKeys {
    /// The built-in keys and these. Blank ones and repetitions are dropped.
    pub fn new<K: AsRef<str>>(further: impl IntoIterator<Item = K>) -> Self {
        let of_text = TEXT_SUFFIXES.iter().map(|key| (*key, Sensitivity::Text));
        let built_in = SUFFIXES.iter().map(|key| (*key, Sensitivity::Any));
        let built_in = built_in.chain(of_text).map(|(key, how)| (key.into(), how));
        let mut keys: Vec<(Box<str>, Sensitivity)> = built_in.collect();
        keys.extend(
            further
                .into_iter()
                .map(|key| (fold(key.as_ref()).into(), Sensitivity::Any)),
        );
        keys.retain(|(key, _)| !key.is_empty());
        // The surer ones first: what ends with two of them is what the first one says.
        keys.sort_unstable_by(|left, right| {
            let order = |(key, how): &(Box<str>, Sensitivity)| {
                (key.bytes().next_back(), *how == Sensitivity::Text)
            };
            order(left).cmp(&order(right)).then(left.0.cmp(&right.0))
        });
        keys.dedup();
        let (suffixes, short): (Vec<_>, Vec<_>) = keys
            .into_iter()
            .partition(|(key, _)| key.chars().count() >= SUFFIX_LENGTH);
        let mut by_last_byte = Box::new([const { 0..0 }; 128]);
        for (at, (key, _)) in (0_u16..).zip(&suffixes) {
            let last = key.bytes().next_back().unwrap_or(u8::MAX);
            if let Some(range) = by_last_byte.get_mut(usize::from(last)) {
                let start = if range.end == 0 { at } else { range.start };
                *range = start..at + 1;
            }
        }
        ScrubKeys {
            suffixes: suffixes.into(),
            short: short.into_iter().map(|(key, _)| key).collect(),
            by_last_byte,
            word_shapes: word_shapes(),
        }
    }

    /// Whether a key is sensitive, at least for text.
    pub fn matches(&self, key: &str) -> bool {
        self.sensitivity(key).is_some()
    }

    /// What a key says about its value.
    pub(crate) fn sensitivity(&self, key: &str) -> Option<Sensitivity> {
        let key = key.trim();
        if !key.is_ascii() || !self.short.is_empty() {
            return self.plain(key);
        }
        let key = key.as_bytes();
        match self.ends_sensitively(key) {
            found @ Some(_) => found.filter(|_| !is_false_friend(key)),
            None => self.words(key),
        }
    }

    /// What the last words of an ASCII key say.
    fn words(&self, key: &[u8]) -> Option<Sensitivity> {
        let mut left = key;
        // As many as a name can reasonably have.
        for _ in 0..3 {
            let (word, before) = word(left)?;
            if !self.may_mean_something(word) {
                return None;
            }
            if contains(LAST_WORDS, word) {
                return Some(Sensitivity::Any).filter(|_| !is_false_friend(left));
            }
            if word == b"KEY" && is_variable(key) && names_a_key(before) {
                return Some(Sensitivity::Text);
            }
            let last_letter = word.iter().rposition(|byte| !byte.is_ascii_digit());
            let letters = last_letter.map_or(0, |last| last + 1);
            left = if contains(QUALIFIERS, word) {
                before
            } else if letters < word.len() {
                &left[..before.len() + letters]
            } else {
                return None;
            };
            let found = self.ends_sensitively(left);
            if found.is_some() {
                return found.filter(|_| !is_false_friend(key) && !is_false_friend(left));
            }
        }
        None
    }

    /// Whether a word at the end of a key has to be looked at: it has the shape of one that is
    /// listed, or ends with a digit.
    fn may_mean_something(&self, word: &[u8]) -> bool {
        let shape = word.first().map_or(0, |first| {
            let letter = first.to_ascii_lowercase().wrapping_sub(b'a');
            let shapes = self.word_shapes.get(usize::from(letter));
            shapes.map_or(0, |shapes| shapes >> word.len().min(31) & 1)
        });
        shape == 1 || word.last().is_some_and(u8::is_ascii_digit)
    }

    /// The same answer on a folded copy, for keys and scrub keys of any kind.
    fn plain(&self, key: &str) -> Option<Sensitivity> {
        let folded = fold(key);
        let singular = folded.strip_suffix('s').unwrap_or(&folded);
        let of = |key: &str| {
            if self.short.iter().any(|short| **short == *key) {
                return Some(Sensitivity::Any);
            }
            let mut matching = self.suffixes.iter();
            matching
                .find(|(suffix, _)| key.ends_with(&**suffix))
                .map(|(_, how)| *how)
        };
        let found = of(singular).or_else(|| of(&folded));
        let friend = [&*folded, singular]
            .iter()
            .any(|key| FALSE_FRIENDS.contains(key));
        match found {
            Some(_) => found.filter(|_| !friend),
            // Words are a matter of ASCII.
            None if key.is_ascii() => self.words(key.as_bytes()),
            None => None,
        }
    }

    /// Whether an ASCII key ends with a suffix, from the last letter backwards without a copy.
    fn ends_sensitively(&self, key: &[u8]) -> Option<Sensitivity> {
        let mut letters = backwards(key);
        let whole = letters.clone();
        match letters.next() {
            Some(b's') => self.suffix(&letters).or_else(|| self.suffix(&whole)),
            Some(_) => self.suffix(&whole),
            None => None,
        }
    }

    fn suffix(&self, letters: &(impl Iterator<Item = u8> + Clone)) -> Option<Sensitivity> {
        let last = letters.clone().next()?;
        let range = self.by_last_byte.get(usize::from(last))?;
        let candidates = &self.suffixes[usize::from(range.start)..usize::from(range.end)];
        candidates
            .iter()
            .find(|(suffix, _)| {
                let mut letters = letters.clone();
                suffix
                    .bytes()
                    .rev()
                    .all(|byte| letters.next() == Some(byte))
            })
            .map(|(_, how)| *how)
    }
}

/// The letters of an ASCII key that are compared, last one first.
fn backwards(key: &[u8]) -> impl Iterator<Item = u8> + Clone {
    key.iter()
        .rev()
        .filter(|byte| !matches!(byte, b'-' | b'_' | b'.'))
        .map(u8::to_ascii_lowercase)
}

/// The last word of an ASCII key and what is before it. Words end at anything that is neither
/// letter nor digit, and where a small letter or digit is followed by a capital.
fn word(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = key.iter().rposition(u8::is_ascii_alphanumeric)? + 1;
    let mut start = end;
    while start > 0 && key[start - 1].is_ascii_alphanumeric() {
        start -= 1;
        let begins =
            key[start].is_ascii_uppercase() && start > 0 && !key[start - 1].is_ascii_uppercase();
        if begins {
            break;
        }
    }
    Some((&key[start..end], &key[..start]))
}

/// The shapes of all words that mean something at the end of a key.
fn word_shapes() -> [u32; 26] {
    let mut shapes = [0; 26];
    for word in LAST_WORDS.iter().chain(QUALIFIERS).chain(&["key"]) {
        let first = word.bytes().next().unwrap_or_default();
        if let Some(shape) = shapes.get_mut(usize::from(first.wrapping_sub(b'a'))) {
            *shape |= 1 << word.len().min(31);
        }
    }
    shapes
}

/// Whether this is the name of a variable, in capitals.
fn is_variable(key: &[u8]) -> bool {
    !key.iter().any(u8::is_ascii_lowercase)
}

/// Whether what is before the word `KEY` tells that it opens something.
fn names_a_key(before: &[u8]) -> bool {
    word(before).is_some_and(|(word, _)| !contains(PLAIN_KEYS, word))
}

fn contains(words: &[&str], word: &[u8]) -> bool {
    word.len() <= LONGEST_WORD
        && words
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

/// Whether the key as a whole is one that only looks sensitive.
fn is_false_friend(key: &[u8]) -> bool {
    FALSE_FRIENDS.iter().any(|friend| {
        let friend = friend.bytes().rev();
        let plural = std::iter::once(b's').chain(friend.clone());
        backwards(key).eq(friend) || backwards(key).eq(plural)
    })
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
        for key in SUFFIXES.iter().chain(TEXT_SUFFIXES).chain(FALSE_FRIENDS) {
            assert_eq!(fold(key), *key);
        }
        for word in LAST_WORDS.iter().chain(QUALIFIERS).chain(PLAIN_KEYS) {
            assert!(word.len() <= LONGEST_WORD && fold(word) == *word, "{word}");
        }
    }

    #[test]
    fn letters_that_only_become_ascii_in_lower_case_are_seen() {
        // The Kelvin sign is a capital k to Unicode.
        assert!(ScrubKeys::default().matches("to\u{212a}en"));
        assert!(ScrubKeys::new(["SCHLÜSSEL"]).matches("mein-schlüssel"));
        assert!(!ScrubKeys::new(["schlüssel"]).matches("schlussel"));
    }

    #[test]
    fn what_only_text_can_be_is_said() {
        let keys = ScrubKeys::default();
        assert_eq!(keys.sensitivity("DATABASE_URL"), Some(Sensitivity::Text));
        assert_eq!(keys.sensitivity("DB_PASS"), Some(Sensitivity::Any));
        assert_eq!(keys.sensitivity("bypass"), None);
        let own = ScrubKeys::new(["dsn"]);
        assert_eq!(own.sensitivity("DSN"), Some(Sensitivity::Any));
    }

    proptest! {
        #[test]
        fn the_fast_way_agrees_with_the_plain_one(
            key in "[ ]?[a-zA-Z_.-]{0,6}([pP]ass_?word|TOKEN|auth|api[-_.]?key|tls|DSN|Pass|pat|x)?([sS_-]{0,3}|_?(data|Base64|2))[ ]?",
        ) {
            let fast = ScrubKeys::new(["tls"]);
            // A short key makes the plain way be taken; this one matches nothing.
            let plain = ScrubKeys::new(["tls", "?"]);
            prop_assert_eq!(fast.sensitivity(&key), plain.sensitivity(&key));
        }
    }
}
