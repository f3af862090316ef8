//! Live sinks, shared by all inventories.
//!
//! A sink is opened once for each version of its object and Secrets, outside any lock: whoever wants
//! it at the same time waits for the same opening, and nobody else waits at all. A sink that is
//! replaced lives on until the last delivery that uses it has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use kollect_sinks::{
    Sink, SinkError,
    backend::{self, Environment, SinkSeed},
};
use tokio::{sync::OnceCell, time::Instant};

use crate::{Moment, breaker::Breaker, order::SinkSource};

/// Twice the longest interval there is.
const IDLE: Duration = Duration::from_hours(48);

/// What becomes of opening a sink.
pub type Opened = Result<Arc<dyn Sink>, SinkError>;

/// Opens sinks. The operator's way is [`backend::open`]; tests have theirs.
type Opener = dyn Fn(&SinkSource) -> BoxFuture<'static, Opened> + Send + Sync;

/// Live sinks.
pub struct Pool {
    opener: Box<Opener>,
    epoch: Instant,
    entries: Mutex<BTreeMap<String, Entry>>,
}

struct Entry {
    version: u128,
    /// Empty until it is opened; an opening that failed leaves it empty.
    sink: Arc<OnceCell<Arc<dyn Sink>>>,
    breaker: Breaker,
    used: Instant,
}

impl Pool {
    /// Sinks that live in this environment.
    pub fn new(environment: Environment) -> Self {
        let environment = Arc::new(environment);
        Self::with_opener(move |source| {
            let environment = Arc::clone(&environment);
            let seed = SinkSeed {
                key: source.key.clone(),
                spec: Arc::clone(&source.spec),
                materials: (*source.materials).clone(),
            };
            Box::pin(async move { backend::open(seed, &environment).await })
        })
    }

    /// Sinks that `opener` opens.
    pub fn with_opener(
        opener: impl Fn(&SinkSource) -> BoxFuture<'static, Opened> + Send + Sync + 'static,
    ) -> Self {
        Self {
            opener: Box::new(opener),
            epoch: Instant::now(),
            entries: Mutex::default(),
        }
    }

    /// The live sink of an object as it is configured now.
    pub async fn acquire(&self, source: &SinkSource) -> Opened {
        let cell = self.cell(source);
        let sink = cell.get_or_try_init(|| (self.opener)(source)).await?;
        Ok(Arc::clone(sink))
    }

    /// The place of a sink, new if its configuration is.
    fn cell(&self, source: &SinkSource) -> Arc<OnceCell<Arc<dyn Sink>>> {
        let now = Instant::now();
        let mut entries = self.entries();
        entries.retain(|_, entry| now.duration_since(entry.used) < IDLE);
        if let Some(entry) = entries.get_mut(&source.uid)
            && entry.version == source.version
        {
            entry.used = now;
            return Arc::clone(&entry.sink);
        }
        let entry = Entry {
            version: source.version,
            sink: Arc::default(),
            // What made the old configuration fail says nothing about the new one.
            breaker: Breaker::default(),
            used: now,
        };
        let sink = Arc::clone(&entry.sink);
        entries.insert(source.uid.clone(), entry);
        sink
    }

    /// A sink of its own for a probe, so that a probe says something about now.
    pub async fn open(&self, source: &SinkSource) -> Opened {
        (self.opener)(source).await
    }

    /// Whether the backend may be tried now. A backend that keeps failing is left alone for a
    /// while, whichever inventory wants it.
    pub fn admit(&self, source: &SinkSource) -> Result<(), SinkError> {
        let now = self.moment();
        let entries = self.entries();
        match entries.get(&source.uid) {
            Some(entry) if entry.breaker.admit(now).is_err() => Err(SinkError::transient(format!(
                "sink circuit breaker open for \"{}/{}\": the backend failed again and again and is left alone for half a minute",
                source.key.namespace, source.key.name
            ))),
            _ => Ok(()),
        }
    }

    /// Takes note of how a call ended. A failure that needs a change by a person says nothing about
    /// the backend's health.
    pub fn note(&self, source: &SinkSource, result: Result<(), &SinkError>) {
        let now = self.moment();
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&source.uid) else {
            return;
        };
        if entry.version != source.version {
            return;
        }
        match result {
            Ok(()) => entry.breaker.succeeded(),
            Err(SinkError::Transient(_)) => entry.breaker.failed(now),
            Err(_) => {}
        }
    }

    /// Forgets the sinks of objects that are gone.
    pub fn retain(&self, uids: &BTreeSet<String>) {
        self.entries().retain(|uid, _| uids.contains(uid));
    }

    fn moment(&self) -> Moment {
        self.epoch.elapsed()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.entries().keys()).finish()
    }
}
