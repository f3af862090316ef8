//! Whole inventories as messages: mode `snapshots`.

use kollect_inventory::Snapshot;

use super::{NatsSink, Place, publish::Outgoing};
use crate::{
    error::SinkError,
    events::snapshots::{SnapshotMessage, documents},
    sink::{Delivery, Receipt},
};

impl NatsSink {
    /// The whole inventory, as documents.
    pub(super) async fn snapshot(
        &self,
        delivery: &Delivery,
        rows: &Snapshot,
    ) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let connection = self.connection().await?;
        let stream = self.settled_stream(&connection).await?;
        let place = self.place(&connection, &stream, inventory, delivery.at);
        let Delivery { generation, at, .. } = *delivery;
        let exported_at = self
            .attempts
            .begin(inventory, generation, rows.fingerprint(), at);
        let ceiling = delivery.documents.max_bytes;
        let documents = documents(rows, generation, exported_at, ceiling, Some(place.limit))
            .map_err(|error| SinkError::terminal(format!("nats export: {error}")))?;
        let mut receipt = Receipt::default();
        for document in &documents {
            let message = place.source.snapshot(document, at);
            receipt.bytes += self.document(&place, message).await?;
            receipt.written += document.rows().len() as u64;
        }
        self.attempts.succeeded(inventory);
        Ok(receipt)
    }

    /// Publishes one document and waits for its acknowledgement: what comes after one that failed is
    /// not published.
    pub(super) async fn document(
        &self,
        place: &Place<'_>,
        message: SnapshotMessage,
    ) -> Result<u64, SinkError> {
        let mut headers = message.headers.to_vec();
        headers.push(("Nats-Msg-Id", message.id));
        let outgoing = Outgoing::new(self.settings.subject.clone(), &headers, message.body);
        let bytes = outgoing.body_len();
        let mut pipeline = self.pipeline(place);
        let sent = async {
            pipeline.send(outgoing).await?;
            pipeline.finish().await
        };
        let last = sent.await.map_err(|fault| fault.at("nats publish"))?;
        let mut left = self.left();
        left.last_sequence = left.last_sequence.max(last);
        Ok(bytes)
    }
}
