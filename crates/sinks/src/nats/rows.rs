//! Rows as messages: mode `changes`.

use jiff::Timestamp;
use kollect_api::{InventoryId, sink::event::EventMode};
use kollect_inventory::{Delta, Row, Snapshot};

use super::{
    NatsSink, Place,
    fault::Fault,
    publish::Outgoing,
    read_back::{self, Unread},
    stream::{self, Missing},
};
use crate::{
    error::SinkError,
    events::{Changes, Comparison, Item, Sizes},
    sink::{Delivery, ReadBack, Receipt},
};

impl NatsSink {
    pub(super) async fn everything(
        &self,
        delivery: &Delivery,
        rows: &Snapshot,
    ) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let connection = self.connection().await?;
        let stream = self.settled_stream(&connection).await?;
        let place = self.place(&connection, &stream, inventory, delivery.at);
        connection
            .barrier(place.subjects.own())
            .await
            .map_err(|fault| fault.at("nats publish"))?;
        let (receipt, last) = match self.compare(&place, rows).await {
            Ok((upserts, deletes)) => {
                let published = self.publish(&place, &upserts, &deletes).await;
                let (receipt, sizes, last) = published.map_err(|fault| fault.at("nats publish"))?;
                let skipped = self.oversize.all(inventory, sizes, place.limit);
                let read_back = Some(ReadBack::Compared);
                (
                    Receipt {
                        skipped,
                        read_back,
                        ..receipt
                    },
                    last,
                )
            }
            Err(Unread::Never(why)) => self.replay(&place, rows, why).await?,
            Err(Unread::Fault(fault)) => return Err(fault.at("nats read back")),
        };
        self.keep(inventory, last);
        Ok(receipt)
    }

    /// What the stream lacks, and what it holds too much.
    pub(super) async fn compare<'r>(
        &self,
        place: &Place<'_>,
        rows: &'r Snapshot,
    ) -> Result<(Vec<&'r Row>, Vec<Item<'static>>), Unread> {
        let Place {
            connection,
            stream,
            source,
            subjects,
            ..
        } = place;
        let mut comparison = Comparison::new(rows, |row| subjects.row(source, &Item::of(row)));
        read_back::read(connection, stream, source, subjects, &mut comparison).await?;
        let difference = comparison.finish();
        let (upserts, gone) = (difference.upserts, difference.gone);
        let gone = read_back::identities(connection, stream, source, subjects, gone).await?;
        let gone = gone
            .into_iter()
            .filter(|item| !item.is_held(rows.held()))
            .collect();
        Ok((upserts, gone))
    }

    pub(super) async fn publish(
        &self,
        place: &Place<'_>,
        upserts: &[&Row],
        deletes: &[Item<'_>],
    ) -> Result<(Receipt, Sizes, u64), Fault> {
        let (mut receipt, mut sizes) = (Receipt::default(), Sizes::default());
        let remembered = !self.oversize.is_empty(place.source.inventory());
        let mut pipeline = self.pipeline(place);
        for item in deletes {
            let outgoing = place.delete(item);
            if remembered {
                sizes.fits(&outgoing.subject);
            }
            receipt.removed += 1;
            receipt.bytes += outgoing.body_len();
            pipeline.send(outgoing).await?;
        }
        for row in upserts {
            let outgoing = place.upsert(row);
            if outgoing.size() > place.limit {
                sizes.too_large(&outgoing.subject, &Item::of(row));
                continue;
            }
            if remembered {
                sizes.fits(&outgoing.subject);
            }
            receipt.written += 1;
            receipt.bytes += outgoing.body_len();
            pipeline.send(outgoing).await?;
        }
        let last = pipeline.finish().await?;
        Ok((receipt, sizes, last))
    }

    /// All rows, and a message that says that these were all.
    pub(super) async fn replay(
        &self,
        place: &Place<'_>,
        rows: &Snapshot,
        why: String,
    ) -> Result<(Receipt, u64), SinkError> {
        let inventory = place.source.inventory();
        let all: Vec<&Row> = rows.rows().iter().collect();
        let published = self.publish(place, &all, &[]).await;
        let (receipt, sizes, _) = published.map_err(|fault| fault.at("nats publish"))?;
        let skipped = self.oversize.all(inventory, sizes, place.limit);
        // Rows of targets of which nothing is known were not repeated, and are there all the same.
        let last = if rows.held().is_empty() {
            let synced = place.source.synced(receipt.written, place.at, place.at);
            let subject = place.subjects.own().to_owned();
            let outgoing = Outgoing::of(synced, subject, place.stream);
            let mut pipeline = self.pipeline(place);
            let sent = async {
                pipeline.send(outgoing).await?;
                pipeline.finish().await
            };
            sent.await.map_err(|fault| fault.at("nats publish"))?
        } else {
            self.left().last_sequence
        };
        let receipt = Receipt {
            skipped,
            read_back: Some(ReadBack::Replayed(why)),
            ..receipt
        };
        Ok((receipt, last))
    }

    pub(super) async fn changes(
        &self,
        delivery: &Delivery,
        delta: &Delta,
    ) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let unknown = || {
            SinkError::OutOfStep(format!(
                "nats: nothing is known of what the stream holds of inventory {inventory}"
            ))
        };
        // It counts as unknown until this has gone well, also if it is given up.
        let known = {
            let mut left = self.left();
            if !left.in_step.remove(inventory) {
                return Err(unknown());
            }
            (left.stream.clone(), left.last_sequence)
        };
        let connection = self.connection().await?;
        let found = stream::find(&connection, &self.settings, Missing::Leave).await?;
        let stream = found
            .filter(|found| {
                let same = (&found.name, &found.created) == (&known.0.0, &known.0.1);
                same && (found.created.is_empty() || found.last_sequence >= known.1)
            })
            .ok_or_else(|| {
                SinkError::OutOfStep(format!(
                    "nats: stream {:?} is not the one that holds the rows of inventory {inventory}",
                    known.0.0
                ))
            })?;
        let place = self.place(&connection, &stream, inventory, delivery.at);
        let changes = Changes::of(&place.source, delta);
        let published = self
            .publish(&place, &changes.upserts, &changes.deletes)
            .await;
        let (receipt, sizes, last) = published.map_err(|fault| match fault {
            Fault::Known(error @ SinkError::OutOfStep(_)) => error,
            other => other.at("nats publish"),
        })?;
        let skipped = self.oversize.changes(inventory, sizes, place.limit);
        self.keep(inventory, last);
        Ok(Receipt { skipped, ..receipt })
    }

    pub(super) async fn retire_rows(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        let connection = self.connection().await?;
        let found = stream::find(&connection, &self.settings, Missing::Leave).await?;
        let Some(stream) = found else {
            return Ok(Receipt::default());
        };
        self.settle(&stream);
        let place = self.place(&connection, &stream, inventory, Timestamp::now());
        if self.settings.mode == EventMode::Snapshots {
            let generation = self.attempts.generation(inventory);
            let message = place.source.deleted(generation, place.at);
            let bytes = self.document(&place, message).await?;
            self.attempts.forget(inventory);
            return Ok(Receipt {
                removed: 1,
                bytes,
                ..Receipt::default()
            });
        }
        match connection.barrier(place.subjects.own()).await {
            Ok(()) => {}
            Err(fault) => return Err(fault.at("nats publish")),
        }
        let nothing = Snapshot::default();
        match self.compare(&place, &nothing).await {
            Ok((_, deletes)) => {
                let published = self.publish(&place, &[], &deletes).await;
                let (receipt, ..) = published.map_err(|fault| fault.at("nats publish"))?;
                Ok(receipt)
            }
            Err(Unread::Never(why)) => Ok(self.replay(&place, &nothing, why).await?.0),
            Err(Unread::Fault(fault)) => Err(fault.at("nats read back")),
        }
    }
}
