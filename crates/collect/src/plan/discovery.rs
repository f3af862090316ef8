//! From kinds to resources, as the API server says.

use std::sync::Arc;

use hashbrown::HashMap;
use kollect_api::GroupVersionKind;

use crate::resource::Resource;

/// What discovery says about a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindFact {
    /// The kind is served as this resource.
    Served(Arc<Resource>),
    /// The kind is not installed.
    NotInstalled,
    /// Discovery of its group failed; try again.
    Failed(String),
}

/// What is known about kinds. A kind that is not in here was never asked about.
///
/// Plurals are never guessed. Group, version and kind are compared exactly, as the API server
/// does.
#[derive(Debug, Clone, Default)]
pub struct Kinds(HashMap<GroupVersionKind, KindFact>);

impl Kinds {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers an answer, in place of an older one.
    pub fn set(&mut self, gvk: GroupVersionKind, fact: KindFact) {
        self.0.insert(gvk, fact);
    }

    /// What is known about a kind.
    pub fn get(&self, gvk: &GroupVersionKind) -> Option<&KindFact> {
        self.0.get(gvk)
    }
}
