//! The owner's side of a running source.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::counters::WatchCounters;
use super::decode::Decode;
use super::source::View;

/// A running source. Dropping it stops the source.
pub struct WatchHandle<D: Decode> {
    pub(super) view: watch::Sender<View<D>>,
    pub(super) nudge: Arc<Notify>,
    pub(super) counters: Arc<WatchCounters>,
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<()>,
    pub(super) _guard: DropGuard,
}

/// How a source ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEnded {
    /// It was stopped.
    Stopped,
    /// Its consumer or decoder panicked, with this message. Other sources are not affected.
    Panicked(String),
}

impl<D: Decode> WatchHandle<D> {
    /// Decodes in another way from now on. All objects are read again, because those delivered
    /// before were seen through the old decoder.
    pub fn show(&self, view: View<D>) {
        self.view.send_replace(view);
    }

    /// Reads all objects again.
    pub fn relist(&self) {
        self.view.send_modify(|_| {});
    }

    /// Ends a wait, as when a right was granted or a resource installed.
    pub fn retry_now(&self) {
        self.nudge.notify_one();
    }

    /// What happened so far.
    pub fn counters(&self) -> &Arc<WatchCounters> {
        &self.counters
    }

    /// Stops the source. Returns when the delivery in progress is taken.
    pub async fn stop(mut self) -> WatchEnded {
        self.stop.cancel();
        self.ended().await
    }

    /// Waits until the source has ended.
    pub async fn ended(&mut self) -> WatchEnded {
        match (&mut self.task).await {
            Ok(()) => WatchEnded::Stopped,
            Err(error) => WatchEnded::from_panic(error),
        }
    }

    /// Whether the source has ended.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

impl WatchEnded {
    fn from_panic(error: JoinError) -> Self {
        let Ok(payload) = error.try_into_panic() else {
            // Only a runtime that shuts down cancels the task.
            return Self::Stopped;
        };
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::Panicked(text.unwrap_or("no message").to_owned())
    }
}
