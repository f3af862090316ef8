//! Whether a caller may read a path, by asking the API server.
//!
//! Who the caller is says a TokenReview of the bearer token, what he may do a SubjectAccessReview
//! for the path. Answers are kept for a while; tokens only as digests.

mod cache;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::{header, request::Parts};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use tokio::time::{sleep, timeout};

pub(crate) use self::cache::Cache;
use crate::api_error::Sentence;

/// How long a review may take, with everything that is tried again.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often a review is tried again.
const RETRIES: u32 = 5;
/// How long to wait before the first of them; each next one waits half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// For how long a token is known or unknown.
const TOKEN: Duration = Duration::from_mins(1);
/// For how long a caller is allowed.
const ALLOWED: Duration = Duration::from_mins(5);
/// For how long a caller is denied.
const DENIED: Duration = Duration::from_secs(30);
/// How many answers are kept.
const CAPACITY: usize = 1024;

/// Why a caller is turned away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// He brings no token, or none that the API server accepts.
    #[error("Unauthorized")]
    Unauthenticated,
    /// The API server says no.
    #[error("Authorization denied for user {user}")]
    Denied {
        /// Who asked.
        user: String,
    },
    /// The API server could not be asked.
    #[error("the {review} failed: {why}")]
    Unavailable {
        /// Which review.
        review: &'static str,
        /// What went wrong.
        why: String,
    },
}

/// Asks the API server about callers.
pub struct Guard {
    client: Client,
    users: Mutex<Cache<Option<UserInfo>>>,
    decisions: Mutex<Cache<bool>>,
}

impl Guard {
    /// Asks through `client`, which must be allowed to create both kinds of review.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            users: Mutex::new(Cache::new(CAPACITY)),
            decisions: Mutex::new(Cache::new(CAPACITY)),
        }
    }

    /// Lets a request through, or says why not.
    pub async fn admit(&self, request: &Parts) -> Result<(), Refusal> {
        let token = bearer(request).ok_or(Refusal::Unauthenticated)?;
        let user = self.user(token).await?.ok_or(Refusal::Unauthenticated)?;
        let verb = request.method.as_str().to_ascii_lowercase();
        if self.allows(&user, &verb, request.uri.path()).await? {
            return Ok(());
        }
        let user = user.username.unwrap_or_default();
        Err(Refusal::Denied { user })
    }

    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Refusal> {
        let key = Sha256::digest(token).into();
        if let Some(known) = lock(&self.users).get(&key, Instant::now()) {
            return Ok(known);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let status = self.ask("TokenReview", &review).await?.status;
        let accepted = status.filter(|status| status.authenticated == Some(true));
        let user = accepted.and_then(|status| status.user);
        lock(&self.users).put(key, user.clone(), Instant::now(), TOKEN);
        Ok(user)
    }

    async fn allows(&self, user: &UserInfo, verb: &str, path: &str) -> Result<bool, Refusal> {
        let question = SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        };
        let bytes = serde_json::to_vec(&question).unwrap_or_default();
        let key = Sha256::digest(bytes).into();
        if let Some(known) = lock(&self.decisions).get(&key, Instant::now()) {
            return Ok(known);
        }
        let review = SubjectAccessReview {
            spec: question,
            ..SubjectAccessReview::default()
        };
        let status = self.ask("SubjectAccessReview", &review).await?.status;
        let allowed = status.is_some_and(|status| status.allowed);
        let lifetime = if allowed { ALLOWED } else { DENIED };
        lock(&self.decisions).put(key, allowed, Instant::now(), lifetime);
        Ok(allowed)
    }

    /// Creates a review; answers that may be better next time are asked for again.
    async fn ask<K>(&self, name: &'static str, review: &K) -> Result<K, Refusal>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let attempts = async {
            let mut wait = FIRST_WAIT;
            for _ in 0..RETRIES {
                match api.create(&PostParams::default(), review).await {
                    Err(error) if may_pass(&error) => {
                        sleep(wait.mul_f64(1.0 + 0.2 * fastrand::f64())).await;
                        wait = wait.mul_f64(1.5);
                    }
                    answer => return answer,
                }
            }
            api.create(&PostParams::default(), review).await
        };
        let unavailable = |why| Refusal::Unavailable { review: name, why };
        match timeout(DEADLINE, attempts).await {
            Ok(answer) => answer.map_err(|error| unavailable(Sentence(&error).to_string())),
            Err(_) => Err(unavailable(format!("no answer within {DEADLINE:?}"))),
        }
    }
}

/// Whether the same question may be answered next time.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

fn bearer(request: &Parts) -> Option<&str> {
    let value = request.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
