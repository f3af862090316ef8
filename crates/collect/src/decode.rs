//! What comes out of the decoder: objects reduced to what is read of them.

use kollect_api::GroupVersionKind;
use serde_json::Value;
use thiserror::Error;

/// A decoded object. It holds at least its identity and what the projection was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedObject {
    value: Value,
}

impl DecodedObject {
    /// Takes a decoded value, if it has a name.
    pub(crate) fn new(value: Value) -> Result<Self, DecodeError> {
        let object = DecodedObject { value };
        if object.name().is_empty() {
            return Err(DecodeError::NoName);
        }
        Ok(object)
    }

    /// The object, for expressions to read.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// `metadata.namespace`, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.metadata("namespace")
    }

    /// `metadata.uid`, empty for the few kinds that have none.
    pub fn uid(&self) -> &str {
        self.metadata("uid")
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.metadata("resourceVersion")
    }

    /// One label, if the projection was asked for it.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.value["metadata"]["labels"][name].as_str()
    }

    /// Those labels that the projection was asked for.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.value["metadata"]["labels"].as_object();
        let labels = labels.into_iter().flatten();
        labels.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }

    fn metadata(&self, name: &str) -> &str {
        self.value["metadata"][name].as_str().unwrap_or_default()
    }
}

/// `apiVersion` and `kind` of the objects of one resource. They are known before any object is
/// seen, and the bytes do not always say them: the API server leaves them out of the items of a
/// list and calls an object that it reduced to metadata `PartialObjectMetadata`. Expressions must
/// not notice how an object came here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectType {
    /// Group and version, for example `apps/v1`.
    pub api_version: String,
    /// The kind, for example `Deployment`.
    pub kind: String,
}

impl From<&GroupVersionKind> for ObjectType {
    fn from(gvk: &GroupVersionKind) -> Self {
        let GroupVersionKind {
            group,
            version,
            kind,
        } = gvk;
        // The core group has no name in `apiVersion`, but people write one in profiles.
        let api_version = match group.as_str() {
            "" | "core" => version.clone(),
            _ => format!("{group}/{version}"),
        };
        ObjectType {
            api_version,
            kind: kind.clone(),
        }
    }
}

/// Bytes that are not what they should be. Positions, never content: bytes may hold secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not JSON, or nested more deeply than any object is.
    #[error("not JSON at line {line}, column {column}")]
    Syntax {
        /// Line of the text.
        line: usize,
        /// Column in that line.
        column: usize,
    },
    /// The text ends too early.
    #[error("the JSON text is cut off")]
    Truncated,
    /// JSON, but not an object of Kubernetes.
    #[error("not a Kubernetes object")]
    NotAnObject,
    /// An object without `metadata.name`.
    #[error("the object has no metadata.name")]
    NoName,
}

impl From<DecodeError> for kollect_watch::DecodeError {
    fn from(error: DecodeError) -> Self {
        let problem = match error {
            DecodeError::Syntax { .. } => "this is no JSON",
            DecodeError::Truncated => "the text ends too early",
            DecodeError::NotAnObject => "this is no Kubernetes object",
            DecodeError::NoName => "there is no metadata.name",
        };
        kollect_watch::DecodeError::Malformed {
            // Objects arrive on one line each.
            at: match error {
                DecodeError::Syntax { column, .. } => Some(column),
                _ => None,
            },
            problem,
        }
    }
}

impl DecodeError {
    /// The position of an error of the parser, without its words.
    pub(crate) fn from_json(error: &serde_json::Error) -> Self {
        if error.is_eof() {
            DecodeError::Truncated
        } else if error.is_data() {
            DecodeError::NotAnObject
        } else {
            DecodeError::Syntax {
                line: error.line(),
                column: error.column(),
            }
        }
    }
}
