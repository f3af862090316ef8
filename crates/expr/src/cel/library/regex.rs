//! Finding text by regular expression.

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::limits::Budget;
use super::super::value::Val;
use super::params::{INT, PATTERN, STRING};
use super::{Function, Ret, method, pattern, text};

pub(in super::super) const FUNCTIONS: &[Function] = &[
    method("find", &[STRING, PATTERN], Ret::Is(Kind::String), find),
    method(
        "findAll",
        &[STRING, PATTERN],
        Ret::ListOf(Kind::String),
        find_all,
    ),
    method(
        "findAll",
        &[STRING, PATTERN, INT],
        Ret::ListOf(Kind::String),
        find_all,
    ),
];

fn find<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    budget.charge_text(8 * text(args, 0).len())?;
    let regex = pattern::argument(budget, "find", args, 1)?;
    Ok(match regex.find(text(args, 0)) {
        Some(found) => args[0].part(found.range()),
        None => Val::Str(""),
    })
}

fn find_all<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let whole = text(args, 0);
    budget.charge_text(8 * whole.len())?;
    let most = match args.get(2) {
        // A negative number means all of them.
        Some(Val::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let regex = pattern::argument(budget, "findAll", args, 1)?;
    let mut parts = Vec::new();
    for found in regex.find_iter(whole).take(most) {
        budget.charge(1)?;
        budget.build_items(1)?;
        parts.push(args[0].part(found.range()));
    }
    Ok(Val::list(parts))
}
