//! JSON Pointer (RFC 6901): the address of one value, `/metadata/annotations/example.com~1owner`.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::removals::Key;

/// The longest text that is read as a pointer.
pub const MAX_BYTES: usize = 4096;

/// A parsed pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    text: Box<str>,
    tokens: Box<[Box<str>]>,
}

/// A text that is not a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Nothing but blanks.
    #[error("the pointer is empty")]
    Blank,
    /// The text is longer than any pointer needs.
    #[error("the pointer is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// No slash at the beginning.
    #[error("a pointer starts with \"/\", like /metadata/labels")]
    NoSlash,
    /// A tilde that escapes nothing.
    #[error("write \"~\" as ~0 and \"/\" inside a name as ~1")]
    Tilde,
}

impl Pointer {
    /// Parses a pointer; blanks around it are ignored.
    ///
    /// `/` alone addresses nothing, although the RFC lets it name a member with an empty name: in
    /// a list of things to remove it is a slip, and no object has such a member.
    pub fn parse(text: &str) -> Result<Pointer, ParseError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ParseError::Blank);
        }
        if text.len() > MAX_BYTES {
            return Err(ParseError::TooLong);
        }
        let tokens = text.strip_prefix('/').ok_or(ParseError::NoSlash)?;
        let tokens = tokens.split('/').map(unescape).collect::<Result<_, _>>()?;
        Ok(Pointer {
            text: text.into(),
            tokens,
        })
    }

    /// The pointer as written, without blanks around it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The addressed value, if it is there.
    pub fn resolve<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.follow(object).map(|(_, value)| value)
    }

    /// The way to the addressed value, if it is there.
    pub(crate) fn locate<'a>(&self, object: &'a Value) -> Option<Vec<Key<'a>>> {
        self.follow(object).map(|(keys, _)| keys)
    }

    fn follow<'a>(&self, object: &'a Value) -> Option<(Vec<Key<'a>>, &'a Value)> {
        if &*self.text == "/" {
            return None;
        }
        let mut keys = Vec::with_capacity(self.tokens.len());
        let mut value = object;
        for token in &self.tokens {
            let key;
            (key, value) = match value {
                Value::Object(members) => {
                    let (name, member) = members.get_key_value(&**token)?;
                    (Key::Member(name), member)
                }
                Value::Array(elements) => {
                    let position = position(token)?;
                    (Key::Element(position), elements.get(position)?)
                }
                _ => return None,
            };
            keys.push(key);
        }
        Some((keys, value))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn unescape(token: &str) -> Result<Box<str>, ParseError> {
    let mut parts = token.split('~');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escaped, rest) = if let Some(rest) = part.strip_prefix('0') {
            ('~', rest)
        } else if let Some(rest) = part.strip_prefix('1') {
            ('/', rest)
        } else {
            return Err(ParseError::Tilde);
        };
        name.push(escaped);
        name.push_str(rest);
    }
    Ok(name.into())
}

/// A position in an array. Leading zeros and a plus sign are tolerated; `-`, the place behind the
/// last element, holds nothing.
fn position(token: &str) -> Option<usize> {
    let digits = token.strip_prefix('+').unwrap_or(token);
    if digits.starts_with(|first: char| first.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}
