//! One call of a sink: with a deadline, behind the breaker, and with its panics contained.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use kollect_api::{InventoryId, sink::SinkType};
use kollect_sinks::{Delivery, Receipt, Sink, SinkError};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

use crate::{order::SinkSource, pool::Pool};

/// Is told of every delivery.
pub trait Observer: Send + Sync {
    /// A delivery ended, or could not begin.
    fn delivered(&self, sink: SinkType, took: Duration, result: Result<&Receipt, &SinkError>);
    /// Rows that a sink holds already were not sent again.
    fn debounced(&self) {}
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn delivered(&self, _: SinkType, _: Duration, _: Result<&Receipt, &SinkError>) {}
}

/// What all calls share.
pub struct Calls {
    /// Live sinks.
    pub pool: Pool,
    /// How long one delivery may take.
    pub deadline: Duration,
    /// How many calls there may be at a time, over all inventories.
    pub permits: Semaphore,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
    /// Whether this process may write at all. Asked before every call: a process that slept may not
    /// know yet that another one has taken over.
    pub may_write: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Calls {
    /// Delivers.
    pub async fn deliver(
        &self,
        source: &SinkSource,
        delivery: &Delivery,
    ) -> Result<Receipt, SinkError> {
        let (took, result) = match self.open(source).await {
            Ok((sink, _permit)) => {
                let begun = Instant::now();
                let result = self.contained(source, sink.deliver(delivery)).await;
                (begun.elapsed(), result)
            }
            Err(error) => (Duration::ZERO, Err(error)),
        };
        self.observer
            .delivered(source.spec.sink_type(), took, result.as_ref());
        result
    }

    /// Cleans up.
    pub async fn retire(
        &self,
        source: &SinkSource,
        inventory: &InventoryId,
    ) -> Result<Receipt, SinkError> {
        let (sink, _permit) = self.open(source).await?;
        self.contained(source, sink.retire(inventory)).await
    }

    /// The sink, once it may be called.
    async fn open(
        &self,
        source: &SinkSource,
    ) -> Result<(Arc<dyn Sink>, Option<SemaphorePermit<'_>>), SinkError> {
        let opening = AssertUnwindSafe(self.pool.acquire(source)).catch_unwind();
        let sink = opening.await.unwrap_or_else(|_| Err(panicked()))?;
        // Nobody closes the semaphore.
        let permit = self.permits.acquire().await.ok();
        self.check_leadership()?;
        self.pool.admit(source)?;
        Ok((sink, permit))
    }

    fn check_leadership(&self) -> Result<(), SinkError> {
        if (self.may_write)() {
            return Ok(());
        }
        Err(SinkError::transient("this replica is not the leader"))
    }

    async fn contained(
        &self,
        source: &SinkSource,
        call: impl Future<Output = Result<Receipt, SinkError>>,
    ) -> Result<Receipt, SinkError> {
        let call = timeout(self.deadline, AssertUnwindSafe(call).catch_unwind());
        let result = match call.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(panicked()),
            Err(_) => Err(SinkError::transient(format!(
                "the export did not finish within {:?}; check the server, or raise --export-timeout",
                self.deadline
            ))),
        };
        self.pool.note(source, result.as_ref().map(|_| ()));
        result
    }
}

/// The text of a panic may contain anything, also values; it stays on standard error.
fn panicked() -> SinkError {
    SinkError::transient(
        "the sink failed in an unexpected way (a panic; the log of the operator has it)",
    )
}
