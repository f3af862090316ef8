//! The namespaces that were named at the start, read one by one.
//!
//! An operator in tenant mode may not list namespaces. What its own are like (labels that select
//! them, the annotation by which one opts out) it learns by reading each by its name, which a Role
//! can allow. Where it does not, they count as namespaces without labels.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kollect_collect::plan::NamespaceFacts;
use kollect_watch::{
    Resource, WatchScope,
    access::{Review, Reviewer, Verb},
};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{api_error::Sentence, wakeups::Wakeups};

/// How often a namespace is read.
const INTERVAL: Duration = Duration::from_secs(15);
/// How often it is asked whether it may be read, where it may not.
const DENIED: Duration = Duration::from_mins(1);
/// How soon it is tried again when there was no answer.
const UNANSWERED: Duration = Duration::from_secs(2);
/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// What is known of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// It has not been read; why not, if that is known.
    Unread(Option<String>),
    /// It may not be read.
    Denied,
    /// It does not exist.
    Missing,
    /// It is like this.
    Read(NamespaceFacts),
}

/// Keeps what is known of some namespaces current. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct NamedNamespaces(Arc<Mutex<BTreeMap<String, Known>>>);

impl NamedNamespaces {
    /// Reads these until `stop`, and notifies `changed` when one has changed.
    pub fn follow(
        client: &Client,
        names: &[String],
        changed: &Arc<Wakeups>,
        stop: &CancellationToken,
    ) -> Self {
        let unread = names.iter().map(|name| (name.clone(), Known::Unread(None)));
        let namespaces = Self(Arc::new(Mutex::new(unread.collect())));
        let reviewer = Arc::new(Reviewer::new(client.clone()));
        let reading = names.iter().map(|name| Reading {
            client: client.clone(),
            reviewer: Arc::clone(&reviewer),
            namespaces: namespaces.clone(),
            changed: Arc::clone(changed),
            name: name.clone(),
        });
        let reading: Vec<Reading> = reading.collect();
        if !reading.is_empty() {
            let stop = stop.clone();
            tokio::spawn(async move {
                let all = join_all(reading.into_iter().map(Reading::run));
                stop.run_until_cancelled(all).await;
            });
        }
        namespaces
    }

    /// What those that could be read are like.
    pub fn facts(&self) -> BTreeMap<String, NamespaceFacts> {
        let known = self.known();
        let read = known.iter().filter_map(|(name, known)| match known {
            Known::Read(facts) => Some((name.clone(), facts.clone())),
            Known::Unread(_) | Known::Denied | Known::Missing => None,
        });
        read.collect()
    }

    /// Why one is not known yet. Nothing may be collected before: it could have opted out.
    pub fn waiting(&self) -> Option<String> {
        self.known().iter().find_map(|(name, known)| match known {
            Known::Unread(None) => Some(format!("the labels of namespace {name:?}")),
            Known::Unread(Some(why)) => Some(format!("the labels of namespace {name:?}: {why}")),
            Known::Denied | Known::Missing | Known::Read(_) => None,
        })
    }

    /// Takes note of what is known; says whether that is news. What could not be asked changes
    /// nothing that was known before.
    fn note(&self, name: &str, now: Known) -> bool {
        let mut known = self.known();
        let before = known.get(name);
        let news = match (&now, before) {
            (Known::Unread(_), Some(Known::Denied | Known::Missing | Known::Read(_))) => false,
            (_, before) => before != Some(&now),
        };
        if news {
            known.insert(name.to_owned(), now);
        }
        news
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads one namespace again and again.
struct Reading {
    client: Client,
    reviewer: Arc<Reviewer>,
    namespaces: NamedNamespaces,
    changed: Arc<Wakeups>,
    name: String,
}

impl Reading {
    async fn run(self) {
        let mut allowed = false;
        loop {
            // Reviewed before it is tried: nobody likes to find refused requests in the audit log.
            let known = if allowed {
                self.read().await
            } else {
                self.review_and_read().await
            };
            allowed = matches!(known, Known::Read(_) | Known::Missing);
            let pause = match &known {
                Known::Read(_) | Known::Missing => INTERVAL,
                Known::Denied => DENIED,
                Known::Unread(_) => UNANSWERED,
            };
            if self.namespaces.note(&self.name, known) {
                self.changed.notify();
            }
            sleep(pause).await;
        }
    }

    async fn review_and_read(&self) -> Known {
        let review = Review {
            resource: Arc::new(Resource {
                group: String::new(),
                version: "v1".to_owned(),
                plural: "namespaces".to_owned(),
                namespaced: true,
            }),
            scope: WatchScope::Namespace(self.name.as_str().into()),
        };
        let allowed = self.reviewer.allows_named(&review, Verb::Get, &self.name);
        match allowed.await {
            Ok(true) => self.read().await,
            Ok(false) => Known::Denied,
            Err(error) => Known::Unread(Some(error.to_string())),
        }
    }

    async fn read(&self) -> Known {
        let api: Api<Namespace> = Api::all(self.client.clone());
        match timeout(DEADLINE, api.get_opt(&self.name)).await {
            Ok(Ok(Some(namespace))) => Known::Read(NamespaceFacts {
                labels: namespace.metadata.labels.unwrap_or_default(),
                annotations: namespace.metadata.annotations.unwrap_or_default(),
            }),
            Ok(Ok(None)) => Known::Missing,
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => Known::Denied,
            Ok(Err(error)) => Known::Unread(Some(Sentence(&error).to_string())),
            Err(_) => Known::Unread(Some(format!("no answer within {} s", DEADLINE.as_secs()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(value: &str) -> Known {
        Known::Read(NamespaceFacts {
            labels: BTreeMap::from([("tier".to_owned(), value.to_owned())]),
            ..NamespaceFacts::default()
        })
    }

    #[test]
    fn what_could_not_be_asked_changes_nothing() {
        let namespaces = NamedNamespaces::default();
        let silent = || Known::Unread(Some("no answer".to_owned()));
        assert_eq!(namespaces.waiting(), None, "nothing was named");
        for (now, news, waiting, readable) in [
            (Known::Unread(None), true, true, false),
            (silent(), true, true, false),
            (silent(), false, true, false),
            (labelled("web"), true, false, true),
            (labelled("web"), false, false, true),
            (silent(), false, false, true),
            (labelled("db"), true, false, true),
            (Known::Denied, true, false, false),
            (silent(), false, false, false),
            (Known::Missing, true, false, false),
            (labelled("db"), true, false, true),
        ] {
            let step = format!("{now:?}");
            assert_eq!(namespaces.note("team-a", now), news, "{step}");
            assert_eq!(namespaces.waiting().is_some(), waiting, "{step}");
            assert_eq!(namespaces.facts().len(), usize::from(readable), "{step}");
        }
    }
}
