//! A few connections, opened when needed and used again.
//!
//! A connection comes back only from work that ended in order. One that was dropped in the middle
//! (the caller gave up, or its task was cancelled) is closed, and the server is told to stop. When
//! a server was lost, the idle connections go too: they lead to the same server.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::session::{Connector, Session};
use crate::error::SinkError;

/// The connections of one sink.
pub(super) struct Pool {
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
}

struct Shared {
    connector: Connector,
    idle: Mutex<Vec<(Session, Instant)>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

/// A connection on loan.
pub(super) struct Lease {
    session: Option<Session>,
    /// It was used before, so it may have died since.
    pub(super) reused: bool,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(connector.dsn.pool.connections)),
            shared: Arc::new(Shared {
                connector,
                idle: Mutex::default(),
            }),
        }
    }

    /// A connection: one that is idle, or a new one. Waits while all are in use.
    pub(super) async fn lease(&self) -> Result<Lease, SinkError> {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let idle = self.shared.take();
        let reused = idle.is_some();
        let session = match idle {
            Some(session) => session,
            None => self.shared.connector.open().await?,
        };
        Ok(Lease {
            session: Some(session),
            reused,
            shared: Arc::clone(&self.shared),
            _permit: permit,
        })
    }

    /// A connection that never was and never will be anybody else's.
    pub(super) async fn open(&self) -> Result<Session, SinkError> {
        self.shared.connector.open().await
    }
}

impl Shared {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Session, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last, after closing those that are dead or too old.
    fn take(&self) -> Option<Session> {
        let limits = self.connector.dsn.pool;
        let mut idle = self.idle();
        idle.retain(|(session, since)| {
            !session.client.is_closed()
                && since.elapsed() < limits.idle
                && session.opened.elapsed() < limits.lifetime
        });
        idle.pop().map(|(session, _)| session)
    }
}

impl Lease {
    pub(super) fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("a lease has a session")
    }

    /// Gives the connection back; it has no transaction open.
    pub(super) fn give_back(mut self) {
        if let Some(session) = self.session.take() {
            self.shared.idle().push((session, Instant::now()));
        }
    }

    /// Closes the connection and all idle ones: the server behind them is lost.
    pub(super) fn abandon(mut self) {
        self.session = None;
        self.shared.idle().clear();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        let stop = session.stop();
        drop(session);
        // Without a runtime the process is about to end, and with it everything that waits.
        if let Ok(runtime) = Handle::try_current() {
            let shared = Arc::clone(&self.shared);
            runtime.spawn(async move { shared.connector.stop(stop).await });
        }
    }
}
