//! Values of types that only a library knows: they can be passed around and compared, everything
//! else is up to the functions of the library.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::super::kind::Kind;
use super::format::Format;
use super::network::Cidr;
use super::pattern::Pattern;
use super::quantity::Quantity;
use super::semver::Version;
use super::url::Url;

/// A value of a library type.
#[derive(Debug)]
pub(in super::super) enum Opaque {
    /// A literal regular expression.
    Pattern(Pattern),
    Quantity(Quantity),
    Url(Url),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Version),
    Format(&'static Format),
}

impl Opaque {
    pub(in super::super) fn kind(&self) -> Kind {
        match self {
            Opaque::Pattern(_) => Kind::Pattern,
            Opaque::Quantity(_) => Kind::Quantity,
            Opaque::Url(_) => Kind::Url,
            Opaque::Ip(_) => Kind::Ip,
            Opaque::Cidr(_) => Kind::Cidr,
            Opaque::Semver(_) => Kind::Semver,
            Opaque::Format(_) => Kind::Format,
        }
    }

    /// The value as text, for output.
    pub(in super::super) fn text(&self) -> String {
        match self {
            Opaque::Pattern(pattern) => pattern.regex.as_str().to_owned(),
            Opaque::Quantity(quantity) => quantity.text(),
            Opaque::Url(url) => url.text().to_owned(),
            Opaque::Ip(ip) => ip.to_string(),
            Opaque::Cidr(cidr) => cidr.text(),
            Opaque::Semver(version) => version.text().to_owned(),
            Opaque::Format(format) => format.name.to_owned(),
        }
    }

    /// Equality of two library values.
    pub(in super::super) fn same(&self, other: &Opaque) -> bool {
        match (self, other) {
            (Opaque::Pattern(left), Opaque::Pattern(right)) => {
                left.regex.as_str() == right.regex.as_str()
            }
            (Opaque::Quantity(left), Opaque::Quantity(right)) => left == right,
            (Opaque::Url(left), Opaque::Url(right)) => left.text() == right.text(),
            (Opaque::Ip(left), Opaque::Ip(right)) => left == right,
            (Opaque::Cidr(left), Opaque::Cidr(right)) => left == right,
            (Opaque::Semver(left), Opaque::Semver(right)) => left.compare(right) == Ordering::Equal,
            (Opaque::Format(left), Opaque::Format(right)) => left.name == right.name,
            _ => false,
        }
    }
}
