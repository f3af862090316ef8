//! What the operator may list and watch.

use std::collections::BTreeMap;

use kollect_watch::access::{Permission, Review};

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

    /// The answer to a review.
    pub fn get(&self, review: &Review) -> Option<&Permission> {
        self.0.get(review)
    }
}
