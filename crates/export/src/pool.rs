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
    Census, Sink, SinkError,
    backend::{self, Environment, SinkSeed},
};
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

use crate::{
    Moment,
    breaker::{Admitted, Breaker},
    order::SinkSource,
};

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
    entries: Arc<Mutex<Entries>>,
    /// Counts the sinks that were found to work again.
    reopenings: watch::Sender<u64>,
    census: Arc<Census>,
}

type Entries = BTreeMap<String, Entry>;

struct Entry {
    version: u128,
    /// Empty until it is opened; an opening that failed leaves it empty.
    sink: Arc<OnceCell<Arc<dyn Sink>>>,
    breaker: Breaker,
    /// The last reopening that was about this sink.
    reopened: u64,
    used: Instant,
}

/// Permission of the breaker to try a backend. Dropped without a word, it says nothing about the
/// backend's health.
pub(crate) struct Admission {
    entries: Arc<Mutex<Entries>>,
    uid: String,
    version: u128,
    admitted: Admitted,
    begun: Instant,
    epoch: Instant,
    noted: bool,
}

/// A backend is left alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeftAlone {
    pub(crate) error: SinkError,
    /// For how much longer.
    pub(crate) wait: Duration,
}

impl Pool {
    /// Sinks that live in this environment.
    pub fn new(environment: Environment) -> Self {
        let census = Arc::clone(&environment.census);
        let environment = Arc::new(environment);
        let pool = Self::with_opener(move |source| {
            let environment = Arc::clone(&environment);
            let seed = SinkSeed {
                key: source.key.clone(),
                spec: Arc::clone(&source.spec),
                materials: (*source.materials).clone(),
            };
            Box::pin(async move { backend::open(seed, &environment).await })
        });
        Self { census, ..pool }
    }

    /// Who is there to own something at a sink.
    pub fn census(&self) -> &Census {
        &self.census
    }

    /// Sinks that `opener` opens.
    pub fn with_opener(
        opener: impl Fn(&SinkSource) -> BoxFuture<'static, Opened> + Send + Sync + 'static,
    ) -> Self {
        Self {
            opener: Box::new(opener),
            epoch: Instant::now(),
            entries: Arc::default(),
            reopenings: watch::channel(0).0,
            census: Arc::default(),
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
            reopened: 0,
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
    /// while, whichever inventory wants it; then one attempt shows whether it is back.
    pub(crate) fn admit(&self, source: &SinkSource) -> Result<Admission, LeftAlone> {
        let now = self.moment();
        let mut entries = self.entries();
        let entry = entries.get_mut(&source.uid);
        let admitted = match entry.filter(|entry| entry.version == source.version) {
            Some(entry) => entry.breaker.admit(now),
            None => Ok(Admitted::Freely),
        };
        let admitted = admitted.map_err(|until| left_alone(source, until.saturating_sub(now)))?;
        Ok(Admission {
            entries: Arc::clone(&self.entries),
            uid: source.uid.clone(),
            version: source.version,
            admitted,
            begun: Instant::now(),
            epoch: self.epoch,
            noted: false,
        })
    }

    /// What [`admit`](Self::admit) would say.
    pub(crate) fn look(&self, source: &SinkSource) -> Result<(), LeftAlone> {
        let now = self.moment();
        let entries = self.entries();
        let entry = entries.get(&source.uid);
        match entry.filter(|entry| entry.version == source.version) {
            Some(entry) => entry.breaker.look(now),
            None => Ok(()),
        }
        .map_err(|until| left_alone(source, until.saturating_sub(now)))
    }

    /// Whether the backend let the last call wait in vain.
    pub(crate) fn is_doubtful(&self, source: &SinkSource) -> bool {
        let entries = self.entries();
        let entry = entries.get(&source.uid);
        entry.is_some_and(|entry| entry.version == source.version && entry.breaker.is_doubtful())
    }

    /// Something other than a delivery has shown that a sink works, or somebody says so: its
    /// breaker closes, and whoever waits for it need not wait any longer.
    pub fn reopen(&self, uid: &str) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(uid) else {
            return;
        };
        entry.breaker.succeeded();
        let number = *self.reopenings.borrow() + 1;
        entry.reopened = number;
        self.reopenings.send_replace(number);
    }

    /// Changes when sinks are reopened.
    pub(crate) fn reopenings(&self) -> watch::Receiver<u64> {
        self.reopenings.subscribe()
    }

    /// The last reopening of a sink; zero for none.
    pub(crate) fn reopened(&self, uid: &str) -> u64 {
        self.entries().get(uid).map_or(0, |entry| entry.reopened)
    }

    /// Forgets the sinks of objects that are gone.
    pub fn retain(&self, uids: &BTreeSet<String>) {
        self.entries().retain(|uid, _| uids.contains(uid));
    }

    fn moment(&self) -> Moment {
        self.epoch.elapsed()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        lock(&self.entries)
    }
}

fn lock(entries: &Mutex<Entries>) -> MutexGuard<'_, Entries> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

fn left_alone(source: &SinkSource, wait: Duration) -> LeftAlone {
    let SinkSource { key, .. } = source;
    LeftAlone {
        error: SinkError::transient(format!(
            "sink circuit breaker open for \"{}/{}\": the backend failed again and again and is left alone for half a minute",
            key.namespace, key.name
        )),
        wait,
    }
}

impl Admission {
    /// How the call ended. A failure that needs a change by a person says nothing about the
    /// backend's health.
    pub(crate) fn note(mut self, result: Result<(), &SinkError>) {
        self.noted = true;
        let (took, now) = (self.begun.elapsed(), self.epoch.elapsed());
        let admitted = self.admitted;
        self.with_breaker(|breaker| match result {
            Ok(()) => breaker.succeeded(),
            Err(SinkError::Transient(_)) => breaker.failed(admitted, took, now),
            Err(_) => breaker.abandoned(admitted),
        });
    }

    fn with_breaker(&self, note: impl FnOnce(&mut Breaker)) {
        let mut entries = lock(&self.entries);
        let entry = entries.get_mut(&self.uid);
        if let Some(entry) = entry.filter(|entry| entry.version == self.version) {
            note(&mut entry.breaker);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.noted {
            self.with_breaker(|breaker| breaker.abandoned(self.admitted));
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.entries().keys()).finish()
    }
}
