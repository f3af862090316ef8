//! The Secrets that sinks refer to, kept current.
//!
//! Each Secret is watched by its name: the operator holds what sinks were pointed at and nothing
//! else, a rotated credential is known within moments, and a role that names the Secrets is enough.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kollect_sinks::secret::SecretData;
use kollect_watch::{
    ApiServer, InterruptionClass, Resource, View, WatchHandle, WatchScope, WatchSource,
    WatchSubject,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    table::{NamespacedName, Shared, TypedDecoder},
    wakeups::Wakeups,
};

/// How long the first look may take before it counts as not answered.
const SILENCE: Duration = Duration::from_secs(20);

/// What is known of one Secret.
#[derive(Debug, Clone)]
pub enum SecretState {
    /// It is being read for the first time.
    Reading,
    /// Its content, and the version that changes with it.
    Found {
        /// `metadata.resourceVersion`.
        version: String,
        /// The values.
        data: SecretData,
    },
    /// There is none.
    Missing,
    /// It cannot be read; the text says why.
    Unreadable {
        /// Whether a right is missing.
        forbidden: bool,
        /// What the API server said.
        why: String,
    },
}

struct Watched {
    table: Shared<Secret>,
    since: Instant,
    /// Held because a watch ends with its handle.
    _watch: WatchHandle<TypedDecoder<Secret>>,
}

/// Watches Secrets by name.
pub struct Secrets {
    server: Arc<ApiServer>,
    resource: Arc<Resource>,
    changed: Arc<Wakeups>,
    stop: CancellationToken,
    watched: Mutex<BTreeMap<NamespacedName, Watched>>,
}

impl Secrets {
    /// Notifies `changed` when a watched Secret changes.
    pub fn new(server: Arc<ApiServer>, changed: Arc<Wakeups>, stop: &CancellationToken) -> Self {
        Self {
            server,
            resource: Arc::new(Resource {
                group: String::new(),
                version: "v1".to_owned(),
                plural: "secrets".to_owned(),
                namespaced: true,
            }),
            changed,
            stop: stop.clone(),
            watched: Mutex::default(),
        }
    }

    /// Watches exactly these from now on.
    pub fn follow(&self, wanted: &BTreeSet<NamespacedName>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|key, _| wanted.contains(key));
        for key in wanted {
            if !watched.contains_key(key) {
                watched.insert(key.clone(), self.watch(key));
            }
        }
    }

    fn watch(&self, (namespace, name): &NamespacedName) -> Watched {
        let what = format!("the Secret {name:?} in namespace {namespace:?}");
        let table = Shared::new(Arc::clone(&self.changed), &what);
        let scope = WatchScope::Namespace(namespace.as_str().into());
        let subject = WatchSubject::new(Arc::clone(&self.resource), scope).named(name);
        let view = View::full(TypedDecoder::default());
        let source = WatchSource::new(Arc::clone(&self.server), subject, view);
        let watch = source.spawn(table.clone(), &self.stop);
        Watched {
            table,
            since: Instant::now(),
            _watch: watch,
        }
    }

    /// What is known of a Secret. One that nobody follows is being read for ever.
    pub fn get(&self, namespace: &str, name: &str) -> SecretState {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.to_owned());
        let Some(watched) = watched.get(&key) else {
            return SecretState::Reading;
        };
        watched.table.read(|table| {
            if let Some(secret) = table.get(namespace, name) {
                return SecretState::Found {
                    version: secret.metadata.resource_version.clone().unwrap_or_default(),
                    data: content(secret),
                };
            }
            if table.is_listed() {
                return SecretState::Missing;
            }
            // What was read before stays in use while the API server is away.
            match table.trouble() {
                Some(trouble) => SecretState::Unreadable {
                    forbidden: trouble.class == InterruptionClass::Forbidden,
                    why: trouble.message.clone(),
                },
                None if watched.since.elapsed() < SILENCE => SecretState::Reading,
                None => SecretState::Unreadable {
                    forbidden: false,
                    why: "the API server has not answered yet".to_owned(),
                },
            }
        })
    }
}

fn content(secret: &Secret) -> SecretData {
    let data = secret.data.iter().flatten();
    let bytes: BTreeMap<String, Vec<u8>> = data
        .map(|(key, value)| (key.clone(), value.0.clone()))
        .collect();
    SecretData::from(bytes)
}
