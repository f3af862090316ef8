//! What a backend tells the suite about itself.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use kollect_api::InventoryId;

use crate::sink::Sink;

/// A backend under test: a fresh, empty place on its real server, and the means to look at it and
/// to take it away. Every case gets a subject of its own.
#[async_trait]
pub trait Subject: Send + Sync {
    /// A new sink object for a cluster on this backend, as after a restart of the process. Sinks of
    /// all clusters share the backend; where a cluster's rows go may depend on its name.
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink>;

    /// A sink whose credentials the server rejects; none if the backend knows no credentials.
    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>>;

    /// The rows that a reader finds at the backend, as item JSON, in any order. A reader does not
    /// go through the sink.
    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value>;

    /// Takes the server away: connections end, new ones are refused.
    async fn stop(&self);

    /// Brings the server back with its data and returns when it answers.
    async fn start(&self);

    /// Makes the server hang, with its connections open, or lets it go on. Returns false if that
    /// is not possible.
    async fn stall(&self, on: bool) -> bool;

    /// Makes the backend lose everything it held, in a way that sinks must notice. Returns false
    /// if that is not possible.
    async fn lose(&self) -> bool {
        false
    }

    /// A text that is different after every write that a reader could notice, such as a commit
    /// id or the versions of rows; also for what a sink creates around rows, such as tables. None
    /// if the backend has nothing of that kind.
    async fn mark(&self) -> Option<String> {
        None
    }

    /// By how much large cases are made smaller, for servers that stand in for faster ones.
    fn scale(&self) -> usize {
        1
    }

    /// What the backend does with an inventory that is no more.
    fn retirement(&self) -> Retirement {
        Retirement::Removes
    }

    /// Texts that only a Secret knows: no error text and no debug output may contain one.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a backend does with an inventory that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retirement {
    /// Its rows go.
    Removes,
    /// What was written stays as it is.
    Keeps,
}

/// Says in the output of a test that a backend cannot be treated this way, so that nobody takes
/// silence for a pass.
pub(super) fn not_applicable(what: &str) {
    println!("not applicable: the backend {what}");
}
