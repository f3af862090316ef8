//! Writing rows: everything, changes, or nothing at all any more.
//!
//! Each is one transaction on one partition, alone there by an advisory lock: the leader that just
//! lost its lease and its successor do not mix. Few rows travel with the statements, all of them
//! sent without waiting for answers, so a change costs one round trip. Many rows are streamed
//! through COPY; never is more than a chunk of them in memory.

mod changes;
mod everything;
mod forget;
mod look;

use std::{pin::pin, time::SystemTime};

use bytes::Bytes;
use futures::{SinkExt, future::join};
use kollect_inventory::HeldRows;
use tokio_postgres::{
    Row as Answer,
    types::{FromSql, ToSql, Type},
};

pub(super) use self::{changes::Applied, everything::Whole, look::Print};
use super::{
    fault::Fault,
    provision::{Plan, Ready},
    rows::{CopyEncoder, Item},
    session::{Parameter, Question, Session},
    sql::{COPY_STAGING, CREATE_STAGING, Statements},
};
use crate::database::keys::Key;

/// One delivery to one partition.
pub(super) struct Writer<'w> {
    pub(super) plan: &'w Plan,
    pub(super) ready: &'w Ready,
    /// The partition: namespace and name of the inventory.
    pub(super) namespace: &'w str,
    pub(super) name: &'w str,
    /// When the delivery began.
    pub(super) at: SystemTime,
    /// Rows that are not known, and stay as they are.
    pub(super) held: &'w [HeldRows],
}

type Answered = Result<Answer, tokio_postgres::Error>;
type Parameters<'p> = Vec<Parameter<'p>>;

impl Writer<'_> {
    /// Streams rows to write and keys to delete into the staging table. Gives the bytes of rows.
    async fn copy<'r>(
        &self,
        session: &Session,
        rows: impl Iterator<Item = Item<'r>>,
        deletes: &[Key],
    ) -> Result<u64, Fault> {
        let stage = "postgres bulk upsert: copy";
        let sink = session.client.copy_in::<_, Bytes>(COPY_STAGING).await;
        let mut sink = pin!(sink.map_err(self.stage(stage))?);
        let mut encoder = CopyEncoder::new(self.namespace);
        for key in deletes {
            encoder.delete(key);
            if let Some(chunk) = encoder.chunk() {
                sink.send(chunk).await.map_err(self.stage(stage))?;
            }
        }
        for item in rows {
            encoder.row(item);
            if let Some(chunk) = encoder.chunk() {
                sink.send(chunk).await.map_err(self.stage(stage))?;
            }
        }
        let (last, bytes) = encoder.finish();
        sink.send(last).await.map_err(self.stage(stage))?;
        sink.finish().await.map_err(self.stage(stage))?;
        Ok(bytes)
    }

    /// Makes the staging table.
    async fn stage_rows(&self, session: &Session) -> Result<(), Fault> {
        let staged = session.client.batch_execute(CREATE_STAGING).await;
        staged.map_err(self.stage("postgres bulk upsert: create staging"))
    }

    /// Begins the transaction and waits for the lock of the partition.
    async fn begin(&self, session: &Session, lock: &Question, key: &i64) -> Result<(), Fault> {
        let parameters = [(key as &(dyn ToSql + Sync), Type::INT8)];
        let (begun, locked) = join(
            session.client.batch_execute(&self.plan.begin),
            session.one(lock, &parameters),
        )
        .await;
        begun.map_err(self.stage("postgres export: begin tx"))?;
        locked.map_err(self.stage("postgres export: lock"))?;
        Ok(())
    }

    /// Statements of this connection.
    async fn questions<const N: usize>(
        &self,
        session: &mut Session,
        texts: [&str; N],
    ) -> Result<[Question; N], Fault> {
        let questions = session.questions(&self.plan.begin, texts).await;
        questions.map_err(self.stage("postgres export: prepare"))
    }

    async fn commit(&self, session: &Session) -> Result<(), Fault> {
        let committed = session.client.batch_execute("COMMIT").await;
        committed.map_err(self.stage(COMMIT))
    }

    fn statements(&self) -> &Statements {
        &self.ready.statements
    }

    /// The first three parameters of every statement.
    fn partition(&self) -> Parameters<'_> {
        vec![
            (&self.namespace, Type::TEXT),
            (&self.name, Type::TEXT),
            (&self.plan.cluster, Type::TEXT),
        ]
    }

    fn add_time<'p>(&'p self, parameters: &mut Parameters<'p>) {
        if self.statements().has_history() {
            parameters.push((&self.at, Type::TIMESTAMPTZ));
        }
    }

    fn lock_key(&self) -> i64 {
        super::lock_key(&[
            "partition",
            &self.plan.names.table(),
            self.namespace,
            self.name,
            &self.plan.cluster,
        ])
    }

    /// Turns a failed statement into a fault that names the stage.
    fn stage(&self, stage: &'static str) -> impl Fn(tokio_postgres::Error) -> Fault {
        move |error| self.plan.fault(stage, &error)
    }

    /// The first column of an answer. Servers answer with anything, so nothing is taken for granted.
    fn first<T>(&self, stage: &'static str, answer: Answered) -> Result<T, Fault>
    where
        T: for<'a> FromSql<'a>,
    {
        let value = answer.and_then(|row| row.try_get(0));
        value.map_err(self.stage(stage))
    }

    /// A number of rows.
    fn count(&self, stage: &'static str, answer: Answered) -> Result<u64, Fault> {
        Ok(plausible(self.first(stage, answer)?))
    }
}

const CHECK: &str = "postgres check table";
const COMMIT: &str = "postgres export: commit tx";

/// More rows than this are in no table; sums of such numbers stay far from overflowing.
const MOST_ROWS: i64 = 1 << 40;

/// A number of rows as the server counts them, or says so.
fn plausible(count: i64) -> u64 {
    count.clamp(0, MOST_ROWS).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_not_believed_blindly() {
        for (said, taken) in [
            (0, 0),
            (7, 7),
            (-1, 0),
            (i64::MIN, 0),
            (i64::MAX, MOST_ROWS.unsigned_abs()),
        ] {
            assert_eq!(plausible(said), taken);
        }
    }
}
