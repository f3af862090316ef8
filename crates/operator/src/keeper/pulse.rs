//! The pulse of a task: it beats for as long as the task can be polled.

use std::{
    pin::pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// How often it beats: often enough that a few missed beats are no minute, seldom enough to cost
/// nothing at rest.
const BEAT: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct Pulse(Mutex<Instant>);

impl Pulse {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// How long ago it was felt.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(last)
    }

    fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Does `work` and beats. Both are polled by the same task, so what keeps one from being
    /// polled keeps the other as well.
    pub(super) async fn alongside<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.beat();
            tokio::select! {
                done = work.as_mut() => return done,
                () = sleep(BEAT) => {}
            }
        }
    }
}
