//! Connections that belong to backends, not to sink objects.
//!
//! Two hundred teams with a sink each on one database are one client of that database. So sinks
//! whose way to a backend is the same share a few connections: the same servers, database, user,
//! credentials, trust and address policy, which together are the backend's *identity*.
//!
//! ```text
//! sink ─ identity ─> Registry ─> Pool ─┬─ Places: who may connect next, fair between namespaces
//!   └── Member ────────────────────────┴─ idle connections
//! ```
//!
//! What holds:
//! - Credentials are part of an identity by content. Whoever shares a pool was given the very
//!   credentials that opened its connections, and could have opened them by itself.
//! - A changed Secret is another identity, and another pool. The old one goes with the last sink
//!   that uses it, its idle connections with it.
//! - A pool knows no way to its backend: whoever leases opens, if nothing is idle, in its own name.
//!   So what is limited per namespace (lookups of names) stays so.
//! - No more connections are open than there are places, and idle ones close by themselves.
//! - A connection comes back only from work that ended in order. One that was dropped in the middle
//!   (the caller gave up, or its task was cancelled) is never used again. When a server was lost, the
//!   idle connections go too: they lead to the same server.

mod places;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

pub(crate) use self::places::Held;
use self::places::Places;
use crate::sink::Place;

/// A connection to a backend. Dropping it closes it.
pub(crate) trait Connection: Send + Sized + 'static {
    /// Since when it is open.
    fn opened(&self) -> Instant;

    /// Whether the other side has closed it.
    fn is_closed(&self) -> bool;

    /// Ends it in the middle of some work. Whoever wants the backend to stop working too tells it
    /// so, and lets go of the place afterwards.
    fn cut_off(self, place: Held) {
        drop((self, place));
    }
}

/// How many connections there are, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// At a time.
    pub(crate) connections: usize,
    /// A connection is not used for longer.
    pub(crate) lifetime: Duration,
    /// A connection that nobody uses for so long is closed.
    pub(crate) idle: Duration,
}

/// All pools of one kind of backend.
pub(crate) struct Registry<I, C>(Mutex<Vec<(I, Weak<Pool<C>>)>>);

/// The connections to one backend.
pub(crate) struct Pool<C> {
    limits: Limits,
    places: Places,
    idle: Mutex<Idle<C>>,
}

struct Idle<C> {
    /// The one that was used last is the last one.
    connections: Vec<(C, Instant)>,
    /// Whether somebody looks after their age.
    tended: bool,
}

/// One sink's share of a pool.
pub(crate) struct Member<C> {
    pool: Arc<Pool<C>>,
    user: Arc<str>,
    reserved: Arc<Mutex<Reserved>>,
}

/// Places that are kept for the next calls of a sink. They are all alike.
#[derive(Default)]
struct Reserved {
    held: Vec<Held>,
    /// Callers that were given one, whether or not their call has taken it by now.
    callers: usize,
}

/// A connection on loan.
pub(crate) struct Lease<C: Connection> {
    connection: Option<C>,
    /// It was used before, so it may have died since.
    pub(crate) reused: bool,
    pool: Arc<Pool<C>>,
    place: Option<Held>,
}

impl<I: PartialEq, C: Connection> Registry<I, C> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A share of the pool of this backend, on behalf of a user such as a namespace. Users have
    /// equal rights in a pool.
    ///
    /// Identities are compared, never hashed or printed: they hold credentials.
    pub(crate) fn join(&self, identity: I, limits: Limits, user: &Arc<str>) -> Member<C> {
        let pool = {
            let mut pools = lock(&self.0);
            pools.retain(|(_, pool)| pool.strong_count() > 0);
            let known = pools.iter().find(|(known, _)| *known == identity);
            match known.and_then(|(_, pool)| pool.upgrade()) {
                Some(pool) => pool,
                None => {
                    let pool = Arc::new(Pool::new(limits));
                    pools.push((identity, Arc::downgrade(&pool)));
                    pool
                }
            }
        };
        pool.places.join(user);
        Member {
            pool,
            user: Arc::clone(user),
            reserved: Arc::default(),
        }
    }
}

impl<C: Connection> Pool<C> {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            places: Places::new(limits.connections),
            idle: Mutex::new(Idle {
                connections: Vec::new(),
                tended: false,
            }),
        }
    }

    /// The connection that was used last, after closing those that are dead or too old.
    fn take(&self) -> Option<C> {
        let mut idle = lock(&self.idle);
        self.tidy(&mut idle);
        idle.connections.pop().map(|(connection, _)| connection)
    }

    fn tidy(&self, idle: &mut Idle<C>) {
        idle.connections.retain(|(connection, since)| {
            !connection.is_closed()
                && since.elapsed() < self.limits.idle
                && connection.opened().elapsed() < self.limits.lifetime
        });
    }

    fn keep(self: &Arc<Self>, connection: C) {
        let mut idle = lock(&self.idle);
        idle.connections.push((connection, Instant::now()));
        if idle.tended {
            return;
        }
        // Without a runtime the process is about to end.
        if let Ok(runtime) = Handle::try_current() {
            idle.tended = true;
            runtime.spawn(Self::tend(Arc::downgrade(self), self.limits.idle));
        }
    }

    /// Closes idle connections in time, until there are none.
    async fn tend(pool: Weak<Self>, idle_for: Duration) {
        let mut wait = idle_for;
        loop {
            tokio::time::sleep(wait.max(Duration::from_millis(10))).await;
            let Some(pool) = pool.upgrade() else { return };
            let mut idle = lock(&pool.idle);
            pool.tidy(&mut idle);
            let Some((_, oldest)) = idle.connections.first() else {
                idle.tended = false;
                return;
            };
            wait = idle_for.saturating_sub(oldest.elapsed());
        }
    }
}

impl<C: Connection> Member<C> {
    /// Waits for a place, for the next call. See [`Sink::place`](crate::Sink::place).
    pub(crate) async fn place(&self) -> Place {
        let held = self.pool.places.acquire(&self.user).await;
        let mut reserved = lock(&self.reserved);
        reserved.held.push(held);
        reserved.callers += 1;
        Place::held(Caller(Arc::clone(&self.reserved)))
    }

    /// A connection: one that is idle, or a new one. Waits while all are in use, unless a place is
    /// kept for this sink.
    pub(crate) async fn lease<E>(
        &self,
        open: impl Future<Output = Result<C, E>>,
    ) -> Result<Lease<C>, E> {
        let reserved = lock(&self.reserved).held.pop();
        let place = match reserved {
            Some(place) => place,
            None => self.pool.places.acquire(&self.user).await,
        };
        let idle = self.pool.take();
        let reused = idle.is_some();
        let connection = match idle {
            Some(connection) => connection,
            None => open.await?,
        };
        Ok(Lease {
            connection: Some(connection),
            reused,
            pool: Arc::clone(&self.pool),
            place: Some(place),
        })
    }
}

impl<C: Connection> Member<C> {
    /// A connection that never was and never will be anybody else's, such as a probe's. It counts as
    /// the others do, unless all places are taken for `patience`: then it is opened beside them.
    pub(crate) async fn alone<E>(
        &self,
        patience: Duration,
        open: impl Future<Output = Result<C, E>>,
    ) -> Result<Alone<C>, E> {
        let waiting = timeout(patience, self.pool.places.acquire(&self.user));
        let place = waiting.await.ok();
        if place.is_some() {
            let held = self.pool.places.held();
            let room = self.pool.limits.connections.saturating_sub(held);
            let mut idle = lock(&self.pool.idle);
            let spare = idle.connections.len().saturating_sub(room);
            idle.connections.drain(..spare);
        }
        Ok(Alone {
            connection: open.await?,
            _place: place,
        })
    }
}

/// A connection for one purpose.
pub(crate) struct Alone<C> {
    pub(crate) connection: C,
    _place: Option<Held>,
}

impl<C> Drop for Member<C> {
    fn drop(&mut self) {
        self.pool.places.leave(&self.user);
    }
}

impl<C> fmt::Debug for Member<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").finish_non_exhaustive()
    }
}

/// Somebody for whom a place is kept. Goes when its call has ended, or will never begin.
struct Caller(Arc<Mutex<Reserved>>);

impl Drop for Caller {
    fn drop(&mut self) {
        let mut reserved = lock(&self.0);
        reserved.callers = reserved.callers.saturating_sub(1);
        // More than there are callers left: one of them was not needed.
        let left = reserved.held.len().min(reserved.callers);
        let unused = reserved.held.split_off(left);
        drop(reserved);
        drop(unused);
    }
}

impl<C: Connection> Lease<C> {
    pub(crate) fn connection(&mut self) -> &mut C {
        self.connection.as_mut().expect("a lease has a connection")
    }

    /// Gives the connection back; it is as good as new.
    pub(crate) fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.keep(connection);
        }
    }

    /// Closes the connection and all idle ones: the server behind them is lost.
    pub(crate) fn abandon(mut self) {
        self.connection = None;
        lock(&self.pool.idle).connections.clear();
    }
}

impl<C: Connection> Drop for Lease<C> {
    fn drop(&mut self) {
        if let (Some(connection), Some(place)) = (self.connection.take(), self.place.take()) {
            connection.cut_off(place);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
