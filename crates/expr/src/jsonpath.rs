//! JSONPath as kubectl writes it, with fewer surprises.
//!
//! A path selects values inside an object: `$.spec.containers[*].image`. It is parsed once and
//! evaluated on borrowed objects any number of times. The syntax is that of `kubectl -o jsonpath`
//! reduced to what selects (no templates); `docs/jsonpath.md` lists it with the differences.
//!
//! What is absent is never an error: missing members, positions outside an array and everything
//! below `null` select nothing, because one object with an empty list must not fail a collection.
//! An error means that the path does not fit the kind of object, such as `[*]` on a map.
//!
//! Evaluation is bounded by [`MAX_WORK`], parsing by [`MAX_BYTES`] and [`MAX_STEPS`].

mod compare;
mod error;
mod jq;
mod parse;
mod reads;
mod step;
pub(crate) mod walk;

use std::fmt;
use std::ops::Deref;

use serde_json::Value;

pub use self::error::{EvalError, ParseError, Problem};
pub use self::jq::{JqError, JqProblem};
use self::parse::Form;
use self::step::{Selector, Step};
use self::walk::{Mismatch, Place, Places, Stop, Walk};
use crate::budget::Allowance;
use crate::cel::Limits;
use crate::excerpt;
use crate::output::Output;
use crate::reads::ReadSet;

/// The longest text that is read as a path.
pub const MAX_BYTES: usize = 4096;

/// The most steps of a path. JSON is decoded to a depth of 128, so nothing lies deeper.
pub const MAX_STEPS: usize = 256;

/// The most values one evaluation visits or hands out, repetitions counted.
pub const MAX_WORK: usize = 1_000_000;

/// A compiled path.
#[derive(Debug, Clone)]
pub struct Path {
    text: Box<str>,
    body: usize,
    steps: Box<[Step]>,
    reads: ReadSet,
}

/// What several matches become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One match is the value itself, several are a list.
    Plain,
    /// A path that can yield several values always yields a list.
    List,
}

impl Path {
    /// Parses an attribute path: `$…`, `.…` (read as `$.…`) or one pair of braces around
    /// everything. Other text, which kubectl would print as it is, is refused.
    pub fn parse(text: &str) -> Result<Path, ParseError> {
        Self::parse_form(text, Form::Attribute)
    }

    /// Parses a path of things to remove. Here a leading `$` or dot may also be missing
    /// (`spec.replicas`).
    pub fn parse_removal(text: &str) -> Result<Path, ParseError> {
        Self::parse_form(text, Form::Removal)
    }

    /// Parses a path of things to remove that is written in jq.
    pub fn parse_jq(text: &str) -> Result<Path, JqError> {
        Ok(Self::parse_removal(&jq::to_path(text)?)?)
    }

    fn parse_form(text: &str, form: Form) -> Result<Path, ParseError> {
        let text = text.trim();
        let parsed = parse::parse(text, form)?;
        Ok(Path {
            text: text.into(),
            body: parsed.body,
            reads: reads::of(&parsed.steps),
            steps: parsed.steps.into(),
        })
    }

    /// The path as written, without blanks around it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// All matches, in the order of the steps; members of maps by ascending name.
    pub fn find<'a>(&self, object: &'a Value) -> Result<Matches<'a>, EvalError> {
        let mut allowance = Allowance::default();
        self.places(object, Mismatch::Fails, &mut allowance)
            .map(Matches)
    }

    /// The result of the path: nothing, a value of the object, or a list of them.
    pub fn evaluate<'a>(
        &self,
        object: &'a Value,
        shape: Shape,
    ) -> Result<Option<Output<'a>>, EvalError> {
        self.evaluate_within(object, shape, &mut Allowance::default())
    }

    /// The result of the path, within what is left of `allowance`.
    pub fn evaluate_within<'a>(
        &self,
        object: &'a Value,
        shape: Shape,
        allowance: &mut Allowance,
    ) -> Result<Option<Output<'a>>, EvalError> {
        self.metered(allowance, |walk| self.result(object, shape, walk))
            .and_then(|found| {
                let items = match &found {
                    Some(Output::List(items)) => items.len(),
                    _ => return Ok(found),
                };
                if allowance.build(items * size_of::<Output<'static>>()) {
                    Ok(found)
                } else {
                    Err(EvalError::SharedSizeLimit {
                        limit: allowance.total().built_bytes,
                    })
                }
            })
    }

    /// Does the work of a walk and takes it off the allowance.
    fn metered<T>(
        &self,
        allowance: &mut Allowance,
        work: impl FnOnce(&mut Walk) -> Result<T, Stop>,
    ) -> Result<T, EvalError> {
        let limits = allowance.share(Limits::default());
        let mut walk = Walk::new(limits.steps);
        let before = walk.left();
        let result = work(&mut walk);
        allowance.spend(1 + (before - walk.left()) as u64, 0);
        result.map_err(|stop| match stop {
            Stop::TooMuchWork if before < MAX_WORK => EvalError::SharedStepLimit {
                limit: allowance.total().steps,
            },
            stop => self.error(stop),
        })
    }

    fn result<'a>(
        &self,
        object: &'a Value,
        shape: Shape,
        walk: &mut Walk,
    ) -> Result<Option<Output<'a>>, Stop> {
        let Some((value, rest)) = Walk::lead(&self.steps, object, Mismatch::Fails)? else {
            return Ok(None);
        };
        if rest.is_empty() {
            return Ok(Some(Output::Borrowed(value)));
        }
        let matches = walk.spread(rest, value, Mismatch::Fails)?;
        match *matches.as_slice() {
            [] => return Ok(None),
            [only] if shape == Shape::Plain => return Ok(Some(Output::Borrowed(only))),
            _ => {}
        }
        // Matches that contain or repeat each other can be far larger together than the object.
        if rest.iter().any(Step::may_overlap) {
            for value in &matches {
                walk.charge_content(value)?;
            }
        }
        let items = matches.into_iter().map(Output::Borrowed).collect();
        Ok(Some(Output::List(items)))
    }

    /// Whether the path consists of member names and single indexes only, so that it leads to at
    /// most one value.
    pub fn is_definite(&self) -> bool {
        self.steps.iter().all(|step| step.single().is_some())
    }

    /// The name of the member that every match is the value of, or an element of its value.
    ///
    /// This is the key a value would have had, had its parent been taken: `password` for
    /// `$.spec.password`, `$.users[*].password` and `$.spec.password[0]`.
    pub fn last_member(&self) -> Option<&str> {
        for step in self.steps.iter().rev() {
            match step.selectors.as_slice() {
                [Selector::Member(name)] => return Some(name),
                [
                    Selector::Index(_)
                    | Selector::Slice(_)
                    | Selector::Elements
                    | Selector::Filter(_),
                ] if !step.deep => {}
                _ => return None,
            }
        }
        None
    }

    /// Whether an evaluation may see a member of one of these names apart from the map it is in.
    /// A path that only hands whole maps on does not.
    pub fn takes_out(&self, members: &[&str]) -> bool {
        self.steps.iter().any(|step| step.takes_out(members))
    }

    /// The parts of an object this path looks at.
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// All matches as places of the caller's choice.
    pub(crate) fn places<'a, P: Place<'a>>(
        &self,
        root: P,
        mismatch: Mismatch,
        allowance: &mut Allowance,
    ) -> Result<Places<P>, EvalError> {
        self.metered(allowance, |walk| walk.run(&self.steps, root, mismatch))
    }

    /// Puts the text of the path to what stopped its evaluation.
    fn error(&self, stop: Stop) -> EvalError {
        match stop {
            Stop::TooMuchWork => EvalError::TooMuchWork,
            Stop::NeedsArray { span, found } => {
                let before = self.text[self.body..span.start].trim_end();
                let dot = if before.starts_with(['.', '[']) || before.is_empty() {
                    ""
                } else {
                    "."
                };
                EvalError::NeedsArray {
                    place: excerpt::tail(&format!("${dot}{before}"), 96),
                    step: excerpt::head(&self.text[span], 48),
                    found,
                }
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The values a path found, in match order.
#[derive(Debug, Clone, PartialEq)]
pub struct Matches<'a>(Places<&'a Value>);

impl<'a> Deref for Matches<'a> {
    type Target = [&'a Value];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> IntoIterator for Matches<'a> {
    type Item = &'a Value;
    type IntoIter = smallvec::IntoIter<[&'a Value; 8]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
