//! Lists: cut, sort, search, add up.

use std::cmp::Ordering;

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::limits::Budget;
use super::super::ops::{self, Op};
use super::super::value::{ListRef, Val};
use super::params::{ANY, INT, LIST};
use super::{Function, Ret, function, int, method};

const ELEMENT: Ret = Ret::ElementOf(0);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    method("slice", &[LIST, INT, INT], Ret::Arg(0), slice),
    method("flatten", &[LIST], Ret::Is(Kind::List), flatten),
    method("flatten", &[LIST, INT], Ret::Is(Kind::List), flatten),
    method("distinct", &[LIST], Ret::Arg(0), distinct),
    method("sort", &[LIST], Ret::Arg(0), sort),
    method("reverse", &[LIST], Ret::Arg(0), |budget, args| {
        budget.build_items(list(args).len())?;
        Ok(Val::list(list(args).iter().rev().collect()))
    }),
    function("lists.range", &[INT], Ret::ListOf(Kind::Int), range),
    method("isSorted", &[LIST], Ret::Is(Kind::Bool), is_sorted),
    method("sum", &[LIST], ELEMENT, sum),
    method("min", &[LIST], ELEMENT, |budget, args| {
        extreme(budget, "min", args, Ordering::Less)
    }),
    method("max", &[LIST], ELEMENT, |budget, args| {
        extreme(budget, "max", args, Ordering::Greater)
    }),
    method(
        "indexOf",
        &[LIST, ANY],
        Ret::Is(Kind::Int),
        |budget, args| position(budget, list(args).iter().zip(0..), &args[1]),
    ),
    method(
        "lastIndexOf",
        &[LIST, ANY],
        Ret::Is(Kind::Int),
        |budget, args| {
            let length = i64::try_from(list(args).len()).unwrap_or(i64::MAX);
            position(
                budget,
                list(args).iter().rev().zip((0..length).rev()),
                &args[1],
            )
        },
    ),
    method(
        "includes",
        &[LIST, ANY],
        Ret::Is(Kind::Bool),
        |budget, args| Op::In.apply(budget, args[1].clone(), args[0].clone()),
    ),
];

fn list<'v, 'a>(args: &'v [Val<'a>]) -> ListRef<'v, 'a> {
    args[0].as_list().unwrap_or(ListRef::Json(&[]))
}

fn slice<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let items = list(args);
    let bound = |at: usize| {
        usize::try_from(int(args, at))
            .ok()
            .filter(|bound| *bound <= items.len())
    };
    match (bound(1), bound(2)) {
        (Some(start), Some(end)) if start <= end => {
            budget.build_items(end - start)?;
            Ok(Val::list(
                (start..end).filter_map(|at| items.get(at)).collect(),
            ))
        }
        _ => Err(EvalError::OutOfRange {
            place: "slice".into(),
        }),
    }
}

fn flatten<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    fn flatten_into<'a>(
        budget: &mut Budget,
        items: ListRef<'_, 'a>,
        depth: i64,
        out: &mut Vec<Val<'a>>,
    ) -> Result<(), EvalError> {
        for item in items.iter() {
            budget.charge(1)?;
            match item.as_list() {
                Some(inner) if depth > 0 => flatten_into(budget, inner, depth - 1, out)?,
                _ => {
                    budget.build_items(1)?;
                    out.push(item);
                }
            }
        }
        Ok(())
    }
    let depth = args.get(1).map_or(1, |_| int(args, 1));
    if depth < 0 {
        return Err(EvalError::argument("flatten", "the depth is negative"));
    }
    let mut flat = Vec::new();
    flatten_into(budget, list(args), depth, &mut flat)?;
    Ok(Val::list(flat))
}

fn distinct<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let mut seen: Vec<Val<'a>> = Vec::new();
    for item in list(args).iter() {
        if !super::sets::has(budget, &seen, &item)? {
            budget.build_items(1)?;
            seen.push(item);
        }
    }
    Ok(Val::list(seen))
}

fn sort<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    budget.build_items(2 * list(args).len())?;
    let keyed = list(args).iter().map(|item| (item.clone(), item)).collect();
    ops::sort_keyed(budget, "sort", keyed).map(Val::list)
}

fn range<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let end = int(args, 0);
    let count = usize::try_from(end).unwrap_or(0);
    budget.charge_items(count)?;
    budget.build_items(count)?;
    Ok(Val::list((0..end).map(Val::Int).collect()))
}

fn is_sorted<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let items = list(args);
    for at in 1..items.len() {
        let (Some(left), Some(right)) = (items.get(at - 1), items.get(at)) else {
            break;
        };
        if Op::Greater.holds(budget, left, right)? {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let mut total: Option<Val<'a>> = None;
    for item in list(args).iter() {
        budget.charge(1)?;
        if !matches!(
            item.kind(),
            Kind::Int | Kind::Uint | Kind::Double | Kind::Duration
        ) {
            return Err(EvalError::overload("sum", ["list", item.kind().name()]));
        }
        total = Some(match total {
            Some(total) => Op::Add.apply(budget, total, item)?,
            None => item,
        });
    }
    Ok(total.unwrap_or(Val::Int(0)))
}

fn extreme<'a>(
    budget: &mut Budget,
    name: &'static str,
    args: &[Val<'a>],
    wanted: Ordering,
) -> Result<Val<'a>, EvalError> {
    let op = if wanted == Ordering::Less {
        Op::Less
    } else {
        Op::Greater
    };
    let mut best: Option<Val<'a>> = None;
    for item in list(args).iter() {
        best = Some(match best {
            Some(best) if !op.holds(budget, item.clone(), best.clone())? => best,
            _ => item,
        });
    }
    best.ok_or_else(|| EvalError::argument(name, "the list is empty"))
}

fn position<'a>(
    budget: &mut Budget,
    items: impl Iterator<Item = (Val<'a>, i64)>,
    wanted: &Val<'a>,
) -> Result<Val<'a>, EvalError> {
    for (item, at) in items {
        budget.charge(1)?;
        if ops::equal(budget, &item, wanted)? {
            return Ok(Val::Int(at));
        }
    }
    Ok(Val::Int(-1))
}
