//! The backends, and the way from a description and credentials to a sink.
//!
//! A backend is one folder with one registration: an implementation of [`Backend`], which says what
//! the backend answers to, what its sinks want, which settings it refuses, how a sink is opened and
//! how it previews itself. Whoever adds one adds the folder, its block and type word in
//! `kollect_api::sink`, and one line in `REGISTRY` below.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::{
    SinkKey,
    sink::{SinkSpec, SinkType, status::Preview},
};
use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::{
    census::Census,
    credentials::Materials,
    dial::Dialer,
    error::SinkError,
    identity::workload::Workload,
    layout,
    redact::Redacted,
    share::Shares,
    sink::{Demand, Sink},
};

/// How long it may take to open a sink. Nothing is connected meanwhile, so it takes a moment; what
/// takes longer hangs.
const OPENING: Duration = Duration::from_secs(30);

/// An opening that hangs keeps its thread, deadline or not. So a sink has one opening at a time, and
/// a namespace a few: attempts and probes after one that hangs wait without a thread.
static OPENINGS_OF_SINK: Shares = Shares::new(1);
static OPENINGS_OF_NAMESPACE: Shares = Shares::new(8);

/// The backends of this program, one line each.
static REGISTRY: &[&dyn Backend] = &[
    #[cfg(feature = "bigquery")]
    &crate::bigquery::BigqueryBackend,
    #[cfg(feature = "git")]
    &crate::git::GitBackend,
    #[cfg(feature = "kafka")]
    &crate::kafka::KafkaBackend,
    #[cfg(feature = "mongodb")]
    &crate::mongo::MongoBackend,
    #[cfg(feature = "nats")]
    &crate::nats::NatsBackend,
    #[cfg(feature = "object-store")]
    &crate::objects::ObjectBackend,
    #[cfg(feature = "postgres")]
    &crate::postgres::PostgresBackend,
];

/// What a program has to know of a backend before there is a sink.
#[async_trait]
pub trait Backend: Sync {
    /// The words of `spec.type` that it answers to.
    fn types(&self) -> &'static [SinkType];

    /// What a sink of this description will want. The sink itself gives the same answer.
    fn demand(&self, spec: &SinkSpec) -> Demand;

    /// Refuses settings that no Secret can mend.
    fn check(&self, _spec: &SinkSpec) -> Result<(), SinkError> {
        Ok(())
    }

    /// Opens a sink. Connects to nothing: that happens on first use.
    async fn open(
        &self,
        seed: SinkSeed,
        environment: &Environment,
    ) -> Result<Arc<dyn Sink>, SinkError>;

    /// Whether a sink of this description can take all rows but those of some targets, of which
    /// nothing is known, and leave the rows of those as they are ([`Snapshot::held`]). One that
    /// cannot is given nothing until everything is known.
    ///
    /// [`Snapshot::held`]: kollect_inventory::Snapshot::held
    fn keeps_held(&self, _spec: &SinkSpec) -> bool {
        false
    }

    /// Adds what only the backend knows to a preview: tables, commits, topics.
    fn preview(&self, _spec: &SinkSpec, _sink: &str, _at: Timestamp, _preview: &mut Preview) {}
}

/// What a sink grows from.
#[derive(Clone)]
pub struct SinkSeed {
    /// The sink object.
    pub key: SinkKey,
    /// Its configuration.
    pub spec: Arc<SinkSpec>,
    /// Its credentials.
    pub materials: Materials,
}

impl fmt::Debug for SinkSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkSeed")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// What all sinks of a process share.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The way out.
    pub dialer: Dialer,
    /// Where backends may keep files between deliveries; nothing there has to survive.
    pub work_dir: PathBuf,
    /// Whether Git repositories may be local directories.
    pub local_repositories: bool,
    /// Who is there to own something.
    pub census: Arc<Census>,
    /// Whether connection strings may name files of this machine, such as certificates. For a
    /// person's own machine; in an operator's pod they would be the operator's files.
    pub local_files: bool,
    /// Who this process is to its cloud, where sinks without credentials may use that.
    pub workload: Option<Arc<Workload>>,
}

/// The backend of a type, if this program has it.
fn backend(sink_type: SinkType) -> Option<&'static dyn Backend> {
    let mut known = REGISTRY.iter().copied();
    known.find(|backend| backend.types().contains(&sink_type))
}

/// What a sink of this description will want.
pub fn demand(spec: &SinkSpec) -> Demand {
    backend(spec.sink_type()).map_or(Demand::Changes, |backend| backend.demand(spec))
}

/// Whether a sink of this description can leave rows as they are of which nothing is known.
pub fn keeps_held(spec: &SinkSpec) -> bool {
    backend(spec.sink_type()).is_some_and(|backend| backend.keeps_held(spec))
}

/// Opens a sink, within a deadline and where a call that blocks holds up nobody else.
///
/// Two things hold for every backend and are therefore done here: its endpoint is judged, since the
/// object may have been stored without admission, and nothing it says holds a value of its Secrets.
pub async fn open(seed: SinkSeed, environment: &Environment) -> Result<Arc<dyn Sink>, SinkError> {
    let sink_type = seed.spec.sink_type();
    if let Some(endpoint) = &seed.spec.common().endpoint {
        let local = environment.local_repositories;
        environment
            .dialer
            .check_endpoint(sink_type, endpoint, local)
            .map_err(|error| error.at("spec.endpoint"))?;
    }
    let backend = backend(sink_type).ok_or_else(|| not_built_in(sink_type))?;
    open_within(OPENING, backend, seed, environment).await
}

/// Each backend can be left out of a program.
fn not_built_in(sink_type: SinkType) -> SinkError {
    let word = sink_type.as_str();
    SinkError::terminal(format!("sink type {word:?} is not built into this program"))
}

async fn open_within(
    limit: Duration,
    backend: &'static dyn Backend,
    seed: SinkSeed,
    environment: &Environment,
) -> Result<Arc<dyn Sink>, SinkError> {
    let deadline = Instant::now() + limit;
    let turn = async {
        let sink = OPENINGS_OF_SINK.of(&seed.key.to_string());
        let namespace = OPENINGS_OF_NAMESPACE.of(&seed.key.namespace);
        // In this order: a sink that waits for itself holds nothing of its namespace.
        let sink = sink.acquire_owned().await;
        (sink, namespace.acquire_owned().await)
    };
    let Ok(turn) = timeout_at(deadline, turn).await else {
        return Err(SinkError::transient(format!(
            "the sink could not be opened within {} s: an earlier attempt to open it, or another \
             sink of its namespace, still hangs",
            limit.as_secs()
        )));
    };
    let redaction = seed.materials.redaction.clone();
    let environment = Environment {
        dialer: environment.dialer.on_behalf_of(&seed.key.namespace),
        ..environment.clone()
    };
    let runtime = Handle::current();
    let opening = spawn_blocking(move || {
        // Given back when this ends, not when the caller gives up.
        let _turn = turn;
        backend.check(&seed.spec)?;
        runtime.block_on(backend.open(seed, &environment))
    });
    match timeout_at(deadline, opening).await {
        Ok(Ok(Ok(sink))) => Ok(Arc::new(Redacted::new(sink, redaction))),
        Ok(Ok(Err(error))) => Err(redaction.last_look(error)),
        Ok(Err(_)) => Err(SinkError::transient(
            "the sink could not be opened (a panic; the log of the operator has it)",
        )),
        Err(_) => Err(SinkError::transient(format!(
            "the sink could not be opened within {} s",
            limit.as_secs()
        ))),
    }
}

/// What exports to a sink would look like, rendered from made-up rows; no backend is asked. The time
/// of rendering is for the caller to add.
pub fn preview(spec: &SinkSpec, sink: &str, at: Timestamp) -> Preview {
    let mut preview = layout::preview::preview(spec);
    if let Some(backend) = backend(spec.sink_type()) {
        backend.preview(spec, sink, at, &mut preview);
    }
    preview
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
    };

    use kollect_api::{address::AddressPolicy, reference::SinkFamily};

    use super::*;

    fn environment() -> Environment {
        Environment {
            dialer: Dialer::new(AddressPolicy::default()),
            work_dir: PathBuf::new(),
            local_repositories: false,
            census: Arc::default(),
            local_files: false,
            workload: None,
        }
    }

    fn seed(spec: serde_json::Value) -> SinkSeed {
        let spec = SinkSpec::Snapshot(serde_json::from_value(spec).unwrap());
        SinkSeed {
            key: SinkKey::new(SinkFamily::Snapshot, "team-a", "git"),
            spec: Arc::new(spec),
            materials: Materials::default(),
        }
    }

    /// Admission may be off: a disk, a private network and a metadata service stay out of reach.
    #[tokio::test]
    async fn endpoints_are_judged_before_anything_is_opened() {
        for endpoint in [
            "file:///etc",
            "/srv/repository.git",
            "https://10.0.0.1/r.git",
            "ssh://git@metadata.google.internal/r.git#branch=main",
        ] {
            let seed = seed(serde_json::json!({"type": "git", "endpoint": endpoint}));
            let error = open(seed, &environment()).await.unwrap_err();
            assert!(
                matches!(&error, SinkError::Terminal(text)
                    if text.starts_with("spec.endpoint: ") && text.contains("not allowed")),
                "{endpoint}: {error:?}"
            );
        }
    }

    #[test]
    fn a_backend_that_is_not_built_in_says_so() {
        let expected = "sink type \"gcs\" is not built into this program";
        assert_eq!(not_built_in(SinkType::Gcs), SinkError::terminal(expected));
    }

    /// Hangs in its first opening until it is released.
    struct Hanging {
        begun: AtomicUsize,
        released: Mutex<Option<mpsc::Receiver<()>>>,
    }

    #[async_trait]
    impl Backend for Hanging {
        fn types(&self) -> &'static [SinkType] {
            &[]
        }

        fn demand(&self, _: &SinkSpec) -> Demand {
            Demand::Changes
        }

        async fn open(&self, _: SinkSeed, _: &Environment) -> Result<Arc<dyn Sink>, SinkError> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            let released = self.released.lock().unwrap().take();
            if let Some(released) = released {
                let _ = released.recv();
            }
            Err(SinkError::terminal("opened"))
        }
    }

    /// Each attempt gives up in time, but only the first one has a thread.
    #[tokio::test]
    async fn a1_an_opening_that_hangs_costs_one_thread() {
        let (release, released) = mpsc::channel();
        let backend: &'static Hanging = Box::leak(Box::new(Hanging {
            begun: AtomicUsize::new(0),
            released: Mutex::new(Some(released)),
        }));
        let of = |name: &str| SinkSeed {
            key: SinkKey::new(SinkFamily::Snapshot, "hanging", name),
            ..seed(serde_json::json!({"type": "git", "endpoint": "https://h/r"}))
        };
        let (soon, late) = (Duration::from_millis(50), Duration::from_mins(1));
        for attempt in 0..5 {
            let error = open_within(soon, backend, of("one"), &environment()).await;
            let error = error.unwrap_err();
            assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
            let earlier = error.message().contains("an earlier attempt");
            // A machine that is busy may not even begin the first one in time.
            assert!(earlier || attempt == 0, "{error}");
            while backend.begun.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert_eq!(backend.begun.load(Ordering::SeqCst), 1, "one thread");
        // Its neighbours are not concerned, and it is opened again once the first attempt ends.
        for name in ["two", "one"] {
            let opened = open_within(late, backend, of(name), &environment()).await;
            assert_eq!(opened.unwrap_err(), SinkError::terminal("opened"), "{name}");
            let _ = release.send(());
        }
        assert_eq!(backend.begun.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn every_type_has_at_most_one_backend() {
        let mut seen = BTreeSet::new();
        for sink_type in REGISTRY.iter().flat_map(|backend| backend.types()) {
            assert!(seen.insert(sink_type.as_str()), "{sink_type} twice");
        }
    }
}
