//! From a value to JSON.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

use super::super::error::EvalError;
use super::super::limits::Budget;
use super::super::node::{Node, Yield};
use super::super::value::Val;
use super::Machine;
use crate::Output;

impl<'a> Machine<'a> {
    /// Evaluates and converts the result. A list made by a macro is converted element by element
    /// as it comes, without being built first.
    pub(in super::super) fn output(&mut self, node: &'a Node) -> Result<Output<'a>, EvalError> {
        if let Node::Loop(looped) = node
            && let Yield::List { filter, item } = &looped.yields
        {
            let mut list = Vec::new();
            self.items(looped, filter.as_ref(), item, |machine, value, left| {
                if list.is_empty() {
                    list.reserve_exact(if filter.is_some() { 1 } else { left });
                }
                machine.budget.build_items(1)?;
                list.push(part(&mut machine.budget, value)?);
                Ok(())
            })?;
            return Ok(Output::List(list));
        }
        let value = self.eval(node)?;
        to_json(&mut self.budget, value)
    }
}

/// The JSON form of a value.
///
/// A value that is shared is written once for every place it is at, so every visit counts, and so
/// does the size of what is borrowed: a short expression could otherwise ask for gigabytes.
pub(in super::super) fn to_json<'a>(
    budget: &mut Budget,
    value: Val<'a>,
) -> Result<Output<'a>, EvalError> {
    match value {
        // Borrowed once, as a whole: no larger than the object.
        Val::Str(text) => Ok(Output::String(Cow::Borrowed(text))),
        Val::Json(json) => Ok(Output::Borrowed(json)),
        value => part(budget, value),
    }
}

/// The JSON form of a value inside of another.
fn part<'a>(budget: &mut Budget, value: Val<'a>) -> Result<Output<'a>, EvalError> {
    budget.charge(1)?;
    Ok(match value {
        Val::Null | Val::Optional(None) => Output::Null,
        Val::Bool(flag) => Output::Bool(flag),
        Val::Int(number) => Output::Int(number),
        Val::Uint(number) => Output::Uint(number),
        Val::Double(number) if number.is_finite() => Output::Double(number),
        Val::Double(_) => {
            return Err(EvalError::NotJson {
                problem: "it is NaN or infinite",
            });
        }
        Val::Str(text) => {
            budget.build(text.len())?;
            Output::String(Cow::Borrowed(text))
        }
        Val::Text(text) => Output::String(Cow::Owned(match Arc::try_unwrap(text) {
            Ok(text) => text,
            Err(shared) => {
                budget.build(shared.len())?;
                (*shared).clone()
            }
        })),
        Val::Bytes(bytes) => {
            budget.build(bytes.len() / 3 * 4 + 4)?;
            Output::String(Cow::Owned(BASE64_STANDARD.encode(&bytes)))
        }
        Val::Json(json) => {
            budget.build(size(json))?;
            Output::Borrowed(json)
        }
        Val::List(items) => {
            budget.build_items(items.len())?;
            let items = Arc::try_unwrap(items).unwrap_or_else(|shared| (*shared).clone());
            let items = items.into_iter().map(|item| part(budget, item));
            Output::List(items.collect::<Result<_, _>>()?)
        }
        Val::Map(map) => {
            budget.build_items(2 * map.entries().len())?;
            let mut members = Vec::with_capacity(map.entries().len());
            for (key, value) in map.entries() {
                let key = key_text(key)?;
                budget.build(key.len())?;
                members.push((key, part(budget, value.clone())?));
            }
            // Numbers order by value as keys but by their digits as text.
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return Err(EvalError::NotJson {
                    problem: "two keys of a map have the same text",
                });
            }
            Output::Map(members)
        }
        Val::Timestamp(time) => Output::String(Cow::Owned(time.text())),
        Val::Duration(nanos) => Output::Int(nanos),
        Val::Type(kind) => Output::String(Cow::Borrowed(kind.name())),
        Val::Optional(Some(value)) => part(budget, super::unshare(value))?,
        Val::Opaque(opaque) => {
            let text = opaque.text();
            budget.build(text.len())?;
            Output::String(Cow::Owned(text))
        }
    })
}

/// About how long a value is as text.
fn size(json: &Json) -> usize {
    match json {
        Json::String(text) => text.len() + 2,
        Json::Array(items) => 2 + items.iter().map(|item| 1 + size(item)).sum::<usize>(),
        Json::Object(members) => {
            let members = members.iter();
            2 + members
                .map(|(name, value)| name.len() + 4 + size(value))
                .sum::<usize>()
        }
        _ => 8,
    }
}

fn key_text<'a>(key: &Val<'a>) -> Result<Cow<'a, str>, EvalError> {
    Ok(match key {
        Val::Str(text) => Cow::Borrowed(text),
        Val::Text(text) => Cow::Owned((**text).clone()),
        Val::Bool(flag) => Cow::Owned(flag.to_string()),
        Val::Int(number) => Cow::Owned(number.to_string()),
        Val::Uint(number) => Cow::Owned(number.to_string()),
        _ => {
            return Err(EvalError::NotJson {
                problem: "a map has a key that is neither text nor number nor truth value",
            });
        }
    })
}
