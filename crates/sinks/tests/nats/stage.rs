//! A subject and a stream of its own for every test, sinks on it, and somebody else's eyes.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use kollect_api::{
    InventoryId, SinkKey, address::AddressPolicy, reference::SinkFamily, sink::SinkSpec,
};
use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{
    Delivery, DeliveryRows, DocumentOptions, Receipt, Sink, SinkError,
    backend::{self, Environment, SinkSeed},
    credentials::materials,
    dial::Dialer,
    secret::SecretData,
};
use kollect_testkit::{Nats, names::unique, nats::Reader};
use serde_json::{Value, json};

/// What the operator gives to sinks; tests may reach loopback.
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

/// The reader of the shared server.
pub(crate) fn reader() -> &'static Reader {
    static READER: LazyLock<Reader> = LazyLock::new(|| {
        let server = Nats::shared().expect("a NATS server");
        server.reader().expect("a reader")
    });
    &READER
}

/// Runs what waits for a process where that holds up nobody.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

/// A sink of this description with a Secret of these keys.
pub(crate) async fn open(spec: Value, secret: &[(&str, &str)]) -> Result<Arc<dyn Sink>, SinkError> {
    let spec = SinkSpec::Event(serde_json::from_value(spec).expect("a spec"));
    let data: SecretData = secret.iter().copied().collect();
    let materials = materials(&spec, "team-a", |_| Some(data.clone()))?;
    let seed = SinkSeed {
        key: SinkKey::new(SinkFamily::Event, "team-a", unique("nats")),
        spec: Arc::new(spec),
        materials,
    };
    backend::open(seed, &environment()).await
}

/// A place of its own on the shared server.
pub(crate) struct Place {
    pub(crate) subject: String,
    pub(crate) stream: String,
    pub(crate) port: u16,
    password: String,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let name = unique("test");
        let (port, password) = blocking(|| {
            let server = Nats::shared().expect("a NATS server");
            (server.port(), server.password().to_owned())
        })
        .await;
        Place {
            subject: format!("inventory.{name}"),
            stream: name,
            port,
            password,
        }
    }

    /// A spec; `changes` is merged into it.
    pub(crate) fn spec(&self, changes: Value) -> Value {
        let mut spec = json!({
            "type": "nats",
            "cluster": "prod-west",
            "endpoint": format!("nats://127.0.0.1:{}", self.port),
            "secretRef": {"name": "nats"},
            "nats": {"subject": self.subject, "stream": self.stream},
        });
        merge(&mut spec, changes);
        spec
    }

    pub(crate) async fn sink(&self, changes: Value) -> Arc<dyn Sink> {
        let secret = [("username", "user1"), ("password", self.password.as_str())];
        open(self.spec(changes), &secret).await.expect("a sink")
    }

    /// The newest message of every row, by name of the object: `None` for one that is gone.
    pub(crate) async fn newest(&self) -> BTreeMap<String, Option<Value>> {
        let found = self.messages(true).await;
        let found = found
            .into_iter()
            .filter(|message| !message["body"]["item"].is_null());
        found
            .map(|message| {
                let item = &message["body"]["item"];
                let name = item["name"].as_str().expect("a name").to_owned();
                let there = message["headers"]["Kollect-Event"] == "upsert";
                (name, there.then(|| item.clone()))
            })
            .collect()
    }

    /// Messages as somebody else finds them.
    pub(crate) async fn messages(&self, newest: bool) -> Vec<Value> {
        let (stream, pattern) = (self.stream.clone(), format!("{}.>", self.subject));
        let found = blocking(move || {
            if newest {
                reader().newest(&stream, &pattern)
            } else {
                reader().all(&stream, &pattern)
            }
        });
        found.await.expect("messages")
    }

    /// How many messages the stream has ever taken.
    pub(crate) async fn appended(&self) -> u64 {
        let stream = self.info().await;
        stream["state"]["last_seq"].as_u64().unwrap_or_default()
    }

    pub(crate) async fn info(&self) -> Value {
        let stream = self.stream.clone();
        let info = blocking(move || reader().stream(&stream));
        info.await.expect("a stream")
    }
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

/// The inventory of most tests.
pub(crate) fn inventory() -> InventoryId {
    InventoryId::namespaced("team-a", "web")
}

pub(crate) fn delivery(inventory: &InventoryId, rows: DeliveryRows) -> Delivery {
    Delivery {
        inventory: inventory.clone(),
        generation: 1,
        at: jiff::Timestamp::now(),
        rows,
        documents: DocumentOptions::default(),
    }
}

/// Delivers all rows.
pub(crate) async fn everything(
    sink: &Arc<dyn Sink>,
    rows: &Snapshot,
) -> Result<Receipt, SinkError> {
    let content = DeliveryRows::All(rows.clone());
    sink.deliver(&delivery(&inventory(), content)).await
}

/// Delivers what changed.
pub(crate) async fn changes(
    sink: &Arc<dyn Sink>,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<Receipt, SinkError> {
    let content = DeliveryRows::Changes(Arc::new(Delta::between(before, after)));
    sink.deliver(&delivery(&inventory(), content)).await
}
