//! All scopes that bind a target, as one.
//!
//! Several scopes all apply: a namespace or kind must be within every one of them, and what one
//! denies is denied. The rules themselves are those of [`kollect_api::rules`]; sets stand in for
//! them where every namespace of the cluster is asked about.

use std::collections::BTreeSet;

use kollect_api::condition::Reason;
use kollect_api::profile::KollectProfileSpec;
use kollect_api::scope::Ceiling;
use kollect_api::{GroupVersionKind, rules};

use super::namespaces::names;

/// The scopes that bind a target.
#[derive(Debug, Default)]
pub struct Ceilings<'s> {
    /// In the order of their names, so that always the same one is named first.
    scopes: Vec<Ceiling<'s>>,
    /// What all non-empty lists of allowed namespaces have in common, if there is any such list.
    allowed: Option<BTreeSet<&'s str>>,
    denied: BTreeSet<&'s str>,
    /// There is no scope although there must be one: nothing but this namespace is permitted.
    unscoped: Option<&'s str>,
}

impl<'s> Ceilings<'s> {
    /// Puts scopes together.
    pub fn new(scopes: impl IntoIterator<Item = Ceiling<'s>>) -> Self {
        let mut scopes: Vec<_> = scopes.into_iter().collect();
        scopes.sort_by_key(|scope| scope.name);
        let mut allowed: Option<BTreeSet<&'s str>> = None;
        for scope in &scopes {
            let list: BTreeSet<_> = names(scope.allowed_namespaces).collect();
            allowed = match allowed {
                _ if list.is_empty() => allowed,
                None => Some(list),
                Some(before) => Some(&before & &list),
            };
        }
        let denied = scopes
            .iter()
            .flat_map(|scope| names(scope.denied_namespaces));
        Ceilings {
            denied: denied.collect(),
            allowed,
            scopes,
            unscoped: None,
        }
    }

    /// What binds targets of a namespace that has no scope, where scopes are demanded.
    pub fn unscoped(namespace: &'s str) -> Self {
        Ceilings {
            unscoped: Some(namespace),
            ..Ceilings::default()
        }
    }

    /// Whether there is no scope although there must be one.
    pub fn is_unscoped(&self) -> bool {
        self.unscoped.is_some()
    }

    /// What a refusal of a namespace is called.
    pub fn namespace_reason(&self) -> Reason {
        match self.unscoped {
            Some(_) => Reason::ScopeMissing,
            None => Reason::ScopeNamespaceDenied,
        }
    }

    /// What a refusal of a cluster-scoped kind is called.
    pub fn cluster_scoped_reason(&self) -> Reason {
        match self.unscoped {
            Some(_) => Reason::ScopeMissing,
            None => Reason::ScopeGVKDenied,
        }
    }

    /// Whether a namespace may be collected from.
    pub fn permits(&self, namespace: &str) -> bool {
        !self.denied.contains(namespace) && self.lists(namespace)
    }

    /// Whether the namespace is among the allowed ones, if those are listed.
    pub fn lists(&self, namespace: &str) -> bool {
        self.unscoped.is_none_or(|own| own == namespace)
            && self
                .allowed
                .as_ref()
                .is_none_or(|allowed| allowed.contains(namespace))
    }

    /// Why a namespace may not be collected from, if it may not.
    pub fn refuses_namespace(&self, namespace: &str) -> Option<String> {
        let unscoped = self.unscoped;
        unscoped
            .and_then(|own| rules::outside_own_namespace(own, namespace))
            .or_else(|| self.first(|scope| rules::outside_namespaces(scope, namespace)))
    }

    /// Why a kind may not be collected, if it may not.
    pub fn refuses_kind(&self, gvk: &GroupVersionKind) -> Option<String> {
        self.first(|scope| rules::outside_kinds(scope, gvk))
    }

    /// Why objects without a namespace may not be collected, if they may not.
    pub fn refuses_cluster_scoped(&self, gvk: &GroupVersionKind) -> Option<String> {
        let unscoped = self.unscoped;
        unscoped
            .map(|own| rules::unscoped_cluster_kind(own, gvk))
            .or_else(|| self.first(|scope| rules::outside_cluster_scoped(scope, gvk)))
    }

    /// Why whole Secrets may not leave, if the profile exports them.
    pub fn refuses_secrets(&self, profile: &KollectProfileSpec) -> Option<String> {
        self.first(|scope| rules::outside_secret_export(scope, profile))
    }

    /// Why whole objects may not leave, if the profile exports them.
    pub fn refuses_whole_objects(&self, profile: &KollectProfileSpec) -> Option<String> {
        self.first(|scope| rules::outside_resource_export(scope, profile))
    }

    /// Why a cluster kind may not refer to this namespace, if it may not.
    pub fn refuses_reference(&self, namespace: &str) -> Option<String> {
        self.first(|scope| rules::outside_static_refs(scope, namespace))
    }

    fn first(&self, rule: impl Fn(&Ceiling<'s>) -> Option<String>) -> Option<String> {
        self.scopes.iter().find_map(rule)
    }
}
