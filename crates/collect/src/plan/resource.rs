//! What the plan says about one resource.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use kollect_expr::Allowance;
use kollect_watch::{Resource, WatchScope};

use super::collection::{Collection, Reach};
use super::key::TargetKey;
use super::target::TargetPlan;
use super::watch::Watch;
use crate::decode::ObjectType;
use crate::gates::{NamespaceGate, ObjectView, Verdict};
use crate::projection::Projection;

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
    groups: Vec<Group>,
    /// Which groups collect from a namespace.
    by_namespace: HashMap<Arc<str>, Box<[usize]>>,
}

/// The targets that share a reach.
#[derive(Debug)]
struct Group {
    reach: Arc<Reach>,
    members: Vec<(TargetKey, Arc<Collection>)>,
}

/// One target that collects from one namespace.
#[derive(Debug, Clone, Copy)]
pub struct Interest<'p> {
    /// The target.
    pub key: &'p TargetKey,
    /// What it collects.
    pub collection: &'p Arc<Collection>,
    gate: &'p NamespaceGate,
}

impl Interest<'_> {
    /// Decides whether the target takes an object of the namespace.
    pub fn decide(&self, object: &ObjectView<'_>) -> Verdict {
        self.collection.selection.decide(self.gate, object)
    }

    /// The same within what is left of `allowance`.
    pub fn decide_within(&self, object: &ObjectView<'_>, allowance: &mut Allowance) -> Verdict {
        let selection = &self.collection.selection;
        selection.decide_within(self.gate, object, allowance)
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
        let content = projection.content();
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
        let groups = groups(&targets);
        let mut by_namespace: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
        for (at, group) in groups.iter().enumerate() {
            for namespace in group.reach.keys() {
                by_namespace.entry_ref(namespace).or_default().push(at);
            }
        }
        let by_namespace = by_namespace.into_iter();
        ResourcePlan {
            resource,
            watches,
            projection: Arc::new(projection),
            targets,
            groups,
            by_namespace: by_namespace
                .map(|(namespace, groups)| (namespace, groups.into()))
                .collect(),
        }
    }

    /// Whether this plan is made of these targets and watches these scopes.
    pub(super) fn is_of(&self, targets: &[Arc<TargetPlan>], scopes: &BTreeSet<WatchScope>) -> bool {
        super::same(&self.targets, targets)
            && self.watches.iter().map(|watch| &watch.scope).eq(scopes)
    }

    /// The targets that collect from this namespace (the empty name for cluster-scoped objects).
    /// No other target needs to hear about its objects.
    pub fn interests(&self, namespace: &str) -> impl Iterator<Item = Interest<'_>> {
        self.groups_in(namespace).flat_map(|(group, gate)| {
            group.members.iter().map(move |(key, collection)| Interest {
                key,
                collection,
                gate,
            })
        })
    }

    /// How many targets of this resource do not collect from this namespace.
    pub fn uninterested(&self, namespace: &str) -> usize {
        let interested = self
            .groups_in(namespace)
            .map(|(group, _)| group.members.len());
        self.targets.len() - interested.sum::<usize>()
    }

    fn groups_in(&self, namespace: &str) -> impl Iterator<Item = (&Group, &NamespaceGate)> {
        let groups = self.by_namespace.get_key_value(namespace);
        groups.into_iter().flat_map(|(namespace, groups)| {
            let groups = groups.iter().map(|at| &self.groups[*at]);
            groups.filter_map(|group| Some((group, group.reach.get(namespace)?)))
        })
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
}

/// Targets by their reach, in the order in which they come.
fn groups(targets: &[Arc<TargetPlan>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<*const Reach, usize> = HashMap::new();
    for target in targets {
        let Some(collection) = target.collection() else {
            continue;
        };
        let at = *known
            .entry(Arc::as_ptr(&collection.reach))
            .or_insert_with(|| {
                groups.push(Group {
                    reach: Arc::clone(&collection.reach),
                    members: Vec::new(),
                });
                groups.len() - 1
            });
        let member = (target.key.clone(), Arc::clone(collection));
        groups[at].members.push(member);
    }
    groups
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
    let mut profiles = HashSet::new();
    for collection in collections {
        object_type = collection.extraction.gvk().into();
        reads.push(collection.selection.reads());
        if profiles.insert(Arc::as_ptr(&collection.extraction)) {
            reads.push(collection.extraction.extractor.reads());
        }
    }
    Projection::new(object_type, reads)
}
