//! A dataset of its own for every test, sinks on it, and a reader who does not go through them.

use std::sync::Arc;

use kollect_api::{
    InventoryId,
    address::AddressPolicy,
    sink::{KollectDatabaseSinkSpec, SinkSpec},
};
use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{
    Delivery, DeliveryRows, DocumentOptions, Receipt, Sink, SinkError,
    backend::Environment,
    bigquery::{BigquerySink, Service},
    credentials::materials,
    dial::Dialer,
    secret::SecretData,
};
use kollect_testkit::{Bigquery, bigquery::Dataset};
use serde_json::{Value, json};

use super::gate::{Gate, KEY};

pub(crate) const TABLE: &str = "items";
pub(crate) const ACCOUNT: &str = "kollect@tests.iam.gserviceaccount.com";

/// The moments of the vectors: t1 < t2 < t3.
pub(crate) const T1: &str = "2026-01-15T12:00:01Z";
pub(crate) const T2: &str = "2026-01-15T12:00:02Z";
pub(crate) const T3: &str = "2026-01-15T12:00:03Z";

/// A dataset on the shared emulator, behind a gate of its own.
pub(crate) struct Stage {
    pub(crate) dataset: Dataset,
    pub(crate) gate: Gate,
    /// Where sinks go.
    pub(crate) port: u16,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let made = tokio::task::spawn_blocking(|| {
            let dataset = Bigquery::dataset("stage").expect("a dataset of a BigQuery emulator");
            let port = dataset.server.port();
            (dataset, port)
        });
        let (dataset, emulator) = made.await.expect("a dataset");
        let gate = Gate::before(emulator).await;
        Self {
            dataset,
            port: gate.port,
            gate,
        }
    }

    /// A sink on the table; `changes` is merged into its spec.
    pub(crate) fn sink(&self, changes: Value) -> BigquerySink {
        self.sink_with(KEY, changes).expect("a sink")
    }

    /// A sink with another key.
    pub(crate) fn sink_with(&self, key: &str, changes: Value) -> Result<BigquerySink, SinkError> {
        let spec = spec(&self.dataset, changes);
        let file = key_file(key, self.port);
        Self::sink_of(&spec, &[("credentials.json", &file)], self.service())
    }

    /// The emulator behind the gate.
    pub(crate) fn service(&self) -> Service {
        Service::emulator(&format!("127.0.0.1:{}", self.port)).with_credentials()
    }

    /// A sink with a Secret of these keys.
    pub(crate) fn sink_of(
        spec: &SinkSpec,
        secret: &[(&str, &str)],
        service: Service,
    ) -> Result<BigquerySink, SinkError> {
        let data: SecretData = secret.iter().copied().collect();
        let materials = materials(spec, "team-a", |_| Some(data.clone()))?;
        BigquerySink::new(spec, materials, &environment(), service)
    }

    /// Runs a statement past the sink.
    pub(crate) async fn query(&self, text: &str) -> Vec<Vec<Option<String>>> {
        let (dataset, text) = (self.dataset.clone(), text.to_owned());
        let asked = tokio::task::spawn_blocking(move || dataset.query(&text));
        asked.await.expect("an answer").expect("rows")
    }

    /// The description of the table.
    pub(crate) async fn table(&self) -> Option<Value> {
        let dataset = self.dataset.clone();
        let asked = tokio::task::spawn_blocking(move || dataset.table(TABLE));
        asked.await.expect("an answer").expect("a table")
    }

    /// All rows: inventory namespace, name, cluster, target, uid, resource namespace, moment, hash
    /// and item. Nothing while there is no table.
    pub(crate) async fn rows(&self) -> Vec<Found> {
        if self.table().await.is_none() {
            return Vec::new();
        }
        let text = format!(
            "SELECT inventory_namespace, inventory_name, cluster, target_name, source_uid, \
             resource_namespace, FORMAT_TIMESTAMP('%FT%TZ', exported_at), \
             CAST(content_hash AS STRING), TO_JSON_STRING(payload) FROM {} \
             ORDER BY 1, 2, 3, 4, 5",
            self.dataset.quoted(TABLE)
        );
        self.query(&text).await.into_iter().map(Found::of).collect()
    }

    pub(crate) async fn drop_table(&self) {
        let dataset = self.dataset.clone();
        let dropped = tokio::task::spawn_blocking(move || dataset.drop_table(TABLE));
        dropped.await.expect("an answer").expect("dropped");
    }
}

/// A row as a reader finds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) inventory: (String, String),
    pub(crate) cluster: String,
    pub(crate) target: String,
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) at: String,
    pub(crate) hash: Option<String>,
    pub(crate) item: Value,
}

impl Found {
    fn of(cells: Vec<Option<String>>) -> Self {
        let mut cells = cells.into_iter();
        let mut next = || cells.next().expect("a column");
        let mut text = || next().expect("a value");
        Self {
            inventory: (text(), text()),
            cluster: text(),
            target: text(),
            uid: text(),
            namespace: text(),
            at: text(),
            hash: next(),
            item: serde_json::from_str(&next().expect("an item")).expect("JSON"),
        }
    }
}

/// A key file that leads to the gate's token service.
pub(crate) fn key_file(key: &str, port: u16) -> String {
    json!({
        "type": "service_account",
        "private_key_id": "1",
        "private_key": key,
        "client_email": ACCOUNT,
        "token_uri": format!("http://127.0.0.1:{port}/token"),
    })
    .to_string()
}

/// What the operator gives to sinks, with loopback opened.
pub(crate) fn environment() -> Environment {
    Environment {
        dialer: Dialer::new(AddressPolicy {
            allowed_networks: vec!["127.0.0.0/8".parse().expect("a network")],
            ..AddressPolicy::default()
        }),
        work_dir: std::env::temp_dir(),
        local_repositories: false,
        census: Arc::default(),
        local_files: false,
        workload: None,
    }
}

/// A spec of type bigquery; `changes` is merged into it.
pub(crate) fn spec(dataset: &Dataset, changes: Value) -> SinkSpec {
    let mut spec = json!({
        "type": "bigquery",
        "cluster": "prod-west",
        "bigquery": {
            "project": dataset.project, "dataset": dataset.name, "table": TABLE, "secretRef": {"name": "key"},
        },
    });
    merge(&mut spec, changes);
    let spec: KollectDatabaseSinkSpec = serde_json::from_value(spec).expect("a spec");
    SinkSpec::Database(spec)
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// The inventory of most vectors.
pub(crate) fn inventory() -> InventoryId {
    InventoryId::namespaced("team-a", "team-inventory")
}

pub(crate) fn delivery(inventory: &InventoryId, at: &str, rows: DeliveryRows) -> Delivery {
    Delivery {
        inventory: inventory.clone(),
        generation: 1,
        at: at.parse().expect("a moment"),
        rows,
        documents: DocumentOptions::default(),
    }
}

/// Delivers all rows.
pub(crate) async fn everything(
    sink: &dyn Sink,
    inventory: &InventoryId,
    at: &str,
    rows: &Snapshot,
) -> Result<Receipt, SinkError> {
    let content = DeliveryRows::All(rows.clone());
    sink.deliver(&delivery(inventory, at, content)).await
}

/// Delivers what changed.
pub(crate) async fn changes(
    sink: &dyn Sink,
    inventory: &InventoryId,
    at: &str,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<Receipt, SinkError> {
    let content = DeliveryRows::Changes(Arc::new(Delta::between(before, after)));
    sink.deliver(&delivery(inventory, at, content)).await
}

impl Stage {
    /// Asks the emulator something, past gate and sink.
    pub(crate) async fn post(&self, what: &str, body: Value) -> Value {
        let path = format!("/bigquery/v2/projects/{}/{what}", self.dataset.project);
        let port = self.dataset.server.port();
        let asked = tokio::task::spawn_blocking(move || {
            let client = kollect_testkit::http::Client::plain(port);
            let answer = client.request("POST", &path, Some(&body))?;
            Ok::<Value, anyhow::Error>(serde_json::from_slice(&answer.body)?)
        });
        asked.await.expect("an answer").expect("an answer")
    }
}
