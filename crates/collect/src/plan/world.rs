//! Everything the plan is made from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, atomic::AtomicU64};

use kollect_api::{
    KollectClusterScope, KollectClusterTarget, KollectProfile, KollectScope, KollectTarget,
    rules::SecretExtraction,
};

use super::access::Access;
use super::discovery::Kinds;
use super::key::TargetKey;
use super::namespaces::NamespaceListing;
use crate::extract;

/// What is known about the cluster at one moment, as plain data.
///
/// Only what was really read belongs here. An answer that could not be had (a time-out, a
/// throttled request) is given as such where there is a place for it, and otherwise the last
/// answer stays: a plan made from a world never ends a collection because of a failed request.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// All targets of the namespaces the operator serves.
    pub targets: Vec<Arc<KollectTarget>>,
    /// All cluster targets; ignored in tenant mode.
    pub cluster_targets: Vec<Arc<KollectClusterTarget>>,
    /// The profiles that exist or could not be read, by namespace and name. What is not in here
    /// does not exist.
    pub profiles: BTreeMap<(String, String), ProfileFact>,
    /// Why profiles could not be read. Then one that is missing above may exist nevertheless.
    pub profiles_unread: Option<String>,
    /// The same for the profiles of single namespaces.
    pub profiles_unread_in: BTreeMap<String, String>,
    /// It is a right that is missing to read profiles: all of them (under the empty name), or those
    /// of these namespaces.
    pub profiles_forbidden: BTreeSet<String>,
    /// Targets that exist and cannot be decoded, and why. What they want is not known, so they go
    /// on as they did, or keep what they have.
    pub unreadable_targets: BTreeMap<TargetKey, String>,
    /// The scopes of all namespaces the operator serves, or why they could not be read.
    pub scopes: Readable<Vec<Arc<KollectScope>>>,
    /// Namespaces with scopes that cannot be read or decoded, and what is wrong with them. What they
    /// forbid is not known, so nothing is opened there.
    pub unreadable_scopes: BTreeMap<String, String>,
    /// The cluster scopes, or why they could not be read.
    pub cluster_scopes: Readable<Vec<Arc<KollectClusterScope>>>,
    /// Targets that are not collected because their namespaces use more than they may.
    pub over_quota: BTreeMap<TargetKey, Excess>,
    /// The namespaces of the cluster.
    pub namespaces: NamespaceListing,
    /// What discovery says about kinds.
    pub kinds: Kinds,
    /// What access reviews said.
    pub access: Access,
    /// Settings of the operator.
    pub settings: Settings,
    /// What the operator says about extraction. Fixed while it runs.
    pub extraction: extract::Settings,
    /// Grows while a plan is being made, for whoever wants to know whether that goes on. Profiles
    /// take as long to compile as tenants make them, and a plan may have many.
    pub progress: Arc<AtomicU64>,
}

impl World {
    /// Why profiles of a namespace are not known, if so.
    pub(super) fn unread_profiles(&self, namespace: &str) -> Option<&String> {
        let own = || self.profiles_unread_in.get(namespace);
        self.profiles_unread.as_ref().or_else(own)
    }

    /// Whether it is a right that is missing to know them.
    pub(super) fn forbidden_profiles(&self, namespace: &str) -> bool {
        let scope = if self.profiles_unread.is_some() {
            ""
        } else {
            namespace
        };
        self.profiles_forbidden.contains(scope)
    }
}

/// Why a target is not collected although it could be: its namespace uses more than it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// What to say about it.
    pub message: Arc<str>,
    /// It was collected before, and what it had stays. What never was at any sink need not be kept.
    pub keeps: bool,
}

/// Something that was read, or the reason why it could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readable<T> {
    /// It was read.
    Read(T),
    /// It could not be read; try again.
    Failed(String),
}

impl<T: Default> Default for Readable<T> {
    fn default() -> Self {
        Readable::Read(T::default())
    }
}

/// What is known about a profile.
#[derive(Debug, Clone)]
pub enum ProfileFact {
    /// It exists.
    Found(Arc<KollectProfile>),
    /// The operator may not read it.
    Forbidden,
    /// It could not be read; try again.
    Failed(String),
}

/// Settings of the operator that steer collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--default-included-namespaces`: takes the place of an empty `includedNamespaces`.
    pub default_included_namespaces: Vec<String>,
    /// `--default-excluded-namespaces`: added to every `excludedNamespaces`. The union is the safe
    /// direction: no target can collect what the operator's owner excluded.
    pub default_excluded_namespaces: Vec<String>,
    /// `--watch-namespaces`: if not empty, no other namespace is looked at, and namespaces are
    /// watched one by one.
    pub watch_namespaces: Vec<String>,
    /// `--tenant-mode`: only namespaced kinds, and never a cluster-wide watch.
    pub tenant_mode: bool,
    /// `--require-scope`: targets of a namespace without a KollectScope collect from that namespace
    /// alone.
    pub require_scope: bool,
    /// `--secret-extraction`: whose word it takes to collect sensitive objects of other namespaces.
    pub secret_extraction: SecretExtraction,
    /// Up to how many namespaces of one resource are watched one by one where that is preferred
    /// (`--watch-namespaces`) but a cluster-wide watch is possible. Above that the one
    /// cluster-wide watch is the smaller burden.
    pub separate_watches: usize,
    /// Up to how many namespaces of one resource are watched one by one where a cluster-wide watch
    /// is not permitted. What is beyond is left out and shown. The namespaces of
    /// `--watch-namespaces` never are beyond.
    pub max_namespace_watches: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            default_included_namespaces: Vec::new(),
            default_excluded_namespaces: Vec::new(),
            watch_namespaces: Vec::new(),
            tenant_mode: false,
            require_scope: false,
            secret_extraction: SecretExtraction::default(),
            separate_watches: 20,
            max_namespace_watches: 200,
        }
    }
}

/// Reads a comma-separated flag: entries are trimmed, empty and repeated ones dropped, the order
/// is kept.
pub fn comma_list(text: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for entry in text.split(',').map(str::trim) {
        if !entry.is_empty() && !list.iter().any(|known| known == entry) {
            list.push(entry.to_owned());
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comma_lists_are_trimmed_and_unique() {
        assert_eq!(comma_list(" b, a ,,b,a"), ["b", "a"]);
        assert!(comma_list(" , ").is_empty());
    }
}
