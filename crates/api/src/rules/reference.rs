//! Rules for names, namespaces, selectors and durations.

use std::{collections::BTreeSet, time::Duration as StdDuration};

use super::{
    Settings,
    finding::{Findings, Path},
};
use crate::{
    duration::{self, Duration},
    effective, names,
    reference::{NamespacedReference, SecretReference},
    selector::{LabelSelector, RequirementError, is_label_key, is_label_value},
};

/// The plain name of an object in the same namespace.
pub(super) fn plain_name(name: &str, path: Path, what: &str, findings: &mut Findings) {
    if name.trim().is_empty() {
        findings.required(path, format!("name of a {what}"));
    } else if name.contains('/') {
        findings.invalid(
            path,
            name,
            format!("must be the plain name of a {what}, without '/'"),
        );
    }
}

/// An object by name and namespace.
pub(super) fn namespaced(
    reference: &NamespacedReference,
    path: &Path,
    what: &str,
    findings: &mut Findings,
) {
    let name = reference.name.as_str();
    let at = path.field("name");
    if name.trim().is_empty() {
        findings.required(at, format!("name of a {what}"));
    } else if name.contains('/') || !names::is_dns_subdomain(name) {
        findings.invalid(
            at,
            name,
            format!("must be the name of a {what}: lower-case letters, digits, '-' and '.'"),
        );
    }
    namespace_of_reference(
        reference.namespace.as_deref(),
        path.field("namespace"),
        findings,
    );
}

fn namespace_of_reference(namespace: Option<&str>, path: Path, findings: &mut Findings) {
    match namespace {
        None => findings.required(path, "a cluster-scoped object has no namespace of its own"),
        Some(text) if text.trim().is_empty() => {
            findings.required(path, "a cluster-scoped object has no namespace of its own");
        }
        Some(text) if !names::is_dns_label(text) => {
            findings.invalid(path, text, "must be a namespace name");
        }
        Some(_) => {}
    }
}

/// A Secret, which must be in the namespace of its sink unless the operator allows another.
pub(super) fn secret(
    reference: &SecretReference,
    path: &Path,
    own_namespace: &str,
    settings: &Settings,
    findings: &mut Findings,
) {
    if reference.name.trim().is_empty() {
        findings.required(path.field("name"), "name of a Secret");
    }
    let Some(namespace) = reference.namespace.as_deref().map(str::trim) else {
        return;
    };
    if let Err(error) = secret_namespace(namespace, own_namespace, settings) {
        findings.forbidden(path.field("namespace"), error.to_string());
    }
}

/// A Secret of another namespace may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Secrets of namespace {namespace:?} may not be used from namespace {own_namespace:?}; copy the Secret, or have the operator allow the namespace"
)]
pub struct ForeignSecret {
    namespace: String,
    own_namespace: String,
}

/// Whether a sink may use Secrets of a namespace: its own always, another one only if the operator
/// allows it. Whoever may write a sink in one namespace could otherwise spend the credentials of
/// another. A blank namespace is the sink's own.
pub fn secret_namespace(
    namespace: &str,
    own_namespace: &str,
    settings: &Settings,
) -> Result<(), ForeignSecret> {
    let foreign = !namespace.is_empty() && !own_namespace.is_empty() && namespace != own_namespace;
    if foreign && !settings.secret_namespaces.iter().any(|n| n == namespace) {
        return Err(ForeignSecret {
            namespace: namespace.to_owned(),
            own_namespace: own_namespace.to_owned(),
        });
    }
    Ok(())
}

/// Names of namespaces, each once.
pub(super) fn namespace_list(list: &[String], path: &Path, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, name) in list.iter().enumerate() {
        if !names::is_dns_label(name) {
            findings.invalid(path.index(index), name, "must be a namespace name");
        } else if !seen.insert(name) {
            findings.invalid(path.index(index), name, "must not be repeated");
        }
    }
}

/// The standard rules for label selectors.
pub(super) fn selector(selector: Option<&LabelSelector>, path: &Path, findings: &mut Findings) {
    let Some(selector) = selector else { return };
    for (key, value) in &selector.match_labels {
        let at = path.field("matchLabels").key(key);
        if !is_label_key(key) {
            findings.invalid(at, key, RequirementError::BadKey.to_string());
        } else if !is_label_value(value) {
            findings.invalid(at, value, RequirementError::BadValue.to_string());
        }
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let at = path.field("matchExpressions").index(index);
        if let Err(error) = requirement.check() {
            match error {
                RequirementError::BadKey => {
                    findings.invalid(at.field("key"), &requirement.key, error.to_string());
                }
                RequirementError::UnknownOperator => findings.unsupported(
                    at.field("operator"),
                    &requirement.operator,
                    vec!["In", "NotIn", "Exists", "DoesNotExist"],
                ),
                RequirementError::ValuesMissing => {
                    findings.required(at.field("values"), error.to_string());
                }
                RequirementError::ValuesGiven | RequirementError::BadValue => {
                    findings.invalid(at.field("values"), &requirement.values, error.to_string());
                }
            }
        }
    }
}

/// A selector that must be given and select by something.
pub(super) fn required_selector(
    given: Option<&LabelSelector>,
    path: &Path,
    findings: &mut Findings,
) {
    if given.is_none_or(LabelSelector::is_empty) {
        findings.required(
            path.clone(),
            "select namespaces by at least one label; collecting everything must be said",
        );
    }
    selector(given, path, findings);
}

/// A duration within its bounds.
pub(super) fn interval(value: Option<&Duration>, path: Path, findings: &mut Findings) {
    if let Some(value) = value
        && let Err(error) = value.get()
    {
        findings.invalid(path, value.as_str(), error.to_string());
    }
}

/// An interval above the floor of the scopes. A value that equals the schema's default was most
/// likely not written by anybody, and is raised when it is used; others are refused.
pub(super) fn above_floor(
    value: Option<&Duration>,
    path: Path,
    floor: StdDuration,
    may_be_default: bool,
    findings: &mut Findings,
) {
    let Some(Ok(interval)) = value.map(Duration::get) else {
        return;
    };
    if interval >= floor {
        return;
    }
    let text = value.map(Duration::as_str).unwrap_or_default();
    let floor = duration::format(floor);
    if may_be_default && interval == effective::DEFAULT_INTERVAL {
        findings.warn(format!(
            "{path}: {text} is below the scope's minExportInterval {floor}; {floor} is used"
        ));
    } else {
        findings.invalid(
            path,
            text,
            format!("must be at least {floor}, the minExportInterval of the scope"),
        );
    }
}

/// An inline value that must hold something besides blanks.
pub(super) fn not_blank(value: &str, path: Path, what: &str, findings: &mut Findings) {
    if value.trim().is_empty() {
        findings.required(path, what);
    }
}
