//! The objects a user wrote, read from files and judged like the operator's webhook would.

mod judge;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kollect_api::{meta, reference::SinkFamily, rules};
use serde_json::{Value, json};

use crate::manifest::{self, Document, ManifestError, Schemas, Text};

pub(crate) use judge::{Problem, sink_refs};

/// Objects without a namespace are in this one, as for `kubectl apply`.
const DEFAULT_NAMESPACE: &str = "default";

/// What is valid where: the settings the rules are asked with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standard {
    /// As for an operator.
    pub(crate) settings: rules::Settings,
}

impl Standard {
    /// What a person may do with `kollect collect`: an operator's rules, and local repositories.
    pub(crate) fn of_a_person(&self) -> rules::Settings {
        rules::Settings {
            local_repositories: true,
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
    /// What stands against the others.
    pub(crate) problems: Vec<Problem>,
    /// What deserves attention.
    pub(crate) warnings: Vec<String>,
}

impl Configuration {
    /// Reads and judges the objects of some texts. Only a text that is no manifest at all is an
    /// error; what is wrong with objects is collected, so that all of it can be shown at once.
    pub(crate) fn load(texts: &[Text], standard: &Standard) -> Result<Self, ManifestError> {
        let mut documents = Vec::new();
        for text in texts {
            documents.extend(manifest::parse(text)?);
        }
        Ok(Self::new(documents, standard))
    }

    /// Judges objects that were read already.
    pub(crate) fn new(documents: Vec<Document>, standard: &Standard) -> Self {
        let schemas = Schemas::new();
        let mut configuration = Self::default();
        let mut candidates = Vec::new();
        let mut known: BTreeMap<(String, String, String), String> = BTreeMap::new();
        for mut document in documents {
            let kind = document.text("/kind").to_owned();
            let api_version = document.text("/apiVersion");
            if api_version == "v1" && kind == "Secret" {
                configuration.add_secret(&document);
                continue;
            }
            let Some(namespaced) = schemas
                .is_namespaced(&kind)
                .filter(|_| api_version == meta::API_VERSION)
            else {
                configuration.warnings.push(format!(
                    "skipped unknown kind {} in {}",
                    name_of_kind(api_version, &kind),
                    document.at("")
                ));
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
                let problem = format!("is defined twice; the first is at {first}");
                configuration
                    .problems
                    .push(Problem::of(&document, &problem));
                continue;
            }
            known.insert(key, document.at("metadata.name"));
            candidates.push(document);
        }
        configuration.judge(candidates, &schemas, standard);
        configuration
    }

    fn add_secret(&mut self, document: &Document) {
        match serde_json::from_value(document.value.clone()) {
            Ok(secret) => self.secrets.push(secret),
            // What the decoder says may quote what it read.
            Err(_) => self.problems.push(Problem::of(
                document,
                "cannot be read: data must be a map of base64 texts, stringData one of texts",
            )),
        }
    }

    /// The objects of one kind.
    pub(crate) fn all<'c, T: 'c>(
        &'c self,
        pick: impl Fn(&'c rules::Object) -> Option<&'c T> + 'c,
    ) -> impl Iterator<Item = &'c T> {
        self.objects.iter().filter_map(pick)
    }
}

fn name_of_kind(api_version: &str, kind: &str) -> String {
    if api_version.is_empty() {
        format!("{kind:?}")
    } else {
        format!("{api_version} {kind}")
    }
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
