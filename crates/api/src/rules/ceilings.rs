//! What scopes allow. Several scopes all apply: what one of them forbids is forbidden.

use crate::{gvk::GroupVersionKind, reference::SinkFamily, scope::Ceiling};

/// Why a kind is outside a scope, if it is.
pub(super) fn outside_kinds(ceiling: &Ceiling<'_>, gvk: &GroupVersionKind) -> Option<String> {
    if ceiling.allowed_gvks.is_empty() || ceiling.allowed_gvks.iter().any(|a| a.same_as(gvk)) {
        return None;
    }
    Some(format!(
        "{gvk} is not in allowedGVKs of {} {:?}",
        ceiling.kind, ceiling.name
    ))
}

/// Why a namespace is outside a scope, if it is.
pub fn outside_namespaces(ceiling: &Ceiling<'_>, namespace: &str) -> Option<String> {
    let Ceiling { kind, name, .. } = ceiling;
    if ceiling
        .denied_namespaces
        .iter()
        .any(|denied| denied == namespace)
    {
        return Some(format!(
            "namespace {namespace:?} is in deniedNamespaces of {kind} {name:?}"
        ));
    }
    if !ceiling.allowed_namespaces.is_empty()
        && !ceiling
            .allowed_namespaces
            .iter()
            .any(|allowed| allowed == namespace)
    {
        return Some(format!(
            "namespace {namespace:?} is not in allowedNamespaces of {kind} {name:?}"
        ));
    }
    None
}

/// Why a namespace may not be referred to by cluster kinds, if it may not.
pub fn outside_static_refs(ceiling: &Ceiling<'_>, namespace: &str) -> Option<String> {
    let allowed = ceiling.allowed_static_ref_namespaces;
    if allowed.is_empty() || allowed.iter().any(|allowed| allowed.trim() == namespace) {
        return None;
    }
    Some(format!(
        "namespace {namespace:?} is not in allowedStaticRefNamespaces of {} {:?}",
        ceiling.kind, ceiling.name
    ))
}

/// Why a sink is outside a scope, if it is.
pub fn outside_sinks(ceiling: &Ceiling<'_>, family: SinkFamily, sink: &str) -> Option<String> {
    let allowed = ceiling.allowed_sinks(family);
    if allowed.is_empty() || allowed.iter().any(|name| name == sink) {
        return None;
    }
    Some(format!(
        "{family} sink {sink:?} is not in {} of {} {:?}",
        family.refs_field(),
        ceiling.kind,
        ceiling.name
    ))
}
