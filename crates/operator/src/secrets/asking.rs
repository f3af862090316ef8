//! Asking for Secrets one by one, where they are too many to be watched or must not be.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    SILENCE, SecretState, content,
    turns::{Outcome, Turns},
};
use crate::{api_error::Sentence, table::NamespacedName, wakeups::Wakeups};

/// Questions at a time.
const PARALLEL: usize = 8;
/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Secrets that are asked for in turn. Clones share everything.
#[derive(Clone)]
pub(super) struct Asked(Arc<Shared>);

struct Shared {
    client: Client,
    changed: Arc<Wakeups>,
    state: Mutex<State>,
    /// There is something to ask for earlier than was thought.
    hurry: Notify,
}

#[derive(Default)]
struct State {
    turns: Turns,
    known: BTreeMap<NamespacedName, Known>,
    /// Whether somebody asks.
    asking: bool,
}

struct Known {
    since: Instant,
    answer: Option<SecretState>,
}

impl Asked {
    pub(super) fn new(client: Client, changed: Arc<Wakeups>) -> Self {
        Self(Arc::new(Shared {
            client,
            changed,
            state: Mutex::default(),
            hurry: Notify::new(),
        }))
    }

    /// Asks for exactly these from now on.
    pub(super) fn follow(&self, wanted: &BTreeSet<NamespacedName>, stop: &CancellationToken) {
        let now = Instant::now();
        let mut state = self.state();
        state.turns.follow(wanted, now);
        state.known.retain(|key, _| wanted.contains(key));
        for key in wanted {
            state.known.entry(key.clone()).or_insert(Known {
                since: now,
                answer: None,
            });
        }
        if !wanted.is_empty() && !state.asking {
            state.asking = true;
            tokio::spawn(self.clone().run(stop.clone()));
        }
        drop(state);
        self.0.hurry.notify_one();
    }

    /// There is a reason to believe that this one has changed.
    pub(super) fn hurry(&self, key: &NamespacedName) {
        self.state().turns.hurry(key, Instant::now());
        self.0.hurry.notify_one();
    }

    /// What is known of one, if it is asked for.
    pub(super) fn get(&self, key: &NamespacedName) -> Option<SecretState> {
        let state = self.state();
        let known = state.known.get(key)?;
        Some(match &known.answer {
            Some(answer) => answer.clone(),
            None if known.since.elapsed() < SILENCE => SecretState::Reading,
            None => SecretState::Unreadable {
                forbidden: false,
                why: "the API server has not answered yet".to_owned(),
            },
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self, stop: CancellationToken) {
        let mut questions = JoinSet::new();
        loop {
            let room = PARALLEL.saturating_sub(questions.len());
            let next = if room == 0 {
                Err(None)
            } else {
                self.state().turns.next(room, Instant::now())
            };
            let wake = match next {
                Ok(due) => {
                    for key in due {
                        questions.spawn(self.clone().ask(key));
                    }
                    continue;
                }
                Err(wake) => wake,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                Some(_) = questions.join_next() => {}
                () = self.0.hurry.notified() => {}
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    async fn ask(self, key: NamespacedName) {
        // Also if it panics or is broken off: what is under way must end.
        let mut answered = Answered {
            asked: self.clone(),
            key,
            outcome: Outcome::Open,
        };
        let (namespace, name) = &answered.key;
        let api: Api<Secret> = Api::namespaced(self.0.client.clone(), namespace);
        let answer = match timeout(DEADLINE, api.get_opt(name)).await {
            Ok(Ok(Some(secret))) => Ok(SecretState::Found {
                version: secret.metadata.resource_version.clone().unwrap_or_default(),
                data: content(&secret),
            }),
            Ok(Ok(None)) => Ok(SecretState::Missing),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                Ok(SecretState::Unreadable {
                    forbidden: true,
                    why: Sentence(&kube::Error::Api(status)).to_string(),
                })
            }
            Ok(Err(error)) => Err(Sentence(&error).to_string()),
            Err(_) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
        };
        if matches!(
            answer,
            Ok(SecretState::Found { .. } | SecretState::Unreadable { .. })
        ) {
            answered.outcome = Outcome::Settled;
        }
        if self.note(&answered.key, answer) {
            self.0.changed.notify();
        }
    }

    /// Takes note of an answer; says whether it is news. What was read before stays in use while
    /// there is none.
    fn note(&self, key: &NamespacedName, answer: Result<SecretState, String>) -> bool {
        let mut state = self.state();
        let Some(known) = state.known.get_mut(key) else {
            return false;
        };
        let new = match answer {
            Ok(new) => new,
            Err(why) => match &known.answer {
                Some(SecretState::Found { .. } | SecretState::Missing) => return false,
                _ => SecretState::Unreadable {
                    forbidden: false,
                    why,
                },
            },
        };
        let same = known.answer.as_ref().is_some_and(|old| old.is_like(&new));
        known.answer = Some(new);
        !same
    }
}

/// A question that has ended, however it did.
struct Answered {
    asked: Asked,
    key: NamespacedName,
    outcome: Outcome,
}

impl Drop for Answered {
    fn drop(&mut self) {
        let (spread, now) = (fastrand::f64(), Instant::now());
        let mut state = self.asked.state();
        state.turns.asked(&self.key, self.outcome, spread, now);
    }
}
