//! Keeps what has to run for as long as the process: notices when it ends, panics or stands still.
//!
//! Three things can become of a task that nobody looks after: it ends, it panics, or it stands
//! still. [`Keeper::keep`] starts the first two again, with back-off, and counts them;
//! [`Keeper::stuck`] names the third kind for the probe of liveness. A [`Bulkhead`] keeps the
//! panics of one object away from all others that the same loop looks after.

mod bulkhead;
mod pulse;

use std::{
    any::Any,
    collections::BTreeMap,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicU64},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub use self::bulkhead::{Attempt, Bulkhead};
use self::pulse::Pulse;

/// A task that has not moved for this long stands still.
pub const STANDS_STILL: Duration = Duration::from_mins(1);
/// The first wait before something is started again; it doubles,
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// up to this one.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// What ran for this long has recovered: the next wait is the first one again.
const RECOVERED: Duration = Duration::from_mins(5);

/// How something ended that should go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedHow {
    /// By a panic.
    Panicked,
    /// It returned.
    Returned,
}

impl EndedHow {
    fn text(self) -> &'static str {
        match self {
            Self::Panicked => "reconcile panic recovered",
            Self::Returned => "ended unexpectedly",
        }
    }
}

/// A task that has not moved for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// Its name.
    pub task: &'static str,
    /// For how long.
    pub since: Duration,
}

/// Looks after the long-lived tasks of a process. Clones are the same keeper.
#[derive(Debug, Clone, Default)]
pub struct Keeper(Arc<Books>);

#[derive(Debug, Default)]
struct Books {
    restarts: Mutex<BTreeMap<&'static str, u64>>,
    pulses: Mutex<Vec<(&'static str, Weak<Pulse>)>>,
}

impl Keeper {
    /// How often each task had to be started again.
    pub fn restarts(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.0.restarts).clone()
    }

    /// The tasks that have not moved for [`STANDS_STILL`].
    pub fn stuck(&self) -> Vec<Stuck> {
        self.stuck_at(Instant::now())
    }

    fn stuck_at(&self, now: Instant) -> Vec<Stuck> {
        let pulses = locked(&self.0.pulses);
        let alive = pulses
            .iter()
            .filter_map(|(task, pulse)| Some((*task, pulse.upgrade()?)));
        let stuck = alive.filter_map(|(task, pulse)| {
            let since = pulse.silence(now);
            (since >= STANDS_STILL).then_some(Stuck { task, since })
        });
        stuck.collect()
    }

    /// Runs what `make` makes until `stop`. What ends before, by itself or by a panic, is made anew,
    /// with back-off. It has a pulse all the time.
    pub async fn keep<F, W>(&self, task: &'static str, stop: &CancellationToken, mut make: F)
    where
        F: FnMut() -> W,
        W: Future<Output = ()>,
    {
        let life = async {
            let mut failures = 0;
            loop {
                let begun = Instant::now();
                // Made inside, so that a panic of the making is caught as well.
                let work = AssertUnwindSafe(async { make().await }).catch_unwind();
                let how = match work.await {
                    Ok(()) => EndedHow::Returned,
                    Err(_) => EndedHow::Panicked,
                };
                if stop.is_cancelled() {
                    return;
                }
                if begun.elapsed() >= RECOVERED {
                    failures = 0;
                }
                failures += 1;
                let wait = back_off(failures);
                self.note(task, &task, how, wait);
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = sleep(wait) => {}
                }
            }
        };
        self.pulsing(task, life).await;
    }

    /// Does `work` with a pulse: if whatever polls it stands still, [`stuck`](Self::stuck) says so.
    /// That it waits for something is no reason.
    pub async fn pulsing<T>(&self, task: &'static str, work: impl Future<Output = T>) -> T {
        self.pulsing_with(task, Arc::default(), work).await
    }

    /// The same for work that computes for as long as tenants make it: it moves as well while
    /// `progress` grows.
    pub async fn pulsing_with<T>(
        &self,
        task: &'static str,
        progress: Arc<AtomicU64>,
        work: impl Future<Output = T>,
    ) -> T {
        let pulse = Arc::new(Pulse::new(progress));
        {
            let mut pulses = locked(&self.0.pulses);
            pulses.retain(|(_, pulse)| pulse.strong_count() > 0);
            pulses.push((task, Arc::downgrade(&pulse)));
        }
        pulse.alongside(work).await
    }

    /// Does `work`; a panic of it is counted and said, and ends here.
    pub fn contain<T>(
        &self,
        task: &'static str,
        failures: &mut u32,
        work: impl FnOnce() -> T,
    ) -> Result<T, Duration> {
        if let Ok(done) = catch_unwind(AssertUnwindSafe(work)) {
            *failures = 0;
            return Ok(done);
        }
        *failures += 1;
        let wait = back_off(*failures);
        self.note(task, &task, EndedHow::Panicked, wait);
        Err(wait)
    }

    /// Something of this task ended that should not have; whoever begins it again has said so.
    pub fn count(&self, task: &'static str) {
        *locked(&self.0.restarts).entry(task).or_default() += 1;
    }

    /// Something of this task ended that should not have, and begins again after this time.
    pub fn note(&self, task: &'static str, what: &dyn Display, how: EndedHow, wait: Duration) {
        self.count(task);
        let again = wait.as_secs();
        // The panic itself, with its place, is in the log already: the hook wrote it.
        tracing::error!(task, what = %what, "{}; again in {again} s", how.text());
    }
}

/// The wait after so many failures in a row.
pub fn back_off(failures: u32) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(LONGEST_WAIT)
}

/// What a panic said.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "keeper/keeper_tests.rs"]
mod tests;
