//! The vectors of the API as data, read once for every test that uses them.

use kollect_api::{
    meta,
    rules::{Object, Surroundings, needs},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Who refuses an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RefusedBy {
    Schema,
    Rules,
    Nobody,
}

/// One object, what exists beforehand and what is expected of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Vector {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) rule: String,
    /// Absent for objects that must be accepted.
    pub(crate) refused_by: Option<RefusedBy>,
    /// Part of the message of a refusal by the rules.
    pub(crate) says: Option<String>,
    /// Part of a warning.
    pub(crate) warns: Option<String>,
    /// Why an object is accepted that was refused before.
    #[serde(default)]
    pub(crate) because: String,
    pub(crate) context: Option<String>,
    kind: String,
    annotations: Option<Value>,
    spec: Value,
}

impl Vector {
    /// The manifest, in this namespace where the kind has one.
    pub(crate) fn manifest(&self, namespace: &str) -> Value {
        let mut metadata = json!({"name": "x"});
        if !self.kind.starts_with("KollectCluster") {
            metadata["namespace"] = namespace.into();
        }
        if let Some(annotations) = &self.annotations {
            metadata["annotations"] = annotations.clone();
        }
        json!({
            "apiVersion": meta::API_VERSION,
            "kind": self.kind,
            "metadata": metadata,
            "spec": self.spec,
        })
    }

    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.refused_by, Some(RefusedBy::Schema | RefusedBy::Rules))
    }
}

pub(crate) fn refused() -> Vec<Vector> {
    read(include_str!("../data/refused.yaml"))
}

pub(crate) fn edge() -> Vec<Vector> {
    read(include_str!("../data/edge.yaml"))
}

/// The complete manifests that must be accepted.
pub(crate) fn accepted() -> Vec<Value> {
    serde_saphyr::from_multiple(include_str!("../data/accepted.yaml")).expect("accepted.yaml")
}

fn read(text: &str) -> Vec<Vector> {
    serde_saphyr::from_str(text).expect("vectors are well formed")
}

/// What [`needs`] would have fetched for an object, in a world of these objects.
pub(crate) fn surroundings(world: &[Object], object: &Object) -> Surroundings {
    let needs = needs(object);
    let mut surroundings = Surroundings::default();
    for other in world {
        match other {
            Object::Scope(scope) if needs.scopes_in.as_deref() == Some(other.namespace()) => {
                surroundings.scopes.push(scope.clone());
            }
            Object::ClusterScope(scope) if needs.cluster_scopes || needs.grants => {
                surroundings.cluster_scopes.push(scope.clone());
            }
            Object::Profile(profile)
                if needs.profile
                    == Some((other.namespace().to_owned(), other.name().to_owned())) =>
            {
                surroundings.profile = Some(profile.clone());
            }
            _ => {}
        }
    }
    surroundings
}

/// The objects of a context.
pub(crate) fn context(name: Option<&str>) -> Vec<Object> {
    let manifests = name.map(context_manifests).unwrap_or_default();
    manifests
        .into_iter()
        .map(|value| Object::from_value(value).expect("contexts hold our kinds"))
        .collect()
}

/// The manifests of a context; none of one that is a setting of the operator.
pub(crate) fn context_manifests(name: &str) -> Vec<Value> {
    let contexts: Value =
        serde_saphyr::from_str(include_str!("../data/contexts.yaml")).expect("contexts.yaml");
    let objects = contexts.get(name).and_then(Value::as_array);
    objects.cloned().unwrap_or_default()
}
