//! Which resource serves a kind: plural name, scope and verbs, by asking the API server.
//!
//! A profile names a group, a version and a kind; a request needs a path. Only the API server
//! knows the one from the other, and the answer changes when a CustomResourceDefinition comes or
//! goes. Each group and version is asked for by itself, and only those that somebody needs: an
//! aggregated API that is down then concerns nobody but its own users.
//!
//! That a kind is not installed is an [`Answer`] and no error: whoever waits for it asks again.

mod cache;
mod document;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt as _, Limited};
use kollect_api::GroupVersionKind;
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, timeout};

use crate::resource::{Resource, group_path};
use crate::server::chain;
use cache::{Known, Reply};
use document::Document;

pub use cache::Freshness;

/// The largest document that is read; the largest of a real cluster has about 100 KiB.
const DOCUMENT_LIMIT: usize = 16 * 1024 * 1024;

/// What serves a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The resource.
    pub resource: Arc<Resource>,
    /// What can be done with it.
    pub verbs: Vec<String>,
}

impl Served {
    /// Whether objects can be listed and their changes followed.
    pub fn is_watchable(&self) -> bool {
        ["list", "watch"]
            .iter()
            .all(|verb| self.verbs.iter().any(|known| known == verb))
    }
}

/// What is known of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This resource serves it.
    Installed(Arc<Served>),
    /// The API server does not know it.
    NotInstalled(Missing),
    /// The API server, or the one behind it that serves the group, could not tell. Holds what
    /// went wrong.
    Unreachable(String),
}

/// What is missing of a kind that is not installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// There is no such group, or not in this version.
    GroupVersion,
    /// Group and version exist, but hold no such kind.
    Kind,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GroupVersion => "the API server does not serve this group and version",
            Self::Kind => "the API server serves no such kind in this group and version",
        })
    }
}

/// Asks the API server for resources and remembers the answers.
pub struct Discovery {
    client: Client,
    freshness: Freshness,
    slots: Mutex<HashMap<GroupVersion, Arc<Slot>>>,
    requests: AtomicU64,
}

type GroupVersion = (String, String);

/// One group and version. Whoever asks holds the lock, so that others wait for the same answer
/// instead of asking too; other groups are not held up.
#[derive(Default)]
struct Slot {
    known: tokio::sync::Mutex<Known>,
    outdated: AtomicBool,
}

impl Discovery {
    /// Asks through `client`.
    pub fn new(client: Client) -> Self {
        Self::with_freshness(client, Freshness::default())
    }

    /// Asks through `client` as often as given.
    pub fn with_freshness(client: Client, freshness: Freshness) -> Self {
        Self {
            client,
            freshness,
            slots: Mutex::default(),
            requests: AtomicU64::new(0),
        }
    }

    /// What is known of a kind. Asks the API server when nothing is known, when what is known is
    /// old, and, not too often, when the kind was not found.
    pub async fn resolve(&self, kind: &GroupVersionKind) -> Answer {
        // The core group has no name, but people write one in profiles.
        let group = match kind.group.as_str() {
            "core" => "",
            group => group,
        };
        let slot = self.slot(group, &kind.version);
        let mut known = slot.known.lock().await;
        // Cleared before asking: what changes while the answer is under way is asked for again.
        let outdated = slot.outdated.swap(false, Ordering::AcqRel);
        if outdated || known.is_due(&kind.kind, Instant::now(), self.freshness) {
            let reply = self.ask(group, &kind.version).await;
            known.learn(reply, Instant::now());
        }
        known.answer(&kind.kind)
    }

    /// Something changed in a group: a CustomResourceDefinition came, went or was edited. The
    /// next question about one of its kinds goes to the API server.
    pub fn group_changed(&self, group: &str) {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, slot) in slots.iter().filter(|((known, _), _)| known == group) {
            slot.outdated.store(true, Ordering::Release);
        }
    }

    /// How many times the API server was asked.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn slot(&self, group: &str, version: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry((group.to_owned(), version.to_owned()));
        Arc::clone(slot.or_default())
    }

    async fn ask(&self, group: &str, version: &str) -> Reply {
        self.requests.fetch_add(1, Ordering::Relaxed);
        match timeout(self.freshness.deadline, self.fetch(group, version)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(problem)) => Reply::Failed(problem),
            Err(_) => Reply::Failed(format!(
                "no answer within {} s",
                self.freshness.deadline.as_secs()
            )),
        }
    }

    async fn fetch(&self, group: &str, version: &str) -> Result<Reply, String> {
        // Both are written by users and become part of a path, which must not lead elsewhere.
        if !is_name(group) || !is_name(version) {
            return Ok(Reply::Absent);
        }
        let request = http::Request::get(group_path(group, version))
            .header(http::header::ACCEPT, "application/json")
            .body(Body::empty())
            .map_err(|error| chain(&error))?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| chain(&error))?;
        let status = response.status();
        if status == http::StatusCode::NOT_FOUND {
            return Ok(Reply::Absent);
        }
        if !status.is_success() {
            return Err(format!("the API server answers {status}"));
        }
        let body = Limited::new(response.into_body(), DOCUMENT_LIMIT);
        let body = body.collect().await.map_err(|error| error.to_string())?;
        let document = Document::parse(group, version, &body.to_bytes());
        document
            .map(Reply::Served)
            .map_err(|error| format!("the answer cannot be read: {error}"))
    }
}

/// Whether this can be a group or a version at all.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    text.bytes().all(allowed) && !text.starts_with('.')
}

/// The group of the kind that a CustomResourceDefinition defines, from the definition's name
/// alone, so that a metadata-only watch tells which groups change.
pub fn group_of_crd(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, group)| group)
}
