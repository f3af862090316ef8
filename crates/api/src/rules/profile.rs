//! Rules for KollectProfile.

use std::collections::BTreeSet;

use kollect_expr::CompileBudget;

use super::{
    MAX_EXPRESSIONS, Surroundings, ceilings, expression,
    finding::{Findings, Path},
};
use crate::{
    gvk::GroupVersionKind,
    meta,
    profile::{ExportMode, KollectProfile, KollectProfileSpec, Metric, Prune},
};

/// Label names that the series of a profile carry anyway.
const RESERVED_LABELS: [&str; 5] = [
    "profile",
    "gvk",
    "series",
    "target_namespace",
    "target_name",
];

/// The series that counts rows.
const RESERVED_SERIES: &str = "object_count";

/// What attributes may be said to be. Other words are allowed, and mean nothing.
const TYPE_WORDS: [&str; 15] = [
    "string",
    "text",
    "int",
    "integer",
    "number",
    "float",
    "double",
    "bool",
    "boolean",
    "list",
    "array",
    "map",
    "object",
    "timestamp",
    "duration",
];

/// Whether a word, or the word before its elements (`list<int>`), is one that readers know.
fn is_type_word(word: &str) -> bool {
    let word = word.split(['<', '[', '(']).next().unwrap_or_default();
    TYPE_WORDS.contains(&word.trim().to_ascii_lowercase().as_str())
}

/// The most labels of one series.
const MAX_LABELS: usize = 5;

pub(super) fn check(profile: &KollectProfile) -> Findings {
    let mut findings = Findings::default();
    let spec = &profile.spec;
    let secrets_allowed = profile.permits(meta::ALLOW_SECRET_EXTRACTION_ANNOTATION);
    let mut budget = CompileBudget::new();
    let of_kind = Path::spec().field("targetGVK");
    kind(&spec.target_gvk, &of_kind, &mut findings);
    spelling(&spec.target_gvk, &of_kind, &mut findings);
    attributes(spec, secrets_allowed, &mut budget, &mut findings);
    at_most(
        spec.metrics.len(),
        Path::spec().field("metrics"),
        &mut findings,
    );
    for (index, metric) in spec.metrics.iter().enumerate() {
        let repeated = spec.metrics[..index]
            .iter()
            .any(|other| other.name == metric.name);
        let path = Path::spec().field("metrics").index(index);
        check_metric(metric, repeated, spec, &path, &mut findings);
    }
    export(
        spec,
        profile.permits(meta::ALLOW_FULL_RESOURCE_EXPORT_ANNOTATION),
        &mut findings,
    );
    let prune = spec
        .export
        .as_ref()
        .and_then(|export| export.prune.as_ref());
    if let Some(prune) = prune {
        let hides_secrets = spec.target_gvk.is_core_secret() && !secrets_allowed;
        let path = Path::spec().field("export").field("prune");
        check_prune(prune, &path, hides_secrets, &mut budget, &mut findings);
    }
    findings
}

/// What the scopes of a profile's namespace say about it.
pub(super) fn check_scopes(
    spec: &KollectProfileSpec,
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    for scope in &surroundings.scopes {
        if let Some(reason) = ceilings::outside_resource_export(&scope.ceiling(), spec) {
            findings.forbidden(Path::spec().field("export").field("mode"), reason);
        }
    }
}

/// A list is not longer than admission and extraction take it.
pub(super) fn at_most(count: usize, path: Path, findings: &mut Findings) {
    if count > MAX_EXPRESSIONS {
        findings.too_many(path, count, MAX_EXPRESSIONS);
    }
}

/// A kind needs a version and a kind; the group may be empty.
pub(super) fn kind(gvk: &GroupVersionKind, path: &Path, findings: &mut Findings) {
    if gvk.version.trim().is_empty() {
        findings.required(path.field("version"), "API version, for example v1");
    }
    if gvk.kind.trim().is_empty() {
        findings.required(path.field("kind"), "kind, for example Deployment");
    }
}

/// A profile's kind is looked for as it is written; rules and ceilings compare without regard to case.
fn spelling(gvk: &GroupVersionKind, path: &Path, findings: &mut Findings) {
    if gvk
        .kind
        .starts_with(|first: char| first.is_ascii_lowercase())
    {
        findings.invalid(
            path.field("kind"),
            &gvk.kind,
            "must be the kind and not the resource: it begins with a capital letter, for example Deployment",
        );
    }
    if let Some((group, version)) = gvk.group.split_once('/') {
        findings.invalid(
            path.field("group"),
            &gvk.group,
            format!("must be the group alone: write group: {group:?} and version: {version:?}"),
        );
    }
}

fn attribute_names(spec: &KollectProfileSpec) -> BTreeSet<&str> {
    spec.attributes
        .iter()
        .map(|attribute| attribute.name.as_str())
        .collect()
}

fn attributes(
    spec: &KollectProfileSpec,
    secrets_allowed: bool,
    budget: &mut CompileBudget,
    findings: &mut Findings,
) {
    let mut seen = BTreeSet::new();
    let all = &spec.attributes;
    at_most(all.len(), Path::spec().field("attributes"), findings);
    for (index, attribute) in all.iter().take(MAX_EXPRESSIONS).enumerate() {
        // One finding says that all of it is too much.
        if budget.is_exhausted() {
            return;
        }
        let path = Path::spec().field("attributes").index(index);
        if attribute.name.is_empty() {
            findings.required(path.field("name"), "name of the attribute");
        } else if attribute.name.chars().count() > 253 || attribute.name.contains(char::is_control)
        {
            findings.invalid(
                path.field("name"),
                &attribute.name,
                "must be at most 253 printable characters",
            );
        } else if !seen.insert(&attribute.name) {
            findings.duplicate(path.field("name"), &attribute.name);
        }
        if let Some(word) = attribute.type_.as_deref()
            && !is_type_word(word)
        {
            findings.warn(format!(
                "{}: {word:?} is taken as a remark; the words with a meaning are {}",
                path.field("type"),
                TYPE_WORDS.join(", ")
            ));
        }
        let compiled = expression::attribute(&attribute.path, path.field("path"), budget, findings);
        let reads_secret = spec.target_gvk.is_core_secret()
            && !secrets_allowed
            && compiled.is_some_and(|compiled| compiled.reads_secret_data());
        if reads_secret {
            expression::secret_data(&attribute.path, path.field("path"), findings);
        }
    }
}

fn check_metric(
    metric: &Metric,
    repeated: bool,
    spec: &KollectProfileSpec,
    path: &Path,
    findings: &mut Findings,
) {
    let attributes = &attribute_names(spec);
    if metric.name.is_empty() {
        findings.required(path.field("name"), "name of the series");
    } else if metric.name == RESERVED_SERIES || !is_metric_name(&metric.name) {
        findings.invalid(
            path.field("name"),
            &metric.name,
            "must be letters, digits and '_', not starting with a digit, and not object_count",
        );
    } else if repeated {
        findings.duplicate(path.field("name"), &metric.name);
    }
    if metric.path.is_empty() {
        findings.required(path.field("path"), "name of an attribute of this profile");
        return;
    }
    if spec.metric_source(&metric.path).is_none() {
        findings.invalid(
            path.field("path"),
            &metric.path,
            "must be the name of an attribute of this profile; members of a map follow with dots, as in resource.spec.replicas",
        );
    }
    let labels = path.field("labels");
    if metric.labels.len() > MAX_LABELS {
        findings.too_many(labels.clone(), metric.labels.len(), MAX_LABELS);
    }
    for (index, label) in metric.labels.iter().enumerate() {
        let at = labels.index(index);
        if label.is_empty() {
            findings.required(at, "name of an attribute of this profile");
        } else if !attributes.contains(label.as_str()) {
            findings.invalid(
                at,
                label,
                "must be the name of an attribute of this profile",
            );
        } else if RESERVED_LABELS.contains(&label.as_str()) || !is_metric_name(label) {
            findings.invalid(
                at,
                label,
                format!(
                    "must be letters, digits and '_', not starting with a digit, and none of {}",
                    RESERVED_LABELS.join(", ")
                ),
            );
        }
    }
}

fn is_metric_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn export(spec: &KollectProfileSpec, secrets_allowed: bool, findings: &mut Findings) {
    let path = Path::spec().field("export");
    let mode = spec
        .export
        .as_ref()
        .map(|export| export.mode)
        .unwrap_or_default();
    if mode != ExportMode::Resource && spec.attributes.is_empty() {
        findings.required(
            Path::spec().field("attributes"),
            "at least one attribute, unless export.mode is Resource",
        );
    }
    let Some(export) = &spec.export else { return };
    if mode == ExportMode::Resource {
        if attribute_names(spec).contains(export.as_.as_str()) {
            findings.duplicate(path.field("as"), &export.as_);
        }
        if spec.target_gvk.is_core_secret() && !secrets_allowed {
            findings.forbidden(
                path.field("mode"),
                format!(
                    "whole Secrets are exported only with the annotation {}: \"true\" on the profile",
                    meta::ALLOW_FULL_RESOURCE_EXPORT_ANNOTATION
                ),
            );
        }
    }
}

fn check_prune(
    prune: &Prune,
    path: &Path,
    hides_secrets: bool,
    budget: &mut CompileBudget,
    findings: &mut Findings,
) {
    for (list, count) in [
        ("jsonPointers", prune.json_pointers.len()),
        ("jsonPaths", prune.json_paths.len()),
        ("jqPathExpressions", prune.jq_path_expressions.len()),
        ("scrubKeys", prune.scrub_keys.len()),
        ("cel", prune.cel.len()),
    ] {
        at_most(count, path.field(list), findings);
    }
    for (index, pointer) in prune.json_pointers.iter().enumerate() {
        expression::prune_pointer(pointer, path.field("jsonPointers").index(index), findings);
    }
    for (index, json_path) in prune.json_paths.iter().enumerate() {
        expression::prune_path(json_path, path.field("jsonPaths").index(index), findings);
    }
    for (index, jq) in prune.jq_path_expressions.iter().enumerate() {
        expression::prune_jq(jq, path.field("jqPathExpressions").index(index), findings);
    }
    for (index, cel) in prune.cel.iter().take(MAX_EXPRESSIONS).enumerate() {
        if budget.is_exhausted() {
            return;
        }
        let at = path.field("cel").index(index);
        expression::prune_cel(cel, at, hides_secrets, budget, findings);
    }
}
