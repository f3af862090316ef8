//! What the operator may list and watch.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resource::Resource;

/// A question for the API server: may we `list` and `watch` this resource, in this namespace or
/// everywhere?
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Review {
    /// The resource.
    pub resource: Arc<Resource>,
    /// The namespace; `None` asks about all of them, and about cluster-scoped resources.
    pub namespace: Option<Arc<str>>,
}

/// The answer to a [`Review`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Both verbs are allowed.
    Allowed,
    /// At least one is not.
    Denied,
    /// The review itself failed; try again.
    Failed(String),
}

/// All answers so far. Reviews are asked before a watch is opened, never per object.
#[derive(Debug, Clone, Default)]
pub struct Access(BTreeMap<Review, Permission>);

impl Access {
    /// Nothing was asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers an answer, in place of an older one.
    ///
    /// A failed review does not make a known answer unknown: it is kept until a definite one
    /// comes.
    pub fn set(&mut self, review: Review, permission: Permission) {
        let definite = !matches!(permission, Permission::Failed(_));
        let known = matches!(
            self.0.get(&review),
            Some(Permission::Allowed | Permission::Denied)
        );
        if definite || !known {
            self.0.insert(review, permission);
        }
    }

    /// Forgets answers that no plan needs any more.
    pub fn retain(&mut self, mut keep: impl FnMut(&Review) -> bool) {
        self.0.retain(|review, _| keep(review));
    }

    /// The answer for one namespace or for all.
    pub fn get(
        &self,
        resource: &Arc<Resource>,
        namespace: Option<&Arc<str>>,
    ) -> Option<&Permission> {
        self.0.get(&Review {
            resource: Arc::clone(resource),
            namespace: namespace.cloned(),
        })
    }
}
