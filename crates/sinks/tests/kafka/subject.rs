//! Kafka as a subject of the conformance suite: a topic of its own on the shared broker, behind a wire
//! of its own.

use std::sync::Arc;

use async_trait::async_trait;
use kollect_api::{InventoryId, identity::InventoryScope};
use kollect_sinks::{Sink, conformance::Subject};
use kollect_testkit::{
    kafka::{USER, Wire},
    names::unique,
};
use serde_json::{Value, json};

use super::{broker, reader};

pub(crate) struct KafkaSubject {
    wire: Wire,
    topic: String,
    password: String,
}

const WRONG_PASSWORD: &str = "wrong-donkey-battery-staple";

impl KafkaSubject {
    pub(crate) async fn start() -> Self {
        let kafka = broker::kafka().await;
        Self {
            wire: kafka.wire().expect("a wire"),
            topic: unique("conformance"),
            password: kafka.password().to_owned(),
        }
    }

    async fn connect(&self, cluster: &str, password: &str) -> Arc<dyn Sink> {
        let changes = json!({
            "cluster": cluster,
            "kafka": {"saslMechanism": "SCRAM-SHA-512"},
            "serialization": {"compression": "zstd"},
        });
        let secret = [("username", USER), ("password", password)];
        broker::open(&self.wire.broker(), &self.topic, changes, &secret)
            .await
            .expect("a sink")
    }
}

#[async_trait]
impl Subject for KafkaSubject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        self.connect(cluster, &self.password).await
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        Some(self.connect("prod-west", WRONG_PASSWORD).await)
    }

    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value> {
        let (namespace, scope) = match &inventory.scope {
            InventoryScope::Namespace(namespace) => (namespace.as_str(), "namespace"),
            InventoryScope::Cluster => ("cluster", "cluster"),
        };
        let mut found = reader::newest(&self.topic).await;
        found.retain(|body| {
            body["event"] == "upsert"
                && body["cluster"] == cluster
                && body["namespace"] == namespace
                && body["scope"] == scope
                && body["inventory"] == *inventory.name
        });
        found.iter_mut().map(|body| body["item"].take()).collect()
    }

    async fn stop(&self) {
        self.wire.proxy.refuse();
    }

    async fn start(&self) {
        self.wire.proxy.accept().expect("the same port");
    }

    async fn stall(&self, on: bool) -> bool {
        self.wire.proxy.stall(on);
        true
    }

    async fn mark(&self) -> Option<String> {
        Some(format!("{:?}", reader::ends(&self.topic).await))
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.password.clone(), WRONG_PASSWORD.to_owned()]
    }
}
