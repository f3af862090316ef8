//! What has to be watched, and how wide.

use std::collections::BTreeSet;
use std::sync::Arc;

use kollect_watch::{
    ObjectContent, Resource, WatchScope, WatchSubject,
    access::{Permission, Review},
};

use super::access::Access;
use super::collection::Collection;
use super::world::Settings;

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
    pub content: ObjectContent,
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

    /// What to ask the API server for.
    pub fn subject(&self) -> WatchSubject {
        WatchSubject {
            selector: self.selector.clone(),
            ..WatchSubject::new(Arc::clone(&self.resource), self.scope.clone())
        }
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

fn review(resource: &Arc<Resource>, scope: &WatchScope) -> Review {
    Review {
        resource: Arc::clone(resource),
        scope: scope.clone(),
    }
}

fn is_denied(resource: &Arc<Resource>, scope: &WatchScope, access: &Access) -> bool {
    access.get(&review(resource, scope)) == Some(&Permission::Denied)
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
            if width.admits(resource, &WatchScope::All, running, access) {
                width.scopes.insert(WatchScope::All);
            } else if is_denied(resource, &WatchScope::All, access) {
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
            if width.admits(resource, &WatchScope::All, running, access) {
                width.scopes.insert(WatchScope::All);
                return width;
            }
            if !is_denied(resource, &WatchScope::All, access) {
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
            let scope = WatchScope::of(namespace);
            if open == bound {
                self.beyond.insert(Arc::clone(namespace));
            } else if self.admits(resource, &scope, running, access) {
                self.scopes.insert(scope);
                open += 1;
            } else if is_denied(resource, &scope, access) {
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
        scope: &WatchScope,
        running: &BTreeSet<WatchScope>,
        access: &Access,
    ) -> bool {
        let review = review(resource, scope);
        let runs = || running.contains(scope);
        let admitted = match access.get(&review) {
            Some(Permission::Allowed) => true,
            Some(Permission::Denied) => false,
            Some(Permission::Failed(error)) => {
                self.failure = Some(error.clone());
                runs()
            }
            None => runs(),
        };
        self.reviews.insert(review);
        admitted
    }

    /// Whether objects in this namespace are delivered.
    pub(super) fn serves(&self, namespace: &Arc<str>) -> bool {
        self.scopes.contains(&WatchScope::All) || self.scopes.contains(&WatchScope::of(namespace))
    }
}
