//! The CustomResourceDefinitions of all kinds, generated from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::{
    KollectClusterInventory, KollectClusterScope, KollectClusterTarget, KollectConnectionTest,
    KollectDatabaseSink, KollectEventSink, KollectInventory, KollectProfile, KollectScope,
    KollectSnapshotSink, KollectTarget,
};

/// One CRD as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrdFile {
    /// Name of the file below `deploy/crds`.
    pub file_name: String,
    /// Its content.
    pub yaml: String,
}

/// All definitions, by name of kind.
pub fn all() -> Vec<CustomResourceDefinition> {
    [
        KollectClusterInventory::crd(),
        KollectClusterScope::crd(),
        KollectClusterTarget::crd(),
        KollectConnectionTest::crd(),
        KollectDatabaseSink::crd(),
        KollectEventSink::crd(),
        KollectInventory::crd(),
        KollectProfile::crd(),
        KollectScope::crd(),
        KollectSnapshotSink::crd(),
        KollectTarget::crd(),
    ]
    .into_iter()
    .map(tidy)
    .collect()
}

/// All definitions as the files that are checked in and applied.
pub fn all_yaml() -> Vec<CrdFile> {
    all()
        .into_iter()
        .map(|crd| {
            let mut value = serde_json::to_value(&crd).expect("a CRD is plain data");
            // Kubernetes fills this in; a manifest has no business with it.
            value
                .as_object_mut()
                .expect("a CRD is an object")
                .remove("status");
            CrdFile {
                file_name: format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural),
                yaml: serde_saphyr::to_string(&value).expect("plain data is YAML"),
            }
        })
        .collect()
}

/// Removes what the derive adds and the API does not promise: `nullable` on every optional field
/// would let `null` through to storage and past the defaults.
fn tidy(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(crd).expect("a CRD is plain data");
    if let Some(schema) = value.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        drop_nullable(schema);
    }
    serde_json::from_value(value).expect("removing members keeps a CRD a CRD")
}

fn drop_nullable(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("nullable").is_some_and(Value::is_boolean) {
                members.remove("nullable");
            }
            members.values_mut().for_each(drop_nullable);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nullable),
        _ => {}
    }
}
