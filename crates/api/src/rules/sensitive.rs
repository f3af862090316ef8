//! Sensitive objects of other namespaces: whose word it takes to collect them.
//!
//! The annotations with which a profile may show what Secrets keep are its author's own word. That
//! is enough for the namespace the author works in. What other namespaces keep is not theirs to
//! give away, so there an administrator has to say so as well: in a KollectClusterScope, or on the
//! Namespace that is collected from. Cluster targets are administrators' objects and need no more.

use std::{collections::BTreeMap, fmt, str::FromStr};

use super::Surroundings;
use crate::{
    meta,
    profile::KollectProfile,
    rules::finding::Findings,
    scope::{KollectClusterScope, SensitiveGrant},
    target::KollectTarget,
};

/// Whose word it takes to collect sensitive objects of other namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SecretExtraction {
    /// That of the profile's author, and that of an administrator.
    #[default]
    Granted,
    /// That of the profile's author alone: its annotation counts everywhere.
    Annotation,
}

impl SecretExtraction {
    /// The values of `--secret-extraction`.
    pub const WORDS: [&'static str; 2] = ["granted", "annotation"];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl fmt::Display for SecretExtraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SecretExtraction {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let all = [Self::Granted, Self::Annotation];
        let found = all.into_iter().find(|one| one.as_str() == word.trim());
        found.ok_or_else(|| format!("must be one of {}", Self::WORDS.join(", ")))
    }
}

/// Whether a profile shows of sensitive objects what only a permission lets it show.
pub fn shows_sensitive(profile: &KollectProfile) -> bool {
    let whole = || {
        profile.spec.exports_whole_objects()
            && profile.permits(meta::ALLOW_FULL_RESOURCE_EXPORT_ANNOTATION)
    };
    profile.spec.target_gvk.is_core_secret()
        && (profile.permits(meta::ALLOW_SECRET_EXTRACTION_ANNOTATION) || whole())
}

/// What administrators allow the targets of one namespace, across all cluster scopes.
#[derive(Debug, Clone)]
pub struct SensitiveGrants<'s> {
    by: &'s str,
    grants: Vec<&'s SensitiveGrant>,
}

impl<'s> SensitiveGrants<'s> {
    /// What these scopes allow the targets of namespace `by`.
    pub fn new(by: &'s str, scopes: impl IntoIterator<Item = &'s KollectClusterScope>) -> Self {
        let all = scopes
            .into_iter()
            .flat_map(|scope| &scope.spec.allow_sensitive_collection);
        let grants = all.filter(|grant| grant.by.iter().any(|name| name.trim() == by));
        Self {
            by,
            grants: grants.collect(),
        }
    }

    /// Whether sensitive objects of a namespace with these annotations may be collected.
    pub fn permit(&self, from: &str, annotations: &BTreeMap<String, String>) -> bool {
        let listed = |grant: &&SensitiveGrant| grant.from.iter().any(|name| name.trim() == from);
        let annotated = || {
            let value = annotations.get(meta::ALLOW_SENSITIVE_COLLECTION_BY_ANNOTATION);
            value.is_some_and(|value| value.split(',').any(|name| name.trim() == self.by))
        };
        from == self.by || self.grants.iter().any(listed) || annotated()
    }
}

/// What to say about namespaces whose sensitive objects may not be collected, and the lines that
/// would allow it. Names the first few.
pub fn sensitive_advice<'n>(by: &str, from: impl IntoIterator<Item = &'n str>) -> String {
    /// How many namespaces a message names.
    const NAMED: usize = 10;
    let from: Vec<&str> = from.into_iter().collect();
    let named = from[..from.len().min(NAMED)].join(", ");
    let more = match from.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let annotation = meta::ALLOW_SENSITIVE_COLLECTION_BY_ANNOTATION;
    format!(
        "Secrets of other namespaces ([{named}]{more}) are not collected for targets of namespace {by:?} without an administrator's word; add to a KollectClusterScope spec.allowSensitiveCollection: [{{by: [{by}], from: [{named}]}}], or to each of these Namespaces the annotation {annotation}: \"{by}\""
    )
}

/// A target that means sensitive objects of other namespaces is worth a word. It is no error: the
/// permission may be on the Namespace, or come later, and nothing leaves before.
pub(super) fn check(
    target: &KollectTarget,
    setting: SecretExtraction,
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let Some(profile) = &surroundings.profile else {
        return;
    };
    if setting == SecretExtraction::Annotation || !shows_sensitive(profile) {
        return;
    }
    let own = target.metadata.namespace.as_deref().unwrap_or_default();
    let grants = SensitiveGrants::new(own, &surroundings.cluster_scopes);
    let nothing = BTreeMap::new();
    let annotations = |name: &str| surroundings.namespaces.get(name).unwrap_or(&nothing);
    let spec = &target.spec;
    let named: Vec<&str> = spec.included_namespaces.iter().map(|n| n.trim()).collect();
    let denied: Vec<&str> = named
        .iter()
        .filter(|name| !grants.permit(name, annotations(name)))
        .copied()
        .collect();
    if !denied.is_empty() {
        findings.warn(format!(
            "spec.includedNamespaces: {}",
            sensitive_advice(own, denied)
        ));
    } else if named.is_empty() {
        findings.warn(format!(
            "the profile shows what Secrets keep, so this target collects them from namespace {own:?} and from namespaces that an administrator allows, in a KollectClusterScope: spec.allowSensitiveCollection: [{{by: [{own}], from: […]}}], or on those Namespaces: {}: \"{own}\"",
            meta::ALLOW_SENSITIVE_COLLECTION_BY_ANNOTATION
        ));
    }
}
