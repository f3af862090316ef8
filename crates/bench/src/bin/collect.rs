//! Collection on a real API server: how long the operator takes to know everything, and what it
//! needs for that.

use std::{
    env,
    pin::pin,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kollect_api::{KollectTarget, crd};
use kollect_bench::{
    bar,
    cluster::{WRITERS, bare_list, create_namespaces, f64_of, fill, median},
    load, process,
    program::{self, Operator},
};
use kollect_testkit::{ControlPlane, control_plane::Options};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::time::timeout;

/// Rows are told as they come.
const FLAGS: [&str; 2] = [
    "--target-count-resync=1s",
    "--collect-metrics-sample-interval=1ms",
];

fn main() -> Result<ExitCode> {
    let mut arguments = env::args().skip(1);
    let number = |text: Option<String>, default| text.map_or(Ok(default), |text| text.parse());
    let objects: usize = number(arguments.next(), 10_000)?;
    let namespaces: usize = number(arguments.next(), 10)?;
    let kollect = program::kollect()?;

    println!("starting a control plane");
    let plane = ControlPlane::start_with(Options { controllers: false })?;
    let cluster = plane.cluster();
    cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let client = runtime.block_on(async { cluster.client(cluster.admin()) })?;
    create_namespaces(cluster, namespaces)?;
    runtime.block_on(fill(&client, objects, namespaces))?;
    cluster.apply(&load::profile().to_string())?;
    cluster.apply(&load::target(namespaces).to_string())?;

    // Bare lists and starts take turns, so that whatever else the machine does meets both. The
    // first start is the first time that somebody asks the API server for our kinds.
    let rounds = if objects > 20_000 { 3 } else { 5 };
    let mut runs = Vec::new();
    for round in 1..=rounds {
        let bare = runtime.block_on(bare_list(cluster, objects))?;
        let watch = runtime.block_on(Completion::of(&client))?;
        let started = Instant::now();
        let operator = Operator::start(&kollect, cluster, &FLAGS)?;
        runtime.block_on(watch.reached(objects))?;
        let synced = started.elapsed();
        thread::sleep(Duration::from_secs(3));
        let usage = operator.usage()?;
        let per_row = operator.metric("kollect_store_bytes")? / f64_of(objects);
        println!(
            "round {round}: bare list {bare:.2?}, operator complete after {synced:.2?}, peak {:.1} \
             MiB, steady {:.1} MiB, {:.2} CPU s, {per_row:.0} B per row",
            usage.peak, usage.resident, usage.cpu,
        );
        if round == rounds {
            let changes = objects.min(5_000);
            let rate = churn(&runtime, &client, &operator, changes, namespaces)?;
            println!("churn: {rate:.0} changes/s from API server to row ({changes} changes)");
        }
        runs.push(Run {
            bare,
            synced,
            usage,
            per_row,
        });
    }
    Ok(bar::report(&bars(objects, &runs)))
}

/// What one bare list and the start after it took.
struct Run {
    bare: Duration,
    synced: Duration,
    usage: process::Usage,
    per_row: f64,
}

fn bars(objects: usize, runs: &[Run]) -> [bar::Bar; 4] {
    let most = |figure: fn(&Run) -> f64, runs: &[Run]| {
        runs.iter()
            .map(figure)
            .max_by(f64::total_cmp)
            .unwrap_or(0.0)
    };
    let synced = median(runs.iter().map(|run| run.synced.as_secs_f64()));
    let bare = median(runs.iter().map(|run| run.bare.as_secs_f64()));
    let steady = median(runs.iter().map(|run| run.usage.resident));
    // Between the two sizes the bar grows with the objects.
    let most_memory = 64.0 + (256.0 - 64.0) * (f64_of(objects) - 10_000.0).max(0.0) / 90_000.0;
    [
        bar::Bar {
            name: "initial sync against a bare list, medians",
            figure: synced / bare,
            most: 1.5,
            unit: "x",
        },
        bar::Bar {
            name: "peak memory",
            figure: most(|run| run.usage.peak, runs),
            most: most_memory,
            unit: "MiB",
        },
        bar::Bar {
            name: "peak memory of a restart against steady",
            figure: most(|run| run.usage.peak, &runs[1..]) / steady,
            most: 2.0,
            unit: "x",
        },
        bar::Bar {
            name: "memory per row",
            figure: most(|run| run.per_row, runs),
            most: 500.0,
            unit: "B",
        },
    ]
}

/// Watches the target until it says that it has all rows. Polling would keep the API server busy.
struct Completion {
    api: Api<KollectTarget>,
    version: String,
}

impl Completion {
    /// Clears what the target says now.
    async fn of(client: &Client) -> Result<Self> {
        let api: Api<KollectTarget> = Api::namespaced(client.clone(), "load-000");
        let clear = Patch::Merge(json!({"status": null}));
        let parameters = PatchParams::default();
        let target = api.patch_status("deploy", &parameters, &clear).await?;
        let version = target.metadata.resource_version.unwrap_or_default();
        Ok(Self { api, version })
    }

    async fn reached(self, objects: usize) -> Result<()> {
        let patience = Duration::from_mins(5);
        timeout(patience, self.follow(i64::try_from(objects)?))
            .await
            .with_context(|| format!("the target is not complete after {patience:?}"))?
    }

    async fn follow(self, objects: i64) -> Result<()> {
        let parameters = WatchParams::default().fields("metadata.name=deploy");
        let changes = self.api.watch(&parameters, &self.version).await?;
        let mut changes = pin!(changes);
        while let Some(change) = changes.try_next().await? {
            if let WatchEvent::Modified(target) = change
                && target.status.and_then(|status| status.collected_count) == Some(objects)
            {
                return Ok(());
            }
        }
        bail!("the API server ended the watch of the target")
    }
}

/// Changes objects as fast as the API server takes it, and counts until all have arrived.
fn churn(
    runtime: &tokio::runtime::Runtime,
    client: &Client,
    operator: &Operator,
    changes: usize,
    namespaces: usize,
) -> Result<f64> {
    let before = operator.metric("kollect_watch_events_total")?;
    let started = Instant::now();
    runtime.block_on(
        stream::iter(0..changes)
            .map(|index| {
                let api: Api<Deployment> =
                    Api::namespaced(client.clone(), &load::namespace(index, namespaces));
                async move {
                    let patch = json!({"spec": {"replicas": index % 7 + 20}});
                    let name = format!("app-{index:06}");
                    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                        .await
                        .map(|_| ())
                }
            })
            .buffer_unordered(WRITERS)
            .try_collect::<()>(),
    )?;
    while operator.metric("kollect_watch_events_total")? - before < f64_of(changes) {
        if started.elapsed() > Duration::from_mins(2) {
            bail!("not all changes arrived within two minutes");
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(f64_of(changes) / started.elapsed().as_secs_f64())
}
