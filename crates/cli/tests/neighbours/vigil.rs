//! Threads that look at the operator all the time: its probes, its lease, the good inventory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use kollect_testkit::http;

use crate::stage::{LEASE, SYSTEM, Stage, conditions, path};

/// What was seen.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) probes: [Seen; 2],
    pub(crate) lease: Seen,
    pub(crate) inventory: Seen,
}

/// What one thread saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) looks: usize,
    /// The longest answer of a probe, or the oldest renewal of the lease.
    pub(crate) longest: Duration,
    /// How often something was not as it should be.
    pub(crate) failures: usize,
    /// What, the first few times.
    pub(crate) wrong: Vec<String>,
}

impl Seen {
    fn note(&mut self, look: Result<Duration>) {
        self.looks += 1;
        match look {
            Ok(took) => self.longest = self.longest.max(took),
            Err(error) => {
                self.failures += 1;
                if self.wrong.len() < 3 {
                    self.wrong.push(format!("{error:#}"));
                }
            }
        }
    }
}

/// The threads.
pub(crate) struct Vigil {
    stop: Arc<AtomicBool>,
    probes: [thread::JoinHandle<Seen>; 2],
    lease: thread::JoinHandle<Seen>,
    inventory: thread::JoinHandle<Seen>,
}

const PROBE_PERIOD: Duration = Duration::from_millis(250);
const PERIOD: Duration = Duration::from_secs(1);

impl Vigil {
    /// Begins; each thread waits first until what it looks at is good.
    pub(crate) fn begin(stage: &Stage, namespace: &str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let health = http::Client::plain(stage.health_port);
        let probe = |path: &'static str| {
            let health = health.clone();
            look(&stop, PROBE_PERIOD, move || {
                let begun = Instant::now();
                let answer = health.request("GET", path, None)?;
                ensure!(answer.is_success(), "{path} says {}", answer.status);
                Ok(begun.elapsed())
            })
        };
        let (probes, lease) = ([probe("/healthz"), probe("/readyz")], stage.api()?);
        let (inventory, api) = (path(namespace, "kollectinventories", "inv"), stage.api()?);
        Ok(Self {
            probes,
            lease: look(&stop, PERIOD, move || renewed(&lease)),
            inventory: look(&stop, PERIOD, move || {
                let told = conditions(&api.get(&inventory)?["status"]);
                let ready = told.iter().any(|line| line.starts_with("Ready=True/"));
                ensure!(ready, "the good inventory says {told:?}");
                Ok(Duration::ZERO)
            }),
            stop,
        })
    }

    /// Ends and tells.
    pub(crate) fn end(self) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        let seen = |thread: thread::JoinHandle<Seen>| thread.join().expect("no panic");
        Watched {
            probes: self.probes.map(seen),
            lease: seen(self.lease),
            inventory: seen(self.inventory),
        }
    }
}

/// How long ago the lease was renewed. Wrong if that is too long, or if it ever changed hands.
fn renewed(api: &http::Client) -> Result<Duration> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases");
    let list = api.get(&path)?;
    let spec = &list["items"][0]["spec"];
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    ensure!(!holder.is_empty(), "nobody holds the lease");
    let transitions = spec["leaseTransitions"].as_i64().unwrap_or_default();
    ensure!(transitions == 0, "{transitions} transitions");
    let renewed: Timestamp = spec["renewTime"].as_str().context("a time")?.parse()?;
    let age = Duration::try_from(Timestamp::now().duration_since(renewed)).unwrap_or_default();
    ensure!(age < LEASE, "renewed {age:?} ago");
    Ok(age)
}

/// Looks again and again. Nothing counts before the first good look.
fn look(
    stop: &Arc<AtomicBool>,
    period: Duration,
    mut once: impl FnMut() -> Result<Duration> + Send + 'static,
) -> thread::JoinHandle<Seen> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut seen = Seen::default();
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let look = once();
            if seen.looks > 0 || look.is_ok() {
                seen.note(look);
            }
            thread::sleep(period.saturating_sub(begun.elapsed()));
        }
        seen
    })
}
