//! What scopes allow. Several scopes all apply: what one of them forbids is forbidden.
//!
//! Each function looks at one scope and says why something is outside of it, if it is. Admission
//! refuses with that text, and the status of objects that got past admission shows it.

use crate::{
    gvk::GroupVersionKind, profile::KollectProfileSpec, reference::SinkFamily, scope::Ceiling,
};

/// Why a kind is outside a scope, if it is.
pub fn outside_kinds(ceiling: &Ceiling<'_>, gvk: &GroupVersionKind) -> Option<String> {
    if ceiling.allowed_gvks.is_empty() || lists_kind(ceiling, gvk) {
        return None;
    }
    let Ceiling { kind, name, .. } = ceiling;
    Some(format!(
        "target GVK {gvk} is not in {kind} {name:?} allowedGVKs"
    ))
}

/// Why objects without a namespace are outside a scope, if they are: a scope that limits
/// namespaces says nothing about them, so it must name their kind.
pub fn outside_cluster_scoped(ceiling: &Ceiling<'_>, gvk: &GroupVersionKind) -> Option<String> {
    let limits = names(ceiling.allowed_namespaces).next().is_some();
    if !limits || lists_kind(ceiling, gvk) {
        return None;
    }
    let Ceiling { kind, name, .. } = ceiling;
    Some(format!(
        "target GVK {gvk} is cluster-scoped and {kind} {name:?} limits namespaces; such a kind must be listed in its allowedGVKs"
    ))
}

/// Why whole Secrets may not leave, if the profile exports them: every scope must name the kind,
/// because one that says nothing about kinds did not have this in mind.
pub fn outside_secret_export(
    ceiling: &Ceiling<'_>,
    profile: &KollectProfileSpec,
) -> Option<String> {
    let gvk = &profile.target_gvk;
    if !profile.exports_whole_objects() || !gvk.is_core_secret() || lists_kind(ceiling, gvk) {
        return None;
    }
    let Ceiling { kind, name, .. } = ceiling;
    Some(format!(
        "the profile exports whole Secrets, so target GVK {gvk} must be listed in {kind} {name:?} allowedGVKs"
    ))
}

/// Why whole objects may not leave, if the profile exports them.
pub fn outside_resource_export(
    ceiling: &Ceiling<'_>,
    profile: &KollectProfileSpec,
) -> Option<String> {
    if ceiling.allows_resource_export || !profile.exports_whole_objects() {
        return None;
    }
    let Ceiling { kind, name, .. } = ceiling;
    Some(format!(
        "the profile exports whole objects (export.mode: Resource), and {kind} {name:?} says allowResourceExport: false"
    ))
}

/// Why a target of a namespace without any scope may not collect from another one, where the
/// operator demands scopes.
pub fn outside_own_namespace(own: &str, namespace: &str) -> Option<String> {
    (own != namespace).then(|| {
        format!(
            "workload namespace {namespace:?}: namespace {own:?} has no KollectScope, and the operator demands one (--require-scope) for anything but the target's own namespace; have a KollectScope created in {own:?} whose allowedNamespaces list it"
        )
    })
}

/// Why a target of a namespace without any scope may not collect objects that have no namespace,
/// where the operator demands scopes.
pub fn unscoped_cluster_kind(own: &str, gvk: &GroupVersionKind) -> String {
    format!(
        "target GVK {gvk} is cluster-scoped, namespace {own:?} has no KollectScope, and the operator demands one (--require-scope); have a KollectScope created in {own:?} whose allowedGVKs list it"
    )
}

/// Why a namespace is outside a scope, if it is.
pub fn outside_namespaces(ceiling: &Ceiling<'_>, namespace: &str) -> Option<String> {
    let Ceiling { kind, name, .. } = ceiling;
    if names(ceiling.denied_namespaces).any(|denied| denied == namespace) {
        return Some(format!(
            "workload namespace {namespace:?} is in {kind} {name:?} deniedNamespaces"
        ));
    }
    if is_within(ceiling.allowed_namespaces, namespace) {
        return None;
    }
    Some(format!(
        "workload namespace {namespace:?} is not in {kind} {name:?} allowedNamespaces"
    ))
}

/// Why a namespace may not be referred to by cluster kinds, if it may not.
pub fn outside_static_refs(ceiling: &Ceiling<'_>, namespace: &str) -> Option<String> {
    if is_within(ceiling.allowed_static_ref_namespaces, namespace) {
        return None;
    }
    let Ceiling { kind, name, .. } = ceiling;
    Some(format!(
        "static ref namespace {namespace:?} is not in {kind} {name:?} allowedStaticRefNamespaces"
    ))
}

/// Why a sink is outside a scope, if it is.
pub fn outside_sinks(ceiling: &Ceiling<'_>, family: SinkFamily, sink: &str) -> Option<String> {
    if is_within(ceiling.allowed_sinks(family), sink) {
        return None;
    }
    let Ceiling { kind, name, .. } = ceiling;
    Some(format!(
        "{family} sink ref {sink:?} is not in {kind} {name:?} {}",
        family.refs_field()
    ))
}

fn lists_kind(ceiling: &Ceiling<'_>, gvk: &GroupVersionKind) -> bool {
    let mut allowed = ceiling.allowed_gvks.iter();
    allowed.any(|allowed| allowed.same_as(gvk))
}

/// Whether a list of what is allowed allows this; one that names nothing allows everything.
fn is_within(allowed: &[String], name: &str) -> bool {
    let mut allowed = names(allowed).peekable();
    allowed.peek().is_none() || allowed.any(|allowed| allowed == name)
}

/// Names of a list without blanks around them; empty ones name nothing.
fn names(list: &[String]) -> impl Iterator<Item = &str> {
    let names = list.iter().map(|name| name.trim());
    names.filter(|name| !name.is_empty())
}
