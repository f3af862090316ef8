//! PostgreSQL: one table that holds the current rows of any number of inventories and clusters.
//!
//! ```text
//! Secret ─> dsn ──┐
//! spec.tls ───────┴> encryption ─> session ─> crate::pool
//! spec.postgres ──> names, ddl, settings ─> provision ─┐
//! Snapshot, Delta ─> keys ─> tasks ─> rows ────────────┴> write (sql) ─> receipt
//! ```
//!
//! What holds, whatever happens:
//! - A reader sees the rows before a delivery or after it, nothing in between: each delivery is one
//!   transaction.
//! - A delivery touches only rows of its partition (inventory and cluster), and of those only the
//!   ones that differ.
//! - Changes are applied only to the table that the last full delivery left. A table that was
//!   emptied, replaced, restored or failed over is noticed, and a full delivery is asked for. Rows
//!   edited by hand are not noticed; the next full delivery puts them right.
//! - All rows are compared by digests first (`shards`), once this process has delivered them: what
//!   is there is not sent, and at rest not even gathered.
//! - A reader can tell "no change" from "nobody is watching": deliveries and looks are on record in a
//!   table beside the rows, in the same transactions.
//! - No message contains anything of the connection string.
//! - Whatever the server sends has a limit in size (`wire`) and in time: a login has
//!   `connect_timeout`, a probe its own deadline, everything else the caller's.

mod backend;
mod catalog;
mod ddl;
mod dsn;
mod encryption;
mod fault;
mod names;
mod provision;
mod read;
mod rows;
mod session;
mod settings;
mod shards;
mod sql;
mod stream;
mod tasks;
mod upkeep;
mod views;
mod wire;
mod write;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use kollect_api::{
    InventoryId, effective,
    sink::{SinkSpec, common::ProvisioningMode},
};
use kollect_inventory::{Delta, Snapshot};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout};

pub(crate) use self::backend::PostgresBackend;
pub use self::ddl::expected_ddl;
use self::{
    dsn::Dsn,
    encryption::{Encryption, Sources},
    fault::Fault,
    names::Names,
    provision::{Plan, Ready},
    session::{Connector, Identity, Session},
    settings::Options,
    shards::{Digests, Known, RowNumbers},
    tasks::{Done, Task},
    views::Shapes,
    write::{Applied, Print},
};
use crate::{
    backend::Environment,
    credentials::Materials,
    database::{
        idle_settings,
        keys::{SharedKeys, Survey},
    },
    error::SinkError,
    pool::{Member, Registry},
    sink::{AttributeTypes, Delivery, DeliveryRows, Demand, Place, Receipt, Sink},
    tls::{self, Trust},
};

/// Keys of the Secret that may hold the connection string, in order of preference.
const DSN_KEYS: [&str; 4] = ["dsn", "url", "connectionString", "DATABASE_URL"];

/// How often it is put on record that somebody looks after the rows, however few change: a little
/// more often than the five minutes that readers are told.
const SIGN: Duration = Duration::from_secs(225);
/// How long nobody may look, so that this happens.
const SILENCE: Duration = Duration::from_mins(4);

/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(15);
/// How long of that it may wait for one of the connections.
const PATIENCE: Duration = Duration::from_secs(3);

/// The connections to all databases. One database, user and password is one pool, whosever sinks
/// use it.
static POOLS: Registry<Identity, Session> = Registry::new();

/// Rows in a table of a PostgreSQL database.
pub struct PostgresSink {
    plan: Plan,
    connector: Arc<Connector>,
    pool: Member<Session>,
    /// The table, once it was found or made.
    ready: tokio::sync::Mutex<Option<Arc<Ready>>>,
    /// What was left in the table, per inventory. Absent while a delivery is under way and after
    /// one that failed, so that the next one has to be a full one.
    left: Mutex<HashMap<InventoryId, Left>>,
    /// What is known of shards, whatever failed since.
    known: Mutex<HashMap<InventoryId, Known>>,
    /// What rows were made views for, if that is wanted.
    shapes: Mutex<HashMap<InventoryId, (Shapes, Arc<AttributeTypes>)>>,
    rows: RowNumbers,
}

/// What a full delivery left, and what changes rely on.
struct Left {
    /// Of the table.
    incarnation: String,
    shared: SharedKeys,
    /// What the partition looks like, if nothing was written since somebody looked.
    print: Option<Print>,
    /// Whether the digests that are known are those of the partition as it was left.
    digested: bool,
    /// When the history may have something to forget again.
    forget_at: Instant,
    /// When it was last put on record that somebody looks after the rows.
    signed: Instant,
}

impl Left {
    fn must_sign(&self) -> bool {
        self.signed.elapsed() >= SIGN
    }
}

impl fmt::Debug for PostgresSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSink")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl PostgresSink {
    /// A sink as its spec and Secrets describe it. Opens no connection.
    pub fn new(
        spec: &SinkSpec,
        materials: Materials,
        environment: &Environment,
    ) -> Result<Self, SinkError> {
        let postgres = match spec {
            SinkSpec::Database(database) => database.postgres.as_ref(),
            SinkSpec::Snapshot(_) | SinkSpec::Event(_) => None,
        };
        let postgres =
            postgres.ok_or_else(|| SinkError::terminal("postgres sink requires spec.postgres"))?;
        if postgres.database_ref.name.trim().is_empty() {
            return Err(SinkError::terminal(
                "postgres sink requires spec.postgres.databaseRef",
            ));
        }
        let names = Names::of(postgres)
            .ok_or_else(|| SinkError::terminal("postgres sink requires spec.postgres.table"))?;
        let options = Options::of(&spec.common().options)?;
        let trust = Trust::of(spec, &materials);
        let Materials {
            credentials,
            redaction,
            ..
        } = materials;
        if credentials.is_empty() {
            return Err(SinkError::terminal("postgres databaseRef secret is empty"));
        }
        let text = credentials
            .first_text(&DSN_KEYS)
            .ok_or_else(|| SinkError::terminal("postgres secret must contain dsn or url key"))?;
        let dsn = Dsn::parse(text.expose())?;
        let mode = effective::provisioning_mode(spec.common());
        let plan = Plan {
            names,
            views: postgres.views.clone(),
            mode,
            cluster: spec.cluster().to_owned(),
            refresh: options.refresh,
            target_views: options.target_views && mode == ProvisioningMode::Ensure,
            keeps_history: options.history,
            idle_settings: idle_settings(spec.common(), "postgres"),
            begin: settings::begin(&dsn, &options),
            redaction: dsn.hidden_by(redaction),
        };
        let sources = Sources {
            secret: &credentials,
            local_files: environment.local_files,
        };
        let encryption = Encryption::new(&dsn.ssl, &trust, sources)?;
        let dialer = environment.dialer.clone();
        let identity = Identity {
            dsn: dsn.clone(),
            trust,
            client: tls::client_certificate::identity_of(&credentials),
            local_files: environment.local_files,
            dialer: dialer.clone(),
        };
        let pool = POOLS.join(identity, dsn.pool, dialer.user());
        let connector = Arc::new(Connector {
            dsn,
            encryption,
            dialer,
        });
        Ok(Self {
            plan,
            connector,
            pool,
            ready: tokio::sync::Mutex::default(),
            left: Mutex::default(),
            known: Mutex::default(),
            shapes: Mutex::default(),
            rows: RowNumbers::default(),
        })
    }

    fn left(&self) -> MutexGuard<'_, HashMap<InventoryId, Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<InventoryId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers all rows, as far as they are not known to be there.
    async fn everything(
        &self,
        delivery: &Delivery,
        snapshot: &Snapshot,
    ) -> Result<(Receipt, Left), SinkError> {
        let inventory = &delivery.inventory;
        let survey = Survey::of(snapshot.rows());
        // Digests say nothing of rows that are not known, and nothing may stay that is rewritten.
        let comparable = !self.plan.refresh && snapshot.held().is_empty();
        let contents = comparable.then(|| self.rows.contents(survey.winners(snapshot.rows())));
        let known = self.known().get(inventory).cloned();
        let task = Task::Everything {
            snapshot,
            survey: &survey,
            known: known.as_ref().zip(contents.as_ref()),
        };
        let Done::Everything(whole) = self.run(inventory, delivery.at.into(), &task).await? else {
            unreachable!("a task does what it says");
        };
        let mut left = Left {
            incarnation: whole.incarnation,
            shared: survey.shared,
            print: whole.print.filter(|_| comparable),
            digested: false,
            forget_at: Instant::now(),
            signed: Instant::now(),
        };
        if let Some(contents) = contents {
            let digests = match (whole.digests, &left.print) {
                (Some(digests), _) => Some(digests),
                (None, Some(print)) => self.digests_of(delivery, print).await,
                (None, None) => None,
            };
            if let Some(digests) = digests {
                left.digested = true;
                let known = Known { contents, digests };
                self.known().insert(inventory.clone(), known);
            }
        }
        Ok((whole.receipt, left))
    }

    /// The digests of a partition that was just written, unless somebody else was there since. What
    /// is in the way is found out by the next delivery; this one has succeeded.
    async fn digests_of(&self, delivery: &Delivery, print: &Print) -> Option<Digests> {
        let task = Task::Digest {
            expected: None,
            sign: false,
        };
        let done = self.run(&delivery.inventory, delivery.at.into(), &task);
        match done.await {
            Ok(Done::Digested(Some((now, digests)))) if now == *print => Some(digests),
            _ => None,
        }
    }

    async fn changes(
        &self,
        delivery: &Delivery,
        delta: &Delta,
        left: &mut Left,
    ) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let work = left.shared.apply(delta);
        if work.writes.is_empty() && work.deletes.is_empty() {
            return Ok(Receipt::default());
        }
        left.print = None;
        let task = Task::Changes(&work, &left.incarnation);
        match self.run(inventory, delivery.at.into(), &task).await? {
            Done::Changes(Applied::Done(receipt, moved)) => {
                left.signed = Instant::now();
                if let (Some(known), Some(moved)) = (self.known().get_mut(inventory), &moved) {
                    let written = work.writes.iter().map(|write| &write.row);
                    known.digests.follow(moved);
                    self.rows
                        .follow(&mut known.contents, work.replaced.iter(), written);
                } else {
                    left.digested = false;
                }
                Ok(receipt)
            }
            Done::Changes(Applied::OtherTable) => Err(SinkError::OutOfStep(format!(
                "postgres table {} was emptied, replaced or restored, or its server restarted, since the last delivery",
                self.plan.names.table()
            ))),
            Done::Changes(Applied::Disputed) => Err(SinkError::OutOfStep(format!(
                "postgres table {} holds a row under the key of a new one",
                self.plan.names.table()
            ))),
            _ => unreachable!("a task does what it says"),
        }
    }

    /// Looks whether the partition is as it was left, without any rows.
    async fn is_as_left(&self, delivery: &Delivery, left: &mut Left) -> Result<bool, SinkError> {
        let (inventory, at) = (&delivery.inventory, delivery.at.into());
        let sign = left.must_sign();
        if let Some(print) = &left.print {
            let task = Task::Look { print, sign };
            if let Done::Looked(true) = self.run(inventory, at, &task).await? {
                return Ok(true);
            }
            left.print = None;
        }
        let known = self.known().get(inventory).cloned();
        let Some(known) = known.filter(|_| left.digested) else {
            return Ok(false);
        };
        let task = Task::Digest {
            expected: Some(&known.digests),
            sign,
        };
        let Done::Digested(found) = self.run(inventory, at, &task).await? else {
            unreachable!("a task does what it says");
        };
        let found = found.filter(|(_, digests)| *digests == known.digests);
        left.print = found.map(|(print, _)| print);
        Ok(left.print.is_some())
    }

    async fn ping(&self) -> Result<(), SinkError> {
        let mut own = self.pool.alone(PATIENCE, self.connector.open()).await?;
        let answer = self.ping_with(&mut own.connection).await;
        answer.map_err(|fault| own.connection.explained(fault).error)
    }

    async fn ping_with(&self, session: &mut Session) -> Result<(), Fault> {
        let ping = format!("{}; SELECT 1; COMMIT", self.plan.begin);
        let answer = session.client.batch_execute(&ping).await;
        answer.map_err(|error| self.plan.fault("postgres ping", &error))?;
        if self.plan.mode == ProvisioningMode::Existing {
            let found = self.plan.check(session).await?;
            found.ok_or_else(|| self.plan.missing())?;
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for PostgresSink {
    fn demand(&self) -> Demand {
        Demand::Changes
    }

    async fn place(&self) -> Place {
        self.pool.place().await
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let left = self.left().remove(inventory);
        let forget_at = left.as_ref().map(|left| left.forget_at);
        let (receipt, mut left) = match &delivery.rows {
            DeliveryRows::All(snapshot) => self.everything(delivery, snapshot).await?,
            DeliveryRows::Changes(delta) => {
                let mut left = left.ok_or_else(|| {
                    SinkError::OutOfStep(format!(
                        "postgres: nothing is known of what the table holds of inventory {inventory}"
                    ))
                })?;
                (self.changes(delivery, delta, &mut left).await?, left)
            }
        };
        left.forget_at = forget_at.unwrap_or(left.forget_at);
        self.follow_views(delivery).await;
        self.forget(delivery, &mut left).await;
        self.left().insert(inventory.clone(), left);
        Ok(receipt)
    }

    fn confirms(&self) -> bool {
        !self.plan.refresh
    }

    fn longest_silence(&self) -> Option<Duration> {
        // Where every pass rewrites all rows, it is the interval that says how often.
        self.confirms().then_some(SILENCE)
    }

    async fn confirm(&self, delivery: &Delivery) -> Result<Option<Receipt>, SinkError> {
        let inventory = &delivery.inventory;
        let Some(mut left) = self.left().remove(inventory) else {
            return Ok(None);
        };
        let same = self.is_as_left(delivery, &mut left).await?;
        if same && left.must_sign() {
            left.signed = Instant::now();
        }
        self.forget(delivery, &mut left).await;
        self.left().insert(inventory.clone(), left);
        Ok(same.then(Receipt::default))
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.left().remove(inventory);
        self.known().remove(inventory);
        let begun = jiff::Timestamp::UNIX_EPOCH.into();
        let Done::Retired(receipt) = self.run(inventory, begun, &Task::Retire).await? else {
            unreachable!("a task does what it says");
        };
        self.drop_views(inventory).await;
        Ok(receipt)
    }

    async fn probe(&self) -> Result<String, SinkError> {
        match timeout(PROBE, self.ping()).await {
            Ok(outcome) => outcome.map(|()| "PostgreSQL ping succeeded".to_owned()),
            Err(_) => Err(SinkError::transient(format!(
                "postgres ping: no answer within {} s",
                PROBE.as_secs()
            ))),
        }
    }
}

/// A number for an advisory lock that every operator finds for the same thing.
fn lock_key(parts: &[&str]) -> i64 {
    let mut digest = Sha256::new();
    digest.update(b"kollect postgres");
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let bytes = digest.finalize();
    i64::from_be_bytes(std::array::from_fn(|at| bytes[at]))
}
