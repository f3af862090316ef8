//! Evaluation: step by step over everything found so far.
//!
//! Going breadth-first keeps the order people know from kubectl: a union yields all results of its
//! first selector before those of its second. Steps that lead to at most one value are followed in
//! place, so a path of names and indexes touches nothing but the object itself.

use std::ops::Range;

use serde_json::Value;
use smallvec::{SmallVec, smallvec};

use super::MAX_WORK;
use super::compare::Scalar;
use super::step::{Filter, Operand, Selector, Step, from_end};
use crate::json_type::JsonType;

/// What the walk carries along for each value: the bare reference where only values are wanted,
/// or more where the way to them matters.
pub(crate) trait Place<'a>: Clone {
    /// The value at this place.
    fn value(&self) -> &'a Value;
    /// The place of the member `name`, which holds `value`.
    fn member(&self, name: &'a str, value: &'a Value) -> Self;
    /// The place of the element at `position`, which holds `value`.
    fn element(&self, position: usize, value: &'a Value) -> Self;
}

impl<'a> Place<'a> for &'a Value {
    fn value(&self) -> &'a Value {
        self
    }

    fn member(&self, _name: &'a str, value: &'a Value) -> Self {
        value
    }

    fn element(&self, _position: usize, value: &'a Value) -> Self {
        value
    }
}

/// Places in match order. Lists of a few containers or ports stay on the stack.
pub(crate) type Places<P> = SmallVec<[P; 8]>;

/// What happens where a step needs an array and finds something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// The evaluation fails: the path does not fit the kind of object.
    Fails,
    /// The value is passed over: it was met by searching, not named by the path.
    SelectsNothing,
}

/// Why a walk ended early. Rendered with the text of the path by its owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    NeedsArray { span: Range<usize>, found: JsonType },
    TooMuchWork,
}

/// Why a selector could not be applied; the step it belongs to is known one level up.
enum Trouble {
    NotAnArray(JsonType),
    Stopped(Stop),
}

impl Trouble {
    fn in_step(self, origin: &Step) -> Stop {
        match self {
            Self::NotAnArray(found) => Stop::NeedsArray {
                span: origin.span.clone(),
                found,
            },
            Self::Stopped(stop) => stop,
        }
    }
}

/// One evaluation and the work it may still do.
pub(super) struct Walk {
    left: usize,
}

impl Walk {
    /// A walk that may do as much as one path may, or as much as is left if that is less.
    pub(super) fn new(left: u64) -> Self {
        let left = usize::try_from(left).unwrap_or(MAX_WORK).min(MAX_WORK);
        Self { left }
    }

    /// The work that may still be done.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Follows the steps at the beginning that lead to one value each. Returns where they lead and
    /// what remains, or nothing if one of them found nothing.
    pub(super) fn lead<'a, 's, P: Place<'a>>(
        steps: &'s [Step],
        root: P,
        mismatch: Mismatch,
    ) -> Result<Option<(P, &'s [Step])>, Stop> {
        let mut place = root;
        for (done, step) in steps.iter().enumerate() {
            let Some(selector) = step.single() else {
                return Ok(Some((place, &steps[done..])));
            };
            match follow(selector, &place, mismatch).map_err(|trouble| trouble.in_step(step))? {
                Some(next) => place = next,
                None => return Ok(None),
            }
        }
        Ok(Some((place, &[])))
    }

    /// All places that `steps` lead to.
    pub(super) fn run<'a, P: Place<'a>>(
        &mut self,
        steps: &[Step],
        root: P,
        mismatch: Mismatch,
    ) -> Result<Places<P>, Stop> {
        match Self::lead(steps, root, mismatch)? {
            Some((place, rest)) => self.spread(rest, place, mismatch),
            None => Ok(Places::new()),
        }
    }

    /// All places that `steps` lead to from one place, of which the first leads to several.
    pub(super) fn spread<'a, P: Place<'a>>(
        &mut self,
        steps: &[Step],
        place: P,
        mismatch: Mismatch,
    ) -> Result<Places<P>, Stop> {
        let mut places: Places<P> = smallvec![place];
        for step in steps {
            if let Some(selector) = step.single() {
                self.charge(places.len())?;
                let mut kept = 0;
                for at in 0..places.len() {
                    let next = follow(selector, &places[at], mismatch)
                        .map_err(|trouble| trouble.in_step(step))?;
                    if let Some(next) = next {
                        places[kept] = next;
                        kept += 1;
                    }
                }
                places.truncate(kept);
            } else {
                places = self
                    .expand(step, &places, mismatch)
                    .map_err(|trouble| trouble.in_step(step))?;
            }
            if places.is_empty() {
                break;
            }
        }
        Ok(places)
    }

    fn expand<'a, P: Place<'a>>(
        &mut self,
        step: &Step,
        places: &[P],
        mismatch: Mismatch,
    ) -> Result<Places<P>, Trouble> {
        let mut found = Places::new();
        for selector in &step.selectors {
            for place in places {
                if step.deep {
                    self.descend(selector, place, &mut found)?;
                } else {
                    self.select(selector, place, mismatch, &mut found)?;
                }
            }
        }
        Ok(found)
    }

    /// Applies `selector` to the place and to everything below it, parents before children.
    fn descend<'a, P: Place<'a>>(
        &mut self,
        selector: &Selector,
        place: &P,
        found: &mut Places<P>,
    ) -> Result<(), Trouble> {
        // Nothing but the value itself can be selected in a scalar.
        let visit_scalars = *selector == Selector::Itself;
        let mut pending = vec![place.clone()];
        while let Some(place) = pending.pop() {
            self.select(selector, &place, Mismatch::SelectsNothing, found)?;
            self.charge(width(place.value()))
                .map_err(Trouble::Stopped)?;
            let first_child = pending.len();
            each_child(&place, |child| {
                if visit_scalars || child.value().is_array() || child.value().is_object() {
                    pending.push(child);
                }
            });
            pending[first_child..].reverse();
        }
        Ok(())
    }

    /// Appends what `selector` selects in one place.
    fn select<'a, P: Place<'a>>(
        &mut self,
        selector: &Selector,
        place: &P,
        mismatch: Mismatch,
        found: &mut Places<P>,
    ) -> Result<(), Trouble> {
        let before = found.len();
        match selector {
            Selector::Itself => found.push(place.clone()),
            Selector::Member(_) | Selector::Index(_) => {
                found.extend(follow(selector, place, mismatch)?);
            }
            Selector::Children => each_child(place, |child| found.push(child)),
            Selector::Elements => {
                let elements = array(place.value(), mismatch)?;
                found.extend(
                    elements
                        .iter()
                        .enumerate()
                        .map(|(at, value)| place.element(at, value)),
                );
            }
            Selector::Slice(slice) => {
                let elements = array(place.value(), mismatch)?;
                let positions = slice.positions(elements.len());
                found.extend(positions.map(|at| place.element(at, &elements[at])));
            }
            Selector::Filter(filter) => {
                for (at, value) in array(place.value(), mismatch)?.iter().enumerate() {
                    if self.matches(filter, value).map_err(Trouble::Stopped)? {
                        found.push(place.element(at, value));
                    }
                }
            }
        }
        self.charge(1 + found.len() - before)
            .map_err(Trouble::Stopped)
    }

    /// Whether an element passes a filter. What does not fit an element does not match it.
    fn matches(&mut self, filter: &Filter, element: &Value) -> Result<bool, Stop> {
        self.charge(1)?;
        match filter {
            Filter::Exists(steps) => {
                let found = self.run(steps, element, Mismatch::SelectsNothing)?;
                Ok(!found.is_empty())
            }
            Filter::Compare {
                left,
                operator,
                right,
            } => {
                let left = self.scalars(left, element)?;
                let right = self.scalars(right, element)?;
                for &left in &left {
                    for &right in &right {
                        self.charge(1 + left.text_bytes().min(right.text_bytes()) / 16)?;
                        if operator.holds(left, right) {
                            return Ok(true);
                        }
                    }
                }
                Ok(false)
            }
        }
    }

    fn scalars<'v>(
        &mut self,
        operand: &'v Operand,
        element: &'v Value,
    ) -> Result<Places<Scalar<'v>>, Stop> {
        Ok(match operand {
            Operand::Path(steps) => {
                let found = self.run(steps, element, Mismatch::SelectsNothing)?;
                found.into_iter().filter_map(Scalar::of).collect()
            }
            literal => Scalar::literal(literal).into_iter().collect(),
        })
    }

    /// Counts `work` against the limit.
    pub(super) fn charge(&mut self, work: usize) -> Result<(), Stop> {
        let rest = self.left.checked_sub(work);
        self.left = rest.unwrap_or(0);
        rest.map(|_| ()).ok_or(Stop::TooMuchWork)
    }

    /// Counts what writing `value` would cost: one per value and one per 16 bytes of text.
    pub(super) fn charge_content(&mut self, value: &Value) -> Result<(), Stop> {
        match value {
            Value::String(text) => self.charge(1 + text.len() / 16),
            Value::Array(items) => {
                self.charge(1)?;
                items.iter().try_for_each(|item| self.charge_content(item))
            }
            Value::Object(members) => {
                self.charge(1)?;
                members.iter().try_for_each(|(name, value)| {
                    self.charge(name.len() / 16)?;
                    self.charge_content(value)
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.charge(1),
        }
    }
}

/// Where a member or index leads.
fn follow<'a, P: Place<'a>>(
    selector: &Selector,
    place: &P,
    mismatch: Mismatch,
) -> Result<Option<P>, Trouble> {
    match selector {
        Selector::Member(name) => {
            // Through the key of the map: the place must not borrow from the path.
            let member = place
                .value()
                .as_object()
                .and_then(|map| map.get_key_value(&**name));
            Ok(member.map(|(name, value)| place.member(name, value)))
        }
        Selector::Index(index) => {
            let elements = array(place.value(), mismatch)?;
            let position = from_end(*index, elements.len());
            Ok(position.and_then(|at| Some(place.element(at, elements.get(at)?))))
        }
        _ => Ok(None),
    }
}

/// The elements of an array. `null` has none: absent lists are often written that way.
fn array(value: &Value, mismatch: Mismatch) -> Result<&[Value], Trouble> {
    match value {
        Value::Array(elements) => Ok(elements),
        Value::Null => Ok(&[]),
        _ if mismatch == Mismatch::SelectsNothing => Ok(&[]),
        other => Err(Trouble::NotAnArray(JsonType::of(other))),
    }
}

/// How many children a value has.
fn width(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

fn each_child<'a, P: Place<'a>>(place: &P, mut visit: impl FnMut(P)) {
    match place.value() {
        Value::Array(elements) => {
            for (at, value) in elements.iter().enumerate() {
                visit(place.element(at, value));
            }
        }
        Value::Object(members) => {
            for (name, value) in in_key_order(members.iter()) {
                visit(place.member(name, value));
            }
        }
        _ => {}
    }
}

/// Members by ascending name, so that rows do not change when nothing changed.
///
/// The map of `serde_json` is sorted unless any crate in the build turns on its insertion order;
/// only then is there something to sort.
fn in_key_order<'a, I>(members: I) -> impl Iterator<Item = (&'a String, &'a Value)>
where
    I: Iterator<Item = (&'a String, &'a Value)> + Clone,
{
    let sorted = members.clone().map(|(name, _)| name).is_sorted();
    let (in_place, mut reordered) = if sorted {
        (Some(members), Vec::new())
    } else {
        (None, members.collect())
    };
    reordered.sort_unstable_by_key(|(name, _)| *name);
    in_place.into_iter().flatten().chain(reordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_visited_by_name_whatever_the_map_does() {
        let members = ["b", "a", "c"].map(|name| (name.to_owned(), Value::from(name)));
        let names = |members: &[(String, Value)]| {
            in_key_order(members.iter().map(|(name, value)| (name, value)))
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&members), ["a", "b", "c"]);
        assert_eq!(names(&members[1..]), ["a", "c"]);
    }
}
