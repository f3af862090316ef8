//! Which rows an inventory takes. Pure, and the one answer for operator and command line.
//!
//! ```text
//! KollectInventory          rows of all targets in its namespace
//! KollectClusterInventory   targets it names ∩ targets that look at its namespaces
//!                           namespaces: listed ∩ selected by labels
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kollect_api::{
    KollectClusterTarget, inventory::KollectClusterInventorySpec, selector::LabelSelector,
};

use crate::{
    gates::{Selector, SelectorError},
    plan::{NamespaceFacts, NamespaceListing},
    store::RowSelection,
};

/// What can be said about the rows of a cluster inventory.
#[derive(Debug, Clone)]
pub enum ClusterRows<'t> {
    /// Not all namespaces are known, so nobody can tell. Not knowing is not emptiness: nothing may
    /// be exported or removed for it.
    NotKnownYet,
    /// No cluster target is meant: none has such labels, or there is none.
    NoTargets,
    /// Targets that are meant by name and do not exist, or are about to go. What their rows would be
    /// is not known.
    Missing(Vec<&'t str>),
    /// These rows.
    Known {
        /// The rows.
        selection: RowSelection,
        /// The targets they come from. There may be none although some are meant, if those look
        /// elsewhere or no namespace is selected any more: then the rollup is empty, and what was
        /// exported before has to go.
        targets: Vec<&'t KollectClusterTarget>,
    },
}

/// A selector of an inventory that means nothing. It must be shown and never be ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("spec.{field}.{problem}")]
pub struct InvalidSelector {
    /// The field of the spec.
    pub field: &'static str,
    /// What is wrong with it.
    #[source]
    pub problem: SelectorError,
}

/// The rows of a `KollectInventory`.
pub fn of_inventory(namespace: &str) -> RowSelection {
    RowSelection::Namespace(namespace.to_owned())
}

/// The rows of a `KollectClusterInventory`.
///
/// A selector that is not there restricts nothing. Targets that are being deleted contribute
/// nothing.
pub fn of_cluster_inventory<'t>(
    spec: &'t KollectClusterInventorySpec,
    targets: &'t [Arc<KollectClusterTarget>],
    namespaces: &NamespaceListing,
) -> Result<ClusterRows<'t>, InvalidSelector> {
    let meant = MeantTargets::compile(spec)?;
    let by_labels = compile("namespaceSelector", spec.namespace_selector.as_ref())?;
    let NamespaceListing::Complete(known) = namespaces else {
        return Ok(ClusterRows::NotKnownYet);
    };
    let listed = names(&spec.namespaces);
    let namespaces: BTreeMap<&str, &NamespaceFacts> = known
        .iter()
        .map(|(name, facts)| (name.as_str(), facts))
        .filter(|(name, _)| listed.is_empty() || listed.contains(name))
        .filter(|(_, facts)| by_labels.matches(&facts.labels))
        .collect();
    let live = || {
        let targets = targets.iter().map(Arc::as_ref);
        targets.filter(|target| target.metadata.deletion_timestamp.is_none())
    };
    if let MeantTargets::Named(wanted) = &meant {
        let found: BTreeSet<&str> = live()
            .filter_map(|target| target.metadata.name.as_deref())
            .collect();
        let missing: Vec<&str> = wanted.difference(&found).copied().collect();
        if wanted.is_empty() || !missing.is_empty() {
            return Ok(ClusterRows::Missing(missing));
        }
    }
    let mut meant = live().filter(|target| meant.includes(target)).peekable();
    if meant.peek().is_none() {
        return Ok(ClusterRows::NoTargets);
    }
    let targets: Vec<_> = meant
        .filter(|target| may_contribute(target, namespaces.values().copied()))
        .collect();
    let names = targets.iter().filter_map(|one| one.metadata.name.clone());
    Ok(ClusterRows::Known {
        selection: RowSelection::Cluster {
            targets: names.collect(),
            namespaces: namespaces.into_keys().map(str::to_owned).collect(),
        },
        targets,
    })
}

/// The cluster targets that an inventory means, wherever they look.
enum MeantTargets<'s> {
    /// Those in the list. It wins over the selector even if nothing but blanks is in it: somebody
    /// who lists targets never means all of them.
    Named(BTreeSet<&'s str>),
    Labelled(Selector),
}

impl<'s> MeantTargets<'s> {
    fn compile(spec: &'s KollectClusterInventorySpec) -> Result<Self, InvalidSelector> {
        let by_labels = compile("targetSelector", spec.target_selector.as_ref())?;
        Ok(if spec.target_refs.is_empty() {
            Self::Labelled(by_labels)
        } else {
            Self::Named(names(&spec.target_refs))
        })
    }

    fn includes(&self, target: &KollectClusterTarget) -> bool {
        match self {
            Self::Named(names) => {
                let name = target.metadata.name.as_deref();
                name.is_some_and(|name| names.contains(name))
            }
            Self::Labelled(selector) => match &target.metadata.labels {
                Some(labels) => selector.matches(labels),
                None => selector.matches(&BTreeMap::new()),
            },
        }
    }
}

/// Whether a target looks at one of these namespaces. Of a target whose own selector means nothing
/// that cannot be said: it stays, so that its rows are not taken for gone.
fn may_contribute<'n>(
    target: &KollectClusterTarget,
    mut namespaces: impl Iterator<Item = &'n NamespaceFacts>,
) -> bool {
    let Some(selector) = &target.spec.namespace_selector else {
        return true;
    };
    match Selector::compile(selector) {
        Ok(selector) => namespaces.any(|facts| selector.matches(&facts.labels)),
        Err(_) => true,
    }
}

fn compile(
    field: &'static str,
    selector: Option<&LabelSelector>,
) -> Result<Selector, InvalidSelector> {
    Selector::compile_optional(selector).map_err(|problem| InvalidSelector { field, problem })
}

/// The entries of a list of names, without blanks.
fn names(entries: &[String]) -> BTreeSet<&str> {
    entries
        .iter()
        .map(|entry| entry.trim())
        .filter(|entry| !entry.is_empty())
        .collect()
}
