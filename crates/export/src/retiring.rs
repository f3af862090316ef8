//! One clean-up of an inventory's exports.

use std::time::Duration;

use kollect_api::InventoryId;
use kollect_sinks::SinkError;
use tokio::time::Instant;

use crate::{
    order::{SinkOrder, Source},
    report::{RetireReport, RetireState},
    retry::{self, Jitter},
};

/// A sink that is to hold nothing of an inventory any more.
#[derive(Debug)]
pub(crate) struct Retiring {
    pub(crate) order: SinkOrder,
    failures: u32,
    pub(crate) not_before: Instant,
    pub(crate) state: RetireState,
    /// The last reopening of the sink that was followed.
    reopened: u64,
}

impl Retiring {
    pub(crate) fn new(order: SinkOrder) -> Self {
        Self {
            order,
            failures: 0,
            not_before: Instant::now(),
            state: RetireState::UnderWay,
            reopened: 0,
        }
    }

    /// It ended.
    pub(crate) fn end(
        &mut self,
        inventory: &InventoryId,
        result: Result<(), SinkError>,
        jitter: Jitter,
    ) {
        match result {
            Ok(()) => self.state = RetireState::Done,
            Err(error) => {
                let sink = &self.order.key;
                tracing::warn!(%inventory, %sink, %error, "clean-up failed");
                self.failures += 1;
                // Whatever the class: somebody waits for this to end, and gives up after a while.
                let wait = retry::wait(retry::FailureClass::Transient, self.failures, jitter);
                self.not_before = Instant::now() + wait;
                self.state = RetireState::Failed(error);
            }
        }
    }

    /// It was refused before it began.
    pub(crate) fn refused(&mut self, error: SinkError, wait: Duration) {
        self.not_before = Instant::now() + wait;
        self.state = RetireState::Failed(error);
    }

    /// The sink was found to work.
    pub(crate) fn reopen(&mut self, reopened: u64) {
        if std::mem::replace(&mut self.reopened, reopened) != reopened {
            self.not_before = Instant::now();
        }
    }

    pub(crate) fn uid(&self) -> Option<&str> {
        match &self.order.source {
            Source::Ready(source) => Some(&source.uid),
            Source::Reading | Source::Held(_) => None,
        }
    }

    pub(crate) fn report(&self) -> RetireReport {
        RetireReport {
            key: self.order.key.clone(),
            state: self.state.clone(),
        }
    }
}
