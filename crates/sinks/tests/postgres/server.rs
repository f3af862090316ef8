//! A database of its own for every test, and sinks on it.

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
    credentials::{Materials, materials},
    dial::Dialer,
    postgres::PostgresSink,
    secret::SecretData,
};
use kollect_testkit::{
    Postgres,
    postgres::{Database, Tls},
};
use serde_json::{Value, json};

/// The moments of the vectors: t1 < t2 < t3.
pub(crate) const T1: &str = "2026-01-15T12:00:01Z";
pub(crate) const T2: &str = "2026-01-15T12:00:02Z";
pub(crate) const T3: &str = "2026-01-15T12:00:03Z";

/// A database on the shared server.
pub(crate) fn database(prefix: &str) -> Database {
    let server = Postgres::shared().expect("a PostgreSQL server");
    server.create_database(prefix).expect("a database")
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
        census: std::sync::Arc::default(),
        local_files: false,
        workload: None,
    }
}

/// A spec of type postgres; `changes` is merged into it.
pub(crate) fn spec(changes: Value) -> SinkSpec {
    let mut spec = json!({
        "type": "postgres",
        "cluster": "prod-west",
        "postgres": {"databaseRef": {"name": "db"}, "table": "items"},
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

/// Credentials from a Secret with these keys.
pub(crate) fn secret(spec: &SinkSpec, data: &[(&str, &str)]) -> Result<Materials, SinkError> {
    let data: SecretData = data.iter().copied().collect();
    materials(spec, "team-a", |_| Some(data.clone()))
}

/// A sink on a database that is reached with this connection string.
pub(crate) fn sink_at(url: &str, changes: Value) -> Result<PostgresSink, SinkError> {
    let spec = spec(changes);
    let materials = secret(&spec, &[("dsn", url)])?;
    PostgresSink::new(&spec, materials, &environment())
}

/// A sink on a database.
pub(crate) fn sink(database: &Database, changes: Value) -> PostgresSink {
    sink_at(&database.url(Tls::Off), changes).expect("a sink")
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

/// Runs SQL and gives its lines. Not on a thread of the runtime: it waits for a process.
pub(crate) async fn sql(database: &Database, text: &str) -> Vec<String> {
    try_sql(database, text).await.expect("SQL")
}

pub(crate) async fn try_sql(database: &Database, text: &str) -> anyhow::Result<Vec<String>> {
    let (database, text) = (database.clone(), text.to_owned());
    let output = tokio::task::spawn_blocking(move || database.psql(&text)).await?;
    Ok(output?.lines().map(str::to_owned).collect())
}
