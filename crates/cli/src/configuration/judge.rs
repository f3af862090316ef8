//! What stands against an object: its schema, the rule library, and what it refers to.

use std::collections::BTreeSet;

use kollect_api::{
    KollectProfile, SinkKey,
    identity::sink_refs,
    names::is_dns_subdomain,
    rules::{self, Denial, Object, Surroundings, Verdict},
};

use super::{Configuration, Finding, Severity, Standard, removed};
use crate::manifest::{Document, Schemas, Violation};

/// One thing that is wrong with an object.
struct Fault {
    /// The field; empty for the object as a whole.
    path: String,
    problem: String,
}

fn fault(path: &str, problem: impl Into<String>) -> Fault {
    Fault {
        path: path.to_owned(),
        problem: problem.into(),
    }
}

impl Configuration {
    /// Judges all objects; those that hold up are kept.
    pub(super) fn judge(
        &mut self,
        documents: Vec<Document>,
        schemas: &Schemas,
        standard: &Standard,
    ) {
        let mut objects = Vec::new();
        let mut broken_profiles = BTreeSet::new();
        let mut read = Vec::new();
        for document in documents {
            let violations = schemas.check(document.text("/kind"), &document.value);
            let object = Object::from_value(document.value.clone());
            match &object {
                Ok(object) => objects.push(object.clone()),
                Err(_) if document.text("/kind") == "KollectProfile" => {
                    broken_profiles.insert(document.text("/metadata/name").to_owned());
                }
                Err(_) => {}
            }
            read.push((document, violations, object));
        }
        let given = Given {
            objects: &objects,
            broken_profiles,
        };
        for (document, violations, object) in read {
            let faults = match &object {
                Ok(object) => {
                    let judged = judge(object, violations, &given, standard);
                    let warnings = judged.warnings.into_iter();
                    self.findings.extend(
                        warnings.map(|text| Finding::of(&document, Severity::Warning, "", text)),
                    );
                    judged.faults
                }
                Err(error) if violations.is_empty() => {
                    vec![fault("", error.to_string())]
                }
                Err(_) => of_schema(violations, &[]),
            };
            match object {
                Ok(object) if faults.is_empty() => self.objects.push(object),
                _ => {
                    let faults = faults.into_iter();
                    self.findings.extend(faults.map(|Fault { path, problem }| {
                        let kind = document.text("/kind");
                        let problem = match removed::field(kind, &path, &problem) {
                            Some(successor) => format!("{problem}; {successor}"),
                            None => problem,
                        };
                        Finding::of(&document, Severity::Error, &path, problem)
                    }));
                }
            }
        }
    }
}

/// Everything that was given, for rules and references that look around.
struct Given<'g> {
    objects: &'g [Object],
    /// Profiles that cannot be read are there all the same.
    broken_profiles: BTreeSet<String>,
}

/// What is said of one object.
#[derive(Default)]
struct Judged {
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

fn judge(
    object: &Object,
    violations: Vec<Violation>,
    given: &Given<'_>,
    standard: &Standard,
) -> Judged {
    let Judged {
        mut faults,
        mut warnings,
    } = Judged::default();
    let mut warn = |text: &str| warnings.push(text.to_owned());
    if !object.name().is_empty() && !is_dns_subdomain(object.name()) {
        let problem = "Invalid value: must be a DNS-1123 subdomain: lower-case letters, digits, '-' and '.', at most 253 characters";
        faults.push(fault("metadata.name", problem));
    }
    let surroundings = surroundings(object, given.objects);
    match rules::review(object, &standard.of_a_person(), &surroundings) {
        Verdict::Allowed { warnings } => {
            for text in &warnings {
                warn(text);
            }
            // What only a person may do is worth knowing before the manifest goes to a cluster.
            match rules::review(object, &standard.settings, &surroundings) {
                Verdict::Denied(denial) => warn(&format!(
                    "only for kollect collect; an operator says: {}",
                    reason(&denial)
                )),
                Verdict::Allowed { warnings: told } => {
                    for text in told.iter().filter(|text| !warnings.contains(text)) {
                        warn(&format!("an operator says: {text}"));
                    }
                }
            }
        }
        Verdict::Denied(Denial::Invalid { findings, .. }) => {
            for finding in findings {
                let path = finding.path.to_string();
                let text = finding.to_string();
                let problem = text.strip_prefix(&path).unwrap_or(&text);
                let problem = problem.strip_prefix(": ").unwrap_or(problem);
                faults.push(fault(&path, problem));
            }
        }
        Verdict::Denied(Denial::Refused(message)) => {
            faults.push(fault("", format!("is refused: {message}")));
        }
    }
    let known: Vec<String> = faults.iter().map(|fault| fault.path.clone()).collect();
    faults.extend(of_schema(violations, &known));
    for reference in references(object, given) {
        match reference {
            Reference::Missing { path, problem } => faults.push(fault(path, problem)),
            Reference::Doubtful(text) => warn(&text),
        }
    }
    Judged { faults, warnings }
}

fn reason(denial: &Denial) -> String {
    match denial {
        Denial::Invalid { findings, .. } => {
            let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
            texts.join("; ")
        }
        Denial::Refused(message) => message.clone(),
    }
}

/// What the schema adds to what is known. The rule library says most of it in better words, so a
/// field it has named is not named again, and a rule of the schema speaks only where the library
/// found nothing at all.
fn of_schema(violations: Vec<Violation>, known: &[String]) -> Vec<Fault> {
    let said = |violation: &Violation| {
        let path = &violation.path;
        if violation.by_rule {
            return known.iter().any(|other| other.starts_with(path.as_str()));
        }
        known.contains(path)
    };
    violations
        .into_iter()
        .filter(|violation| !said(violation))
        .map(|violation| fault(&violation.path, violation.problem))
        .collect()
}

/// What the rules want to see around an object, as far as it was given.
fn surroundings(object: &Object, all: &[Object]) -> Surroundings {
    let needs = rules::needs(object);
    let mut found = Surroundings::default();
    for other in all {
        match other {
            Object::Scope(scope) if needs.scopes_in.as_deref() == Some(other.namespace()) => {
                found.scopes.push(scope.clone());
            }
            Object::ClusterScope(scope) if needs.cluster_scopes || needs.grants => {
                found.cluster_scopes.push(scope.clone());
            }
            Object::Profile(profile) => {
                let own = (other.namespace().to_owned(), other.name().to_owned());
                if needs.profile.as_ref() == Some(&own) {
                    found.profile = Some(profile.clone());
                }
            }
            _ => {}
        }
    }
    found
}

/// What an object refers to and is not there.
enum Reference {
    Missing { path: &'static str, problem: String },
    Doubtful(String),
}

fn references(object: &Object, given: &Given<'_>) -> Vec<Reference> {
    let all = given.objects;
    let profiles = || {
        all.iter().filter_map(|other| match other {
            Object::Profile(profile) => Some(profile),
            _ => None,
        })
    };
    let mut found = Vec::new();
    let mut profile = |path, namespace: &str, name: &str| {
        let is = |profile: &&KollectProfile| profile.metadata.name.as_deref() == Some(name);
        let Some(nearest) = profiles()
            .find(|profile| is(profile) && profile.metadata.namespace.as_deref() == Some(namespace))
            .or_else(|| profiles().find(is))
        else {
            if given.broken_profiles.contains(name) {
                return;
            }
            found.push(Reference::Missing {
                path,
                problem: format!("Not found: {name:?}: no KollectProfile of this name was given"),
            });
            return;
        };
        let actual = nearest.metadata.namespace.as_deref().unwrap_or_default();
        if actual != namespace {
            found.push(Reference::Doubtful(format!(
                "profile {name:?} is in namespace {actual:?}; an operator looks for it in {namespace:?} only"
            )));
        }
    };
    match object {
        Object::Target(target) => {
            let name = target.spec.profile_ref.trim();
            if !name.is_empty() {
                profile("spec.profileRef", object.namespace(), name);
            }
        }
        Object::ClusterTarget(target) => {
            let reference = &target.spec.profile_ref;
            let name = reference.name.trim();
            if !name.is_empty() {
                profile("spec.profileRef.name", reference.namespace(), name);
            }
        }
        Object::Inventory(_) | Object::ClusterInventory(_) => {
            found.extend(missing_sinks(object, all).map(Reference::Doubtful));
        }
        _ => {}
    }
    found
}

/// Sinks of an inventory that were not given.
fn missing_sinks<'o>(object: &'o Object, all: &'o [Object]) -> impl Iterator<Item = String> + 'o {
    sink_refs(object)
        .into_iter()
        .map(|(wanted, _)| wanted)
        .filter(|wanted| {
            !all.iter()
                .any(|other| SinkKey::of(other).as_ref() == Some(wanted))
        })
        .map(|wanted| format!("{wanted} is not among the given objects"))
}
