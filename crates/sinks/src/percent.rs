//! Percent-encoding in what people write: connection strings and endpoints.

use percent_encoding::percent_decode_str;

/// The bytes that a text stands for; nothing if a percent sign stands before anything else than two
/// hex digits. (The decoder by itself would leave it as it is, and a mistake would become a name.)
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    let escapes = text.matches('%').count();
    (bytes.len() + 2 * escapes == text.len()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_escapes_are_taken() {
        for (text, expected) in [
            ("", Some(&b""[..])),
            ("plain+text", Some(b"plain+text")),
            ("a%20b%2fc%2F", Some(b"a b/c/")),
            ("%25zz", Some(b"%zz")),
            ("%2525", Some(b"%25")),
            ("%ff%00", Some(b"\xff\0")),
            ("\u{e9}%C3%A9", Some(b"\xc3\xa9\xc3\xa9")),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%4z", None),
            ("%+4", None),
            ("%%41", None),
            ("%41%", None),
            ("%\u{e9}", None),
        ] {
            assert_eq!(decoded(text).as_deref(), expected, "{text}");
        }
    }
}
