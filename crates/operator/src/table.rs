//! The objects of one kind, kept current by a watch.
//!
//! Kollect's own kinds are few and small, so they are kept whole. An object that does not have the
//! shape of its kind is remembered as such: it exists, and what it says is not known. It does not
//! keep the others from being read.
//!
//! Whether all objects are known is known too: a kind that was never listed is not an empty one,
//! and what was listed once stays in use while the API server refuses to say more.

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kollect_watch::{
    Consumer, Decode, DecodeError, Decoded, InterruptionClass, ObjectIdentity, WatchDelivery,
};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::wakeups::Wakeups;

pub mod relevance;

/// Trouble is not told more often. A little longer than the time in which the log does not repeat
/// itself: what is said is there.
const TELL_AGAIN: Duration = Duration::from_secs(61);

/// Namespace and name; the namespace is empty for cluster kinds.
pub type NamespacedName = (String, String);

/// The objects of one kind.
#[derive(Debug)]
pub struct Table<K> {
    objects: BTreeMap<NamespacedName, Arc<K>>,
    /// Objects that cannot be read, and why.
    unreadable: BTreeMap<NamespacedName, String>,
    /// What the listing under way has shown so far.
    listing: Option<BTreeSet<NamespacedName>>,
    listed: bool,
    /// Why the kind cannot be read at present.
    trouble: Option<Trouble>,
    /// Whether that has been told.
    told: bool,
    /// When it was told last.
    told_at: Option<Instant>,
}

/// Why a kind cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What sort of trouble.
    pub class: InterruptionClass,
    /// What the API server said.
    pub message: String,
    /// Since when it lasts, whatever was said meanwhile.
    pub since: Instant,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            listing: None,
            listed: false,
            trouble: None,
            told: false,
            told_at: None,
        }
    }
}

impl<K> Table<K> {
    /// Whether all objects are known.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// Why the kind cannot be read at present, if so.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// All objects that can be read.
    pub fn objects(&self) -> impl Iterator<Item = (&NamespacedName, &Arc<K>)> {
        self.objects.iter()
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The objects of one namespace that can be read.
    pub fn objects_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        let first = (namespace.to_owned(), String::new());
        let from = self.objects.range(first..);
        let own = from.take_while(move |((place, _), _)| place == namespace);
        own.map(|(_, object)| object)
    }

    /// Why an object that is there cannot be read, if so.
    pub fn why_unreadable(&self, namespace: &str, name: &str) -> Option<&String> {
        let key = (namespace.to_owned(), name.to_owned());
        self.unreadable.get(&key)
    }

    /// The objects that cannot be read, and why.
    pub fn unreadable(&self) -> impl Iterator<Item = (&NamespacedName, &String)> {
        self.unreadable.iter()
    }

    /// Whether to say now that the kind cannot be read. What comes and goes is said again after a
    /// while, if it is there then.
    fn may_tell(&mut self) -> bool {
        let recent = |at: &Instant| at.elapsed() < TELL_AGAIN;
        if self.told || self.told_at.as_ref().is_some_and(recent) {
            return false;
        }
        self.told = true;
        self.told_at = Some(Instant::now());
        true
    }

    /// Says that the kind can be read again, if anybody was told that it cannot.
    fn told_again(&mut self, what: &str) {
        if std::mem::take(&mut self.told) {
            tracing::info!("{what} can be listed and watched again");
        }
    }

    fn put(&mut self, key: NamespacedName, object: K, compare: Compare<K>) -> Change {
        let was_unreadable = self.unreadable.remove(&key).is_some();
        if let Some(seen) = &mut self.listing {
            seen.insert(key.clone());
        }
        let change = match self.objects.get(&key) {
            Some(known) if !was_unreadable => compare(known, &object),
            _ => Change::Configured,
        };
        // Also if nobody has to hear of it: the next write is based on the newest version.
        self.objects.insert(key, Arc::new(object));
        change
    }

    fn spoil(&mut self, key: NamespacedName, why: String) -> bool {
        if let Some(seen) = &mut self.listing {
            seen.insert(key.clone());
        }
        let known = self.objects.remove(&key).is_some();
        known | (self.unreadable.insert(key, why.clone()) != Some(why))
    }

    fn remove(&mut self, key: &NamespacedName) -> bool {
        self.unreadable.remove(key).is_some() | self.objects.remove(key).is_some()
    }

    /// Drops what the listing did not show.
    fn sweep(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.listed, true);
        let Some(seen) = self.listing.take() else {
            return first;
        };
        let before = self.objects.len() + self.unreadable.len();
        self.objects.retain(|key, _| seen.contains(key));
        self.unreadable.retain(|key, _| seen.contains(key));
        first || before != self.objects.len() + self.unreadable.len()
    }
}

/// What a new version of an object means to those who read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nobody has to hear of it.
    Nothing,
    /// It says something else about itself.
    Told,
    /// Something else is asked for.
    Configured,
}

impl From<bool> for Change {
    fn from(changed: bool) -> Self {
        if changed {
            Self::Configured
        } else {
            Self::Nothing
        }
    }
}

/// Finds what a new version means.
pub type Compare<K> = fn(&K, &K) -> Change;

/// A table that a watch fills and others read.
#[derive(Debug)]
pub struct Shared<K> {
    table: Arc<Mutex<Table<K>>>,
    changed: Arc<Wakeups>,
    compare: Compare<K>,
    /// What is read, for the log.
    what: Arc<str>,
}

impl<K> Clone for Shared<K> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            changed: Arc::clone(&self.changed),
            compare: self.compare,
            what: Arc::clone(&self.what),
        }
    }
}

impl<K> Shared<K> {
    /// An empty table that notifies `changed` of every real change. `what` is the name of what is
    /// read, for people.
    pub fn new(changed: Arc<Wakeups>, what: &str) -> Self
    where
        K: PartialEq,
    {
        Self::comparing(changed, what, |before, after| {
            if before == after {
                Change::Nothing
            } else {
                Change::Configured
            }
        })
    }

    /// An empty table that notifies `changed` of what this finds.
    pub fn comparing(changed: Arc<Wakeups>, what: &str, compare: Compare<K>) -> Self {
        Self {
            table: Arc::default(),
            changed,
            compare,
            what: what.into(),
        }
    }

    /// Looks at the table.
    pub fn read<R>(&self, look: impl FnOnce(&Table<K>) -> R) -> R {
        look(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, change: impl FnOnce(&mut Table<K>) -> Change) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let change = change(&mut table);
        drop(table);
        match change {
            Change::Nothing => {}
            Change::Told => self.changed.notify_told(),
            Change::Configured => self.changed.notify(),
        }
    }
}

impl<K> Consumer<K> for Shared<K>
where
    K: Resource + Send + Sync + 'static,
{
    async fn take(&mut self, delivery: WatchDelivery<K>) {
        let what = Arc::clone(&self.what);
        self.write(|table| match delivery {
            WatchDelivery::ListingStarted => {
                table.listing = Some(BTreeSet::new());
                Change::Nothing
            }
            WatchDelivery::Object(object) => {
                let meta = object.meta();
                let key = (
                    meta.namespace.clone().unwrap_or_default(),
                    meta.name.clone().unwrap_or_default(),
                );
                table.put(key, object, self.compare)
            }
            WatchDelivery::Gone {
                identity: ObjectIdentity {
                    namespace, name, ..
                },
                ..
            } => table.remove(&(namespace, name)).into(),
            WatchDelivery::Unreadable(unreadable) => match unreadable.identity {
                Some(ObjectIdentity {
                    namespace, name, ..
                }) => {
                    let error = unreadable.error.to_string();
                    tracing::warn!(kind = %what, namespace, name, error, "an object cannot be understood; what depends on it stays as it is");
                    table.spoil((namespace, name), error).into()
                }
                None => Change::Nothing,
            },
            // What was in the way of changes may be so still.
            WatchDelivery::ListingFinished { .. } => table.sweep().into(),
            WatchDelivery::Progress { .. } => Change::Nothing,
            WatchDelivery::Interrupted(interruption) => {
                let before = table.trouble.as_ref();
                let trouble = Trouble {
                    class: interruption.class,
                    message: interruption.message,
                    since: before.map_or_else(Instant::now, |before| before.since),
                };
                let new = before != Some(&trouble);
                // One that passes with the next try is nothing to tell.
                let lasts =
                    trouble.class == InterruptionClass::Forbidden || interruption.failures > 1;
                if lasts && table.may_tell() {
                    let known = if table.listed {
                        "what was read before stays in use"
                    } else {
                        "nothing is known of it, so nothing is decided that depends on it"
                    };
                    tracing::warn!(
                        "cannot list and watch {what}: {}; {known}; asked again in {} s",
                        trouble.message,
                        interruption.retry_in.as_secs()
                    );
                }
                table.trouble = Some(trouble);
                new.into()
            }
            WatchDelivery::Resumed => {
                table.told_again(&what);
                table.trouble.take().is_some().into()
            }
        });
    }
}

/// Decodes objects of a typed kind.
#[derive(Debug)]
pub struct TypedDecoder<K>(PhantomData<fn() -> K>);

impl<K> Default for TypedDecoder<K> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<K> Decode for TypedDecoder<K>
where
    K: Resource + DeserializeOwned + Send + 'static,
{
    type Object = K;

    fn decode(&self, json: &[u8]) -> Result<Decoded<K>, DecodeError> {
        let mut object: K = match serde_json::from_slice(json) {
            Ok(object) => object,
            Err(error) => without_status(json).ok_or(error)?,
        };
        // Bookkeeping of the API server: half of the object, and no concern of ours.
        object.meta_mut().managed_fields = None;
        let resource_version = object.meta().resource_version.clone().unwrap_or_default();
        Ok(Decoded {
            resource_version,
            object,
        })
    }
}

/// The object without its status. A status is ours to write, but others may have written it too,
/// and then it must not keep what people configured from being read.
fn without_status<K: DeserializeOwned>(json: &[u8]) -> Option<K> {
    let mut object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(json).ok()?;
    object.remove("status")?;
    serde_json::from_value(object.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kollect_api::{KollectInventory, KollectScope};
    use kollect_watch::{Interruption, Unreadable};

    fn scope(name: &str, denied: &str) -> KollectScope {
        let json = serde_json::json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectScope",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"deniedNamespaces": [denied]},
        });
        TypedDecoder::default()
            .decode(json.to_string().as_bytes())
            .unwrap()
            .object
    }

    fn identity(name: &str) -> ObjectIdentity {
        ObjectIdentity {
            namespace: "team-a".into(),
            name: name.into(),
            uid: String::new(),
        }
    }

    fn gone(name: &str) -> WatchDelivery<KollectScope> {
        WatchDelivery::Gone {
            identity: identity(name),
            resource_version: "9".into(),
        }
    }

    /// The API server takes times that no clock of ours can hold.
    #[test]
    fn a14_a_status_that_cannot_be_read_freezes_nothing() {
        let decode = |object: serde_json::Value| {
            TypedDecoder::<KollectInventory>::default().decode(object.to_string().as_bytes())
        };
        let mut object = serde_json::json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectInventory",
            "metadata": {"name": "all", "namespace": "team-a", "resourceVersion": "7"},
            "spec": {"suspend": true},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "reason": "Forged", "message": "",
                "lastTransitionTime": "9999-12-31T23:59:59Z",
            }]},
        });
        let read = decode(object.clone()).expect("an object without its status");
        assert_eq!(read.resource_version, "7");
        assert_eq!((read.object.spec.suspend, read.object.status), (true, None));
        object["spec"] = serde_json::json!({"suspend": "perhaps"});
        assert!(
            decode(object).is_err(),
            "what people configured is not guessed"
        );
    }

    #[tokio::test]
    async fn listings_sweep_what_is_gone_and_bad_objects_stand_alone() {
        let mut shared = Shared::new(Arc::default(), "scopes");
        let names = |shared: &Shared<KollectScope>| {
            shared.read(|table| {
                table
                    .objects()
                    .map(|(key, _)| key.1.clone())
                    .collect::<Vec<_>>()
            })
        };
        let finished = || WatchDelivery::ListingFinished {
            resource_version: "1".into(),
        };
        assert!(!shared.read(Table::is_listed));
        shared.take(WatchDelivery::ListingStarted).await;
        shared.take(WatchDelivery::Object(scope("a", "x"))).await;
        shared.take(WatchDelivery::Object(scope("b", "x"))).await;
        let error = DecodeError::Malformed {
            at: Some(7),
            problem: "a field has another type",
        };
        let bad = Unreadable {
            identity: Some(identity("c")),
            error,
        };
        shared.take(WatchDelivery::Unreadable(bad)).await;
        shared.take(finished()).await;
        assert!(shared.read(Table::is_listed));
        assert_eq!(names(&shared), ["a", "b"]);
        assert_eq!(shared.read(|table| table.unreadable().count()), 1);

        // A listing that breaks off sweeps nothing; the next one that ends does.
        shared.take(WatchDelivery::ListingStarted).await;
        shared.take(WatchDelivery::ListingStarted).await;
        assert_eq!(names(&shared), ["a", "b"]);
        shared.take(WatchDelivery::Object(scope("b", "x"))).await;
        shared.take(finished()).await;
        assert_eq!(names(&shared), ["b"]);
        assert_eq!(shared.read(|table| table.unreadable().count()), 0);

        shared.take(gone("b")).await;
        assert!(names(&shared).is_empty());
    }

    /// Whoever may list and not watch is asked again and again, and is in trouble all the time.
    #[tokio::test(start_paused = true)]
    async fn trouble_ends_when_changes_arrive_not_with_a_listing() {
        let mut shared = Shared::<KollectScope>::new(Arc::default(), "scopes");
        let refused = || {
            WatchDelivery::Interrupted(Interruption {
                class: InterruptionClass::Forbidden,
                message: "403: no".to_owned(),
                failures: 1,
                retry_in: Duration::from_secs(30),
            })
        };
        let finished = || WatchDelivery::ListingFinished {
            resource_version: "1".into(),
        };
        let since = |shared: &Shared<KollectScope>| {
            shared.read(|table| table.trouble().map(|trouble| trouble.since))
        };
        let begun = Instant::now();
        for _ in 0..4 {
            shared.take(WatchDelivery::ListingStarted).await;
            shared.take(finished()).await;
            shared.take(refused()).await;
            tokio::time::advance(Duration::from_secs(30)).await;
        }
        assert!(shared.read(Table::is_listed));
        assert_eq!(since(&shared), Some(begun), "it never ended");
        shared.take(WatchDelivery::Resumed).await;
        assert_eq!(since(&shared), None);
    }

    /// The log does not repeat itself within a minute, so nothing counts as said in that time.
    #[tokio::test(start_paused = true)]
    async fn trouble_that_returns_is_told_again_when_it_can_be() {
        let mut table = Table::<KollectScope>::default();
        assert!(table.may_tell());
        assert!(!table.may_tell(), "once");
        table.told_again("scopes");
        assert!(!table.may_tell(), "too soon");
        tokio::time::advance(TELL_AGAIN).await;
        assert!(table.may_tell());
    }

    #[tokio::test]
    async fn only_real_changes_are_told() {
        let wakeups = Arc::new(Wakeups::default());
        let subscriber = wakeups.subscribe();
        subscriber.notified().await;
        let mut shared = Shared::new(wakeups, "scopes");
        let told = || {
            let changed = Arc::clone(&subscriber);
            async move {
                tokio::time::timeout(std::time::Duration::from_millis(5), changed.notified())
                    .await
                    .is_ok()
            }
        };
        shared.take(WatchDelivery::Object(scope("a", "x"))).await;
        assert!(told().await);
        shared.take(WatchDelivery::Object(scope("a", "x"))).await;
        assert!(!told().await, "the same object again");
        shared.take(WatchDelivery::Object(scope("a", "y"))).await;
        assert!(told().await);
        shared.take(gone("nobody")).await;
        assert!(!told().await);
    }
}
