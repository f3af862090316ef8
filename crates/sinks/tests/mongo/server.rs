//! A database of its own for every test, sinks on it, and a reader who does not go through them.

use std::{str::FromStr, sync::Arc};

use futures::TryStreamExt;
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
    mongo::MongoSink,
    secret::SecretData,
};
use kollect_testkit::{Mongo, mongo::MongoUser};
use mongodb::{
    Client, Collection, Database,
    bson::{Bson, Document, doc},
};
use serde_json::{Value, json};

pub(crate) const COLLECTION: &str = "items";

/// The moments of the vectors: t1 < t2 < t3.
pub(crate) const T1: &str = "2026-01-15T12:00:01Z";
pub(crate) const T2: &str = "2026-01-15T12:00:02Z";
pub(crate) const T3: &str = "2026-01-15T12:00:03Z";

/// A user with a database, and the administrator who looks at it.
pub(crate) struct Stage {
    pub(crate) user: MongoUser,
    pub(crate) uri: String,
    pub(crate) admin: Client,
    replicated: bool,
}

impl Stage {
    /// On the server of this process.
    pub(crate) async fn new() -> Self {
        let server = tokio::task::spawn_blocking(|| Mongo::shared().expect("a MongoDB server"));
        Self::on(server.await.expect("a server")).await
    }

    /// On another server.
    pub(crate) async fn on(server: &Mongo) -> Self {
        let user = MongoUser::new("stage").expect("a user");
        let admin = Client::with_uri_str(server.uri()).await.expect("a client");
        let create = doc! {
            "createUser": &user.name,
            "pwd": &user.password,
            "roles": [{"role": "readWrite", "db": &user.database}],
        };
        admin
            .database("admin")
            .run_command(create)
            .await
            .expect("a user");
        Self {
            uri: server.uri_of(&user),
            user,
            admin,
            replicated: server.uri().contains("replicaSet"),
        }
    }

    pub(crate) fn database(&self) -> Database {
        self.admin.database(&self.user.database)
    }

    pub(crate) fn collection(&self) -> Collection<Document> {
        self.database().collection(COLLECTION)
    }

    /// All documents.
    pub(crate) async fn documents(&self) -> Vec<Document> {
        self.meet_primary().await;
        let all = self.collection().find(doc! {}).await.expect("documents");
        all.try_collect().await.expect("documents")
    }

    /// Waits until whom we ask is the primary: one that is none any more may not know it yet.
    async fn meet_primary(&self) {
        if !self.replicated {
            return;
        }
        let note = doc! {
            "appendOplogNote": 1, "data": {}, "writeConcern": {"w": "majority", "wtimeout": 5_000},
        };
        for _ in 0..60 {
            let noted = self.admin.database("admin").run_command(note.clone()).await;
            if noted.is_ok_and(|answer| !answer.contains_key("writeConcernError")) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        panic!("there is no primary");
    }

    /// A sink of the user; `changes` is merged into its spec.
    pub(crate) fn sink(&self, changes: Value) -> MongoSink {
        self.sink_at(&self.uri, changes).expect("a sink")
    }

    /// A sink with another connection string.
    pub(crate) fn sink_at(&self, uri: &str, changes: Value) -> Result<MongoSink, SinkError> {
        sink_with(&self.user.database, &[("uri", uri)], changes)
    }
}

/// A sink with a Secret of these keys.
pub(crate) fn sink_with(
    database: &str,
    secret: &[(&str, &str)],
    changes: Value,
) -> Result<MongoSink, SinkError> {
    let spec = spec(database, changes);
    let data: SecretData = secret.iter().copied().collect();
    let materials: Materials = materials(&spec, "team-a", |_| Some(data.clone()))?;
    MongoSink::new(&spec, materials, &environment(&["127.0.0.0/8"]))
}

/// What the operator gives to sinks, with these networks opened.
pub(crate) fn environment(networks: &[&str]) -> Environment {
    let allowed_networks = networks.iter().map(|text| text.parse().expect("a network"));
    Environment {
        dialer: Dialer::new(AddressPolicy {
            allowed_networks: allowed_networks.collect(),
            ..AddressPolicy::default()
        }),
        work_dir: std::env::temp_dir(),
        local_repositories: false,
        census: Arc::default(),
        local_files: false,
        workload: None,
    }
}

/// A spec of type mongodb; `changes` is merged into it.
pub(crate) fn spec(database: &str, changes: Value) -> SinkSpec {
    let mut spec = json!({
        "type": "mongodb",
        "cluster": "prod-west",
        "mongodb": {"databaseRef": {"name": "db"}, "database": database, "collection": COLLECTION},
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

/// A value as JSON has it, with numbers as they were written.
pub(crate) fn plain(value: &Bson) -> Value {
    match value {
        Bson::Document(document) => document
            .iter()
            .map(|(key, value)| (key.clone(), plain(value)))
            .collect(),
        Bson::Array(values) => values.iter().map(plain).collect(),
        Bson::Decimal128(number) => {
            json!(u64::from_str(&number.to_string()).expect("a whole number"))
        }
        Bson::Int32(number) => json!(number),
        Bson::Int64(number) => json!(number),
        Bson::Double(number) => json!(number),
        Bson::String(text) => json!(text),
        Bson::Boolean(value) => json!(value),
        Bson::Null => Value::Null,
        other => panic!("a row holds no {other:?}"),
    }
}
