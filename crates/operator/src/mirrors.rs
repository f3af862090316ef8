//! How much disk the Git mirrors of namespaces take. Looked at now and then, beside everything else.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kollect_api::{SinkKey, reference::SinkFamily, sink::SinkSpec};
use kollect_sinks::git;
use tokio::time::Instant;

use crate::{
    configuration::Configuration,
    quota::{Good, Limits},
};

/// How often a namespace is looked at.
const LOOK: Duration = Duration::from_secs(15);

/// What mirrors take.
#[derive(Debug, Default)]
pub struct Mirrors {
    /// Where they are; nowhere in operators without exports.
    root: Option<PathBuf>,
    measured: BTreeMap<String, Measured>,
}

#[derive(Debug)]
struct Measured {
    at: Instant,
    bytes: Arc<Mutex<u64>>,
}

impl Mirrors {
    /// Mirrors in this directory.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root: Some(root),
            ..Self::default()
        }
    }

    /// What the mirrors of a namespace with these sinks took when they were last looked at, where that
    /// is limited. Looks again in the background if that was a while ago.
    pub fn bytes_of(
        &mut self,
        namespace: &str,
        sinks: &[(Option<Timestamp>, SinkKey)],
        configuration: &Configuration,
        limits: &Limits,
    ) -> u64 {
        let Some(root) = self.root.clone().filter(|_| limits.has(Good::MirrorBytes)) else {
            return 0;
        };
        let now = Instant::now();
        let fresh = self.measured.get(namespace);
        if fresh.is_none_or(|known| now.duration_since(known.at) >= LOOK) {
            let bytes = fresh
                .map(|known| Arc::clone(&known.bytes))
                .unwrap_or_default();
            let specs: Vec<SinkSpec> = sinks
                .iter()
                .filter(|(_, key)| key.family == SinkFamily::Snapshot)
                .filter_map(|(_, key)| configuration.snapshot_sinks.get(namespace, &key.name))
                .map(|sink| SinkSpec::Snapshot(sink.spec.clone()))
                .collect();
            let told = Arc::clone(&bytes);
            self.measured
                .insert(namespace.to_owned(), Measured { at: now, bytes });
            tokio::task::spawn_blocking(move || {
                let total = git::mirror_bytes(&root, &specs);
                *told.lock().unwrap_or_else(PoisonError::into_inner) = total;
            });
        }
        let known = self.measured.get(namespace);
        known.map_or(0, |known| {
            *known.bytes.lock().unwrap_or_else(PoisonError::into_inner)
        })
    }

    /// Forgets namespaces that are gone.
    pub fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.measured.retain(|namespace, _| known(namespace));
    }
}
