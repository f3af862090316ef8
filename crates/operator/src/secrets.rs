//! The Secrets that sinks refer to, kept current.
//!
//! Secrets are watched by name, one by one: the operator holds what sinks were pointed at and nothing
//! else, a rotated credential is known within moments, and a role that names the Secrets is enough.
//!
//! A watch each is too much for an API server where there are hundreds. So only some are watched; the
//! others are asked for in turn, each about once a minute, and at once when a login failed. That is
//! also the way where a role lets Secrets be read but not watched.

mod asking;
mod turns;

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
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::asking::Asked;
use crate::{
    table::{NamespacedName, Shared, TypedDecoder},
    wakeups::Wakeups,
};

/// How long the first look may take before it counts as not answered.
const SILENCE: Duration = Duration::from_secs(20);

/// How many are watched; those beyond are asked for.
pub const WATCHED: usize = 50;

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

impl SecretState {
    /// Whether both say the same. Values are not compared: a version changes with them.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Reading, Self::Reading) | (Self::Missing, Self::Missing) => true,
            (Self::Found { version: a, .. }, Self::Found { version: b, .. }) => a == b,
            (Self::Unreadable { forbidden: a, .. }, Self::Unreadable { forbidden: b, .. }) => {
                a == b
            }
            _ => false,
        }
    }
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
    asked: Asked,
    /// How many are watched.
    most: usize,
}

impl Secrets {
    /// Notifies `changed` when a Secret changes. Watches through `server`, and asks through `client`.
    pub fn new(
        server: Arc<ApiServer>,
        client: Client,
        changed: Arc<Wakeups>,
        stop: &CancellationToken,
    ) -> Self {
        Self {
            server,
            asked: Asked::new(client, Arc::clone(&changed)),
            most: WATCHED,
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

    /// Watches at most so many.
    #[must_use]
    pub fn watching_at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Watches exactly these from now on, or asks for them.
    pub fn follow(&self, wanted: &BTreeSet<NamespacedName>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|key, _| wanted.contains(key));
        // Those that are watched stay so, whoever comes.
        for key in wanted {
            if watched.len() >= self.most {
                break;
            }
            if !watched.contains_key(key) {
                watched.insert(key.clone(), self.watch(key));
            }
        }
        let in_turn: BTreeSet<NamespacedName> = wanted
            .iter()
            .filter(|key| watched.get(*key).is_none_or(Watched::is_refused))
            .cloned()
            .collect();
        drop(watched);
        self.asked.follow(&in_turn, &self.stop);
    }

    /// A login failed with what this Secret holds: perhaps it holds something else by now.
    pub fn hurry(&self, namespace: &str, name: &str) {
        self.asked.hurry(&(namespace.to_owned(), name.to_owned()));
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
        let asked = || self.asked.get(&key);
        let Some(watched) = watched.get(&key) else {
            return asked().unwrap_or(SecretState::Reading);
        };
        // What was seen before the right was lost stays in use until there is something newer.
        if watched.is_refused()
            && let Some(answer @ (SecretState::Found { .. } | SecretState::Missing)) = asked()
        {
            return answer;
        }
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

impl Watched {
    /// Whether it must not be watched. Reading it may be allowed all the same.
    fn is_refused(&self) -> bool {
        self.table.read(|table| {
            let trouble = table.trouble().map(|trouble| trouble.class);
            trouble == Some(InterruptionClass::Forbidden)
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
