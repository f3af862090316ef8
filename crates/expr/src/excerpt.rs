//! Pieces of what a user wrote, cut to fit a message: one line, bounded length.

/// The beginning of `text` in at most `limit` bytes.
pub(crate) fn head(text: &str, limit: usize) -> String {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = one_line(&text[..end]);
    if end < text.len() {
        short.push('…');
    }
    short
}

/// The end of `text` in at most `limit` bytes.
pub(crate) fn tail(text: &str, limit: usize) -> String {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let short = one_line(&text[start..]);
    if start > 0 {
        format!("…{short}")
    } else {
        short
    }
}

fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.replace(breaks, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters_and_stays_on_one_line() {
        assert_eq!(head("a\nb", 8), "a b");
        assert_eq!(head("äöü", 3), "ä…");
        assert_eq!(tail("äöü", 3), "…ü");
        assert_eq!(tail("a\tb", 3), "a b");
    }
}
