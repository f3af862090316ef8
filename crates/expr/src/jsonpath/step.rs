//! What a compiled path consists of.

use std::ops::Range;

use serde_json::Number;
use smallvec::SmallVec;

/// One step of a path: it takes every value found so far and selects values inside it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// Written after `..`: the step is applied to the value and to everything below it.
    pub(super) deep: bool,
    /// One selector, or several in a union. Results are ordered by selector first.
    pub(super) selectors: SmallVec<[Selector; 1]>,
    /// Where the step stands in the source, for messages.
    pub(super) span: Range<usize>,
}

impl Step {
    /// The selector of a step that leads from one value to at most one value.
    pub(super) fn single(&self) -> Option<&Selector> {
        match self.selectors.as_slice() {
            [selector @ (Selector::Member(_) | Selector::Index(_))] if !self.deep => Some(selector),
            _ => None,
        }
    }

    /// Whether the step may select, or look at, a member of one of these names.
    pub(super) fn takes_out(&self, members: &[&str]) -> bool {
        let within = |steps: &[Step]| steps.iter().any(|step| step.takes_out(members));
        self.deep
            || self.selectors.iter().any(|selector| match selector {
                Selector::Children => true,
                Selector::Member(name) => members.contains(&&**name),
                Selector::Filter(filter) => match &**filter {
                    Filter::Exists(path) => within(path),
                    Filter::Compare { left, right, .. } => [left, right]
                        .into_iter()
                        .any(|side| matches!(side, Operand::Path(path) if within(path))),
                },
                Selector::Itself | Selector::Index(_) | Selector::Slice(_) | Selector::Elements => {
                    false
                }
            })
    }

    /// Whether one value may be selected more than once, or together with something inside it.
    pub(super) fn may_overlap(&self) -> bool {
        self.deep || self.selectors.len() > 1
    }
}

/// How values are selected inside one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Selector {
    /// The value as it is. Only after `..`, where a path may end without naming anything.
    Itself,
    /// `.name`, `['name']`.
    Member(Box<str>),
    /// `[3]`, `[-1]`.
    Index(i64),
    /// `[a:b:s]`.
    Slice(Slice),
    /// `[*]`: every element of an array.
    Elements,
    /// `.*`: every element of an array or every member of an object.
    Children,
    /// `[?(…)]`.
    Filter(Box<Filter>),
}

/// A range of array positions; negative bounds count from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) step: usize,
}

impl Slice {
    /// The positions this slice takes out of an array of `length` elements.
    pub(super) fn positions(self, length: usize) -> impl Iterator<Item = usize> {
        let start = self.start.map_or(0, |bound| clamp(bound, length));
        let end = self.end.map_or(length, |bound| clamp(bound, length));
        (start..end).step_by(self.step)
    }
}

fn clamp(bound: i64, length: usize) -> usize {
    from_end(bound, length).map_or(0, |position| position.min(length))
}

/// The position an index means in an array of `length` elements, if that is not before its start.
/// It may still be behind the end.
pub(super) fn from_end(index: i64, length: usize) -> Option<usize> {
    let magnitude = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    if index < 0 {
        length.checked_sub(magnitude)
    } else {
        Some(magnitude)
    }
}

/// A test on the elements of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Filter {
    /// `[?(@.a)]`: the path finds something in the element, `null` included.
    Exists(Box<[Step]>),
    /// `[?(@.a == 1)]`.
    Compare {
        left: Operand,
        operator: Operator,
        right: Operand,
    },
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    /// A path that starts at the element (`@`).
    Path(Box<[Step]>),
    Text(Box<str>),
    Number(Number),
    Bool(bool),
}

/// How two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
