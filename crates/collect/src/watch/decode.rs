//! From the bytes of one object to what a consumer wants of it.

use kollect_api::GroupVersionKind;
use serde::Deserialize;
use serde_json::Value;

/// Turns one object as the API server writes it into the consumer's form of it.
///
/// Watch events and list items come through the same function, so that a consumer cannot tell
/// which way an object came. Two things differ in the bytes and are the decoder's to make equal:
/// items of built-in kinds have no `apiVersion` and `kind`, and objects of a metadata-only watch
/// call themselves `PartialObjectMetadata`. A decoder that shows these two fields sets them from
/// what it knows, never from the bytes.
pub trait Decode: Send + Sync + 'static {
    /// The consumer's form of an object.
    type Object: Send + 'static;

    /// Decodes the bytes of one object.
    fn decode(&self, json: &[u8]) -> Result<Decoded<Self::Object>, DecodeError>;
}

/// A decoded object with what the watch itself needs to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<T> {
    /// `metadata.resourceVersion`, from where the watch goes on after a break.
    pub resource_version: String,
    /// The consumer's form.
    pub object: T,
}

/// Why one object could not be read. Names no value of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are no such object.
    #[error("cannot decode the object at byte {at}: {problem}")]
    Malformed {
        /// How far the decoder came.
        at: usize,
        /// What it met there.
        problem: &'static str,
    },
    /// The object is larger than the watch takes.
    #[error("the object is larger than {limit} bytes and was skipped")]
    TooLarge {
        /// The limit in force.
        limit: usize,
    },
}

impl From<serde_json::Error> for DecodeError {
    /// The text of a JSON error can quote the input, so only its place and category are kept.
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        Self::Malformed {
            at: error.column(),
            problem: match error.classify() {
                Category::Io | Category::Eof => "the text ends too early",
                Category::Syntax => "this is no JSON",
                Category::Data => "a field has another type than expected",
            },
        }
    }
}

/// Which object, without anything of it. Names recur, the UID does not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Empty for objects of cluster-scoped kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
}

/// The little that is read of an object that is gone or could not be decoded.
pub(super) struct Remains {
    pub(super) identity: Identity,
    pub(super) resource_version: String,
}

impl Remains {
    pub(super) fn read(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            namespace: String,
            name: String,
            uid: String,
            #[serde(default)]
            resource_version: String,
        }

        let Object { metadata } = serde_json::from_slice(json)?;
        Ok(Self {
            identity: Identity {
                namespace: metadata.namespace,
                name: metadata.name,
                uid: metadata.uid,
            },
            resource_version: metadata.resource_version,
        })
    }
}

/// Decodes whole objects, for watches of few objects such as namespaces.
#[derive(Debug, Clone)]
pub struct ValueDecoder {
    api_version: String,
    kind: String,
}

impl ValueDecoder {
    /// For objects of this kind.
    pub fn new(kind: &GroupVersionKind) -> Self {
        let api_version = if kind.group.is_empty() {
            kind.version.clone()
        } else {
            format!("{}/{}", kind.group, kind.version)
        };
        Self {
            api_version,
            kind: kind.kind.clone(),
        }
    }
}

impl Decode for ValueDecoder {
    type Object = Value;

    fn decode(&self, json: &[u8]) -> Result<Decoded<Value>, DecodeError> {
        const NO_OBJECT: DecodeError = DecodeError::Malformed {
            at: 0,
            problem: "there is no object with metadata",
        };
        let mut object: Value = serde_json::from_slice(json)?;
        let metadata = object.get("metadata").and_then(Value::as_object);
        let version = metadata.ok_or(NO_OBJECT)?.get("resourceVersion");
        let resource_version = version.and_then(Value::as_str).unwrap_or_default();
        let resource_version = resource_version.to_owned();
        object["apiVersion"] = self.api_version.as_str().into();
        object["kind"] = self.kind.as_str().into();
        Ok(Decoded {
            resource_version,
            object,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn list_items_and_partial_objects_get_their_kind() {
        let decoder = ValueDecoder::new(&GroupVersionKind::new("apps", "v1", "Deployment"));
        let forms = [
            r#"{"metadata":{"name":"a","resourceVersion":"5"}}"#,
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",
                "metadata":{"name":"a","resourceVersion":"5"}}"#,
        ];
        for form in forms {
            let found = decoder.decode(form.as_bytes()).unwrap();
            assert_eq!(found.resource_version, "5");
            assert_eq!(
                found.object,
                json!({ "apiVersion": "apps/v1", "kind": "Deployment",
                        "metadata": { "name": "a", "resourceVersion": "5" } })
            );
        }
    }

    #[test]
    fn errors_do_not_quote_the_object() {
        let decoder = ValueDecoder::new(&GroupVersionKind::new("", "v1", "Secret"));
        let forms = [
            r#"{"metadata":{"name":s3cret}}"#,
            r#""s3cret""#,
            r#"{"a":"s3cret"#,
        ];
        for form in forms {
            let text = decoder.decode(form.as_bytes()).unwrap_err().to_string();
            assert!(!text.contains("s3cret"), "{text}");
        }
        let Err(error) = Remains::read(br#"{"metadata":{"name":"s3cret","uid":[]}}"#) else {
            panic!("a list is no UID");
        };
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
