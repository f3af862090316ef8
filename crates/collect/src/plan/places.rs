//! Where targets collect from: found once for all targets that ask for the same.

use std::sync::Arc;

use hashbrown::HashMap;
use kollect_api::selector::LabelSelector;

use super::ask::Ask;
use super::ceilings::Ceilings;
use super::collection::Reach;
use super::namespaces::{NamespaceIntent, Universe};
use super::target::TargetNamespaces;
use crate::gates::Selection;

/// The places found so far while one plan is made.
#[derive(Debug, Default)]
pub(super) struct Places<'w>(HashMap<Asked<'w>, Vec<Place<'w>>>);

/// What the namespaces of a target depend on, beside selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Asked<'w> {
    cluster: bool,
    /// The namespace whose scopes bind the target; empty if there are none.
    governed: &'w str,
    included: &'w [String],
    excluded: &'w [String],
}

#[derive(Debug)]
struct Place<'w> {
    selector: Option<&'w LabelSelector>,
    exclude: Option<&'w LabelSelector>,
    namespaces: TargetNamespaces,
    /// The reach of selections that take namespaces alike.
    reach: Option<Arc<Reach>>,
}

impl<'w> Places<'w> {
    /// Matched and effective namespaces. `governed` is whether the target's namespace has scopes.
    ///
    /// A namespaced target that says nothing about namespaces means those its scopes allow, not
    /// the whole cluster.
    pub(super) fn namespaces(
        &mut self,
        ask: &Ask<'w>,
        governed: bool,
        intent: &NamespaceIntent<'_>,
        ceilings: &Ceilings<'_>,
        universe: &Universe,
    ) -> TargetNamespaces {
        let places = self.0.entry(asked(ask, governed)).or_default();
        if let Some(place) = places.iter().find(|place| place.is_of(ask)) {
            return place.namespaces.clone();
        }
        let open = !ask.is_cluster_target() && ask.names_no_namespace();
        let (mut matched, mut effective, mut outside) = (Vec::new(), Vec::new(), Vec::new());
        for (name, facts) in universe.iter() {
            if !intent.matches(name, facts) || (open && !ceilings.lists(name)) {
                continue;
            }
            matched.push(Arc::clone(name));
            if ceilings.permits(name) {
                effective.push(Arc::clone(name));
            } else {
                outside.push(Arc::clone(name));
            }
        }
        let namespaces = TargetNamespaces {
            matched: matched.into(),
            effective: effective.into(),
            outside_scope: outside.into(),
            ..TargetNamespaces::default()
        };
        places.push(Place {
            selector: ask.selector,
            exclude: ask.exclude,
            namespaces: namespaces.clone(),
            reach: None,
        });
        namespaces
    }

    /// What the namespaces that were found for the target contribute to decisions.
    pub(super) fn reach(
        &mut self,
        ask: &Ask<'w>,
        governed: bool,
        selection: &Selection,
        namespaces: &TargetNamespaces,
        universe: &Universe,
    ) -> Arc<Reach> {
        let find = || Arc::new(reach(selection, &namespaces.effective, universe));
        if !selection.takes_namespaces_alike() {
            return find();
        }
        let places = self.0.get_mut(&asked(ask, governed)).into_iter().flatten();
        match places.into_iter().find(|place| place.is_of(ask)) {
            Some(place) => Arc::clone(place.reach.get_or_insert_with(find)),
            None => find(),
        }
    }
}

impl Place<'_> {
    fn is_of(&self, ask: &Ask<'_>) -> bool {
        self.selector == ask.selector && self.exclude == ask.exclude
    }
}

fn asked<'w>(ask: &Ask<'w>, governed: bool) -> Asked<'w> {
    Asked {
        cluster: ask.is_cluster_target(),
        governed: if governed { ask.namespace } else { "" },
        included: ask.included,
        excluded: ask.excluded,
    }
}

/// What namespaces contribute to the decisions of a selection.
pub(super) fn reach(selection: &Selection, namespaces: &[Arc<str>], universe: &Universe) -> Reach {
    let facts = namespaces
        .iter()
        .filter_map(|name| Some((name, universe.get(name)?)));
    facts
        .map(|(name, facts)| {
            let gate = selection.namespace_gate(&facts.labels, &facts.annotations);
            (Arc::clone(name), gate)
        })
        .collect()
}
