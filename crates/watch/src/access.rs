//! What we may read: access reviews of our own identity, before any watch is opened.
//!
//! A watch that is not permitted fails with a message that nobody asked for. So the API server is
//! asked first. Which places are asked for, and what follows from the answers, is for the plan of a
//! collection to decide.

mod cache;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use crate::resource::Resource;
use crate::scope::WatchScope;
use crate::server::chain;
use cache::Cache;

/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// For how long an answer holds.
const LIFETIME: Duration = Duration::from_secs(30);
/// How many answers are kept.
const CAPACITY: usize = 4096;

/// A question for the API server: may we `list` and `watch` this resource there?
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Review {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Where.
    pub scope: WatchScope,
}

/// The answer to a [`Review`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Both verbs are allowed.
    Allowed,
    /// At least one is not.
    Denied,
    /// The review itself failed; try again.
    Failed(String),
}

/// One verb of a review.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    review: Review,
    verb: Verb,
    /// The one object that is asked about, where a role may name it.
    name: Option<Arc<str>>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reading one object.
    Get,
    /// Reading all objects.
    List,
    /// Following changes.
    Watch,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
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

    /// Whether a resource may be listed and watched in one place. The second right is only asked
    /// for when the first is there.
    pub async fn permission(&self, review: &Review) -> Permission {
        for verb in [Verb::List, Verb::Watch] {
            match self.allows(review, verb).await {
                Ok(true) => {}
                Ok(false) => return Permission::Denied,
                Err(error) => return Permission::Failed(error.to_string()),
            }
        }
        Permission::Allowed
    }

    /// Whether the API server allows one verb.
    pub async fn allows(&self, review: &Review, verb: Verb) -> Result<bool, ReviewError> {
        self.decide(Question {
            review: review.clone(),
            verb,
            name: None,
        })
        .await
    }

    /// Whether the API server allows one verb on the object of this name.
    pub async fn allows_named(
        &self,
        review: &Review,
        verb: Verb,
        name: &str,
    ) -> Result<bool, ReviewError> {
        self.decide(Question {
            review: review.clone(),
            verb,
            name: Some(name.into()),
        })
        .await
    }

    async fn decide(&self, question: Question) -> Result<bool, ReviewError> {
        if let Some(allowed) = self.cache().get(&question, Instant::now()) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(allowed);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let allowed = self.ask(&question).await?;
        self.cache().put(question, allowed, Instant::now());
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

    async fn ask(&self, question: &Question) -> Result<bool, ReviewError> {
        let Review { resource, scope } = &question.review;
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(resource.group.clone()),
                    version: Some(resource.version.clone()),
                    resource: Some(resource.plural.clone()),
                    namespace: scope.namespace().map(str::to_owned),
                    verb: Some(question.verb.as_str().to_owned()),
                    name: question.name.as_deref().map(str::to_owned),
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
