//! A cluster as files: what `kubectl get -o json` or `-o yaml` printed, in any number of files.
//!
//! The dump answers what an API server would be asked: which kinds and namespaces there are, and
//! which objects. It answers only for what is in it. A kind that is missing may have had no
//! objects or may not have been dumped, so nothing is known about it.

mod duplicates;
mod reader;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use anyhow::Result;
use kollect_api::GroupVersionKind;
use kollect_collect::{
    gather::{Failure, Gathered, Gatherer},
    plan::{KindFact, NamespaceFacts, NamespaceListing, Plan, ResourcePlan},
};
use kollect_watch::{
    Resource,
    access::{Permission, Review},
};

use self::reader::Entry;
use super::world::Oracle;
use crate::manifest::{self, Document, Extent, Places, Text};

/// The label every namespace has, with its own name as value.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A cluster as files.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    kinds: BTreeMap<Kind, Objects>,
    namespaces: BTreeMap<String, NamespaceFacts>,
    /// Namespaces that objects are in, but that are not in the dump themselves.
    implied: BTreeSet<String>,
    /// Objects of our own kinds, and Secrets: they may be the configuration.
    own: Vec<Document>,
    /// Objects with a key that is there twice, as messages name them; the first of them.
    ambiguous: Vec<String>,
    ambiguous_count: usize,
}

/// How many objects with a key that is there twice are named.
const NAMED: usize = 3;

/// Group, version and kind.
type Kind = (String, String, String);

/// The objects of one kind, as JSON.
#[derive(Debug, Default)]
struct Objects {
    namespaced: bool,
    texts: Vec<Box<[u8]>>,
}

impl Dump {
    /// Reads all files; directories with everything below them.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self> {
        let mut dump = Self::default();
        for text in manifest::read_all(paths, Extent::Deep)? {
            dump.add(&text)?;
        }
        dump.imply_namespaces();
        Ok(dump)
    }

    fn add(&mut self, text: &Text) -> Result<()> {
        reader::read(text, &mut |entry| self.entry(&text.name, entry))?;
        Ok(())
    }

    fn entry(&mut self, file: &str, entry: Entry<'_>) {
        let kind = (
            entry.group.to_owned(),
            entry.version.to_owned(),
            entry.kind.to_owned(),
        );
        let Some(json) = entry.json else {
            self.kinds.entry(kind).or_default();
            return;
        };
        if let Some(key) = entry.twice {
            self.ambiguous_count += 1;
            if self.ambiguous.len() < NAMED {
                let (kind, namespace, name) = (entry.kind, entry.namespace, entry.name);
                let object = format!("{file}: {kind} {namespace}/{name}: {key:?}");
                self.ambiguous.push(object);
            }
        }
        if entry.group.is_empty() && entry.version == "v1" && entry.kind == "Namespace" {
            let facts = NamespaceFacts {
                labels: entry.labels,
                annotations: entry.annotations,
            };
            self.namespaces.insert(entry.name.to_owned(), facts);
        }
        let is_secret = (entry.group, entry.kind) == ("", "Secret");
        if (entry.group == kollect_api::meta::GROUP || is_secret)
            && let Ok(value) = serde_json::from_slice(json)
        {
            self.own.push(Document {
                file: file.into(),
                value,
                places: Places::default(),
            });
        }
        let objects = self.kinds.entry(kind).or_default();
        if !entry.namespace.is_empty() {
            objects.namespaced = true;
            self.implied.insert(entry.namespace.to_owned());
        }
        objects.texts.push(json.into());
    }

    fn imply_namespaces(&mut self) {
        self.implied
            .retain(|name| !self.namespaces.contains_key(name));
        for name in &self.implied {
            let facts = NamespaceFacts {
                labels: BTreeMap::from([(NAME_LABEL.to_owned(), name.clone())]),
                annotations: BTreeMap::new(),
            };
            self.namespaces.insert(name.clone(), facts);
        }
    }

    /// Namespaces whose labels are not known, because only their objects were dumped.
    pub(crate) fn implied_namespaces(&self) -> &BTreeSet<String> {
        &self.implied
    }

    /// How many objects have a key that is there twice, and some of them with that key.
    pub(crate) fn ambiguous(&self) -> (usize, &[String]) {
        (self.ambiguous_count, &self.ambiguous)
    }

    /// Takes out what may be configuration.
    pub(crate) fn take_own(&mut self) -> Vec<Document> {
        std::mem::take(&mut self.own)
    }

    /// The namespaces for the plan.
    pub(crate) fn namespaces(&self) -> NamespaceListing {
        NamespaceListing::Complete(self.namespaces.clone())
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.kinds.values().map(|objects| objects.texts.len()).sum()
    }

    /// Shows every object to the targets that a plan has for it.
    pub(crate) fn gather(&self, plan: &Plan) -> Gathered {
        let mut gathered = Gathered::default();
        for resource in plan.resources() {
            for (kind, objects) in &self.kinds {
                if resource_of(kind, objects) == *resource.resource {
                    gathered.add(gather(resource, objects));
                }
            }
        }
        gathered
    }
}

fn gather(plan: &ResourcePlan, objects: &Objects) -> Gathered {
    let mut gatherer = Gatherer::default();
    for json in &objects.texts {
        match plan.projection.decode(json) {
            Ok(object) => gatherer.object(plan, &object),
            Err(error) => {
                let peek = reader::Peek::read(json).unwrap_or_default();
                let failure = Failure {
                    namespace: peek.metadata.namespace.into_owned(),
                    name: peek.metadata.name.into_owned(),
                    uid: String::new(),
                    reason: error.to_string(),
                };
                gatherer.unreadable(plan, &failure);
            }
        }
    }
    gatherer.finish()
}

/// The resource of a kind. Its plural is not known and not needed: nobody is asked by it.
fn resource_of((group, version, kind): &Kind, objects: &Objects) -> Resource {
    Resource {
        group: group.clone(),
        version: version.clone(),
        plural: kind.to_lowercase(),
        namespaced: objects.namespaced,
    }
}

impl Oracle for &Dump {
    async fn kind(&mut self, gvk: &GroupVersionKind) -> KindFact {
        let group = match gvk.group.as_str() {
            "core" => "",
            group => group,
        };
        let kind = (group.to_owned(), gvk.version.clone(), gvk.kind.clone());
        match self.kinds.get(&kind) {
            Some(objects) => KindFact::Served(Arc::new(resource_of(&kind, objects))),
            None => KindFact::NotInstalled,
        }
    }

    async fn permission(&mut self, _: &Review) -> Permission {
        Permission::Allowed
    }
}
