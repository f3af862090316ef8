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
use tokio::{runtime::Handle, task::spawn_blocking, time::timeout};

use crate::{
    census::Census,
    credentials::Materials,
    dial::Dialer,
    error::SinkError,
    layout,
    redact::Redacted,
    sink::{Demand, Sink},
};

/// How long it may take to open a sink. Nothing is connected meanwhile, so it takes a moment; what
/// takes longer hangs.
const OPENING: Duration = Duration::from_secs(30);

/// The backends of this program, one line each.
static REGISTRY: &[&dyn Backend] = &[
    #[cfg(feature = "git")]
    &crate::git::GitBackend,
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
    let Some(backend) = backend(sink_type) else {
        return Err(SinkError::terminal(format!(
            "sink type {:?} is not built into this program",
            sink_type.as_str()
        )));
    };
    let redaction = seed.materials.redaction.clone();
    let environment = environment.clone();
    let runtime = Handle::current();
    let opening = spawn_blocking(move || {
        backend.check(&seed.spec)?;
        runtime.block_on(backend.open(seed, &environment))
    });
    match timeout(OPENING, opening).await {
        Ok(Ok(Ok(sink))) => Ok(Arc::new(Redacted::new(sink, redaction))),
        Ok(Ok(Err(error))) => Err(redaction.last_look(error)),
        Ok(Err(_)) => Err(SinkError::transient(
            "the sink could not be opened (a panic; the log of the operator has it)",
        )),
        Err(_) => Err(SinkError::transient(format!(
            "the sink could not be opened within {} s",
            OPENING.as_secs()
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
    use std::collections::BTreeSet;

    use kollect_api::{address::AddressPolicy, reference::SinkFamily};

    use super::*;

    fn environment() -> Environment {
        Environment {
            dialer: Dialer::new(AddressPolicy::default()),
            work_dir: PathBuf::new(),
            local_repositories: false,
            census: Arc::default(),
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

    #[tokio::test]
    async fn a_backend_that_is_not_built_in_says_so() {
        let seed = seed(serde_json::json!({"type": "gcs", "endpoint": "gs://bucket"}));
        let error = open(seed, &environment()).await.unwrap_err();
        let expected = "sink type \"gcs\" is not built into this program";
        assert_eq!(error, SinkError::terminal(expected));
    }

    #[test]
    fn every_type_has_at_most_one_backend() {
        let mut seen = BTreeSet::new();
        for sink_type in REGISTRY.iter().flat_map(|backend| backend.types()) {
            assert!(seen.insert(sink_type.as_str()), "{sink_type} twice");
        }
    }
}
