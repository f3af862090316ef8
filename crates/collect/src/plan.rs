//! What to collect: from the objects a user wrote to watches, gates and projections.
//!
//! [`Plan::next`] is a pure function from a [`World`] (targets, profiles, scopes, namespaces,
//! discovery, access, settings) to a [`Plan`]: one [`TargetPlan`] per target, one [`ResourcePlan`]
//! per watched resource. [`Plan::delta_from`] says what has to be done to get from one plan to the
//! next. Nothing here waits, asks a server or remembers anything but the plan itself.
//!
//! # How to drive it
//!
//! The caller keeps the world up to date from its own watches (one shared watch of namespaces, not
//! a list per target) and makes a new plan when anything in it changed, after a short pause that
//! gathers bursts. The first plan must not be made before all those watches have delivered their
//! first list, else targets seem to be missing.
//!
//! ```text
//! let plan  = Arc::new(old.next(&world));
//! let delta = plan.delta_from(&old);
//! 1. make `plan` the one that workers use for events they start to handle from now on
//! 2. store.apply(&plan, &delta)       rows of ended targets and left namespaces go,
//!                                     decisions made with the old plan are no longer accepted
//! 3. delta.open                       open the watch; begin_listing for targets_in(scope);
//!                                     finish_listing when the first list is through
//! 4. delta.relist                     list that scope once, for those targets only
//! 5. delta.close                      after everything opened for the resource has listed;
//!                                     after a few minutes if nothing was opened;
//!                                     until then only for targets it serves (Watch::serves)
//! 6. ask plan.unknown_kinds and plan.reviews, put the answers into the world, plan again;
//!    ask all reviews again every 30 s, and plan.unsettled_kinds at least every 60 s
//! 7. write the status of each target whose TargetPlan differs from the old one
//! ```
//!
//! A worker takes the current plan once per event and uses it for the projection of the decoder,
//! for [`ResourcePlan::interests`], [`Interest::decide`] and extraction; the plan's [`Plan::epoch`] goes
//! with every write into the store. A list for step 3 or 4 must show at least everything that
//! watches have delivered before: ask for the most recent state, not for what a cache happens to
//! have.
//!
//! # What never happens
//!
//! - An empty set of namespaces never means "all".
//! - A failed request never ends a collection; only definite answers do. While something cannot be
//!   read, a target goes on with what it had, within the scopes that are known.
//! - A kind that is not installed, or a namespace that is forbidden, is a matter of its targets
//!   and holds up nobody else.
//! - A namespaced and a cluster target of the same name have nothing to do with each other.

mod access;
mod ask;
mod basis;
mod ceilings;
mod checks;
mod collection;
mod degraded;
mod delta;
mod discovery;
mod draft;
mod key;
mod namespaces;
mod places;
mod resource;
mod target;
mod watch;
mod world;

use kollect_watch::{Resource, access::Review};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, atomic::Ordering};

use hashbrown::HashSet;
use kollect_api::GroupVersionKind;
use kollect_inventory::TargetKind;

use self::basis::{Basis, Drafted, Inputs};
use self::draft::Drafting;
use self::watch::Width;

pub use self::access::Access;
pub use self::ceilings::Ceilings;
pub use self::collection::{Collection, Extraction, Reach};
pub use self::degraded::Degradation;
pub use self::delta::{Again, PlanDelta, Revision, TargetChange};
pub use self::discovery::{KindFact, Kinds};
pub use self::key::TargetKey;
pub use self::namespaces::{
    IntentError, NamespaceFacts, NamespaceIntent, NamespaceListing, Universe,
};
pub use self::resource::{Interest, ResourcePlan};
pub use self::target::{Course, Names, TargetNamespaces, TargetPlan, TargetState};
pub use self::watch::Watch;
pub use self::world::{Excess, ProfileFact, Readable, Settings, World, comma_list};

/// A plan's place in the sequence of plans. Decisions carry it, so that one made with a plan that
/// is no longer valid can be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

/// What to collect. Immutable; workers share it.
#[derive(Debug, Default)]
pub struct Plan {
    epoch: Epoch,
    targets: BTreeMap<TargetKey, Arc<TargetPlan>>,
    resources: BTreeMap<Arc<Resource>, Arc<ResourcePlan>>,
    separate_watches: usize,
    basis: Basis,
    /// The plans of targets before access was looked at, where nothing was missing.
    drafts: BTreeMap<TargetKey, Drafted>,
    wishes: BTreeMap<Arc<Resource>, Wish>,
    /// Kinds that discovery has to be asked about.
    pub unknown_kinds: Vec<GroupVersionKind>,
    /// Kinds that were not there, or could not be asked about, when discovery was asked last: to
    /// be asked again from time to time, since nobody may tell when they come.
    pub unsettled_kinds: Vec<GroupVersionKind>,
    /// What access depends on: to be asked now if there is no answer, and again from time to time.
    pub reviews: BTreeSet<Review>,
}

/// The drafts of all targets of a resource, and the namespaces they want together.
#[derive(Debug)]
struct Wish {
    targets: Vec<Arc<TargetPlan>>,
    namespaces: Arc<BTreeSet<Arc<str>>>,
}

impl Plan {
    /// The plan before the first one: nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The plan for a new state of the world.
    ///
    /// What did not change is taken over from this plan: the plans of targets that depend on
    /// nothing new, compiled profiles and selections, and watches that are wide enough. So a pass
    /// costs what changed, not what there is.
    pub fn next(&self, world: &World) -> Plan {
        let basis = Basis::of(world);
        let inputs: Vec<Inputs> = Inputs::all(world).collect();
        let mut next = Plan {
            epoch: Epoch(self.epoch.0 + 1),
            separate_watches: world.settings.separate_watches,
            ..Plan::default()
        };
        for gvk in inputs.iter().filter_map(Inputs::unsettled_kind) {
            if !next.unsettled_kinds.contains(gvk) {
                next.unsettled_kinds.push(gvk.clone());
            }
        }
        let drafts = self.drafts(&basis, &inputs, world, &mut next.unknown_kinds);
        let mut by_resource: BTreeMap<Arc<Resource>, Vec<Arc<TargetPlan>>> = BTreeMap::new();
        let mut plans = Vec::with_capacity(inputs.len());
        for (inputs, (plan, definite)) in inputs.into_iter().zip(drafts) {
            if definite {
                let plan = Arc::clone(&plan);
                let drafted = Drafted { inputs, plan };
                next.drafts.insert(drafted.plan.key.clone(), drafted);
            }
            plans.push(plan);
        }
        plans.extend(self.unreadable(world));
        for plan in plans {
            match plan.collection() {
                Some(collection) => {
                    let resource = Arc::clone(&collection.resource);
                    by_resource.entry(resource).or_default().push(plan);
                }
                None => {
                    next.targets.insert(plan.key.clone(), plan);
                }
            }
        }
        for (resource, targets) in by_resource {
            next.add_resource(resource, targets, self, world);
        }
        next.basis = basis;
        next
    }

    /// The plans of targets as far as they go without access, and whether they are definite: those
    /// of this plan where nothing changed for them.
    fn drafts(
        &self,
        basis: &Basis,
        inputs: &[Inputs],
        world: &World,
        unknown_kinds: &mut Vec<GroupVersionKind>,
    ) -> Vec<(Arc<TargetPlan>, bool)> {
        let unchanged = *basis == self.basis;
        let known = self
            .targets
            .values()
            .filter_map(|target| target.collection());
        let extractions = known.map(|collection| Arc::clone(&collection.extraction));
        let mut drafting = Drafting::new(world, basis.universe(), extractions);
        let mut drafts = Vec::with_capacity(inputs.len());
        for inputs in inputs {
            let key = inputs.key();
            let before = self.drafts.get(&key).filter(|_| unchanged);
            if let Some(before) = before.filter(|before| before.inputs.are(inputs)) {
                drafts.push((Arc::clone(&before.plan), true));
                continue;
            }
            let previous = self.targets.get(&key).map(|plan| &**plan);
            let draft = drafting.draft(&inputs.ask(), previous);
            world.progress.fetch_add(1, Ordering::Relaxed);
            if let Some(gvk) = draft.unknown_kind
                && !unknown_kinds.contains(&gvk)
            {
                unknown_kinds.push(gvk);
            }
            drafts.push((Arc::new(draft.plan), draft.definite));
        }
        drafts
    }

    /// The plans of targets that cannot be decoded: what was collected goes on; where nothing was,
    /// nothing is known.
    fn unreadable(&self, world: &World) -> Vec<Arc<TargetPlan>> {
        let cluster = |key: &TargetKey| key.owner == TargetKind::ClusterTarget;
        let all = world.unreadable_targets.iter();
        all.filter(|(key, _)| !(world.settings.tenant_mode && cluster(key)))
            .map(|(key, why)| Arc::new(TargetPlan::unreadable(key, why, self.target(key))))
            .collect()
    }

    /// Chooses how a resource is watched and completes the plans of its targets with that.
    fn add_resource(
        &mut self,
        resource: Arc<Resource>,
        mut targets: Vec<Arc<TargetPlan>>,
        previous: &Plan,
        world: &World,
    ) {
        let wanted = previous.wanted(&resource, &targets);
        let wish = Wish {
            targets: targets.clone(),
            namespaces: Arc::clone(&wanted),
        };
        let running = previous.watches_of(&resource).iter();
        let running = running.map(|watch| watch.scope.clone()).collect();
        let width = Width::choose(&resource, &wanted, &running, &world.access, &world.settings);
        if !wanted.iter().all(|namespace| width.serves(namespace)) {
            for target in &mut targets {
                let mut narrowed = TargetPlan::clone(target);
                narrowed.narrow(&width);
                // What stays the same stays the very same, so that nobody looks at it again.
                let before = previous.targets.get(&target.key);
                let before = before.filter(|before| ***before == narrowed);
                *target = before.cloned().unwrap_or_else(|| Arc::new(narrowed));
            }
        }
        for target in &targets {
            self.targets.insert(target.key.clone(), Arc::clone(target));
        }
        if !width.scopes.is_empty() {
            let previous = previous.resource(&resource);
            let same = previous.filter(|plan| plan.is_of(&targets, &width.scopes));
            let plan = same.cloned().unwrap_or_else(|| {
                let previous = previous.map(|plan| &**plan);
                let resource = Arc::clone(&resource);
                Arc::new(ResourcePlan::new(resource, targets, width.scopes, previous))
            });
            self.resources.insert(Arc::clone(&resource), plan);
        }
        self.reviews.extend(width.reviews);
        self.wishes.insert(resource, wish);
    }

    /// All namespaces that some targets of a resource want.
    fn wanted(&self, resource: &Resource, targets: &[Arc<TargetPlan>]) -> Arc<BTreeSet<Arc<str>>> {
        if let Some(wish) = self.wishes.get(resource)
            && same(&wish.targets, targets)
        {
            return Arc::clone(&wish.namespaces);
        }
        let collections = targets.iter().filter_map(|target| target.collection());
        let mut reaches = HashSet::new();
        let reaches = collections
            .map(|collection| &collection.reach)
            .filter(|reach| reaches.insert(Arc::as_ptr(reach)));
        let names: HashSet<&Arc<str>> = reaches.flat_map(|reach| reach.keys()).collect();
        Arc::new(names.into_iter().cloned().collect())
    }

    /// What has to be done to get here from `old`.
    pub fn delta_from(&self, old: &Plan) -> PlanDelta {
        PlanDelta::between(old, self, self.separate_watches)
    }

    /// This plan's place in the sequence of plans.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The plan of one target.
    pub fn target(&self, key: &TargetKey) -> Option<&Arc<TargetPlan>> {
        self.targets.get(key)
    }

    /// The plans of all targets, also of those that do not collect.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<TargetPlan>> {
        self.targets.values()
    }

    /// The plan of one resource, if it is watched.
    pub fn resource(&self, resource: &Resource) -> Option<&Arc<ResourcePlan>> {
        self.resources.get(resource)
    }

    /// The plans of all watched resources.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<ResourcePlan>> {
        self.resources.values()
    }

    fn watches(&self) -> impl Iterator<Item = &Watch> {
        self.resources.values().flat_map(|plan| &plan.watches)
    }

    fn watches_of(&self, resource: &Resource) -> &BTreeSet<Watch> {
        static NONE: BTreeSet<Watch> = BTreeSet::new();
        self.resource(resource).map_or(&NONE, |plan| &plan.watches)
    }
}

/// Whether these are the very same plans.
fn same(a: &[Arc<TargetPlan>], b: &[Arc<TargetPlan>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}
