//! Doing something with a partition, with what it takes to get there.

use std::{sync::Arc, time::SystemTime};

use kollect_api::{InventoryId, sink::database::PostgresView};
use kollect_inventory::Snapshot;

use super::{
    PostgresSink,
    fault::{Fault, Meaning},
    rows::Item,
    session::Session,
    shards::{Contents, Digests, Known},
    sql::{KeyShape, Statements},
    write::{Applied, Print, Whole, Writer},
};
use crate::{
    database::keys::{Survey, Work},
    error::SinkError,
    pool::Lease,
    sink::Receipt,
};

/// What to do with a partition.
pub(super) enum Task<'t> {
    /// Make it hold these rows. With what is known of shards and what the rows are, only what
    /// differs is sent.
    Everything {
        snapshot: &'t Snapshot,
        survey: &'t Survey,
        known: Option<(&'t Known, &'t Contents)>,
    },
    /// Look whether it still looks like this.
    Look { print: &'t Print, sign: bool },
    /// Read its digests; put it on record if they are as expected.
    Digest {
        expected: Option<&'t Digests>,
        sign: bool,
    },
    /// Apply changes to this incarnation of the table.
    Changes(&'t Work, &'t str),
    /// Make these views, and drop those of targets that are gone.
    Views(&'t [PostgresView], &'t [String]),
    /// Remove what its history has of before this moment.
    Forget(SystemTime),
    /// Remove it.
    Retire,
}

/// What was done.
pub(super) enum Done {
    Everything(Whole),
    Looked(bool),
    Digested(Option<(Print, Digests)>),
    Changes(Applied),
    /// What a person should know of views.
    Viewed(Vec<String>),
    /// Whether nothing is left to forget.
    Forgotten(bool),
    Retired(Receipt),
}

impl PostgresSink {
    /// Does something with a partition, with what it takes to get there: a connection that lives, a
    /// table that is ready. Each obstacle is removed once; a second time it is reported. Everything
    /// may be done twice without harm.
    pub(super) async fn run(
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
                Meaning::MissingTable | Meaning::OtherKey | Meaning::Denied | Meaning::Other => {
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
                // What may be used beside the rows is found out anew.
                Meaning::Denied => self.ready.lock().await.take().is_some(),
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
                Task::Everything { snapshot, .. } => snapshot.held(),
                _ => &[],
            },
        };
        Ok(match task {
            Task::Everything {
                snapshot,
                survey,
                known,
            } => {
                let rows = survey.winners(snapshot.rows()).map(Item::of);
                let count = survey.count(snapshot.rows());
                let mut whole = writer.everything(session, rows, count, *known).await?;
                let warnings = &ready.warnings;
                whole.receipt.note = (!warnings.is_empty()).then(|| warnings.join("; "));
                Done::Everything(whole)
            }
            Task::Look { print, sign } => {
                Done::Looked(writer.is_untouched(session, print, *sign).await?)
            }
            Task::Digest { expected, sign } => {
                Done::Digested(writer.digests(session, *expected, *sign).await?)
            }
            Task::Changes(work, incarnation) => {
                Done::Changes(writer.changes(session, work, incarnation).await?)
            }
            Task::Views(wanted, gone) => {
                Done::Viewed(self.plan.follow(session, wanted, gone).await?)
            }
            Task::Forget(moment) => Done::Forgotten(writer.forget(session, *moment).await?),
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
        let answer = client
            .query_typed_one(&question, &[])
            .await
            .map_err(fault)?;
        client.batch_execute("COMMIT").await.map_err(fault)?;
        answer.try_get(0).map_err(fault)
    }
}
