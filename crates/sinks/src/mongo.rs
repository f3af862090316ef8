//! MongoDB: one collection that holds the current rows of any number of inventories and clusters,
//! a document each.
//!
//! ```text
//! Secret, spec.tls ─> uri ─> connection (door, driver)
//! spec.mongodb ─────> names ─> provision ──────────────┐
//! Snapshot ─> compare ─> what differs ─┐               │
//! Delta ────> keys ────────────────────┴> encode, write ┴> receipt
//! ```
//!
//! What holds, whatever happens:
//! - A delivery touches only documents of its partition (inventory and cluster), and of those only
//!   the ones that differ. A full delivery reads keys and hashes first.
//! - What was acknowledged survives the primary: a majority has it in its journal.
//! - Changes are applied only to the collection that the last full delivery left, on the server
//!   that it talked to. Another collection, another primary or a restart leads to a full delivery.
//! - Nothing of a delivery that was given up arrives after the next one (`write`); on a server that
//!   is alone, a full delivery after such a one looks twice.
//! - Documents are written one by one: a reader may see some rows of a delivery before others. Deletes
//!   come last, and not at all if a row was refused.
//! - No message contains anything of the connection string, or of what a server says in words.
//! - Whatever the server sends has a limit (`dial/mongo`, `compare`).

mod backend;
mod compare;
mod connection;
mod encode;
mod fault;
mod names;
mod provision;
mod reply;
mod uri;
mod write;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::{
    InventoryId, effective,
    sink::{SinkSpec, common::ProvisioningMode},
};
use kollect_inventory::{Delta, Snapshot};
use mongodb::bson::{Bson, oid::ObjectId};
use tokio::time::timeout;

pub(crate) use self::backend::MongoBackend;
use self::{
    compare::compare,
    connection::Connection,
    encode::content_hash,
    fault::Fault,
    names::{Names, Partition},
    provision::{Place, Plan},
    uri::{Sources, Uri},
    write::{Before, Order, Tally, Writer},
};
use crate::{
    backend::Environment,
    credentials::Materials,
    database::{
        idle_settings,
        keys::{Key, SharedKeys, Survey},
        wanted::Wanted,
    },
    dial::Dialer,
    error::SinkError,
    redact::Redaction,
    sink::{Delivery, DeliveryRows, Demand, Receipt, Sink, Skipped, Why},
    tls::Trust,
};

/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(15);
/// After this many deliveries in a row without a server, its hosts are looked up again.
const LOST: u32 = 3;
/// How often a full delivery reads what there is, at most.
const ROUNDS: u32 = 1_000;

/// Rows in a collection of a MongoDB database.
pub struct MongoSink {
    plan: Plan,
    uri: Uri,
    dialer: Dialer,
    redaction: Redaction,
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    /// Deliveries in a row that found no server.
    lost: AtomicU32,
    /// The collection, once it was found or made.
    place: tokio::sync::Mutex<Option<Place>>,
    /// What each inventory was told, in which order.
    orders: Mutex<HashMap<InventoryId, Arc<tokio::sync::Mutex<Option<Ordered>>>>>,
    /// What was left in the collection, per inventory. Absent while a delivery is under way and after
    /// one that failed, so that the next one has to be a full one.
    left: Mutex<HashMap<InventoryId, Left>>,
}

/// An order, with the client it belongs to.
struct Ordered {
    connection: Arc<Connection>,
    order: Order,
}

/// What a full delivery left, and what changes rely on.
struct Left {
    /// Of collection and server.
    incarnation: String,
    shared: SharedKeys,
    /// Rows that are not there because no server stores them.
    unstorable: BTreeMap<Key, String>,
}

impl fmt::Debug for MongoSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoSink")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl MongoSink {
    /// A sink as its spec and Secrets describe it. Opens no connection.
    pub fn new(
        spec: &SinkSpec,
        materials: Materials,
        environment: &Environment,
    ) -> Result<Self, SinkError> {
        let names = Names::of(names::block(spec)?)?;
        let common = spec.common();
        if let Some(option) = common.options.keys().next() {
            return Err(SinkError::terminal(format!(
                "spec.options[{option}] is not known to mongodb sinks; remove it (settings of the \
                 connection belong into the connection string)"
            )));
        }
        let trust = Trust::of(spec, &materials);
        let Materials {
            credentials,
            redaction,
            ..
        } = materials;
        if credentials.is_empty() {
            return Err(SinkError::terminal("mongodb databaseRef secret is empty"));
        }
        let text = credentials.first_text(&uri::KEYS).ok_or_else(|| {
            SinkError::terminal("mongodb secret must contain uri or connectionString key")
        })?;
        let sources = Sources {
            secret: &credentials,
            local_files: environment.local_files,
        };
        let uri = Uri::parse(text.expose(), &trust, sources)?;
        Ok(Self {
            plan: Plan {
                names,
                mode: effective::provisioning_mode(common),
                cluster: spec.cluster().to_owned(),
                idle_settings: idle_settings(common, "mongodb"),
            },
            redaction: uri.hidden_by(redaction),
            uri,
            dialer: environment.dialer.clone(),
            connection: tokio::sync::Mutex::default(),
            lost: AtomicU32::new(0),
            place: tokio::sync::Mutex::default(),
            orders: Mutex::default(),
            left: Mutex::default(),
        })
    }

    fn left(&self) -> std::sync::MutexGuard<'_, HashMap<InventoryId, Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one client of the sink, which keeps its connections by itself.
    async fn connection(&self) -> Result<Arc<Connection>, SinkError> {
        let mut slot = self.connection.lock().await;
        if self.lost.load(Ordering::Relaxed) >= LOST {
            self.lost.store(0, Ordering::Relaxed);
            *slot = None;
        }
        if let Some(connection) = &*slot {
            return Ok(Arc::clone(connection));
        }
        let opened = Connection::open(&self.uri, self.dialer.clone(), "mongodb connect").await?;
        Ok(Arc::clone(slot.insert(Arc::new(opened))))
    }

    /// The collection, made ready if it is not, and what tells it from any other.
    async fn place(&self, connection: &Connection) -> Result<(Place, String), Fault> {
        let place = {
            let mut known = self.place.lock().await;
            let place = self.plan.ready(connection, known.as_ref()).await?;
            *known = Some(place.clone());
            place
        };
        let incarnation = incarnation(connection, &place.id).await?;
        Ok((place, incarnation))
    }

    fn partition<'p>(&'p self, inventory: &'p InventoryId) -> Partition<'p> {
        Partition {
            namespace: inventory.namespace(),
            name: &inventory.name,
            cluster: &self.plan.cluster,
        }
    }

    fn order(&self, inventory: &InventoryId) -> Arc<tokio::sync::Mutex<Option<Ordered>>> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(orders.entry(inventory.clone()).or_default())
    }

    async fn everything(
        &self,
        delivery: &Delivery,
        snapshot: &Snapshot,
    ) -> Result<(Receipt, Left), Fault> {
        let connection = self.connection().await?;
        let (place, mut incarnation) = self.place(&connection).await?;
        let survey = Survey::of(snapshot.rows());
        let slot = self.order(&delivery.inventory);
        let mut slot = slot.lock().await;
        let mut writer = self
            .writer(&mut slot, &connection, &delivery.inventory, delivery.at)
            .await?;
        let suspicious = writer.order.open && !connection.numbered;
        writer.settle().await?;
        let mut tally = Tally::default();
        let rows = survey.winners(snapshot.rows());
        let wanted = Wanted::new(rows, snapshot.held(), content_hash);
        let nothing = snapshot.is_empty() && snapshot.held().is_empty();
        let mut settled = false;
        for round in 0..ROUNDS {
            if nothing {
                tally.removed += writer.clear().await?;
            } else {
                let partition = writer.partition;
                let names = &self.plan.names;
                let found = compare(&wanted, &connection, names, &partition).await?;
                let rows = found.write.iter().copied();
                writer.upsert(rows, Before::Anything, &mut tally).await?;
                tally.accepted()?;
                // What cannot be stored must not be there with what it was earlier.
                let unstorable: Vec<Key> = tally.unstorable.keys().cloned().collect();
                writer.delete_keys(unstorable.iter(), &mut tally).await?;
                let stale = found.stale.into_iter();
                writer.delete(stale, &mut tally).await?;
                if found.more || (suspicious && round == 0) {
                    continue;
                }
            }
            writer.confirm().await?;
            // What was read on one primary and was not confirmed may be gone on the next.
            let before = incarnation;
            incarnation = self::incarnation(&connection, &place.id).await?;
            settled = incarnation == before;
            if settled {
                break;
            }
        }
        if !settled {
            return Err(SinkError::transient(
                "mongodb upsert: the collection does not come to rest",
            )
            .into());
        }
        writer.order.open = false;
        let note = (!place.warnings.is_empty()).then(|| place.warnings.join("; "));
        let receipt = Receipt {
            note,
            ..receipt(&tally, &tally.unstorable)
        };
        let left = Left {
            incarnation,
            shared: survey.shared,
            unstorable: tally.unstorable,
        };
        Ok((receipt, left))
    }

    async fn changes(
        &self,
        delivery: &Delivery,
        delta: &Delta,
        left: &mut Left,
    ) -> Result<Receipt, Fault> {
        let work = left.shared.apply(delta);
        if work.writes.is_empty() && work.deletes.is_empty() {
            return Ok(receipt(&Tally::default(), &left.unstorable));
        }
        let connection = self.connection().await?;
        let full = self.plan.names.full();
        let there = self.plan.look(&connection).await?;
        let same = match there {
            Some(id) => incarnation(&connection, &id).await? == left.incarnation,
            None => false,
        };
        if !same {
            return Err(SinkError::OutOfStep(format!(
                "mongodb collection {full} was replaced or restored, or its server is another one or \
                 restarted, since the last delivery"
            ))
            .into());
        }
        let slot = self.order(&delivery.inventory);
        let mut slot = slot.lock().await;
        let mut writer = self
            .writer(&mut slot, &connection, &delivery.inventory, delivery.at)
            .await?;
        let mut tally = Tally::default();
        for (fresh, before) in [(true, Before::Nothing), (false, Before::Something)] {
            let rows = work.writes.iter().filter(|write| {
                let absent = left.unstorable.contains_key(&Key::of(&write.row));
                (write.fresh || absent) == fresh
            });
            let rows = rows.map(|write| &write.row);
            writer.upsert(rows, before, &mut tally).await?;
        }
        tally.accepted()?;
        let (gone, absent): (Vec<&Key>, Vec<&Key>) = work
            .deletes
            .iter()
            .partition(|key| !left.unstorable.contains_key(key));
        for write in &work.writes {
            left.unstorable.remove(&Key::of(&write.row));
        }
        for key in absent {
            left.unstorable.remove(key);
        }
        writer.delete_keys(gone.into_iter(), &mut tally).await?;
        let unstorable: Vec<Key> = tally.unstorable.keys().cloned().collect();
        writer.delete_keys(unstorable.iter(), &mut tally).await?;
        left.unstorable.append(&mut tally.unstorable);
        writer.order.open = false;
        if tally.surprised {
            return Err(SinkError::OutOfStep(format!(
                "mongodb collection {full} did not hold what the last delivery left there"
            ))
            .into());
        }
        Ok(receipt(&tally, &left.unstorable))
    }

    async fn remove(&self, inventory: &InventoryId) -> Result<Receipt, Fault> {
        let connection = self.connection().await?;
        if self.plan.look(&connection).await?.is_none() {
            return Ok(Receipt::default());
        }
        let slot = self.order(inventory);
        let mut slot = slot.lock().await;
        let at = Timestamp::UNIX_EPOCH;
        let mut writer = self.writer(&mut slot, &connection, inventory, at).await?;
        writer.settle().await?;
        let removed = writer.clear().await?;
        writer.order.open = false;
        Ok(Receipt {
            removed,
            ..Receipt::default()
        })
    }

    async fn writer<'w>(
        &'w self,
        slot: &'w mut Option<Ordered>,
        connection: &'w Arc<Connection>,
        inventory: &'w InventoryId,
        at: Timestamp,
    ) -> Result<Writer<'w>, Fault> {
        let ordered = match slot.take() {
            Some(known) if Arc::ptr_eq(&known.connection, connection) => known,
            other => Ordered {
                order: Order::new(connection, other.map(|other| other.order)).await?,
                connection: Arc::clone(connection),
            },
        };
        Ok(Writer {
            connection,
            names: &self.plan.names,
            partition: self.partition(inventory),
            at,
            order: &mut slot.insert(ordered).order,
        })
    }

    async fn ping(&self) -> Result<(), SinkError> {
        let stage = "mongodb ping";
        let connection = Connection::open(&self.uri, self.dialer.clone(), stage).await?;
        let answer = self.ping_with(&connection, stage).await;
        connection.close().await;
        answer.map_err(|fault| fault.error)
    }

    async fn ping_with(&self, connection: &Connection, stage: &str) -> Result<(), Fault> {
        connection.ping(stage).await?;
        if self.plan.mode == ProvisioningMode::Existing {
            let found = self.plan.look(connection).await?;
            found.ok_or_else(|| self.plan.missing())?;
        }
        Ok(())
    }

    /// What is said of a failure, and what follows from it.
    fn failed(&self, fault: Fault) -> SinkError {
        if fault.code.is_none() && matches!(fault.error, SinkError::Transient(_)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        self.redaction.clean_error(fault.error)
    }
}

/// What tells a collection on a server from the same one on another, or after a restart.
async fn incarnation(connection: &Connection, collection: &str) -> Result<String, Fault> {
    let hello = connection.hello("mongodb connect").await?;
    // Routers take turns, and say nothing of the servers behind them.
    let process = Some(&hello)
        .filter(|hello| !hello.contains_key("msg"))
        .and_then(|hello| hello.get_document("topologyVersion").ok())
        .and_then(|version| version.get("processId"))
        .and_then(Bson::as_object_id);
    let process = process.map(ObjectId::to_hex).unwrap_or_default();
    Ok(format!("{collection} {process}"))
}

fn receipt(tally: &Tally, unstorable: &BTreeMap<Key, String>) -> Receipt {
    Receipt {
        written: tally.written,
        removed: tally.removed,
        bytes: tally.bytes,
        skipped: write::left_out(unstorable).map(|(rows, first)| Skipped {
            rows,
            first: first.to_owned(),
            why: Why::TooLarge {
                limit: encode::LARGEST as u64,
            },
        }),
        ..Receipt::default()
    }
}

#[async_trait]
impl Sink for MongoSink {
    fn demand(&self) -> Demand {
        Demand::Changes
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let left = self.left().remove(inventory);
        let delivered = match &delivery.rows {
            DeliveryRows::All(snapshot) => self.everything(delivery, snapshot).await,
            DeliveryRows::Changes(delta) => {
                let mut left = left.ok_or_else(|| {
                    SinkError::OutOfStep(format!(
                        "mongodb: nothing is known of what the collection holds of inventory {inventory}"
                    ))
                })?;
                let receipt = self.changes(delivery, delta, &mut left).await;
                receipt.map(|receipt| (receipt, left))
            }
        };
        let (receipt, left) = delivered.map_err(|fault| self.failed(fault))?;
        self.lost.store(0, Ordering::Relaxed);
        self.left().insert(inventory.clone(), left);
        Ok(receipt)
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.left().remove(inventory);
        let removed = self.remove(inventory).await;
        let receipt = removed.map_err(|fault| self.failed(fault))?;
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.remove(inventory);
        Ok(receipt)
    }

    async fn probe(&self) -> Result<String, SinkError> {
        match timeout(PROBE, self.ping()).await {
            Ok(outcome) => outcome
                .map(|()| "MongoDB ping succeeded".to_owned())
                .map_err(|error| self.redaction.clean_error(error)),
            Err(_) => Err(SinkError::transient(format!(
                "mongodb ping: no answer within {} s",
                PROBE.as_secs()
            ))),
        }
    }
}
