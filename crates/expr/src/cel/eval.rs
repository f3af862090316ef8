//! The evaluator: walks the program over a borrowed object.
//!
//! Errors are ordinary results, so that `&&`, `||`, `all` and `exists` can set one aside until it
//! is clear that it matters. The functions below are many and small on purpose: the recursion goes
//! through `eval` alone, and its stack frame stays small.

use std::sync::Arc;

use serde_json::Value as Json;
use smallvec::SmallVec;

use super::error::{EvalError, LONGEST_PLACE, printable};
use super::kind::Kind;
use super::limits::{Budget, Limits};
use super::node::{Binary, Bind, Call, Entry, Index, Item, Node, OptMap, Path, Root, Select, To};
use super::ops;
use super::value::{MapVal, Val};

pub(super) mod convert;
mod loops;

/// One evaluation.
pub(super) struct Machine<'a> {
    object: &'a Json,
    /// The variables of the macros.
    slots: SmallVec<[Val<'a>; 4]>,
    pub(super) budget: Budget,
}

impl<'a> Machine<'a> {
    pub(super) fn new(object: &'a Json, slots: usize, limits: &Limits) -> Self {
        let mut machine = Machine {
            object,
            slots: SmallVec::new(),
            budget: Budget::new(limits),
        };
        machine.slots.resize(slots, Val::Null);
        machine
    }

    /// Gives a variable its value before the evaluation.
    #[cfg(test)]
    pub(super) fn preset(&mut self, slot: usize, value: Val<'a>) {
        self.slots[slot] = value;
    }

    pub(super) fn eval(&mut self, node: &'a Node) -> Result<Val<'a>, EvalError> {
        self.budget.charge(1)?;
        match node {
            Node::Const(value) => Ok(value.borrowed()),
            Node::Path(path) => self.walk(path),
            Node::Has(path) => self.has(path),
            Node::Select(select) => self.select(select),
            Node::HasField(select) => self.has_field(select),
            Node::Index(index) => self.index(index),
            Node::Not(operand) => self.not(operand),
            Node::Negate(operand) => self.negate(operand),
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Cond(parts) => self.conditional(parts),
            Node::Binary(binary) => self.binary(binary),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Call(call) => self.call(call),
            Node::Loop(looped) => self.looped(looped),
            Node::Bind(bind) => self.bind(bind),
            Node::OptMap(map) => self.opt_map(map),
        }
    }

    /// Evaluates to a truth value.
    fn test(&mut self, node: &'a Node, name: &'static str) -> Result<bool, EvalError> {
        match self.eval(node)? {
            Val::Bool(flag) => Ok(flag),
            other => Err(EvalError::overload(name, [other.kind().name()])),
        }
    }

    fn not(&mut self, operand: &'a Node) -> Result<Val<'a>, EvalError> {
        self.test(operand, "!").map(|flag| Val::Bool(!flag))
    }

    fn negate(&mut self, operand: &'a Node) -> Result<Val<'a>, EvalError> {
        ops::negate(&self.eval(operand)?)
    }

    fn binary(&mut self, binary: &'a Binary) -> Result<Val<'a>, EvalError> {
        let left = self.eval(&binary.left)?;
        let right = self.eval(&binary.right)?;
        binary.op.apply(&mut self.budget, left, right)
    }

    fn bind(&mut self, bind: &'a Bind) -> Result<Val<'a>, EvalError> {
        self.slots[bind.slot] = self.eval(&bind.value)?;
        self.eval(&bind.body)
    }

    fn conditional(&mut self, parts: &'a [Node; 3]) -> Result<Val<'a>, EvalError> {
        let [condition, then, otherwise] = parts;
        if self.test(condition, "?:")? {
            self.eval(then)
        } else {
            self.eval(otherwise)
        }
    }

    /// `&&` and `||`: the first term that decides wins, even over an error before it.
    fn logic(&mut self, terms: &'a [Node], decisive: bool) -> Result<Val<'a>, EvalError> {
        let name = if decisive { "||" } else { "&&" };
        let mut set_aside = None;
        for term in terms {
            match self.test(term, name) {
                Ok(flag) if flag == decisive => return Ok(Val::Bool(decisive)),
                Ok(_) => {}
                Err(error) if error.is_limit() => return Err(error),
                Err(error) => {
                    set_aside.get_or_insert(error);
                }
            }
        }
        match set_aside {
            Some(error) => Err(error),
            None => Ok(Val::Bool(!decisive)),
        }
    }

    /// Follows a path to the value at its end.
    fn walk(&mut self, path: &'a Path) -> Result<Val<'a>, EvalError> {
        self.budget.charge(path.steps.len() as u64)?;
        let mut at = match path.root {
            Root::Object => self.object,
            Root::Slot(slot) => match &self.slots[slot] {
                Val::Json(json) => json,
                value if path.steps.is_empty() => return Ok(value.clone()),
                value => return walk_built(value.clone(), path, path.steps.len()),
            },
        };
        for (step, number) in path.steps.iter().zip(0..) {
            at = json_step(at, path, number, &step.to)?;
        }
        Ok(Val::from_json(at))
    }

    /// Whether the member at the end of the path is there; what is before it must be.
    fn has(&mut self, path: &'a Path) -> Result<Val<'a>, EvalError> {
        self.budget.charge(path.steps.len() as u64)?;
        let Some((last, before)) = path.steps.split_last() else {
            return Ok(Val::Bool(true));
        };
        let mut at = match path.root {
            Root::Object => self.object,
            Root::Slot(slot) => match &self.slots[slot] {
                Val::Json(json) => json,
                value => {
                    let operand = walk_built(value.clone(), path, before.len())?;
                    return has_member(&operand, &last.to, path);
                }
            },
        };
        for (step, number) in before.iter().zip(0..) {
            at = json_step(at, path, number, &step.to)?;
        }
        match (at, &last.to) {
            (Json::Object(members), To::Member(name)) => {
                Ok(Val::Bool(members.contains_key(&**name)))
            }
            (other, to) => has_member(&Val::from_json(other), to, path),
        }
    }

    fn select(&mut self, select: &'a Select) -> Result<Val<'a>, EvalError> {
        let operand = self.eval(&select.operand)?;
        let field = Val::Str(&select.field);
        if select.optional {
            return optional_member(operand, &field);
        }
        member(operand, &field, || format!(".{}", select.field))
    }

    fn has_field(&mut self, select: &'a Select) -> Result<Val<'a>, EvalError> {
        let operand = self.eval(&select.operand)?;
        match optional_member(operand, &Val::Str(&select.field))? {
            Val::Optional(found) => Ok(Val::Bool(found.is_some())),
            _ => Ok(Val::Bool(false)),
        }
    }

    fn index(&mut self, index: &'a Index) -> Result<Val<'a>, EvalError> {
        let operand = self.eval(&index.operand)?;
        let key = self.eval(&index.key)?;
        if index.optional {
            return optional_member(operand, &key);
        }
        member(operand, &key, || match &index.key {
            // A literal may be named, a value of the object may not.
            Node::Const(Val::Text(key)) => format!("['{key}']"),
            Node::Const(Val::Int(at)) => format!("[{at}]"),
            _ => format!("[{}]", key.kind().name()),
        })
    }

    fn list(&mut self, items: &'a [Item]) -> Result<Val<'a>, EvalError> {
        self.budget.build_items(items.len())?;
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(&item.value)?;
            match (item.optional, value) {
                (false, value) => list.push(value),
                (true, Val::Optional(None)) => {}
                (true, Val::Optional(Some(value))) => list.push(unshare(value)),
                (true, other) => return Err(EvalError::overload("[?]", [other.kind().name()])),
            }
        }
        Ok(Val::list(list))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Result<Val<'a>, EvalError> {
        self.budget.build_items(2 * entries.len())?;
        let mut map = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let value = match (entry.optional, value) {
                (false, value) => value,
                (true, Val::Optional(None)) => continue,
                (true, Val::Optional(Some(value))) => unshare(value),
                (true, other) => return Err(EvalError::overload("{?}", [other.kind().name()])),
            };
            map.push((key, value));
        }
        map_of(&mut self.budget, map)
    }

    fn call(&mut self, call: &'a Call) -> Result<Val<'a>, EvalError> {
        let mut args: SmallVec<[Val<'a>; 3]> = SmallVec::new();
        for arg in &call.args {
            args.push(self.eval(arg)?);
        }
        for function in &call.overloads {
            if function.accepts(&args) {
                return (function.code)(&mut self.budget, &args);
            }
        }
        let name = call.overloads.first().map_or("", |function| function.name);
        Err(EvalError::overload(
            name,
            args.iter().map(|arg| arg.kind().name()),
        ))
    }

    fn opt_map(&mut self, map: &'a OptMap) -> Result<Val<'a>, EvalError> {
        match self.eval(&map.operand)? {
            Val::Optional(None) => Ok(Val::NONE),
            Val::Optional(Some(value)) => {
                self.slots[map.slot] = unshare(value);
                let result = self.eval(&map.body)?;
                match (map.flat, result) {
                    (false, result) => Ok(Val::some(result)),
                    (true, result @ Val::Optional(_)) => Ok(result),
                    (true, other) => Err(EvalError::overload("optFlatMap", [other.kind().name()])),
                }
            }
            other => {
                let name = if map.flat { "optFlatMap" } else { "optMap" };
                Err(EvalError::overload(name, [other.kind().name()]))
            }
        }
    }
}

/// Takes the value out of an optional, without a copy if nobody else holds it.
pub(super) fn unshare(value: Arc<Val<'_>>) -> Val<'_> {
    Arc::try_unwrap(value).unwrap_or_else(|shared| (*shared).clone())
}

/// The map of these entries, which have been paid for.
pub(super) fn map_of<'a>(
    budget: &mut Budget,
    entries: Vec<(Val<'a>, Val<'a>)>,
) -> Result<Val<'a>, EvalError> {
    for (key, _) in &entries {
        let kind = key.kind();
        if !matches!(kind, Kind::Bool | Kind::Int | Kind::Uint | Kind::String) {
            return Err(EvalError::overload("{}", [kind.name()]));
        }
        budget.charge_text(key.as_str().map_or(0, str::len))?;
    }
    // Sorting compares every key a few times.
    let comparisons = entries.len() as u64 * u64::from((entries.len() + 1).ilog2());
    budget.charge(comparisons / 4)?;
    match MapVal::new(entries) {
        Some(map) => Ok(Val::Map(Arc::new(map))),
        None => Err(EvalError::argument("{}", "a key is there twice")),
    }
}

#[inline]
fn json_step<'a>(at: &'a Json, path: &Path, number: usize, to: &To) -> Result<&'a Json, EvalError> {
    match (at, to) {
        (Json::Object(members), To::Member(name)) => {
            members.get(&**name).ok_or_else(|| path.no_such_key(number))
        }
        (Json::Array(items), To::Element(index)) => usize::try_from(*index)
            .ok()
            .and_then(|index| items.get(index))
            .ok_or_else(|| path.out_of_range(number)),
        (other, to) => {
            let operand = Val::from_json(other).kind();
            Err(no_member(
                path.place(number),
                operand,
                key(to).kind(),
                false,
            ))
        }
    }
}

/// Follows the first `count` steps of a path over a value that is not (all) JSON.
fn walk_built<'a>(start: Val<'a>, path: &Path, count: usize) -> Result<Val<'a>, EvalError> {
    let mut at = start;
    for (step, number) in path.steps[..count].iter().zip(0..) {
        at = member(at, &key(&step.to), || path.place(number).to_owned())?;
    }
    Ok(at)
}

fn key(to: &To) -> Val<'_> {
    match to {
        To::Member(name) => Val::Str(name),
        To::Element(at) => Val::Int(*at),
    }
}

fn has_member<'a>(operand: &Val<'a>, to: &To, path: &Path) -> Result<Val<'a>, EvalError> {
    match optional_member(operand.clone(), &key(to)) {
        Ok(Val::Optional(found)) => Ok(Val::Bool(found.is_some())),
        Ok(_) => Ok(Val::Bool(false)),
        Err(_) => Err(EvalError::overload(
            path.place(usize::MAX),
            [operand.kind().name()],
        )),
    }
}

/// The member `key` of a value. On an optional the result is optional again.
fn member<'a>(
    operand: Val<'a>,
    key: &Val<'_>,
    place: impl FnOnce() -> String,
) -> Result<Val<'a>, EvalError> {
    let (operand, optional) = match operand {
        Val::Optional(None) => return Ok(Val::NONE),
        Val::Optional(Some(value)) => (unshare(value), true),
        other => (other, false),
    };
    match ops::member(&operand, key) {
        Ok(Some(value)) if optional => Ok(Val::some(value)),
        Ok(None) if optional => Ok(Val::NONE),
        Ok(Some(value)) => Ok(value),
        found => Err(no_member(
            &place(),
            operand.kind(),
            key.kind(),
            found.is_ok(),
        )),
    }
}

/// Why a value of this kind has no member; `fits` if it could have one under such a key.
#[cold]
fn no_member(place: &str, operand: Kind, key: Kind, fits: bool) -> EvalError {
    let place = printable(place, LONGEST_PLACE);
    match (operand, fits) {
        (Kind::List, true) => EvalError::OutOfRange {
            place: place.into(),
        },
        (Kind::List, false) => EvalError::overload(&place, [operand.name(), key.name()]),
        (Kind::Map, _) => EvalError::NoSuchKey {
            place: place.into(),
        },
        _ => EvalError::NoSuchKey {
            place: format!("{place} (of {})", operand.name()).into(),
        },
    }
}

/// The member `key` as an optional: nothing if it is not there, or if the value has no members.
fn optional_member<'a>(operand: Val<'a>, key: &Val<'_>) -> Result<Val<'a>, EvalError> {
    let operand = match operand {
        Val::Optional(None) => return Ok(Val::NONE),
        Val::Optional(Some(value)) => unshare(value),
        other => other,
    };
    match ops::member(&operand, key) {
        Ok(Some(value)) => Ok(Val::some(value)),
        Err(()) if operand.kind() == Kind::List => {
            Err(EvalError::overload("[]", ["list", key.kind().name()]))
        }
        _ => Ok(Val::NONE),
    }
}
