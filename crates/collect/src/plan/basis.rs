//! What a plan was made from, so that the next one need not look again at what is still the same.
//!
//! A change in the cluster mostly concerns one target, and mostly it is the status that was just
//! written. Whether a target has to be thought about again is decided by comparing what its plan
//! depends on, never by being told what changed: nothing can be forgotten that way.

use std::collections::BTreeMap;
use std::sync::Arc;

use kollect_api::{
    GroupVersionKind, KollectClusterScope, KollectClusterTarget, KollectProfile, KollectScope,
    KollectTarget,
};

use super::ask::{Ask, requested_at};
use super::discovery::KindFact;
use super::key::TargetKey;
use super::namespaces::Universe;
use super::target::TargetPlan;
use super::world::{Excess, ProfileFact, Readable, Settings, World};

/// What all targets of a plan depend on.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Basis {
    universe: Universe,
    unread: bool,
    scopes: Readable<Vec<Arc<KollectScope>>>,
    unreadable_scopes: BTreeMap<String, String>,
    cluster_scopes: Readable<Vec<Arc<KollectClusterScope>>>,
    settings: Settings,
}

impl Basis {
    pub(super) fn of(world: &World) -> Self {
        Self {
            universe: Universe::new(&world.namespaces, &world.settings),
            unread: !world.namespaces.is_known(),
            scopes: world.scopes.clone(),
            unreadable_scopes: world.unreadable_scopes.clone(),
            cluster_scopes: world.cluster_scopes.clone(),
            settings: world.settings.clone(),
        }
    }

    pub(super) fn universe(&self) -> &Universe {
        &self.universe
    }
}

/// A target of either kind, as its owner wrote it.
#[derive(Debug, Clone)]
enum Source {
    Target(Arc<KollectTarget>),
    ClusterTarget(Arc<KollectClusterTarget>),
}

impl Source {
    fn all(world: &World) -> impl Iterator<Item = Source> {
        let targets = world.targets.iter().cloned().map(Source::Target);
        let cluster_targets = world.cluster_targets.iter();
        let cluster_targets = cluster_targets.filter(|_| !world.settings.tenant_mode);
        let cluster_targets = cluster_targets.cloned().map(Source::ClusterTarget);
        let all = targets.chain(cluster_targets);
        all.filter(|source| !source.is_deleted())
    }

    fn key(&self) -> TargetKey {
        match self {
            Source::Target(target) => TargetKey::namespaced(
                target.metadata.namespace.as_deref().unwrap_or_default(),
                target.metadata.name.as_deref().unwrap_or_default(),
            ),
            Source::ClusterTarget(target) => {
                TargetKey::cluster(target.metadata.name.as_deref().unwrap_or_default())
            }
        }
    }

    fn ask(&self) -> Ask<'_> {
        match self {
            Source::Target(target) => Ask::of_target(target),
            Source::ClusterTarget(target) => Ask::of_cluster_target(target),
        }
    }

    fn is_deleted(&self) -> bool {
        let metadata = match self {
            Source::Target(target) => &target.metadata,
            Source::ClusterTarget(target) => &target.metadata,
        };
        metadata.deletion_timestamp.is_some()
    }

    /// Namespace and name of the profile.
    fn profile(&self) -> (String, String) {
        let (namespace, name) = match self {
            Source::Target(target) => (
                target.metadata.namespace.as_deref().unwrap_or_default(),
                target.spec.profile_ref.trim(),
            ),
            Source::ClusterTarget(target) => {
                let reference = &target.spec.profile_ref;
                (reference.namespace(), reference.name.trim())
            }
        };
        (namespace.to_owned(), name.to_owned())
    }

    /// Whether the owner wants the same; what else an object carries does not matter.
    fn wants_the_same(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Target(a), Source::Target(b)) => {
                Arc::ptr_eq(a, b)
                    || (a.spec == b.spec && requested_at(&a.metadata) == requested_at(&b.metadata))
            }
            (Source::ClusterTarget(a), Source::ClusterTarget(b)) => {
                Arc::ptr_eq(a, b)
                    || (a.spec == b.spec && requested_at(&a.metadata) == requested_at(&b.metadata))
            }
            _ => false,
        }
    }
}

/// What the plan of one target depends on, beside the basis.
#[derive(Debug)]
pub(super) struct Inputs {
    source: Source,
    profile: Profile,
    kind: Option<KindFact>,
    over_quota: Option<Excess>,
}

/// As much of a [`ProfileFact`] as can be compared.
#[derive(Debug)]
enum Profile {
    Missing,
    Found(Arc<KollectProfile>),
    Forbidden,
    /// Never the same: it has to be read again.
    Failed,
}

impl Inputs {
    /// Those of all targets that are to be planned for.
    pub(super) fn all(world: &World) -> impl Iterator<Item = Self> {
        Source::all(world).map(|source| Self::of(world, source))
    }

    fn of(world: &World, source: Source) -> Self {
        let key = source.profile();
        let profile = match world.profiles.get(&key) {
            None if world.unread_profiles(&key.0).is_some() => Profile::Failed,
            None => Profile::Missing,
            Some(ProfileFact::Found(profile)) => Profile::Found(Arc::clone(profile)),
            Some(ProfileFact::Forbidden) => Profile::Forbidden,
            Some(ProfileFact::Failed(_)) => Profile::Failed,
        };
        let kind = match &profile {
            Profile::Found(profile) => world.kinds.get(&profile.spec.target_gvk).cloned(),
            Profile::Missing | Profile::Forbidden | Profile::Failed => None,
        };
        let over_quota = world.over_quota.get(&source.key()).cloned();
        Self {
            source,
            profile,
            kind,
            over_quota,
        }
    }

    pub(super) fn key(&self) -> TargetKey {
        self.source.key()
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        self.source.ask()
    }

    /// The kind of the target, if the last answer about it was none that lasts.
    pub(super) fn unsettled_kind(&self) -> Option<&GroupVersionKind> {
        match (&self.profile, &self.kind) {
            (Profile::Found(profile), Some(KindFact::NotInstalled | KindFact::Failed(_))) => {
                Some(&profile.spec.target_gvk)
            }
            _ => None,
        }
    }

    /// Whether a plan made from these would be the same as one made from `other`.
    pub(super) fn are(&self, other: &Inputs) -> bool {
        let profiles = match (&self.profile, &other.profile) {
            (Profile::Found(a), Profile::Found(b)) => Arc::ptr_eq(a, b),
            (Profile::Missing, Profile::Missing) | (Profile::Forbidden, Profile::Forbidden) => true,
            _ => false,
        };
        let facts = self.kind == other.kind && self.over_quota == other.over_quota;
        profiles && facts && self.source.wants_the_same(&other.source)
    }
}

/// The plan of a target before access is looked at, and what it was made from.
#[derive(Debug)]
pub(super) struct Drafted {
    pub(super) inputs: Inputs,
    pub(super) plan: Arc<TargetPlan>,
}
