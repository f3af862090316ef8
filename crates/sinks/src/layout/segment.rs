//! From names to pieces of path segments.
//!
//! Names of objects may hold characters that no path segment should (`system:node`), and may be
//! longer than one. What had to be changed gets a mark made of the original, so that two names
//! never become one, and so that a name's place does not depend on which other names there are.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use super::path::is_metadata;

/// Longest piece when nobody says otherwise.
pub const DEFAULT_LENGTH: usize = 63;
/// Longest piece that anybody may ask for; what stands around it has to fit into a segment too.
pub const GREATEST_LENGTH: usize = 200;
/// A hyphen and eight hexadecimal digits.
const MARK_LENGTH: usize = 9;

/// The value as a piece of a path segment of at most `longest` bytes.
///
/// Separators and control characters become hyphens, runs of dots too, dots and hyphens at the
/// ends go. If that changed or shortened anything, a mark is added, unless `longest` leaves no room
/// for one next to a character of the name.
pub fn sanitise(value: &str, longest: usize) -> Cow<'_, str> {
    let clean = replace(value);
    let whole = clean.len() <= longest;
    if whole && *clean == *value && !is_metadata(value) {
        return clean;
    }
    if longest <= MARK_LENGTH {
        return Cow::Owned(cut(&clean, longest).to_owned());
    }
    let stem = cut(&clean, longest - MARK_LENGTH);
    let mark = mark(value.as_bytes());
    Cow::Owned(if stem.is_empty() {
        mark
    } else {
        format!("{stem}-{mark}")
    })
}

/// Eight hexadecimal digits that stand for a text.
pub fn mark(original: &[u8]) -> String {
    let mut digits = digits(original);
    digits.truncate(8);
    digits
}

/// The first sixteen digits of a text's SHA-256.
pub(super) fn digits(text: &[u8]) -> String {
    let digest = Sha256::digest(text);
    let (first, _) = digest.as_chunks::<8>();
    format!("{:016x}", u64::from_be_bytes(first[0]))
}

fn replace(value: &str) -> Cow<'_, str> {
    let separator = |c: char| matches!(c, '/' | '\\' | ':') || c.is_control();
    let value = value.trim();
    if !value.contains(separator) && !value.contains("..") {
        return Cow::Borrowed(strip(value));
    }
    let mut clean = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(first) = rest.chars().next() {
        let run = |matches: &dyn Fn(char) -> bool| rest.find(|c| !matches(c)).unwrap_or(rest.len());
        let (taken, text) = if separator(first) {
            (run(&separator), "-")
        } else if rest.starts_with("..") {
            (run(&|c| c == '.'), "-")
        } else {
            (first.len_utf8(), &rest[..first.len_utf8()])
        };
        clean.push_str(text);
        rest = &rest[taken..];
    }
    Cow::Owned(strip(&clean).to_owned())
}

fn strip(value: &str) -> &str {
    value.trim_matches(|c: char| matches!(c, '.' | '-') || c.is_whitespace())
}

/// At most `longest` bytes, whole characters only.
fn cut(value: &str, longest: usize) -> &str {
    strip(&value[..value.floor_char_boundary(longest)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the replacement alone makes of a value, and what is used.
    #[test]
    fn values() {
        for (value, longest, replaced, used) in [
            ("api", 63, "api", "api"),
            ("my.config", 63, "my.config", "my.config"),
            ("a/b", 63, "a-b", "a-b-c14cddc0"),
            ("a:b\\c", 63, "a-b-c", "a-b-c-"),
            ("../etc", 63, "etc", "etc-"),
            ("  spaced  ", 63, "spaced", "spaced-"),
            ("longname", 4, "longname", "long"),
            ("....", 63, "", "dfa34768"),
            ("", 63, "", ""),
            ("system:node-proxier", 8, "system-node-proxier", "system-n"),
            ("system:node", 63, "system-node", "system-node-"),
            ("abcdefghijkl", 11, "abcdefghijkl", "ab-"),
            ("üüüüüüüüüüü", 12, "üüüüüüüüüüü", "ü-"),
            ("git~1", 63, "git~1", "git~1-"),
            (".git", 63, "git", "git-"),
            ("a\nb", 63, "a-b", "a-b-"),
        ] {
            assert_eq!(replace(value), replaced, "{value:?}");
            let found = sanitise(value, longest);
            assert!(found.starts_with(used), "{value:?} became {found:?}");
            assert!(found.len() <= longest, "{value:?} became {found:?}");
            let marked = used.ends_with('-');
            assert_eq!(found.len() == used.len() + 8, marked, "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_are_short_and_hold_no_separator(
            value in r"[a-c./\\: \n\u{e4}-]{0,80}",
            longest in 1..100_usize,
        ) {
            let piece = sanitise(&value, longest);
            prop_assert!(piece.len() <= longest);
            prop_assert!(!piece.contains(['/', '\\', ':', '\n']) && !piece.contains(".."));
            prop_assert_eq!(piece.trim_matches(['.', '-', ' ']), &*piece);
        }

        #[test]
        fn two_values_never_become_one(
            a in r"[ab./: -]{0,20}",
            b in r"[ab./: -]{0,20}",
            longest in 12..30_usize,
        ) {
            prop_assume!(a != b);
            prop_assert_ne!(sanitise(&a, longest), sanitise(&b, longest));
        }
    }
}
