//! A topic of its own for every test, and sinks that publish to it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kollect_api::{
    InventoryId, SinkKey,
    address::AddressPolicy,
    reference::SinkFamily,
    sink::{KollectEventSinkSpec, SinkSpec},
};
use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{
    Delivery, DeliveryRows, DocumentOptions, Receipt, Sink, SinkError,
    backend::{self, Environment, SinkSeed},
    credentials::materials,
    dial::Dialer,
    secret::SecretData,
};
use kollect_testkit::Kafka;
use serde_json::{Value, json};

/// The broker of this test program.
pub(crate) async fn kafka() -> &'static Kafka {
    tokio::task::spawn_blocking(|| Kafka::shared().expect("a broker"))
        .await
        .expect("a broker")
}

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

pub(crate) fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Opens a sink as the operator does; `changes` is merged into its description.
pub(crate) async fn open(
    broker: &str,
    topic: &str,
    changes: Value,
    secret: &[(&str, &str)],
) -> Result<Arc<dyn Sink>, SinkError> {
    open_in(&environment(), broker, topic, changes, secret).await
}

/// The same in another environment.
pub(crate) async fn open_in(
    environment: &Environment,
    broker: &str,
    topic: &str,
    changes: Value,
    secret: &[(&str, &str)],
) -> Result<Arc<dyn Sink>, SinkError> {
    let mut spec = json!({
        "type": "kafka",
        "cluster": "prod-west",
        "kafka": {"brokers": [broker], "topic": topic},
    });
    if !secret.is_empty() {
        spec["secretRef"] = json!({"name": "kafka"});
    }
    merge(&mut spec, changes);
    let spec: KollectEventSinkSpec = serde_json::from_value(spec).expect("a spec");
    let spec = SinkSpec::Event(spec);
    let data: SecretData = secret.iter().copied().collect();
    let materials = materials(&spec, "team-a", |_| Some(data.clone()))?;
    let seed = SinkSeed {
        key: SinkKey::new(SinkFamily::Event, "team-a", topic),
        spec: Arc::new(spec),
        materials,
    };
    backend::open(seed, environment).await
}

/// A sink on the open listener of the shared broker.
pub(crate) async fn sink(topic: &str, changes: Value) -> Arc<dyn Sink> {
    open(&kafka().await.plain(), topic, changes, &[])
        .await
        .expect("a sink")
}

/// The inventory of most tests.
pub(crate) fn inventory() -> InventoryId {
    InventoryId::namespaced("team-a", "team-inventory")
}

pub(crate) fn delivery(inventory: &InventoryId, rows: DeliveryRows) -> Delivery {
    Delivery {
        inventory: inventory.clone(),
        generation: 3,
        at: Timestamp::now(),
        rows,
        documents: DocumentOptions::default(),
    }
}

/// Delivers all rows.
pub(crate) async fn all(sink: &Arc<dyn Sink>, rows: &Snapshot) -> Result<Receipt, SinkError> {
    let rows = DeliveryRows::All(rows.clone());
    sink.deliver(&delivery(&inventory(), rows)).await
}

/// Delivers what changed.
pub(crate) async fn changes(
    sink: &Arc<dyn Sink>,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<Receipt, SinkError> {
    let rows = DeliveryRows::Changes(Arc::new(Delta::between(before, after)));
    sink.deliver(&delivery(&inventory(), rows)).await
}

/// Waits until something holds: brokers learn of access rules a moment after they were made.
pub(crate) async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..200 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never came to this: {what}");
}
