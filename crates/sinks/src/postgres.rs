//! PostgreSQL: one table that holds the current rows of any number of inventories and clusters.
//!
//! ```text
//! Secret ─> dsn ──┐
//! spec.tls ───────┴> encryption ─> session ─> crate::pool
//! spec.postgres ──> names, ddl, settings ─> provision ─┐
//! Snapshot, Delta ─> keys ─> rows ─────────────────────┴> write (sql) ─> receipt
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
//! - A full delivery of rows that this process left there, to a partition that nobody has touched
//!   since, is one look at it.
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
mod sql;
mod stream;
mod untouched;
mod wire;
mod write;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use kollect_api::{
    InventoryId, effective,
    sink::{SinkSpec, common::ProvisioningMode},
};
use kollect_inventory::{Delta, Snapshot};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

pub(crate) use self::backend::PostgresBackend;
pub use self::ddl::expected_ddl;
use self::{
    dsn::Dsn,
    encryption::{Encryption, Sources},
    fault::{Fault, Meaning},
    names::Names,
    provision::{Plan, Ready},
    rows::Item,
    session::{Connector, Identity, Session},
    settings::Options,
    sql::{KeyShape, Statements},
    untouched::{RowNumbers, Untouched},
    write::{Applied, Whole, Writer},
};
use crate::{
    backend::Environment,
    credentials::Materials,
    database::{
        idle_settings,
        keys::{self, SharedKeys, Survey},
    },
    error::SinkError,
    pool::{Lease, Member, Registry},
    sink::{Delivery, DeliveryRows, Demand, Place, Receipt, Sink},
    tls::{self, Trust},
};

/// Keys of the Secret that may hold the connection string, in order of preference.
const DSN_KEYS: [&str; 4] = ["dsn", "url", "connectionString", "DATABASE_URL"];

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
    rows: RowNumbers,
}

/// What a full delivery left, and what changes rely on.
struct Left {
    /// Of the table.
    incarnation: String,
    shared: SharedKeys,
    /// The rows, and what the partition looks like since; not known after changes.
    untouched: Option<Untouched>,
}

/// What to do with a partition.
enum Task<'t> {
    Everything(&'t Snapshot, &'t Survey),
    /// Whether the partition still looks like this.
    Look(&'t str),
    Changes(&'t keys::Work, &'t str),
    Retire,
}

/// What was done.
enum Done {
    Everything(Whole),
    Looked {
        untouched: bool,
        note: Option<String>,
    },
    Changes(Applied),
    Retired(Receipt),
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
        let plan = Plan {
            names,
            views: postgres.views.clone(),
            mode: effective::provisioning_mode(spec.common()),
            cluster: spec.cluster().to_owned(),
            refresh: options.refresh,
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
            rows: RowNumbers::default(),
        })
    }

    fn left(&self) -> std::sync::MutexGuard<'_, HashMap<InventoryId, Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn everything(
        &self,
        delivery: &Delivery,
        snapshot: &Snapshot,
    ) -> Result<(Receipt, Left), SinkError> {
        let survey = Survey::of(snapshot.rows());
        let task = Task::Everything(snapshot, &survey);
        match self
            .run(&delivery.inventory, delivery.at.into(), &task)
            .await?
        {
            Done::Everything(whole) => {
                let known = whole.print.filter(|_| self.may_stay(snapshot));
                let left = Left {
                    incarnation: whole.incarnation,
                    shared: survey.shared,
                    untouched: known.map(|print| Untouched {
                        content: self.rows.number(snapshot),
                        print,
                    }),
                };
                Ok((whole.receipt, left))
            }
            _ => unreachable!("a task does what it says"),
        }
    }

    /// Delivers all rows, unless they are known to be there.
    async fn refreshed(
        &self,
        delivery: &Delivery,
        snapshot: &Snapshot,
        left: Option<Left>,
    ) -> Result<(Receipt, Left), SinkError> {
        if let Some(left) = left
            && let Some(known) = &left.untouched
            && self.may_stay(snapshot)
            && known.content == self.rows.number(snapshot)
        {
            let task = Task::Look(&known.print);
            let done = self.run(&delivery.inventory, delivery.at.into(), &task);
            if let Done::Looked {
                untouched: true,
                note,
            } = done.await?
            {
                let receipt = Receipt {
                    note,
                    ..Receipt::default()
                };
                return Ok((receipt, left));
            }
        }
        self.everything(delivery, snapshot).await
    }

    /// Whether rows that are there already may stay as they are.
    fn may_stay(&self, snapshot: &Snapshot) -> bool {
        !self.plan.refresh && snapshot.held().is_empty()
    }

    async fn changes(
        &self,
        delivery: &Delivery,
        delta: &Delta,
        left: &mut Left,
    ) -> Result<Receipt, SinkError> {
        left.untouched = None;
        let work = left.shared.apply(delta);
        if work.writes.is_empty() && work.deletes.is_empty() {
            return Ok(Receipt::default());
        }
        let task = Task::Changes(&work, &left.incarnation);
        match self
            .run(&delivery.inventory, delivery.at.into(), &task)
            .await?
        {
            Done::Changes(Applied::Done(receipt)) => Ok(receipt),
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

    /// Does something with a partition, with what it takes to get there: a connection that lives, a
    /// table that is ready. Each obstacle is removed once; a second time it is reported. Everything
    /// may be done twice without harm.
    async fn run(
        &self,
        inventory: &InventoryId,
        at: SystemTime,
        task: &Task<'_>,
    ) -> Result<Done, SinkError> {
        let mut removed = Vec::new();
        loop {
            let mut lease = self.pool.lease(self.connector.open()).await?;
            let outcome = self.attempt(&mut lease, inventory, at, task).await;
            let fault = match outcome {
                Ok(done) => {
                    lease.give_back();
                    return Ok(done);
                }
                Err(fault) => lease.connection().explained(fault),
            };
            let reused = lease.reused;
            match fault.meaning {
                Meaning::Disconnected | Meaning::ReadOnly => lease.abandon(),
                Meaning::MissingTable | Meaning::OtherKey | Meaning::Other => {
                    let ended = lease.connection().client.batch_execute("ROLLBACK").await;
                    match ended {
                        Ok(()) => lease.give_back(),
                        Err(_) => lease.abandon(),
                    }
                }
            }
            let removable = match fault.meaning {
                Meaning::Disconnected | Meaning::ReadOnly => reused,
                Meaning::MissingTable | Meaning::OtherKey => {
                    *self.ready.lock().await = None;
                    true
                }
                Meaning::Other => false,
            };
            if !removable || removed.contains(&fault.meaning) {
                return Err(fault.error);
            }
            removed.push(fault.meaning);
        }
    }

    async fn attempt(
        &self,
        lease: &mut Lease<Session>,
        inventory: &InventoryId,
        at: SystemTime,
        task: &Task<'_>,
    ) -> Result<Done, Fault> {
        let session = lease.connection();
        if matches!(task, Task::Retire) && !self.exists(session).await? {
            return Ok(Done::Retired(Receipt::default()));
        }
        let ready = {
            let mut ready = self.ready.lock().await;
            match &*ready {
                Some(ready) => Arc::clone(ready),
                None => Arc::clone(ready.insert(self.plan.provision(session).await?)),
            }
        };
        let writer = Writer {
            plan: &self.plan,
            ready: &ready,
            namespace: inventory.namespace(),
            name: &inventory.name,
            at,
            held: match task {
                Task::Everything(snapshot, _) => snapshot.held(),
                Task::Look(_) | Task::Changes(..) | Task::Retire => &[],
            },
        };
        let note = (!ready.warnings.is_empty()).then(|| ready.warnings.join("; "));
        Ok(match task {
            Task::Everything(snapshot, survey) => {
                let rows = survey.winners(snapshot.rows()).map(Item::of);
                let count = survey.count(snapshot.rows());
                let mut whole = writer.everything(session, rows, count).await?;
                whole.receipt.note = note;
                Done::Everything(whole)
            }
            Task::Look(print) => Done::Looked {
                untouched: writer.is_untouched(session, print).await?,
                note,
            },
            Task::Changes(work, incarnation) => {
                Done::Changes(writer.changes(session, work, incarnation).await?)
            }
            Task::Retire => Done::Retired(writer.retire(session).await?),
        })
    }

    /// Whether the table is there at all.
    async fn exists(&self, session: &Session) -> Result<bool, Fault> {
        let stage = "postgres check table";
        let question = Statements::new(&self.plan.names, KeyShape::WithCluster, false).exists();
        let client = &session.client;
        let fault = |error| self.plan.fault(stage, &error);
        client
            .batch_execute(&self.plan.begin)
            .await
            .map_err(fault)?;
        let answer = client.query_one(&question, &[]).await.map_err(fault)?;
        client.batch_execute("COMMIT").await.map_err(fault)?;
        answer.try_get(0).map_err(fault)
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
        let (receipt, left) = match &delivery.rows {
            DeliveryRows::All(snapshot) => self.refreshed(delivery, snapshot, left).await?,
            DeliveryRows::Changes(delta) => {
                let mut left = left.ok_or_else(|| {
                    SinkError::OutOfStep(format!(
                        "postgres: nothing is known of what the table holds of inventory {inventory}"
                    ))
                })?;
                (self.changes(delivery, delta, &mut left).await?, left)
            }
        };
        self.left().insert(inventory.clone(), left);
        Ok(receipt)
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.left().remove(inventory);
        match self
            .run(inventory, SystemTime::UNIX_EPOCH, &Task::Retire)
            .await?
        {
            Done::Retired(receipt) => Ok(receipt),
            _ => unreachable!("a task does what it says"),
        }
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
