//! Making a partition hold exactly these rows.

use std::collections::BTreeSet;

use futures::future::{join, join3};
use kollect_inventory::HeldRows;
use tokio_postgres::types::Type;

use super::{CHECK, Print, Writer};
use crate::{
    postgres::{
        fault::Fault,
        rows::{Arrays, Item},
        session::Session,
        shards::{Contents, Digests, Known, shard_of},
        sql::{COMPARE_AS_SETS, LOCK, Source},
    },
    sink::Receipt,
};

/// From this many rows on, a full delivery goes through COPY.
const FULL_BY_COPY: usize = 32;

/// What a full delivery left.
pub(in crate::postgres) struct Whole {
    pub(in crate::postgres) receipt: Receipt,
    /// Of the table.
    pub(in crate::postgres) incarnation: String,
    /// What the partition looks like while nobody touches it, if the server can say.
    pub(in crate::postgres) print: Option<Print>,
    /// Its digests, if somebody looked.
    pub(in crate::postgres) digests: Option<Digests>,
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

impl Writer<'_> {
    /// Makes the partition hold exactly these rows. With what is known of shards, and what the rows
    /// are, only shards that differ are sent.
    pub(in crate::postgres) async fn everything<'r>(
        &self,
        session: &mut Session,
        rows: impl Iterator<Item = Item<'r>>,
        count: usize,
        known: Option<(&Known, &Contents)>,
    ) -> Result<Whole, Fault> {
        if count == 0 && self.held.is_empty() {
            self.empty(session, false).await
        } else if count < FULL_BY_COPY {
            self.everything_at_once(session, rows).await
        } else {
            self.everything_by_copy(session, rows, count, known).await
        }
    }

    /// Removes the partition; a table that is not there holds nothing.
    pub(in crate::postgres) async fn retire(
        &self,
        session: &mut Session,
    ) -> Result<Receipt, Fault> {
        Ok(self.empty(session, true).await?.receipt)
    }

    async fn empty(&self, session: &mut Session, retired: bool) -> Result<Whole, Fault> {
        let statements = self.statements();
        let [lock, clear, look] = self
            .questions(session, [LOCK, &statements.clear(), &self.look_text()])
            .await?;
        let key = self.lock_key();
        let partition = self.partition();
        let (begun, cleared, looked) = join3(
            self.begin(session, &lock, &key),
            session.one(&clear, &partition),
            session.one(&look, self.look_parameters(&partition)),
        )
        .await;
        begun?;
        let removed = self.count("postgres delete all", cleared)?;
        let whole = self.whole(
            Receipt {
                removed,
                ..Receipt::default()
            },
            looked,
        )?;
        if retired {
            self.unsign(session).await?;
        } else {
            self.sign(session, 0, removed > 0).await?;
        }
        self.commit(session).await?;
        Ok(whole)
    }

    async fn everything_at_once<'r>(
        &self,
        session: &mut Session,
        rows: impl Iterator<Item = Item<'r>>,
    ) -> Result<Whole, Fault> {
        let statements = self.statements();
        let [lock, merge, prune, look] = self
            .questions(
                session,
                [
                    LOCK,
                    &statements.merge(Source::Arrays),
                    &statements.prune(Source::Arrays),
                    &self.look_text(),
                ],
            )
            .await?;
        let arrays = Arrays::of(rows, self.namespace);
        let mut merged = self.partition();
        merged.push((&self.at, Type::TIMESTAMPTZ));
        merged.push((&arrays.target_names, Type::TEXT_ARRAY));
        merged.push((&arrays.uids, Type::TEXT_ARRAY));
        merged.push((&arrays.resource_namespaces, Type::TEXT_ARRAY));
        merged.push((&arrays.payloads, Type::TEXT_ARRAY));
        let held = Kept::of(self.held);
        let mut pruned = self.partition();
        pruned.push((&held.targets, Type::TEXT_ARRAY));
        pruned.push((&held.pairs.0, Type::TEXT_ARRAY));
        pruned.push((&held.pairs.1, Type::TEXT_ARRAY));
        pruned.push((&arrays.target_names, Type::TEXT_ARRAY));
        pruned.push((&arrays.uids, Type::TEXT_ARRAY));
        self.add_time(&mut pruned);
        let (key, partition) = (self.lock_key(), self.partition());
        let (begun, (merged, pruned, looked)) = join(
            self.begin(session, &lock, &key),
            join3(
                session.one(&merge, &merged),
                session.one(&prune, &pruned),
                session.one(&look, self.look_parameters(&partition)),
            ),
        )
        .await;
        begun?;
        let written = self.count("postgres upsert", merged)?;
        let removed = self.count("postgres delete stale", pruned)?;
        let receipt = Receipt {
            written,
            removed,
            bytes: arrays.bytes,
            ..Receipt::default()
        };
        let whole = self.whole(receipt, looked)?;
        let rows = whole.rows_or(arrays.uids.len());
        self.sign(session, rows, written + removed > 0).await?;
        self.commit(session).await?;
        Ok(whole)
    }

    async fn everything_by_copy<'r>(
        &self,
        session: &mut Session,
        rows: impl Iterator<Item = Item<'r>>,
        count: usize,
        known: Option<(&Known, &Contents)>,
    ) -> Result<Whole, Fault> {
        let statements = self.statements();
        let key = self.lock_key();
        let mut differing: Option<BTreeSet<u16>> = None;
        if let Some((known, contents)) = known {
            let [lock, digest] = self
                .questions(session, [LOCK, &statements.digest()])
                .await?;
            let partition = self.partition();
            let (begun, digest) = join(
                self.begin(session, &lock, &key),
                session.one(&digest, &partition),
            )
            .await;
            begun?;
            let whole = self.whole(Receipt::default(), digest)?;
            if let Some(digests) = &whole.digests {
                let shards = known.differing(digests, contents);
                if shards.is_empty() {
                    let rows = whole.rows_or(count);
                    self.sign(session, rows, false).await?;
                    self.commit(session).await?;
                    return Ok(whole);
                }
                differing = Some(shards);
            }
        } else {
            let [lock] = self.questions(session, [LOCK]).await?;
            self.begin(session, &lock, &key).await?;
        }
        self.stage_rows(session).await?;
        let sent = rows.filter(|item| {
            differing
                .as_ref()
                .is_none_or(|shards| shards.contains(&shard_of(item.row)))
        });
        let bytes = self.copy(session, sent, &[]).await?;
        let merge_stage = "postgres bulk upsert: merge";
        let advised = session.client.batch_execute(COMPARE_AS_SETS).await;
        advised.map_err(self.stage(merge_stage))?;
        let mut merged = self.partition();
        merged.push((&self.at, Type::TIMESTAMPTZ));
        let merge = statements.merge(Source::Staging);
        let merged = session.client.query_typed_one(&merge, &merged).await;
        let written = self.count(merge_stage, merged)?;
        let held = Kept::of(self.held);
        let shards: Option<Vec<i32>> =
            differing.map(|shards| shards.into_iter().map(i32::from).collect());
        let mut pruned = self.partition();
        pruned.push((&held.targets, Type::TEXT_ARRAY));
        pruned.push((&held.pairs.0, Type::TEXT_ARRAY));
        pruned.push((&held.pairs.1, Type::TEXT_ARRAY));
        pruned.push((&shards, Type::INT4_ARRAY));
        self.add_time(&mut pruned);
        let prune = statements.prune(Source::Staging);
        let pruned = session.client.query_typed_one(&prune, &pruned).await;
        let removed = self.count("postgres delete stale", pruned)?;
        let receipt = Receipt {
            written,
            removed,
            bytes,
            ..Receipt::default()
        };
        // The digests are read when readers have the rows: they take longer.
        let partition = self.partition();
        let (look, parameters) = if statements.has_digests() {
            (statements.print(), &partition[..])
        } else {
            (statements.read_incarnation(), &[][..])
        };
        let looked = session.client.query_typed_one(&look, parameters).await;
        let whole = self.whole(receipt, looked)?;
        let rows = whole.rows_or(count);
        self.sign(session, rows, written + removed > 0).await?;
        self.commit(session).await?;
        Ok(whole)
    }
}

impl Whole {
    /// The rows of the partition, or how many there should be.
    fn rows_or(&self, count: usize) -> i64 {
        let counted = self.print.as_ref().map(Print::rows);
        counted.unwrap_or_else(|| i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl Writer<'_> {
    /// What was left, as an answer tells: a print and digests, a print, or an incarnation.
    fn whole(&self, receipt: Receipt, answer: super::Answered) -> Result<Whole, Fault> {
        let answer = answer.map_err(self.stage(CHECK))?;
        let text: String = answer.try_get(0).map_err(self.stage(CHECK))?;
        let digests = match answer.len() {
            1 => None,
            _ => Digests::read(answer.try_get(1).map_err(self.stage(CHECK))?),
        };
        let print = Print::read(&text);
        Ok(Whole {
            receipt,
            incarnation: print
                .as_ref()
                .map_or(text, |print| print.incarnation().to_owned()),
            print,
            digests,
        })
    }
}
