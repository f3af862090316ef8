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
    let whole = text(args, 0);
    let pattern = pattern::argument(budget, "find", args, 1)?;
    pattern.pay(budget, whole.len())?;
    Ok(match pattern.regex.find(whole) {
        Some(found) => args[0].part(found.range()),
        None => Val::Str(""),
    })
}

fn find_all<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let whole = text(args, 0);
    let most = match args.get(2) {
        // A negative number means all of them.
        Some(Val::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let pattern = pattern::argument(budget, "findAll", args, 1)?;
    pattern.pay(budget, whole.len())?;
    let mut parts = Vec::new();
    for found in pattern.regex.find_iter(whole).take(most) {
        // The next search may look at all that is left.
        pattern.pay(budget, whole.len() - found.end())?;
        budget.charge(1)?;
        budget.build_items(1)?;
        parts.push(args[0].part(found.range()));
    }
    Ok(Val::list(parts))
}
