//! The servers, and the operator among them.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kollect_api::crd;
use kollect_testkit::{
    ControlPlane, Postgres, RunDir,
    control_plane::Options,
    http, ports,
    postgres::Database,
    process::{Process, Program, Signal},
    rbac::{self, CLUSTER_FACTS, OPERATOR},
};
use serde_json::{Value, json};

/// How long anything may take that should take a moment.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long a pod has to end after it was asked to. Waited for a little longer, to have a figure.
const STOP: Duration = Duration::from_mins(1);

/// The operator cannot get more memory than this; far more than it may use.
const MOST_MEMORY: u64 = 3 << 30;

/// Where the operator's Lease is.
pub(crate) const SYSTEM: &str = "kollect-system";

/// How long the lease holds without being renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// Everything that is good.
pub(crate) struct Stage {
    pub(crate) plane: ControlPlane,
    _postgres: Postgres,
    pub(crate) database: Database,
    pub(crate) health_port: u16,
    pub(crate) run: RunDir,
}

impl Stage {
    /// Servers and our definitions.
    pub(crate) fn new() -> Result<Self> {
        let plane = ControlPlane::start_with(Options { controllers: false })?;
        let cluster = plane.cluster();
        cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
        let postgres = Postgres::start()?;
        let database = postgres.create_database("neighbours")?;
        let stage = Self {
            plane,
            _postgres: postgres,
            database,
            health_port: ports::free()?,
            run: RunDir::new("neighbours")?,
        };
        let namespace = json!({"metadata": {"name": SYSTEM}});
        stage.api()?.post("/api/v1/namespaces", &namespace)?;
        Ok(stage)
    }

    /// Requests as the administrator.
    pub(crate) fn api(&self) -> Result<http::Client> {
        let cluster = self.plane.cluster();
        cluster.api(cluster.admin())
    }

    /// Creates an object of ours.
    pub(crate) fn create(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
        spec: &Value,
    ) -> Result<()> {
        let path = ours(namespace, &plural(kind));
        let object = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        self.api()?.post(&path, &object).map(|_| ())
    }

    /// Creates a Secret with a connection string.
    pub(crate) fn create_dsn(&self, namespace: &str, name: &str, dsn: &str) -> Result<()> {
        let secret = json!({"metadata": {"name": name}, "stringData": {"dsn": dsn}});
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        self.api()?.post(&path, &secret).map(|_| ())
    }

    /// Starts the operator with the rights it needs and no more.
    pub(crate) fn start_operator(&self) -> Result<Process> {
        let cluster = self.plane.cluster();
        let collected = [rbac::read("", &["configmaps", "secrets"])];
        let account = cluster.account(SYSTEM, &[OPERATOR, CLUSTER_FACTS, &collected])?;
        let kubeconfig = cluster.kubeconfig_of(&account);
        let kubeconfig = self.run.write_private("kubeconfig", kubeconfig)?;
        // Whatever goes wrong, the machine survives it.
        Program::new("operator", "prlimit")
            .arg(format!("--data={MOST_MEMORY}"))
            .arg(env!("CARGO_BIN_EXE_kollect"))
            .arg("operator")
            .flag("kubeconfig", kubeconfig)
            .flag("allow-sink-networks", "127.0.0.0/8")
            .flag("work-dir", self.run.join("mirrors"))
            .flag(
                "health-probe-bind-address",
                format!("127.0.0.1:{}", self.health_port),
            )
            .arg("--leader-elect")
            .flag("leader-elect-namespace", SYSTEM)
            .flag(
                "leader-elect-lease-duration",
                format!("{}s", LEASE.as_secs()),
            )
            .flag("leader-elect-renew-deadline", "10s")
            .flag("leader-elect-retry-period", "2s")
            .env("RUST_LOG", "info")
            .spawn(self.run.path())
    }
}

/// Asks the operator to stop and says how long it took.
pub(crate) fn stop(operator: &mut Process) -> Result<Duration> {
    ensure!(operator.is_running(), "it ended by itself");
    let asked = Instant::now();
    let status = operator.stop_within(Signal::TERM, STOP)?;
    ensure!(status.success(), "it did not end in order: {status}");
    Ok(asked.elapsed())
}

/// Writes a ConfigMap.
pub(crate) fn put(api: &http::Client, namespace: &str, name: &str, data: &Value) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({"metadata": {"name": name}, "data": data});
    let answer = api.request("PUT", &format!("{path}/{name}"), Some(&map))?;
    if !answer.is_success() {
        api.post(&path, &map)?;
    }
    Ok(())
}

/// Waits until something holds.
pub(crate) fn eventually<T>(what: &str, check: impl FnMut() -> Result<T>) -> Result<T> {
    until(Instant::now() + PATIENCE, check).with_context(|| what.to_owned())
}

/// Waits until something holds, but not beyond a moment.
pub(crate) fn until<T>(end: Instant, mut check: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match check() {
            Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(100)),
            outcome => return outcome,
        }
    }
}

/// What a kind is called in paths.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

/// The path of objects of ours.
pub(crate) fn ours(namespace: &str, plural: &str) -> String {
    format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/{plural}")
}

/// The path of an object of ours.
pub(crate) fn path(namespace: &str, plural: &str, name: &str) -> String {
    format!("{}/{name}", ours(namespace, plural))
}

/// What the conditions of a status say, one per line.
pub(crate) fn conditions(status: &Value) -> Vec<String> {
    let conditions = status["conditions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or("").to_owned();
    conditions
        .iter()
        .map(|condition| {
            format!(
                "{}={}/{}: {}",
                text(condition, "type"),
                text(condition, "status"),
                text(condition, "reason"),
                text(condition, "message")
            )
        })
        .collect()
}
