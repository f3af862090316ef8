//! The types of values, at run time ([`Kind`], [`Kinds`]) and as far as they are known before
//! ([`Type`]).

use std::fmt;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    List,
    Map,
    Timestamp,
    Duration,
    Type,
    Optional,
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
    /// A literal regular expression, compiled with the program. Never seen by an expression.
    Pattern,
}

impl Kind {
    const NAMES: [(Kind, &'static str); 19] = [
        (Kind::Null, "null_type"),
        (Kind::Bool, "bool"),
        (Kind::Int, "int"),
        (Kind::Uint, "uint"),
        (Kind::Double, "double"),
        (Kind::String, "string"),
        (Kind::Bytes, "bytes"),
        (Kind::List, "list"),
        (Kind::Map, "map"),
        (Kind::Timestamp, "google.protobuf.Timestamp"),
        (Kind::Duration, "google.protobuf.Duration"),
        (Kind::Type, "type"),
        (Kind::Optional, "optional_type"),
        (Kind::Quantity, "kubernetes.Quantity"),
        (Kind::Url, "kubernetes.URL"),
        (Kind::Ip, "net.IP"),
        (Kind::Cidr, "net.CIDR"),
        (Kind::Semver, "kubernetes.Semver"),
        (Kind::Format, "kubernetes.NamedFormat"),
    ];

    /// The name by which expressions know the type.
    pub(super) fn name(self) -> &'static str {
        Self::NAMES
            .get(self as usize)
            .map_or("string", |(_, name)| name)
    }

    /// The type that expressions know by this name.
    pub(super) fn named(name: &str) -> Option<Kind> {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(kind, _)| *kind)
    }
}

/// A set of types: what a parameter of a function takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u32);

impl Kinds {
    pub(super) const ANY: Kinds = Kinds(u32::MAX);
    pub(super) const NUMBER: Kinds = Kinds::of(&[Kind::Int, Kind::Uint, Kind::Double]);
    pub(super) const PATTERN: Kinds = Kinds::of(&[Kind::String, Kind::Pattern]);

    pub(super) const fn of(kinds: &[Kind]) -> Kinds {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u32;
            at += 1;
        }
        Kinds(bits)
    }

    pub(super) const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// Whether a type is in both sets.
    #[cfg(test)]
    pub(super) const fn meets(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether values of this set can hold other values.
    pub(super) const fn holds_values(self) -> bool {
        self.has(Kind::List) || self.has(Kind::Map) || self.has(Kind::Optional)
    }
}

/// The type of an expression as far as it is known before evaluation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    /// Anything; decided at run time. All that comes out of the object.
    Dyn,
    /// A type without parameters.
    Is(Kind),
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
}

impl Type {
    pub(super) const BOOL: Type = Type::Is(Kind::Bool);
    pub(super) const INT: Type = Type::Is(Kind::Int);

    pub(super) fn list(element: Type) -> Type {
        Type::List(Box::new(element))
    }

    pub(super) fn map(key: Type, value: Type) -> Type {
        Type::Map(Box::new(key), Box::new(value))
    }

    pub(super) fn optional(value: Type) -> Type {
        Type::Optional(Box::new(value))
    }

    /// The run-time type, if it is known.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Type::Dyn => None,
            Type::Is(kind) => Some(*kind),
            Type::List(_) => Some(Kind::List),
            Type::Map(..) => Some(Kind::Map),
            Type::Optional(_) => Some(Kind::Optional),
        }
    }

    /// Whether a value of this type may be one of `kinds`.
    pub(super) fn may_be(&self, kinds: Kinds) -> bool {
        self.kind().is_none_or(|kind| kinds.has(kind))
    }

    /// Whether the type is known to be a scalar: nothing that holds other values.
    pub(super) fn is_scalar(&self) -> bool {
        matches!(self, Type::Is(kind) if !matches!(kind, Kind::List | Kind::Map | Kind::Optional))
    }

    /// Whether values of both types can be equal. Numbers of different types can.
    pub(super) fn comparable(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::List(left), Type::List(right))
            | (Type::Optional(left), Type::Optional(right)) => left.comparable(right),
            (Type::Map(left_key, left), Type::Map(right_key, right)) => {
                left_key.comparable(right_key) && left.comparable(right)
            }
            (Type::Is(left), Type::Is(right)) => {
                left == right || (Kinds::NUMBER.has(*left) && Kinds::NUMBER.has(*right))
            }
            _ => false,
        }
    }

    /// The type of something that is either of both.
    pub(super) fn join(self, other: Type) -> Type {
        match (self, other) {
            (Type::List(left), Type::List(right)) => Type::list(left.join(*right)),
            (Type::Optional(left), Type::Optional(right)) => Type::optional(left.join(*right)),
            (Type::Map(left_key, left), Type::Map(right_key, right)) => {
                Type::map(left_key.join(*right_key), left.join(*right))
            }
            (left, right) if left == right => left,
            _ => Type::Dyn,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => out.write_str("dyn"),
            Type::Is(kind) => out.write_str(kind.name()),
            Type::List(element) => write!(out, "list({element})"),
            Type::Map(key, value) => write!(out, "map({key}, {value})"),
            Type::Optional(value) => write!(out, "optional_type({value})"),
        }
    }
}

/// What is known about the result of a program before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    /// A truth value.
    Bool,
    /// Decided by the object at run time.
    Dyn,
    /// Certainly this other type, by its name in CEL (`int`, `string`, `list`, …).
    Other(&'static str),
}

impl From<&Type> for ResultType {
    fn from(known: &Type) -> Self {
        match known.kind() {
            None => ResultType::Dyn,
            Some(Kind::Bool) => ResultType::Bool,
            Some(kind) => ResultType::Other(kind.name()),
        }
    }
}
