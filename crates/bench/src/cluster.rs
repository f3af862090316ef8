//! A cluster full of objects, and the plain client that everything is compared with.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kollect_testkit::Cluster;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::load;

/// Writers at the same time.
pub const WRITERS: usize = 32;

/// Creates the namespaces of the load.
pub fn create_namespaces(cluster: &Cluster, namespaces: usize) -> Result<()> {
    for at in 0..namespaces {
        let name = load::namespace(at, namespaces);
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.apply(&manifest.to_string())?;
    }
    Ok(())
}

/// Creates the load.
pub async fn fill(client: &Client, objects: usize, namespaces: usize) -> Result<()> {
    println!("creating {objects} Deployments in {namespaces} namespace(s)");
    let started = Instant::now();
    let every = (objects / 10).max(1);
    stream::iter(0..objects)
        .map(|index| {
            let api: Api<Deployment> =
                Api::namespaced(client.clone(), &load::namespace(index, namespaces));
            async move {
                let object = serde_json::from_value(load::deployment(index, namespaces))?;
                api.create(&PostParams::default(), &object).await?;
                if index % every == 0 {
                    println!("    {index} after {:.0?}", started.elapsed());
                }
                anyhow::Ok(())
            }
        })
        .buffer_unordered(WRITERS)
        .try_collect::<()>()
        .await
}

/// The time of a plain client to connect and list everything.
pub async fn bare_list(cluster: &Cluster, objects: usize) -> Result<Duration> {
    let started = Instant::now();
    let api: Api<Deployment> = Api::all(cluster.client(cluster.admin())?);
    let (mut seen, mut parameters) = (0, ListParams::default().limit(500));
    loop {
        let page = api.list(&parameters).await?;
        seen += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    ensure!(
        seen >= objects,
        "the list shows {seen} of {objects} objects"
    );
    Ok(started.elapsed())
}

/// A count as a figure.
#[expect(
    clippy::cast_precision_loss,
    reason = "far below what a float holds exactly"
)]
pub fn f64_of(number: usize) -> f64 {
    number as f64
}

/// The figure in the middle.
pub fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
