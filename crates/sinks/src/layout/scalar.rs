//! How a string is written in YAML so that every reader gets the same string back.

use kollect_inventory::canonical::Out;

/// The four ways to write a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// As it is.
    Plain,
    /// In single quotes: syntax would get in the way.
    Single,
    /// In double quotes: it would be read as another type, or needs escapes.
    Double,
    /// Line by line, as a block.
    Literal,
}

/// The style of a string.
pub(super) fn style(text: &str) -> Style {
    let mut lines = false;
    for c in text.chars() {
        match c {
            '\n' => lines = true,
            c if needs_escape(c) => return Style::Double,
            _ => {}
        }
    }
    if lines {
        let blank = text
            .split('\n')
            .all(|line| line.trim_matches(' ').is_empty());
        return if blank { Style::Double } else { Style::Literal };
    }
    if is_other_type(text) {
        Style::Double
    } else if is_syntax(text) {
        Style::Single
    } else {
        Style::Plain
    }
}

/// Writes a string in a style that stays in one line.
pub(super) fn write(out: &mut String, text: &str, style: Style) {
    match style {
        Style::Plain => out.put(text),
        Style::Single => {
            out.put("'");
            out.put(&text.replace('\'', "''"));
            out.put("'");
        }
        Style::Double | Style::Literal => double_quoted(out, text),
    }
}

/// Writes any string in one line.
pub(super) fn double_quoted(out: &mut String, text: &str) {
    out.put("\"");
    for c in text.chars() {
        match c {
            '"' => out.put("\\\""),
            '\\' => out.put("\\\\"),
            '\n' => out.put("\\n"),
            '\r' => out.put("\\r"),
            '\t' => out.put("\\t"),
            c if needs_escape(c) => match u32::from(c) {
                code @ 0..=0xff => out.put(&format!("\\x{code:02x}")),
                code @ 0x100..=0xffff => out.put(&format!("\\u{code:04x}")),
                code => out.put(&format!("\\U{code:08x}")),
            },
            c => out.push(c),
        }
    }
    out.put("\"");
}

/// Characters that YAML does not take as they are, or takes for line breaks. A line feed is one
/// too, but has a style of its own.
fn needs_escape(c: char) -> bool {
    c != '\n' && c.is_control()
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// Whether a plain text would end early, start something else, or lose blanks.
fn is_syntax(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return true;
    };
    let starts = match first {
        b'-' => matches!(bytes.get(1), None | Some(b' ')) || text.starts_with("---"),
        b'.' => text.starts_with("..."),
        b' ' | b'?' | b':' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!'
        | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' => true,
        _ => false,
    };
    starts || matches!(last, b' ' | b':') || text.contains(": ") || text.contains(" #")
}

/// Whether YAML 1.1 or 1.2 reads a plain text as something else than a string.
fn is_other_type(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "<<", "=",
    ];
    text.is_empty()
        || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        || is_number(text)
        || is_date(text)
}

fn is_number(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    if matches!(&*lower, ".inf" | ".nan") {
        return true;
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = lower.strip_prefix(prefix) {
            return digits.chars().all(|c| c == '_' || c.is_digit(radix));
        }
    }
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if lower.contains(':') {
        // Sexagesimal: 1:30, 12:30:45.5
        return lower
            .split([':', '.'])
            .all(|part| !part.is_empty() && digits(part));
    }
    let (mantissa, exponent) = match lower.split_once('e') {
        Some((mantissa, exponent)) => {
            let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            (mantissa, Some(exponent))
        }
        None => (&*lower, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let some = whole.len() + fraction.len() > 0;
    some && digits(whole)
        && digits(fraction)
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// Whether the text starts as a date does: `2026-01-01`, also with a time behind it.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let day = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    year.len() == 4
        && digits(year)
        && matches!(month.len(), 1 | 2)
        && digits(month)
        && matches!(day, 1 | 2)
        && (rest.len() == day || rest[day..].starts_with(['t', 'T', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles() {
        for (style, texts) in [
            (
                Style::Plain,
                &[
                    "api",
                    "nginx:1.27",
                    "1.27.3",
                    "10.0.0.1",
                    "10.0.0.0/8",
                    "--port=80",
                    "-x",
                    "it's",
                    "say \"hi\"",
                    "<a&b>",
                    "ü",
                    "a b",
                    "nobody",
                    "1a",
                    "2026-01-01x",
                    "v1",
                    ".hidden",
                    "x=y",
                    "a,b",
                    "12ab:34",
                    "9f86d081",
                ][..],
            ),
            (
                Style::Single,
                &[
                    "@x",
                    "a: b",
                    "- a",
                    "-",
                    "x # y",
                    "%x",
                    "*x",
                    "a ",
                    " a",
                    "a:",
                    "---",
                    "...",
                    "[a]",
                    "{}",
                    "&a",
                    "!a",
                    "|",
                    ">",
                    "'a'",
                    "\"a\"",
                    "`a`",
                    "?",
                    "? a",
                    ":a",
                    "#a",
                    ",",
                    "\u{2003}: x",
                ][..],
            ),
            (
                Style::Double,
                &[
                    "",
                    "true",
                    "Yes",
                    "NO",
                    "on",
                    "y",
                    "N",
                    "~",
                    "Null",
                    "123",
                    "-1",
                    "+1",
                    "0x1f",
                    "0o17",
                    "0b11",
                    "017",
                    "1_000",
                    "1e3",
                    "1E-3",
                    "1.5",
                    ".5",
                    "5.",
                    "-.5",
                    ".inf",
                    "-.INF",
                    ".NaN",
                    "1:30",
                    "12:30:45.5",
                    "2026-01-01",
                    "2026-1-1",
                    "2026-08-01T12:00:00Z",
                    "2026-08-01 12:00",
                    "<<",
                    "=",
                    "a\tb",
                    "a\rb",
                    "\u{7f}",
                    "\u{85}",
                    "\u{2028}",
                    "\u{feff}x",
                    "\n",
                    " \n ",
                    "1e21",
                    "9e86",
                    "a\r\nb",
                ][..],
            ),
            (
                Style::Literal,
                &["a\nb", "a\n", "\na", " a\nb", "a\n\n"][..],
            ),
        ] {
            for text in texts {
                assert_eq!(super::style(text), style, "{text:?}");
            }
        }
    }
}
