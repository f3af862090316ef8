//! What has to be watched, and how wide.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::access::{Access, Permission, Review};
use super::collection::Collection;
use super::world::Settings;
use crate::projection::Projection;
use crate::resource::Resource;

/// How wide a list or watch is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchScope {
    /// All namespaces, or all objects of a cluster-scoped resource.
    All,
    /// One namespace.
    Namespace(Arc<str>),
}

impl WatchScope {
    /// The scope of objects in this namespace; the empty name is that of cluster-scoped objects.
    pub fn of(namespace: &Arc<str>) -> Self {
        if namespace.is_empty() {
            WatchScope::All
        } else {
            WatchScope::Namespace(Arc::clone(namespace))
        }
    }

    /// Whether objects in this namespace are within the scope.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            WatchScope::All => true,
            WatchScope::Namespace(name) => **name == *namespace,
        }
    }

    /// Whether everything in `other` is within this scope.
    pub fn covers(&self, other: &WatchScope) -> bool {
        *self == WatchScope::All || self == other
    }
}

impl fmt::Display for WatchScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchScope::All => f.write_str("all namespaces"),
            WatchScope::Namespace(name) => write!(f, "namespace {name:?}"),
        }
    }
}

/// How much of each object a watch asks the API server for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// Only metadata, as `PartialObjectMetadata`.
    Metadata,
    /// The whole object.
    Object,
}

impl Content {
    /// What a decoder needs.
    pub(super) fn of(projection: &Projection) -> Self {
        if projection.is_metadata_only() {
            Content::Metadata
        } else {
            Content::Object
        }
    }
}

/// One list and watch. Two equal watches are the same connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watch {
    /// What.
    pub resource: Arc<Resource>,
    /// How wide.
    pub scope: WatchScope,
    /// `labelSelector=`, if all targets of the resource ask for the same labels.
    pub selector: Option<Arc<str>>,
    /// How much of each object.
    pub content: Content,
}

impl Watch {
    /// Whether everything that a target needs of the objects in this scope is delivered. That is
    /// so for every watch of a plan and the targets of the same plan. A watch of an older plan
    /// that is about to be closed must not be used for a target it does not serve: it would show
    /// too little of objects, or too few of them.
    pub fn serves(&self, collection: &Collection) -> bool {
        let labels = collection.selection.labels();
        let labelled = self
            .selector
            .as_ref()
            .is_none_or(|selector| labels.is_some_and(|labels| labels.query() == **selector));
        labelled && self.content >= collection.content()
    }

    /// Whether a running watch delivers everything `wanted` would, so that it can stay: a watch is
    /// not narrowed while it runs, because narrowing would cost a new list and gain little.
    pub(super) fn stands_for(&self, wanted: &Watch) -> bool {
        self.resource == wanted.resource
            && self.scope == wanted.scope
            && (self.selector.is_none() || self.selector == wanted.selector)
            && self.content >= wanted.content
    }
}

/// How a resource is watched, and what of it cannot be.
#[derive(Debug, Default)]
pub(super) struct Width {
    /// What to watch.
    pub(super) scopes: BTreeSet<WatchScope>,
    /// Where access is denied.
    pub(super) forbidden: BTreeSet<Arc<str>>,
    /// What is left out because it would take too many watches.
    pub(super) beyond: BTreeSet<Arc<str>>,
    /// What the width depends on, answered or not.
    pub(super) reviews: BTreeSet<Review>,
    /// Why an access review failed where its answer is missed.
    pub(super) failure: Option<String>,
}

impl Width {
    /// Chooses the width for everything that the targets of a resource want.
    ///
    /// `running` are the scopes that are watched already. They stay while nothing definite is
    /// known against them, and a cluster-wide watch stays as long as the resource is wanted at all.
    pub(super) fn choose(
        resource: &Arc<Resource>,
        wanted: &BTreeSet<Arc<str>>,
        running: &BTreeSet<WatchScope>,
        access: &Access,
        settings: &Settings,
    ) -> Self {
        let mut width = Width::default();
        if wanted.is_empty() {
            return width;
        }
        if !resource.namespaced {
            if width.admits(resource, None, running, access) {
                width.scopes.insert(WatchScope::All);
            } else if access.get(resource, None) == Some(&Permission::Denied) {
                width.forbidden.clone_from(wanted);
            }
            return width;
        }
        let separately = !settings.watch_namespaces.is_empty();
        let few = if separately {
            settings.separate_watches
        } else {
            1
        };
        let cluster_wide =
            !settings.tenant_mode && (wanted.len() > few || running.contains(&WatchScope::All));
        if cluster_wide {
            if width.admits(resource, None, running, access) {
                width.scopes.insert(WatchScope::All);
                return width;
            }
            if access.get(resource, None) != Some(&Permission::Denied) {
                // Whether one watch will do is not known yet; until then what runs keeps running.
                let wanted = wanted.iter().map(WatchScope::of);
                width.scopes = wanted.filter(|scope| running.contains(scope)).collect();
                return width;
            }
        }
        width.separate(resource, wanted, running, access, settings);
        width
    }

    /// One watch per namespace, as far as access and the bound go. What runs comes first, so that
    /// a new namespace does not push out an old one.
    fn separate(
        &mut self,
        resource: &Arc<Resource>,
        wanted: &BTreeSet<Arc<str>>,
        running: &BTreeSet<WatchScope>,
        access: &Access,
        settings: &Settings,
    ) {
        let bound = settings
            .max_namespace_watches
            .max(settings.watch_namespaces.len());
        let (first, rest): (Vec<_>, Vec<_>) = wanted
            .iter()
            .partition(|namespace| running.contains(&WatchScope::of(namespace)));
        let mut open = 0;
        for namespace in first.into_iter().chain(rest) {
            if open == bound {
                self.beyond.insert(Arc::clone(namespace));
            } else if self.admits(resource, Some(namespace), running, access) {
                self.scopes.insert(WatchScope::of(namespace));
                open += 1;
            } else if access.get(resource, Some(namespace)) == Some(&Permission::Denied) {
                self.forbidden.insert(Arc::clone(namespace));
            } else {
                open += 1;
            }
        }
    }

    /// Whether a scope may be watched: access is granted, or the watch runs and nothing definite
    /// is known against it.
    fn admits(
        &mut self,
        resource: &Arc<Resource>,
        namespace: Option<&Arc<str>>,
        running: &BTreeSet<WatchScope>,
        access: &Access,
    ) -> bool {
        self.reviews.insert(Review {
            resource: Arc::clone(resource),
            namespace: namespace.cloned(),
        });
        let runs = || running.contains(&namespace.map_or(WatchScope::All, WatchScope::of));
        match access.get(resource, namespace) {
            Some(Permission::Allowed) => true,
            Some(Permission::Denied) => false,
            Some(Permission::Failed(error)) => {
                self.failure = Some(error.clone());
                runs()
            }
            None => runs(),
        }
    }

    /// Whether objects in this namespace are delivered.
    pub(super) fn serves(&self, namespace: &Arc<str>) -> bool {
        self.scopes.contains(&WatchScope::All) || self.scopes.contains(&WatchScope::of(namespace))
    }
}
