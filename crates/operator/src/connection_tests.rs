//! KollectConnectionTest: one probe, asked for with an object, that goes when it has been read.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
    jiff::Timestamp,
};
use kollect_api::SinkKey;
use kollect_api::{
    KollectConnectionTest,
    condition::{self, Condition, ConditionStatus, ConditionType, Reason},
    connection_test::KollectConnectionTestStatus,
    meta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    configuration::Configuration,
    probes::Prober,
    sink_objects::{Access, Lookup, SinkObject, SinkObjects},
    writer,
};

/// What becomes of a finished test after this long, unless its spec says otherwise.
const TTL: i32 = 300;
/// How long to wait for credentials to be read.
const READING: Duration = Duration::from_secs(10);
const GATHER: Duration = Duration::from_millis(20);

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    /// The reason of `ConnectionVerified` and of `Ready`.
    result: Result<String, (Reason, String)>,
    latency: Option<Duration>,
}

/// The status that says so.
fn status(generation: Option<i64>, outcome: &Outcome, now: &Time) -> KollectConnectionTestStatus {
    use ConditionType::{ConnectionVerified, Ready};

    let mut conditions = Vec::new();
    let mut set = |type_, status, reason, message: &str| {
        let condition = Condition::new(type_, status, reason, message, generation, now.clone());
        condition::set(&mut conditions, condition);
    };
    match &outcome.result {
        Ok(text) => {
            set(
                ConnectionVerified,
                ConditionStatus::True,
                Reason::ConnectionOK,
                text,
            );
            set(Ready, ConditionStatus::True, Reason::ProbeSucceeded, text);
        }
        Err((reason, text)) => {
            set(ConnectionVerified, ConditionStatus::False, *reason, text);
            set(Ready, ConditionStatus::False, *reason, text);
        }
    }
    KollectConnectionTestStatus {
        conditions,
        observed_generation: generation,
        latency_ms: outcome
            .latency
            .map(|latency| i64::try_from(latency.as_millis()).unwrap_or(i64::MAX)),
        completed: true,
        completed_at: Some(now.clone()),
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
    Some(finished + Duration::from_secs(u64::from(ttl.unsigned_abs())))
}

/// Runs the tests that are asked for.
pub struct ConnectionTests {
    client: Client,
    configuration: Arc<Configuration>,
    sinks: Arc<SinkObjects>,
    prober: Arc<Prober>,
    configured: Arc<Notify>,
    /// By uid: the generation that is under way or done.
    begun: BTreeMap<String, Option<i64>>,
    under_way: JoinSet<(String, bool)>,
}

impl ConnectionTests {
    /// Tests the sinks of the configuration.
    pub fn new(
        client: Client,
        configuration: Arc<Configuration>,
        sinks: Arc<SinkObjects>,
        prober: Arc<Prober>,
    ) -> Self {
        Self {
            client,
            configured: configuration.changed.subscribe(),
            configuration,
            sinks,
            prober,
            begun: BTreeMap::new(),
            under_way: JoinSet::new(),
        }
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let wake = if self.configuration.is_listed() {
                self.pass()
            } else {
                None
            };
            let far = || Instant::now() + Duration::from_hours(1);
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.configured.notified() => sleep(GATHER).await,
                Some(ended) = self.under_way.join_next() => {
                    // What could not be written is begun again with the next look.
                    if let Ok((uid, false)) = ended { self.begun.remove(&uid); }
                }
                () = sleep_until(wake.unwrap_or_else(far)) => {}
            }
        }
        self.under_way.shutdown().await;
    }

    fn pass(&mut self) -> Option<Instant> {
        let all = self.configuration.connection_tests.all();
        let uid = |test: &KollectConnectionTest| test.metadata.uid.clone().unwrap_or_default();
        self.begun
            .retain(|known, _| all.iter().any(|test| uid(test) == *known));
        let mut wake = None;
        for test in all {
            if test.metadata.deletion_timestamp.is_some() {
                continue;
            }
            if let Some(at) = expires(&test) {
                let rest = Duration::try_from(at.duration_since(Timestamp::now()));
                match rest {
                    Ok(rest) if !rest.is_zero() => {
                        let at = Instant::now() + rest;
                        wake = Some(wake.map_or(at, |known: Instant| known.min(at)));
                    }
                    _ => self.delete(&test),
                }
                continue;
            }
            let generation = test.metadata.generation;
            let id = uid(&test);
            if self.begun.get(&id) == Some(&generation) {
                continue;
            }
            self.begun.insert(id.clone(), generation);
            let (client, sinks, prober) = (
                self.client.clone(),
                Arc::clone(&self.sinks),
                Arc::clone(&self.prober),
            );
            self.under_way.spawn(async move {
                let result = run(&client, &sinks, &prober, &test).await;
                if let Err(error) = &result {
                    tracing::warn!(test = test.metadata.name, %error, "cannot record a connection test");
                    sleep(Duration::from_secs(1)).await;
                }
                (id, result.is_ok())
            });
        }
        wake
    }

    fn delete(&mut self, test: &KollectConnectionTest) {
        let (client, meta) = (self.client.clone(), test.metadata.clone());
        self.under_way.spawn(async move {
            let namespace = meta.namespace.unwrap_or_default();
            let name = meta.name.unwrap_or_default();
            let api: Api<KollectConnectionTest> = Api::namespaced(client, &namespace);
            // Only this object, not one that somebody created under its name meanwhile.
            let preconditions = Preconditions {
                uid: meta.uid.clone(),
                resource_version: None,
            };
            let parameters = DeleteParams::default().preconditions(preconditions);
            if let Err(error) = api.delete(&name, &parameters).await
                && !writer::is_outdated(&error)
            {
                tracing::warn!(test = name, %error, "cannot delete a finished connection test");
                sleep(Duration::from_secs(5)).await;
            }
            (meta.uid.unwrap_or_default(), true)
        });
    }
}

async fn run(
    client: &Client,
    sinks: &SinkObjects,
    prober: &Prober,
    test: &KollectConnectionTest,
) -> kube::Result<()> {
    let outcome = match find(sinks, test) {
        Err(trouble) => Outcome {
            result: Err(trouble),
            latency: None,
        },
        Ok(sink) => {
            if test.spec.owner_sink.unwrap_or(true) {
                adopt(client, test, &sink).await?;
            }
            probe(sinks, prober, &sink).await
        }
    };
    let now = Time(Timestamp::now());
    let status = status(test.metadata.generation, &outcome, &now);
    let written = writer::write_status(client, test, &status).await;
    written.map(drop)
}

fn find(
    sinks: &SinkObjects,
    test: &KollectConnectionTest,
) -> Result<Box<SinkObject>, (Reason, String)> {
    let given: Vec<_> = test.spec.sink_ref.given().collect();
    let [(family, _, name)] = given.as_slice() else {
        let text = "exactly one family sink ref must be set".to_owned();
        return Err((Reason::InvalidSinkRef, text));
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
        Lookup::Missing => Err((
            Reason::SinkNotFound,
            format!("{kind} {name:?}: get {kind} {name:?} in {namespace:?}: not found"),
        )),
        Lookup::Unreadable { why, .. } => Err((
            Reason::SinkNotFound,
            format!("{kind} {name:?}: get {kind} {name:?} in {namespace:?}: {why}"),
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
                let text = "its Secrets could not be read in time".to_owned();
                return Outcome {
                    result: Err((Reason::SecretResolveFailed, text)),
                    latency: None,
                };
            }
            Access::Failed(error) => {
                return Outcome {
                    result: Err((Reason::SecretResolveFailed, error.message().to_owned())),
                    latency: None,
                };
            }
        }
    };
    let begun = Instant::now();
    let result = prober.probe(&source).await;
    Outcome {
        result: result.map_err(|error| (Reason::ConnectionTestFailed, error.message().to_owned())),
        latency: Some(begun.elapsed()),
    }
}

/// Makes the sink the owner, so that the test goes when the sink goes.
async fn adopt(
    client: &Client,
    test: &KollectConnectionTest,
    sink: &SinkObject,
) -> kube::Result<()> {
    let uid = sink.meta.uid.clone().unwrap_or_default();
    let mut owners = test.metadata.owner_references.clone().unwrap_or_default();
    if owners.iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    owners.push(OwnerReference {
        api_version: meta::API_VERSION.to_owned(),
        kind: sink.key.family.kind().to_owned(),
        name: sink.key.name.clone(),
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    });
    let patch = json!({"metadata": {"ownerReferences": owners}});
    let namespace = test.metadata.namespace.clone().unwrap_or_default();
    let api: Api<KollectConnectionTest> = Api::namespaced(client.clone(), &namespace);
    let name = test.metadata.name.as_deref().unwrap_or_default();
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(|_| ())
}
