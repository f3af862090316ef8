//! The pulse of a task: it beats for as long as the task can be polled.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// How often it beats: often enough that a few missed beats are no minute, seldom enough to cost
/// nothing at rest.
const BEAT: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct Pulse {
    /// Grows while the task computes.
    progress: Arc<AtomicU64>,
    felt: Mutex<Felt>,
}

#[derive(Debug)]
struct Felt {
    at: Instant,
    progress: u64,
}

impl Pulse {
    pub(super) fn new(progress: Arc<AtomicU64>) -> Self {
        let felt = Felt {
            at: Instant::now(),
            progress: progress.load(Ordering::Relaxed),
        };
        Self {
            progress,
            felt: Mutex::new(felt),
        }
    }

    /// How long ago it was felt. That it got ahead since somebody last asked is a sign of life.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let mut felt = self.felt();
        let progress = self.progress.load(Ordering::Relaxed);
        if progress != felt.progress {
            *felt = Felt { at: now, progress };
        }
        now.saturating_duration_since(felt.at)
    }

    fn beat(&self) {
        self.felt().at = Instant::now();
    }

    fn felt(&self) -> MutexGuard<'_, Felt> {
        self.felt.lock().unwrap_or_else(PoisonError::into_inner)
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
