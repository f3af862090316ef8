//! KollectConnectionTest: one probe, asked for with an object, that goes when it has been read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    jiff::Timestamp,
};
use kollect_api::{
    KollectConnectionTest, SinkKey,
    condition::{
        Condition,
        ConditionStatus::{False, True},
        ConditionType::{ConnectionVerified, Ready},
        Reason,
    },
    connection_test::KollectConnectionTestStatus,
    meta,
};
use kube::Client;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    configuration::Configuration,
    control_loop::{ControlLoop, PassCause, earliest},
    events::{self, Events},
    keeper::{Attempt, Bulkhead, Keeper},
    probes::Prober,
    sink_objects::{Access, Lookup, SinkObject, SinkObjects},
    statements::{self, Statement},
    write_queue::{EndedWrite, WriteQueue, WriteSlots},
    writer::{self, WriteError},
};

/// What this kind is called where passes are counted.
const CONTROLLER: &str = "kollectconnectiontest";
/// How many seconds a finished test stays, unless its spec says otherwise.
const TTL: i32 = 300;
/// How long to wait for credentials to be read.
const READING: Duration = Duration::from_secs(10);

/// How soon what could not be asked is asked again: at first, and at most.
const ASK_AGAIN: Duration = Duration::from_secs(5);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    /// The reason of `ConnectionVerified` and of `Ready`.
    result: Result<String, (Reason, String)>,
    latency: Option<Duration>,
    /// Whether it is an answer. What could not be asked is asked again.
    definite: bool,
}

impl Outcome {
    /// A definite no, before anything was sent.
    fn refused(reason: Reason, text: String) -> Self {
        Self {
            result: Err((reason, text)),
            latency: None,
            definite: true,
        }
    }

    /// The API server does not say what has to be known first.
    fn unknown(reason: Reason, text: &str) -> Self {
        Self {
            definite: false,
            ..Self::refused(
                reason,
                format!("{text}; nothing was tried yet, it is asked again within a minute"),
            )
        }
    }

    fn panicked() -> Self {
        let text = "the probe failed unexpectedly; see the log of the operator".to_owned();
        Self::refused(Reason::ConnectionTestFailed, text)
    }
}

/// How long to wait after so many attempts to ask that failed in a row.
fn wait(failures: u32) -> Duration {
    let doubled = ASK_AGAIN.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(LONGEST_WAIT)
}

/// The status that says so.
fn status(generation: Option<i64>, outcome: &Outcome, now: &Time) -> KollectConnectionTestStatus {
    let verdicts = match &outcome.result {
        Ok(text) => [
            (ConnectionVerified, True, Reason::ConnectionOK, text),
            (Ready, True, Reason::ProbeSucceeded, text),
        ],
        Err((reason, text)) => [
            (ConnectionVerified, False, *reason, text),
            (Ready, False, *reason, text),
        ],
    };
    let said =
        verdicts.map(|(type_, status, reason, text)| Statement::says(type_, status, reason, text));
    let mut conditions = Vec::new();
    statements::apply(&mut conditions, said, generation, now);
    KollectConnectionTestStatus {
        conditions,
        observed_generation: generation,
        latency_ms: outcome
            .latency
            .map(|latency| i64::try_from(latency.as_millis()).unwrap_or(i64::MAX)),
        completed: outcome.definite,
        completed_at: outcome.definite.then(|| now.clone()),
    }
}

/// When a finished test goes.
fn expires(test: &KollectConnectionTest) -> Option<Timestamp> {
    let status = test.status.as_ref()?;
    if !status.completed || status.observed_generation != test.metadata.generation {
        return None;
    }
    let ttl = test.spec.ttl_seconds_after_finished.unwrap_or(TTL).max(0);
    let finished = status.completed_at.as_ref()?.0;
    let ttl = Duration::from_secs(u64::from(ttl.unsigned_abs()));
    // Whoever may write the status may write any time.
    Some(finished.saturating_add(ttl).unwrap_or(Timestamp::MAX))
}

/// Which test, for people and for us.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestKey {
    namespace: String,
    name: String,
    uid: String,
}

impl TestKey {
    fn of(test: &KollectConnectionTest) -> Self {
        let meta = &test.metadata;
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for TestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection test {}/{}", self.namespace, self.name)
    }
}

/// How far a test is.
#[derive(Debug, Clone)]
enum Progress {
    Probing,
    /// The outcome is to be written down.
    Probed(Finished),
    /// It is written down.
    Recorded,
    /// It could not be asked, so often; it is asked again then.
    Waiting(u32, Instant),
}

/// A probe that has ended.
#[derive(Debug, Clone)]
struct Finished {
    outcome: Outcome,
    at: Time,
    /// The sink that is to own the test.
    owner: Option<Box<SinkObject>>,
    /// How often it could not be asked, this time included.
    failures: u32,
}

/// What ended beside the loop.
pub struct Ended(EndedKind);

enum EndedKind {
    /// The probe of this generation of a test; nothing is known of one that was broken off.
    Probe(Option<(TestKey, Option<i64>, Finished)>),
    Write(EndedWrite<TestKey, Written>),
}

/// What was written.
#[derive(Debug, Clone, Copy)]
enum Written {
    /// The outcome of this generation; what could not be asked has failed so often.
    Outcome(Option<i64>, Option<u32>),
    /// The test is deleted.
    Deletion,
}

/// Runs the tests that are asked for.
pub struct ConnectionTests {
    client: Client,
    configuration: Arc<Configuration>,
    sinks: Arc<SinkObjects>,
    prober: Arc<Prober>,
    /// The generation that was begun last, and how far it is.
    begun: BTreeMap<TestKey, (Option<i64>, Progress)>,
    /// Tests that are deleted and that the watch still shows.
    deleted: BTreeSet<TestKey>,
    probing: JoinSet<(TestKey, Option<i64>, Finished)>,
    writes: WriteQueue<TestKey, Written>,
    events: Events,
    bulkhead: Bulkhead<TestKey>,
}

impl ConnectionTests {
    /// Tests the sinks of the configuration.
    pub fn new(
        client: Client,
        configuration: Arc<Configuration>,
        sinks: Arc<SinkObjects>,
        prober: Arc<Prober>,
        slots: WriteSlots,
        keeper: &Keeper,
    ) -> Self {
        Self {
            client,
            configuration,
            sinks,
            prober,
            begun: BTreeMap::new(),
            deleted: BTreeSet::new(),
            probing: JoinSet::new(),
            events: slots.events().clone(),
            writes: WriteQueue::new(slots),
            bulkhead: Bulkhead::new(keeper.clone(), "connection-test"),
        }
    }
}

impl ControlLoop for ConnectionTests {
    type Ended = Ended;
    const CONTROLLERS: &'static [&'static str] = &[CONTROLLER];

    fn failed_write(Ended(ended): &Ended) -> Option<&'static str> {
        let failed = matches!(ended, EndedKind::Write(write) if write.result.is_err());
        failed.then_some(CONTROLLER)
    }

    fn pass(&mut self, _: PassCause) -> Option<Instant> {
        let all = self.configuration.connection_tests.all();
        let known: BTreeSet<TestKey> = all.iter().map(|test| TestKey::of(test)).collect();
        self.begun.retain(|key, _| known.contains(key));
        self.deleted.retain(|key| known.contains(key));
        self.writes.retain(|key| known.contains(key));
        self.bulkhead.retain(|key| known.contains(key));
        let mut wake = None;
        for test in &all {
            if test.metadata.deletion_timestamp.is_none() {
                wake = earliest(wake, self.contained(test));
            }
        }
        wake
    }

    async fn next(&mut self) -> Ended {
        let ended = tokio::select! {
            Some(probe) = self.probing.join_next() => EndedKind::Probe(probe.ok()),
            write = self.writes.next() => EndedKind::Write(write),
        };
        Ended(ended)
    }

    fn ended(&mut self, Ended(ended): Ended) {
        match ended {
            EndedKind::Probe(None) => {}
            EndedKind::Probe(Some((key, generation, finished))) => {
                self.advance(&key, generation, Progress::Probed(finished));
            }
            EndedKind::Write(write) => match write.result {
                Ok(Written::Outcome(generation, failures)) => {
                    let progress = failures.map_or(Progress::Recorded, |failures| {
                        Progress::Waiting(failures, Instant::now() + wait(failures))
                    });
                    self.advance(&write.key, generation, progress);
                }
                Ok(Written::Deletion) => {
                    self.deleted.insert(write.key);
                }
                // What is still to be written is asked for again by the next pass.
                Err(_) => {}
            },
        }
    }

    async fn finish(mut self) {
        self.probing.shutdown().await;
    }
}

impl ConnectionTests {
    /// Takes one test a step further. If that panics, the others are none the worse.
    fn contained(&mut self, test: &Arc<KollectConnectionTest>) -> Option<Instant> {
        let key = TestKey::of(test);
        let mut bulkhead = std::mem::take(&mut self.bulkhead);
        let events = self.events.clone();
        let tell = |panic: &Condition| {
            let event = events::event::<KollectConnectionTest>;
            events.tell(event(&test.metadata, panic, Timestamp::now()));
        };
        let attempt = bulkhead.attempt(&key, || self.sync(test), tell);
        self.bulkhead = bulkhead;
        match attempt {
            Attempt::Done(wake) => wake,
            Attempt::Resting(again) | Attempt::Panicked(again) => Some(again),
        }
    }

    /// Takes one test a step further. Returns when it expires, if that is all that is left.
    fn sync(&mut self, test: &Arc<KollectConnectionTest>) -> Option<Instant> {
        let key = TestKey::of(test);
        if let Some(at) = expires(test) {
            let rest = Duration::try_from(at.duration_since(Timestamp::now()));
            if let Ok(rest) = rest
                && !rest.is_zero()
            {
                self.writes.withdraw(&key);
                return Some(Instant::now() + rest);
            }
            if !self.deleted.contains(&key) {
                self.delete(key, test);
            }
            return None;
        }
        let generation = test.metadata.generation;
        match self.begun.get(&key) {
            Some((known, Progress::Probing | Progress::Recorded)) if *known == generation => {}
            Some((known, Progress::Probed(finished))) if *known == generation => {
                let finished = finished.clone();
                self.record(key, test, finished);
            }
            Some((known, Progress::Waiting(_, until)))
                if *known == generation && Instant::now() < *until =>
            {
                return Some(*until);
            }
            Some((known, Progress::Waiting(failures, _))) if *known == generation => {
                let failures = *failures;
                self.begin(key, test, failures);
            }
            _ => self.begin(key, test, 0),
        }
        None
    }

    fn advance(&mut self, key: &TestKey, generation: Option<i64>, progress: Progress) {
        // An older generation is of no interest any more.
        if let Some(begun) = self.begun.get_mut(key)
            && begun.0 == generation
        {
            begun.1 = progress;
        }
    }

    /// Begins a test that could not be asked so often before.
    fn begin(&mut self, key: TestKey, test: &Arc<KollectConnectionTest>, failures: u32) {
        let generation = test.metadata.generation;
        self.begun
            .insert(key.clone(), (generation, Progress::Probing));
        self.writes.withdraw(&key);
        let (sinks, prober) = (Arc::clone(&self.sinks), Arc::clone(&self.prober));
        let test = Arc::clone(test);
        let runtime = prober.runtime().clone();
        let probe = async move {
            let (outcome, sink) = match find(&sinks, &test) {
                Ok(sink) => {
                    let probe = AssertUnwindSafe(probe(&sinks, &prober, &sink)).catch_unwind();
                    let outcome = probe.await.unwrap_or_else(|_| Outcome::panicked());
                    (outcome, Some(sink))
                }
                Err(outcome) => (outcome, None),
            };
            let finished = Finished {
                failures: failures.saturating_add(1),
                outcome,
                at: Time(Timestamp::now()),
                owner: sink.filter(|_| test.spec.owner_sink.unwrap_or(true)),
            };
            (key, generation, finished)
        };
        self.probing.spawn_on(probe, &runtime);
    }

    /// Writes down how a test ended, and whose it is.
    fn record(&mut self, key: TestKey, test: &Arc<KollectConnectionTest>, finished: Finished) {
        let (client, test) = (self.client.clone(), Arc::clone(test));
        let version = test.metadata.resource_version.clone();
        self.writes.submit(key, version, async move {
            let mut meta = test.metadata.clone();
            if let Some(sink) = &finished.owner {
                match adopt(&client, &test, sink).await {
                    Ok(adopted) => meta = adopted,
                    Err(error) if error.is_outdated() => return Err(error),
                    // It goes by itself in time; its outcome is what somebody waits for.
                    Err(error) => {
                        let (namespace, name) = (&meta.namespace, &meta.name);
                        tracing::warn!(namespace, name, %error, "a connection test could not be given to its sink");
                    }
                }
            }
            let generation = test.metadata.generation;
            let status = status(generation, &finished.outcome, &finished.at);
            writer::write_status_of::<KollectConnectionTest, _>(&client, &meta, &status).await?;
            let again = (!finished.outcome.definite).then_some(finished.failures);
            Ok(Written::Outcome(generation, again))
        });
    }

    fn delete(&mut self, key: TestKey, test: &Arc<KollectConnectionTest>) {
        let (client, test) = (self.client.clone(), Arc::clone(test));
        let version = test.metadata.resource_version.clone();
        self.writes.submit(key, version, async move {
            writer::delete::<KollectConnectionTest>(&client, &test.metadata).await?;
            Ok(Written::Deletion)
        });
    }
}

fn find(sinks: &SinkObjects, test: &KollectConnectionTest) -> Result<Box<SinkObject>, Outcome> {
    let given: Vec<_> = test.spec.sink_ref.given().collect();
    let [(family, _, name)] = given.as_slice() else {
        let text = "exactly one family sink ref must be set".to_owned();
        return Err(Outcome::refused(Reason::InvalidSinkRef, text));
    };
    let key = SinkKey {
        family: *family,
        namespace: test.metadata.namespace.clone().unwrap_or_default(),
        name: (*name).to_owned(),
    };
    let kind = family.kind();
    let namespace = &key.namespace;
    match sinks.find(&key) {
        Lookup::Found(sink) => Ok(sink),
        Lookup::Missing => Err(Outcome::refused(
            Reason::SinkNotFound,
            format!("{kind} {name:?}: get {kind} {name:?} in {namespace:?}: not found"),
        )),
        Lookup::Unreadable { forbidden, why } => Err(Outcome::unknown(
            if forbidden {
                Reason::SinkForbidden
            } else {
                Reason::SinkLookupFailed
            },
            &format!("{kind} {name:?}: get {kind} {name:?} in {namespace:?}: {why}"),
        )),
    }
}

async fn probe(sinks: &SinkObjects, prober: &Prober, sink: &SinkObject) -> Outcome {
    let deadline = Instant::now() + READING;
    let source = loop {
        match sinks.access(sink) {
            Access::Ready(source) => break source,
            Access::Reading if Instant::now() < deadline => sleep(Duration::from_millis(50)).await,
            Access::Reading => {
                let text = "its Secrets could not be read in time";
                return Outcome::unknown(Reason::SecretResolveFailed, text);
            }
            Access::Unread(error) => {
                return Outcome::unknown(Reason::SecretResolveFailed, error.message());
            }
            Access::Invalid(error) => {
                return Outcome::refused(Reason::InvalidSpec, error.message().to_owned());
            }
            Access::Failed(error) => {
                return Outcome::refused(Reason::SecretResolveFailed, error.message().to_owned());
            }
        }
    };
    let begun = Instant::now();
    let result = prober.probe(&source).await;
    Outcome {
        result: result.map_err(|error| (Reason::ConnectionTestFailed, error.message().to_owned())),
        latency: Some(begun.elapsed()),
        definite: true,
    }
}

/// Makes the sink the owner, so that the test goes when the sink goes.
async fn adopt(
    client: &Client,
    test: &KollectConnectionTest,
    sink: &SinkObject,
) -> Result<ObjectMeta, WriteError> {
    let uid = sink.meta.uid.clone().unwrap_or_default();
    let mut owners = test.metadata.owner_references.clone().unwrap_or_default();
    if owners.iter().any(|owner| owner.uid == uid) {
        return Ok(test.metadata.clone());
    }
    owners.push(OwnerReference {
        api_version: meta::API_VERSION.to_owned(),
        kind: sink.key.family.kind().to_owned(),
        name: sink.key.name.clone(),
        uid,
        controller: Some(true),
        // Holding up the deletion of the sink would take a right on the sink's finalizers where
        // the API server enforces that, and nobody needs it.
        block_owner_deletion: None,
    });
    writer::write_owners::<KollectConnectionTest>(client, &test.metadata, &owners)
        .await
        .map(|test| test.metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_answer_is_final() {
        let now = Time(Timestamp::UNIX_EPOCH);
        let answer = Outcome::refused(Reason::SinkNotFound, "not found".to_owned());
        let silence = Outcome::unknown(Reason::SecretResolveFailed, "forbidden");
        for (outcome, is_final) in [(&answer, true), (&silence, false)] {
            let status = status(Some(1), outcome, &now);
            assert_eq!(status.completed, is_final);
            assert_eq!(status.completed_at.is_some(), is_final);
            let test: KollectConnectionTest = serde_json::from_value(json!({
                "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectConnectionTest",
                "metadata": {"name": "t", "namespace": "team-a", "generation": 1},
                "spec": {"sinkRef": {}, "ttlSecondsAfterFinished": 0}, "status": status,
            }))
            .expect("a test");
            assert_eq!(
                expires(&test).is_some(),
                is_final,
                "it goes when it is known"
            );
        }
        let text = silence.result.expect_err("nothing is known").1;
        assert!(text.ends_with("asked again within a minute"), "{text}");
        assert_eq!(
            [1, 2, 3, 5, 40].map(|n| wait(n).as_secs()),
            [5, 10, 20, 60, 60]
        );
    }

    #[test]
    fn a14_a_forged_time_of_completion_ends_nothing() {
        let (least, most) = ("-009999-01-02T01:59:59Z", "9999-12-30T22:00:00.999999999Z");
        for at in [least, "1970-01-01T00:00:00Z", most] {
            for ttl in [None, Some(i32::MIN), Some(0), Some(300), Some(i32::MAX)] {
                let test: KollectConnectionTest = serde_json::from_value(json!({
                    "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectConnectionTest",
                    "metadata": {"name": "t", "namespace": "team-a", "generation": 1},
                    "spec": {"sinkRef": {}, "ttlSecondsAfterFinished": ttl},
                    "status": {"completed": true, "completedAt": at, "observedGeneration": 1},
                }))
                .expect("a test");
                let finished: Timestamp = at.parse().expect("a time");
                let gone = expires(&test).expect("it has ended");
                assert!(gone >= finished, "{at} {ttl:?}");
                // What the loop makes of it.
                let rest = Duration::try_from(gone.duration_since(Timestamp::now()));
                let _ = rest.map(|rest| Instant::now() + rest);
            }
        }
    }
}
