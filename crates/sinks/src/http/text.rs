//! Text that goes into URLs, and comes out of XML.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What needs no escape in any part of a URL.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A text as one segment of a path, or one value of a query or a form.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// The text of the first element of this name.
pub(crate) fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    let value = value
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&apos;", "'");
    Some(value.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_read() {
        assert_eq!(encoded("a/b=c d~é"), "a%2Fb%3Dc%20d~%C3%A9");
        assert_eq!(
            element("<a><b>x&amp;lt;y</b></a>", "b").as_deref(),
            Some("x&lt;y")
        );
        assert_eq!(element("<a>x", "a"), None);
    }
}
