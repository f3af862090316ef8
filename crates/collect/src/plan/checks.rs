//! What is checked of a target before it is known what it collects.

use std::{collections::BTreeSet, sync::Arc};

use kollect_api::{
    GroupVersionKind, KollectProfile,
    condition::Reason,
    rules,
    target::{ResourceRule, WatchMode},
};

use super::ask::Ask;
use super::ceilings::Ceilings;
use super::degraded::Degradation;
use super::draft::{Ended, stop};
use super::namespaces::{asks_for_labels, names};
use super::target::{Names, TargetNamespaces};
use super::world::Settings;

/// What scopes say about a target as it is written. The profile's kind is checked even if rules
/// name others, because it is the one that is watched.
pub(super) fn scopes(
    ask: &Ask<'_>,
    ceilings: &Ceilings<'_>,
    profile: &KollectProfile,
) -> Result<(), Ended> {
    let kinds = std::iter::once(&profile.spec.target_gvk).chain(ask.rules.iter().map(|r| &r.gvk));
    let reference = ask
        .is_cluster_target()
        .then(|| ceilings.refuses_reference(ask.profile_namespace))
        .flatten();
    if let Some(message) = reference {
        return stop(Reason::ScopeNamespaceDenied, message);
    }
    let mut refused_kinds = kinds.filter_map(|gvk| ceilings.refuses_kind(gvk));
    let secrets = || {
        (!ask.is_cluster_target())
            .then(|| ceilings.refuses_secrets(&profile.spec))
            .flatten()
    };
    if let Some(message) = refused_kinds.next().or_else(secrets) {
        return stop(Reason::ScopeGVKDenied, message);
    }
    // Only what is asked for by name is a violation; what a selector reaches beyond the scope is
    // taken away silently. Cluster targets are narrowed in both cases.
    let violation = (!ask.is_cluster_target())
        .then(|| names(ask.included).find_map(|name| ceilings.refuses_namespace(name)))
        .flatten();
    if let Some(message) = violation {
        return stop(
            ceilings.namespace_reason(),
            format!("{message}; remove it from spec.includedNamespaces"),
        );
    }
    let whole = (!ask.is_cluster_target())
        .then(|| ceilings.refuses_whole_objects(&profile.spec))
        .flatten();
    match whole {
        Some(message) => Err(Ended::Freeze(Degradation::new(
            Reason::ScopeResourceExportDenied,
            format!(
                "{message}; list attributes instead, or have the scope changed; rows collected before stay as they are"
            ),
        ))),
        None => Ok(()),
    }
}

/// What is wrong with a target whose sensitive objects of other namespaces nobody allowed to
/// collect, if that is more than a narrower view: it names them, or nothing is left.
pub(super) fn unpermitted(ask: &Ask<'_>, namespaces: &TargetNamespaces) -> Option<Degradation> {
    let unpermitted = namespaces.unpermitted.iter().map(|name| &**name);
    let named = |name: &str| names(ask.included).any(|included| included == name);
    let trouble = namespaces.effective.is_empty() || unpermitted.clone().any(named);
    (trouble && !namespaces.unpermitted.is_empty()).then(|| {
        let message = rules::sensitive_advice(ask.namespace, unpermitted);
        Degradation::new(Reason::SensitiveCollectionDenied, message)
    })
}

/// What is wrong with a target of a namespace without a scope, where scopes are demanded, if that
/// leaves nothing of what it asks for.
pub(super) fn unscoped(
    ask: &Ask<'_>,
    ceilings: &Ceilings<'_>,
    namespaces: &TargetNamespaces,
) -> Option<Degradation> {
    let name = namespaces.outside_scope.first()?;
    if !ceilings.is_unscoped() || !namespaces.effective.is_empty() {
        return None;
    }
    let message = rules::outside_own_namespace(ask.namespace, name)?;
    Some(Degradation::new(Reason::ScopeMissing, message))
}

/// What of namespaces decides about their objects, beside their names, if anything does.
///
/// That a namespace opts out is not asked: where labels and annotations cannot be read, a namespace
/// that the operator was told to watch counts as one without any. In tenant mode that is
/// the rule, so none can opt in there either, only objects can.
pub(super) fn asks_of_namespaces(ask: &Ask<'_>, settings: &Settings) -> Option<&'static str> {
    let rules = ask.rules.iter();
    let mut selectors = rules.filter_map(|rule| rule.namespace_selector.as_ref());
    if selectors.any(asks_for_labels) {
        return Some("spec.resourceRules select namespaces by their labels");
    }
    let opts_in = ask.selection.watch_mode == WatchMode::OptIn && !settings.tenant_mode;
    opts_in.then_some("spec.watchMode is OptIn, which labels and annotations of namespaces answer")
}

/// Refuses a cluster-scoped kind where an operator serves its namespaces alone. Whatever rights its
/// account may have beyond them: what it was told counts.
pub(super) fn served(gvk: &GroupVersionKind, settings: &Settings) -> Result<(), Ended> {
    if !settings.tenant_mode {
        return Ok(());
    }
    stop(
        Reason::ScopeGVKDenied,
        format!(
            "kind {gvk} is cluster-scoped, and this operator runs in tenantMode: it collects from its namespaces only; let the platform's operator collect it"
        ),
    )
}

/// The namespaces that a target names although nobody told this operator to look at them.
pub(super) fn unserved(ask: &Ask<'_>, settings: &Settings) -> Names {
    let watched = &settings.watch_namespaces;
    let served = |name: &str| watched.is_empty() || watched.iter().any(|known| known == name);
    let unserved: BTreeSet<Arc<str>> = names(ask.included)
        .filter(|name| !served(name))
        .map(Into::into)
        .collect();
    unserved.into_iter().collect()
}

/// Rules for another kind than the profile's never take anything. If there are only such rules
/// nothing can be collected; if some are right, they are followed and the others are shown.
pub(super) fn resource_rules(
    ask: &Ask<'_>,
    gvk: &GroupVersionKind,
) -> Result<Option<Degradation>, Ended> {
    let wrong = |rule: &ResourceRule| !rule.gvk.same_as(gvk);
    let Some(position) = ask.rules.iter().position(wrong) else {
        return Ok(None);
    };
    let message = format!(
        "spec.resourceRules[{position}].gvk is {}, but the profile collects {gvk}; a rule for another kind never matches",
        ask.rules[position].gvk
    );
    let reason = Reason::ResourceRuleGVKMismatch;
    if ask.rules.iter().all(wrong) {
        return stop(reason, message);
    }
    Ok(Some(Degradation::new(reason, message)))
}
