//! Without manifests: a kind and some attributes on the command line become a profile and a target in memory.

use std::path::Path;

use anyhow::{Result, bail};
use kollect_api::{GroupVersionKind, rights::guess_plural};

use super::{dump::Dump, source::Source};
use crate::{
    configuration::{Configuration, Standard},
    init::{
        self,
        blueprint::{Attribute, Blueprint, File, Filter, Namespaces, metadata_attributes},
        cluster::{self, Offered},
    },
    manifest::{Text, nearest},
};

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Wish<'o> {
    /// A kind, in any form that `kubectl get` understands.
    pub(crate) kind: &'o str,
    pub(crate) attributes: &'o [Attribute],
    /// Nothing means all.
    pub(crate) namespace: Option<&'o str>,
    pub(crate) selector: Option<&'o str>,
}

/// What kubectl calls the kinds that every cluster has.
const SHORT: [(&str, &str); 24] = [
    ("cm", "ConfigMap"),
    ("cj", "CronJob"),
    ("crd", "CustomResourceDefinition"),
    ("deploy", "Deployment"),
    ("ds", "DaemonSet"),
    ("ep", "Endpoints"),
    ("ev", "Event"),
    ("hpa", "HorizontalPodAutoscaler"),
    ("ing", "Ingress"),
    ("limits", "LimitRange"),
    ("netpol", "NetworkPolicy"),
    ("no", "Node"),
    ("ns", "Namespace"),
    ("pc", "PriorityClass"),
    ("pdb", "PodDisruptionBudget"),
    ("po", "Pod"),
    ("pv", "PersistentVolume"),
    ("pvc", "PersistentVolumeClaim"),
    ("quota", "ResourceQuota"),
    ("rs", "ReplicaSet"),
    ("sa", "ServiceAccount"),
    ("sc", "StorageClass"),
    ("sts", "StatefulSet"),
    ("svc", "Service"),
];

/// The manifests of a wish.
pub(crate) async fn manifests(
    wish: &Wish<'_>,
    source: &Source,
    context: &str,
) -> Result<[File; 2]> {
    let offered = match source {
        Source::Dump(dump) => of_dump(dump),
        Source::Clusters(clusters) => cluster::kinds(&clusters.client(context).await?).await?,
    };
    let kind = find(wish.kind, &offered)?;
    let attributes = if wish.attributes.is_empty() {
        metadata_attributes()
    } else {
        wish.attributes.to_vec()
    };
    let blueprint = Blueprint {
        name: kind.kind.kind.to_lowercase(),
        kind: kind.kind.clone(),
        namespaces: match wish.namespace {
            Some(namespace) if kind.namespaced => Namespaces::Named(vec![namespace.to_owned()]),
            _ => Namespaces::All,
        },
        filter: match wish.selector {
            Some(selector) => Filter::Labels(init::blueprint::labels(selector)?),
            None => Filter::Nothing,
        },
        attributes,
        reads_secrets: false,
        sampled: None,
        warning: None,
    };
    blueprint.files()
}

/// Reads manifests as if they had been files.
pub(crate) fn load(files: &[File], standard: &Standard) -> Configuration {
    let text = |file: &File| Text {
        name: format!("command line ({})", file.name),
        content: file.content.clone(),
    };
    let texts: Vec<Text> = files.iter().map(text).collect();
    Configuration::load(&texts, standard)
}

/// Keeps the manifests.
pub(crate) fn save(directory: &Path, files: &[File]) -> Result<()> {
    for File { name, .. } in files {
        let path = directory.join(name);
        if path.exists() {
            bail!("{} exists; give --save another directory", path.display());
        }
    }
    init::store(directory, files)
}

/// The kinds of a dump. Their plurals are guessed, as English has them.
fn of_dump(dump: &Dump) -> Vec<Offered> {
    let kinds = dump.kinds().map(|(kind, namespaced)| {
        let lower = kind.kind.to_lowercase();
        Offered {
            kind: GroupVersionKind::new(&*kind.group, &*kind.version, &*kind.kind),
            plural: guess_plural(&lower),
            names: vec![lower],
            namespaced,
        }
    });
    kinds.collect()
}

/// The kind that a word means: `deployments`, `deploy`, `Deployment`, `deployments.apps`, `deployments.v1.apps` or
/// `apps/v1/Deployment`.
fn find<'o>(word: &str, offered: &'o [Offered]) -> Result<&'o Offered> {
    let is = |one: &Offered, name: &str| {
        let lower = name.to_lowercase();
        let kind = &one.kind.kind;
        one.plural == lower
            || one.names.contains(&lower)
            || kind.to_lowercase() == lower
            || SHORT.contains(&(lower.as_str(), kind.as_str()))
    };
    let fits = |one: &&Offered| {
        let gvk = &one.kind;
        if let Some((api_version, kind)) = word.rsplit_once('/') {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            return gvk.group == group && gvk.version == version && is(one, kind);
        }
        match word.split_once('.') {
            None => is(one, word),
            Some((name, group)) => {
                let versioned = format!("{}.{}", gvk.version, gvk.group);
                is(one, name) && (gvk.group == group || versioned == group)
            }
        }
    };
    let mut found: Vec<&Offered> = offered.iter().filter(fits).collect();
    // As kubectl has it, what is built in comes before what was added.
    found.sort_by_key(|one| {
        let group = &one.kind.group;
        let built_in = !group.contains('.') || group.ends_with(".k8s.io");
        (!group.is_empty(), !built_in, group.clone())
    });
    if let Some(first) = found.first() {
        return Ok(first);
    }
    let plurals = || offered.iter().map(|one| one.plural.as_str());
    match nearest(word, plurals()) {
        Some(meant) => bail!("there is no kind {word:?}; did you mean {meant:?}?"),
        None => {
            let mut all: Vec<&str> = plurals().collect();
            all.sort_unstable();
            all.dedup();
            all.truncate(40);
            bail!("there is no kind {word:?}; there are {}", all.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(group: &str, version: &str, kind: &str) -> Offered {
        let lower = kind.to_lowercase();
        Offered {
            kind: GroupVersionKind::new(group, version, kind),
            plural: guess_plural(&lower),
            names: vec![lower],
            namespaced: true,
        }
    }

    #[test]
    fn words_mean_kinds_as_they_do_to_kubectl() {
        let all = [
            offered("metrics.k8s.io", "v1beta1", "Pod"),
            offered("", "v1", "Pod"),
            offered("apps", "v1", "Deployment"),
            offered("networking.k8s.io", "v1", "Ingress"),
            offered("networking.k8s.io", "v1", "NetworkPolicy"),
            offered("shop.example", "v2", "Basket"),
        ];
        for (word, expected) in [
            ("pods", "v1/Pod"),
            ("po", "v1/Pod"),
            ("pods.metrics.k8s.io", "v1beta1/Pod"),
            ("deploy", "v1/Deployment"),
            ("Deployment", "v1/Deployment"),
            ("deployments.apps", "v1/Deployment"),
            ("deployments.v1.apps", "v1/Deployment"),
            ("apps/v1/Deployment", "v1/Deployment"),
            ("v1/Pod", "v1/Pod"),
            ("ingresses", "v1/Ingress"),
            ("networkpolicies", "v1/NetworkPolicy"),
            ("baskets", "v2/Basket"),
        ] {
            let found = &find(word, &all).unwrap().kind;
            assert_eq!(
                format!("{}/{}", found.version, found.kind),
                expected,
                "{word}"
            );
        }
        let error = find("deploymnts", &all).unwrap_err().to_string();
        assert!(error.contains("did you mean \"deployments\"?"), "{error}");
        assert!(find("apps/v2/Deployment", &all).is_err());
    }
}
