//! From kinds to resources, as the API server says.

use std::sync::Arc;

use hashbrown::HashMap;
use kollect_api::GroupVersionKind;
use kollect_watch::{
    Resource,
    discovery::{Answer, Served},
};

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

impl KindFact {
    /// What an answer of the API server means for somebody who needs these verbs.
    pub fn of(answer: Answer, needed: &[&str]) -> Self {
        let offers = |served: &Served, verb: &str| served.verbs.iter().any(|known| known == verb);
        match answer {
            Answer::Installed(served) if needed.iter().all(|verb| offers(&served, verb)) => {
                KindFact::Served(Arc::clone(&served.resource))
            }
            Answer::Installed(served) => KindFact::Failed(format!(
                "{} does not offer {}: the API server knows only {} for it",
                served.resource.plural,
                needed.join(" and "),
                served.verbs.join(", ")
            )),
            Answer::NotInstalled(_) => KindFact::NotInstalled,
            Answer::Unreachable(why) => KindFact::Failed(why),
        }
    }
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
