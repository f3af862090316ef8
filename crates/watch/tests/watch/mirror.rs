//! A consumer that keeps objects by the contract of deliveries: mark, and sweep at the end of a
//! listing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kollect_watch::{Consumer, InterruptionClass, Unreadable, WatchDelivery};
use serde_json::Value;
use tokio::sync::watch;

/// Objects by UID.
pub(crate) type Objects = BTreeMap<String, Value>;

/// The state of a consumer, to look at while the source runs.
#[derive(Clone)]
pub(crate) struct Mirror {
    state: Arc<Mutex<State>>,
    gate: Arc<watch::Sender<Option<usize>>>,
}

#[derive(Default)]
struct State {
    generation: u64,
    rows: BTreeMap<String, (u64, Value)>,
    steps: Vec<Step>,
    unreadable: Vec<Unreadable>,
    taken: usize,
}

/// A delivery that is neither an object nor its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Started,
    Finished(String),
    Progress(String),
    Interrupted(InterruptionClass),
    Resumed,
}

impl Mirror {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::default(),
            gate: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Takes nothing more after `count` objects in all, until opened again.
    pub(crate) fn close_after(&self, count: usize) {
        self.gate.send_replace(Some(count));
    }

    pub(crate) fn open(&self) {
        self.gate.send_replace(None);
    }

    pub(crate) fn objects(&self) -> Objects {
        let state = self.state.lock().unwrap();
        let rows = state.rows.iter();
        rows.map(|(uid, (_, object))| (uid.clone(), object.clone()))
            .collect()
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        self.state.lock().unwrap().steps.clone()
    }

    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        self.state.lock().unwrap().unreadable.clone()
    }

    /// How many objects and deletions were taken.
    pub(crate) fn taken(&self) -> usize {
        self.state.lock().unwrap().taken
    }

    pub(crate) fn interruptions(&self) -> Vec<InterruptionClass> {
        let classes = self.steps().into_iter().filter_map(|step| match step {
            Step::Interrupted(class) => Some(class),
            _ => None,
        });
        classes.collect()
    }

    pub(crate) fn finished_listings(&self) -> usize {
        let steps = self.steps().into_iter();
        steps
            .filter(|step| matches!(step, Step::Finished(_)))
            .count()
    }

    /// Waits until the state satisfies `check`.
    pub(crate) async fn until(&self, what: &str, check: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !check(self) {
            assert!(
                started.elapsed() < Duration::from_secs(90),
                "waited in vain for {what}; steps: {:?}",
                self.steps()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a listing is finished.
    pub(crate) async fn until_listed(&self) {
        self.until("the listing", |mirror| mirror.finished_listings() > 0)
            .await;
    }

    /// Waits for an interruption of this class.
    pub(crate) async fn until_interrupted(&self, class: InterruptionClass) {
        self.until("an interruption", |mirror| {
            mirror.interruptions().contains(&class)
        })
        .await;
    }
}

impl Consumer<Value> for Mirror {
    async fn take(&mut self, delivery: WatchDelivery<Value>) {
        if matches!(
            delivery,
            WatchDelivery::Object(_) | WatchDelivery::Gone { .. }
        ) {
            let taken = self.taken();
            let mut gate = self.gate.subscribe();
            let open = |limit: &Option<usize>| limit.is_none_or(|limit| taken < limit);
            gate.wait_for(open).await.expect("the gate stays");
        }
        self.state.lock().unwrap().take(delivery);
    }
}

impl State {
    fn take(&mut self, delivery: WatchDelivery<Value>) {
        let step = match delivery {
            WatchDelivery::Object(object) => {
                self.taken += 1;
                let uid = object["metadata"]["uid"]
                    .as_str()
                    .expect("a UID")
                    .to_owned();
                self.rows.insert(uid, (self.generation, object));
                return;
            }
            WatchDelivery::Gone { identity, .. } => {
                self.taken += 1;
                self.rows.remove(&identity.uid);
                return;
            }
            WatchDelivery::Unreadable(unreadable) => {
                self.unreadable.push(unreadable);
                return;
            }
            WatchDelivery::ListingStarted => {
                self.generation += 1;
                Step::Started
            }
            WatchDelivery::ListingFinished { resource_version } => {
                let generation = self.generation;
                self.rows.retain(|_, (seen, _)| *seen == generation);
                Step::Finished(resource_version)
            }
            WatchDelivery::Progress { resource_version } => Step::Progress(resource_version),
            WatchDelivery::Interrupted(interruption) => {
                assert!(interruption.failures > 0);
                assert!(!interruption.message.is_empty(), "{interruption:?}");
                // The contract allows it, so the tests rely on it.
                if matches!(
                    interruption.class,
                    InterruptionClass::Forbidden | InterruptionClass::NotInstalled
                ) {
                    self.rows.clear();
                }
                Step::Interrupted(interruption.class)
            }
            WatchDelivery::Resumed => Step::Resumed,
        };
        self.steps.push(step);
    }
}
