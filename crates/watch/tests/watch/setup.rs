//! Clusters, objects and sources for the scenarios.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Method, Request};
use kollect_api::GroupVersionKind;
use kollect_testkit::{Cluster, cluster::User};
use kollect_watch::{
    ApiServer, Backoff, Decode, DecodeError, Decoded, ListingMode, Resource, View, WatchHandle,
    WatchScope, WatchSettings, WatchSource, WatchSubject, connection,
    discovery::{Answer, Discovery},
};
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::mirror::{Mirror, Objects};

/// Decodes whole objects.
pub(crate) struct Whole {
    kind: GroupVersionKind,
}

impl Whole {
    pub(crate) fn new(kind: &GroupVersionKind) -> Self {
        Self { kind: kind.clone() }
    }

    /// The objects of a resource that these scenarios know.
    pub(crate) fn of(resource: &Resource) -> Self {
        let kind = match resource.plural.as_str() {
            "configmaps" => "ConfigMap",
            "namespaces" => "Namespace",
            "gadgets" => "Gadget",
            other => panic!("{other} is not known"),
        };
        Self::new(&GroupVersionKind::new(
            &resource.group,
            &resource.version,
            kind,
        ))
    }
}

impl Decode for Whole {
    type Object = Value;

    fn decode(&self, json: &[u8]) -> Result<Decoded<Value>, DecodeError> {
        let mut object: Value = serde_json::from_slice(json)?;
        let version = object["metadata"]["resourceVersion"].as_str();
        let resource_version = version.unwrap_or_default().to_owned();
        let GroupVersionKind {
            group,
            version,
            kind,
        } = &self.kind;
        let separator = if group.is_empty() { "" } else { "/" };
        object["apiVersion"] = format!("{group}{separator}{version}").into();
        object["kind"] = kind.as_str().into();
        Ok(Decoded {
            resource_version,
            object,
        })
    }
}

/// Both ways to list.
pub(crate) const BOTH: [ListingMode; 2] = [ListingMode::Streamed, ListingMode::Paged];

/// A client that leaves retries to the source, as the operator's does.
pub(crate) fn client(cluster: &Cluster, user: &User) -> Result<Client> {
    let mut config = cluster.kube_config(user)?;
    config.default_retry = false;
    Ok(connection::client(config)?)
}

/// The API as one user sees it.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Place {
    /// A new namespace of the shared cluster, as its administrator.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        Self::on(Cluster::shared()?, prefix)
    }

    /// A new namespace of this cluster, as its administrator.
    pub(crate) fn on(cluster: &Cluster, prefix: &str) -> Result<Self> {
        Ok(Self {
            client: client(cluster, cluster.admin())?,
            namespace: cluster.create_namespace(prefix)?,
        })
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/configmaps/{name}", self.namespace)
            .trim_end_matches('/')
            .to_owned()
    }

    pub(crate) fn subject(&self) -> WatchSubject {
        WatchSubject::new(
            config_maps(),
            WatchScope::Namespace(self.namespace.as_str().into()),
        )
    }

    /// Starts a source of this namespace's ConfigMaps.
    pub(crate) fn watch(&self, mirror: &Mirror, settings: WatchSettings) -> WatchHandle<Whole> {
        let server = ApiServer::new(self.client.clone());
        watch(&server, self.subject(), mirror, settings)
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        send(&self.client, method, path, body).await
    }

    pub(crate) async fn create(&self, name: &str, labels: &Value) -> Result<Value> {
        self.create_sized(name, labels, 200).await
    }

    async fn create_sized(&self, name: &str, labels: &Value, size: usize) -> Result<Value> {
        let map = json!({
            "metadata": { "name": name, "labels": labels },
            "data": { "value": name, "text": "x".repeat(size) },
        });
        self.send(Method::POST, &self.path(""), &map).await
    }

    pub(crate) async fn change(&self, name: &str, value: &str) -> Result<()> {
        let patch = json!({ "data": { "value": value } });
        self.send(Method::PATCH, &self.path(name), &patch).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.send(Method::DELETE, &self.path(name), &Value::Null)
            .await?;
        Ok(())
    }

    /// Creates `count` ConfigMaps named `m-0`, `m-1`, …
    pub(crate) async fn create_many(&self, count: usize) -> Result<()> {
        self.create_large(count, 200).await
    }

    /// Creates `count` ConfigMaps with texts of `size` bytes.
    pub(crate) async fn create_large(&self, count: usize, size: usize) -> Result<()> {
        self.many(count, |index| async move {
            self.create_sized(&format!("m-{index}"), &json!({}), size)
                .await?;
            Ok(())
        })
        .await
    }

    /// Does something for each index, many at a time.
    pub(crate) async fn many<F: Future<Output = Result<()>>>(
        &self,
        count: usize,
        work: impl Fn(usize) -> F,
    ) -> Result<()> {
        let jobs = futures::stream::iter(0..count).map(work);
        jobs.buffer_unordered(24).try_collect::<Vec<_>>().await?;
        Ok(())
    }

    /// Waits until the mirror equals a fresh list of this namespace's ConfigMaps.
    pub(crate) async fn converge(&self, mirror: &Mirror) -> Result<Objects> {
        self.converge_to(mirror, |objects| objects).await
    }

    /// Waits until the mirror equals what `shape` makes of a fresh list.
    pub(crate) async fn converge_to(
        &self,
        mirror: &Mirror,
        shape: impl Fn(Objects) -> Objects,
    ) -> Result<Objects> {
        converge(
            &self.client,
            &self.path(""),
            ("v1", "ConfigMap"),
            mirror,
            shape,
        )
        .await
    }
}

/// Starts a source.
pub(crate) fn watch(
    server: &Arc<ApiServer>,
    subject: WatchSubject,
    mirror: &Mirror,
    settings: WatchSettings,
) -> WatchHandle<Whole> {
    let view = View::full(Whole::of(&subject.resource));
    WatchSource::new(Arc::clone(server), subject, view)
        .settings(settings)
        .spawn(mirror.clone(), &CancellationToken::new())
}

/// WatchSettings for impatient tests.
pub(crate) fn hasty() -> WatchSettings {
    WatchSettings {
        backoff: Backoff {
            first: Duration::from_millis(50),
            cap: Duration::from_millis(500),
        },
        slow_retry: Duration::from_millis(500),
        ..WatchSettings::default()
    }
}

pub(crate) fn listed(listing: ListingMode) -> WatchSettings {
    WatchSettings {
        listing,
        page_size: 100,
        ..hasty()
    }
}

pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Value> {
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let bytes = match body {
        Value::Null => Vec::new(),
        body => serde_json::to_vec(body)?,
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(bytes)?;
    client
        .request(request)
        .await
        .with_context(|| path.to_owned())
}

/// A fresh list, with the kind in each object as a decoder shows it.
pub(crate) async fn list(
    client: &Client,
    path: &str,
    api_version: &str,
    kind: &str,
) -> Result<Objects> {
    let answer = send(client, Method::GET, path, &Value::Null).await?;
    let items = answer["items"].as_array().context("no items")?;
    let objects = items.iter().map(|item| {
        let mut object = item.clone();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        let uid = object["metadata"]["uid"].as_str().context("no UID")?;
        Ok((uid.to_owned(), object))
    });
    objects.collect()
}

/// Waits until the mirror equals what `shape` makes of a fresh list.
pub(crate) async fn converge(
    client: &Client,
    path: &str,
    (api_version, kind): (&str, &str),
    mirror: &Mirror,
    shape: impl Fn(Objects) -> Objects,
) -> Result<Objects> {
    let started = Instant::now();
    loop {
        let fresh = shape(list(client, path, api_version, kind).await?);
        let held = mirror.objects();
        if fresh == held {
            return Ok(fresh);
        }
        ensure!(
            started.elapsed() < Duration::from_secs(90),
            "{} objects listed, {} held, {} of them alike; steps: {:?}",
            fresh.len(),
            held.len(),
            fresh
                .iter()
                .filter(|(uid, object)| held.get(*uid) == Some(object))
                .count(),
            mirror.steps(),
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) fn config_maps() -> Arc<Resource> {
    Arc::new(Resource {
        group: String::new(),
        version: "v1".to_owned(),
        plural: "configmaps".to_owned(),
        namespaced: true,
    })
}

/// The resource of a kind, by asking.
pub(crate) async fn discover(client: &Client, kind: &GroupVersionKind) -> Result<Arc<Resource>> {
    match Discovery::new(client.clone()).resolve(kind).await {
        Answer::Installed(served) => Ok(Arc::clone(&served.resource)),
        other => anyhow::bail!("{kind}: {other:?}"),
    }
}
