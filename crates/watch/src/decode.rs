//! From the bytes of one object to what a consumer wants of it.

use serde::Deserialize;

use crate::identity::ObjectIdentity;

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
    #[error("cannot decode the object{}: {problem}", place(*.at))]
    Malformed {
        /// How far the decoder came, if it was the place that was wrong.
        at: Option<usize>,
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

fn place(at: Option<usize>) -> String {
    at.map(|at| format!(" at byte {at}")).unwrap_or_default()
}

impl From<serde_json::Error> for DecodeError {
    /// The text of a JSON error can quote the input, so only its place and category are kept.
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        Self::Malformed {
            at: Some(error.column()),
            problem: match error.classify() {
                Category::Io | Category::Eof => "the text ends too early",
                Category::Syntax => "this is no JSON",
                Category::Data => "a field is missing or has another type than expected",
            },
        }
    }
}

/// The little that is read of an object that is gone or could not be decoded.
pub(super) struct Remains {
    pub(super) identity: ObjectIdentity,
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
            identity: ObjectIdentity {
                namespace: metadata.namespace,
                name: metadata.name,
                uid: metadata.uid,
            },
            resource_version: metadata.resource_version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_identity_and_version() {
        let read = |json: &str| Remains::read(json.as_bytes());
        let remains = read(
            r#"{"kind":"X","metadata":{"uid":"u","name":"n","namespace":"ns","managedFields":[{}],
                "resourceVersion":"7"},"spec":{"name":"other"}}"#,
        )
        .unwrap();
        assert_eq!(remains.resource_version, "7");
        let expected = |namespace: &str| ObjectIdentity {
            namespace: namespace.to_owned(),
            name: "n".to_owned(),
            uid: "u".to_owned(),
        };
        assert_eq!(remains.identity, expected("ns"));
        let cluster_scoped = read(r#"{"metadata":{"uid":"u","name":"n"}}"#).unwrap();
        assert_eq!(cluster_scoped.identity, expected(""));
    }

    #[test]
    fn c14_errors_say_how_far_the_decoder_came() {
        for (json, broken) in [
            (r#"{"metadata":{"name":s3cret}}"#, "s3cret"),
            (r#"{"metadata":{"name":"n","uid":[]}}"#, "[]"),
        ] {
            let Err(DecodeError::Malformed { at, .. }) = Remains::read(json.as_bytes()) else {
                panic!("{json} is no object");
            };
            // The parser counts the bytes it has looked at.
            let begins = json.find(broken).unwrap();
            let places = [Some(begins), Some(begins + 1)];
            assert!(places.contains(&at), "{json}: {at:?}, not {begins}");
        }
        let (at, problem) = (Some(7), "this is no JSON");
        let text = DecodeError::Malformed { at, problem }.to_string();
        assert_eq!(text, "cannot decode the object at byte 7: this is no JSON");
        let text = DecodeError::Malformed { at: None, problem }.to_string();
        assert_eq!(text, "cannot decode the object: this is no JSON");
    }

    #[test]
    fn errors_do_not_quote_the_object() {
        let cases = [
            (r#"{"metadata":{"name":s3cret}}"#, "this is no JSON"),
            (
                r#""s3cret""#,
                "a field is missing or has another type than expected",
            ),
            (
                r#"{"metadata":{"name":"s3cret","uid":[]}}"#,
                "a field is missing or has another type than expected",
            ),
            (
                r#"{"metadata":{"name":"s3cret"}}"#,
                "a field is missing or has another type than expected",
            ),
            (r#"{"metadata":{"name":"s3cret"#, "the text ends too early"),
        ];
        for (json, problem) in cases {
            let Err(error) = Remains::read(json.as_bytes()) else {
                panic!("{json} is no object");
            };
            let text = error.to_string();
            assert!(text.contains(problem), "{json}: {text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}
