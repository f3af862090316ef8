//! Probes: whether sinks can be reached, before somebody finds out by a failed export.
//!
//! A sink is probed when the operator starts, when its spec or one of its Secrets changes, when
//! somebody asks for it, and now and then. A probe that fails is repeated, sooner at first.
//! [`crate::connection_tests`] are probes that somebody asks for with an object of their own.

pub mod status;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::{
    KollectDatabaseSink, KollectEventSink, KollectSnapshotSink, SinkKey,
    condition::Condition,
    effective, meta,
    reference::SinkFamily,
    sink::{SinkStatus, SinkType},
};
use kollect_collect::gates::Version;
use kollect_export::{
    Jitter, SinkSource,
    retry::{self, FailureClass},
};
use kollect_sinks::SinkError;
use kube::Client;
use tokio::{runtime::Handle, task::JoinSet, time::Instant};

use self::status::{ProbeVerdict, Probed};
use crate::{
    control_loop::{ControlLoop, PassCause, earliest},
    events::{self, Events},
    keeper::{Attempt, Bulkhead, Keeper},
    sink_objects::{Access, SinkObject, SinkObjects},
    status_pace::{News, PAUSE, StatusPace},
    write_queue::{EndedWrite, WriteQueue, WriteSlots},
    writer::{self, ApiOf, WriteError},
};

/// A probe that takes longer has failed.
pub const DEADLINE: Duration = Duration::from_secs(15);
/// How often a sink is probed that was fine.
const AGAIN: Duration = Duration::from_mins(15);
/// How many quick probes run at a time.
pub const PARALLEL: usize = 8;

/// Is told of every probe.
pub trait ProbeObserver: Send + Sync {
    /// A probe of a sink of this type ended.
    fn probed(&self, sink: SinkType, success: bool);
}

/// Runs probes.
pub struct Prober {
    /// Where sinks are built, in fair turns.
    pub calls: Arc<kollect_export::Calls>,
    /// Who counts.
    pub observer: Arc<dyn ProbeObserver>,
    runtime: Handle,
}

impl Prober {
    /// Builds sinks with the pool of `calls`, but none that a delivery uses. Probes run in the
    /// runtime that calls this.
    pub fn new(calls: Arc<kollect_export::Calls>, observer: Arc<dyn ProbeObserver>) -> Self {
        Self {
            calls,
            observer,
            runtime: Handle::current(),
        }
    }

    /// Where probes are to be spawned: a sink may hold up who calls it.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Probes a sink, within the deadline. Exports to a sink that works need not wait any longer.
    pub async fn probe(&self, source: &SinkSource) -> Result<String, SinkError> {
        let result = self.calls.probe(source, DEADLINE).await;
        self.observer
            .probed(source.spec.sink_type(), result.is_ok());
        result
    }
}

/// What is known of one sink.
#[derive(Debug)]
struct KnownSink {
    uid: String,
    /// What the last probe was about: the generation and the version of spec and Secrets.
    probed: Option<(Option<i64>, u128)>,
    verdict: Option<ProbeVerdict>,
    under_way: bool,
    failures: u32,
    next: Instant,
    written: Option<Written>,
    pace: StatusPace,
    /// What somebody asks for with annotations.
    request: Option<String>,
    /// What the last probe was an answer to.
    answered: Option<String>,
}

/// What was written last.
#[derive(Debug)]
pub struct Written {
    /// The version of the object that it made. While the watch shows an older one, what was written
    /// is better known than what is shown.
    version: Option<String>,
    status: Box<SinkStatus>,
    news: News,
    /// The annotation that asked for a probe was taken off.
    answered: bool,
}

/// Keeps the conditions of sinks true.
pub struct Probes {
    client: Client,
    sinks: Arc<SinkObjects>,
    prober: Arc<Prober>,
    known: BTreeMap<SinkKey, KnownSink>,
    probing: JoinSet<EndedProbe>,
    writes: WriteQueue<SinkKey, Written>,
    events: Events,
    bulkhead: Bulkhead<SinkKey>,
}

/// How a probe ended.
pub struct EndedProbe {
    key: SinkKey,
    about: (Option<i64>, u128),
    request: Option<String>,
    result: Result<String, SinkError>,
}

/// What ended beside the loop.
pub enum Ended {
    /// A probe; nothing is known of one that panicked.
    Probe(Option<EndedProbe>),
    /// A write.
    Write(EndedWrite<SinkKey, Written>),
    /// An export failed in a way that casts doubt on the last probe.
    Doubt,
}

impl Probes {
    /// Probes the sinks of the configuration.
    pub fn new(
        client: Client,
        sinks: Arc<SinkObjects>,
        prober: Arc<Prober>,
        slots: WriteSlots,
        keeper: &Keeper,
    ) -> Self {
        Self {
            client,
            sinks,
            prober,
            known: BTreeMap::new(),
            probing: JoinSet::new(),
            events: slots.events().clone(),
            writes: WriteQueue::new(slots),
            bulkhead: Bulkhead::new(keeper.clone(), "sink"),
        }
    }
}

impl ControlLoop for Probes {
    type Ended = Ended;
    const CONTROLLERS: &'static [&'static str] = &[
        "kollectsnapshotsink",
        "kollectdatabasesink",
        "kollecteventsink",
    ];

    fn failed_write(ended: &Ended) -> Option<&'static str> {
        let Ended::Write(write) = ended else {
            return None;
        };
        write.result.as_ref().err()?;
        Some(match write.key.family {
            SinkFamily::Snapshot => "kollectsnapshotsink",
            SinkFamily::Database => "kollectdatabasesink",
            SinkFamily::Event => "kollecteventsink",
        })
    }

    fn pass(&mut self, _: PassCause) -> Option<Instant> {
        let all = self.sinks.all();
        self.known.retain(|key, known| {
            all.iter()
                .any(|sink| sink.key == *key && uid(sink) == known.uid)
        });
        self.writes.retain(|key| self.known.contains_key(key));
        let known = &self.known;
        self.bulkhead.retain(|key| known.contains_key(key));
        let mut wake = None;
        for sink in &all {
            if sink.meta.deletion_timestamp.is_none() {
                wake = earliest(wake, self.contained(sink));
            } else {
                self.writes.withdraw(&sink.key);
            }
        }
        wake
    }

    async fn next(&mut self) -> Ended {
        tokio::select! {
            Some(probe) = self.probing.join_next() => Ended::Probe(probe.ok()),
            write = self.writes.next() => Ended::Write(write),
            () = self.sinks.doubted() => Ended::Doubt,
        }
    }

    fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Doubt => {
                for key in self.sinks.take_doubts() {
                    if let Some(known) = self.known.get_mut(&key) {
                        known.next = Instant::now();
                    }
                }
            }
            Ended::Probe(Some(probe)) => self.probed(probe),
            Ended::Probe(None) => {}
            Ended::Write(write) => {
                let known = self.known.get_mut(&write.key);
                if let (Some(known), Ok(written)) = (known, write.result) {
                    known.pace.wrote(written.news, Instant::now());
                    known.written = Some(written);
                }
            }
        }
    }

    async fn finish(mut self) {
        self.probing.shutdown().await;
    }
}

impl Probes {
    /// Looks after one sink. If that panics, the others are none the worse.
    fn contained(&mut self, sink: &SinkObject) -> Option<Instant> {
        let mut bulkhead = std::mem::take(&mut self.bulkhead);
        let events = self.events.clone();
        let tell = |panic: &Condition| {
            let event = match sink.key.family {
                SinkFamily::Snapshot => events::event::<KollectSnapshotSink>,
                SinkFamily::Database => events::event::<KollectDatabaseSink>,
                SinkFamily::Event => events::event::<KollectEventSink>,
            };
            events.tell(event(&sink.meta, panic, Timestamp::now()));
        };
        let attempt = bulkhead.attempt(&sink.key, || self.sync(sink), tell);
        self.bulkhead = bulkhead;
        match attempt {
            Attempt::Done(wake) => wake,
            Attempt::Resting(again) | Attempt::Panicked(again) => Some(again),
        }
    }

    /// Probes a sink if it is due, and writes down what is known of it.
    fn sync(&mut self, sink: &SinkObject) -> Option<Instant> {
        let now = Instant::now();
        let known = self
            .known
            .entry(sink.key.clone())
            .or_insert_with(|| KnownSink {
                uid: uid(sink),
                probed: None,
                verdict: None,
                under_way: false,
                failures: 0,
                next: now,
                written: None,
                pace: StatusPace::default(),
                request: None,
                answered: None,
            });
        let wanted = effective::connection_test(sink.spec.common()) || is_asked_for(sink);
        let request = is_asked_for(sink).then(|| meta::TEST_CONNECTION_ANNOTATION.to_owned());
        if known.request != request {
            if request.is_some() {
                known.next = now;
            }
            known.request.clone_from(&request);
        }
        let mut wake = None;
        if wanted {
            match self.sinks.access(sink) {
                Access::Reading => return None,
                Access::Invalid(error) => {
                    known.verdict = Some(ProbeVerdict::Invalid(error.message().to_owned()));
                    known.probed = None;
                }
                Access::Failed(error) | Access::Unread(error) => {
                    known.verdict = Some(ProbeVerdict::NoCredentials(error.message().to_owned()));
                    known.probed = None;
                }
                Access::Ready(source) => {
                    let about = (sink.meta.generation, source.version);
                    let due = known.probed != Some(about) || known.next <= now;
                    if due && !known.under_way {
                        known.under_way = true;
                        let (prober, key) = (Arc::clone(&self.prober), sink.key.clone());
                        let runtime = prober.runtime().clone();
                        let probe = async move {
                            let result = prober.probe(&source).await;
                            EndedProbe {
                                key,
                                about,
                                request,
                                result,
                            }
                        };
                        self.probing.spawn_on(probe, &runtime);
                    } else if !due {
                        wake = Some(known.next);
                    }
                }
            }
        } else {
            known.verdict = None;
            known.probed = None;
        }
        earliest(wake, self.write(sink, wanted))
    }

    /// Writes the status of a sink, if it says something new. Returns when it may, if not now.
    fn write(&mut self, sink: &SinkObject, wanted: bool) -> Option<Instant> {
        if self.writes.defer(&sink.key) {
            return None;
        }
        let known = self.known.get(&sink.key)?;
        let version = |text: &Option<String>| Version::parse(text.as_deref().unwrap_or_default());
        let shown = version(&sink.meta.resource_version);
        let written = known
            .written
            .as_ref()
            .filter(|written| shown.is_before(version(&written.version)));
        let (base, before) = match written {
            Some(written) => (written.version.clone(), (*written.status).clone()),
            None => (
                sink.meta.resource_version.clone(),
                sink.status.clone().unwrap_or_default(),
            ),
        };
        let probed = match (&known.verdict, wanted) {
            (_, false) => Probed::Off,
            (None, true) => Probed::NotYet,
            (Some(verdict), true) => Probed::Known(verdict),
        };
        let after = status::status(
            &before,
            &sink.spec,
            &sink.meta,
            probed,
            &Time(Timestamp::now()),
        );
        observe(&self.events, sink, &after.conditions);
        // Somebody asked, and was answered by a probe that began afterwards.
        let answered = is_asked_for(sink)
            && known.answered == known.request
            && matches!(known.verdict, Some(ProbeVerdict::Reached(_)))
            && !written.is_some_and(|written| written.answered);
        if after == before && !answered {
            self.writes.withdraw(&sink.key);
            return None;
        }
        let (moment, news) = (
            Instant::now(),
            News::of(&before.conditions, &after.conditions),
        );
        let due = known.pace.due(news, PAUSE, moment);
        if due > moment && !answered {
            return Some(due);
        }
        let (client, events, mut object) = (self.client.clone(), self.events.clone(), sink.clone());
        object.meta.resource_version.clone_from(&base);
        let write = async move {
            let version = write(&client, &events, &object, &before, &after, answered).await?;
            Ok(Written {
                version,
                status: Box::new(after),
                news,
                answered,
            })
        };
        self.writes.submit(sink.key.clone(), base, write);
        None
    }

    fn probed(&mut self, probe: EndedProbe) {
        let EndedProbe {
            key,
            about,
            request,
            result,
        } = probe;
        let Some(known) = self.known.get_mut(&key) else {
            return;
        };
        known.under_way = false;
        known.probed = Some(about);
        let wait = match &result {
            Ok(_) => {
                known.failures = 0;
                AGAIN + AGAIN * u32::from(fastrand::u8(..)) / 2_560
            }
            Err(_) => {
                self.sinks.doubt_secrets(&key);
                known.failures = known.failures.saturating_add(1);
                // Whatever the class: the object may be right and the server wrong.
                let jitter = Jitter::new(fastrand::u64(..));
                retry::wait(FailureClass::Transient, known.failures, jitter)
            }
        };
        known.next = Instant::now() + wait;
        if known.request.is_some() && known.request != request {
            // Somebody asked while it was under way already.
            known.next = Instant::now();
        }
        known.answered = request;
        let next = Timestamp::now() + wait;
        let next = Timestamp::from_second(next.as_second()).unwrap_or(next);
        known.verdict = Some(match result {
            Ok(text) => ProbeVerdict::Reached(text),
            Err(error) => ProbeVerdict::Failed(error.message().to_owned(), next),
        });
    }
}

/// Whether somebody asked for a probe.
fn is_asked_for(sink: &SinkObject) -> bool {
    let annotations = sink.meta.annotations.as_ref();
    annotations
        .and_then(|all| all.get(meta::TEST_CONNECTION_ANNOTATION))
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn uid(sink: &SinkObject) -> String {
    sink.meta.uid.clone().unwrap_or_default()
}

/// Takes note of what the conditions of a sink say, for the log.
fn observe(events: &Events, sink: &SinkObject, conditions: &[Condition]) {
    let observe = match sink.key.family {
        SinkFamily::Snapshot => Events::observe::<KollectSnapshotSink>,
        SinkFamily::Database => Events::observe::<KollectDatabaseSink>,
        SinkFamily::Event => Events::observe::<KollectEventSink>,
    };
    observe(events, &sink.meta, conditions);
}

/// Writes the status; then, if the annotation has had its answer, takes it off. Returns the version
/// that this makes.
async fn write(
    client: &Client,
    events: &Events,
    sink: &SinkObject,
    before: &SinkStatus,
    after: &SinkStatus,
    answered: bool,
) -> Result<Option<String>, WriteError> {
    async fn of<K>(
        client: &Client,
        events: &Events,
        sink: &SinkObject,
        before: &SinkStatus,
        after: &SinkStatus,
        answered: bool,
    ) -> Result<Option<String>, WriteError>
    where
        K: ApiOf + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let mut version = sink.meta.resource_version.clone();
        if after != before {
            let object: K = writer::write_status_of(client, &sink.meta, after).await?;
            version.clone_from(&object.meta().resource_version);
            events.tell_of::<K>(&sink.meta, &before.conditions, &after.conditions);
        }
        if answered {
            let annotation = meta::TEST_CONNECTION_ANNOTATION;
            let object = writer::remove_annotation::<K>(client, &sink.meta, annotation).await?;
            version.clone_from(&object.meta().resource_version);
        }
        Ok(version)
    }
    match sink.key.family {
        SinkFamily::Snapshot => {
            of::<KollectSnapshotSink>(client, events, sink, before, after, answered).await
        }
        SinkFamily::Database => {
            of::<KollectDatabaseSink>(client, events, sink, before, after, answered).await
        }
        SinkFamily::Event => {
            of::<KollectEventSink>(client, events, sink, before, after, answered).await
        }
    }
}
