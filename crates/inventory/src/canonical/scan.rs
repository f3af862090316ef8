//! Reading single values out of canonical text by scanning it, without building a tree.
//!
//! Metrics and groupings look at one or two attributes of every row; parsing all of them for that
//! would cost more than extracting them did. The scanner trusts the text to be canonical, which
//! is what the types around it guarantee; on anything else it ends early and never panics.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::CanonicalRef;

/// A value seen without descending into it.
#[derive(Debug, Clone, PartialEq)]
pub enum View<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as its canonical text.
    Number(&'a str),
    /// A string, decoded.
    Text(Cow<'a, str>),
    /// An array, to iterate over.
    List(Items<'a>),
    /// An object, to iterate over.
    Object(Members<'a>),
}

impl<'a> CanonicalRef<'a> {
    /// What kind of value this is, and the value itself if it is a scalar.
    pub fn view(self) -> View<'a> {
        let text = self.as_str();
        match text.as_bytes().first() {
            Some(b'{') => View::Object(self.members()),
            Some(b'[') => View::List(self.items()),
            Some(b'"') => View::Text(decode(text)),
            Some(b't') => View::Bool(true),
            Some(b'f') => View::Bool(false),
            Some(b'n') | None => View::Null,
            Some(_) => View::Number(text),
        }
    }

    /// The member `key` of an object; nothing if there is none or this is no object.
    pub fn get(self, key: &str) -> Option<CanonicalRef<'a>> {
        let mut members = self.members();
        while let Some((quoted, value)) = members.next_quoted() {
            if CanonicalRef::trusted(quoted).is_text(key) {
                return Some(value);
            }
        }
        None
    }

    /// The members of an object in key order; none if this is no object.
    pub fn members(self) -> Members<'a> {
        Members(Cursor::inside(self.as_str(), b'{'))
    }

    /// The items of an array; none if this is no array.
    pub fn items(self) -> Items<'a> {
        Items(Cursor::inside(self.as_str(), b'['))
    }

    /// The value as text if it is a string.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self.view() {
            View::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the value is this text.
    pub fn is_text(self, text: &str) -> bool {
        let quoted = self.as_str();
        // An escape is longer than what it stands for, so lengths decide most of the time.
        match quoted.len().cmp(&(text.len() + 2)) {
            Ordering::Less => false,
            Ordering::Equal => {
                quoted.starts_with('"') && unquote(quoted) == text && is_plain(quoted)
            }
            Ordering::Greater => {
                !is_plain(quoted) && self.text().is_some_and(|found| found == text)
            }
        }
    }

    /// The value as a number if it is one; whole numbers beyond 2^53 lose their last digits.
    pub fn as_f64(self) -> Option<f64> {
        match self.view() {
            View::Number(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// The members of an object, in key order.
#[derive(Debug, Clone, PartialEq)]
pub struct Members<'a>(Cursor<'a>);

impl<'a> Members<'a> {
    fn next_quoted(&mut self) -> Option<(&'a str, CanonicalRef<'a>)> {
        let key = self.0.value()?;
        self.0.skip(b':')?;
        let value = self.0.value()?;
        let _ = self.0.skip(b',');
        Some((key, CanonicalRef::trusted(value)))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, CanonicalRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.next_quoted()?;
        Some((decode(key), value))
    }
}

/// The items of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Items<'a>(Cursor<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = CanonicalRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.0.value()?;
        let _ = self.0.skip(b',');
        Some(CanonicalRef::trusted(value))
    }
}

/// A position in canonical text.
#[derive(Debug, Clone, PartialEq)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Just after the opening bracket, or at the end if the text does not start with it.
    fn inside(text: &'a str, bracket: u8) -> Self {
        let at = if text.as_bytes().first() == Some(&bracket) {
            1
        } else {
            text.len()
        };
        Cursor { text, at }
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.text.as_bytes().get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    /// Steps over one value and returns its text; nothing at a closing bracket or at the end.
    fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut depth = 0_usize;
        loop {
            match *bytes.get(self.at)? {
                b'"' => self.at = end_of_string(bytes, self.at)?,
                b'[' | b'{' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b']' | b'}' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' => {
                    self.at += 1;
                    continue;
                }
                _ => self.at = end_of_literal(bytes, self.at),
            }
            if depth == 0 {
                return self.text.get(start..self.at);
            }
        }
    }
}

/// The position after the closing quote of the string that opens at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The position after a number, `true`, `false` or `null`.
fn end_of_literal(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|byte| matches!(byte, b',' | b']' | b'}'))
        .map_or(bytes.len(), |offset| at + offset)
}

fn is_plain(quoted: &str) -> bool {
    memchr::memchr(b'\\', quoted.as_bytes()).is_none()
}

/// The inside of a quoted string that contains no escapes.
fn unquote(quoted: &str) -> &str {
    quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(quoted)
}

fn decode(quoted: &str) -> Cow<'_, str> {
    if is_plain(quoted) {
        Cow::Borrowed(unquote(quoted))
    } else {
        serde_json::from_str(quoted).map_or(Cow::Borrowed(quoted), Cow::Owned)
    }
}
