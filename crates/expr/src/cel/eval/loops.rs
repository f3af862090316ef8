//! The macros that go through a list or a map.

use std::ops::ControlFlow;

use serde_json::Value as Json;

use super::super::error::EvalError;
use super::super::node::{Loop, Node, Vars, Yield};
use super::super::ops;
use super::super::value::{Val, sorted};
use super::{Machine, map_of};

/// What setting up one turn of a loop costs.
const ELEMENT: u64 = 4;

type Flow = Result<ControlFlow<()>, EvalError>;

const NEXT: Flow = Ok(ControlFlow::Continue(()));
const STOP: Flow = Ok(ControlFlow::Break(()));

impl<'a> Machine<'a> {
    pub(super) fn looped(&mut self, looped: &'a Loop) -> Result<Val<'a>, EvalError> {
        match &looped.yields {
            Yield::All(predicate) => self.quantify(looped, predicate, false),
            Yield::Exists(predicate) => self.quantify(looped, predicate, true),
            Yield::ExistsOne(predicate) => self.exists_one(looped, predicate),
            Yield::List { filter, item } => {
                let mut list = Vec::new();
                self.items(looped, filter.as_ref(), item, |machine, value, left| {
                    if list.is_empty() {
                        list.reserve_exact(if filter.is_some() { 1 } else { left });
                    }
                    machine.budget.build_items(1)?;
                    list.push(value);
                    Ok(())
                })?;
                Ok(Val::list(list))
            }
            Yield::Map { filter, value } => self.transform_map(looped, filter.as_ref(), value),
            Yield::MapEntries { filter, entry } => {
                self.transform_entries(looped, filter.as_ref(), entry)
            }
            Yield::SortedBy(key) => self.sorted_by(looped, key),
        }
    }

    /// `all` (`false` decides) and `exists` (`true` decides). An error counts only if nothing
    /// decides.
    fn quantify(
        &mut self,
        looped: &'a Loop,
        predicate: &'a Node,
        decisive: bool,
    ) -> Result<Val<'a>, EvalError> {
        let name = if decisive { "exists" } else { "all" };
        let mut set_aside = None;
        let mut decided = false;
        self.each(looped, |machine, _| match machine.test(predicate, name) {
            Ok(flag) if flag == decisive => {
                decided = true;
                STOP
            }
            Ok(_) => NEXT,
            Err(error) if error.is_limit() => Err(error),
            Err(error) => {
                set_aside.get_or_insert(error);
                NEXT
            }
        })?;
        match set_aside {
            Some(error) if !decided => Err(error),
            _ => Ok(Val::Bool(decided == decisive)),
        }
    }

    fn exists_one(&mut self, looped: &'a Loop, predicate: &'a Node) -> Result<Val<'a>, EvalError> {
        let mut count = 0_usize;
        self.each(looped, |machine, _| {
            count += usize::from(machine.test(predicate, "exists_one")?);
            NEXT
        })?;
        Ok(Val::Bool(count == 1))
    }

    /// Hands the item of every element that passes the filter to `take`, with the number of
    /// elements left, the current one included.
    pub(super) fn items(
        &mut self,
        looped: &'a Loop,
        filter: Option<&'a Node>,
        item: &'a Node,
        mut take: impl FnMut(&mut Self, Val<'a>, usize) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        self.each(looped, |machine, left| {
            if machine.passes(filter)? {
                let value = machine.eval(item)?;
                take(machine, value, left)?;
            }
            NEXT
        })
    }

    fn passes(&mut self, filter: Option<&'a Node>) -> Result<bool, EvalError> {
        filter.map_or(Ok(true), |filter| self.test(filter, "filter"))
    }

    fn transform_map(
        &mut self,
        looped: &'a Loop,
        filter: Option<&'a Node>,
        value: &'a Node,
    ) -> Result<Val<'a>, EvalError> {
        let mut map = Vec::new();
        let Vars::Two(key_slot, _) = looped.vars else {
            return Err(EvalError::overload("transformMap", []));
        };
        self.each(looped, |machine, _| {
            if machine.passes(filter)? {
                let value = machine.eval(value)?;
                machine.budget.build_items(2)?;
                let key = machine.slots[key_slot].clone();
                map.push((key, value));
            }
            NEXT
        })?;
        map_of(&mut self.budget, map)
    }

    fn transform_entries(
        &mut self,
        looped: &'a Loop,
        filter: Option<&'a Node>,
        entry: &'a Node,
    ) -> Result<Val<'a>, EvalError> {
        let mut map = Vec::new();
        self.each(looped, |machine, _| {
            if machine.passes(filter)? {
                let value = machine.eval(entry)?;
                let Some(entries) = value.as_map() else {
                    let kind = value.kind().name();
                    return Err(EvalError::overload("transformMapEntry", [kind]));
                };
                machine.budget.build_items(2 * entries.len())?;
                for (key, value) in entries.entries() {
                    map.push((key, value));
                }
            }
            NEXT
        })?;
        map_of(&mut self.budget, map)
    }

    fn sorted_by(&mut self, looped: &'a Loop, key: &'a Node) -> Result<Val<'a>, EvalError> {
        let Vars::One(slot) = looped.vars else {
            return Err(EvalError::overload("sortBy", []));
        };
        let mut keyed: Vec<(Val<'a>, Val<'a>)> = Vec::new();
        self.each(looped, |machine, _| {
            machine.budget.build_items(2)?;
            let element = machine.slots[slot].clone();
            keyed.push((machine.eval(key)?, element));
            NEXT
        })?;
        let items = ops::sort_keyed(&mut self.budget, "sortBy", keyed)?;
        Ok(Val::list(items))
    }

    /// Runs `body` for every element, with the variables set and the number of elements left.
    fn each(
        &mut self,
        looped: &'a Loop,
        mut body: impl FnMut(&mut Self, usize) -> Flow,
    ) -> Result<(), EvalError> {
        match self.eval(&looped.range)? {
            Val::Json(Json::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    self.budget.charge(ELEMENT)?;
                    self.assign_element(looped.vars, at, Val::from_json(item));
                    if body(self, items.len() - at)?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            Val::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.budget.charge(ELEMENT)?;
                    self.assign_element(looped.vars, at, item.clone());
                    if body(self, items.len() - at)?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            Val::Json(Json::Object(members)) => {
                let entries = sorted(members);
                for (at, (key, value)) in entries.iter().enumerate() {
                    self.budget.charge(ELEMENT)?;
                    self.assign_entry(looped.vars, Val::Str(key), || Val::from_json(value));
                    if body(self, entries.len() - at)?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            Val::Map(map) => {
                for (at, (key, value)) in map.entries().iter().enumerate() {
                    self.budget.charge(ELEMENT)?;
                    self.assign_entry(looped.vars, key.clone(), || value.clone());
                    if body(self, map.entries().len() - at)?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            other => Err(EvalError::overload(
                "the range of a macro",
                [other.kind().name()],
            )),
        }
    }

    fn assign_element(&mut self, vars: Vars, at: usize, element: Val<'a>) {
        match vars {
            Vars::One(slot) => self.slots[slot] = element,
            Vars::Two(index, slot) => {
                self.slots[index] = Val::Int(i64::try_from(at).unwrap_or(i64::MAX));
                self.slots[slot] = element;
            }
        }
    }

    fn assign_entry(&mut self, vars: Vars, key: Val<'a>, value: impl FnOnce() -> Val<'a>) {
        match vars {
            Vars::One(slot) => self.slots[slot] = key,
            Vars::Two(first, second) => {
                self.slots[first] = key;
                self.slots[second] = value();
            }
        }
    }
}
