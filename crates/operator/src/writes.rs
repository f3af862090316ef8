//! Writes that run beside the control loop.
//!
//! A write waits for the API server, and the loop must not: one object whose write hangs would hold
//! up the plan of all others. So writes are tasks, at most one per object at a time and a few
//! altogether, each with a deadline, and the loop is told how they ended.

use std::{
    collections::{BTreeSet, HashMap},
    future::{Future, pending},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    task::{Id, JoinSet},
    time::timeout,
};

/// How many writes run at the same time.
const PARALLEL: usize = 8;
/// How long one request may take.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API server did not answer in time. The write may have happened.
    #[error("the API server gave no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// It was refused, or never arrived.
    #[error(transparent)]
    Refused(#[from] kube::Error),
}

/// Makes a request with the deadline of all writes.
pub async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    match timeout(DEADLINE, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(WriteError::Late(DEADLINE)),
    }
}

/// Writes under way, by the key of their object. Dropping it breaks them off.
#[derive(Debug)]
pub struct Writes<K, T> {
    tasks: JoinSet<T>,
    keys: HashMap<Id, K>,
    under_way: BTreeSet<K>,
    permits: Arc<Semaphore>,
}

impl<K, T: 'static> Default for Writes<K, T> {
    fn default() -> Self {
        Self {
            tasks: JoinSet::new(),
            keys: HashMap::new(),
            under_way: BTreeSet::new(),
            permits: Arc::new(Semaphore::new(PARALLEL)),
        }
    }
}

impl<K: Clone + Ord, T: Send + 'static> Writes<K, T> {
    /// Begins a write. There must be none for the key.
    pub fn begin(&mut self, key: K, write: impl Future<Output = T> + Send + 'static) {
        let permits = Arc::clone(&self.permits);
        let task = self.tasks.spawn(async move {
            // Nobody closes the semaphore; without it a write would still be a write.
            let _permit = permits.acquire_owned().await;
            write.await
        });
        self.keys.insert(task.id(), key.clone());
        self.under_way.insert(key);
    }

    /// Whether an object is being written.
    pub fn is_under_way(&self, key: &K) -> bool {
        self.under_way.contains(key)
    }

    /// Waits for the next write to end: how, or nothing if it panicked. Waits for ever while there
    /// is none; may be given up at any time.
    pub async fn next(&mut self) -> (K, Option<T>) {
        loop {
            let (id, outcome) = match self.tasks.join_next_with_id().await {
                Some(Ok((id, outcome))) => (id, Some(outcome)),
                Some(Err(error)) => (error.id(), None),
                None => pending().await,
            };
            if let Some(key) = self.keys.remove(&id) {
                self.under_way.remove(&key);
                return (key, outcome);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{sync::oneshot, time::sleep};

    #[tokio::test]
    async fn one_that_hangs_holds_up_nobody_else() {
        let mut writes = Writes::default();
        let (release, hangs) = oneshot::channel::<()>();
        writes.begin("slow", async move {
            let _ = hangs.await;
            0
        });
        writes.begin("fast", async { 1 });
        assert_eq!(writes.next().await, ("fast", Some(1)));
        assert!(writes.is_under_way(&"slow") && !writes.is_under_way(&"fast"));
        release.send(()).unwrap();
        assert_eq!(writes.next().await, ("slow", Some(0)));
        let idle = timeout(Duration::from_millis(20), writes.next()).await;
        assert!(idle.is_err(), "there is nothing to wait for");
    }

    #[tokio::test]
    async fn a_panic_is_the_end_of_one_write() {
        let mut writes: Writes<_, u8> = Writes::default();
        writes.begin("bad", async { panic!("a panic for the test") });
        assert_eq!(writes.next().await, ("bad", None));
        writes.begin("bad", async { 2 });
        assert_eq!(writes.next().await, ("bad", Some(2)));
    }

    #[tokio::test]
    async fn only_some_run_at_once() {
        let mut writes = Writes::default();
        let running = Arc::new(Semaphore::new(PARALLEL));
        for key in 0..4 * PARALLEL {
            let running = Arc::clone(&running);
            writes.begin(key, async move {
                let alone = running.try_acquire_owned();
                sleep(Duration::from_millis(5)).await;
                alone.is_ok()
            });
        }
        for _ in 0..4 * PARALLEL {
            assert_eq!(writes.next().await.1, Some(true));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_ends() {
        let error = in_time(pending::<kube::Result<()>>()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the API server gave no answer within 10 s"
        );
    }
}
