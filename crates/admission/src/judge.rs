//! Whether an object may be stored, and what deserves attention.
//!
//! | Question | Answer |
//! | --- | --- |
//! | something is deleted, or is being deleted | always allowed: finalizers must be able to go |
//! | a part of an object, such as its status | allowed: not ours to judge |
//! | the object does not have the shape of its kind | refused, 400 |
//! | what scopes forbid is not known | refused, 503: to be tried again |
//! | the rules stand against it | refused, 403, unless the update leaves alone what they judge |
//! | a reference leads nowhere, or nobody knows where | allowed with a warning |

use std::fmt;

use kollect_api::{
    KollectProfile, SinkKey,
    identity::sink_refs,
    rules::{self, Denial, Object, Settings, Surroundings, Verdict},
};
use serde_json::Value;

use crate::{
    knowledge::{Found, Knowledge, NotKnown},
    review::Request,
};

/// What is said of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// Why the object may not be stored, if it may not.
    pub denied: Option<Denied>,
    /// What deserves attention; nobody hears of it if the object is refused.
    pub warnings: Vec<String>,
}

/// Why an object may not be stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Denied {
    /// It cannot be understood.
    Malformed(String),
    /// The rules stand against it.
    Rules(Denial),
    /// Its author may not read what it would collect.
    Author(String),
    /// It is larger than anybody should have to read.
    TooLarge(String),
    /// Whether it may be stored is not known at present.
    NotKnown(String),
}

impl Denied {
    /// The code of the status.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::Rules(_) | Self::Author(_) => 403,
            Self::TooLarge(_) => 413,
            Self::NotKnown(_) => 503,
        }
    }

    /// The reason of the status, as the API server has them.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "BadRequest",
            Self::Rules(_) | Self::Author(_) => "Forbidden",
            Self::TooLarge(_) => "RequestEntityTooLarge",
            Self::NotKnown(_) => "ServiceUnavailable",
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(denial) => denial.fmt(f),
            Self::Malformed(text)
            | Self::Author(text)
            | Self::TooLarge(text)
            | Self::NotKnown(text) => f.write_str(text),
        }
    }
}

impl Judgement {
    fn allowed() -> Self {
        Self::default()
    }

    /// Refused for this reason.
    pub fn denied(denied: Denied) -> Self {
        Self {
            denied: Some(denied),
            warnings: Vec::new(),
        }
    }
}

/// What is known of a request once it was looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// What is said of it.
    pub judgement: Judgement,
    /// The object, if it is allowed and was worth judging.
    pub object: Option<Object>,
}

/// Judges a request.
pub fn judge(request: &Request, settings: &Settings, knowledge: &impl Knowledge) -> Judgement {
    look(request, settings, knowledge).judgement
}

/// Judges a request, and hands out the object for whoever has more to ask about it.
pub fn look(request: &Request, settings: &Settings, knowledge: &impl Knowledge) -> Judged {
    let denied = |denied| Judged {
        judgement: Judgement::denied(denied),
        object: None,
    };
    match &*request.operation {
        "CREATE" | "UPDATE" => {}
        "DELETE" => return Judged::default(),
        other => {
            let text = format!("operation {other:?} is none that this webhook answers for");
            return denied(Denied::Malformed(text));
        }
    }
    if !request.sub_resource.is_empty() {
        return Judged::default();
    }
    let Some(value) = &request.object else {
        let text = "the request holds no object".to_owned();
        return denied(Denied::Malformed(text));
    };
    // Before anything is understood of it: an object that nobody understands must be able to go.
    if is_being_deleted(value) {
        return Judged::default();
    }
    let object = match decode(value, request) {
        Ok(object) => object,
        Err(error) => return denied(Denied::Malformed(error)),
    };
    let old = request.old_object.as_ref();
    let old = old.and_then(|old| decode(old, request).ok());
    let unchanged = old
        .as_ref()
        .is_some_and(|old| rules::unchanged(old, &object));
    let around = match surroundings(&object, knowledge) {
        Ok(around) => around,
        // What is stored stays as it is, whatever scopes say.
        Err(_) if unchanged => return Judged::default(),
        Err(NotKnown(why)) => {
            let (kind, name) = (object.kind(), object.name());
            let text = format!(
                "{kind} {name:?} cannot be judged: what scopes allow is not known: {why}; try again in a moment"
            );
            return denied(Denied::NotKnown(text));
        }
    };
    let verdict = match &old {
        Some(old) => rules::review_update(old, &object, settings, &around),
        None => rules::review(&object, settings, &around),
    };
    let mut warnings = match verdict {
        Verdict::Denied(denial) => return denied(Denied::Rules(denial)),
        Verdict::Allowed { warnings } => warnings,
    };
    warnings.extend(references(&object, knowledge));
    Judged {
        judgement: Judgement {
            warnings,
            ..Judgement::allowed()
        },
        // What is written already gives nobody new rights.
        object: Some(object).filter(|_| !unchanged),
    }
}

fn is_being_deleted(object: &Value) -> bool {
    let marked = object.pointer("/metadata/deletionTimestamp");
    marked.is_some_and(|at| !at.is_null())
}

/// The object of a request. One that has no name yet goes by the beginning of it.
fn decode(value: &Value, request: &Request) -> Result<Object, String> {
    let mut value = value.clone();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        let begun = metadata.get("generateName").cloned();
        let name = Some(&request.name).filter(|name| !name.is_empty());
        let name = name.map(|name| Value::from(name.as_str())).or(begun);
        if let Some(name) = name {
            metadata.entry("name").or_insert(name);
        }
        if !request.namespace.is_empty() {
            metadata
                .entry("namespace")
                .or_insert_with(|| request.namespace.as_str().into());
        }
    }
    // Not ours to judge, and forged ones must not keep an object from being understood.
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    Object::from_value(value).map_err(|error| error.to_string())
}

/// What the rules want to see around an object.
fn surroundings(object: &Object, knowledge: &impl Knowledge) -> Result<Surroundings, NotKnown> {
    let needs = rules::needs(object);
    let profile = needs.profile.map(|(namespace, name)| {
        let found = knowledge.profile(&namespace, &name);
        match found {
            Found::There(profile) => Some(profile),
            // The reference is told about below, and the rules do without.
            Found::Missing | Found::NotKnown(_) => None,
        }
    });
    let namespaces = needs.namespaces.into_iter().filter_map(|name| {
        let name = name.trim();
        Some((name.to_owned(), knowledge.annotations_of(name)?))
    });
    let namespaces = namespaces.collect();
    Ok(Surroundings {
        scopes: match &needs.scopes_in {
            Some(namespace) => knowledge.scopes_in(namespace)?,
            None => Vec::new(),
        },
        cluster_scopes: if needs.cluster_scopes {
            knowledge.cluster_scopes()?
        } else if needs.grants {
            // A namespaced object does not wait for what does not bind it.
            knowledge.cluster_scopes().unwrap_or_default()
        } else {
            Vec::new()
        },
        profile: profile.flatten(),
        namespaces,
    })
}

/// What an object refers to and is not there, or not known to be.
fn references(object: &Object, knowledge: &impl Knowledge) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut doubt = |what: String, found: Found<()>, until: &str| match found {
        Found::There(()) => {}
        Found::Missing => warnings.push(format!("{what} does not exist yet; {until}")),
        Found::NotKnown(NotKnown(why)) => warnings.push(format!(
            "whether {what} exists is not known: {why}; the status will tell"
        )),
    };
    match object {
        Object::Profile(profile) => served(profile, knowledge, &mut doubt),
        Object::Target(_) | Object::ClusterTarget(_) => {
            let wanted = rules::needs(object).profile;
            let (namespace, name) = wanted.unwrap_or_default();
            let found = match knowledge.profile(&namespace, &name) {
                Found::There(_) => Found::There(()),
                Found::Missing => Found::Missing,
                Found::NotKnown(why) => Found::NotKnown(why),
            };
            let what = format!("KollectProfile {name:?} in namespace {namespace:?}");
            doubt(what, found, "nothing is collected until it does");
        }
        Object::Inventory(_) | Object::ClusterInventory(_) | Object::ConnectionTest(_) => {
            for sink in sinks(object) {
                let what = format!(
                    "{} {:?} in namespace {:?}",
                    sink.family.kind(),
                    sink.name,
                    sink.namespace
                );
                doubt(
                    what,
                    knowledge.sink(&sink),
                    "nothing reaches it until it does",
                );
            }
            if let Object::ClusterInventory(inventory) = object {
                for name in &inventory.spec.target_refs {
                    let what = format!("KollectClusterTarget {name:?}");
                    let found = knowledge.cluster_target(name.trim());
                    doubt(
                        what,
                        found,
                        "the inventory is without its rows until it does",
                    );
                }
            }
        }
        Object::SnapshotSink(_)
        | Object::DatabaseSink(_)
        | Object::EventSink(_)
        | Object::Scope(_)
        | Object::ClusterScope(_) => {}
    }
    warnings
}

fn served(
    profile: &KollectProfile,
    knowledge: &impl Knowledge,
    doubt: &mut impl FnMut(String, Found<()>, &str),
) {
    let kind = &profile.spec.target_gvk;
    let what = format!("kind {kind} of spec.targetGVK");
    let until = "install its CustomResourceDefinition, or check group, version and kind";
    doubt(what, knowledge.kind(kind), until);
}

/// The sinks that an object names.
fn sinks(object: &Object) -> Vec<SinkKey> {
    match object {
        Object::ConnectionTest(test) => test
            .spec
            .sink_ref
            .given()
            .map(|(family, _, name)| SinkKey::new(family, object.namespace(), name.trim()))
            .collect(),
        _ => sink_refs(object).into_iter().map(|(key, _)| key).collect(),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
