//! Many teams: each has its own namespace with targets, an inventory and a sink, and all sinks are
//! on one database.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::{cluster::WRITERS, load};

/// The namespace from which one inventory collects what otherwise all teams do.
pub const TOGETHER: &str = "together";

/// What one team applies: a profile, targets that each collect the same Deployments, a Secret, a
/// sink and an inventory.
pub fn manifests(
    home: &str,
    collected: &[String],
    targets: usize,
    dsn: &str,
    table: &str,
) -> Vec<Value> {
    let ours = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": home}, "spec": spec,
        })
    };
    let mut all = vec![
        ours("KollectProfile", "deploy", load::profile()["spec"].clone()),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "dsn", "namespace": home},
            "stringData": {"dsn": dsn},
        }),
        ours(
            "KollectDatabaseSink",
            "pg",
            json!({
                "type": "postgres", "cluster": "bench",
                "postgres": {"databaseRef": {"name": "dsn"}, "table": table},
            }),
        ),
        ours(
            "KollectInventory",
            "inv",
            json!({"databaseSinkRefs": [{"name": "pg"}]}),
        ),
    ];
    all.extend((0..targets).map(|at| {
        let spec = json!({"profileRef": "deploy", "includedNamespaces": collected});
        ours("KollectTarget", &format!("deploy-{at}"), spec)
    }));
    all
}

/// Creates objects, many at a time.
pub async fn create(client: &Client, manifests: Vec<Value>) -> Result<()> {
    stream::iter(manifests)
        .map(|manifest| {
            let client = client.clone();
            async move {
                let object: DynamicObject = serde_json::from_value(manifest)?;
                let types = object.types.as_ref().context("a manifest has a kind")?;
                let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
                let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
                let api = Api::<DynamicObject>::namespaced_with(client, namespace, &resource);
                api.create(&PostParams::default(), &object).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(WRITERS)
        .try_collect()
        .await
}
