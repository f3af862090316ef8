//! Secrets for sinks: from manifests, with values that may stand in the environment. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kollect_api::{rules::Settings, sink::SinkSpec};
use kollect_sinks::{
    SinkError,
    credentials::{self, Materials},
};

/// Why a Secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CredentialError {
    /// It is not among the manifests.
    #[error("secretRef {0} not found in the configuration; add the Secret to the manifests")]
    NotFound(String),
    /// A placeholder without a value.
    #[error(
        "Secret {secret}: key {key:?} stands for ${{env:{variable}}}, but the environment variable {variable} is unset or empty"
    )]
    Unset {
        /// The Secret.
        secret: String,
        /// The key in it.
        key: String,
        /// The variable.
        variable: String,
    },
    /// The sink may not have it, or it lacks something.
    #[error(transparent)]
    Unusable(#[from] SinkError),
}

/// What a sink of this namespace is built from.
pub(crate) fn materials(
    spec: &SinkSpec,
    namespace: &str,
    secrets: &[Secret],
    settings: &Settings,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Materials, CredentialError> {
    let mut found = BTreeMap::new();
    for wanted in credentials::wanted(spec, namespace) {
        credentials::permitted(&wanted, namespace, settings)?;
        let values = values(secrets, &wanted.namespace, &wanted.name, &environment)?;
        found.insert(wanted, values);
    }
    let read = |wanted: &credentials::Wanted| found.get(wanted).cloned().map(Into::into);
    Ok(credentials::materials(spec, namespace, read)?)
}

/// The values of a Secret: `data`, over it `stringData`, and over both the environment. The
/// manifests themselves stay as they are.
pub(crate) fn values(
    secrets: &[Secret],
    namespace: &str,
    name: &str,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, Vec<u8>>, CredentialError> {
    let is = |secret: &&Secret| {
        let metadata = &secret.metadata;
        let own = metadata.namespace.as_deref().unwrap_or_default();
        // A Secret without a namespace goes wherever it is needed.
        metadata.name.as_deref() == Some(name) && (own.is_empty() || own == namespace)
    };
    let title = format!("{namespace}/{name}");
    let Some(secret) = secrets.iter().find(is) else {
        return Err(CredentialError::NotFound(title));
    };
    let data = secret.data.iter().flatten();
    let data = data.map(|(key, value)| (key.clone(), value.0.clone()));
    let texts = secret.string_data.iter().flatten();
    let texts = texts.map(|(key, value)| (key.clone(), value.clone().into_bytes()));
    let mut values: BTreeMap<String, Vec<u8>> = data.chain(texts).collect();
    for (key, value) in &mut values {
        let Some(variable) = std::str::from_utf8(value).ok().and_then(placeholder) else {
            continue;
        };
        match environment(variable).filter(|text| !text.is_empty()) {
            Some(text) => *value = text.into_bytes(),
            None => {
                return Err(CredentialError::Unset {
                    secret: title,
                    key: key.clone(),
                    variable: variable.to_owned(),
                });
            }
        }
    }
    Ok(values)
}

/// The variable that a value stands for, if it is a placeholder and nothing else.
fn placeholder(value: &str) -> Option<&str> {
    let name = value.strip_prefix("${env:")?.strip_suffix('}')?;
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fine = !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(word);
    fine.then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets() -> Vec<Secret> {
        let secret = json!({
            "metadata": {"name": "git", "namespace": "team-a"},
            // from-data, bot
            "data": {"token": "ZnJvbS1kYXRh", "username": "Ym90"},
            "stringData": {
                "token": "from-string-data",
                "key": "${env:KEY}",
                "part": "prefix-${env:KEY}",
                "odd": "${env:1KEY}",
            },
        });
        vec![serde_json::from_value(secret).unwrap()]
    }

    fn read(
        namespace: &str,
        value: Option<&str>,
    ) -> Result<BTreeMap<String, String>, CredentialError> {
        let environment = |name: &str| (name == "KEY").then(|| value.map(str::to_owned))?;
        let values = values(&secrets(), namespace, "git", environment)?;
        let text = |value| String::from_utf8(value).unwrap();
        Ok(values
            .into_iter()
            .map(|(key, value)| (key, text(value)))
            .collect())
    }

    #[test]
    fn string_data_goes_over_data_and_the_environment_over_both() {
        let values = read("team-a", Some("hush")).unwrap();
        let expected = [
            ("key", "hush"),
            ("odd", "${env:1KEY}"),
            ("part", "prefix-${env:KEY}"),
            ("token", "from-string-data"),
            ("username", "bot"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(values, BTreeMap::from(expected));
    }

    #[test]
    fn a_placeholder_without_value_names_secret_key_and_variable() {
        for value in [None, Some("")] {
            let error = read("team-a", value).unwrap_err();
            let expected = CredentialError::Unset {
                secret: "team-a/git".to_owned(),
                key: "key".to_owned(),
                variable: "KEY".to_owned(),
            };
            assert_eq!(error, expected);
            assert!(error.to_string().contains("${env:KEY}"), "{error}");
        }
    }

    #[test]
    fn a_secret_of_another_namespace_is_not_found() {
        let error = read("team-b", None).unwrap_err();
        assert_eq!(error, CredentialError::NotFound("team-b/git".to_owned()));
    }
}
