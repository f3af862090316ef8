//! Requests that change objects: status, finalizers, annotations.
//!
//! Everything is a patch of exactly what is ours. The spec is never written, so a user's spelling
//! and the generation stay as they are. Each request ends within [`DEADLINE`]; when it is made, and
//! when again, is decided by [`crate::write_queue`].

use std::{fmt::Debug, future::Future, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api_error::Sentence;

/// How long one request may take.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API server did not answer in time. The write may have happened.
    #[error("the API server gave no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// It was refused, or never arrived.
    #[error("{}", Sentence(.0))]
    Refused(#[from] kube::Error),
    /// Our finalizer could not be written; what else there was to write has been written.
    #[error("finalizer: {0}")]
    Finalizer(#[source] Box<WriteError>),
    /// We failed, not the API server.
    #[error("the write panicked; the log says where")]
    Panicked,
}

impl WriteError {
    /// Whether somebody else was faster or the object is gone; then the next version of the object
    /// is worth another try.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Refused(kube::Error::Api(status)) if matches!(status.code, 404 | 409))
    }
}

impl WriteError {
    /// Whether the API server has too much to do.
    pub fn is_pushed_back(&self) -> bool {
        match self {
            Self::Refused(kube::Error::Api(status)) => matches!(status.code, 429 | 504),
            Self::Finalizer(error) => error.is_pushed_back(),
            Self::Refused(_) | Self::Late(_) | Self::Panicked => false,
        }
    }
}

/// Makes a request with the deadline of all writes.
pub async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    match timeout(DEADLINE, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(WriteError::Late(DEADLINE)),
    }
}

/// The API of an object's kind, in its namespace if it has one.
pub trait ApiOf: Resource<DynamicType = ()> + Sized {
    /// That API.
    fn api(client: &Client, namespace: Option<&str>) -> Api<Self>;
}

macro_rules! api_of {
    (namespaced: $($kind:ident),*; cluster: $($cluster:ident),*) => {
        $(impl ApiOf for kollect_api::$kind {
            fn api(client: &Client, namespace: Option<&str>) -> Api<Self> {
                namespaced(client, namespace)
            }
        })*
        $(impl ApiOf for kollect_api::$cluster {
            fn api(client: &Client, _: Option<&str>) -> Api<Self> {
                Api::all(client.clone())
            }
        })*
    };
}
api_of!(
    namespaced: KollectTarget, KollectInventory, KollectSnapshotSink, KollectDatabaseSink,
        KollectEventSink, KollectConnectionTest;
    cluster: KollectClusterTarget, KollectClusterInventory
);

fn namespaced<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace.unwrap_or_default())
}

/// Replaces the status of the object that has this metadata, provided that it still is at this
/// version: a status that was computed from an older one cannot win. Returns the object as it is
/// then.
pub async fn write_status_of<K, S>(
    client: &Client,
    meta: &ObjectMeta,
    status: &S,
) -> Result<K, WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
    S: Serialize + Debug,
{
    let name = meta.name.as_deref().unwrap_or_default();
    // A version in the patch is a precondition, and a conflict if it does not hold. It belongs to
    // one object for good, so it stands for the uid too. A merge patch could not remove fields, and
    // an update would carry the spec along.
    let precondition = match &meta.resource_version {
        Some(version) => {
            json!({"op": "add", "path": "/metadata/resourceVersion", "value": version})
        }
        None => json!({"op": "test", "path": "/metadata/uid", "value": meta.uid}),
    };
    let patch = json!([precondition, {"op": "add", "path": "/status", "value": status}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).expect("a JSON patch"));
    let api = K::api(client, meta.namespace.as_deref());
    in_time(api.patch_status(name, &PatchParams::default(), &patch)).await
}

/// Adds our finalizer, if it is not there.
pub async fn add_finalizer<K>(client: &Client, object: &K, finalizer: &str) -> Result<K, WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
{
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer.to_owned());
    write_finalizers(client, object, &finalizers).await
}

/// Removes our finalizer, so that the object can go.
pub async fn remove_finalizer<K>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Result<K, WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
{
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    finalizers.retain(|known| known != finalizer);
    write_finalizers(client, object, &finalizers).await
}

async fn write_finalizers<K>(
    client: &Client,
    object: &K,
    finalizers: &[String],
) -> Result<K, WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
{
    let meta = object.meta();
    // The version makes it a compare-and-swap: finalizers of others are not lost.
    let patch = json!({
        "metadata": {"finalizers": finalizers, "resourceVersion": meta.resource_version},
    });
    merge_metadata(client, meta, &patch).await
}

/// Takes an annotation off an object.
pub async fn remove_annotation<K>(
    client: &Client,
    meta: &ObjectMeta,
    annotation: &str,
) -> Result<K, WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
{
    let patch = json!({"metadata": {"annotations": {annotation: null}}});
    merge_metadata(client, meta, &patch).await
}

/// Replaces the owners of an object.
pub async fn write_owners<K>(
    client: &Client,
    meta: &ObjectMeta,
    owners: &[OwnerReference],
) -> Result<K, WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
{
    let patch = json!({"metadata": {"ownerReferences": owners}});
    merge_metadata(client, meta, &patch).await
}

async fn merge_metadata<K>(
    client: &Client,
    meta: &ObjectMeta,
    patch: &Value,
) -> Result<K, WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
{
    let api = K::api(client, meta.namespace.as_deref());
    let name = meta.name.as_deref().unwrap_or_default();
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
    in_time(api.patch(name, &parameters, &patch)).await
}

/// Deletes an object: this one, not another that somebody created under its name meanwhile.
pub async fn delete<K>(client: &Client, meta: &ObjectMeta) -> Result<(), WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
{
    let api = K::api(client, meta.namespace.as_deref());
    let preconditions = Preconditions {
        uid: meta.uid.clone(),
        resource_version: None,
    };
    let parameters = DeleteParams::default().preconditions(preconditions);
    let name = meta.name.as_deref().unwrap_or_default();
    in_time(api.delete(name, &parameters)).await.map(drop)
}

/// Whether our finalizer is on the object.
pub fn has_finalizer<K: Resource>(object: &K, finalizer: &str) -> bool {
    let finalizers = object.meta().finalizers.as_deref();
    finalizers
        .unwrap_or_default()
        .iter()
        .any(|known| known == finalizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_ends() {
        let request = std::future::pending::<kube::Result<()>>();
        let error = in_time(request).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the API server gave no answer within 10 s"
        );
    }
}
