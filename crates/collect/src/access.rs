//! What we may read: access reviews of our own identity, before any watch is opened.
//!
//! A watch that is not permitted fails with a message that nobody asked for. So the API server is
//! asked first: may we list and watch this resource in the whole cluster, and if not, in which of
//! the wanted namespaces? The outcome says what can be watched and names what cannot.

mod cache;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use crate::discovery::Resource;
use crate::watch::chain;
use cache::Cache;

pub use survey::{Access, Bounds, NamespaceAccess, Verdict};

/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// Reviews under way at the same time.
const PARALLEL: usize = 8;
/// For how long an answer holds.
const LIFETIME: Duration = Duration::from_secs(30);
/// How many answers are kept.
const CAPACITY: usize = 4096;

/// One question to the API server: may we do this?
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The API group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The namespace, or none for the whole cluster.
    pub namespace: Option<String>,
    /// What we want to do.
    pub verb: Verb,
}

/// What a watch has to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reading all objects.
    List,
    /// Following changes.
    Watch,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
        }
    }
}

/// The API server did not answer a review. Says nothing about the right in question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot review access: {0}")]
pub struct ReviewError(String);

/// Asks access reviews and remembers the answers for half a minute.
pub struct Reviewer {
    client: Client,
    cache: Mutex<Cache>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Reviewer {
    /// Asks through `client`, about the identity that it has.
    pub fn new(client: Client) -> Self {
        Self::with_cache(client, CAPACITY, LIFETIME)
    }

    /// Asks through `client` and keeps `capacity` answers for `lifetime`.
    pub fn with_cache(client: Client, capacity: usize, lifetime: Duration) -> Self {
        Self {
            client,
            cache: Mutex::new(Cache::new(capacity, lifetime)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Where `resource` may be listed and watched. `namespaces` are the wanted ones; none are
    /// wanted of a cluster-scoped resource.
    pub async fn survey(
        &self,
        resource: &Resource,
        namespaces: &BTreeSet<String>,
        bounds: Bounds,
    ) -> Access {
        let everywhere = self.verdict(resource, None).await;
        let mut places = BTreeMap::new();
        if resource.namespaced && everywhere == Verdict::Denied {
            places = futures::stream::iter(namespaces.iter().take(bounds.reviews).cloned())
                .map(|namespace| async {
                    let verdict = self.verdict(resource, Some(&namespace)).await;
                    (namespace, verdict)
                })
                .buffer_unordered(PARALLEL)
                .collect()
                .await;
        }
        survey::evaluate(everywhere, places, namespaces, bounds)
    }

    /// Whether the API server allows it.
    pub async fn allows(&self, question: &Question) -> Result<bool, ReviewError> {
        if let Some(allowed) = self.cache().get(question, Instant::now()) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(allowed);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let allowed = self.review(question).await?;
        self.cache().put(question.clone(), allowed, Instant::now());
        Ok(allowed)
    }

    /// Forgets all answers, as when the API server has just refused something.
    pub fn forget(&self) {
        self.cache().clear();
    }

    /// Answers from memory so far.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Questions to the API server so far.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Both rights in one place. The second is only asked for when the first is there.
    async fn verdict(&self, resource: &Resource, namespace: Option<&str>) -> Verdict {
        for verb in [Verb::List, Verb::Watch] {
            let question = Question {
                group: resource.kind.group.clone(),
                version: resource.kind.version.clone(),
                resource: resource.plural.clone(),
                namespace: namespace.map(str::to_owned),
                verb,
            };
            match self.allows(&question).await {
                Ok(true) => {}
                Ok(false) => return Verdict::Denied,
                Err(error) => return Verdict::Failed(error.to_string()),
            }
        }
        Verdict::Allowed
    }

    async fn review(&self, question: &Question) -> Result<bool, ReviewError> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(question.group.clone()),
                    version: Some(question.version.clone()),
                    resource: Some(question.resource.clone()),
                    namespace: question.namespace.clone(),
                    verb: Some(question.verb.as_str().to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let answer = timeout(DEADLINE, api.create(&parameters, &review))
            .await
            .map_err(|_| ReviewError(format!("no answer within {} s", DEADLINE.as_secs())))?
            .map_err(|error| ReviewError(chain(&error)))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
