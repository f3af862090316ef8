//! From manifests to the world that a plan is made from, and the way to a plan.

use std::{collections::BTreeMap, sync::Arc};

use kollect_api::{
    KollectProfile,
    rules::{Object, SecretExtraction},
};
use kollect_collect::{
    extract,
    plan::{KindFact, Plan, ProfileFact, Readable, Settings, World},
};
use kollect_watch::access::{Permission, Review};

use crate::configuration::Configuration;

/// What the command line says about collecting.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    /// Takes the place of every target's `includedNamespaces`.
    pub(crate) namespace: Option<String>,
    /// Sensitive keys beside the built-in ones.
    pub(crate) scrub_keys: Vec<String>,
}

/// The part of the world that manifests make.
pub(crate) fn world(configuration: &Configuration, wishes: &Wishes) -> World {
    let mut world = World {
        extraction: extract::Settings {
            scrub_keys: wishes.scrub_keys.clone(),
            ..extract::Settings::default()
        },
        // A person collects with rights of their own; nothing is borrowed.
        settings: Settings {
            secret_extraction: SecretExtraction::Annotation,
            ..Settings::default()
        },
        ..World::default()
    };
    let included = |own: &mut Vec<String>| {
        if let Some(namespace) = &wishes.namespace {
            *own = vec![namespace.clone()];
        }
    };
    let mut scopes = Vec::new();
    let mut cluster_scopes = Vec::new();
    for object in &configuration.objects {
        match object.clone() {
            Object::Target(mut target) => {
                included(&mut target.spec.included_namespaces);
                world.targets.push(Arc::new(target));
            }
            Object::ClusterTarget(mut target) => {
                included(&mut target.spec.included_namespaces);
                world.cluster_targets.push(Arc::new(target));
            }
            Object::Scope(scope) => scopes.push(Arc::new(scope)),
            Object::ClusterScope(scope) => cluster_scopes.push(Arc::new(scope)),
            _ => {}
        }
    }
    world.scopes = Readable::Read(scopes);
    world.cluster_scopes = Readable::Read(cluster_scopes);
    world.profiles = profiles(configuration, &world);
    world
}

/// Profiles by namespace and name. Namespaces are labels here, so a target also finds a profile of
/// another namespace, if its own has none of that name.
fn profiles(
    configuration: &Configuration,
    world: &World,
) -> BTreeMap<(String, String), ProfileFact> {
    let all = || {
        configuration.all(|object| match object {
            Object::Profile(profile) => Some(profile),
            _ => None,
        })
    };
    let name = |profile: &KollectProfile| profile.metadata.name.clone().unwrap_or_default();
    let mut facts = BTreeMap::new();
    for profile in all() {
        let namespace = profile.metadata.namespace.clone().unwrap_or_default();
        let fact = ProfileFact::Found(Arc::new(profile.clone()));
        facts.insert((namespace, name(profile)), fact);
    }
    let targets = world.targets.iter().map(|target| {
        let namespace = target.metadata.namespace.clone().unwrap_or_default();
        (namespace, target.spec.profile_ref.trim().to_owned())
    });
    let cluster_targets = world.cluster_targets.iter().map(|target| {
        let reference = &target.spec.profile_ref;
        (
            reference.namespace().to_owned(),
            reference.name.trim().to_owned(),
        )
    });
    for wanted in targets.chain(cluster_targets) {
        if !facts.contains_key(&wanted)
            && let Some(profile) = all().find(|profile| name(profile) == wanted.1)
        {
            let fact = ProfileFact::Found(Arc::new(profile.clone()));
            facts.insert(wanted, fact);
        }
    }
    facts
}

/// Answers what a plan asks.
pub(crate) trait Oracle {
    /// Which resource serves a kind.
    async fn kind(&mut self, kind: &kollect_api::GroupVersionKind) -> KindFact;
    /// Whether it may be listed there.
    async fn permission(&mut self, review: &Review) -> Permission;
}

/// Plans until nothing is open. Each round asks at least one new question, and there are as many
/// questions as kinds and places.
pub(crate) async fn plan(world: &mut World, oracle: &mut impl Oracle) -> Plan {
    let mut plan = Plan::new().next(world);
    loop {
        let mut asked = false;
        for kind in plan.unknown_kinds.clone() {
            let fact = oracle.kind(&kind).await;
            world.kinds.set(kind, fact);
            asked = true;
        }
        for review in plan.reviews.clone() {
            if world.access.get(&review).is_none() {
                let permission = oracle.permission(&review).await;
                world.access.set(review, permission);
                asked = true;
            }
        }
        if !asked {
            return plan;
        }
        plan = plan.next(world);
    }
}
