//! The one way by which objects are written: beside the control loops, in their turn.
//!
//! A write waits for the API server, and a loop must not: one object whose write hangs would hold
//! up all others. So writes are tasks, at most one per object at a time and a few altogether. A
//! write that failed is not repeated at once: each object has its own [`pace`]. The loop is told
//! how each ended, and asks again for what is still to be written.
//!
//! What is asked for later replaces what has not begun yet: only the newest content is worth a
//! request. While a write of the object is under way, what is asked for is not kept, because it was
//! computed from what the object was before; the loop is told, and computes it anew.
//!
//! Each request has a deadline of its own, see [`crate::writer`].

pub mod pace;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    future::{Future, pending},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{Id, JoinSet},
    time::{Instant, sleep_until, timeout},
};

use self::pace::{WriteFailure, WritePace};
use crate::{
    events::Events,
    writer::{DEADLINE, WriteError},
};

/// How many writes run at the same time, whoever asks for them.
const PARALLEL: usize = 8;

/// What all writers of a process share: the right to write, a few times at once, and the one who
/// tells of events.
#[derive(Debug, Clone)]
pub struct WriteSlots {
    places: Arc<Semaphore>,
    events: Events,
    /// How many writes have not begun.
    waiting: Arc<AtomicU64>,
}

impl WriteSlots {
    /// The slots of a process that tells of its events here.
    pub fn new(events: Events) -> Self {
        Self {
            places: Arc::new(Semaphore::new(PARALLEL)),
            events,
            waiting: Arc::default(),
        }
    }

    /// Where events are told.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// How many writes have not begun, whoever asked for them.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Counts for as long as it lives.
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn new(number: &Arc<AtomicU64>) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(number))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for WriteSlots {
    fn default() -> Self {
        Self::new(Events::default())
    }
}

type Write<T> = Pin<Box<dyn Future<Output = Result<T, WriteError>> + Send>>;

/// A write that has not begun.
struct Waiting<T> {
    /// The version of the object that it is based on.
    version: Option<String>,
    /// Its place in the queue: the one whose object was asked for first is first.
    place: u64,
    write: Write<T>,
    _counted: Counted,
}

/// A write that has begun.
struct UnderWay<K> {
    key: K,
    version: Option<String>,
    /// Something else was asked for meanwhile.
    superseded: bool,
}

/// How a write ended.
#[derive(Debug)]
pub struct EndedWrite<K, T> {
    /// Which object.
    pub key: K,
    /// What came of it.
    pub result: Result<T, WriteError>,
    /// Something else was to be written meanwhile: it is to be computed anew.
    pub superseded: bool,
}

/// Writes of many objects, each known by a key. Dropping it breaks them off.
pub struct WriteQueue<K, T> {
    slots: WriteSlots,
    waiting: BTreeMap<K, Waiting<T>>,
    under_way: HashMap<Id, UnderWay<K>>,
    tasks: JoinSet<Result<T, WriteError>>,
    paces: BTreeMap<K, WritePace>,
    places: u64,
}

impl<K: Clone + Ord + Display, T: Send + 'static> WriteQueue<K, T> {
    /// An empty queue.
    pub fn new(slots: WriteSlots) -> Self {
        Self {
            slots,
            waiting: BTreeMap::new(),
            under_way: HashMap::new(),
            tasks: JoinSet::new(),
            paces: BTreeMap::new(),
            places: 0,
        }
    }

    /// Asks for an object to be written, based on this version of it. Replaces what was asked for
    /// before and has not begun.
    pub fn submit(
        &mut self,
        key: K,
        version: Option<String>,
        write: impl Future<Output = Result<T, WriteError>> + Send + 'static,
    ) {
        if self.defer(&key) {
            return;
        }
        self.places += 1;
        let before = self.waiting.get(&key);
        let place = before.map_or(self.places, |waiting| waiting.place);
        let write: Write<T> = Box::pin(write);
        let waiting = Waiting {
            version,
            place,
            write,
            _counted: Counted::new(&self.slots.waiting),
        };
        self.waiting.insert(key, waiting);
        self.begin_what_may();
    }

    /// There is nothing to write about an object any more.
    pub fn withdraw(&mut self, key: &K) {
        self.waiting.remove(key);
    }

    /// Nothing is to be written any more. What is under way goes on.
    pub fn withdraw_all(&mut self) {
        self.waiting.clear();
    }

    /// Forgets the objects for which this does not hold.
    pub fn retain(&mut self, holds: impl Fn(&K) -> bool) {
        self.waiting.retain(|key, _| holds(key));
        self.paces.retain(|key, _| holds(key));
    }

    /// Whether an object is being written. If it is, what there is to write about it is to be
    /// computed when that has ended.
    pub fn defer(&mut self, key: &K) -> bool {
        let under_way = self.under_way.values_mut().find(|known| known.key == *key);
        under_way
            .map(|under_way| under_way.superseded = true)
            .is_some()
    }

    /// Waits for the next write to end. Waits for ever while there is none; may be given up at any
    /// time.
    pub async fn next(&mut self) -> EndedWrite<K, T> {
        loop {
            self.begin_what_may();
            let now = Instant::now();
            let due = self.first_due(now).map(|(at, _)| at);
            let slots = Arc::clone(&self.slots.places);
            let slot = async move {
                match due {
                    // Others have all of them. What is handed over is used, not tried for again:
                    // two queues could go on handing it to each other.
                    Some(at) if at <= now => slots.acquire_owned().await.ok(),
                    Some(at) => {
                        sleep_until(at).await;
                        None
                    }
                    None => pending().await,
                }
            };
            let ended = async {
                match self.tasks.join_next_with_id().await {
                    Some(ended) => ended,
                    None => pending().await,
                }
            };
            let ended = tokio::select! {
                ended = ended => ended,
                slot = slot => {
                    if let (Some(slot), Some((_, key))) = (slot, self.first_due(now)) {
                        self.begin(key, slot);
                    }
                    continue;
                }
            };
            let (id, result) = match ended {
                Ok((id, result)) => (id, result),
                Err(error) => (error.id(), Err(WriteError::Panicked)),
            };
            if let Some(under_way) = self.under_way.remove(&id) {
                return self.note(under_way, result);
            }
        }
    }

    /// Begins nothing new, and waits for what is under way, within the deadline of a request.
    pub async fn finish(&mut self) {
        self.withdraw_all();
        let end = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(DEADLINE, end).await;
    }

    fn note(&mut self, under_way: UnderWay<K>, result: Result<T, WriteError>) -> EndedWrite<K, T> {
        let UnderWay {
            key,
            version,
            superseded,
        } = under_way;
        match &result {
            Ok(_) => {
                self.paces.remove(&key);
            }
            Err(error) => {
                let (outdated, pushed_back) = (error.is_outdated(), error.is_pushed_back());
                let failure = if outdated {
                    WriteFailure::Outdated(version)
                } else if pushed_back {
                    WriteFailure::PushedBack
                } else {
                    WriteFailure::Other
                };
                let pace = self.paces.entry(key.clone()).or_default();
                let wait = pace.failed(failure, fastrand::u16(..=1_000), Instant::now());
                if outdated {
                    tracing::debug!(object = %key, %error, "outdated; writing again");
                } else if pushed_back {
                    // It is said once, for all objects, by whoever talks to the API server.
                    tracing::debug!(object = %key, %error, "pushed back; writing again later");
                } else {
                    let seconds = wait.as_secs().max(1);
                    tracing::warn!(object = %key, %error, "cannot write; trying again in {seconds} s");
                }
            }
        }
        EndedWrite {
            key,
            result,
            superseded,
        }
    }

    /// Begins the writes whose time has come, while there are slots.
    fn begin_what_may(&mut self) {
        let now = Instant::now();
        while self.slots.places.available_permits() > 0
            && let Some((at, key)) = self.first_due(now)
            && at <= now
            && let Ok(slot) = Arc::clone(&self.slots.places).try_acquire_owned()
        {
            self.begin(key, slot);
        }
    }

    fn begin(&mut self, key: K, slot: OwnedSemaphorePermit) {
        let Some(waiting) = self.waiting.remove(&key) else {
            return;
        };
        let write = waiting.write;
        let task = self.tasks.spawn(async move {
            let result = write.await;
            drop(slot);
            result
        });
        let under_way = UnderWay {
            key,
            version: waiting.version,
            superseded: false,
        };
        self.under_way.insert(task.id(), under_way);
    }

    /// The write that may begin first, and when.
    fn first_due(&self, now: Instant) -> Option<(Instant, K)> {
        let due = self.waiting.iter().map(|(key, waiting)| {
            let pace = self.paces.get(key);
            let at = pace.map_or(now, |pace| pace.begins_at(waiting.version.as_deref(), now));
            (at, waiting.place, key)
        });
        let first = due.min_by_key(|(at, place, _)| (*at, *place));
        first.map(|(at, _, key)| (at, key.clone()))
    }
}

#[cfg(test)]
#[path = "write_queue/queue_tests.rs"]
mod tests;
