//! Admission on a real API server: what the webhook adds to a write, with many targets stored.

use std::{
    env,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use kollect_admission::hooks;
use kollect_api::{KollectTarget, crd};
use kollect_bench::{
    bar::{self, Bar},
    cluster::create_namespaces,
    load,
    program::{self, Operator},
};
use kollect_testkit::{Cluster, ControlPlane, control_plane::Options, ports};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{sleep, sleep_until},
};

/// Writes per second.
const RATE: u32 = 200;
/// How long writes are measured for, each way.
const MEASURED: Duration = Duration::from_secs(20);
const NAMESPACES: usize = 10;
const CONFIGURATION: &str = "bench";

fn main() -> Result<ExitCode> {
    let mut arguments = env::args().skip(1);
    let targets = arguments.next();
    let targets: usize = targets.map_or(Ok(10_000), |text| text.parse())?;
    let kollect = program::kollect()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(targets, &kollect))
}

async fn run(targets: usize, kollect: &Path) -> Result<ExitCode> {
    println!("starting a control plane");
    let plane = ControlPlane::start_with(Options { controllers: false })?;
    let cluster = plane.cluster();
    cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
    create_namespaces(cluster, NAMESPACES)?;
    let client = cluster.client(cluster.admin())?;
    println!("storing {targets} targets");
    stream::iter((0..targets).map(|index| store(&client, index)))
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    let port = ports::free()?;
    let bind = format!("--webhook-bind-address=127.0.0.1:{port}");
    let name = format!("--webhook-configuration-name={CONFIGURATION}");
    let flags = [
        "--validating-webhooks-enabled",
        "--webhook-hosts=127.0.0.1",
        "--leader-elect-namespace=default",
        &bind,
        &name,
    ];
    let operator = Operator::start(kollect, cluster, &flags)?;
    println!("waiting until the operator rests");
    rest(&operator).await?;

    let alone = measure(&client).await?;
    println!(
        "without webhook: p50 {:.1} ms, p99 {:.1} ms",
        alone.p50, alone.p99
    );
    register(cluster, port)?;
    asked(&client).await?;
    let before = operator.usage()?.cpu;
    let judged = measure(&client).await?;
    let used = operator.usage()?;
    println!(
        "with webhook:    p50 {:.1} ms, p99 {:.1} ms; operator {:.1} MiB, {:.2} CPU s in {} s",
        judged.p50,
        judged.p99,
        used.resident,
        used.cpu - before,
        MEASURED.as_secs()
    );
    let reviews = operator.metric("kollect_admission_reviews_total")?;
    ensure!(reviews > 0.0, "the webhook was never asked");
    Ok(bar::report(&[Bar {
        name: "what the webhook adds to the p99 of a write",
        figure: (judged.p99 - alone.p99).max(0.0),
        most: 20.0,
        unit: "ms",
    }]))
}

/// A target that collects nothing: what is stored counts, not what is collected.
fn target(name: &str, namespace: &str) -> Result<KollectTarget> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "profileRef": "apps", "suspend": true, "includedNamespaces": [namespace],
            "resourceRules": [{
                "gvk": {"group": "apps", "version": "v1", "kind": "Deployment"},
                "matchPolicy": "object.spec.replicas > 1 && has(object.metadata.labels)",
            }],
        },
    }))?)
}

async fn store(client: &Client, index: usize) -> Result<()> {
    let namespace = load::namespace(index, NAMESPACES);
    let api: Api<KollectTarget> = Api::namespaced(client.clone(), &namespace);
    let target = target(&format!("stored-{index:06}"), &namespace)?;
    api.create(&PostParams::default(), &target).await?;
    Ok(())
}

/// Waits until the operator has looked at everything.
async fn rest(operator: &Operator) -> Result<()> {
    let begun = Instant::now();
    let mut before = operator.usage()?.cpu;
    loop {
        sleep(Duration::from_secs(3)).await;
        let now = operator.usage()?.cpu;
        if now - before < 0.15 {
            return Ok(());
        }
        before = now;
        ensure!(begun.elapsed() < Duration::from_mins(10), "it never rests");
    }
}

fn register(cluster: &Cluster, port: u16) -> Result<()> {
    let all = hooks::configuration(CONFIGURATION, |path| WebhookClientConfig {
        url: Some(format!("https://127.0.0.1:{port}{path}")),
        ..WebhookClientConfig::default()
    });
    cluster.apply(&serde_json::to_string(&all)?)?;
    Ok(())
}

/// Waits until the webhook refuses what only it can refuse.
async fn asked(client: &Client) -> Result<()> {
    let namespace = load::namespace(0, NAMESPACES);
    let api: Api<KollectTarget> = Api::namespaced(client.clone(), &namespace);
    let mut bad = target("bad", &namespace)?;
    bad.spec.resource_rules[0].match_policy = Some("1 +".to_owned());
    let begun = Instant::now();
    loop {
        let answer = api.create(&dry_run(), &bad).await;
        if matches!(&answer, Err(kube::Error::Api(status)) if status.code == 403) {
            return Ok(());
        }
        ensure!(begun.elapsed() < Duration::from_mins(1), "{answer:?}");
        sleep(Duration::from_millis(200)).await;
    }
}

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        field_manager: None,
    }
}

struct Latency {
    p50: f64,
    p99: f64,
}

/// Writes at the same pace whatever the answers do.
async fn measure(client: &Client) -> Result<Latency> {
    let mut writes = JoinSet::new();
    let begun = tokio::time::Instant::now();
    let client = Arc::new(client.clone());
    for index in 0..RATE * u32::try_from(MEASURED.as_secs())? {
        sleep_until(begun + Duration::from_secs(1) / RATE * index).await;
        let client = Arc::clone(&client);
        writes.spawn(async move {
            let namespace = load::namespace(index as usize, NAMESPACES);
            let api: Api<KollectTarget> = Api::namespaced((*client).clone(), &namespace);
            let target = target(&format!("new-{index:06}"), &namespace)?;
            let begun = Instant::now();
            api.create(&dry_run(), &target).await?;
            anyhow::Ok(begun.elapsed())
        });
    }
    let mut all = Vec::new();
    while let Some(took) = writes.join_next().await {
        all.push(took??.as_secs_f64() * 1000.0);
    }
    all.sort_by(f64::total_cmp);
    let at = |share: usize| all.get(all.len() * share / 100).copied();
    Ok(Latency {
        p50: at(50).context("no writes")?,
        p99: at(99).context("no writes")?,
    })
}
