//! Lists seen as sets: order and repetition do not matter.

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::limits::Budget;
use super::super::ops;
use super::super::value::{ListRef, Val};
use super::params::LIST;
use super::{Function, Ret, function};

const BOOL: Ret = Ret::Is(Kind::Bool);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function("sets.contains", &[LIST, LIST], BOOL, |budget, args| {
        contains(budget, &args[0], &args[1]).map(Val::Bool)
    }),
    function("sets.equivalent", &[LIST, LIST], BOOL, |budget, args| {
        let both = contains(budget, &args[0], &args[1])? && contains(budget, &args[1], &args[0])?;
        Ok(Val::Bool(both))
    }),
    function("sets.intersects", &[LIST, LIST], BOOL, |budget, args| {
        let whole = items(&args[0]);
        for item in items(&args[1]) {
            if has(budget, &whole, &item)? {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }),
];

fn items<'a>(list: &Val<'a>) -> Vec<Val<'a>> {
    list.as_list().into_iter().flat_map(ListRef::iter).collect()
}

fn contains(budget: &mut Budget, whole: &Val<'_>, part: &Val<'_>) -> Result<bool, EvalError> {
    let whole = items(whole);
    for item in items(part) {
        if !has(budget, &whole, &item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether `item` is among `items`. Comparing is much cheaper than a step of the evaluator, so
/// eight comparisons count as one.
pub(super) fn has(
    budget: &mut Budget,
    items: &[Val<'_>],
    item: &Val<'_>,
) -> Result<bool, EvalError> {
    budget.charge(1 + items.len() as u64 / 8)?;
    for other in items {
        if ops::equal(budget, other, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}
