//! Values of types that only a library knows: they can be passed around and compared, everything
//! else is up to the functions of the library.

use regex::Regex;

use super::super::kind::Kind;

/// A value of a library type.
#[derive(Debug)]
pub(in super::super) enum Opaque {
    /// A literal regular expression.
    Pattern(Regex),
}

impl Opaque {
    pub(in super::super) fn kind(&self) -> Kind {
        match self {
            Opaque::Pattern(_) => Kind::Pattern,
        }
    }

    /// The value as text, for output.
    pub(in super::super) fn text(&self) -> String {
        match self {
            Opaque::Pattern(regex) => regex.as_str().to_owned(),
        }
    }

    /// Equality of two library values.
    pub(in super::super) fn same(&self, other: &Opaque) -> bool {
        match (self, other) {
            (Opaque::Pattern(left), Opaque::Pattern(right)) => left.as_str() == right.as_str(),
        }
    }
}
