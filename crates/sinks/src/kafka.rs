//! Kafka: rows as records whose newest per key is the inventory.
//!
//! ```text
//! all rows ─ Comparison <── read_back ── topic
//!                └─ difference ─ entries ─ producer ─ topic
//! changes ────────────────────── entries ─ producer ─ topic
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | `settings` | what the sink and its Secret say |
//! | `wire`, `requests`, `records`, `compression` | the protocol: numbers, requests, record batches |
//! | `code`, `fault` | what can go wrong, and its class |
//! | `sasl`, `connection`, `client` | logging in, one connection, the brokers of a cluster |
//! | `partitioner` | which partition a key belongs to |
//! | `producer`, `lane`, `doubts`, `entries` | publishing in order, without repeats and without late guests |
//! | `probe` | a look that changes nothing |
//! | `read_back` | what the topic holds, read once for all who wait |
//!
//! # Why no client library
//!
//! Nine kinds of requests are needed, each in one version without tagged fields; what a library adds
//! gets in the way. `rskafka` 0.6 (last release March 2025) creates topics without settings, so none
//! could be compacted; it cannot ask for the largest message; it asks for all topics of a cluster when
//! it connects; it tries refused passwords again until a deadline, and its errors no longer tell which
//! they were; every partition has a connection of its own; a batch without records, which compaction
//! and transactions leave behind, gives no next offset, so reading back would stand still; what
//! compressed records unpack to has no limit; and it sends no sequence numbers. `krafka` 0.28 has
//! sequence numbers, but was nine months old when this was written. Clients that open their own
//! sockets need a proxy on loopback to be guarded; this needs none.

mod backend;
mod client;
mod code;
mod compression;
mod connection;
mod doubts;
mod entries;
mod fault;
mod lane;
mod partitioner;
mod probe;
mod producer;
mod read_back;
mod records;
mod requests;
mod sasl;
mod settings;
mod wire;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::{
    InventoryId,
    sink::{common::ProvisioningMode, event::EventMode},
};
use kollect_inventory::{Delta, Snapshot};
use tokio::time::timeout;

pub(crate) use self::backend::KafkaBackend;
use self::{
    client::{Client, Limits},
    code::Meaning,
    entries::{delete, document, entry, receipt, sizes, upsert},
    fault::Fault,
    producer::{Producer, Publication},
    read_back::{Reader, Reading, UNREADABLE},
    settings::Settings,
};
use crate::{
    dial::Dialer,
    error::SinkError,
    events::{
        Changes, Comparison, Item, Oversize, Source,
        snapshots::{self, FirstAttempts},
    },
    sink::{Delivery, DeliveryRows, Demand, ReadBack, Receipt, Sink},
};

/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(20);

/// The settings of a topic that a sink creates: the newest record of a key stays.
const COMPACTED: &[(&str, &str)] = &[("cleanup.policy", "compact")];

fn demand(mode: EventMode) -> Demand {
    match mode {
        EventMode::Changes => Demand::Stream,
        EventMode::Snapshots => Demand::Documents,
    }
}

/// A topic that inventories are published to.
pub struct KafkaSink {
    client: Arc<Client>,
    dialer: Dialer,
    producer: Producer,
    reader: Arc<Reader>,
    limits: tokio::sync::Mutex<Option<Limits>>,
    /// Inventories whose rows the topic holds, as far as this process knows, and which topic of that
    /// name it is.
    in_step: Mutex<HashMap<InventoryId, u64>>,
    oversize: Oversize,
    attempts: FirstAttempts,
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("topic", &self.client.topic())
            .finish_non_exhaustive()
    }
}

impl KafkaSink {
    fn new(settings: Settings, dialer: Dialer) -> Self {
        Self {
            client: Arc::new(Client::new(settings, dialer.clone())),
            dialer,
            producer: Producer::default(),
            reader: Arc::default(),
            limits: tokio::sync::Mutex::default(),
            in_step: Mutex::default(),
            oversize: Oversize::default(),
            attempts: FirstAttempts::default(),
        }
    }

    fn settings(&self) -> &Settings {
        &self.client.settings
    }

    fn in_step(&self) -> MutexGuard<'_, HashMap<InventoryId, u64>> {
        self.in_step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn explain(&self, stage: &str, fault: Fault) -> SinkError {
        fault.explain(stage, self.client.topic())
    }

    /// Makes sure that the topic is there, and finds out what it takes.
    async fn ready(&self, fresh: bool) -> Result<Limits, SinkError> {
        // One at a time: deliveries of many inventories begin together, and one creates the topic.
        let mut limits = self.limits.lock().await;
        let found = if fresh {
            self.client.look().await
        } else {
            self.client.map().await
        };
        match found {
            Ok(_) => {}
            Err(Fault::Refused(code))
                if code.meaning() == Meaning::NoTopic
                    && self.settings().provisioning == ProvisioningMode::Ensure =>
            {
                *limits = None;
                let configs = match self.settings().mode {
                    EventMode::Changes => COMPACTED,
                    // Parts of one inventory share a key, and all of them have to stay.
                    EventMode::Snapshots => &[],
                };
                let created = self.client.create(configs).await;
                created.map_err(|fault| self.explain("kafka create topic", fault))?;
                self.producer.begin().await;
            }
            Err(fault) => {
                *limits = None;
                return Err(self.explain("kafka metadata", fault));
            }
        }
        if let Some(limits) = &*limits {
            return Ok(limits.clone());
        }
        let found = self.client.limits().await;
        let found = found.map_err(|fault| self.explain("kafka describe topic", fault))?;
        Ok(limits.insert(found).clone())
    }

    async fn publication<'p>(
        &'p self,
        source: &'p Source,
        limits: &Limits,
        incarnation: u64,
    ) -> Result<Publication<'p>, SinkError> {
        let map = self.client.map().await;
        let map = map.map_err(|fault| self.explain("kafka metadata", fault))?;
        Ok(Publication::new(
            &self.client,
            &self.producer,
            source.prefix(),
            limits.message,
            map.partitions(),
            incarnation,
        ))
    }

    /// Makes the topic hold all rows and, of this inventory, nothing else.
    async fn everything(
        &self,
        delivery: &Delivery,
        rows: &Snapshot,
    ) -> Result<(Receipt, u64), SinkError> {
        let source = self.source(&delivery.inventory);
        let limits = self.ready(true).await?;
        let incarnation = self.producer.incarnation();
        let mut comparison = Comparison::new(rows, |row| source.key(&Item::of(row)));
        let reading = self
            .reader
            .read(&self.client, source.prefix(), |key, held| {
                comparison.saw(key, held);
            })
            .await?;
        let mut publication = self.publication(&source, &limits, incarnation).await?;
        let read_back = match reading {
            Reading::Done => {
                // What was sent and never acknowledged may still arrive; what is sent now comes last.
                for key in self.producer.doubts.of(source.prefix()) {
                    comparison.saw(&key, Some(UNREADABLE));
                }
                let difference = comparison.finish();
                for row in difference.upserts {
                    publication.push(upsert(&source, row, delivery.at)).await?;
                }
                for key in &difference.gone {
                    let item = source.item_of_key(key);
                    let item = item.filter(|item| !item.is_held(rows.held()));
                    if let Some(item) = item {
                        publication
                            .push(delete(&source, &item, delivery.at))
                            .await?;
                    }
                }
                publication.flush().await?;
                ReadBack::Compared
            }
            Reading::Refused(why) => {
                drop(comparison);
                self.replay(&mut publication, &source, delivery.at, rows)
                    .await?;
                ReadBack::Replayed(why)
            }
        };
        let tally = publication.tally;
        let sizes = sizes(&source, &tally, &[]);
        let limit = limits.message as u64;
        let skipped = self.oversize.all(&delivery.inventory, sizes, limit);
        let receipt = Receipt {
            read_back: Some(read_back),
            note: self.note(&limits),
            ..receipt(&tally, skipped)
        };
        Ok((receipt, incarnation))
    }

    /// Publishes all rows, and then says that these were all.
    async fn replay(
        &self,
        publication: &mut Publication<'_>,
        source: &Source,
        at: Timestamp,
        rows: &Snapshot,
    ) -> Result<(), SinkError> {
        for row in rows.rows() {
            publication.push(upsert(source, row, at)).await?;
        }
        // Nothing may follow from rows that were not repeated while some are not known.
        if rows.held().is_empty() {
            publication.flush().await?;
            let synced = source.synced(rows.len() as u64, at, at);
            publication.push(entry(synced)).await?;
        }
        publication.flush().await?;
        if rows.held().is_empty() {
            publication.tally.written -= 1;
        }
        Ok(())
    }

    async fn changes(
        &self,
        delivery: &Delivery,
        delta: &Delta,
        incarnation: u64,
    ) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let source = self.source(inventory);
        let changes = Changes::of(&source, delta);
        if changes.upserts.is_empty() && changes.deletes.is_empty() {
            return Ok(Receipt::default());
        }
        let limits = self.ready(false).await?;
        if incarnation != self.producer.incarnation() {
            return Err(SinkError::OutOfStep(format!(
                "kafka topic {:?} was deleted or replaced since the last delivery",
                self.client.topic()
            )));
        }
        let mut publication = self.publication(&source, &limits, incarnation).await?;
        let mut keys = Vec::new();
        let watched = !self.oversize.is_empty(inventory);
        for row in changes.upserts {
            let entry = upsert(&source, row, delivery.at);
            keys.extend(watched.then(|| entry.key.clone()));
            publication.push(entry).await?;
        }
        for item in &changes.deletes {
            let entry = delete(&source, item, delivery.at);
            keys.extend(watched.then(|| entry.key.clone()));
            publication.push(entry).await?;
        }
        publication.flush().await?;
        let tally = publication.tally;
        let sizes = sizes(&source, &tally, &keys);
        let limit = limits.message as u64;
        let skipped = self.oversize.changes(inventory, sizes, limit);
        Ok(receipt(&tally, skipped))
    }

    /// Deletes what the topic holds of an inventory.
    async fn remove(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        let source = self.source(inventory);
        self.oversize.forget(inventory);
        let at = Timestamp::now();
        let map = match self.client.look().await {
            // Nothing to remove, and no reason to create one.
            Err(Fault::Refused(code)) if code.meaning() == Meaning::NoTopic => {
                return Ok(Receipt::default());
            }
            found => found.map_err(|fault| self.explain("kafka metadata", fault))?,
        };
        drop(map);
        let limits = self.ready(false).await?;
        let incarnation = self.producer.incarnation();
        let mut publication = self.publication(&source, &limits, incarnation).await?;
        if self.settings().mode == EventMode::Snapshots {
            let generation = self.attempts.generation(inventory);
            let deleted = source.deleted(generation, at);
            publication.push(document(deleted)).await?;
            publication.flush().await?;
            self.attempts.forget(inventory);
            return Ok(Receipt {
                written: 0,
                ..receipt(&publication.tally, None)
            });
        }
        let none = Snapshot::default();
        let mut comparison = Comparison::new(&none, |row| source.key(&Item::of(row)));
        let reading = self
            .reader
            .read(&self.client, source.prefix(), |key, held| {
                comparison.saw(key, held);
            })
            .await?;
        match reading {
            Reading::Done => {
                for key in self.producer.doubts.of(source.prefix()) {
                    comparison.saw(&key, Some(UNREADABLE));
                }
                for key in &comparison.finish().gone {
                    if let Some(item) = source.item_of_key(key) {
                        publication.push(delete(&source, &item, at)).await?;
                    }
                }
                publication.flush().await?;
            }
            Reading::Refused(_) => self.replay(&mut publication, &source, at, &none).await?,
        }
        Ok(receipt(&publication.tally, None))
    }

    /// Publishes the whole inventory, in as many messages as the broker's limit asks for.
    async fn snapshot(&self, delivery: &Delivery, rows: &Snapshot) -> Result<Receipt, SinkError> {
        let Delivery {
            inventory,
            generation,
            ..
        } = delivery;
        let source = self.source(inventory);
        let limits = self.ready(true).await?;
        let incarnation = self.producer.incarnation();
        let at = self
            .attempts
            .begin(inventory, *generation, rows.fingerprint(), delivery.at);
        let limit = limits.message as u64;
        let ceiling = delivery.documents.max_bytes;
        let documents = snapshots::documents(rows, *generation, at, ceiling, Some(limit));
        let documents =
            documents.map_err(|error| SinkError::terminal(error.to_string()).at("kafka export"))?;
        let mut publication = self.publication(&source, &limits, incarnation).await?;
        for part in &documents {
            publication
                .push(document(source.snapshot(part, delivery.at)))
                .await?;
        }
        publication.flush().await?;
        if let Some(key) = publication.tally.too_large.first() {
            return Err(SinkError::terminal(format!(
                "kafka publish: a message of {key:?} is larger than the {limit} bytes that topic {:?} \
                 takes; raise max.message.bytes of the topic, or lower spec.maxExportBytes of the \
                 inventory",
                self.client.topic()
            )));
        }
        self.attempts.succeeded(inventory);
        Ok(receipt(&publication.tally, None))
    }

    fn source(&self, inventory: &InventoryId) -> Source {
        Source::new(&self.settings().cluster, inventory)
    }

    /// What a person may want to know about the topic.
    fn note(&self, limits: &Limits) -> Option<String> {
        (limits.compacted == Some(false)).then(|| {
            format!(
                "topic {:?} is not compacted: rows that do not change vanish from it after its \
                 retention; set cleanup.policy=compact, or an exportMinInterval that is shorter",
                self.client.topic()
            )
        })
    }
}

#[async_trait]
impl Sink for KafkaSink {
    fn demand(&self) -> Demand {
        demand(self.settings().mode)
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let known = self.in_step().remove(inventory);
        let (receipt, incarnation) = match (&delivery.rows, self.settings().mode, known) {
            (DeliveryRows::All(rows), EventMode::Snapshots, _) => {
                return self.snapshot(delivery, rows).await;
            }
            (DeliveryRows::All(rows), EventMode::Changes, _) => {
                self.everything(delivery, rows).await?
            }
            (DeliveryRows::Changes(delta), EventMode::Changes, Some(incarnation)) => {
                let receipt = self.changes(delivery, delta, incarnation).await?;
                (receipt, incarnation)
            }
            (DeliveryRows::Changes(_), ..) => {
                return Err(SinkError::OutOfStep(format!(
                    "kafka: nothing is known of what the topic holds of inventory {inventory}"
                )));
            }
        };
        self.in_step().insert(inventory.clone(), incarnation);
        Ok(receipt)
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.in_step().remove(inventory);
        self.remove(inventory).await
    }

    async fn probe(&self) -> Result<String, SinkError> {
        match timeout(PROBE, self.ping()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(SinkError::transient(format!(
                "kafka metadata: no answer within {} s",
                PROBE.as_secs()
            ))),
        }
    }
}
