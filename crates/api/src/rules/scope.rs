//! Rules for KollectScope and KollectClusterScope.

use std::collections::BTreeSet;

use super::{
    Surroundings,
    finding::{Findings, Path},
    object::Object,
    profile, reference,
};
use crate::{
    reference::SinkFamily,
    scope::{Ceiling, KollectClusterScope},
};

/// The rules of both kinds of scope, and what only a cluster scope says.
pub(super) fn check_cluster(scope: &KollectClusterScope) -> Findings {
    let mut findings = check(scope.ceiling());
    let grants = Path::spec().field("allowSensitiveCollection");
    for (index, grant) in scope.spec.allow_sensitive_collection.iter().enumerate() {
        for (field, list) in [("by", &grant.by), ("from", &grant.from)] {
            let path = grants.index(index).field(field);
            if list.is_empty() {
                findings.required(path.clone(), "names of namespaces");
            }
            reference::namespace_list(list, &path, &mut findings);
        }
    }
    findings
}

pub(super) fn check(ceiling: Ceiling<'_>) -> Findings {
    let mut findings = Findings::default();
    let at = |field: &str| Path::spec().field(field);
    for (index, gvk) in ceiling.allowed_gvks.iter().enumerate() {
        profile::kind(gvk, &at("allowedGVKs").index(index), &mut findings);
    }
    reference::namespace_list(
        ceiling.allowed_namespaces,
        &at("allowedNamespaces"),
        &mut findings,
    );
    reference::namespace_list(
        ceiling.denied_namespaces,
        &at("deniedNamespaces"),
        &mut findings,
    );
    reference::interval(
        ceiling.min_export_interval,
        at("minExportInterval"),
        &mut findings,
    );
    if findings.errors.is_empty() {
        check_sinks(&ceiling, &mut findings);
    }
    findings
}

fn check_sinks(ceiling: &Ceiling<'_>, findings: &mut Findings) {
    for family in SinkFamily::ALL {
        let mut seen = BTreeSet::new();
        for (index, name) in ceiling.allowed_sinks(family).iter().enumerate() {
            let path = Path::spec().field(family.refs_field()).index(index);
            if name.trim().is_empty() {
                findings.refuse(format!("{path} is empty; write the name of a sink"));
            } else if !seen.insert(name) {
                findings.refuse(format!("{path} repeats the sink {name:?}"));
            }
        }
    }
}

/// Several scopes are legal and all apply, but that surprises people.
pub(super) fn check_siblings(
    object: &Object,
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let scopes = surroundings
        .scopes
        .iter()
        .map(|scope| scope.metadata.name.as_deref());
    let cluster_scopes = surroundings
        .cluster_scopes
        .iter()
        .map(|scope| scope.metadata.name.as_deref());
    let mut others: Vec<&str> = scopes
        .chain(cluster_scopes)
        .flatten()
        .filter(|name| *name != object.name())
        .collect();
    others.sort_unstable();
    if !others.is_empty() {
        findings.warn(format!(
            "other {} objects apply as well ({}): what one of them forbids is forbidden",
            object.kind(),
            others.join(", ")
        ));
    }
}
