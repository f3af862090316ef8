//! The last look at what a sink says.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use kollect_api::InventoryId;

use super::Redaction;
use crate::{
    error::SinkError,
    sink::{Delivery, Demand, Place, ReadBack, Receipt, Sink},
};

/// A sink whose texts hold no secret values, whatever its backend and the libraries below it say.
///
/// Backends clean the texts of their libraries themselves, names included, because only they know
/// which part of a message is theirs. This is for what slips through.
#[derive(Debug)]
pub struct Redacted {
    sink: Arc<dyn Sink>,
    redaction: Redaction,
}

impl Redacted {
    /// The same sink with clean texts.
    pub fn new(sink: Arc<dyn Sink>, redaction: Redaction) -> Self {
        Self { sink, redaction }
    }

    fn receipt(&self, result: Result<Receipt, SinkError>) -> Result<Receipt, SinkError> {
        match result {
            Ok(receipt) => Ok(Receipt {
                note: receipt.note.map(|note| self.redaction.clean_values(&note)),
                read_back: receipt.read_back.map(|read_back| match read_back {
                    ReadBack::Replayed(why) => {
                        ReadBack::Replayed(self.redaction.clean_values(&why))
                    }
                    ReadBack::Compared => ReadBack::Compared,
                }),
                ..receipt
            }),
            Err(error) => Err(self.redaction.last_look(error)),
        }
    }
}

#[async_trait]
impl Sink for Redacted {
    fn demand(&self) -> Demand {
        self.sink.demand()
    }

    async fn place(&self) -> Place {
        self.sink.place().await
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        self.receipt(self.sink.deliver(delivery).await)
    }

    fn confirms(&self) -> bool {
        self.sink.confirms()
    }

    fn longest_silence(&self) -> Option<Duration> {
        self.sink.longest_silence()
    }

    async fn confirm(&self, delivery: &Delivery) -> Result<Option<Receipt>, SinkError> {
        match self.sink.confirm(delivery).await {
            Ok(None) => Ok(None),
            Ok(Some(receipt)) => self.receipt(Ok(receipt)).map(Some),
            Err(error) => self.receipt(Err(error)).map(Some),
        }
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.receipt(self.sink.retire(inventory).await)
    }

    async fn probe(&self) -> Result<String, SinkError> {
        match self.sink.probe().await {
            Ok(text) => Ok(self.redaction.clean_values(&text)),
            Err(error) => Err(self.redaction.last_look(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backend that says everything it knows.
    #[derive(Debug)]
    struct Talkative;

    const SAYS: &str = "postgres upsert as app: hunter22 at https://a:b@h";

    #[async_trait]
    impl Sink for Talkative {
        fn demand(&self) -> Demand {
            Demand::Changes
        }

        async fn deliver(&self, _delivery: &Delivery) -> Result<Receipt, SinkError> {
            Err(SinkError::OutOfStep(SAYS.to_owned()))
        }

        async fn retire(&self, _inventory: &InventoryId) -> Result<Receipt, SinkError> {
            Ok(Receipt {
                written: 7,
                note: Some(SAYS.to_owned()),
                ..Receipt::default()
            })
        }

        async fn probe(&self) -> Result<String, SinkError> {
            Err(SinkError::Forbidden(SAYS.to_owned()))
        }
    }

    #[tokio::test]
    async fn nothing_slips_through_and_nothing_else_changes() {
        const CLEAN: &str = "postgres upsert as app: [redacted] at https://[redacted]@h";
        let redaction =
            Redaction::new(["hunter22".into()]).and_names(["postgres".into(), "app".into()]);
        let sink = Redacted::new(Arc::new(Talkative), redaction);
        let delivery = Delivery {
            inventory: InventoryId::cluster("all"),
            generation: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            rows: crate::DeliveryRows::Changes(Arc::default()),
            documents: crate::DocumentOptions::default(),
        };
        let error = sink.deliver(&delivery).await.unwrap_err();
        assert_eq!(error, SinkError::OutOfStep(CLEAN.to_owned()));
        let receipt = sink.retire(&delivery.inventory).await.unwrap();
        assert_eq!(receipt.written, 7);
        assert_eq!(receipt.note.as_deref(), Some(CLEAN));
        let error = sink.probe().await.unwrap_err();
        assert_eq!(error, SinkError::Forbidden(CLEAN.to_owned()));
        assert_eq!(sink.demand(), Demand::Changes);
    }
}
