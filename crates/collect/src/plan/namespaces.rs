//! The namespaces of the cluster, and which of them a target means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kollect_api::selector::LabelSelector;

use super::world::Settings;
use crate::gates::{Selector, SelectorError};

/// The label every namespace has, with its own name as value.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What is known about one namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// The namespaces as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NamespaceListing {
    /// They have not been read yet. No target is decided about, so that a plan that is made too
    /// early does no harm.
    #[default]
    Unread,
    /// They could not be read, for this reason, and never have been. Targets say so; nothing else
    /// is decided about them.
    Unreadable(String),
    /// All namespaces there are, also those that are terminating.
    Complete(BTreeMap<String, NamespaceFacts>),
    /// Namespaces could not be listed; these are the ones that could be read one by one. Only
    /// `--watch-namespaces` then says which exist.
    Partial(BTreeMap<String, NamespaceFacts>),
}

impl NamespaceListing {
    /// Whether it is known which namespaces there are, as far as that matters.
    pub fn is_known(&self) -> bool {
        matches!(
            self,
            NamespaceListing::Complete(_) | NamespaceListing::Partial(_)
        )
    }
}

/// The namespaces that targets may mean at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Universe {
    namespaces: BTreeMap<Arc<str>, NamespaceFacts>,
    /// Those whose labels cannot be read.
    unlabelled: BTreeSet<Arc<str>>,
}

impl Universe {
    /// All namespaces, or those of `--watch-namespaces`. A watched namespace whose labels cannot
    /// be read has only the label that every namespace has.
    pub fn new(listing: &NamespaceListing, settings: &Settings) -> Self {
        let watched: BTreeSet<&str> = settings
            .watch_namespaces
            .iter()
            .map(|name| name.trim())
            .filter(|name| !name.is_empty())
            .collect();
        let known = match listing {
            NamespaceListing::Unread | NamespaceListing::Unreadable(_) => None,
            NamespaceListing::Complete(known) | NamespaceListing::Partial(known) => Some(known),
        };
        let mut all: BTreeMap<Arc<str>, NamespaceFacts> = known
            .into_iter()
            .flatten()
            .filter(|(name, _)| {
                if watched.is_empty() {
                    !settings.tenant_mode
                } else {
                    watched.contains(name.as_str())
                }
            })
            .map(|(name, facts)| (name.as_str().into(), facts.clone()))
            .collect();
        let mut unlabelled = BTreeSet::new();
        if matches!(listing, NamespaceListing::Partial(_)) {
            for name in watched {
                all.entry(name.into()).or_insert_with(|| {
                    unlabelled.insert(name.into());
                    NamespaceFacts {
                        labels: BTreeMap::from([(NAME_LABEL.to_owned(), name.to_owned())]),
                        annotations: BTreeMap::new(),
                    }
                });
            }
        }
        Universe {
            namespaces: all,
            unlabelled,
        }
    }

    /// What is known about a namespace.
    pub fn get(&self, name: &str) -> Option<&NamespaceFacts> {
        self.namespaces.get(name)
    }

    /// The first of these whose labels and annotations cannot be read.
    pub fn first_unlabelled<'n>(&self, names: &'n [Arc<str>]) -> Option<&'n str> {
        let mut names = names.iter();
        names
            .find(|name| self.unlabelled.contains(*name))
            .map(|name| &**name)
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &NamespaceFacts)> {
        self.namespaces.iter()
    }
}

/// Which namespaces a target asks for, before any scope.
#[derive(Debug)]
pub struct NamespaceIntent<'t> {
    included: BTreeSet<&'t str>,
    excluded: BTreeSet<&'t str>,
    selector: Selector,
    exclude: Option<Selector>,
    /// The selectors ask for more than the name of a namespace.
    asks_for_labels: bool,
}

impl<'t> NamespaceIntent<'t> {
    /// Combines the fields of a target with the operator's defaults. A selector that means nothing
    /// is an error: ignoring an exclusion would collect what somebody wanted out.
    pub fn new(
        included: &'t [String],
        excluded: &'t [String],
        selector: Option<&LabelSelector>,
        exclude: Option<&LabelSelector>,
        settings: &'t Settings,
    ) -> Result<Self, IntentError> {
        let included = if names(included).next().is_none() {
            &settings.default_included_namespaces
        } else {
            included
        };
        Ok(NamespaceIntent {
            included: names(included).collect(),
            excluded: names(excluded)
                .chain(names(&settings.default_excluded_namespaces))
                .collect(),
            asks_for_labels: [selector, exclude]
                .into_iter()
                .flatten()
                .any(asks_for_labels),
            selector: Selector::compile_optional(selector).map_err(IntentError::Selector)?,
            exclude: exclude
                .map(Selector::compile)
                .transpose()
                .map_err(IntentError::ExcludeSelector)?,
        })
    }

    /// Whether the target asks for this namespace.
    pub fn matches(&self, name: &str, facts: &NamespaceFacts) -> bool {
        (self.included.is_empty() || self.included.contains(name))
            && !self.excludes(name)
            && self.selector.matches(&facts.labels)
            && self
                .exclude
                .as_ref()
                .is_none_or(|exclude| !exclude.matches(&facts.labels))
    }

    /// A namespace of which it cannot be said whether the target asks for it: its labels decide,
    /// and they cannot be read.
    pub fn undecided<'u>(&self, universe: &'u Universe) -> Option<&'u str> {
        if !self.asks_for_labels {
            return None;
        }
        let named = |name: &str| self.included.is_empty() || self.included.contains(name);
        let mut unlabelled = universe.unlabelled.iter().map(|name| &**name);
        unlabelled.find(|name| named(name) && !self.excludes(name))
    }

    /// Whether the target or the operator excludes this namespace by name.
    pub fn excludes(&self, name: &str) -> bool {
        self.excluded.contains(name)
    }
}

/// Whether a selector asks for more than the one label that is known of every namespace.
pub(super) fn asks_for_labels(selector: &LabelSelector) -> bool {
    let expressions = selector.match_expressions.iter();
    let mut keys = selector
        .match_labels
        .keys()
        .chain(expressions.map(|expression| &expression.key));
    keys.any(|key| key != NAME_LABEL)
}

/// Names of a list without blanks around them; empty ones name nothing.
pub(super) fn names(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter()
        .map(|name| name.trim())
        .filter(|name| !name.is_empty())
}

/// A namespace selector that means nothing. The text names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// `spec.namespaceSelector`.
    #[error("spec.namespaceSelector.{0}")]
    Selector(SelectorError),
    /// `spec.namespaceExcludeSelector`.
    #[error("spec.namespaceExcludeSelector.{0}")]
    ExcludeSelector(SelectorError),
}
