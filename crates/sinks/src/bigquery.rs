//! BigQuery: one table that holds the current rows of any number of inventories and clusters.
//!
//! ```text
//! Secret, spec.tls ─> service ─> api (guarded HTTP, tokens)
//! spec.bigquery ────> names ───> table ─────────────────────┐
//! Snapshot ─> compare (one query) ─> what differs ─┐        │
//! Delta ────> keys ────────────────────────────────┴> write ┴> jobs ─> receipt
//! ```
//!
//! What holds, whatever happens:
//! - A delivery touches only rows of its partition (inventory and cluster), and of those only the
//!   ones that differ. A full delivery reads keys and hashes first; what it writes and removes is
//!   one MERGE, and so are changes. Only what is too large for one request takes several.
//! - Values are parameters, never text of a statement.
//! - No statement runs twice, and none runs after a later one: `jobs`.
//! - Sinks on one table take turns, within what the table takes: `budget`.
//! - Changes are applied only to the table that the last full delivery left.
//! - No message repeats what the service says in words.
//!
//! Rows are written by statements and never streamed: rows in the streaming buffer can be neither
//! changed nor deleted for up to ninety minutes.

mod api;
mod backend;
mod budget;
mod encode;
mod fault;
mod jobs;
mod names;
mod options;
mod requests;
mod service;
mod sql;
mod table;
mod write;

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::{
    InventoryId, effective,
    sink::{SinkSpec, common::ProvisioningMode},
};
use kollect_inventory::{Delta, Snapshot};
use tokio::time::timeout;

pub(crate) use self::backend::BigqueryBackend;
pub use self::service::Service;
use self::{
    api::{Api, Call},
    budget::{Share, Turn},
    encode::content_hash,
    fault::Fault,
    jobs::{Jobs, Statement},
    names::{Names, Partition},
    options::Options,
    service::Access,
    sql::Dialect,
    table::{Place, Plan},
    write::{Tally, Writer},
};
use crate::{
    backend::Environment,
    credentials::Materials,
    database::{
        idle_settings,
        keys::{Key, SharedKeys, Survey},
        wanted::Wanted,
    },
    error::SinkError,
    pool::Lease,
    redact::Redaction,
    sink::{self, Delivery, DeliveryRows, Demand, Receipt, Sink, Skipped, Why},
    tls::Trust,
};

/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(15);
/// How often a full delivery reads what there is, at most.
const ROUNDS: u32 = 1_000;

/// Rows in a table of BigQuery.
pub struct BigquerySink {
    plan: Plan,
    access: Access,
    api: Api,
    redaction: Redaction,
    share: Share,
    /// A text that no other sink has.
    origin: String,
    /// The table, once it was found or made.
    place: tokio::sync::Mutex<Option<Place>>,
    inventories: Mutex<HashMap<InventoryId, State>>,
}

/// What is known of an inventory at the table.
#[derive(Default)]
struct State {
    /// A job whose end is not known.
    open: Option<String>,
    /// Jobs of an earlier process have ended.
    alone: bool,
    /// Absent while a delivery is under way and after one that failed, so that the next one has to
    /// be a full one.
    left: Option<Left>,
}

/// What a full delivery left, and what changes rely on.
struct Left {
    /// Of the table.
    incarnation: String,
    shared: SharedKeys,
    /// Rows that are not there because no request carries them.
    unstorable: BTreeMap<Key, String>,
}

impl fmt::Debug for BigquerySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BigquerySink")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl BigquerySink {
    /// A sink as its spec and Secrets describe it. Opens no connection.
    pub fn new(
        spec: &SinkSpec,
        materials: Materials,
        environment: &Environment,
        service: Service,
    ) -> Result<Self, SinkError> {
        let block = names::block(spec)?;
        let names = Names::of(block)?;
        let common = spec.common();
        let options = Options::of(common)?;
        let location = block.location.as_deref().map(str::trim);
        let location = location.filter(|location| !location.is_empty());
        let trust = Trust::of(spec, &materials);
        let named = block.secret_ref.is_some();
        let dialer = environment.dialer.clone();
        let share = Share::of(&service.base, &names, dialer.user());
        let access = Access::of(service, &materials, named, dialer, trust)?;
        Ok(Self {
            api: access.connect()?,
            access,
            plan: Plan {
                names,
                mode: effective::provisioning_mode(common),
                cluster: spec.cluster().to_owned(),
                location: location.map(str::to_owned),
                partitioned: options.partitioned,
                idle_settings: idle_settings(common, "bigquery"),
            },
            redaction: materials.redaction,
            share,
            origin: format!("{:016x}", fastrand::u64(..)),
            place: tokio::sync::Mutex::default(),
            inventories: Mutex::default(),
        })
    }

    fn inventories(&self) -> MutexGuard<'_, HashMap<InventoryId, State>> {
        self.inventories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn dialect(&self) -> Dialect {
        self.access.service.dialect
    }

    /// A job is about to be sent.
    fn begun(&self, inventory: &InventoryId, job: &str) {
        let mut inventories = self.inventories();
        inventories.entry(inventory.clone()).or_default().open = Some(job.to_owned());
    }

    /// It has ended, or was never begun.
    fn ended(&self, inventory: &InventoryId) {
        if let Some(state) = self.inventories().get_mut(inventory) {
            state.open = None;
        }
    }

    /// The table's turn, which ends with this value.
    async fn turn(&self) -> Lease<Turn> {
        let lease = self.share.turns.lease(async { Ok(Turn::begin()) });
        let Ok(turn): Result<_, Infallible> = lease.await;
        turn
    }

    /// The table, made ready if it is not.
    async fn place(&self) -> Result<Place, Fault> {
        let mut known = self.place.lock().await;
        let place = self.plan.ready(&self.api, known.as_ref()).await?;
        *known = Some(place.clone());
        Ok(place)
    }

    fn partition<'p>(&'p self, inventory: &'p InventoryId) -> Partition<'p> {
        Partition {
            namespace: inventory.namespace(),
            name: &inventory.name,
            cluster: &self.plan.cluster,
        }
    }

    fn writer<'w>(
        &'w self,
        place: &'w Place,
        inventory: &'w InventoryId,
        at: Timestamp,
    ) -> Writer<'w> {
        let location = self.plan.location.as_ref().or(place.location.as_ref());
        Writer {
            sink: self,
            jobs: Jobs {
                api: &self.api,
                names: &self.plan.names,
                location: location.map(String::as_str),
            },
            inventory,
            partition: self.partition(inventory),
            at,
            shape: place.shape,
            number: 0,
        }
    }

    /// Lets nothing of an earlier delivery arrive any more.
    async fn settle(&self, writer: &Writer<'_>) -> Result<(), Fault> {
        let at = |fault: Fault| fault.at("bigquery settle");
        let (open, alone) = {
            let inventories = self.inventories();
            let state = inventories.get(writer.inventory);
            let open = state.and_then(|state| state.open.clone());
            (open, state.is_some_and(|state| state.alone))
        };
        if !alone {
            let prefix = jobs::prefix(&self.plan.names, &writer.partition);
            writer.jobs.settle_earlier(&prefix).await.map_err(at)?;
        }
        if let Some(open) = open {
            writer.jobs.settle(&open).await.map_err(at)?;
        }
        let mut inventories = self.inventories();
        let state = inventories.entry(writer.inventory.clone()).or_default();
        state.open = None;
        state.alone = true;
        Ok(())
    }

    async fn everything(
        &self,
        delivery: &Delivery,
        snapshot: &Snapshot,
    ) -> Result<(Receipt, Left), Fault> {
        let _turn = self.turn().await;
        let place = self.place().await?;
        let mut writer = self.writer(&place, &delivery.inventory, delivery.at);
        self.settle(&writer).await?;
        let survey = Survey::of(snapshot.rows());
        let mut tally = Tally::default();
        if snapshot.is_empty() && snapshot.held().is_empty() {
            writer.clear(&mut tally).await?;
        } else {
            let rows = survey.winners(snapshot.rows());
            let wanted = Wanted::new(rows, snapshot.held(), content_hash);
            for _ in 0..ROUNDS {
                let found = writer.compare(&wanted).await?;
                let nothing = std::iter::empty();
                writer
                    .apply(nothing, found.doubled.iter(), &mut tally)
                    .await?;
                let rows = found.write.iter().copied();
                writer.apply(rows, found.stale.iter(), &mut tally).await?;
                if !found.more {
                    break;
                }
            }
        }
        let mut notes = place.warnings.clone();
        notes.extend(held_up(&tally));
        let receipt = Receipt {
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            ..receipt(&tally, &tally.unstorable)
        };
        let left = Left {
            incarnation: place.id,
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
        let _turn = self.turn().await;
        let known = self.place.lock().await.clone();
        let there = self.plan.present(&self.api).await?;
        let known = known.filter(|place| {
            place.id == left.incarnation && there.as_ref() == Some(&left.incarnation)
        });
        let Some(place) = known else {
            return Err(SinkError::OutOfStep(format!(
                "bigquery table {} was dropped or replaced since the last delivery",
                self.plan.names.short()
            ))
            .into());
        };
        let mut writer = self.writer(&place, &delivery.inventory, delivery.at);
        let mut tally = Tally::default();
        let rows = work.writes.iter().map(|write| &write.row);
        let unstorable = &left.unstorable;
        let there = |key: &&Key| !unstorable.contains_key(key);
        writer
            .apply(rows, work.deletes.iter().filter(there), &mut tally)
            .await?;
        for write in &work.writes {
            left.unstorable.remove(&Key::of(&write.row));
        }
        for key in &work.deletes {
            left.unstorable.remove(key);
        }
        left.unstorable.append(&mut tally.unstorable);
        Ok(Receipt {
            note: held_up(&tally),
            ..receipt(&tally, &left.unstorable)
        })
    }

    async fn remove(&self, inventory: &InventoryId) -> Result<Receipt, Fault> {
        let _turn = self.turn().await;
        if self.plan.present(&self.api).await?.is_none() {
            return Ok(Receipt::default());
        }
        let place = self.place().await?;
        let mut writer = self.writer(&place, inventory, Timestamp::now());
        self.settle(&writer).await?;
        let mut tally = Tally::default();
        writer.clear(&mut tally).await?;
        Ok(receipt(&tally, &tally.unstorable))
    }

    async fn ask(&self) -> Result<(), SinkError> {
        let api = self.access.connect()?;
        let names = &self.plan.names;
        let asked = async {
            let dataset = api.send(&Call::get(names.dataset_path())).await;
            let _: serde_json::Value =
                dataset.map_err(|fault: Fault| fault.at("bigquery dataset metadata"))?;
            let jobs = Jobs {
                api: &api,
                names,
                location: self.plan.location.as_deref(),
            };
            let dry = jobs.dry_run(&Statement::NOTHING).await;
            dry.map_err(|fault| fault.at("bigquery dry-run query"))?;
            if self.plan.mode == ProvisioningMode::Existing {
                self.plan.verify(&api).await?;
            }
            Ok(())
        };
        asked.await.map_err(|fault: Fault| fault.error)
    }
}

/// What a person may want to know about quotas.
fn held_up(tally: &Tally) -> Option<String> {
    let seconds = tally.waited.as_secs();
    (seconds > 0).then(|| {
        format!(
            "waited {seconds} s because the table takes no more statements at a time; a longer \
             exportMinInterval or fewer sinks on the table avoid it"
        )
    })
}

fn receipt(tally: &Tally, unstorable: &BTreeMap<Key, String>) -> Receipt {
    Receipt {
        written: tally.written,
        removed: tally.removed,
        bytes: tally.bytes,
        skipped: unstorable.values().next().map(|first| Skipped {
            rows: unstorable.len() as u64,
            first: first.clone(),
            why: Why::TooLarge {
                limit: encode::LARGEST as u64,
            },
        }),
        ..Receipt::default()
    }
}

#[async_trait]
impl Sink for BigquerySink {
    fn demand(&self) -> Demand {
        Demand::Changes
    }

    async fn place(&self) -> sink::Place {
        self.share.turns.place().await
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let left = {
            let mut inventories = self.inventories();
            inventories
                .get_mut(inventory)
                .and_then(|state| state.left.take())
        };
        let delivered = match &delivery.rows {
            DeliveryRows::All(snapshot) => self.everything(delivery, snapshot).await,
            DeliveryRows::Changes(delta) => {
                let mut left = left.ok_or_else(|| {
                    SinkError::OutOfStep(format!(
                        "bigquery: nothing is known of what the table holds of inventory {inventory}"
                    ))
                })?;
                let receipt = self.changes(delivery, delta, &mut left).await;
                receipt.map(|receipt| (receipt, left))
            }
        };
        let (receipt, left) = delivered.map_err(|fault| self.redaction.clean_error(fault.error))?;
        let mut inventories = self.inventories();
        inventories.entry(inventory.clone()).or_default().left = Some(left);
        Ok(receipt)
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        if let Some(state) = self.inventories().get_mut(inventory) {
            state.left = None;
        }
        let removed = self.remove(inventory).await;
        let receipt = removed.map_err(|fault| self.redaction.clean_error(fault.error))?;
        self.inventories().remove(inventory);
        Ok(receipt)
    }

    async fn probe(&self) -> Result<String, SinkError> {
        match timeout(PROBE, self.ask()).await {
            Ok(outcome) => outcome
                .map(|()| "BigQuery dataset metadata and dry-run query succeeded".to_owned())
                .map_err(|error| self.redaction.clean_error(error)),
            Err(_) => Err(SinkError::transient(format!(
                "bigquery dataset metadata: no answer within {} s",
                PROBE.as_secs()
            ))),
        }
    }
}
