//! All scopes that bind a target, as one.
//!
//! Several scopes all apply: a namespace or kind must be within every one of them, and what one
//! denies is denied.

use std::collections::BTreeSet;

use kollect_api::GroupVersionKind;
use kollect_api::profile::{ExportMode, KollectProfileSpec};
use kollect_api::scope::Ceiling;

use super::namespaces::names;

/// The scopes that bind a target.
#[derive(Debug, Default)]
pub struct Ceilings<'s> {
    /// In the order of their names, so that always the same one is named first.
    scopes: Vec<Ceiling<'s>>,
    /// What all non-empty lists of allowed namespaces have in common, if there is any such list.
    allowed: Option<BTreeSet<&'s str>>,
    denied: BTreeSet<&'s str>,
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
        }
    }

    /// Whether a namespace may be collected from.
    pub fn permits(&self, namespace: &str) -> bool {
        !self.denied.contains(namespace) && self.lists(namespace)
    }

    /// Whether the namespace is among the allowed ones, if those are listed.
    pub fn lists(&self, namespace: &str) -> bool {
        self.allowed
            .as_ref()
            .is_none_or(|allowed| allowed.contains(namespace))
    }

    /// Why a namespace may not be collected from, if it may not.
    pub fn refuses_namespace(&self, namespace: &str) -> Option<String> {
        let named = |list: &[String]| names(list).any(|name| name == namespace);
        let denying = |scope: &&Ceiling<'_>| named(scope.denied_namespaces);
        if let Some(Ceiling { kind, name, .. }) = self.scopes.iter().find(denying) {
            return Some(format!(
                "workload namespace {namespace:?} is in {kind} {name:?} deniedNamespaces"
            ));
        }
        let omitting =
            |scope: &&Ceiling<'_>| limits_namespaces(scope) && !named(scope.allowed_namespaces);
        let Ceiling { kind, name, .. } = self.scopes.iter().find(omitting)?;
        Some(format!(
            "workload namespace {namespace:?} is not in {kind} {name:?} allowedNamespaces"
        ))
    }

    /// Why a kind may not be collected, if it may not.
    pub fn refuses_kind(&self, gvk: &GroupVersionKind) -> Option<String> {
        let scope = self
            .scopes
            .iter()
            .find(|scope| !scope.allowed_gvks.is_empty() && !lists_kind(scope, gvk))?;
        let Ceiling { kind, name, .. } = scope;
        Some(format!(
            "target GVK {gvk} is not in {kind} {name:?} allowedGVKs"
        ))
    }

    /// Why objects without a namespace may not be collected, if they may not: a scope that limits
    /// namespaces says nothing about them, so it must name their kind.
    pub fn refuses_cluster_scoped(&self, gvk: &GroupVersionKind) -> Option<String> {
        let scope = self
            .scopes
            .iter()
            .find(|scope| limits_namespaces(scope) && !lists_kind(scope, gvk))?;
        let Ceiling { kind, name, .. } = scope;
        Some(format!(
            "target GVK {gvk} is cluster-scoped and {kind} {name:?} limits namespaces; such a kind must be listed in its allowedGVKs"
        ))
    }

    /// Why whole Secrets may not leave, if the profile exports them: every scope must name the
    /// kind, because a scope that says nothing about kinds did not have this in mind.
    pub fn refuses_secrets(&self, profile: &KollectProfileSpec) -> Option<String> {
        let whole = profile
            .export
            .as_ref()
            .is_some_and(|export| export.mode == ExportMode::Resource);
        let gvk = &profile.target_gvk;
        if !whole || !gvk.is_core_secret() {
            return None;
        }
        let scope = self.scopes.iter().find(|scope| !lists_kind(scope, gvk))?;
        let Ceiling { kind, name, .. } = scope;
        Some(format!(
            "the profile exports whole Secrets, so target GVK {gvk} must be listed in {kind} {name:?} allowedGVKs"
        ))
    }

    /// Why a cluster kind may not refer to this namespace, if it may not.
    pub fn refuses_reference(&self, namespace: &str) -> Option<String> {
        let scope = self.scopes.iter().find(|scope| {
            let mut allowed = names(scope.allowed_static_ref_namespaces).peekable();
            allowed.peek().is_some() && !allowed.any(|name| name == namespace)
        })?;
        let Ceiling { kind, name, .. } = scope;
        Some(format!(
            "static ref namespace {namespace:?} is not in {kind} {name:?} allowedStaticRefNamespaces"
        ))
    }
}

fn lists_kind(scope: &Ceiling<'_>, gvk: &GroupVersionKind) -> bool {
    scope
        .allowed_gvks
        .iter()
        .any(|allowed| allowed.same_as(gvk))
}

fn limits_namespaces(scope: &Ceiling<'_>) -> bool {
    names(scope.allowed_namespaces).next().is_some()
}
