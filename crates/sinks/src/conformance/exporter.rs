//! One inventory on its way to one sink, with its reader looking over its shoulder.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use kollect_api::InventoryId;
use kollect_inventory::{Delta, Snapshot};
use serde_json::Value;

use super::{rows::item, subject::Subject};
use crate::{
    error::SinkError,
    sink::{Delivery, DeliveryRows, Demand, DocumentOptions, Receipt, Sink},
};

/// Longest time for anything that has to work. Generous, because the machine may be busy; a sink
/// that hangs is still found.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

/// The cluster of cases that need only one.
pub(super) const CLUSTER: &str = "prod-west";

/// Does for one inventory and one sink what the export engine does: all rows at first and after a
/// failure, changes while in step. After each delivery a reader must find exactly the rows.
pub(super) struct Exporter<'s> {
    pub(super) subject: &'s dyn Subject,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) inventory: InventoryId,
    cluster: String,
    /// What the backend has to hold.
    pub(super) expected: Snapshot,
    in_step: bool,
    deliveries: i64,
}

impl<'s> Exporter<'s> {
    /// An exporter of `team-a/team-inventory`.
    pub(super) async fn new(subject: &'s dyn Subject) -> Self {
        let inventory = InventoryId::namespaced("team-a", "team-inventory");
        Self::of(subject, CLUSTER, inventory).await
    }

    /// An exporter of some inventory of some cluster.
    pub(super) async fn of(
        subject: &'s dyn Subject,
        cluster: &str,
        inventory: InventoryId,
    ) -> Self {
        Exporter {
            subject,
            sink: subject.sink(cluster).await,
            inventory,
            cluster: cluster.to_owned(),
            expected: Snapshot::default(),
            in_step: false,
            deliveries: 0,
        }
    }

    /// Goes on with a new sink object, as after a restart of the process.
    pub(super) async fn restart(&mut self) {
        self.sink = self.subject.sink(&self.cluster).await;
        self.in_step = false;
    }

    /// The next delivery with this content.
    pub(super) fn delivery(&mut self, rows: DeliveryRows) -> Delivery {
        self.deliveries += 1;
        Delivery {
            inventory: self.inventory.clone(),
            generation: 1,
            at: Timestamp::from_second(1_768_478_400 + 60 * self.deliveries)
                .expect("a time of this century"),
            rows,
            documents: DocumentOptions::default(),
        }
    }

    /// One delivery, whatever becomes of it, within a time.
    pub(super) async fn attempt(&mut self, rows: DeliveryRows) -> Result<Receipt, SinkError> {
        let delivery = self.delivery(rows);
        let result = tokio::time::timeout(PATIENCE, self.sink.deliver(&delivery)).await;
        let result = result.expect("a delivery ends, with a result or an error");
        self.in_step = result.is_ok();
        result
    }

    /// Delivers all rows; a reader then finds them.
    pub(super) async fn everything(&mut self, rows: &Snapshot) -> Receipt {
        let receipt = self.attempt(DeliveryRows::All(rows.clone())).await;
        let receipt = receipt.expect("a delivery of all rows");
        self.expected = rows.clone();
        self.check("after a delivery of all rows").await;
        receipt
    }

    /// Delivers what is different between the rows delivered last and these; a reader then finds
    /// these. A sink that takes no changes is given all rows.
    pub(super) async fn changes(&mut self, rows: &Snapshot) -> Option<Receipt> {
        if self.sink.demand() == Demand::Documents {
            self.everything(rows).await;
            return None;
        }
        assert!(self.in_step, "changes follow a delivery of all rows");
        let delta = Arc::new(Delta::between(&self.expected, rows));
        let receipt = self.attempt(DeliveryRows::Changes(delta)).await;
        let receipt = receipt.expect("a delivery of changes");
        self.expected = rows.clone();
        self.check("after a delivery of changes").await;
        Some(receipt)
    }

    /// Delivers all rows the way the engine does after a failure: a few attempts, as long as the
    /// failure may heal by itself.
    pub(super) async fn recover(&mut self, rows: &Snapshot) {
        for _ in 0..3 {
            match self.attempt(DeliveryRows::All(rows.clone())).await {
                Ok(_) => break,
                Err(SinkError::Transient(_)) => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(other) => panic!("a failure that heals became one that does not: {other}"),
            }
        }
        assert!(self.in_step, "the third delivery after a failure succeeds");
        self.expected = rows.clone();
        self.check("after the recovery").await;
        // What an interrupted delivery left on the way must not arrive later.
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.check("some time after the recovery").await;
    }

    /// Ends the inventory.
    pub(super) async fn retire(&mut self) -> Result<Receipt, SinkError> {
        self.in_step = false;
        let result = tokio::time::timeout(PATIENCE, self.sink.retire(&self.inventory)).await;
        result.expect("retiring ends, with a result or an error")
    }

    /// A reader finds exactly the expected rows.
    pub(super) async fn check(&self, when: &str) {
        let found = self.subject.contents(&self.inventory, &self.cluster).await;
        let expected: Vec<Value> = self.expected.rows().iter().map(item).collect();
        if let Some(difference) = difference(&expected, &found) {
            panic!(
                "{} of {}, {when}: {difference}",
                self.inventory, self.cluster
            );
        }
    }
}

/// What is wrong with the rows found; nothing if they are the expected ones.
fn difference(expected: &[Value], found: &[Value]) -> Option<String> {
    let texts = |rows: &[Value]| rows.iter().map(Value::to_string).collect::<BTreeSet<_>>();
    let (wanted, there) = (texts(expected), texts(found));
    if wanted == there && expected.len() == found.len() {
        return None;
    }
    let few = |texts: Vec<&String>| {
        let shown: Vec<_> = texts.iter().take(3).collect();
        format!("{} such as {shown:#?}", texts.len())
    };
    Some(format!(
        "expected {} rows, found {}\nmissing: {}\nnot expected: {}",
        expected.len(),
        found.len(),
        few(wanted.difference(&there).collect()),
        few(there.difference(&wanted).collect()),
    ))
}
