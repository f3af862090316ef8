//! The tasks of a client, which end with it.
//!
//! hyper drives each connection in a task of its own, also one whose peer reads nothing and never
//! hangs up. Whoever drops the client wants none of them any more.

use std::{
    future::Future,
    sync::{Mutex, PoisonError, Weak},
};

use tokio::task::JoinSet;

/// What runs for one client; it is stopped when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<JoinSet<()>>);

/// Starts tasks for a client. Does not keep it alive: connections hold this too.
#[derive(Debug, Clone)]
pub(super) struct Executor(pub(super) Weak<Tasks>);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        let Some(tasks) = self.0.upgrade() else {
            return;
        };
        let mut tasks = tasks.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            task.await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use hyper::rt::Executor as _;

    use super::*;

    #[tokio::test]
    async fn tasks_end_with_their_keeper_and_finished_ones_are_forgotten() {
        let tasks = Arc::new(Tasks::default());
        let executor = Executor(Arc::downgrade(&tasks));
        let (held, end) = tokio::sync::oneshot::channel::<()>();
        executor.execute(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        for _ in 0..1000 {
            executor.execute(async {});
            tokio::task::yield_now().await;
        }
        assert!(tasks.0.lock().unwrap().len() < 10);
        drop(tasks);
        let ended = tokio::time::timeout(Duration::from_secs(30), end).await;
        assert!(ended.expect("it ends").is_err());
        executor.execute(async { unreachable!("there is nobody to run it for") });
    }
}
