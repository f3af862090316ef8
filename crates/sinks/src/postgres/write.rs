//! Writing rows: everything, changes, or nothing at all any more.
//!
//! Each is one transaction on one partition, alone there by an advisory lock: the leader that just
//! lost its lease and its successor do not mix. Few rows travel with the statements, all of them
//! sent without waiting for answers, so a change costs one round trip. Many rows are streamed
//! through COPY; never is more than a chunk of them in memory.

mod print;

use std::{pin::pin, time::SystemTime};

use bytes::Bytes;
use futures::{
    SinkExt,
    future::{join, join3},
};
use kollect_inventory::HeldRows;
use tokio_postgres::{
    Row as Answer, Statement,
    types::{FromSql, ToSql},
};

use super::{
    fault::Fault,
    provision::{Plan, Ready},
    rows::{Arrays, CopyEncoder, Item, key_arrays},
    session::Session,
    sql::{COMPARE_AS_SETS, COPY_STAGING, CREATE_STAGING, LOCK, Source, Statements},
};
use crate::{
    database::keys::{Key, Work},
    sink::Receipt,
};

/// From this many rows on, a full delivery goes through COPY.
const FULL_BY_COPY: usize = 32;
/// From this many rows on, changes go through COPY.
const CHANGES_BY_COPY: usize = 1_000;

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

/// What a full delivery left.
pub(super) struct Whole {
    pub(super) receipt: Receipt,
    /// Of the table.
    pub(super) incarnation: String,
    /// What the partition looks like while nobody touches it, if that is worth knowing.
    pub(super) print: Option<String>,
}

/// How changes went.
pub(super) enum Applied {
    Done(Receipt),
    /// It is not the table that was left.
    OtherTable,
    /// A new row met a different one with its key.
    Disputed,
}

/// What stays although it was not given, as parameters.
struct Kept<'w> {
    /// Targets of which everything stays.
    targets: Vec<&'w str>,
    /// Targets and namespaces whose rows stay.
    pairs: (Vec<&'w str>, Vec<&'w str>),
}

impl<'w> Kept<'w> {
    fn of(held: &'w [HeldRows]) -> Self {
        let whole = held.iter().filter(|one| one.namespace.is_none());
        let pairs = held
            .iter()
            .filter_map(|one| Some((&*one.target, one.namespace.as_deref()?)));
        Self {
            targets: whole.map(|one| &*one.target).collect(),
            pairs: pairs.unzip(),
        }
    }
}

type Answered = Result<Answer, tokio_postgres::Error>;
type Parameters<'p> = Vec<&'p (dyn ToSql + Sync)>;

impl Writer<'_> {
    /// Makes the partition hold exactly these rows.
    pub(super) async fn everything<'r>(
        &self,
        session: &mut Session,
        rows: impl Iterator<Item = Item<'r>>,
        count: usize,
    ) -> Result<Whole, Fault> {
        if count == 0 && self.held.is_empty() {
            self.empty(session).await
        } else if count < FULL_BY_COPY {
            self.everything_at_once(session, rows).await
        } else {
            self.everything_by_copy(session, rows).await
        }
    }

    async fn empty(&self, session: &mut Session) -> Result<Whole, Fault> {
        let statements = self.statements();
        let [lock, clear, incarnation] = self
            .prepare(
                session,
                [LOCK, &statements.clear(), &statements.read_incarnation()],
            )
            .await?;
        let key = self.lock_key();
        let client = &session.client;
        let partition = self.partition();
        let (begun, (cleared, incarnation, committed)) = join(
            self.begin(session, &lock, &key),
            join3(
                client.query_one(&clear, &partition),
                client.query_one(&incarnation, &[]),
                client.batch_execute("COMMIT"),
            ),
        )
        .await;
        begun?;
        let removed = self.count("postgres delete all", cleared)?;
        let incarnation = self.first(CHECK, incarnation)?;
        committed.map_err(self.stage(COMMIT))?;
        let receipt = Receipt {
            removed,
            ..Receipt::default()
        };
        // Doing it again costs as little as looking.
        Ok(Whole {
            receipt,
            incarnation,
            print: None,
        })
    }

    async fn everything_at_once<'r>(
        &self,
        session: &mut Session,
        rows: impl Iterator<Item = Item<'r>>,
    ) -> Result<Whole, Fault> {
        let statements = self.statements();
        let [lock, merge, prune, incarnation] = self
            .prepare(
                session,
                [
                    LOCK,
                    &statements.merge(Source::Arrays),
                    &statements.prune(Source::Arrays),
                    &statements.read_incarnation(),
                ],
            )
            .await?;
        let arrays = Arrays::of(rows, self.namespace);
        let mut merged = self.partition();
        merged.extend(parameters(&[
            &self.at,
            &arrays.target_names,
            &arrays.uids,
            &arrays.resource_namespaces,
            &arrays.payloads,
        ]));
        let held = Kept::of(self.held);
        let mut pruned = self.partition();
        pruned.extend(parameters(&[
            &held.targets,
            &held.pairs.0,
            &held.pairs.1,
            &arrays.target_names,
            &arrays.uids,
        ]));
        self.add_time(&mut pruned);
        let key = self.lock_key();
        let client = &session.client;
        let (begun, (merged, pruned, (incarnation, committed))) = join(
            self.begin(session, &lock, &key),
            join3(
                client.query_one(&merge, &merged),
                client.query_one(&prune, &pruned),
                join(
                    client.query_one(&incarnation, &[]),
                    client.batch_execute("COMMIT"),
                ),
            ),
        )
        .await;
        begun?;
        let written = self.count("postgres upsert", merged)?;
        let removed = self.count("postgres delete stale", pruned)?;
        let incarnation = self.first(CHECK, incarnation)?;
        committed.map_err(self.stage(COMMIT))?;
        let receipt = Receipt {
            written,
            removed,
            bytes: arrays.bytes,
            ..Receipt::default()
        };
        // Doing it again costs as little as looking.
        Ok(Whole {
            receipt,
            incarnation,
            print: None,
        })
    }

    async fn everything_by_copy<'r>(
        &self,
        session: &mut Session,
        rows: impl Iterator<Item = Item<'r>>,
    ) -> Result<Whole, Fault> {
        let statements = self.statements();
        self.begin_and_stage(session).await?;
        let bytes = self.copy(session, rows, &[]).await?;
        let client = &session.client;
        let merge_stage = "postgres bulk upsert: merge";
        let advised = client.batch_execute(COMPARE_AS_SETS).await;
        advised.map_err(self.stage(merge_stage))?;
        let mut merged = self.partition();
        merged.push(&self.at);
        let merge = statements.merge(Source::Staging);
        let merged = client.query_one(&merge, &merged).await;
        let written = self.count(merge_stage, merged)?;
        let held = Kept::of(self.held);
        let mut pruned = self.partition();
        pruned.extend(parameters(&[&held.targets, &held.pairs.0, &held.pairs.1]));
        self.add_time(&mut pruned);
        let prune = statements.prune(Source::Staging);
        let pruned = client.query_one(&prune, &pruned).await;
        let removed = self.count("postgres delete stale", pruned)?;
        let incarnation = client.query_one(&statements.read_incarnation(), &[]).await;
        let incarnation = self.first(CHECK, incarnation)?;
        let print = self.print(session).await?;
        session
            .client
            .batch_execute("COMMIT")
            .await
            .map_err(self.stage(COMMIT))?;
        let receipt = Receipt {
            written,
            removed,
            bytes,
            ..Receipt::default()
        };
        Ok(Whole {
            receipt,
            incarnation,
            print,
        })
    }

    /// Applies changes to the table that was left, or does nothing.
    pub(super) async fn changes(
        &self,
        session: &mut Session,
        work: &Work,
        incarnation: &str,
    ) -> Result<Applied, Fault> {
        if work.writes.len() + work.deletes.len() < CHANGES_BY_COPY {
            self.changes_at_once(session, work, incarnation).await
        } else {
            self.changes_by_copy(session, work, incarnation).await
        }
    }

    async fn changes_at_once(
        &self,
        session: &mut Session,
        work: &Work,
        incarnation: &str,
    ) -> Result<Applied, Fault> {
        let [lock, apply] = self
            .prepare(session, [LOCK, &self.statements().apply(Source::Arrays)])
            .await?;
        let arrays = Arrays::of(work.writes.iter().map(Item::from), self.namespace);
        let (gone_names, gone_uids) = key_arrays(&work.deletes);
        let mut values = self.partition();
        values.extend(parameters(&[
            &self.at,
            &incarnation,
            &arrays.target_names,
            &arrays.uids,
            &arrays.resource_namespaces,
            &arrays.payloads,
            &arrays.fresh,
            &gone_names,
            &gone_uids,
        ]));
        let key = self.lock_key();
        let client = &session.client;
        let (begun, (applied, committed)) = join(
            self.begin(session, &lock, &key),
            join(
                client.query_one(&apply, &values),
                client.batch_execute("COMMIT"),
            ),
        )
        .await;
        begun?;
        let applied = self.verdict("postgres upsert", applied, arrays.bytes)?;
        committed.map_err(self.stage(COMMIT))?;
        Ok(applied)
    }

    async fn changes_by_copy(
        &self,
        session: &mut Session,
        work: &Work,
        incarnation: &str,
    ) -> Result<Applied, Fault> {
        self.begin_and_stage(session).await?;
        let rows = work.writes.iter().map(Item::from);
        let bytes = self.copy(session, rows, &work.deletes).await?;
        let client = &session.client;
        let mut values = self.partition();
        values.extend(parameters(&[&self.at, &incarnation]));
        let apply = self.statements().apply(Source::Staging);
        let applied = client.query_one(&apply, &values).await;
        let applied = self.verdict("postgres bulk upsert: merge", applied, bytes)?;
        client
            .batch_execute("COMMIT")
            .await
            .map_err(self.stage(COMMIT))?;
        Ok(applied)
    }

    /// Removes the partition; a table that is not there holds nothing.
    pub(super) async fn retire(&self, session: &mut Session) -> Result<Receipt, Fault> {
        Ok(self.empty(session).await?.receipt)
    }

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

    async fn begin_and_stage(&self, session: &mut Session) -> Result<(), Fault> {
        let [lock] = self.prepare(session, [LOCK]).await?;
        self.begin(session, &lock, &self.lock_key()).await?;
        let staged = session.client.batch_execute(CREATE_STAGING).await;
        staged.map_err(self.stage("postgres bulk upsert: create staging"))
    }

    /// Begins the transaction and waits for the lock of the partition.
    async fn begin(&self, session: &Session, lock: &Statement, key: &i64) -> Result<(), Fault> {
        let client = &session.client;
        let parameters: [&(dyn ToSql + Sync); 1] = [key];
        let (begun, locked) = join(
            client.batch_execute(&self.plan.begin),
            client.query_one(lock, &parameters),
        )
        .await;
        begun.map_err(self.stage("postgres export: begin tx"))?;
        locked.map_err(self.stage("postgres export: lock"))?;
        Ok(())
    }

    /// Statements of this connection, in a transaction of their own the first time: the role that
    /// may see the table is set for transactions only.
    async fn prepare<const N: usize>(
        &self,
        session: &mut Session,
        texts: [&str; N],
    ) -> Result<[Statement; N], Fault> {
        let missing = texts.iter().any(|text| !session.knows(text));
        if missing {
            let begun = session.client.batch_execute(&self.plan.begin).await;
            begun.map_err(self.stage("postgres export: begin tx"))?;
        }
        let mut statements = Vec::with_capacity(N);
        for text in texts {
            let statement = session.prepared(text).await;
            statements.push(statement.map_err(self.stage("postgres export: prepare"))?);
        }
        if missing {
            let ended = session.client.batch_execute("COMMIT").await;
            ended.map_err(self.stage(COMMIT))?;
        }
        Ok(statements.try_into().expect("as many as texts"))
    }

    fn statements(&self) -> &Statements {
        &self.ready.statements
    }

    /// The first three parameters of every statement.
    fn partition(&self) -> Parameters<'_> {
        vec![&self.namespace, &self.name, &self.plan.cluster]
    }

    fn add_time<'p>(&'p self, parameters: &mut Parameters<'p>) {
        if self.statements().has_history() {
            parameters.push(&self.at);
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

    fn verdict(&self, stage: &'static str, answer: Answered, bytes: u64) -> Result<Applied, Fault> {
        let read = |row: Answer| {
            Ok(if !row.try_get::<_, bool>(0)? {
                Applied::OtherTable
            } else if !row.try_get::<_, bool>(1)? {
                Applied::Disputed
            } else {
                Applied::Done(Receipt {
                    written: plausible(row.try_get(2)?),
                    removed: plausible(row.try_get(3)?),
                    bytes,
                    ..Receipt::default()
                })
            })
        };
        answer.and_then(read).map_err(self.stage(stage))
    }
}

const CHECK: &str = "postgres check table";
const COMMIT: &str = "postgres export: commit tx";

/// Gives a slice the type that parameters have.
fn parameters<'p, const N: usize>(
    values: &[&'p (dyn ToSql + Sync); N],
) -> impl Iterator<Item = &'p (dyn ToSql + Sync)> {
    values.iter().copied()
}

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
