//! Watching Secrets one by one, where that is allowed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kollect_watch::{
    ApiServer, InterruptionClass, Resource, View, WatchHandle, WatchScope, WatchSource,
    WatchSubject,
    access::{Review, ReviewError, Reviewer, Verb},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{SILENCE, SecretState, content};
use crate::{
    table::{NamespacedName, Shared, Table, TypedDecoder},
    wakeups::Wakeups,
};

/// A right that is not there is asked for again after this time.
const DENIED: Duration = Duration::from_mins(5);
/// After a watch was refused that should be allowed, nothing is tried for this time.
const REFUSED: Duration = Duration::from_mins(1);
/// A question without an answer is asked again after this time.
const UNANSWERED: Duration = Duration::from_secs(10);
/// How often it is looked whether a watch is still allowed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The Secrets that are watched, or would be if that were allowed.
pub(super) struct Followed {
    common: Arc<Common>,
    secrets: Mutex<BTreeMap<NamespacedName, Entry>>,
}

struct Common {
    server: Arc<ApiServer>,
    resource: Arc<Resource>,
    reviewer: Reviewer,
    /// One asks at a time, so that the others find its answer.
    asking: Semaphore,
    changed: Arc<Wakeups>,
}

struct Entry {
    seen: Arc<Mutex<Option<Seen>>>,
    since: Instant,
    /// Whether it was found out that it cannot be watched, or not found out at all.
    in_vain: Arc<AtomicBool>,
    /// Ends the task that watches.
    _watching: DropGuard,
}

/// What a watch shows.
struct Seen {
    table: Shared<Secret>,
    since: Instant,
    /// A watch ends with its handle; one that was refused has none any more.
    watch: Option<WatchHandle<TypedDecoder<Secret>>>,
}

impl Followed {
    pub(super) fn new(server: Arc<ApiServer>, reviewer: Reviewer, changed: Arc<Wakeups>) -> Self {
        Self {
            common: Arc::new(Common {
                server,
                resource: Arc::new(Resource {
                    group: String::new(),
                    version: "v1".to_owned(),
                    plural: "secrets".to_owned(),
                    namespaced: true,
                }),
                reviewer,
                asking: Semaphore::new(1),
                changed,
            }),
            secrets: Mutex::default(),
        }
    }

    /// Follows some of these from now on, `most` at most. Returns those that need not be asked for:
    /// a watch shows them, or is about to. A role that lets them be watched need not let them be read.
    pub(super) fn follow(
        &self,
        wanted: &BTreeSet<NamespacedName>,
        most: usize,
        stop: &CancellationToken,
    ) -> BTreeSet<NamespacedName> {
        let mut secrets = lock(&self.secrets);
        secrets.retain(|key, _| wanted.contains(key));
        // Those that are followed stay so, whoever comes.
        for key in wanted {
            if secrets.len() >= most {
                break;
            }
            if !secrets.contains_key(key) {
                let (seen, in_vain) = (Arc::default(), Arc::default());
                let over = stop.child_token();
                let common = Arc::clone(&self.common);
                let (shown, told) = (Arc::clone(&seen), Arc::clone(&in_vain));
                tokio::spawn(common.keep(key.clone(), shown, told, over.clone()));
                let entry = Entry {
                    seen,
                    since: Instant::now(),
                    in_vain,
                    _watching: over.drop_guard(),
                };
                secrets.insert(key.clone(), entry);
            }
        }
        let watched = secrets.iter().filter(|(_, entry)| entry.is_watched());
        watched.map(|(key, _)| key.clone()).collect()
    }

    /// What a watch shows of a Secret, and whether that is all there is to know.
    pub(super) fn get(&self, key: &NamespacedName) -> Option<(bool, SecretState)> {
        let secrets = lock(&self.secrets);
        let seen = lock(&secrets.get(key)?.seen);
        let seen = seen.as_ref()?;
        Some((seen.is_current(), seen.state(key)))
    }
}

impl Entry {
    /// Whether a watch shows it, or still may in the time that a first look has.
    fn is_watched(&self) -> bool {
        let seen = lock(&self.seen);
        if seen.as_ref().is_some_and(Seen::is_current) {
            return true;
        }
        let refused = seen.as_ref().is_some_and(Seen::is_refused);
        !refused && !self.in_vain.load(Ordering::Relaxed) && self.since.elapsed() < SILENCE
    }
}

impl Common {
    /// Watches a Secret whenever that is allowed, and tells when it has to be asked for.
    async fn keep(
        self: Arc<Self>,
        key: NamespacedName,
        seen: Arc<Mutex<Option<Seen>>>,
        in_vain: Arc<AtomicBool>,
        over: CancellationToken,
    ) {
        let give_up = || {
            if !in_vain.swap(true, Ordering::Relaxed) {
                self.changed.notify();
            }
        };
        let silence = async {
            sleep(SILENCE).await;
            if !lock(&seen).as_ref().is_some_and(Seen::is_current) {
                give_up();
            }
        };
        let keeping = async {
            loop {
                match self.may_watch(&key).await {
                    Ok(true) => {}
                    Ok(false) => {
                        give_up();
                        sleep(DENIED).await;
                        continue;
                    }
                    Err(_) => {
                        give_up();
                        sleep(UNANSWERED).await;
                        continue;
                    }
                }
                *lock(&seen) = Some(self.watch(&key, &over));
                while !lock(&seen).as_ref().is_some_and(Seen::is_refused) {
                    sleep(LOOK_AGAIN).await;
                }
                // What was seen stays; that the right was lost is asked about, not tried.
                if let Some(seen) = &mut *lock(&seen) {
                    seen.watch = None;
                }
                self.reviewer.forget();
                in_vain.store(true, Ordering::Relaxed);
                self.changed.notify();
                sleep(REFUSED).await;
            }
        };
        let both = async { tokio::join!(keeping, silence) };
        over.run_until_cancelled(both).await;
    }

    /// Whether a Secret may be watched: because all may, those of its namespace, or this one.
    async fn may_watch(&self, (namespace, name): &NamespacedName) -> Result<bool, ReviewError> {
        let _turn = self.asking.acquire().await;
        let review = |scope| Review {
            resource: Arc::clone(&self.resource),
            scope,
        };
        let own = review(WatchScope::Namespace(namespace.as_str().into()));
        for review in [&review(WatchScope::All), &own] {
            if self.reviewer.allows(review, Verb::List).await?
                && self.reviewer.allows(review, Verb::Watch).await?
            {
                return Ok(true);
            }
        }
        Ok(self.reviewer.allows_named(&own, Verb::List, name).await?
            && self.reviewer.allows_named(&own, Verb::Watch, name).await?)
    }

    fn watch(&self, (namespace, name): &NamespacedName, over: &CancellationToken) -> Seen {
        let what = format!("the Secret {name:?} in namespace {namespace:?}");
        let table = Shared::new(Arc::clone(&self.changed), &what);
        let scope = WatchScope::Namespace(namespace.as_str().into());
        let subject = WatchSubject::new(Arc::clone(&self.resource), scope).named(name);
        let view = View::full(TypedDecoder::default());
        let source = WatchSource::new(Arc::clone(&self.server), subject, view);
        Seen {
            watch: Some(source.spawn(table.clone(), over)),
            table,
            since: Instant::now(),
        }
    }
}

impl Seen {
    /// Whether it must not be watched. Reading it may be allowed all the same.
    fn is_refused(&self) -> bool {
        let forbidden = Some(InterruptionClass::Forbidden);
        self.table
            .read(|table| table.trouble().map(|trouble| trouble.class) == forbidden)
    }

    /// Whether nothing else need be asked.
    fn is_current(&self) -> bool {
        self.watch.is_some() && !self.is_refused() && self.table.read(Table::is_listed)
    }

    fn state(&self, (namespace, name): &NamespacedName) -> SecretState {
        self.table.read(|table| {
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
                None if self.since.elapsed() < SILENCE => SecretState::Reading,
                None => SecretState::Unreadable {
                    forbidden: false,
                    why: "the API server has not answered yet".to_owned(),
                },
            }
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
