//! Text of tenants where a terminal may show it.
//!
//! Names, values and messages can hold characters that a terminal obeys instead of showing: they
//! move the cursor, change colours, or turn the direction of what follows. Tables, logs and metric
//! labels show them as escapes.

use std::borrow::Cow;

/// A text in which nothing is left that a terminal would obey: `\u{1b}` instead of the character
/// it stands for.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_obeyed(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// The same in at most `limit` bytes, cut between two characters and never within an escape.
pub fn visible_within(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit && !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(limit);
    let mut piece = String::new();
    for character in text.chars() {
        piece.clear();
        if is_obeyed(character) {
            piece.extend(character.escape_default());
        } else {
            piece.push(character);
        }
        if shown.len() + piece.len() > limit {
            break;
        }
        shown.push_str(&piece);
    }
    Cow::Owned(shown)
}

/// Control characters, breaks of lines and paragraphs, and marks of the writing direction.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_what_a_terminal_obeys_is_shown_as_escapes() {
        let table = [
            ("web-1", "web-1"),
            ("größe 文字 🎈", "größe 文字 🎈"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{9b}2J\u{7f}\0", "\\u{9b}2J\\u{7f}\\u{0}"),
            ("\u{202e}gnp.exe", "\\u{202e}gnp.exe"),
            ("a\u{2028}b", "a\\u{2028}b"),
        ];
        for (text, expected) in table {
            assert_eq!(visible(text), expected);
            assert_eq!(visible_within(text, 1000), expected);
        }
        assert!(matches!(visible("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn a9_texts_are_cut_between_characters() {
        assert_eq!(visible_within("ääää", 5), "ää");
        assert_eq!(visible_within("ab\u{1b}c", 7), "ab");
        assert_eq!(visible_within("ab\u{1b}c", 8), "ab\\u{1b}");
        assert_eq!(visible_within("abc", 0), "");
        assert_eq!(visible_within("abc", 3), "abc");
    }
}
