//! The functions an expression can call.
//!
//! Each library is one file with one table. A row says all there is to know about an overload:
//! name, call style, parameter types, result type, what it reads of its arguments and the code.
//! The checker, the evaluator and the analysis of reads all work from these rows.

// Every row of a table has the same signature, whether or not its code can fail.
#![expect(clippy::unnecessary_wraps)]

use super::error::EvalError;
use super::kind::{Kind, Kinds, Type};
use super::limits::Budget;
use super::value::Val;

mod encoders;
mod format;
mod lists;
mod math;
mod network;
pub(super) mod opaque;
mod optional;
pub(super) mod pattern;
mod quantity;
mod regex;
mod semver;
mod sets;
mod standard;
mod strings;
mod text_format;
mod time;
mod url;

/// The code of an overload. The arguments have the types its row names, the receiver first.
pub(super) type Code = for<'a> fn(&mut Budget, &[Val<'a>]) -> Result<Val<'a>, EvalError>;

/// One overload of one function.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// `x.f(…)` rather than `f(…)`.
    pub(super) method: bool,
    pub(super) params: &'static [Kinds],
    /// The last parameter may be repeated.
    pub(super) variadic: bool,
    pub(super) result: Ret,
    pub(super) reads: Looks,
    pub(super) code: Code,
}

/// The type of a result.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ret {
    Dyn,
    Is(Kind),
    ListOf(Kind),
    /// The type of an argument.
    Arg(usize),
    /// The type of the elements of an argument.
    ElementOf(usize),
    /// An optional of the type of an argument.
    OptionalOf(usize),
    /// An optional of the type of the elements of an argument.
    OptionalElementOf(usize),
    /// What the optional in an argument holds.
    ValueOf(usize),
    /// The same, or another argument.
    ValueOr(usize, usize),
}

/// How much a function looks at of arguments that hold other values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// At all of them.
    Whole,
    /// At keys and lengths.
    Shape,
    /// At nothing but their types.
    Type,
    /// At nothing: the result is one of the arguments, or what an optional argument holds.
    Through,
}

pub(super) const fn function(
    name: &'static str,
    params: &'static [Kinds],
    result: Ret,
    code: Code,
) -> Function {
    Function {
        name,
        method: false,
        params,
        variadic: false,
        result,
        reads: Looks::Whole,
        code,
    }
}

pub(super) const fn method(
    name: &'static str,
    params: &'static [Kinds],
    result: Ret,
    code: Code,
) -> Function {
    Function {
        method: true,
        ..function(name, params, result, code)
    }
}

impl Function {
    pub(super) const fn looks(self, reads: Looks) -> Function {
        Function { reads, ..self }
    }

    pub(super) const fn variadic(self) -> Function {
        Function {
            variadic: true,
            ..self
        }
    }

    /// What the argument at this position may be.
    pub(super) fn param(&self, at: usize) -> Option<Kinds> {
        match self.params.get(at) {
            None if self.variadic => self.params.last().copied(),
            found => found.copied(),
        }
    }

    pub(super) fn takes(&self, count: usize) -> bool {
        count == self.params.len() || (self.variadic && count > self.params.len())
    }

    #[inline]
    pub(super) fn accepts(&self, args: &[Val<'_>]) -> bool {
        args.iter()
            .enumerate()
            .all(|(at, arg)| self.param(at).is_some_and(|kinds| kinds.has(arg.kind())))
    }

    /// The type of the result for arguments of these types.
    pub(super) fn result(&self, args: &[Type]) -> Type {
        let element = |at: usize| match args.get(at) {
            Some(Type::List(element)) => (**element).clone(),
            _ => Type::Dyn,
        };
        let arg = |at: usize| args.get(at).cloned().unwrap_or(Type::Dyn);
        match self.result {
            Ret::Dyn => Type::Dyn,
            Ret::Is(Kind::List) => Type::list(Type::Dyn),
            Ret::Is(Kind::Map) => Type::map(Type::Dyn, Type::Dyn),
            Ret::Is(Kind::Optional) => Type::optional(Type::Dyn),
            Ret::Is(kind) => Type::Is(kind),
            Ret::ListOf(kind) => Type::list(Type::Is(kind)),
            Ret::Arg(at) => arg(at),
            Ret::ElementOf(at) => element(at),
            Ret::OptionalOf(at) => Type::optional(arg(at)),
            Ret::OptionalElementOf(at) => Type::optional(element(at)),
            Ret::ValueOf(at) => held(arg(at)),
            Ret::ValueOr(at, other) => held(arg(at)).join(arg(other)),
        }
    }
}

/// What an optional of this type holds.
fn held(optional: Type) -> Type {
    match optional {
        Type::Optional(value) => *value,
        _ => Type::Dyn,
    }
}

/// All libraries.
const LIBRARIES: &[&[Function]] = &[
    standard::FUNCTIONS,
    time::FUNCTIONS,
    optional::FUNCTIONS,
    strings::FUNCTIONS,
    text_format::FUNCTIONS,
    lists::FUNCTIONS,
    sets::FUNCTIONS,
    math::FUNCTIONS,
    encoders::FUNCTIONS,
    regex::FUNCTIONS,
    quantity::FUNCTIONS,
    url::FUNCTIONS,
    network::FUNCTIONS,
    format::FUNCTIONS,
    semver::FUNCTIONS,
];

/// All overloads of a name in one call style.
pub(super) fn overloads(name: &str, method: bool) -> Vec<&'static Function> {
    LIBRARIES
        .iter()
        .flat_map(|library| library.iter())
        .filter(|function| function.method == method && function.name == name)
        .collect()
}

/// Whether any function has this name, in whatever call style.
pub(super) fn is_known(name: &str) -> bool {
    LIBRARIES
        .iter()
        .flat_map(|library| library.iter())
        .any(|function| function.name == name)
}

/// Whether function names begin with this word and a dot.
pub(super) fn is_namespace(word: &str) -> bool {
    word == "cel"
        || LIBRARIES
            .iter()
            .flat_map(|library| library.iter())
            .any(|function| {
                function
                    .name
                    .split_once('.')
                    .is_some_and(|(namespace, _)| namespace == word)
            })
}

/// Short names for the parameter types of the tables.
pub(super) mod params {
    use super::{Kind, Kinds};

    pub(in super::super) const ANY: Kinds = Kinds::ANY;
    pub(in super::super) const BOOL: Kinds = Kinds::of(&[Kind::Bool]);
    pub(in super::super) const INT: Kinds = Kinds::of(&[Kind::Int]);
    pub(in super::super) const UINT: Kinds = Kinds::of(&[Kind::Uint]);
    pub(in super::super) const DOUBLE: Kinds = Kinds::of(&[Kind::Double]);
    pub(in super::super) const NUMBER: Kinds = Kinds::NUMBER;
    pub(in super::super) const STRING: Kinds = Kinds::of(&[Kind::String]);
    pub(in super::super) const PATTERN: Kinds = Kinds::PATTERN;
    pub(in super::super) const BYTES: Kinds = Kinds::of(&[Kind::Bytes]);
    pub(in super::super) const LIST: Kinds = Kinds::of(&[Kind::List]);
    pub(in super::super) const MAP: Kinds = Kinds::of(&[Kind::Map]);
    pub(in super::super) const TIMESTAMP: Kinds = Kinds::of(&[Kind::Timestamp]);
    pub(in super::super) const DURATION: Kinds = Kinds::of(&[Kind::Duration]);
}

/// The text of an argument that the row promised to be text.
pub(super) fn text<'v>(args: &'v [Val<'_>], at: usize) -> &'v str {
    args.get(at).and_then(Val::as_str).unwrap_or_default()
}

/// The int of an argument that the row promised to be one.
pub(super) fn int(args: &[Val<'_>], at: usize) -> i64 {
    match args.get(at) {
        Some(Val::Int(number)) => *number,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> impl Iterator<Item = &'static Function> {
        LIBRARIES.iter().flat_map(|library| library.iter())
    }

    #[test]
    fn every_function_is_in_the_documentation() {
        let page = include_str!("../../../../docs/cel.md");
        for row in rows() {
            let named = page.contains(&format!("`{}`", row.name));
            // The formats are listed by their last name.
            let last = row.name.trim_start_matches("format.");
            let used = page.contains(&format!("`{last}`")) || page.contains(&format!("{last}("));
            assert!(named || used, "{} is not in docs/cel.md", row.name);
        }
    }

    #[test]
    fn no_two_overloads_take_the_same_arguments() {
        let rows: Vec<&Function> = rows().collect();
        for (at, left) in rows.iter().enumerate() {
            for right in &rows[at + 1..] {
                let same_call = left.name == right.name
                    && left.method == right.method
                    && left.params.len() == right.params.len();
                let overlap = left
                    .params
                    .iter()
                    .zip(right.params)
                    .all(|(left, right)| left.meets(*right));
                assert!(!same_call || !overlap, "{} is ambiguous", left.name);
            }
        }
    }
}
