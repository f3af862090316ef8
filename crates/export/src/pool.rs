//! Live sinks, one per sink object, shared by all inventories that use it.
//!
//! A sink is built once and used until its spec or one of its Secrets changes, the object goes, or
//! nobody has used it for two days. Building does no I/O, so it happens under the lock and never
//! twice. A sink that is replaced lives on until the last delivery that uses it has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kollect_sinks::{
    Sink, SinkError,
    build::{Environment, build},
};
use tokio::time::Instant;

use crate::{Moment, breaker::Breaker, order::SinkSource};

/// Twice the longest interval there is.
const IDLE: Duration = Duration::from_hours(48);

/// Makes sinks. The operator's way is [`build`]; tests have theirs.
pub type Builder = dyn Fn(&SinkSource) -> Result<Arc<dyn Sink>, SinkError> + Send + Sync;

/// Live sinks.
pub struct Pool {
    builder: Box<Builder>,
    epoch: Instant,
    entries: Mutex<BTreeMap<String, Entry>>,
}

struct Entry {
    version: u128,
    sink: Arc<dyn Sink>,
    breaker: Breaker,
    used: Instant,
}

impl Pool {
    /// Sinks that live in this environment.
    pub fn new(environment: Environment) -> Self {
        Self::with_builder(move |source| {
            build(
                &source.key.name,
                &source.key.namespace,
                &source.spec,
                (*source.materials).clone(),
                &environment,
            )
        })
    }

    /// Sinks that `builder` makes.
    pub fn with_builder(
        builder: impl Fn(&SinkSource) -> Result<Arc<dyn Sink>, SinkError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            builder: Box::new(builder),
            epoch: Instant::now(),
            entries: Mutex::default(),
        }
    }

    /// The live sink of an object as it is configured now.
    pub fn acquire(&self, source: &SinkSource) -> Result<Arc<dyn Sink>, SinkError> {
        let now = Instant::now();
        let mut entries = self.entries();
        entries.retain(|_, entry| now.duration_since(entry.used) < IDLE);
        if let Some(entry) = entries.get_mut(&source.uid)
            && entry.version == source.version
        {
            entry.used = now;
            return Ok(Arc::clone(&entry.sink));
        }
        let sink = (self.builder)(source)?;
        let entry = Entry {
            version: source.version,
            sink: Arc::clone(&sink),
            // What made the old configuration fail says nothing about the new one.
            breaker: Breaker::default(),
            used: now,
        };
        entries.insert(source.uid.clone(), entry);
        Ok(sink)
    }

    /// A sink of its own for a probe, so that a probe says something about now.
    pub fn build(&self, source: &SinkSource) -> Result<Arc<dyn Sink>, SinkError> {
        (self.builder)(source)
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
