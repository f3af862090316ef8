//! Requests that change objects: status, finalizers, events.
//!
//! Everything is a patch of exactly what is ours. The spec is never written, so a user's spelling
//! and the generation stay as they are. Each request ends within [`DEADLINE`]; when it is made, and
//! when again, is decided by [`crate::write_queue`].

use std::{fmt::Debug, future::Future, time::Duration};

use futures::future::join_all;
use k8s_openapi::{
    api::core::v1::{Event, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time},
    jiff::Timestamp,
};
use kollect_api::condition::{Condition, ConditionStatus, ConditionType};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;

/// How long one request may take.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API server did not answer in time. The write may have happened.
    #[error("the API server gave no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// It was refused, or never arrived.
    #[error(transparent)]
    Refused(#[from] kube::Error),
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

/// Makes a request with the deadline of all writes.
async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
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

/// Replaces the status of an object, provided that it is still the same object. Returns the object
/// as it is then.
pub async fn write_status<K, S>(client: &Client, object: &K, status: &S) -> Result<K, WriteError>
where
    K: ApiOf + Clone + Debug + DeserializeOwned,
    S: Serialize + Debug,
{
    write_status_of::<K, S>(client, object.meta(), status).await
}

/// Replaces the status of the object that has this metadata. Returns the object as it is then.
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
    // A JSON patch with a test is the whole of the precondition: a merge patch could not remove
    // fields, and an update would carry the spec along.
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": meta.uid},
        {"op": "add", "path": "/status", "value": status},
    ]);
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

/// An event that tells of a transition.
pub fn event<K>(object: &K, condition: &Condition, component: &str, now: Timestamp) -> Event
where
    K: Resource<DynamicType = ()>,
{
    event_of::<K>(object.meta(), condition, component, now)
}

/// An event about the object that has this metadata.
pub fn event_of<K>(
    meta: &ObjectMeta,
    condition: &Condition,
    component: &str,
    now: Timestamp,
) -> Event
where
    K: Resource<DynamicType = ()>,
{
    let bad = condition.type_ == ConditionType::Degraded.as_str()
        || condition.status == ConditionStatus::False
        || condition.reason == "ScopeForbidden";
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}.", meta.name.as_deref().unwrap_or_default())),
            // Events of cluster-scoped objects live where kubectl looks for them.
            namespace: Some(
                meta.namespace
                    .clone()
                    .unwrap_or_else(|| "default".to_owned()),
            ),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            ..ObjectReference::default()
        },
        type_: Some(if bad { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(condition.reason.clone()),
        message: Some(clipped(&condition.message)),
        action: Some("Reconcile".to_owned()),
        reporting_component: Some(component.to_owned()),
        reporting_instance: Some(component.to_owned()),
        event_time: Some(MicroTime(now)),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

/// Sends an event. That it cannot be sent is nobody's trouble but the log's: events are a courtesy.
pub async fn send(client: &Client, event: &Event) {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if let Err(error) = in_time(api.create(&PostParams::default(), event)).await {
        tracing::debug!(reason = event.reason, %error, "an event could not be sent");
    }
}

/// Sends events, all at once: together they may take no longer than one.
pub async fn send_all(client: &Client, events: &[Event]) {
    join_all(events.iter().map(|event| send(client, event))).await;
}

/// The API server takes 1,024 bytes.
fn clipped(message: &str) -> String {
    let end = message.floor_char_boundary(1_000);
    if end == message.len() {
        message.to_owned()
    } else {
        format!("{}…", &message[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kollect_api::{KollectTarget, condition::Reason};

    #[test]
    fn events_say_how_bad_it_is() {
        let target: KollectTarget = serde_json::from_value(json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
            "metadata": {"name": "t", "namespace": "team-a", "uid": "u"},
            "spec": {"profileRef": "p"},
        }))
        .unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let condition = |type_, status, reason| {
            Condition::new(type_, status, reason, "é".repeat(900), None, Time(now))
        };
        for (type_, status, reason, expected) in [
            (
                ConditionType::Ready,
                ConditionStatus::True,
                Reason::Collecting,
                "Normal",
            ),
            (
                ConditionType::Degraded,
                ConditionStatus::True,
                Reason::Suspended,
                "Warning",
            ),
            (
                ConditionType::Ready,
                ConditionStatus::False,
                Reason::Suspended,
                "Warning",
            ),
            (
                ConditionType::Synced,
                ConditionStatus::True,
                Reason::ScopeForbidden,
                "Warning",
            ),
        ] {
            let event = event(&target, &condition(type_, status, reason), "c", now);
            assert_eq!(event.type_.as_deref(), Some(expected), "{reason}");
            assert_eq!(event.involved_object.kind.as_deref(), Some("KollectTarget"));
            assert!(event.message.unwrap().len() < 1_024);
        }
    }

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
