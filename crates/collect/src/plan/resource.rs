//! What the plan says about one resource.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use super::collection::Collection;
use super::key::TargetKey;
use super::target::TargetPlan;
use super::watch::{Content, Watch, WatchScope};
use crate::decode::ObjectType;
use crate::gates::{NamespaceGate, ObjectView, Verdict};
use crate::projection::Projection;
use crate::resource::Resource;

/// All targets of one resource, seen from its objects.
#[derive(Debug)]
pub struct ResourcePlan {
    /// The resource.
    pub resource: Arc<Resource>,
    /// What to watch. Usually one; several where only single namespaces may be watched.
    pub watches: BTreeSet<Watch>,
    /// Decodes what its targets look at, and nothing else.
    pub projection: Arc<Projection>,
    targets: Vec<Arc<TargetPlan>>,
    interests: HashMap<Arc<str>, Box<[Interest]>>,
}

/// One target that collects from one namespace.
#[derive(Debug, Clone)]
pub struct Interest {
    /// The target.
    pub key: TargetKey,
    /// What it collects.
    pub collection: Arc<Collection>,
    gate: NamespaceGate,
}

impl Interest {
    /// Decides whether the target takes an object of the namespace.
    pub fn decide(&self, object: &ObjectView<'_>) -> Verdict {
        self.collection.selection.decide(&self.gate, object)
    }
}

impl ResourcePlan {
    /// Puts the targets of a resource together. `scopes` is the width; a watch of the previous plan
    /// that delivers as much or more is kept.
    pub(super) fn new(
        resource: Arc<Resource>,
        targets: Vec<Arc<TargetPlan>>,
        scopes: BTreeSet<WatchScope>,
        previous: Option<&ResourcePlan>,
    ) -> Self {
        let collections = || targets.iter().filter_map(|target| target.collection());
        let projection = projection(collections().map(|collection| &**collection));
        let selector = common_selector(collections());
        let content = Content::of(&projection);
        let running = previous.into_iter().flat_map(|plan| &plan.watches);
        let watches = scopes
            .into_iter()
            .map(|scope| {
                let wanted = Watch {
                    resource: Arc::clone(&resource),
                    scope,
                    selector: selector.clone(),
                    content,
                };
                let kept = running.clone().find(|watch| watch.stands_for(&wanted));
                kept.cloned().unwrap_or(wanted)
            })
            .collect();
        let mut interests: HashMap<Arc<str>, Vec<Interest>> = HashMap::new();
        for target in &targets {
            let Some(collection) = target.collection() else {
                continue;
            };
            for (namespace, gate) in &collection.reach {
                interests.entry_ref(namespace).or_default().push(Interest {
                    key: target.key.clone(),
                    collection: Arc::clone(collection),
                    gate: gate.clone(),
                });
            }
        }
        ResourcePlan {
            resource,
            watches,
            projection: Arc::new(projection),
            targets,
            interests: interests
                .into_iter()
                .map(|(namespace, interests)| (namespace, interests.into()))
                .collect(),
        }
    }

    /// The targets that collect from this namespace (the empty name for cluster-scoped objects).
    /// No other target needs to hear about its objects.
    pub fn interests(&self, namespace: &str) -> &[Interest] {
        self.interests.get(namespace).map_or(&[], |all| all)
    }

    /// How many targets of this resource do not collect from this namespace.
    pub fn uninterested(&self, namespace: &str) -> usize {
        self.targets.len() - self.interests(namespace).len()
    }

    /// The targets whose rows a list of this scope can confirm or sweep.
    pub fn targets_in(&self, scope: &WatchScope) -> impl Iterator<Item = &Arc<TargetPlan>> {
        self.targets.iter().filter(move |target| {
            target.collection().is_some_and(|collection| match scope {
                WatchScope::All => true,
                WatchScope::Namespace(namespace) => collection.reach.contains_key(namespace),
            })
        })
    }

    /// Whether the resource is watched in all namespaces at once.
    pub fn is_cluster_wide(&self) -> bool {
        self.watches
            .iter()
            .any(|watch| watch.scope == WatchScope::All)
    }
}

/// The label selector that all collections ask for, if they agree on one.
fn common_selector<'c>(
    mut collections: impl Iterator<Item = &'c Arc<Collection>>,
) -> Option<Arc<str>> {
    let first = collections.next()?.selection.labels()?;
    collections
        .all(|collection| collection.selection.labels() == Some(first))
        .then(|| first.query().into())
}

/// The decoder for everything that collections look at. They all collect the same kind.
pub(super) fn projection<'c>(collections: impl Iterator<Item = &'c Collection>) -> Projection {
    let mut object_type = ObjectType {
        api_version: String::new(),
        kind: String::new(),
    };
    let mut reads = Vec::new();
    for collection in collections {
        object_type = collection.extraction.gvk().into();
        reads.push(collection.extraction.extractor.reads());
        reads.push(collection.selection.reads());
    }
    Projection::new(object_type, reads)
}
