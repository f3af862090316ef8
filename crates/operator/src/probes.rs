//! Probes: whether sinks can be reached, before somebody finds out by a failed export.
//!
//! A sink is probed when the operator starts, when its spec or one of its Secrets changes, when
//! somebody asks for it, and now and then. A probe that fails is repeated, sooner at first.
//! [`crate::connection_tests`] are probes that somebody asks for with an object of their own.

pub mod status;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::SinkKey;
use kollect_api::{
    KollectDatabaseSink, KollectEventSink, KollectSnapshotSink, condition, effective, meta,
    reference::SinkFamily,
    sink::{SinkStatus, SinkType},
};
use kollect_export::{
    Jitter, SinkSource,
    pool::Pool,
    retry::{self, FailureClass},
};
use kollect_sinks::SinkError;
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::status::{ProbeVerdict, Probed};
use crate::{
    configuration::Configuration,
    sink_objects::{Access, SinkObject, SinkObjects},
    writer::{self, ApiOf},
};

/// A probe that takes longer has failed.
pub const DEADLINE: Duration = Duration::from_secs(15);
/// How often a sink is probed that was fine.
const AGAIN: Duration = Duration::from_mins(15);
/// How many probes run at a time.
const PARALLEL: usize = 4;
const GATHER: Duration = Duration::from_millis(20);
const WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// Is told of every probe.
pub trait ProbeObserver: Send + Sync {
    /// A probe of a sink of this type ended.
    fn probed(&self, sink: SinkType, success: bool);
}

/// Runs probes.
pub struct Prober {
    /// Where sinks are built.
    pub calls: Arc<kollect_export::Calls>,
    /// Who counts.
    pub observer: Arc<dyn ProbeObserver>,
    permits: Semaphore,
}

impl Prober {
    /// Builds sinks with the pool of `calls`, but none that a delivery uses.
    pub fn new(calls: Arc<kollect_export::Calls>, observer: Arc<dyn ProbeObserver>) -> Self {
        Self {
            calls,
            observer,
            permits: Semaphore::new(PARALLEL),
        }
    }

    /// Probes a sink, within the deadline.
    pub async fn probe(&self, source: &SinkSource) -> Result<String, SinkError> {
        let _permit = self.permits.acquire().await;
        let pool: &Pool = &self.calls.pool;
        let probe = async {
            let sink = pool.build(source)?;
            // A task of its own, so that a panic stays there.
            let probe = tokio::spawn(async move { sink.probe().await });
            let abort = AbortOnDrop(probe.abort_handle());
            let result = probe.await;
            drop(abort);
            result.unwrap_or_else(|_| {
                Err(SinkError::transient(
                    "the probe failed in an unexpected way; the log has it",
                ))
            })
        };
        let result = timeout(DEADLINE, probe).await.unwrap_or_else(|_| {
            Err(SinkError::transient(format!(
                "no answer within {DEADLINE:?}"
            )))
        });
        self.observer
            .probed(source.spec.sink_type(), result.is_ok());
        result
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is known of one sink.
#[derive(Debug)]
struct Known {
    uid: String,
    /// What the last probe was about: the generation and the version of spec and Secrets.
    probed: Option<(Option<i64>, u128)>,
    verdict: Option<ProbeVerdict>,
    under_way: bool,
    failures: u32,
    next: Instant,
    written: Option<(Option<String>, SinkStatus)>,
    writing: bool,
}

/// Keeps the conditions of sinks true.
pub struct Probes {
    client: Client,
    configuration: Arc<Configuration>,
    sinks: Arc<SinkObjects>,
    prober: Arc<Prober>,
    known: BTreeMap<SinkKey, Known>,
    under_way: JoinSet<Ended>,
    configured: Arc<Notify>,
}

enum Ended {
    Probe {
        key: SinkKey,
        about: (Option<i64>, u128),
        result: Result<String, SinkError>,
    },
    Write {
        key: SinkKey,
        base: Option<String>,
        status: Box<SinkStatus>,
        result: Result<(), String>,
    },
}

impl Probes {
    /// Probes the sinks of the configuration.
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
            known: BTreeMap::new(),
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
                    if let Ok(ended) = ended { self.ended(ended); }
                }
                () = sleep_until(wake.unwrap_or_else(far)) => {}
            }
        }
        self.under_way.shutdown().await;
    }

    fn pass(&mut self) -> Option<Instant> {
        let all = self.sinks.all();
        self.known.retain(|key, known| {
            all.iter()
                .any(|sink| sink.key == *key && uid(sink) == known.uid)
        });
        let mut wake = None;
        for sink in &all {
            if sink.meta.deletion_timestamp.is_none() {
                wake = earliest(wake, self.mind(sink));
            }
        }
        wake
    }

    fn mind(&mut self, sink: &SinkObject) -> Option<Instant> {
        let now = Instant::now();
        let known = self.known.entry(sink.key.clone()).or_insert_with(|| Known {
            uid: uid(sink),
            probed: None,
            verdict: None,
            under_way: false,
            failures: 0,
            next: now,
            written: None,
            writing: false,
        });
        let wanted = effective::connection_test(sink.spec.common()) || is_asked_for(sink);
        let mut wake = None;
        if wanted {
            match self.sinks.access(sink) {
                Access::Reading => return None,
                Access::Failed(error) => {
                    known.verdict = Some(ProbeVerdict::NoCredentials(error.message().to_owned()));
                    known.probed = None;
                }
                Access::Ready(source) => {
                    let about = (sink.meta.generation, source.version);
                    let due = known.probed != Some(about) || known.next <= now;
                    if due && !known.under_way {
                        known.under_way = true;
                        let (prober, key) = (Arc::clone(&self.prober), sink.key.clone());
                        self.under_way.spawn(async move {
                            let result = prober.probe(&source).await;
                            Ended::Probe { key, about, result }
                        });
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

    fn write(&mut self, sink: &SinkObject, wanted: bool) -> Option<Instant> {
        let known = self.known.get_mut(&sink.key)?;
        let shown = sink.status.clone().unwrap_or_default();
        let version = sink.meta.resource_version.clone();
        let before = match &known.written {
            Some((base, status)) if *base == version => status.clone(),
            _ => shown,
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
        let asked_once = is_asked_for(sink)
            && !effective::connection_test(sink.spec.common())
            && matches!(known.verdict, Some(ProbeVerdict::Reached(_)));
        if (after == before && !asked_once) || known.writing {
            return None;
        }
        known.writing = true;
        let (client, object) = (self.client.clone(), sink.clone());
        self.under_way.spawn(async move {
            let write = write(&client, &object, &before, &after, asked_once);
            let result = match timeout(WRITE_DEADLINE, write).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) if writer::is_outdated(&error) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("no answer within {WRITE_DEADLINE:?}")),
            };
            Ended::Write {
                key: object.key,
                base: object.meta.resource_version,
                status: Box::new(after),
                result,
            }
        });
        None
    }

    fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Probe { key, about, result } => {
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
                        known.failures = known.failures.saturating_add(1);
                        // Whatever the class: the object may be right and the server wrong.
                        let jitter = Jitter::new(fastrand::u64(..));
                        retry::wait(FailureClass::Transient, known.failures, jitter)
                    }
                };
                known.next = Instant::now() + wait;
                known.verdict = Some(match result {
                    Ok(text) => ProbeVerdict::Reached(text),
                    Err(error) => ProbeVerdict::Failed(error.message().to_owned()),
                });
            }
            Ended::Write {
                key,
                base,
                status,
                result,
            } => {
                let Some(known) = self.known.get_mut(&key) else {
                    return;
                };
                known.writing = false;
                match result {
                    Ok(()) => known.written = Some((base, *status)),
                    Err(error) => tracing::warn!(sink = %key, error, "cannot write the status"),
                }
            }
        }
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

/// Writes the status; then, if the annotation was the only reason to probe, takes it off.
async fn write(
    client: &Client,
    sink: &SinkObject,
    before: &SinkStatus,
    after: &SinkStatus,
    asked_once: bool,
) -> kube::Result<()> {
    async fn of<K>(
        client: &Client,
        sink: &SinkObject,
        before: &SinkStatus,
        after: &SinkStatus,
        asked_once: bool,
    ) -> kube::Result<()>
    where
        K: ApiOf + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let name = &sink.key.name;
        let api = K::api(client, Some(&sink.key.namespace));
        if after != before {
            writer::write_status_of::<K, _>(client, &sink.meta, after).await?;
            for condition in condition::transitions(&before.conditions, &after.conditions) {
                let component = format!("{}-controller", K::kind(&()).to_lowercase());
                let event =
                    writer::event_of::<K>(&sink.meta, condition, &component, Timestamp::now());
                writer::send(client, &event).await;
            }
        }
        if asked_once {
            let patch = json!({
                "metadata": {"annotations": {meta::TEST_CONNECTION_ANNOTATION: null}},
            });
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
        }
        Ok(())
    }
    match sink.key.family {
        SinkFamily::Snapshot => {
            of::<KollectSnapshotSink>(client, sink, before, after, asked_once).await
        }
        SinkFamily::Database => {
            of::<KollectDatabaseSink>(client, sink, before, after, asked_once).await
        }
        SinkFamily::Event => of::<KollectEventSink>(client, sink, before, after, asked_once).await,
    }
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    [a, b].into_iter().flatten().min()
}
