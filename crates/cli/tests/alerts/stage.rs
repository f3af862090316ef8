//! A cluster behind a troublesome proxy, a database behind a bad network, the operator as a process,
//! and a Prometheus that scrapes it.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use kollect_api::crd;
use kollect_testkit::{
    ControlPlane, Postgres, Prometheus, Proxy, RunDir, Trouble,
    control_plane::Options,
    ports,
    postgres::{Database, Tls},
    process,
};
use serde_json::{Value, json};

/// How long anything may take that should take a moment; the slowest is a delivery that hangs.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a delivery may take: longer than what the alert calls slow.
const EXPORT_TIMEOUT: &str = "12s";

/// Everything.
pub(crate) struct Stage {
    // Before the servers, so that it does not complain about their end.
    operator: Option<Operator>,
    pub(crate) prometheus: Prometheus,
    pub(crate) trouble: Trouble,
    network: Proxy,
    database: Database,
    namespace: String,
    log: PathBuf,
    plane: ControlPlane,
    postgres: Postgres,
    _run: RunDir,
}

struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Servers, five ConfigMaps on their way into a table, and the rules of this file.
    pub(crate) fn start(rules: &str) -> Result<Self> {
        let plane = ControlPlane::start_with(Options { controllers: false })?;
        let cluster = plane.cluster();
        cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
        let namespace = cluster.create_namespace("alerts")?;
        let postgres = Postgres::start()?;
        let database = postgres.create_database("alerts")?;
        let network = Proxy::to(("127.0.0.1", postgres.port()))?;
        let trouble = Trouble::with(cluster)?;
        let run = RunDir::new("alerts")?;
        let log = run.join("operator.log");

        let metrics = ports::free()?;
        let output = File::create(&log)?;
        let child = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(["operator", "--health-probe-bind-address=0"])
            .arg("--metrics-secure=false")
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg("--collect-metrics-sample-interval=1s")
            .arg("--allow-sink-networks=127.0.0.0/8")
            .arg(format!("--export-timeout={EXPORT_TIMEOUT}"))
            .arg("--kubeconfig")
            .arg(trouble.cluster().kubeconfig())
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()?;
        let stage = Self {
            operator: Some(Operator(child)),
            prometheus: Prometheus::start(metrics, rules)?,
            trouble,
            network,
            database,
            namespace,
            log,
            plane,
            postgres,
            _run: run,
        };
        stage.fill()?;
        Ok(stage)
    }

    fn fill(&self) -> Result<()> {
        let direct = format!(":{}/", self.postgres.port());
        let through = format!(":{}/", self.network.port());
        let url = self.database.url(Tls::Off).replace(&direct, &through);
        self.secret("dsn", &url)?;
        self.sink("pg", "dsn")?;
        let profile = json!({
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "attributes": [{"name": "number", "path": "cel:int(object.data.number)"}],
        });
        self.apply("KollectProfile", "maps", &profile)?;
        let target = json!({"profileRef": "maps", "includedNamespaces": [self.namespace]});
        self.apply("KollectTarget", "maps", &target)?;
        let inventory = json!({"databaseSinkRefs": [{"name": "pg"}], "exportMinInterval": "5s"});
        self.apply("KollectInventory", "inv", &inventory)?;
        for number in 0..5 {
            self.put(&format!("still-{number}"), number)?;
        }
        Ok(())
    }

    /// Applies an object of ours.
    pub(crate) fn apply(&self, kind: &str, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        });
        self.plane.cluster().apply(&object.to_string()).map(|_| ())
    }

    /// Applies so many targets without a profile.
    pub(crate) fn apply_targets(&self, number: usize) -> Result<()> {
        let target = |number| {
            json!({
                "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
                "metadata": {"name": format!("many-{number}"), "namespace": self.namespace},
                "spec": {"profileRef": "nowhere"},
            })
        };
        let items: Vec<Value> = (0..number).map(target).collect();
        let all = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.plane.cluster().apply(&all.to_string()).map(|_| ())
    }

    fn secret(&self, name: &str, url: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "stringData": {"dsn": url},
        });
        self.plane.cluster().apply(&secret.to_string()).map(|_| ())
    }

    fn sink(&self, name: &str, secret: &str) -> Result<()> {
        let spec = json!({
            "type": "postgres", "cluster": "east", "connectionTest": true,
            "postgres": {"databaseRef": {"name": secret}, "table": "items"},
        });
        self.apply("KollectDatabaseSink", name, &spec)
    }

    /// A sink behind which nobody listens, and the wish to have it probed.
    pub(crate) fn probe_nothing(&self) -> Result<()> {
        let nobody = ports::free()?;
        let url = format!("postgres://nobody:none@127.0.0.1:{nobody}/none?sslmode=disable");
        self.secret("nowhere", &url)?;
        self.sink("nowhere", "nowhere")?;
        let test = json!({"sinkRef": {"databaseSinkRef": "nowhere"}});
        self.apply("KollectConnectionTest", "nowhere", &test)
    }

    /// Writes a ConfigMap with a number.
    pub(crate) fn put(&self, name: &str, number: u64) -> Result<()> {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace},
            "data": {"number": number.to_string()},
        });
        self.plane.cluster().apply(&map.to_string()).map(|_| ())
    }

    /// Waits for so many rows in the table.
    pub(crate) fn expect_rows(&self, number: usize) -> Result<()> {
        self.eventually("rows", || {
            let found = self.database.psql("SELECT count(*) FROM items")?;
            ensure!(found == number.to_string(), "{found} rows");
            Ok(())
        })
    }

    /// The network to the database carries nothing, or works again.
    pub(crate) fn database_hangs(&self, hangs: bool) {
        self.network.stall(hangs);
    }

    pub(crate) fn stop_operator(&mut self) {
        self.operator = None;
    }

    /// Waits until something holds.
    pub(crate) fn eventually<T>(
        &self,
        what: &str,
        mut check: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let begun = Instant::now();
        loop {
            match check() {
                Ok(value) => return Ok(value),
                Err(error) if begun.elapsed() > PATIENCE => {
                    bail!("{what}: {error:#}\n{}", process::tail(&self.log, 40))
                }
                Err(_) => thread::sleep(Duration::from_millis(200)),
            }
        }
    }
}
