//! Optional values: a member that may be missing, without an error.

use super::super::error::EvalError;
use super::super::eval::unshare;
use super::super::kind::{Kind, Kinds};
use super::super::limits::Budget;
use super::super::value::{ListRef, Val};
use super::params::{ANY, LIST};
use super::{Function, Looks, Ret, function, method};

const OPTIONAL: Kinds = Kinds::of(&[Kind::Optional]);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function("optional.none", &[], Ret::Is(Kind::Optional), |_, _| {
        Ok(Val::NONE)
    }),
    function("optional.of", &[ANY], Ret::OptionalOf(0), |_, args| {
        Ok(Val::some(args[0].clone()))
    })
    .looks(Looks::Through),
    function(
        "optional.ofNonZeroValue",
        &[ANY],
        Ret::OptionalOf(0),
        |_, args| {
            Ok(if is_zero(&args[0]) {
                Val::NONE
            } else {
                Val::some(args[0].clone())
            })
        },
    ),
    method("hasValue", &[OPTIONAL], Ret::Is(Kind::Bool), |_, args| {
        Ok(Val::Bool(matches!(args[0], Val::Optional(Some(_)))))
    })
    .looks(Looks::Type),
    method("value", &[OPTIONAL], Ret::ValueOf(0), |_, args| {
        held(&args[0])
            .ok_or_else(|| EvalError::argument("value", "the optional has no value; use orValue"))
    })
    .looks(Looks::Through),
    method("or", &[OPTIONAL, OPTIONAL], Ret::Arg(0), |_, args| {
        Ok(match &args[0] {
            Val::Optional(None) => args[1].clone(),
            found => found.clone(),
        })
    })
    .looks(Looks::Through),
    method(
        "orValue",
        &[OPTIONAL, ANY],
        Ret::ValueOr(0, 1),
        |_, args| Ok(held(&args[0]).unwrap_or_else(|| args[1].clone())),
    )
    .looks(Looks::Through),
    function("optional.unwrap", &[LIST], Ret::Is(Kind::List), unwrap),
    method("unwrapOpt", &[LIST], Ret::Is(Kind::List), unwrap),
    method("first", &[LIST], Ret::OptionalElementOf(0), |_, args| {
        Ok(end(args, false))
    }),
    method("last", &[LIST], Ret::OptionalElementOf(0), |_, args| {
        Ok(end(args, true))
    }),
];

/// What an optional holds.
fn held<'a>(optional: &Val<'a>) -> Option<Val<'a>> {
    match optional {
        Val::Optional(Some(value)) => Some(unshare(value.clone())),
        _ => None,
    }
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) | Val::Duration(0) => true,
        Val::Optional(optional) => optional.is_none(),
        Val::Double(number) => *number == 0.0,
        Val::Bytes(bytes) => bytes.is_empty(),
        other => {
            other.as_str().is_some_and(str::is_empty)
                || other.as_list().is_some_and(|list| list.len() == 0)
                || other.as_map().is_some_and(|map| map.len() == 0)
        }
    }
}

/// The values of the optionals in a list that have one.
fn unwrap<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let mut values = Vec::new();
    for item in args[0].as_list().into_iter().flat_map(ListRef::iter) {
        budget.charge(1)?;
        match item {
            Val::Optional(None) => {}
            Val::Optional(Some(value)) => {
                budget.build_items(1)?;
                values.push(unshare(value));
            }
            other => {
                let kind = other.kind().name();
                return Err(EvalError::overload("optional.unwrap", [kind]));
            }
        }
    }
    Ok(Val::list(values))
}

fn end<'a>(args: &[Val<'a>], last: bool) -> Val<'a> {
    let item = args[0].as_list().and_then(|list| {
        let at = if last { list.len().checked_sub(1)? } else { 0 };
        list.get(at)
    });
    item.map_or(Val::NONE, Val::some)
}
