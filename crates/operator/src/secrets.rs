//! The Secrets that sinks refer to, kept current.
//!
//! Secrets are watched by name, one by one: the operator holds what sinks were pointed at and nothing
//! else, a rotated credential is known within moments, and a role that names the Secrets is enough.
//!
//! A watch each is too much for an API server where there are hundreds. So only some are watched; the
//! others are asked for in turn, each about once a minute, and at once when a login failed. That is
//! also the way where a role lets Secrets be read but not watched: whether it does is reviewed before
//! a watch is opened, so that nothing is asked for in vain.

mod asking;
mod following;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kollect_sinks::secret::SecretData;
use kollect_watch::{ApiServer, access::Reviewer};
use kube::Client;
use tokio_util::sync::CancellationToken;

use self::{asking::Asked, following::Followed};
use crate::{table::NamespacedName, wakeups::Wakeups};

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

    /// Whether it is an answer about the Secret.
    fn is_definite(&self) -> bool {
        matches!(self, Self::Found { .. } | Self::Missing)
    }
}

/// Watches Secrets by name.
pub struct Secrets {
    followed: Followed,
    asked: Asked,
    stop: CancellationToken,
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
        let reviewer = Reviewer::new(client.clone());
        Self {
            followed: Followed::new(server, reviewer, Arc::clone(&changed)),
            asked: Asked::new(client, changed),
            most: WATCHED,
            stop: stop.clone(),
        }
    }

    /// Watches at most so many.
    #[must_use]
    pub fn watching_at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Watches exactly these from now on, or asks for them.
    pub fn follow(&self, wanted: &BTreeSet<NamespacedName>) {
        let current = self.followed.follow(wanted, self.most, &self.stop);
        let in_turn: BTreeSet<NamespacedName> = wanted.difference(&current).cloned().collect();
        self.asked.follow(&in_turn, &self.stop);
    }

    /// A login failed with what this Secret holds: perhaps it holds something else by now.
    pub fn hurry(&self, namespace: &str, name: &str) {
        self.asked.hurry(&(namespace.to_owned(), name.to_owned()));
    }

    /// What is known of a Secret. One that nobody follows is being read for ever.
    pub fn get(&self, namespace: &str, name: &str) -> SecretState {
        let key = (namespace.to_owned(), name.to_owned());
        let seen = self.followed.get(&key);
        if let Some((true, state)) = &seen {
            return state.clone();
        }
        let asked = self.asked.get(&key);
        // What was seen before the right was lost stays in use until there is something newer.
        let seen = seen.map(|(_, state)| state);
        match (asked, seen) {
            (Some(asked), _) if asked.is_definite() => asked,
            (_, Some(seen)) if seen.is_definite() => seen,
            (Some(SecretState::Reading) | None, Some(seen)) => seen,
            (Some(asked), _) => asked,
            (None, None) => SecretState::Reading,
        }
    }
}

fn content(secret: &Secret) -> SecretData {
    let data = secret.data.iter().flatten();
    let bytes: BTreeMap<String, Vec<u8>> = data
        .map(|(key, value)| (key.clone(), value.0.clone()))
        .collect();
    SecretData::from(bytes)
}
