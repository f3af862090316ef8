//! NATS JetStream: a stream whose newest message per subject is the inventory.
//!
//! ```text
//! spec.nats, Secret ─> settings ─> connection ── doors (dial/nats.rs) ─> server
//! Snapshot ─> read_back, events::Comparison ─┐
//! Delta ────> events::Changes ───────────────┴─> events::Message ─> publish ─> stream
//! ```
//!
//! What holds, whatever happens:
//! - Every row has a subject of its own, and its newest message says what the row is, or that it is
//!   gone. A restart publishes nothing that the stream holds already.
//! - Every message is acknowledged before a delivery is over; at most a thousand of one delivery are
//!   on the way.
//! - All rows are compared only after everything that was published before on the same connection,
//!   also by deliveries that were given up (`connection::Connection::barrier`).
//! - Changes follow only what this process has compared: a stream that was replaced, or that counts
//!   backwards, is noticed, and all rows are asked for.
//! - A stream is created if it is missing and the sink may; one that is there is never changed.
//! - Nothing is dialled but through guarded doors, and nothing that a server lists is dialled at all.

mod connection;
mod documents;
mod fault;
mod place;
mod publish;
mod read_back;
mod rows;
mod settings;
mod stream;
mod subject;

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::{
    InventoryId,
    sink::{
        SinkSpec, SinkType,
        common::ProvisioningMode,
        event::EventMode,
        status::{NatsPreview, Preview},
    },
};
use tokio::time::timeout;

use self::{
    connection::{Connection, Way},
    fault::Fault,
    place::Place,
    publish::Pipeline,
    settings::{Login, Settings},
    stream::{Missing, Stream},
    subject::Subjects,
};
use crate::{
    backend::{Backend, Environment, SinkSeed},
    error::SinkError,
    events::{Item, Oversize, Source, snapshots::FirstAttempts},
    sink::{Delivery, DeliveryRows, Demand, Receipt, Sink},
};

/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(15);

/// NATS with JetStream.
pub(crate) struct NatsBackend;

#[async_trait]
impl Backend for NatsBackend {
    fn types(&self) -> &'static [SinkType] {
        &[SinkType::Nats]
    }

    fn demand(&self, spec: &SinkSpec) -> Demand {
        demand(mode(spec))
    }

    fn check(&self, spec: &SinkSpec) -> Result<(), SinkError> {
        Settings::of(spec).map(drop)
    }

    fn keeps_held(&self, spec: &SinkSpec) -> bool {
        mode(spec) == EventMode::Changes
    }

    async fn open(
        &self,
        seed: SinkSeed,
        environment: &Environment,
    ) -> Result<Arc<dyn Sink>, SinkError> {
        let settings = Settings::of(&seed.spec)?;
        let local = environment.local_repositories;
        environment
            .dialer
            .check_endpoint(SinkType::Nats, &settings.url, local)
            .map_err(|error| error.at("spec.nats.url"))?;
        let (tls, wants_tls) = settings::tls(&seed.spec, &seed.materials)?;
        let way = Way {
            dialer: environment.dialer.clone(),
            tls,
            wants_tls,
            login: Login::of(&seed.materials.credentials),
        };
        Ok(Arc::new(NatsSink {
            settings,
            way,
            connection: tokio::sync::Mutex::default(),
            left: Mutex::default(),
            oversize: Oversize::default(),
            attempts: FirstAttempts::default(),
        }))
    }

    fn preview(&self, spec: &SinkSpec, _: &str, _: Timestamp, preview: &mut Preview) {
        let Ok(settings) = Settings::of(spec) else {
            return;
        };
        preview.nats = Some(NatsPreview {
            stream: Some(
                settings
                    .stream
                    .clone()
                    .unwrap_or_else(|| settings::DEFAULT_STREAM.to_owned()),
            ),
            subject: Some(match settings.mode {
                EventMode::Changes => {
                    let inventory = InventoryId::namespaced("team-a", "inventory");
                    let source = Source::new(&settings.cluster, &inventory);
                    let item = Item {
                        target_namespace: "team-a".into(),
                        target_name: "deployments".into(),
                        namespace: "team-a".into(),
                        name: "api".into(),
                        group: "apps".into(),
                        version: "v1".into(),
                        kind: "Deployment".into(),
                        uid: None,
                    };
                    Subjects::of(&settings.subject, &source).row(&source, &item)
                }
                EventMode::Snapshots => settings.subject,
            }),
        });
    }
}

fn mode(spec: &SinkSpec) -> EventMode {
    match spec {
        SinkSpec::Event(event) => event.mode(),
        _ => EventMode::default(),
    }
}

fn demand(mode: EventMode) -> Demand {
    match mode {
        EventMode::Changes => Demand::Stream,
        EventMode::Snapshots => Demand::Documents,
    }
}

/// A stream as this process left it.
#[derive(Debug, Default)]
struct Left {
    /// Name and time of creation of the stream.
    stream: (String, String),
    /// The highest number that it is known to have given away.
    last_sequence: u64,
    /// The inventories that it holds the rows of.
    in_step: HashSet<InventoryId>,
}

/// A sink of messages.
pub struct NatsSink {
    settings: Settings,
    way: Way,
    /// Whoever finds none connects, one at a time.
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    left: Mutex<Left>,
    oversize: Oversize,
    attempts: FirstAttempts,
}

impl fmt::Debug for NatsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSink")
            .field("subject", &self.settings.subject)
            .finish_non_exhaustive()
    }
}

impl NatsSink {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(&self) -> Result<Arc<Connection>, SinkError> {
        let mut known = self.connection.lock().await;
        if let Some(connection) = known.as_ref().filter(|known| known.is_alive()) {
            return Ok(Arc::clone(connection));
        }
        *known = None;
        let connection = Arc::new(self.way.connect(&self.settings).await?);
        Ok(Arc::clone(known.insert(connection)))
    }

    fn place<'s>(
        &self,
        connection: &'s Connection,
        stream: &'s Stream,
        inventory: &InventoryId,
        at: Timestamp,
    ) -> Place<'s> {
        let source = Source::new(&self.settings.cluster, inventory);
        let own = stream.max_message.unwrap_or(u64::MAX);
        Place {
            connection,
            stream,
            subjects: Subjects::of(&self.settings.subject, &source),
            source,
            at,
            limit: connection.max_payload().min(own),
        }
    }

    /// The stream to publish to, created if it is missing and may be.
    async fn settled_stream(&self, connection: &Connection) -> Result<Stream, SinkError> {
        let found = stream::find(connection, &self.settings, Missing::Create).await?;
        let Some(stream) = found else {
            return Err(SinkError::transient(
                "nats stream: it went while it was looked for",
            ));
        };
        self.settle(&stream);
        Ok(stream)
    }

    /// Learns which stream it is. What was known of another one is worth nothing.
    fn settle(&self, stream: &Stream) {
        let mut left = self.left();
        let now = (stream.name.clone(), stream.created.clone());
        if left.stream != now || stream.last_sequence < left.last_sequence && !now.1.is_empty() {
            *left = Left {
                stream: now,
                ..Left::default()
            };
        }
        left.last_sequence = left.last_sequence.max(stream.last_sequence);
    }

    fn pipeline<'p>(&'p self, place: &'p Place<'_>) -> Pipeline<'p> {
        let before = self.left().last_sequence;
        let about = &self.settings.subject;
        Pipeline::new(place.connection, place.stream, about, before)
    }

    /// A delivery ended well.
    fn keep(&self, inventory: &InventoryId, last_sequence: u64) {
        let mut left = self.left();
        left.last_sequence = left.last_sequence.max(last_sequence);
        left.in_step.insert(inventory.clone());
    }

    async fn ping(&self) -> Result<String, SinkError> {
        let connection = self.way.connect(&self.settings).await?;
        let account = connection.ask("INFO", &serde_json::Value::Null).await;
        match account {
            Ok(_) | Err(Fault::Denied(_)) => {}
            Err(Fault::Nobody) => {
                return Err(SinkError::terminal(
                    "nats jetstream: JetStream is not enabled at the server or for this account",
                ));
            }
            Err(fault) => return Err(fault.at("nats jetstream account info")),
        }
        let found = stream::find(&connection, &self.settings, Missing::Leave).await?;
        let subject = &self.settings.subject;
        match found {
            Some(stream) => {
                let source = Source::new(&self.settings.cluster, &InventoryId::cluster("probe"));
                let subjects = Subjects::of(subject, &source);
                let subject = match self.settings.mode {
                    EventMode::Changes => subjects.own(),
                    EventMode::Snapshots => subject,
                };
                connection
                    .barrier(subject)
                    .await
                    .map_err(|fault| fault.at("nats publish"))?;
                Ok(format!(
                    "NATS JetStream answers; stream {:?} takes messages for {:?}",
                    stream.name, self.settings.subject
                ))
            }
            None if self.settings.provisioning == ProvisioningMode::Existing => {
                // Says which one is missing.
                stream::find(&connection, &self.settings, Missing::Create).await?;
                Ok("NATS JetStream answers".to_owned())
            }
            None => Ok("NATS JetStream answers; the stream will be created".to_owned()),
        }
    }
}

#[async_trait]
impl Sink for NatsSink {
    fn demand(&self) -> Demand {
        demand(self.settings.mode)
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        match (&delivery.rows, self.settings.mode) {
            (DeliveryRows::All(rows), EventMode::Changes) => self.everything(delivery, rows).await,
            (DeliveryRows::All(rows), EventMode::Snapshots) => self.snapshot(delivery, rows).await,
            (DeliveryRows::Changes(delta), _) => self.changes(delivery, delta).await,
        }
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.left().in_step.remove(inventory);
        let receipt = self.retire_rows(inventory).await?;
        self.oversize.forget(inventory);
        Ok(receipt)
    }

    async fn probe(&self) -> Result<String, SinkError> {
        match timeout(PROBE, self.ping()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(SinkError::transient(format!(
                "nats: no answer within {} s",
                PROBE.as_secs()
            ))),
        }
    }
}
