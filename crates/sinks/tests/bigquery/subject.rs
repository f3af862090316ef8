//! BigQuery as a subject of the conformance suite: a dataset on a shared emulator, behind a gate
//! that asks for tokens and a wire that can be cut.

use std::sync::Arc;

use async_trait::async_trait;
use kollect_api::InventoryId;
use kollect_sinks::{Sink, conformance::Subject};
use kollect_testkit::Proxy;
use serde_json::{Value, json};

use super::{
    gate::{KEY, OTHER_KEY},
    stage::{ACCOUNT, Stage},
};

pub(crate) struct BigquerySubject {
    stage: Stage,
    proxy: Proxy,
}

impl BigquerySubject {
    pub(crate) async fn start() -> Self {
        let mut stage = Stage::new().await;
        let proxy = Proxy::to(("127.0.0.1", stage.gate.port)).expect("a wire");
        stage.port = proxy.port();
        Self { stage, proxy }
    }
}

#[async_trait]
impl Subject for BigquerySubject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        Arc::new(self.stage.sink(json!({"cluster": cluster})))
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        let sink = self.stage.sink_with(OTHER_KEY, json!({}));
        Some(Arc::new(sink.expect("a sink")))
    }

    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value> {
        let rows = self.stage.rows().await.into_iter();
        rows.filter(|row| {
            row.inventory.0 == inventory.namespace()
                && row.inventory.1 == inventory.name
                && row.cluster == cluster
        })
        .map(|row| row.item)
        .collect()
    }

    async fn stop(&self) {
        self.proxy.refuse();
    }

    async fn start(&self) {
        self.proxy.accept().expect("the same port");
    }

    async fn stall(&self, on: bool) -> bool {
        self.proxy.stall(on);
        true
    }

    async fn lose(&self) -> bool {
        self.stage.drop_table().await;
        true
    }

    /// Whether there is a table, what is in it, and how many statements changed it.
    async fn mark(&self) -> Option<String> {
        let table = self.stage.table().await.is_some();
        let rows = self.stage.rows().await;
        let changes = self.stage.gate.changes().len();
        Some(format!("{table} {rows:?} {changes}"))
    }

    fn scale(&self) -> usize {
        20
    }

    fn secrets(&self) -> Vec<String> {
        let line = |key: &str| key.lines().nth(3).expect("a line of the key").to_owned();
        vec![line(KEY), line(OTHER_KEY), ACCOUNT.to_owned()]
    }
}
