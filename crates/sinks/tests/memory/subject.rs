//! The reference sink as a subject of the suite.

use std::sync::Arc;

use async_trait::async_trait;
use kollect_api::InventoryId;
use kollect_sinks::{
    Sink,
    conformance::{Retirement, Subject, rows::item},
    memory::{Availability, MemoryServer, MemorySink},
};
use serde_json::Value;

use super::flawed::{Flaw, Flawed};

pub(crate) const PASSWORD: &str = "correct-horse-battery-staple";
const WRONG_PASSWORD: &str = "wrong-donkey-battery-staple";

pub(crate) struct MemorySubject {
    server: MemoryServer,
    documents: bool,
    flaw: Option<Flaw>,
}

impl MemorySubject {
    pub(crate) fn rows() -> Self {
        MemorySubject {
            server: MemoryServer::new(PASSWORD),
            documents: false,
            flaw: None,
        }
    }

    pub(crate) fn documents() -> Self {
        MemorySubject {
            documents: true,
            ..Self::rows()
        }
    }

    pub(crate) fn flawed(flaw: Flaw) -> Self {
        MemorySubject {
            flaw: Some(flaw),
            ..Self::rows()
        }
    }

    fn connect(&self, cluster: &str, password: &str) -> Arc<dyn Sink> {
        let sink = MemorySink::new(self.server.clone(), cluster, password);
        match self.flaw {
            Some(flaw) => Arc::new(Flawed::new(
                flaw,
                Arc::new(sink),
                self.server.clone(),
                cluster,
            )),
            None if self.documents => Arc::new(sink.writing_documents()),
            None => Arc::new(sink),
        }
    }
}

#[async_trait]
impl Subject for MemorySubject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        self.connect(cluster, PASSWORD)
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        Some(self.connect("anywhere", WRONG_PASSWORD))
    }

    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value> {
        let rows = self.server.rows(cluster, inventory);
        rows.iter().map(item).collect()
    }

    async fn stop(&self) {
        self.server.set_availability(Availability::Gone);
    }

    async fn start(&self) {
        self.server.set_availability(Availability::Normal);
    }

    async fn stall(&self, on: bool) -> bool {
        let availability = if on {
            Availability::Stalled
        } else {
            Availability::Normal
        };
        self.server.set_availability(availability);
        true
    }

    async fn lose(&self) -> bool {
        self.server.lose();
        true
    }

    async fn mark(&self) -> Option<String> {
        Some(self.server.revision().to_string())
    }

    fn retirement(&self) -> Retirement {
        if self.documents {
            Retirement::Keeps
        } else {
            Retirement::Removes
        }
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned(), WRONG_PASSWORD.to_owned()]
    }
}
