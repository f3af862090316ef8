//! The namespaces of a cluster, also for those who may not list them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kollect_collect::plan::{
    KindFact, NamespaceFacts, NamespaceListing, ProfileFact, TargetKey, World,
};
use kube::{Api, Client, api::ListParams};

use super::{AskedOnce, Refused, sentence};
use crate::collect::world::Oracle as _;

/// How many namespaces are asked for at a time.
const PAGE: u32 = 500;

/// What could be read.
pub(super) enum Known {
    /// All.
    All(BTreeMap<String, NamespaceFacts>),
    /// They may not be listed; of those that targets name, these exist or may exist.
    Named {
        facts: BTreeMap<String, NamespaceFacts>,
        names: BTreeSet<String>,
    },
}

/// Lists namespaces. Whoever may not do that looks at those that targets name, one by one.
pub(super) async fn read(client: &Client, world: &World) -> Result<Known> {
    let api: Api<Namespace> = Api::all(client.clone());
    match list(&api).await {
        Ok(all) => Ok(Known::All(all)),
        Err(error) if is(&error, 403) => named(&api, world).await,
        Err(error) => bail!("cannot list namespaces: {}", sentence(&error)),
    }
}

fn is(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

async fn list(api: &Api<Namespace>) -> Result<BTreeMap<String, NamespaceFacts>, kube::Error> {
    let mut all = BTreeMap::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&parameters).await?;
        all.extend(page.items.into_iter().map(facts));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(all),
        }
    }
}

fn facts(namespace: Namespace) -> (String, NamespaceFacts) {
    let metadata = namespace.metadata;
    let facts = NamespaceFacts {
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
    };
    (metadata.name.unwrap_or_default(), facts)
}

async fn named(api: &Api<Namespace>, world: &World) -> Result<Known> {
    let targets = world.targets.iter();
    let targets = targets.flat_map(|target| &target.spec.included_namespaces);
    let cluster_targets = world.cluster_targets.iter();
    let cluster_targets = cluster_targets.flat_map(|target| &target.spec.included_namespaces);
    let wanted: BTreeSet<&str> = targets
        .chain(cluster_targets)
        .map(|name| name.trim())
        .filter(|name| !name.is_empty())
        .collect();
    let mut known = BTreeMap::new();
    let mut names = BTreeSet::new();
    for name in wanted {
        match api.get(name).await {
            Ok(namespace) => {
                known.extend([facts(namespace)]);
                names.insert(name.to_owned());
            }
            Err(error) if is(&error, 404) => {}
            // It may well exist; what is in it decides its own rights.
            Err(error) if is(&error, 403) => drop(names.insert(name.to_owned())),
            Err(error) => {
                bail!("cannot read namespace {name}: {}", sentence(&error));
            }
        }
    }
    Ok(Known::Named {
        facts: known,
        names,
    })
}

/// Puts namespaces into the world. Without a list of all of them, targets that name none cannot be
/// answered and are taken out, unless their objects live outside namespaces.
pub(super) async fn apply(known: Known, world: &mut World, oracle: &mut AskedOnce) -> Refused {
    let mut refused = Refused::new();
    let (facts, names) = match known {
        Known::All(all) => {
            world.namespaces = NamespaceListing::Complete(all);
            return refused;
        }
        Known::Named { facts, names } => (facts, names),
    };
    // Labels that cannot be read match nothing and exclude nothing, which may both be wrong.
    let unread: BTreeSet<&str> = names
        .iter()
        .filter(|name| !facts.contains_key(*name))
        .map(String::as_str)
        .collect();
    let vague_about = |included: &[String], by_labels: bool| {
        let unread = || included.iter().any(|name| unread.contains(name.trim()));
        included.is_empty() || (by_labels && unread())
    };
    let mut vague = Vec::new();
    for target in &world.targets {
        let spec = &target.spec;
        let by_labels =
            spec.namespace_selector.is_some() || spec.namespace_exclude_selector.is_some();
        if vague_about(&spec.included_namespaces, by_labels) {
            let namespace = target.metadata.namespace.clone().unwrap_or_default();
            let name = target.metadata.name.as_deref().unwrap_or_default();
            let key = TargetKey::namespaced(&namespace, name);
            vague.push((key, (namespace, target.spec.profile_ref.trim().to_owned())));
        }
    }
    for target in &world.cluster_targets {
        if vague_about(&target.spec.included_namespaces, true) {
            let reference = &target.spec.profile_ref;
            let profile = (
                reference.namespace().to_owned(),
                reference.name.trim().to_owned(),
            );
            let name = target.metadata.name.as_deref().unwrap_or_default();
            vague.push((TargetKey::cluster(name), profile));
        }
    }
    world.namespaces = NamespaceListing::Partial(facts.clone());
    world.settings.watch_namespaces = names.iter().cloned().collect();
    for (key, profile) in vague {
        let kind = match world.profiles.get(&profile) {
            Some(ProfileFact::Found(profile)) => profile.spec.target_gvk.clone(),
            _ => continue,
        };
        if let KindFact::Served(resource) = oracle.kind(&kind).await
            && resource.namespaced
        {
            refused.insert(
                key,
                "resolve namespaces: namespaces may not be listed; name them in includedNamespaces or give --namespace, without selectors, or grant list on namespaces".to_owned(),
            );
        }
    }
    world.targets.retain(|target| {
        let metadata = &target.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        !refused.contains_key(&TargetKey::namespaced(namespace, name))
    });
    world.cluster_targets.retain(|target| {
        let name = target.metadata.name.as_deref().unwrap_or_default();
        !refused.contains_key(&TargetKey::cluster(name))
    });
    refused
}
