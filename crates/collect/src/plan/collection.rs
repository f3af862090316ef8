//! What a target that runs collects.

use std::collections::BTreeMap;
use std::sync::Arc;

use kollect_api::{GroupVersionKind, KollectProfile, meta};
use kollect_watch::{ObjectContent, Resource};

use super::resource::projection;
use crate::extract::Extractor;
use crate::gates::{Decision, NamespaceGate, ObjectView, PolicyFailures, Selection, Skip, Verdict};

/// A profile as it is used for extraction.
///
/// Two are equal when they extract the same: same spec, same security annotations. Other changes
/// of the profile (labels, status) are none.
#[derive(Debug)]
pub struct Extraction {
    /// The profile.
    pub profile: Arc<KollectProfile>,
    /// The profile, compiled.
    pub extractor: Extractor,
}

impl Extraction {
    /// The kind that rows carry, as the profile writes it.
    pub fn gvk(&self) -> &GroupVersionKind {
        &self.profile.spec.target_gvk
    }

    /// Whether this is the extraction of `profile`.
    pub fn is_of(&self, profile: &Arc<KollectProfile>) -> bool {
        let annotation = |profile: &KollectProfile, key: &str| {
            let annotations = profile.metadata.annotations.as_ref();
            annotations.and_then(|all| all.get(key)).cloned()
        };
        let own = &self.profile;
        Arc::ptr_eq(own, profile)
            || own.metadata.namespace == profile.metadata.namespace
                && own.metadata.name == profile.metadata.name
                && own.spec == profile.spec
                && meta::SECURITY_ANNOTATIONS
                    .iter()
                    .all(|key| annotation(own, key) == annotation(profile, key))
    }
}

impl PartialEq for Extraction {
    fn eq(&self, other: &Self) -> bool {
        self.is_of(&other.profile)
    }
}

/// Where a target collects from, and what each namespace contributes to decisions.
///
/// Objects of cluster-scoped kinds have no namespace; they are under the empty name, which no
/// namespace can have. No entry at all means that nothing is collected, never that everything is.
pub type Reach = BTreeMap<Arc<str>, NamespaceGate>;

/// What a target collects: one resource, from some namespaces, through a selection, with a
/// profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// What is listed and watched.
    pub resource: Arc<Resource>,
    /// What is taken out of each object.
    pub extraction: Arc<Extraction>,
    /// Which objects.
    pub selection: Arc<Selection>,
    /// From where. Targets that mean the same namespaces share it.
    pub reach: Arc<Reach>,
    /// From where it would, if everything could be read. What is in here and not in `reach` cannot
    /// be read at present: nothing new is known of it, and what was known stays.
    pub wanted: Arc<Reach>,
    /// Nothing is looked at any more, and what was collected stays as it is: the target may not go
    /// on, for a reason that is no reason to forget what it had.
    pub frozen: bool,
    /// The value of the annotation that asks for another look at everything.
    pub requested_at: Option<Arc<str>>,
}

impl Collection {
    /// Decides about an object of the resource. Workers ask [`Interest`](super::Interest)s, which
    /// exist only for namespaces the target collects from; this is for those who have an object
    /// and want to know what becomes of it, and why.
    pub fn decide(&self, object: &ObjectView<'_>) -> Verdict {
        match self.reach.get(object.namespace()) {
            Some(gate) => self.selection.decide(gate, object),
            None => Verdict {
                decision: Decision::Skip(Skip::Namespace),
                policy_failures: PolicyFailures::default(),
            },
        }
    }

    /// The same as far as it goes before access is looked at.
    pub(super) fn regardless_of_access(self: &Arc<Self>) -> Arc<Self> {
        if self.frozen || Arc::ptr_eq(&self.reach, &self.wanted) {
            return Arc::clone(self);
        }
        Arc::new(Self {
            reach: Arc::clone(&self.wanted),
            ..Self::clone(self)
        })
    }

    /// The same without looking at anything any more.
    pub(super) fn freeze(&self) -> Self {
        Self {
            reach: Arc::default(),
            frozen: true,
            ..self.clone()
        }
    }

    /// How much of each object is needed.
    pub fn content(&self) -> ObjectContent {
        projection(std::iter::once(self)).content()
    }
}
