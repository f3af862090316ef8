//! Applying changes to a partition.

use futures::future::join;
use tokio_postgres::{Row as Answer, types::Type};

use super::{Answered, COMMIT, Writer, plausible};
use crate::{
    database::keys::Work,
    postgres::{
        fault::Fault,
        rows::{Arrays, Item, key_arrays},
        session::Session,
        shards::Digests,
        sql::{LOCK, Source},
    },
    sink::Receipt,
};

/// From this many rows on, changes go through COPY.
const CHANGES_BY_COPY: usize = 1_000;

/// How changes went.
pub(in crate::postgres) enum Applied {
    /// It is done, and this is what it did to digests, if that is known.
    Done(Receipt, Option<Digests>),
    /// It is not the table that was left.
    OtherTable,
    /// A new row met a different one with its key.
    Disputed,
}

impl Writer<'_> {
    /// Applies changes to the table that was left, or does nothing.
    pub(in crate::postgres) async fn changes(
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
            .questions(session, [LOCK, &self.statements().apply(Source::Arrays)])
            .await?;
        let arrays = Arrays::of(work.writes.iter().map(Item::from), self.namespace);
        let (gone_names, gone_uids) = key_arrays(&work.deletes);
        let mut values = self.partition();
        values.push((&self.at, Type::TIMESTAMPTZ));
        values.push((&incarnation, Type::TEXT));
        values.push((&arrays.target_names, Type::TEXT_ARRAY));
        values.push((&arrays.uids, Type::TEXT_ARRAY));
        values.push((&arrays.resource_namespaces, Type::TEXT_ARRAY));
        values.push((&arrays.payloads, Type::TEXT_ARRAY));
        values.push((&arrays.fresh, Type::BOOL_ARRAY));
        values.push((&gone_names, Type::TEXT_ARRAY));
        values.push((&gone_uids, Type::TEXT_ARRAY));
        let key = self.lock_key();
        let (begun, (applied, committed)) = join(
            self.begin(session, &lock, &key),
            join(
                session.one(&apply, &values),
                session.client.batch_execute("COMMIT"),
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
        let [lock] = self.questions(session, [LOCK]).await?;
        self.begin(session, &lock, &self.lock_key()).await?;
        self.stage_rows(session).await?;
        let rows = work.writes.iter().map(Item::from);
        let bytes = self.copy(session, rows, &work.deletes).await?;
        let mut values = self.partition();
        values.push((&self.at, Type::TIMESTAMPTZ));
        values.push((&incarnation, Type::TEXT));
        let apply = self.statements().apply(Source::Staging);
        let applied = session.client.query_typed_one(&apply, &values).await;
        let applied = self.verdict("postgres bulk upsert: merge", applied, bytes)?;
        self.commit(session).await?;
        Ok(applied)
    }

    fn verdict(&self, stage: &'static str, answer: Answered, bytes: u64) -> Result<Applied, Fault> {
        let read = |row: Answer| {
            Ok(if !row.try_get::<_, bool>(0)? {
                Applied::OtherTable
            } else if !row.try_get::<_, bool>(1)? {
                Applied::Disputed
            } else {
                let receipt = Receipt {
                    written: plausible(row.try_get(2)?),
                    removed: plausible(row.try_get(3)?),
                    bytes,
                    ..Receipt::default()
                };
                let moved = Digests::read(row.try_get(4)?);
                let moved = moved.filter(|_| self.statements().has_digests());
                Applied::Done(receipt, moved)
            })
        };
        answer.and_then(read).map_err(self.stage(stage))
    }
}
