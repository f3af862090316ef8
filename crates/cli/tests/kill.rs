//! The operator killed again and again, at moments of no one's choosing, while objects change.
//!
//! What a killed process knew is gone; what the next one knows must be the cluster, no more and no
//! less. The series of the profile tell: a count of rows and a sum over an attribute, both of which
//! would be wrong with a row lost, invented or stale.

use std::{
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kollect_api::crd;
use kollect_testkit::{Cluster, ControlPlane, control_plane::Options, http, ports};
use serde_json::{Value, json};

const KILLS: usize = 50;

#[test]
fn fifty_kills_lose_and_invent_nothing() -> Result<()> {
    let plane = ControlPlane::start_with(Options { controllers: false })?;
    let cluster = plane.cluster();
    cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
    let namespace = cluster.create_namespace("kill")?;
    for manifest in configuration(&namespace) {
        cluster.apply(&manifest.to_string())?;
    }

    let churn = Churn::start(cluster, &namespace);
    let mut random = Random(2026);
    for kill in 1..=KILLS {
        let mut operator = Operator::start(cluster)?;
        thread::sleep(Duration::from_millis(random.next() % 700));
        operator.kill()?;
        if kill % 10 == 0 {
            let paused = churn.pause();
            let mut operator = Operator::start(cluster)?;
            operator.expect_everything(cluster, &namespace)?;
            operator.kill()?;
            drop(paused);
        }
    }
    let changes = churn.stop()?;
    assert!(changes > KILLS, "only {changes} changes happened meanwhile");
    Operator::start(cluster)?.expect_everything(cluster, &namespace)
}

fn configuration(namespace: &str) -> [Value; 2] {
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": "maps", "namespace": namespace}, "spec": spec,
        })
    };
    [
        object(
            "KollectProfile",
            json!({
                "targetGVK": {"version": "v1", "kind": "ConfigMap"},
                "attributes": [{"name": "number", "path": "cel:int(object.data.number)"}],
                "metrics": [{"name": "total", "path": "number"}],
            }),
        ),
        object(
            "KollectTarget",
            json!({"profileRef": "maps", "includedNamespaces": [namespace]}),
        ),
    ]
}

/// A small generator, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// Changes objects all the time, until it is told to pause or stop.
struct Churn {
    stop: Arc<AtomicBool>,
    turn: Arc<Mutex<()>>,
    thread: thread::JoinHandle<Result<usize>>,
}

impl Churn {
    fn start(cluster: &Cluster, namespace: &str) -> Self {
        let (stop, turn) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
        let (cluster, path) = (
            cluster.clone(),
            format!("/api/v1/namespaces/{namespace}/configmaps"),
        );
        let (stopped, turns) = (Arc::clone(&stop), Arc::clone(&turn));
        let thread = thread::spawn(move || {
            let api = cluster.api(cluster.admin())?;
            let mut random = Random(7);
            let mut changes = 0;
            while !stopped.load(Ordering::Relaxed) {
                let _turn = turns.lock().expect("nobody panics with it");
                let name = format!("m-{}", random.next() % 60);
                let map = json!({
                    "metadata": {"name": name},
                    "data": {"number": (random.next() % 1_000).to_string()},
                });
                let one = format!("{path}/{name}");
                let answer = match random.next() % 4 {
                    0 => api.request("DELETE", &one, None)?,
                    1 => api.request("POST", &path, Some(&map))?,
                    _ => api.request("PUT", &one, Some(&map))?,
                };
                changes += usize::from(answer.is_success());
            }
            Ok(changes)
        });
        Self { stop, turn, thread }
    }

    fn pause(&self) -> std::sync::MutexGuard<'_, ()> {
        self.turn.lock().expect("nobody panics with it")
    }

    fn stop(self) -> Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the churn ends")
    }
}

/// The built program.
struct Operator {
    child: Child,
    metrics: http::Client,
}

impl Operator {
    fn start(cluster: &Cluster) -> Result<Self> {
        let port = ports::free()?;
        let child = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args([
                "operator",
                "--metrics-secure=false",
                "--health-probe-bind-address=0",
            ])
            .arg(format!("--metrics-bind-address=127.0.0.1:{port}"))
            .arg("--collect-metrics-sample-interval=1ms")
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .env("RUST_LOG", "error")
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self {
            child,
            metrics: http::Client::plain(port),
        })
    }

    fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until the series are those of a fresh list. They must stay so.
    fn expect_everything(&mut self, cluster: &Cluster, namespace: &str) -> Result<()> {
        let expected = listed(cluster, namespace)?;
        let started = Instant::now();
        loop {
            let seen = self.series();
            if seen.as_ref().ok() == Some(&expected) {
                break;
            }
            ensure!(
                started.elapsed() < Duration::from_secs(30),
                "rows {seen:?} instead of {expected:?}"
            );
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(300));
        ensure!(
            self.series()? == expected,
            "rows changed although no object did"
        );
        Ok(())
    }

    /// Number of rows and sum of their numbers, as published.
    fn series(&self) -> Result<(u64, u64)> {
        let text = self.metrics.request("GET", "/metrics", None)?;
        let text = String::from_utf8(text.body)?;
        let value = |series: &str| {
            let label = format!("series=\"{series}\"");
            let line = text
                .lines()
                .find(|line| {
                    line.starts_with("kollect_custom_resource_series{") && line.contains(&label)
                })
                .with_context(|| format!("no series {series}"))?;
            let number = line.rsplit(' ').next().unwrap_or_default();
            number
                .parse::<f64>()
                .with_context(|| format!("{number} is no number"))
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small counts"
        )]
        let whole = |number: f64| number as u64;
        Ok((whole(value("object_count")?), whole(value("total")?)))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Number of objects and sum of their numbers, by a plain list.
fn listed(cluster: &Cluster, namespace: &str) -> Result<(u64, u64)> {
    let api = cluster.api(cluster.admin())?;
    let list = api.get(&format!("/api/v1/namespaces/{namespace}/configmaps"))?;
    let items = list["items"].as_array().context("a list has items")?;
    let numbers = items
        .iter()
        .filter_map(|item| item["data"]["number"].as_str());
    let numbers: Vec<u64> = numbers.map(str::parse).collect::<Result<_, _>>()?;
    Ok((numbers.len() as u64, numbers.iter().sum()))
}
