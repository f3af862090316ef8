//! How many connections it takes, and what becomes of requests when they fail (F2).

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use http_body_util::BodyExt as _;
use kollect_testkit::{
    Cluster, Proxy, Trouble,
    trouble::{Effect, on},
};
use kollect_watch::connection::{self, load};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_mins(1);

/// A client whose connections can be counted, and cut.
fn behind_proxy(cluster: &Cluster) -> Result<(Client, Proxy)> {
    // Installs the TLS provider of the process.
    cluster.client(cluster.admin())?;
    let mut config = cluster.kube_config(cluster.admin())?;
    let url = cluster.url();
    let proxy = Proxy::to(url.trim_start_matches("https://").trim_end_matches('/'))?;
    config.cluster_url = format!("https://{}", proxy.address()).parse()?;
    Ok((connection::client(config)?, proxy))
}

async fn get(client: &Client, path: &str) -> Result<http::Response<Body>> {
    let request = Request::get(path).body(Body::empty())?;
    let response = timeout(PATIENCE, client.send(request)).await??;
    Ok(response)
}

async fn write(client: &Client, namespace: &str, name: &str, size: usize) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"filling": "x".repeat(size)},
    });
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/configmaps"))
        .header("content-type", "application/json")
        .body(Body::from(serde_json::to_vec(&object)?))?;
    let response = timeout(PATIENCE, client.send(request)).await??;
    let status = response.status();
    ensure!(status.is_success(), "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f2_many_watches_and_requests_share_few_connections() -> Result<()> {
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("connections")?;
    let (client, proxy) = behind_proxy(cluster)?;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    // All at once, as at a start. Nobody reads them: they must not hold up anything.
    let watch = format!("{maps}?watch=true");
    let watches: Vec<_> = stream::iter(0..120)
        .map(|_| get(&client, &watch))
        .buffer_unordered(120)
        .try_collect()
        .await?;
    ensure!(watches.iter().all(|watch| watch.status().is_success()));
    ensure!(load::in_flight(load::Kind::Watch) >= 120);
    // Each watch gets more than its window: 120 times 40 pieces of 10,000 bytes.
    stream::iter(0..40)
        .map(|at| {
            let (client, namespace) = (&client, &namespace);
            async move { write(client, namespace, &format!("map-{at}"), 10_000).await }
        })
        .buffer_unordered(40)
        .try_collect::<()>()
        .await?;
    let lists: Vec<_> = stream::iter(0..60)
        .map(|_| async {
            let response = get(&client, &maps).await?;
            Ok::<_, anyhow::Error>(timeout(PATIENCE, response.into_body().collect()).await??)
        })
        .buffer_unordered(60)
        .try_collect()
        .await?;
    ensure!(
        lists
            .into_iter()
            .all(|list| list.to_bytes().len() > 400_000)
    );
    // Two for reading, because one carries ninety at a time, and one for writing.
    let connections = proxy.connections();
    ensure!((2..=3).contains(&connections), "{connections} connections");
    // What was sent to those who did not read is still there.
    let mut last = watches
        .into_iter()
        .next_back()
        .context("a watch")?
        .into_body();
    let mut read = 0;
    while read < 400_000 {
        let frame = timeout(PATIENCE, last.frame())
            .await?
            .context("the end")??;
        read += frame.data_ref().map_or(0, bytes::Bytes::len);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f2_connections_that_end_are_replaced() -> Result<()> {
    let cluster = Cluster::shared()?;
    let (client, proxy) = behind_proxy(cluster)?;
    let mut body = get(&client, "/api/v1/namespaces?watch=true")
        .await?
        .into_body();
    for _ in 0..3 {
        ensure!(
            get(&client, "/api/v1/namespaces")
                .await?
                .status()
                .is_success()
        );
        proxy.cut();
        // Everybody who read from it is told.
        let told = async { while let Some(Ok(_)) = body.frame().await {} };
        timeout(PATIENCE, told).await?;
        let begun = Instant::now();
        body = loop {
            match get(&client, "/api/v1/namespaces?watch=true").await {
                Ok(watch) => break watch.into_body(),
                Err(error) => ensure!(begun.elapsed() < PATIENCE, "{error:#}"),
            }
            sleep(Duration::from_millis(20)).await;
        };
    }
    Ok(())
}

/// Also over HTTP/1.1, which is all that this server speaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f3_a_server_that_pushes_back_gets_few_requests() -> Result<()> {
    let trouble = Trouble::with(Cluster::shared()?)?;
    let cluster = trouble.cluster();
    cluster.client(cluster.admin())?;
    let client = connection::client(cluster.kube_config(cluster.admin())?)?;
    let maps = on("list", "configmaps");
    ensure!(
        get(&client, "/api/v1/configmaps")
            .await?
            .status()
            .is_success()
    );
    let rule = trouble.rule(maps.clone(), Effect::RetryAfter(429, 2));
    let before = trouble.requests(&maps);
    let begun = Instant::now();
    let mut told = 0;
    while begun.elapsed() < Duration::from_secs(6) {
        let response = get(&client, "/api/v1/configmaps").await?;
        ensure!(response.status() == 429);
        ensure!(response.headers().contains_key("retry-after"));
        told += 1;
        sleep(Duration::from_millis(10)).await;
    }
    let sent = trouble.requests(&maps) - before;
    ensure!(sent < 12 && told > 2 * sent, "{sent} of {told} were sent");
    // Others are not concerned.
    ensure!(
        get(&client, "/apis/apps/v1/deployments")
            .await?
            .status()
            .is_success()
    );
    trouble.lift(rule);
    let begun = Instant::now();
    while !get(&client, "/api/v1/configmaps")
        .await?
        .status()
        .is_success()
    {
        ensure!(begun.elapsed() < PATIENCE, "it is asked again");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
