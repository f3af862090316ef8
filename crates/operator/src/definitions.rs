//! CustomResourceDefinitions, as far as anybody here wants to know: that they are there, and in
//! which version. A definition can have hundreds of kilobytes; of those nothing is read, and
//! nothing is kept but a name.

use std::borrow::Cow;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kollect_watch::{Decode, DecodeError, Decoded};
use kube::{Resource, core::ObjectMeta};
use serde::Deserialize;

/// That a definition is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Nothing but its name and version.
    metadata: ObjectMeta,
}

impl Resource for Definition {
    type DynamicType = ();
    type Scope = <CustomResourceDefinition as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        CustomResourceDefinition::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        CustomResourceDefinition::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        CustomResourceDefinition::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        CustomResourceDefinition::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Reads names and versions and skips the rest.
#[derive(Debug, Default)]
pub struct DefinitionDecoder;

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    resource_version: String,
}

impl Decode for DefinitionDecoder {
    type Object = Definition;

    fn decode(&self, json: &[u8]) -> Result<Decoded<Definition>, DecodeError> {
        let Object { metadata } = serde_json::from_slice(json)?;
        Ok(Decoded {
            resource_version: metadata.resource_version.clone(),
            object: Definition {
                metadata: ObjectMeta {
                    name: Some(metadata.name),
                    resource_version: Some(metadata.resource_version),
                    ..ObjectMeta::default()
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c8_of_a_large_definition_a_name_is_kept() {
        let text = "x".repeat(200_000);
        let json = serde_json::json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {
                "name": "widgets.example.com", "resourceVersion": "7", "uid": "u",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": text},
            },
            "spec": {"versions": [{"schema": text}]},
        });
        let decoded = DefinitionDecoder
            .decode(json.to_string().as_bytes())
            .unwrap();
        assert_eq!(decoded.resource_version, "7");
        let meta = decoded.object.meta();
        assert_eq!(meta.name.as_deref(), Some("widgets.example.com"));
        let kept = serde_json::to_string(meta).unwrap();
        assert!(kept.len() < 100, "{kept}");
    }
}
