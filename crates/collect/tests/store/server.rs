//! An API server in memory: objects, versions and a history to watch.

use std::collections::BTreeMap;
use std::sync::Arc;

use kollect_collect::plan::Watch;
use kollect_watch::Resource;
use serde_json::{Value, json};

/// Where an object is: plural, namespace, name.
pub(crate) type Place = (String, String, String);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Applied(Value),
    Deleted(Value),
}

#[derive(Debug)]
pub(crate) struct Server {
    version: u64,
    uids: u64,
    objects: BTreeMap<Place, Value>,
    history: Vec<(u64, Place, Option<Value>, Option<Value>)>,
}

impl Default for Server {
    fn default() -> Self {
        Server {
            // An API server is never at version 0.
            version: 1,
            uids: 0,
            objects: BTreeMap::new(),
            history: Vec::new(),
        }
    }
}

impl Server {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Creates or changes an object.
    pub(crate) fn apply(&mut self, place: Place, labels: &Value, replicas: Option<u64>) {
        self.version += 1;
        let before = self.objects.get(&place).cloned();
        let uid = match &before {
            Some(object) => object["metadata"]["uid"].clone(),
            None => {
                self.uids += 1;
                json!(format!("00000000-0000-0000-0000-{:012x}", self.uids))
            }
        };
        let (_, namespace, name) = &place;
        let mut object = json!({
            "metadata": {"name": name, "uid": uid, "resourceVersion": self.version.to_string(),
                "labels": labels},
            "spec": {},
            "status": {"noise": "x".repeat(20)},
        });
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
        if let Some(replicas) = replicas {
            object["spec"]["replicas"] = replicas.into();
        }
        self.record(place, before, Some(object));
    }

    pub(crate) fn delete(&mut self, place: &Place) {
        if let Some(before) = self.objects.get(place).cloned() {
            self.version += 1;
            self.record(place.clone(), Some(before), None);
        }
    }

    fn record(&mut self, place: Place, before: Option<Value>, after: Option<Value>) {
        match &after {
            Some(object) => self.objects.insert(place.clone(), object.clone()),
            None => self.objects.remove(&place),
        };
        self.history.push((self.version, place, before, after));
    }

    /// All objects of a resource.
    pub(crate) fn objects(&self, resource: &Resource) -> impl Iterator<Item = &Value> {
        let plural = resource.plural.clone();
        let objects = self.objects.iter();
        objects
            .filter(move |((own, ..), _)| *own == plural)
            .map(|(_, object)| object)
    }

    /// What a list of the watch shows now.
    pub(crate) fn list(&self, watch: &Watch) -> Vec<Value> {
        let objects = self.objects(&watch.resource);
        objects
            .filter(|object| sees(watch, object))
            .cloned()
            .collect()
    }

    /// The first event after a version that the watch sees, and its version.
    pub(crate) fn next(&self, watch: &Watch, after: u64) -> Option<(u64, Event)> {
        let later = self.history.iter().filter(|(version, ..)| *version > after);
        later
            .filter(|(_, (plural, ..), ..)| *plural == watch.resource.plural)
            .find_map(|(version, _, before, now)| {
                let before = before.as_ref().filter(|object| sees(watch, object));
                let seen = now.as_ref().filter(|object| sees(watch, object));
                let event = match (before, seen) {
                    (_, Some(object)) => Event::Applied(object.clone()),
                    (Some(object), None) => {
                        let mut object = object.clone();
                        object["metadata"]["resourceVersion"] = version.to_string().into();
                        Event::Deleted(object)
                    }
                    (None, None) => return None,
                };
                Some((*version, event))
            })
    }
}

/// Whether a watch shows an object. The only selectors in these tests are of the form `key=value`.
fn sees(watch: &Watch, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let labelled = watch.selector.as_ref().is_none_or(|selector: &Arc<str>| {
        let (key, value) = selector.split_once('=').expect("a simple selector");
        metadata["labels"][key] == *value
    });
    watch.scope.contains(namespace) && labelled
}
