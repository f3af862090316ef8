//! A sink without a backend, the reference for all others.
//!
//! [`MemoryServer`] plays the backend: it holds rows per cluster and inventory, wants a password,
//! and can be told to be slow, to hang, to be gone or to lose what it held. [`MemorySink`] is a
//! client of it and does what every sink has to do, in the plainest way: stage the new rows, then
//! put them in place in one step. Whoever needs a sink in a test takes this one.
//!
//! Rows are keyed as in a database, by target name and uid, so a row that comes back under another
//! identity (its profile now names another version of the kind) replaces the old one.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use kollect_api::InventoryId;
use kollect_inventory::{Delta, Row, Snapshot};
use tokio::sync::watch;

use crate::{
    error::SinkError,
    sink::{Delivery, DeliveryRows, Demand, Receipt, Sink},
};

/// Rows that travel to the server in one go; between two of them a delivery can be interrupted.
const BATCH: usize = 500;

/// How the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// At once.
    Normal,
    /// After this long, for every batch of rows.
    Slow(Duration),
    /// Not at all, until the availability changes.
    Stalled,
    /// It refuses connections.
    Gone,
}

/// The backend of [`MemorySink`]s. Clones are handles to the same server.
#[derive(Clone)]
pub struct MemoryServer(Arc<Server>);

struct Server {
    password: String,
    availability: watch::Sender<Availability>,
    held: Mutex<Held>,
}

/// What the server holds.
#[derive(Default)]
struct Held {
    partitions: BTreeMap<Partition, Rows>,
    /// Another number after everything was lost, so that clients can tell.
    life: u64,
    /// How often anything changed.
    revision: u64,
}

/// Whose rows: of one cluster and one inventory.
type Partition = (String, InventoryId);

type Rows = BTreeMap<Key, Row>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    target: String,
    uid: String,
}

impl Key {
    fn of(row: &Row) -> Self {
        Key {
            target: row.origin().target_name().to_owned(),
            uid: row.uid().to_string(),
        }
    }
}

impl MemoryServer {
    /// An empty server that wants this password.
    pub fn new(password: impl Into<String>) -> Self {
        MemoryServer(Arc::new(Server {
            password: password.into(),
            availability: watch::Sender::new(Availability::Normal),
            held: Mutex::default(),
        }))
    }

    /// From now on it answers like this, also those who are waiting.
    pub fn set_availability(&self, availability: Availability) {
        self.0.availability.send_replace(availability);
    }

    /// Loses everything it held, as a recreated table or a replaced repository does.
    pub fn lose(&self) {
        let mut held = self.held();
        held.partitions.clear();
        held.life += 1;
        held.revision += 1;
    }

    /// What it holds of an inventory of a cluster, in the order of its keys.
    pub fn rows(&self, cluster: &str, inventory: &InventoryId) -> Vec<Row> {
        let partition = (cluster.to_owned(), inventory.clone());
        let held = self.held();
        let rows = held.partitions.get(&partition);
        rows.into_iter()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// The clusters and inventories it holds rows of.
    pub fn partitions(&self) -> Vec<(String, InventoryId)> {
        self.held().partitions.keys().cloned().collect()
    }

    /// A number that grows whenever what a reader sees changes.
    pub fn revision(&self) -> u64 {
        self.held().revision
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Every change is one assignment, so what a panicking holder left behind is whole.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an answer.
    async fn answer(&self) -> Result<(), SinkError> {
        let mut availability = self.0.availability.subscribe();
        loop {
            let now = *availability.borrow_and_update();
            match now {
                Availability::Normal => {
                    // No server answers before the caller waits for it; here calls are cancelled.
                    tokio::task::yield_now().await;
                    return Ok(());
                }
                Availability::Gone => {
                    return Err(SinkError::transient("the server cannot be reached"));
                }
                Availability::Slow(delay) => {
                    tokio::time::sleep(delay).await;
                    return Ok(());
                }
                Availability::Stalled => {
                    // The server owns the sender and outlives this call.
                    let _ = availability.changed().await;
                }
            }
        }
    }

    async fn log_in(&self, password: &str) -> Result<(), SinkError> {
        self.answer().await?;
        if password == self.0.password {
            Ok(())
        } else {
            Err(SinkError::terminal(
                "authentication failed: check the password in the sink's Secret",
            ))
        }
    }
}

impl fmt::Debug for MemoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryServer").finish_non_exhaustive()
    }
}

impl Held {
    /// Puts rows in place of what a partition holds and counts what that changed.
    fn replace(&mut self, partition: Partition, rows: Rows) -> Receipt {
        let empty = Rows::new();
        let before = self.partitions.get(&partition).unwrap_or(&empty);
        let mut receipt = Receipt::default();
        for (key, row) in &rows {
            if before.get(key) != Some(row) {
                receipt.count_written(row);
            }
        }
        receipt.removed = before.keys().filter(|key| !rows.contains_key(key)).count() as u64;
        if receipt.written + receipt.removed > 0 {
            self.revision += 1;
        }
        if rows.is_empty() {
            self.partitions.remove(&partition);
        } else {
            self.partitions.insert(partition, rows);
        }
        receipt
    }

    /// Applies changes to what a partition holds. Deletes go first: a row that is replaced under
    /// another identity is deleted and inserted under one key.
    fn apply(&mut self, partition: Partition, delta: &Delta) -> Receipt {
        let rows = self.partitions.entry(partition).or_default();
        let mut receipt = Receipt::default();
        for row in delta.deletes() {
            receipt.removed += u64::from(rows.remove(&Key::of(row)).is_some());
        }
        for row in delta.upserts() {
            rows.insert(Key::of(row), row.clone());
            receipt.count_written(row);
        }
        self.partitions.retain(|_, rows| !rows.is_empty());
        self.revision += u64::from(receipt.written + receipt.removed > 0);
        receipt
    }
}

impl Receipt {
    fn count_written(&mut self, row: &Row) {
        self.written += 1;
        self.bytes += row.json_len() as u64;
    }
}

/// A client of a [`MemoryServer`].
pub struct MemorySink {
    server: MemoryServer,
    cluster: String,
    password: String,
    documents: bool,
    /// In which life the server accepted all rows of an inventory.
    in_step: Mutex<BTreeMap<InventoryId, u64>>,
}

impl MemorySink {
    /// A sink for the rows of one cluster. It connects when it is used.
    pub fn new(server: MemoryServer, cluster: &str, password: &str) -> Self {
        MemorySink {
            server,
            cluster: cluster.to_owned(),
            password: password.to_owned(),
            documents: false,
            in_step: Mutex::default(),
        }
    }

    /// Behaves like a sink that writes documents: it wants all rows every time, and what it wrote
    /// stays when an inventory is retired.
    #[must_use]
    pub fn writing_documents(mut self) -> Self {
        self.documents = true;
        self
    }

    fn partition(&self, inventory: &InventoryId) -> Partition {
        (self.cluster.clone(), inventory.clone())
    }

    fn in_step(&self) -> MutexGuard<'_, BTreeMap<InventoryId, u64>> {
        self.in_step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn deliver_everything(
        &self,
        inventory: &InventoryId,
        snapshot: &Snapshot,
    ) -> Result<Receipt, SinkError> {
        let mut rows = Rows::new();
        for batch in snapshot.rows().chunks(BATCH) {
            self.server.answer().await?;
            rows.extend(batch.iter().map(|row| (Key::of(row), row.clone())));
        }
        let mut held = self.server.held();
        self.in_step().insert(inventory.clone(), held.life);
        Ok(held.replace(self.partition(inventory), rows))
    }

    async fn deliver_changes(
        &self,
        inventory: &InventoryId,
        delta: &Delta,
    ) -> Result<Receipt, SinkError> {
        for _ in 0..delta.len().div_ceil(BATCH) {
            self.server.answer().await?;
        }
        let mut held = self.server.held();
        if self.in_step().get(inventory) != Some(&held.life) {
            return Err(SinkError::OutOfStep(format!(
                "the server no longer holds the rows of inventory {inventory}"
            )));
        }
        Ok(held.apply(self.partition(inventory), delta))
    }
}

impl fmt::Debug for MemorySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySink")
            .field("cluster", &self.cluster)
            .field("documents", &self.documents)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for MemorySink {
    fn demand(&self) -> Demand {
        if self.documents {
            Demand::Documents
        } else {
            Demand::Changes
        }
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        self.server.log_in(&self.password).await?;
        match &delivery.rows {
            DeliveryRows::All(rows) => self.deliver_everything(&delivery.inventory, rows).await,
            DeliveryRows::Changes(delta) => self.deliver_changes(&delivery.inventory, delta).await,
        }
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.server.log_in(&self.password).await?;
        if self.documents {
            return Ok(Receipt::default());
        }
        let mut held = self.server.held();
        self.in_step().remove(inventory);
        Ok(held.replace(self.partition(inventory), Rows::new()))
    }

    async fn probe(&self) -> Result<String, SinkError> {
        self.server.log_in(&self.password).await?;
        Ok("the server answers and accepts the password".to_owned())
    }
}
