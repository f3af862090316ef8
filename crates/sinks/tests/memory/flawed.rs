//! Sinks that do one thing wrong, each in a way that has happened to somebody.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kollect_api::InventoryId;
use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{
    Delivery, DeliveryRows, Demand, Receipt, Sink, SinkError,
    memory::{MemoryServer, MemorySink},
};

use super::subject::PASSWORD;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing.
    None,
    /// Rows are written and never removed.
    IgnoresDeletes,
    /// A full delivery empties the other inventories of the cluster.
    EmptiesNeighbours,
    /// A full delivery removes the inventory's rows of other clusters.
    PrunesOtherClusters,
    /// Of a row that returns under another identity nothing is left.
    DeletesAfterUpserts,
    /// A delete of a row that is gone already is an error.
    RefusesRepeatedChanges,
    /// Removes only rows that this very object has written.
    KnowsOnlyItsOwnRows,
    /// Removes everything and writes it again.
    RewritesEverything,
    /// Says that it removed and did not.
    RetiresNothing,
    /// Removes all inventories of the cluster.
    RetiresEverybody,
    /// A rejected login counts as something that may heal.
    RetryRejectedLogins,
    /// A missing server counts as something that needs a person.
    GivesUpWhenServerIsGone,
    /// Failures are reported as success.
    SwallowsFailures,
    /// A cancelled delivery leaves a lock behind.
    JamsWhenCancelled,
    /// A delivery goes on in the background after it was cancelled.
    WritesLate,
    /// Applies changes to a backend that lost its rows.
    NeverNoticesLoss,
    /// The password is part of error texts.
    TellsThePassword,
    /// Finds out whether it can write by writing.
    ProbesByWriting,
    /// Delivers at most a thousand rows.
    CutsRowsShort,
}

/// A [`MemorySink`] with a flaw.
pub(crate) struct Flawed {
    flaw: Flaw,
    sink: Arc<MemorySink>,
    server: MemoryServer,
    cluster: String,
    jammed: AtomicBool,
    seen: Mutex<BTreeSet<String>>,
}

impl Flawed {
    pub(crate) fn new(
        flaw: Flaw,
        sink: Arc<MemorySink>,
        server: MemoryServer,
        cluster: &str,
    ) -> Self {
        Flawed {
            flaw,
            sink,
            server,
            cluster: cluster.to_owned(),
            jammed: AtomicBool::new(false),
            seen: Mutex::default(),
        }
    }

    fn sink_of(&self, cluster: &str) -> MemorySink {
        MemorySink::new(self.server.clone(), cluster, PASSWORD)
    }

    /// Retires what is at the server and for which `choose` says so.
    async fn retire_where(&self, choose: impl Fn(&str, &InventoryId) -> bool) {
        for (cluster, inventory) in self.server.partitions() {
            if choose(&cluster, &inventory) {
                let _ = self.sink_of(&cluster).retire(&inventory).await;
            }
        }
    }

    fn tampered(&self, delivery: &Delivery) -> Delivery {
        let mut delivery = delivery.clone();
        let held = self.server.rows(&self.cluster, &delivery.inventory);
        delivery.rows = match (self.flaw, delivery.rows) {
            (Flaw::IgnoresDeletes, DeliveryRows::All(rows)) => {
                let new: Vec<_> = rows.rows().to_vec();
                DeliveryRows::All(held.into_iter().chain(new).collect())
            }
            (Flaw::IgnoresDeletes, DeliveryRows::Changes(delta)) => {
                DeliveryRows::Changes(Arc::new(upserts(&delta)))
            }
            (Flaw::KnowsOnlyItsOwnRows, DeliveryRows::All(rows)) => {
                let mut seen = self.seen.lock().unwrap();
                let foreign = held
                    .into_iter()
                    .filter(|row| !seen.contains(&row.uid().to_string()));
                let all: Snapshot = foreign.chain(rows.rows().iter().cloned()).collect();
                seen.extend(rows.rows().iter().map(|row| row.uid().to_string()));
                DeliveryRows::All(all)
            }
            (Flaw::CutsRowsShort, DeliveryRows::All(rows)) => {
                DeliveryRows::All(rows.rows().iter().take(1_000).cloned().collect())
            }
            (_, content) => content,
        };
        delivery
    }

    async fn deliver_wrongly(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        match (self.flaw, &delivery.rows) {
            (Flaw::EmptiesNeighbours, DeliveryRows::All(_)) => {
                self.retire_where(|cluster, inventory| {
                    cluster == self.cluster && *inventory != delivery.inventory
                })
                .await;
            }
            (Flaw::PrunesOtherClusters, DeliveryRows::All(_)) => {
                self.retire_where(|cluster, inventory| {
                    cluster != self.cluster && *inventory == delivery.inventory
                })
                .await;
            }
            (Flaw::RewritesEverything, DeliveryRows::All(_)) => {
                self.sink.retire(&delivery.inventory).await?;
            }
            (Flaw::DeletesAfterUpserts, DeliveryRows::Changes(delta)) => {
                let mut first = delivery.clone();
                first.rows = DeliveryRows::Changes(Arc::new(upserts(delta)));
                self.sink.deliver(&first).await?;
                let mut deletes = Delta::new();
                for row in delta.deletes() {
                    deletes.record(Some(row.clone()), None);
                }
                let mut second = delivery.clone();
                second.rows = DeliveryRows::Changes(Arc::new(deletes));
                return self.sink.deliver(&second).await;
            }
            (Flaw::RefusesRepeatedChanges, DeliveryRows::Changes(delta)) => {
                let held = self.server.rows(&self.cluster, &delivery.inventory);
                if delta.deletes().any(|gone| !held.contains(gone)) {
                    return Err(SinkError::terminal("a row to delete is not there"));
                }
            }
            (Flaw::NeverNoticesLoss, DeliveryRows::Changes(delta)) => {
                let held: Snapshot = self
                    .server
                    .rows(&self.cluster, &delivery.inventory)
                    .into_iter()
                    .collect();
                let mut all = delivery.clone();
                all.rows = DeliveryRows::All(held.apply(delta));
                return self.sink.deliver(&all).await;
            }
            (Flaw::JamsWhenCancelled, _) => {
                if self.jammed.swap(true, Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let result = self.sink.deliver(delivery).await;
                self.jammed.store(false, Ordering::SeqCst);
                return result;
            }
            (Flaw::WritesLate, _) => {
                let (sink, delivery) = (self.sink.clone(), delivery.clone());
                let rows = match &delivery.rows {
                    DeliveryRows::All(rows) => rows.len(),
                    DeliveryRows::Changes(delta) => delta.len(),
                };
                let background = tokio::spawn(async move {
                    // The larger, the later: a small delivery overtakes a large one.
                    tokio::time::sleep(Duration::from_micros(100 * rows as u64)).await;
                    sink.deliver(&delivery).await
                });
                return background.await.expect("a delivery does not panic");
            }
            _ => {}
        }
        self.sink.deliver(&self.tampered(delivery)).await
    }

    fn misreported<T: Default>(&self, result: Result<T, SinkError>) -> Result<T, SinkError> {
        match (self.flaw, result) {
            (Flaw::SwallowsFailures, Err(_)) => Ok(T::default()),
            (Flaw::RetryRejectedLogins, Err(SinkError::Terminal(text))) => {
                Err(SinkError::Transient(text))
            }
            (Flaw::GivesUpWhenServerIsGone, Err(SinkError::Transient(text))) => {
                Err(SinkError::Terminal(text))
            }
            (Flaw::TellsThePassword, Err(error)) => Err(error.at(PASSWORD)),
            (_, result) => result,
        }
    }
}

fn upserts(delta: &Delta) -> Delta {
    let mut upserts = Delta::new();
    for row in delta.upserts() {
        upserts.record(None, Some(row.clone()));
    }
    upserts
}

impl fmt::Debug for Flawed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {:?}", self.sink, self.flaw)
    }
}

#[async_trait]
impl Sink for Flawed {
    fn demand(&self) -> Demand {
        self.sink.demand()
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        let result = self.deliver_wrongly(delivery).await;
        self.misreported(result)
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        match self.flaw {
            Flaw::RetiresNothing => return self.sink.probe().await.map(|_| Receipt::default()),
            Flaw::RetiresEverybody => {
                self.retire_where(|cluster, other| cluster == self.cluster && other != inventory)
                    .await;
            }
            _ => {}
        }
        let result = self.sink.retire(inventory).await;
        self.misreported(result)
    }

    async fn probe(&self) -> Result<String, SinkError> {
        if self.flaw == Flaw::ProbesByWriting {
            self.server.lose();
        }
        let result = self.sink.probe().await;
        self.misreported(result)
    }
}
