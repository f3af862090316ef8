//! MongoDB as a subject of the conformance suite: a database and a user of its own on a shared
//! server, behind a wire of its own.

use std::sync::Arc;

use async_trait::async_trait;
use kollect_api::InventoryId;
use kollect_sinks::{Sink, conformance::Subject};
use kollect_testkit::{Mongo, Proxy};
use mongodb::bson::{Bson, doc};
use serde_json::{Value, json};

use super::server::{COLLECTION, Stage, plain};

pub(crate) struct MongoSubject {
    stage: Stage,
    /// None where the client finds the servers by itself.
    proxy: Option<Proxy>,
}

const WRONG_PASSWORD: &str = "wrong-donkey-battery-staple";

impl MongoSubject {
    /// On the shared standalone server.
    pub(crate) async fn start() -> Self {
        let mut stage = Stage::new().await;
        let server = Mongo::shared().expect("a server");
        let proxy = Proxy::to(("127.0.0.1", server.port())).expect("a wire");
        let through = format!("127.0.0.1:{}", proxy.port());
        stage.uri = format!(
            "{}&connectTimeoutMS=2000",
            server.uri_at(&stage.user, &through)
        );
        stage.uri += "&serverSelectionTimeoutMS=3000";
        Self {
            stage,
            proxy: Some(proxy),
        }
    }

    /// On a replica set, which cannot be taken away from one test alone.
    pub(crate) async fn on(server: &Mongo) -> Self {
        Self {
            stage: Stage::on(server).await,
            proxy: None,
        }
    }
}

#[async_trait]
impl Subject for MongoSubject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        Arc::new(self.stage.sink(json!({"cluster": cluster})))
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        let password = &self.stage.user.password;
        let uri = self.stage.uri.replace(password, WRONG_PASSWORD);
        let sink = self.stage.sink_at(&uri, json!({}));
        Some(Arc::new(sink.expect("a sink")))
    }

    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value> {
        let documents = self.stage.documents().await;
        documents
            .iter()
            .filter(|document| {
                let has = |field: &str, wanted: &str| {
                    document.get_str(field).is_ok_and(|text| text == wanted)
                };
                has("inventory_namespace", inventory.namespace())
                    && has("inventory_name", &inventory.name)
                    && has("cluster", cluster)
            })
            .map(|document| plain(document.get("payload").expect("a payload")))
            .collect()
    }

    async fn stop(&self) {
        let proxy = self
            .proxy
            .as_ref()
            .expect("a server that can be taken away");
        proxy.refuse();
        // A server that is gone does nothing any more, and neither does this one.
        let kill = doc! {"killAllSessions": [{"user": &self.stage.user.name, "db": "admin"}]};
        let admin = self.stage.admin.database("admin");
        admin.run_command(kill).await.expect("sessions end");
    }

    async fn start(&self) {
        let proxy = self
            .proxy
            .as_ref()
            .expect("a server that can be taken away");
        proxy.accept().expect("the same port");
    }

    async fn stall(&self, on: bool) -> bool {
        let Some(proxy) = &self.proxy else {
            return false;
        };
        proxy.stall(on);
        true
    }

    async fn lose(&self) -> bool {
        self.stage.collection().drop().await.expect("dropped");
        true
    }

    /// Which collections there are, what is in them, and how often something was written.
    async fn mark(&self) -> Option<String> {
        let question = doc! {"listCollections": 1};
        let database = self.stage.database();
        let answer = database.run_command(question).await.expect("collections");
        let collections = answer.get_document("cursor").expect("a cursor");
        let mut documents = self.stage.documents().await;
        documents.sort_by_key(|document| document.get("_id").map(Bson::to_string));
        // Not on a replica set, where each member counts for itself.
        let writes = if self.proxy.is_some() {
            let stats = database.run_command(doc! {"collStats": COLLECTION}).await;
            stats.ok().and_then(|stats| {
                let calls = stats.get_document("wiredTiger").ok()?;
                let calls = calls.get_document("cursor").ok()?;
                let names = [
                    "insert calls",
                    "update calls",
                    "modify calls",
                    "remove calls",
                ];
                Some(names.map(|name| calls.get(name).map(Bson::to_string)))
            })
        } else {
            None
        };
        let collections = collections.get("firstBatch");
        Some(format!("{collections:?} {documents:?} {writes:?}"))
    }

    fn secrets(&self) -> Vec<String> {
        let mut secrets = vec![
            self.stage.user.name.clone(),
            self.stage.user.password.clone(),
            WRONG_PASSWORD.to_owned(),
            "127.0.0.1".to_owned(),
        ];
        secrets.extend(self.proxy.as_ref().map(|proxy| proxy.port().to_string()));
        secrets
    }
}
