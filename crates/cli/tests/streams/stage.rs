//! A cluster, a stream, and the operator as a process.

use std::{
    collections::BTreeMap,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use kollect_api::crd;
use kollect_testkit::{
    ControlPlane, Nats,
    control_plane::Options,
    http,
    nats::{Admission, Reader},
};
use serde_json::{Value, json};

/// How long anything may take that should take a moment.
const PATIENCE: Duration = Duration::from_mins(1);

/// The stream of a sink that names none.
pub(crate) const STREAM: &str = "kollect_events";

/// Everything a scenario needs.
pub(crate) struct Stage {
    // Before the servers, so that it does not complain about their end.
    operator: Option<Operator>,
    pub(crate) plane: ControlPlane,
    pub(crate) nats: Nats,
    pub(crate) reader: Reader,
    pub(crate) namespace: String,
}

struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Servers, definitions, and a namespace whose ConfigMaps go to the stream.
    pub(crate) fn new() -> Result<Self> {
        let plane = ControlPlane::start_with(Options { controllers: false })?;
        let cluster = plane.cluster();
        cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
        let namespace = cluster.create_namespace("streams")?;
        let nats = Nats::start(&Admission::Passwords)?;
        let reader = nats.reader()?;
        let stage = Self {
            operator: None,
            plane,
            nats,
            reader,
            namespace,
        };
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "nats", "namespace": stage.namespace},
            "stringData": {"username": "user1", "password": stage.nats.password()},
        });
        stage.plane.cluster().apply(&secret.to_string())?;
        let profile = json!({
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "attributes": [{"name": "number", "path": "cel:int(object.data.number)"}],
        });
        stage.apply("KollectProfile", "maps", &profile)?;
        let target = json!({"profileRef": "maps", "includedNamespaces": [stage.namespace]});
        stage.apply("KollectTarget", "maps", &target)?;
        let sink = json!({
            "type": "nats", "cluster": "east", "secretRef": {"name": "nats"},
            "nats": {
                "url": format!("nats://127.0.0.1:{}", stage.nats.port()),
                "subject": "inventory",
            },
        });
        stage.apply("KollectEventSink", "stream", &sink)?;
        let inventory = json!({"eventSinkRefs": [{"name": "stream"}]});
        stage.apply("KollectInventory", "inv", &inventory)?;
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

    pub(crate) fn start(&mut self) -> Result<()> {
        let child = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(["operator", "--health-probe-bind-address=0"])
            .arg("--allow-sink-networks=127.0.0.0/8")
            .arg("--kubeconfig")
            .arg(self.plane.cluster().kubeconfig())
            .env(
                "RUST_LOG",
                std::env::var("OPERATOR_LOG").unwrap_or_else(|_| "error".into()),
            )
            .stdout(Stdio::null())
            .spawn()?;
        self.operator = Some(Operator(child));
        Ok(())
    }

    pub(crate) fn kill(&mut self) {
        self.operator = None;
    }

    fn maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// Writes a ConfigMap with a number.
    pub(crate) fn put(&self, name: &str, number: u64) -> Result<()> {
        let (api, path) = (self.api()?, self.maps());
        let map = json!({
            "metadata": {"name": name}, "data": {"number": number.to_string()},
        });
        let answer = api.request("PUT", &format!("{path}/{name}"), Some(&map))?;
        if !answer.is_success() {
            api.post(&path, &map)?;
        }
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let path = format!("{}/{name}", self.maps());
        self.api()?.request("DELETE", &path, None).map(drop)
    }

    /// The ConfigMaps and their numbers, by a plain list.
    pub(crate) fn listed(&self) -> Result<BTreeMap<String, u64>> {
        let list = self.api()?.get(&self.maps())?;
        let items = list["items"].as_array().context("a list has items")?;
        let entry = |item: &Value| {
            let name = item["metadata"]["name"].as_str()?.to_owned();
            Some((name, item["data"]["number"].as_str()?.parse().ok()?))
        };
        Ok(items.iter().filter_map(entry).collect())
    }

    /// What the newest messages say, in the same form.
    pub(crate) fn newest(&self) -> Result<BTreeMap<String, u64>> {
        let messages = self.reader.newest(STREAM, "inventory.>")?;
        let there = messages.iter().filter(|m| m["body"]["event"] == "upsert");
        let entry = |message: &Value| {
            let item = &message["body"]["item"];
            let name = item["name"].as_str()?.to_owned();
            Some((name, item["attributes"]["number"].as_u64()?))
        };
        Ok(there.filter_map(entry).collect())
    }

    /// How many messages the stream has ever taken.
    pub(crate) fn appended(&self) -> Result<u64> {
        let stream = self.reader.stream(STREAM)?;
        Ok(stream["state"]["last_seq"].as_u64().unwrap_or_default())
    }

    /// Waits until the stream says what the cluster holds.
    pub(crate) fn expect_in_step(&self) -> Result<()> {
        let expected = self.listed()?;
        self.eventually("the stream in step", || {
            let newest = self.newest()?;
            ensure!(newest == expected, "{newest:?} instead of {expected:?}");
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

    pub(crate) fn status(&self) -> Result<Value> {
        let namespace = &self.namespace;
        let path =
            format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/kollectinventories/inv");
        Ok(self.api()?.get(&path)?["status"].take())
    }

    /// Deletes the inventory.
    pub(crate) fn delete_inventory(&self) -> Result<()> {
        let namespace = &self.namespace;
        let path =
            format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/kollectinventories/inv");
        ensure!(self.api()?.request("DELETE", &path, None)?.is_success());
        Ok(())
    }
}
