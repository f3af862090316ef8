//! What to keep at each place of an object.
//!
//! A read set says what is read of "any member" and of named ones separately, and several of its
//! nodes may stand for the same place. Here each place has one plan, so that the decoder asks once
//! per key.

use std::collections::BTreeSet;

use kollect_expr::ReadSet;
use kollect_expr::reads::ReadNode;

/// The largest plan. Combining wildcards can square a read set again and again; far beyond this,
/// decoding everything is cheaper than finding out what to skip.
const MAX_PLACES: usize = 4096;

/// What to keep at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// Everything.
    Whole,
    /// Scalars, the length of arrays, and of maps what this says.
    Part(Part),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Keep all keys of a map, with `null` under those that are not otherwise kept.
    pub(super) keys: bool,
    /// Members with plans of their own, by ascending name.
    members: Box<[(Box<str>, Plan)]>,
    /// The plan of every element and of all other members, if they are kept.
    pub(super) rest: Option<Box<Plan>>,
}

impl Plan {
    /// The plan for these reads, unless it would be too large.
    pub(super) fn new(reads: &ReadSet) -> Option<Plan> {
        combine(&[reads.root()], &mut MAX_PLACES.clone())
    }

    /// Whether the root member `name` is kept if an object has it.
    pub(super) fn keeps(&self, name: &str) -> bool {
        match self {
            Plan::Whole => true,
            Plan::Part(part) => part.keys || part.rest.is_some() || part.member(name).is_some(),
        }
    }

    /// Whether no root member but these is kept.
    pub(super) fn keeps_only(&self, names: &[&str]) -> bool {
        match self {
            Plan::Whole => false,
            Plan::Part(part) => {
                let mut members = part.members.iter();
                let only = members.all(|(member, _)| names.contains(&&**member));
                !part.keys && part.rest.is_none() && only
            }
        }
    }
}

impl Part {
    /// The member of this name, if it has a plan of its own.
    pub(super) fn member(&self, name: &str) -> Option<(&str, &Plan)> {
        let at = self
            .members
            .binary_search_by(|(have, _)| (**have).cmp(name))
            .ok()?;
        let (name, plan) = &self.members[at];
        Some((name, plan))
    }
}

/// The plan of a place that all these nodes stand for.
fn combine(nodes: &[&ReadNode], places_left: &mut usize) -> Option<Plan> {
    *places_left = places_left.checked_sub(1)?;
    if nodes.iter().any(|node| node.whole()) {
        return Some(Plan::Whole);
    }
    let any: Vec<&ReadNode> = nodes.iter().filter_map(|node| node.any()).collect();
    let rest = if any.is_empty() {
        None
    } else {
        Some(Box::new(combine(&any, places_left)?))
    };
    let names: BTreeSet<&str> = nodes
        .iter()
        .flat_map(|node| node.members().keys().map(|name| &**name))
        .collect();
    let mut members = Vec::with_capacity(names.len());
    for name in names {
        let mut below = any.clone();
        below.extend(nodes.iter().filter_map(|node| node.members().get(name)));
        members.push((name.into(), combine(&below, places_left)?));
    }
    Some(Plan::Part(Part {
        keys: nodes.iter().any(|node| node.shape()),
        members: members.into(),
        rest,
    }))
}
