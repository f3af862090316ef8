//! Rules for KollectTarget and KollectClusterTarget.

use std::collections::BTreeSet;

use kollect_expr::{CompileBudget, cel::Program};

use super::{
    MAX_EXPRESSIONS, Settings, Surroundings, ceilings, expression,
    finding::{Findings, Path},
    profile, reference, sensitive,
};
use crate::{
    gvk::GroupVersionKind,
    meta,
    scope::Ceiling,
    selector::LabelSelector,
    target::{
        KollectClusterTarget, KollectClusterTargetSpec, KollectTarget, KollectTargetSpec,
        ResourceRule,
    },
};

pub(super) fn check(spec: &KollectTargetSpec) -> Findings {
    let mut findings = Findings::default();
    let at = |field: &str| Path::spec().field(field);
    reference::plain_name(
        &spec.profile_ref,
        at("profileRef"),
        "KollectProfile",
        &mut findings,
    );
    reference::selector(
        spec.namespace_selector.as_ref(),
        &at("namespaceSelector"),
        &mut findings,
    );
    reference::selector(
        spec.label_selector.as_ref(),
        &at("labelSelector"),
        &mut findings,
    );
    let exclude = spec.namespace_exclude_selector.as_ref();
    check_namespaces(
        &spec.included_namespaces,
        &spec.excluded_namespaces,
        exclude,
        &mut findings,
    );
    check_rules(&spec.resource_rules, &mut findings);
    if !spec.resource_rules.is_empty() && (spec.label_selector.is_some() || !spec.names.is_empty())
    {
        findings.warn(
            "spec.labelSelector and spec.names have no effect beside spec.resourceRules; put them into the rules",
        );
    }
    findings
}

pub(super) fn check_cluster(spec: &KollectClusterTargetSpec) -> Findings {
    let mut findings = Findings::default();
    let at = |field: &str| Path::spec().field(field);
    reference::namespaced(
        &spec.profile_ref,
        &at("profileRef"),
        "KollectProfile",
        &mut findings,
    );
    reference::required_selector(
        spec.namespace_selector.as_ref(),
        &at("namespaceSelector"),
        &mut findings,
    );
    let exclude = spec.namespace_exclude_selector.as_ref();
    check_namespaces(
        &spec.included_namespaces,
        &spec.excluded_namespaces,
        exclude,
        &mut findings,
    );
    check_rules(&spec.resource_rules, &mut findings);
    findings
}

fn check_namespaces(
    included: &[String],
    excluded: &[String],
    exclude: Option<&LabelSelector>,
    findings: &mut Findings,
) {
    let at = |field: &str| Path::spec().field(field);
    reference::selector(exclude, &at("namespaceExcludeSelector"), findings);
    reference::namespace_list(included, &at("includedNamespaces"), findings);
    reference::namespace_list(excluded, &at("excludedNamespaces"), findings);
}

fn check_rules(rules: &[ResourceRule], findings: &mut Findings) {
    profile::at_most(rules.len(), Path::spec().field("resourceRules"), findings);
    let mut budget = CompileBudget::new();
    for (index, rule) in rules.iter().take(MAX_EXPRESSIONS).enumerate() {
        if budget.is_exhausted() {
            return;
        }
        let path = Path::spec().field("resourceRules").index(index);
        profile::kind(&rule.gvk, &path.field("gvk"), findings);
        let namespaces = rule.namespace_selector.as_ref();
        reference::selector(namespaces, &path.field("namespaceSelector"), findings);
        reference::selector(Some(&rule.object_selector()), &path, findings);
        let policy = rule.match_policy.as_deref();
        expression::match_policy(policy, path.field("matchPolicy"), &mut budget, findings);
    }
}

pub(super) fn check_scopes(
    target: &KollectTarget,
    settings: &Settings,
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let ceilings: Vec<_> = surroundings
        .scopes
        .iter()
        .map(|scope| scope.ceiling())
        .collect();
    let kinds = check_kinds(&target.spec.resource_rules, surroundings, findings);
    within(
        &ceilings,
        &kinds,
        &target.spec.included_namespaces,
        findings,
    );
    check_whole_objects(&ceilings, surroundings, findings);
    check_secret_policies(&target.spec.resource_rules, surroundings, findings);
    if settings.require_scope && ceilings.is_empty() {
        let own = target.metadata.namespace.as_deref().unwrap_or_default();
        let mut included = target.spec.included_namespaces.iter();
        if let Some(reason) =
            included.find_map(|name| ceilings::outside_own_namespace(own, name.trim()))
        {
            findings.refuse(format!("spec.includedNamespaces: {reason}"));
        }
    }
    sensitive::check(target, settings.secret_extraction, surroundings, findings);
}

pub(super) fn check_cluster_scopes(
    target: &KollectClusterTarget,
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let ceilings: Vec<_> = surroundings
        .cluster_scopes
        .iter()
        .map(|scope| scope.ceiling())
        .collect();
    let kinds = check_kinds(&target.spec.resource_rules, surroundings, findings);
    within(
        &ceilings,
        &kinds,
        &target.spec.included_namespaces,
        findings,
    );
    check_secret_policies(&target.spec.resource_rules, surroundings, findings);
    let namespace = target.spec.profile_ref.namespace();
    for ceiling in &ceilings {
        if let Some(reason) = ceilings::outside_static_refs(ceiling, namespace) {
            findings.refuse(format!("spec.profileRef: {reason}"));
        }
    }
}

/// Policies about Secrets read what those keep only if the profile may: a condition tells a value
/// as well as an attribute does.
fn check_secret_policies(
    rules: &[ResourceRule],
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let Some(profile) = &surroundings.profile else {
        return;
    };
    if !profile.spec.target_gvk.is_core_secret()
        || profile.permits(meta::ALLOW_SECRET_EXTRACTION_ANNOTATION)
    {
        return;
    }
    for (index, rule) in rules.iter().take(MAX_EXPRESSIONS).enumerate() {
        let text = rule.match_policy.as_deref().unwrap_or_default();
        if Program::compile(text).is_ok_and(|policy| expression::reads_secret_data(&policy)) {
            let rules = Path::spec().field("resourceRules");
            expression::secret_data(text, rules.index(index).field("matchPolicy"), findings);
        }
    }
}

/// All kinds the target names. Rules for another kind than the profile's would never match
/// anything, so they are refused as soon as the profile is known.
fn check_kinds(
    rules: &[ResourceRule],
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Vec<GroupVersionKind> {
    let profile = surroundings
        .profile
        .as_ref()
        .map(|profile| &profile.spec.target_gvk);
    for (index, rule) in rules.iter().enumerate() {
        if let Some(gvk) = profile
            && !gvk.same_as(&rule.gvk)
        {
            findings.invalid(
                Path::spec()
                    .field("resourceRules")
                    .index(index)
                    .field("gvk"),
                rule.gvk.to_string(),
                format!(
                    "must be {gvk}, the kind of the profile; a rule for another kind never matches"
                ),
            );
        }
    }
    profile
        .into_iter()
        .chain(rules.iter().map(|rule| &rule.gvk))
        .cloned()
        .collect()
}

fn within(
    ceilings: &[Ceiling<'_>],
    kinds: &[GroupVersionKind],
    included: &[String],
    findings: &mut Findings,
) {
    let namespaces: BTreeSet<&str> = included.iter().map(|name| name.trim()).collect();
    for ceiling in ceilings {
        if let Some(reason) = kinds
            .iter()
            .find_map(|gvk| ceilings::outside_kinds(ceiling, gvk))
        {
            findings.refuse(reason);
        }
        if let Some(reason) = namespaces
            .iter()
            .find_map(|name| ceilings::outside_namespaces(ceiling, name))
        {
            findings.refuse(format!("spec.includedNamespaces: {reason}"));
        }
    }
}

/// Whole Secrets leave a governed namespace only when its scope names the kind, and whole objects only
/// when it does not forbid that.
fn check_whole_objects(
    ceilings: &[Ceiling<'_>],
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let Some(profile) = &surroundings.profile else {
        return;
    };
    for ceiling in ceilings {
        for reason in [
            ceilings::outside_secret_export(ceiling, &profile.spec),
            ceilings::outside_resource_export(ceiling, &profile.spec),
        ]
        .into_iter()
        .flatten()
        {
            findings.refuse(reason);
        }
    }
}
