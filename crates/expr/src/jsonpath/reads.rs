//! Which parts of an object a path looks at.

use super::step::{Filter, Operand, Selector, Step};
use crate::reads::{Extent, ReadSet, Step as Read};

/// Unions multiply the ways a path can take; beyond this many the rest is read as a whole.
const MAX_WAYS: usize = 64;

type Way<'s> = Vec<Read<'s>>;

/// The reads of a path whose results are handed on with everything below them.
pub(super) fn of(steps: &[Step]) -> ReadSet {
    let mut set = ReadSet::nothing();
    record(steps, vec![Vec::new()], Extent::Whole, &mut set);
    set
}

fn record<'s>(steps: &'s [Step], mut ways: Vec<Way<'s>>, end: Extent, set: &mut ReadSet) {
    for step in steps {
        let reads = reads_of(step);
        if step.deep || ways.len() * reads.len() > MAX_WAYS {
            return mark(ways, Extent::Whole, set);
        }
        for selector in &step.selectors {
            if let Selector::Filter(filter) = selector {
                let elements = extend(&ways, &[Read::Any]);
                for path in operands(filter) {
                    // Presence is enough to compare: scalars stay as they are, and arrays and
                    // objects match nothing.
                    record(path, elements.clone(), Extent::Presence, set);
                }
            }
        }
        ways = extend(&ways, &reads);
    }
    mark(ways, end, set);
}

/// The different reads of one step.
fn reads_of(step: &Step) -> Vec<Read<'_>> {
    let mut reads = Vec::new();
    for selector in &step.selectors {
        let read = match selector {
            Selector::Member(name) => Read::Member(name),
            _ => Read::Any,
        };
        if !reads.contains(&read) {
            reads.push(read);
        }
    }
    reads
}

fn operands(filter: &Filter) -> impl Iterator<Item = &[Step]> {
    let (first, second) = match filter {
        Filter::Exists(path) => (Some(&**path), None),
        Filter::Compare { left, right, .. } => (left.path(), right.path()),
    };
    first.into_iter().chain(second)
}

impl Operand {
    fn path(&self) -> Option<&[Step]> {
        match self {
            Operand::Path(steps) => Some(steps),
            _ => None,
        }
    }
}

fn extend<'s>(ways: &[Way<'s>], reads: &[Read<'s>]) -> Vec<Way<'s>> {
    let longer = |way: &Way<'s>| {
        let way = way.clone();
        reads.iter().map(move |read| {
            let mut way = way.clone();
            way.push(*read);
            way
        })
    };
    ways.iter().flat_map(longer).collect()
}

fn mark(ways: Vec<Way<'_>>, extent: Extent, set: &mut ReadSet) {
    for way in ways {
        set.insert(way, extent);
    }
}
