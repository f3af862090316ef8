//! A cluster, a database, and the operator as a process.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use kollect_api::crd;
use kollect_testkit::{
    ControlPlane, Postgres,
    control_plane::Options,
    http,
    postgres::{Database, Tls},
};
use serde_json::{Value, json};

/// How long anything may take that should take a moment.
const PATIENCE: Duration = Duration::from_mins(1);

/// Everything a scenario needs.
pub(crate) struct Stage {
    // Before the servers, so that it does not complain about their end.
    pub(crate) operator: Option<Process>,
    pub(crate) plane: ControlPlane,
    pub(crate) postgres: Postgres,
    pub(crate) database: Database,
    pub(crate) namespace: String,
}

/// The operator.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn kill(mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// Asks it to stop and waits for it.
    pub(crate) fn terminate(mut self) -> Result<Duration> {
        let begun = Instant::now();
        let pid = self.0.id().to_string();
        ensure!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()?
                .success()
        );
        let status = self.0.wait()?;
        ensure!(status.success(), "the operator ended with {status}");
        Ok(begun.elapsed())
    }

    /// Whether it is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Servers, definitions, a namespace with a profile and a target of ConfigMaps, and the Secret
    /// of the database.
    pub(crate) fn new() -> Result<Self> {
        Self::with_namespace(None)
    }

    /// The same in a namespace of this name, such as that of another cluster.
    pub(crate) fn with_namespace(name: Option<&str>) -> Result<Self> {
        let plane = ControlPlane::start_with(Options { controllers: false })?;
        let cluster = plane.cluster();
        cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
        let namespace = match name {
            None => cluster.create_namespace("exports")?,
            Some(name) => {
                let object = json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                });
                cluster.apply(&object.to_string())?;
                name.to_owned()
            }
        };
        let postgres = Postgres::start()?;
        let database = postgres.create_database("exports")?;
        let stage = Self {
            operator: None,
            plane,
            postgres,
            database,
            namespace,
        };
        stage.apply(
            "KollectProfile",
            "maps",
            &json!({
                "targetGVK": {"version": "v1", "kind": "ConfigMap"},
                "attributes": [{"name": "number", "path": "cel:int(object.data.number)"}],
            }),
        )?;
        let target = json!({"profileRef": "maps", "includedNamespaces": [stage.namespace]});
        stage.apply("KollectTarget", "maps", &target)?;
        stage.secret(&stage.database.url(Tls::Off))?;
        stage.sink("pg", "items")?;
        Ok(stage)
    }

    pub(crate) fn api(&self) -> Result<http::Client> {
        let cluster = self.plane.cluster();
        cluster.api(cluster.admin())
    }

    /// Applies an object of ours.
    pub(crate) fn apply(&self, kind: &str, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        });
        self.plane.cluster().apply(&object.to_string()).map(|_| ())
    }

    pub(crate) fn secret(&self, url: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "dsn", "namespace": self.namespace},
            "stringData": {"dsn": url},
        });
        self.plane.cluster().apply(&secret.to_string()).map(|_| ())
    }

    pub(crate) fn sink(&self, name: &str, table: &str) -> Result<()> {
        let spec = json!({
            "type": "postgres", "cluster": "east",
            "postgres": {"databaseRef": {"name": "dsn"}, "table": table},
        });
        self.apply("KollectDatabaseSink", name, &spec)
    }

    pub(crate) fn inventory(&self, interval: &str) -> Result<()> {
        let spec = json!({
            "databaseSinkRefs": [{"name": "pg"}], "exportMinInterval": interval,
        });
        self.apply("KollectInventory", "inv", &spec)
    }

    /// Starts the operator.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&mut self, arguments: &[&str]) -> Result<()> {
        let kubeconfig = self.plane.cluster().kubeconfig().to_owned();
        self.start_as(&kubeconfig, arguments)
    }

    /// Starts the operator as whoever this kubeconfig is of.
    pub(crate) fn start_as(&mut self, kubeconfig: &Path, arguments: &[&str]) -> Result<()> {
        let level = std::env::var("OPERATOR_LOG").unwrap_or_else(|_| "error".into());
        self.operator = Some(Self::spawn(
            kubeconfig,
            arguments,
            &level,
            Stdio::inherit(),
        )?);
        Ok(())
    }

    /// Another operator, whose log goes there.
    pub(crate) fn spawn(
        kubeconfig: &Path,
        arguments: &[&str],
        level: &str,
        log: Stdio,
    ) -> Result<Process> {
        let child = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(["operator", "--health-probe-bind-address=0"])
            .arg("--allow-sink-networks=127.0.0.0/8")
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env("RUST_LOG", level)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(Process(child))
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.operator.take().context("no operator runs")?.kill()
    }

    /// Writes a ConfigMap with a number.
    pub(crate) fn put(&self, name: &str, number: u64) -> Result<()> {
        let api = self.api()?;
        let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let map = json!({
            "metadata": {"name": name}, "data": {"number": number.to_string()},
        });
        let answer = api.request("PUT", &format!("{path}/{name}"), Some(&map))?;
        if !answer.is_success() {
            api.post(&path, &map)?;
        }
        Ok(())
    }

    /// The ConfigMaps and their numbers, by a plain list.
    pub(crate) fn listed(&self) -> Result<BTreeMap<String, String>> {
        let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let list = self.api()?.get(&path)?;
        let items = list["items"].as_array().context("a list has items")?;
        let entry = |item: &Value| {
            let name = item["metadata"]["name"].as_str()?.to_owned();
            Some((name, item["data"]["number"].as_str()?.to_owned()))
        };
        Ok(items.iter().filter_map(entry).collect())
    }

    /// The rows of a table in the same form.
    pub(crate) fn rows(&self, table: &str) -> Result<BTreeMap<String, String>> {
        let sql = format!(
            "SELECT payload->>'name', payload->'attributes'->>'number' FROM {table} \
             WHERE inventory_namespace = '{}' AND inventory_name = 'inv' AND cluster = 'east'",
            self.namespace
        );
        let text = self.database.psql(&sql)?;
        let lines = text.lines().filter_map(|line| line.split_once('|'));
        Ok(lines
            .map(|(name, number)| (name.to_owned(), number.to_owned()))
            .collect())
    }

    /// Waits until the table holds what the cluster holds.
    pub(crate) fn expect_in_step(&self, table: &str) -> Result<()> {
        let expected = self.listed()?;
        self.eventually(&format!("{table} in step"), || {
            let rows = self.rows(table)?;
            ensure!(
                rows == expected,
                "{} rows instead of {}: {}",
                rows.len(),
                expected.len(),
                difference(&rows, &expected)
            );
            Ok(())
        })
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
                    let status = self.status().unwrap_or_default();
                    bail!("{what}: {error:#}\n{status:#}");
                }
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn path(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/kollectinventories/inv")
    }

    pub(crate) fn status(&self) -> Result<Value> {
        Ok(self.api()?.get(&self.path())?["status"].take())
    }

    /// `Type=Status/Reason` of all conditions, sorted.
    pub(crate) fn conditions(&self) -> Result<Vec<String>> {
        let status = self.status()?;
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let text =
            |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        let mut all: Vec<String> = conditions
            .iter()
            .map(|c| {
                format!(
                    "{}={}/{}",
                    text(c, "type"),
                    text(c, "status"),
                    text(c, "reason")
                )
            })
            .collect();
        all.sort();
        Ok(all)
    }

    pub(crate) fn expect_conditions(&self, expected: &[&str]) -> Result<()> {
        self.eventually(&format!("conditions {expected:?}"), || {
            let conditions = self.conditions()?;
            ensure!(conditions == expected, "{conditions:?}");
            Ok(())
        })
    }

    pub(crate) fn version(&self) -> Result<String> {
        let object = self.api()?.get(&self.path())?;
        let version = object["metadata"]["resourceVersion"].as_str();
        Ok(version.context("a version")?.to_owned())
    }

    /// Deletes an object of ours.
    pub(crate) fn delete(&self, plural: &str, name: &str) -> Result<()> {
        let namespace = &self.namespace;
        let path = format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/{plural}/{name}");
        ensure!(self.api()?.request("DELETE", &path, None)?.is_success());
        Ok(())
    }

    pub(crate) fn expect_gone(&self, plural: &str, name: &str) -> Result<()> {
        let namespace = &self.namespace;
        let path = format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/{plural}/{name}");
        self.eventually(&format!("{plural}/{name} gone"), || {
            let found = self.api()?.request("GET", &path, None)?.is_success();
            ensure!(!found, "it is still there");
            Ok(())
        })
    }
}

fn difference(rows: &BTreeMap<String, String>, expected: &BTreeMap<String, String>) -> String {
    let missing: Vec<_> = expected
        .iter()
        .filter(|(k, v)| rows.get(*k) != Some(v))
        .take(3)
        .collect();
    let surplus: Vec<_> = rows
        .keys()
        .filter(|k| !expected.contains_key(*k))
        .take(3)
        .collect();
    format!("missing or old {missing:?}, too many {surplus:?}")
}
