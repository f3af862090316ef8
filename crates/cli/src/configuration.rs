//! The objects a user wrote, read from files and judged like the operator's webhook would.

mod finding;
mod judge;
mod removed;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kollect_api::{meta, reference::SinkFamily, rules};
use serde_json::{Value, json};

use crate::manifest::{self, Document, Schemas, Text, nearest};

pub(crate) use finding::{Finding, Severity, failed};
pub(crate) use kollect_api::identity::sink_refs;

/// Objects without a namespace are in this one, as for `kubectl apply`.
const DEFAULT_NAMESPACE: &str = "default";

/// What is valid where: the settings the rules are asked with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standard {
    /// As for an operator.
    pub(crate) settings: rules::Settings,
}

impl Standard {
    /// What a person may do with `kollect collect`: an operator's rules, and local repositories. A
    /// person reads with rights of their own, so nobody has to lend them any.
    pub(crate) fn of_a_person(&self) -> rules::Settings {
        rules::Settings {
            local_repositories: true,
            secret_extraction: rules::SecretExtraction::Annotation,
            ..self.settings.clone()
        }
    }
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// Valid objects, in the order of the files; namespaced kinds always have a namespace.
    pub(crate) objects: Vec<rules::Object>,
    /// Secrets for sinks.
    pub(crate) secrets: Vec<Secret>,
    /// What stands against the others, and what deserves attention, by file and line.
    pub(crate) findings: Vec<Finding>,
}

impl Configuration {
    /// Reads and judges the objects of some texts. What is wrong is collected, so that all of it can be shown at once.
    pub(crate) fn load(texts: &[Text], standard: &Standard) -> Self {
        let mut documents = Vec::new();
        let mut broken = Vec::new();
        for text in texts {
            let parsed = manifest::parse(text);
            documents.extend(parsed.documents);
            broken.extend(parsed.broken);
        }
        let mut configuration = Self::new(documents, standard);
        let broken = broken.into_iter().map(Finding::broken);
        configuration.findings.extend(broken);
        configuration.findings.sort();
        configuration
    }

    /// Judges objects that were read already.
    pub(crate) fn new(documents: Vec<Document>, standard: &Standard) -> Self {
        let schemas = Schemas::new();
        let mut configuration = Self::default();
        let mut candidates = Vec::new();
        let mut known: BTreeMap<(String, String, String), String> = BTreeMap::new();
        for mut document in documents {
            let kind = document.text("/kind").to_owned();
            let api_version = document.text("/apiVersion").to_owned();
            if api_version == "v1" && kind == "Secret" {
                configuration.add_secret(&document);
                continue;
            }
            let Some(namespaced) = schemas
                .is_namespaced(&kind)
                .filter(|_| api_version == meta::API_VERSION)
            else {
                let stranger = stranger(&document, &schemas);
                configuration.findings.push(stranger);
                continue;
            };
            if namespaced {
                give_namespace(&mut document);
            }
            spell_out_sinks(&mut document);
            let key = (
                kind.clone(),
                document.text("/metadata/namespace").to_owned(),
                document.text("/metadata/name").to_owned(),
            );
            if let Some(first) = known.get(&key) {
                // It is judged all the same: what is wrong with it is worth knowing at once.
                let problem = format!("is defined twice; the first is at {first}");
                let finding = Finding::of(&document, Severity::Error, "", problem);
                configuration.findings.push(finding);
            } else {
                known.insert(key, document.at("metadata.name"));
            }
            candidates.push(document);
        }
        configuration.judge(candidates, &schemas, standard);
        configuration.findings.sort();
        configuration.findings.dedup();
        configuration
    }

    fn add_secret(&mut self, document: &Document) {
        match serde_json::from_value(document.value.clone()) {
            Ok(secret) => self.secrets.push(secret),
            // What the decoder says may quote what it read.
            Err(_) => self.findings.push(Finding::of(
                document,
                Severity::Error,
                "",
                "cannot be read: data must be a map of base64 texts, stringData one of texts",
            )),
        }
    }

    /// How many objects cannot be used.
    pub(crate) fn failed(&self) -> usize {
        failed(&self.findings)
    }

    /// How many warnings there are.
    pub(crate) fn warnings(&self) -> usize {
        let warnings = self.findings.iter().filter(|finding| !finding.is_error());
        warnings.count()
    }

    /// The objects of one kind.
    pub(crate) fn all<'c, T: 'c>(
        &'c self,
        pick: impl Fn(&'c rules::Object) -> Option<&'c T> + 'c,
    ) -> impl Iterator<Item = &'c T> {
        self.objects.iter().filter_map(pick)
    }
}

/// What is said of an object that is none of our kinds. One that was meant to be is an error: nobody would notice that it has no
/// effect.
fn stranger(document: &Document, schemas: &Schemas) -> Finding {
    let (kind, api_version) = (document.text("/kind"), document.text("/apiVersion"));
    let group = api_version.split('/').next().unwrap_or_default();
    let error = |path, problem| Finding::of(document, Severity::Error, path, problem);
    if schemas.is_namespaced(kind).is_some() {
        let problem = format!(
            "Invalid value: {api_version:?}: did you mean {}?",
            meta::API_VERSION
        );
        return error("apiVersion", problem);
    }
    if group == meta::GROUP || kind.starts_with("Kollect") {
        let problem = match (removed::kind(kind), nearest(kind, schemas.kinds())) {
            (Some(successor), _) => {
                format!("Invalid value: {kind:?}: this kind is no more; {successor}")
            }
            (None, Some(meant)) => format!("Invalid value: {kind:?}: did you mean {meant}?"),
            (None, None) => {
                let kinds: Vec<&str> = schemas.kinds().collect();
                format!(
                    "Invalid value: {kind:?}: the kinds are {}",
                    kinds.join(", ")
                )
            }
        };
        return error("kind", problem);
    }
    let named = if api_version.is_empty() {
        format!("{kind:?}")
    } else {
        format!("{api_version} {kind}")
    };
    let problem = format!("skipped unknown kind {named}");
    Finding::of(document, Severity::Warning, "", problem)
}

/// Gives an object a namespace that has none.
fn give_namespace(document: &mut Document) {
    if document.text("/metadata/namespace").is_empty()
        && let Some(metadata) = document.value.get_mut("metadata")
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.insert("namespace".to_owned(), DEFAULT_NAMESPACE.into());
    }
}

/// Files may name sinks by their names alone; the API knows references only.
fn spell_out_sinks(document: &mut Document) {
    // Scopes name sinks by their names alone, in the API as well.
    if !matches!(
        document.text("/kind"),
        "KollectInventory" | "KollectClusterInventory"
    ) {
        return;
    }
    for family in SinkFamily::ALL {
        let references = document.value.get_mut("spec");
        let references = references.and_then(|spec| spec.get_mut(family.refs_field()));
        for reference in references
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if reference.is_string() {
                *reference = json!({"name": reference.take()});
            }
        }
    }
}
