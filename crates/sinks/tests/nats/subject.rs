//! NATS as a subject of the conformance suite: a subject, a stream and a user of its own on the
//! shared server, behind a wire of its own. What a reader finds is the newest message per subject,
//! read by `nats-py`.

use std::sync::Arc;

use async_trait::async_trait;
use kollect_api::InventoryId;
use kollect_sinks::{Sink, conformance::Subject};
use kollect_testkit::{Nats, Proxy, names::unique};
use serde_json::{Value, json};

use super::stage::{blocking, open, reader};

const WRONG_PASSWORD: &str = "wrong-donkey-battery-staple";

pub(crate) struct NatsSubject {
    proxy: Proxy,
    stream: String,
    user: String,
    password: String,
}

impl NatsSubject {
    pub(crate) async fn start() -> Self {
        let (port, user, password) = blocking(|| {
            let server = Nats::shared().expect("a NATS server");
            (server.port(), server.user(), server.password().to_owned())
        })
        .await;
        Self {
            proxy: Proxy::to(("127.0.0.1", port)).expect("a wire"),
            stream: unique("conformance"),
            user,
            password,
        }
    }

    async fn connect(&self, cluster: &str, password: &str) -> Arc<dyn Sink> {
        let spec = json!({
            "type": "nats",
            "cluster": cluster,
            "secretRef": {"name": "nats"},
            "nats": {
                "url": format!("nats://127.0.0.1:{}", self.proxy.port()),
                "subject": format!("inventory.{}", self.stream),
                "stream": self.stream,
            },
        });
        let secret = [("username", self.user.as_str()), ("password", password)];
        open(spec, &secret).await.expect("a sink")
    }
}

#[async_trait]
impl Subject for NatsSubject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        self.connect(cluster, &self.password).await
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        Some(self.connect("prod-west", WRONG_PASSWORD).await)
    }

    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value> {
        let (stream, pattern) = (self.stream.clone(), format!("inventory.{}.>", self.stream));
        let newest = blocking(move || reader().newest(&stream, &pattern)).await;
        let inventory_is = |body: &Value| {
            body["cluster"] == cluster
                && body["inventory"] == inventory.name
                && match &inventory.scope {
                    kollect_api::identity::InventoryScope::Namespace(namespace) => {
                        body["scope"] == "namespace" && body["namespace"] == *namespace
                    }
                    kollect_api::identity::InventoryScope::Cluster => body["scope"] == "cluster",
                }
        };
        newest
            .expect("messages")
            .into_iter()
            .map(|message| message["body"].clone())
            .filter(|body| body["event"] == "upsert" && inventory_is(body))
            .map(|body| body["item"].clone())
            .collect()
    }

    async fn stop(&self) {
        self.proxy.refuse();
        // A server that is gone does nothing any more, and neither does this one.
        let user = self.user.clone();
        blocking(move || Nats::shared().and_then(|server| server.until_left(&user)))
            .await
            .expect("no connection");
    }

    async fn start(&self) {
        self.proxy.accept().expect("the same port");
    }

    async fn stall(&self, on: bool) -> bool {
        self.proxy.stall(on);
        true
    }

    async fn lose(&self) -> bool {
        let stream = self.stream.clone();
        blocking(move || reader().delete(&stream))
            .await
            .expect("a stream");
        true
    }

    /// What the stream has ever taken, and how it is set up.
    async fn mark(&self) -> Option<String> {
        let stream = self.stream.clone();
        let info = blocking(move || reader().stream(&stream))
            .await
            .expect("an answer");
        Some(format!("{} {}", info["config"], info["state"]["last_seq"]))
    }

    fn secrets(&self) -> Vec<String> {
        vec![
            self.user.clone(),
            self.password.clone(),
            WRONG_PASSWORD.to_owned(),
        ]
    }
}
