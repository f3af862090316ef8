//! From a value to JSON.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

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
                list.push(to_json(&mut machine.budget, value)?);
                Ok(())
            })?;
            return Ok(Output::List(list));
        }
        let value = self.eval(node)?;
        to_json(&mut self.budget, value)
    }
}

/// The JSON form of a value.
pub(in super::super) fn to_json<'a>(
    budget: &mut Budget,
    value: Val<'a>,
) -> Result<Output<'a>, EvalError> {
    // A value shared many times over is written many times: every visit counts.
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
        Val::Str(text) => Output::String(Cow::Borrowed(text)),
        Val::Text(text) => Output::String(Cow::Owned(text)),
        Val::Bytes(bytes) => {
            budget.build(bytes.len() / 3 * 4 + 4)?;
            Output::String(Cow::Owned(BASE64_STANDARD.encode(&bytes)))
        }
        Val::Json(json) => Output::Borrowed(json),
        Val::List(items) => {
            budget.build_items(items.len())?;
            let items = Arc::try_unwrap(items).unwrap_or_else(|shared| (*shared).clone());
            let items = items.into_iter().map(|item| to_json(budget, item));
            Output::List(items.collect::<Result<_, _>>()?)
        }
        Val::Map(map) => {
            budget.build_items(2 * map.entries().len())?;
            let mut members = Vec::with_capacity(map.entries().len());
            for (key, value) in map.entries() {
                members.push((key_text(key)?, to_json(budget, value.clone())?));
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
        Val::Optional(Some(value)) => to_json(budget, super::unshare(value))?,
        Val::Opaque(opaque) => Output::String(Cow::Owned(opaque.text())),
    })
}

fn key_text<'a>(key: &Val<'a>) -> Result<Cow<'a, str>, EvalError> {
    Ok(match key {
        Val::Str(text) => Cow::Borrowed(text),
        Val::Text(text) => Cow::Owned(text.clone()),
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
