//! JSON strings in their canonical form.
//!
//! `"` and `\` are escaped, control characters use the short forms where JSON has one and
//! `\u00xx` otherwise, and five characters that are dangerous when JSON is pasted into HTML or
//! JavaScript (`<`, `>`, `&`, U+2028, U+2029) are always written as `\uxxxx`. Everything else is
//! verbatim UTF-8.

use std::cmp::Ordering;

use super::out::Out;

/// Writes `text` as a JSON string, quotes included.
pub fn string(out: &mut impl Out, text: &str) {
    out.put("\"");
    let bytes = text.as_bytes();
    let mut written = 0;
    let mut at = 0;
    while let Some(offset) = first_special(&bytes[at..]) {
        let special = at + offset;
        if let Some((escape, width)) = escape_at(&bytes[special..]) {
            out.put(&text[written..special]);
            out.put(escape);
            written = special + width;
            at = written;
        } else {
            at = special + LINE_SEPARATOR.len();
        }
    }
    out.put(&text[written..]);
    out.put("\"");
}

/// The order of two strings by the bytes of their JSON form, without producing it.
///
/// The form is terminated by its closing quote, so no JSON string is a prefix of another and the
/// first differing character decides.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    let common = left
        .bytes()
        .zip(right.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    // The bytes before the difference are equal in both, so both have the same boundaries there.
    let start = left.floor_char_boundary(common);
    let (mut a, mut b) = ([0; 4], [0; 4]);
    written_form(&left[start..], &mut a).cmp(written_form(&right[start..], &mut b))
}

/// How the first character of `rest` appears inside a JSON string; the end appears as a quote.
fn written_form<'a>(rest: &str, buffer: &'a mut [u8; 4]) -> &'a [u8] {
    match (escape_at(rest.as_bytes()), rest.chars().next()) {
        (Some((escape, _)), _) => escape.as_bytes(),
        (None, Some(plain)) => plain.encode_utf8(buffer).as_bytes(),
        (None, None) => b"\"",
    }
}

const LINE_SEPARATOR: [u8; 3] = [0xe2, 0x80, 0xa8];
const PARAGRAPH_SEPARATOR: [u8; 3] = [0xe2, 0x80, 0xa9];

/// Whether a byte starts something that may need an escape.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "without branches a block of bytes compiles to vector compares"
)]
const fn is_special(byte: u8) -> bool {
    (byte < 0x20)
        | (byte == b'"')
        | (byte == b'\\')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'&')
        | (byte == LINE_SEPARATOR[0])
}

/// The first byte that may need an escape; most strings have none, so blocks are tested at once.
fn first_special(bytes: &[u8]) -> Option<usize> {
    let (blocks, _) = bytes.as_chunks::<16>();
    let clean = blocks
        .iter()
        .take_while(|block| {
            !block
                .iter()
                .fold(false, |any, &byte| any | is_special(byte))
        })
        .count()
        * 16;
    bytes[clean..]
        .iter()
        .position(|&byte| SPECIAL[usize::from(byte)])
        .map(|offset| clean + offset)
}

/// [`is_special`] for single bytes.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    loop {
        table[byte as usize] = is_special(byte);
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// The escape of the character that starts `bytes` and the width of that character, if it needs one.
fn escape_at(bytes: &[u8]) -> Option<(&'static str, usize)> {
    let &first = bytes.first()?;
    let escape = match first {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'<' => "\\u003c",
        b'>' => "\\u003e",
        b'&' => "\\u0026",
        0..0x20 => CONTROL[usize::from(first)],
        _ if bytes.starts_with(&LINE_SEPARATOR) => return Some(("\\u2028", 3)),
        _ if bytes.starts_with(&PARAGRAPH_SEPARATOR) => return Some(("\\u2029", 3)),
        _ => return None,
    };
    Some((escape, 1))
}

#[rustfmt::skip]
const CONTROL: [&str; 32] = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
    "\\b",     "\\t",     "\\n",     "\\u000b", "\\f",     "\\r",     "\\u000e", "\\u000f",
    "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
    "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strings_compare_as_their_json_forms_do(
            common in "[a€\u{2028}]{0,2}",
            left in "[ !#a\"\\\\<\u{1}\n\u{7f}é€\u{2027}-\u{202a}\u{1f600}]{0,2}",
            right in "[ !#a\"\\\\<\u{1}\n\u{7f}é€\u{2027}-\u{202a}\u{1f600}]{0,2}",
        ) {
            let form = |text: &str| {
                let mut form = String::new();
                string(&mut form, text);
                form
            };
            let (left, right) = (common.clone() + &left, common + &right);
            prop_assert_eq!(compare(&left, &right), form(&left).cmp(&form(&right)));
        }
    }
}
