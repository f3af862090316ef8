//! Rules for KollectInventory and KollectClusterInventory.

use std::{collections::BTreeSet, time::Duration as StdDuration};

use super::{
    Settings, Surroundings, ceilings,
    finding::{Findings, Path},
    reference,
};
use crate::{
    effective,
    inventory::{KollectClusterInventorySpec, KollectInventorySpec},
    names,
    reference::{NamespacedReference, SinkFamily, SinkRef},
    schema,
};

pub(super) fn check(spec: &KollectInventorySpec, settings: &Settings) -> Findings {
    let mut findings = Findings::default();
    let refs = SinkFamily::ALL.map(|family| (family, spec.sink_refs(family)));
    check_refs(&refs, settings, &mut findings, |sink, path, findings| {
        if sink
            .namespace
            .as_deref()
            .is_some_and(|namespace| !namespace.trim().is_empty())
        {
            findings.forbidden(
                path.field("namespace"),
                "a namespaced inventory uses sinks of its own namespace; leave this out",
            );
        }
        String::new()
    });
    for (interval, field) in [
        (&spec.export_min_interval, "exportMinInterval"),
        (&spec.change_interval, "changeInterval"),
    ] {
        reference::interval(interval.as_ref(), Path::spec().field(field), &mut findings);
    }
    check_bytes(
        spec.max_export_bytes,
        &Path::spec(),
        settings,
        &mut findings,
    );
    if spec.http_endpoint.is_some() {
        findings.warn("spec.httpEndpoint has no effect; the HTTP API is an operator setting");
    }
    findings
}

pub(super) fn check_cluster(spec: &KollectClusterInventorySpec, settings: &Settings) -> Findings {
    let mut findings = Findings::default();
    let at = |field: &str| Path::spec().field(field);
    if let Some(profile) = &spec.profile_ref {
        reference::namespaced(profile, &at("profileRef"), "KollectProfile", &mut findings);
        findings.warn("spec.profileRef has no effect");
    }
    for (index, target) in spec.target_refs.iter().enumerate() {
        reference::plain_name(
            target,
            at("targetRefs").index(index),
            "KollectClusterTarget",
            &mut findings,
        );
    }
    reference::selector(
        spec.target_selector.as_ref(),
        &at("targetSelector"),
        &mut findings,
    );
    check_namespaces(&spec.namespaces, &at("namespaces"), &mut findings);
    let selector = spec.namespace_selector.as_ref();
    if spec.namespaces.is_empty() {
        reference::required_selector(selector, &at("namespaceSelector"), &mut findings);
    } else {
        reference::selector(selector, &at("namespaceSelector"), &mut findings);
    }
    let refs = SinkFamily::ALL.map(|family| (family, spec.sink_refs(family)));
    check_refs(&refs, settings, &mut findings, |sink, path, findings| {
        let namespace = sink.namespace.as_deref().unwrap_or_default();
        if !namespace.trim().is_empty() && !names::is_dns_label(namespace) {
            findings.invalid(
                path.field("namespace"),
                namespace,
                "must be a namespace name",
            );
        }
        spec.namespace_of(sink).to_owned()
    });
    if let Some(namespace) = spec
        .sink_namespace
        .as_deref()
        .filter(|text| text.contains('/'))
    {
        findings.invalid(at("sinkNamespace"), namespace, "must be a namespace name");
    }
    for (interval, field) in [
        (&spec.export_min_interval, "exportMinInterval"),
        (&spec.change_interval, "changeInterval"),
    ] {
        reference::interval(interval.as_ref(), at(field), &mut findings);
    }
    findings
}

fn check_namespaces(list: &[String], path: &Path, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, name) in list.iter().enumerate() {
        let at = path.index(index);
        if name.trim().is_empty() {
            findings.required(at, "name of a namespace");
        } else if !names::is_dns_label(name) {
            findings.invalid(at, name, "must be a namespace name");
        } else if !seen.insert(name) {
            findings.duplicate(at, name);
        }
    }
}

/// Checks all lists of references. `namespace` judges and returns the namespace of a reference, so
/// that equal names in different namespaces are different sinks.
fn check_refs(
    lists: &[(SinkFamily, &[SinkRef])],
    settings: &Settings,
    findings: &mut Findings,
    namespace: impl Fn(&SinkRef, &Path, &mut Findings) -> String,
) {
    let count: usize = lists.iter().map(|(_, refs)| refs.len()).sum();
    if count > schema::MAX_SINK_REFS {
        findings.invalid(
            Path::spec(),
            count,
            format!(
                "at most {} sink references over all families",
                schema::MAX_SINK_REFS
            ),
        );
        return;
    }
    for (family, refs) in lists {
        let mut seen = BTreeSet::new();
        for (index, sink) in refs.iter().enumerate() {
            let path = Path::spec().field(family.refs_field()).index(index);
            reference::plain_name(&sink.name, path.field("name"), "sink", findings);
            let namespace = namespace(sink, &path, findings);
            if !seen.insert((namespace, sink.name.as_str())) {
                findings.duplicate(path.field("name"), &sink.name);
            }
            for (interval, field) in [
                (&sink.export_min_interval, "exportMinInterval"),
                (&sink.change_interval, "changeInterval"),
            ] {
                reference::interval(interval.as_ref(), path.field(field), findings);
            }
            check_bytes(sink.max_export_bytes, &path, settings, findings);
        }
    }
}

fn check_bytes(bytes: Option<i64>, path: &Path, settings: &Settings, findings: &mut Findings) {
    if let Some(bytes) = bytes
        && !(1..=settings.max_export_bytes).contains(&bytes)
    {
        findings.invalid(
            path.field("maxExportBytes"),
            bytes,
            format!(
                "must be between 1 and {}, the operator's --max-export-bytes",
                settings.max_export_bytes
            ),
        );
    }
}

pub(super) fn check_scopes(
    spec: &KollectInventorySpec,
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let ceilings: Vec<_> = surroundings
        .scopes
        .iter()
        .map(|scope| scope.ceiling())
        .collect();
    let floor = effective::floor(ceilings.iter().copied());
    reference::above_floor(
        spec.export_min_interval.as_ref(),
        Path::spec().field("exportMinInterval"),
        floor,
        true,
        findings,
    );
    for family in SinkFamily::ALL {
        refs_above_floor(family, spec.sink_refs(family), floor, findings);
    }
    for (index, family, sink) in indexed(|family| spec.sink_refs(family)) {
        let outside = ceilings
            .iter()
            .find_map(|c| ceilings::outside_sinks(c, family, &sink.name));
        if let Some(reason) = outside {
            findings.forbidden(
                Path::spec()
                    .field(family.refs_field())
                    .index(index)
                    .field("name"),
                reason,
            );
        }
    }
}

pub(super) fn check_cluster_scopes(
    spec: &KollectClusterInventorySpec,
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let ceilings: Vec<_> = surroundings
        .cluster_scopes
        .iter()
        .map(|scope| scope.ceiling())
        .collect();
    let sink_scopes = surroundings.scopes.iter().map(|scope| scope.ceiling());
    let floor = effective::floor(ceilings.iter().copied().chain(sink_scopes));
    reference::above_floor(
        spec.export_min_interval.as_ref(),
        Path::spec().field("exportMinInterval"),
        floor,
        true,
        findings,
    );
    for family in SinkFamily::ALL {
        refs_above_floor(family, spec.sink_refs(family), floor, findings);
    }
    let profile = spec
        .profile_ref
        .as_ref()
        .map(NamespacedReference::namespace);
    let sinks = spec
        .all_sink_refs()
        .map(|(_, sink)| spec.namespace_of(sink));
    let referenced: BTreeSet<&str> = profile.into_iter().chain(sinks).collect();
    for ceiling in &ceilings {
        for namespace in &referenced {
            if let Some(reason) = ceilings::outside_static_refs(ceiling, namespace) {
                findings.forbidden(Path::spec(), reason);
            }
        }
        for (family, sink) in spec.all_sink_refs() {
            if let Some(reason) = ceilings::outside_sinks(ceiling, family, &sink.name) {
                findings.forbidden(Path::spec(), reason);
            }
        }
    }
}

fn refs_above_floor(
    family: SinkFamily,
    refs: &[SinkRef],
    floor: StdDuration,
    findings: &mut Findings,
) {
    for (index, sink) in refs.iter().enumerate() {
        let path = Path::spec()
            .field(family.refs_field())
            .index(index)
            .field("exportMinInterval");
        reference::above_floor(
            sink.export_min_interval.as_ref(),
            path,
            floor,
            false,
            findings,
        );
    }
}

/// All references with their position in their list.
fn indexed<'s>(
    refs: impl Fn(SinkFamily) -> &'s [SinkRef],
) -> Vec<(usize, SinkFamily, &'s SinkRef)> {
    SinkFamily::ALL
        .into_iter()
        .flat_map(|family| {
            refs(family)
                .iter()
                .enumerate()
                .map(move |(index, sink)| (index, family, sink))
        })
        .collect()
}
