//! The rows of one target, for many writers.

use kollect_watch::{ObjectIdentity, WatchScope};
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use hashbrown::{DefaultHashBuilder, HashSet};
use kollect_api::GroupVersionKind;
use kollect_inventory::{Attributes, Interner, OriginParts, Row};

use super::entry::{Content, Outcome, Stamp};
use super::failures::{Failures, named};
use super::feed::Feed;
use super::locks::{lock, read, write};
use super::news::News;
use super::signals::Signals;
use super::stripe::{Effect, Stripe, Write, hash_of};
use super::subscriber::Subscriber;
use super::sync::{Expected, Sync};
use super::validity::Validity;
use crate::gates::{PolicyFailures, Version};
use crate::plan::{Collection, Epoch, Revision, TargetKey, TargetPlan};

/// In how many parts the objects of a target are kept; writers of different parts do not meet.
const STRIPES: usize = 8;

/// What all targets of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) hasher: DefaultHashBuilder,
    /// The number of changes so far.
    pub(super) revision: AtomicU64,
    pub(super) signals: Signals,
}

/// The rows of one target.
///
/// Locks are taken in this order: stripe, then any of the others, each for a few instructions.
#[derive(Debug)]
pub(super) struct TargetRows {
    pub(super) key: TargetKey,
    /// The kind that rows carry; a target that collects another kind is another one here.
    kind: GroupVersionKind,
    shared: Arc<Shared>,
    stripes: [Mutex<Stripe>; STRIPES],
    /// None if it is not known what the target collects.
    validity: RwLock<Option<Validity>>,
    interning: Mutex<Interning>,
    subscribers: RwLock<Vec<Arc<Subscriber>>>,
    pub(super) sync: Mutex<Sync>,
    /// The plan that `sync` follows.
    pub(super) expected: Mutex<Option<Arc<TargetPlan>>>,
    /// Why nobody waits for the target although it is not complete: it is at fault itself.
    pub(super) held: RwLock<Option<Box<str>>>,
    listings: AtomicU32,
    pub(super) failures: Mutex<Failures>,
    pub(super) policy_failures: Mutex<PolicyLog>,
    policies_failing: AtomicUsize,
    rows: AtomicIsize,
    failing: AtomicIsize,
    row_bytes: AtomicIsize,
    revision: AtomicU64,
}

/// The interner, and how much it held when it was last swept.
#[derive(Debug, Default)]
struct Interning {
    interner: Interner,
    kept: usize,
}

/// Policies that could not be evaluated.
#[derive(Debug, Default)]
pub(super) struct PolicyLog {
    /// How often that happened.
    pub(super) count: u64,
    /// The objects on which it happens at present, by their hash.
    failing: HashSet<u64>,
    /// The last one, with its object; nothing when none fails.
    pub(super) last: Option<Box<str>>,
}

impl TargetRows {
    /// A target that collects as of the plan of `epoch`. `expected` is what must have been listed
    /// before it is complete.
    pub(super) fn collecting(
        key: TargetKey,
        collection: Arc<Collection>,
        expected: Expected,
        epoch: Epoch,
        shared: Arc<Shared>,
    ) -> Self {
        let kind = collection.extraction.gvk().clone();
        let validity = Some(Validity::new(collection, epoch));
        Self::new(key, kind, validity, Sync::expecting(expected), shared)
    }

    /// A target of which it is not known what it collects.
    pub(super) fn waiting(key: TargetKey, shared: Arc<Shared>) -> Self {
        Self::new(
            key,
            GroupVersionKind::default(),
            None,
            Sync::Unknown,
            shared,
        )
    }

    fn new(
        key: TargetKey,
        kind: GroupVersionKind,
        validity: Option<Validity>,
        sync: Sync,
        shared: Arc<Shared>,
    ) -> Self {
        TargetRows {
            key,
            kind,
            shared,
            stripes: Default::default(),
            validity: RwLock::new(validity),
            interning: Mutex::default(),
            subscribers: RwLock::default(),
            sync: Mutex::new(sync),
            expected: Mutex::default(),
            held: RwLock::default(),
            listings: AtomicU32::new(0),
            failures: Mutex::default(),
            policy_failures: Mutex::default(),
            policies_failing: AtomicUsize::new(0),
            rows: AtomicIsize::new(0),
            failing: AtomicIsize::new(0),
            row_bytes: AtomicIsize::new(0),
            revision: AtomicU64::new(0),
        }
    }

    /// Takes a write of a feed.
    pub(super) fn write(
        &self,
        feed: &Feed,
        object: ObjectIdentity<&str>,
        stamp: Stamp,
        listing: Option<u32>,
        content: Content<'_>,
    ) -> Outcome {
        let hasher = &self.shared.hasher;
        let hash = hash_of(hasher, object.namespace, object.name);
        let mut stripe = self.stripe(hash);
        if feed.is_retired(object.namespace) {
            return Outcome::Closed;
        }
        let (valid, listed) = match &*read(&self.validity) {
            Some(validity) => (
                validity.accepts(object.namespace, stamp.epoch),
                validity.listed(object.namespace),
            ),
            None => (false, Version::UNKNOWN),
        };
        let write = Write {
            object,
            version: stamp.version,
            valid,
            listed,
            listing,
            content,
        };
        let (outcome, effect) = stripe.write(hash, &write, hasher, |attributes| {
            self.row(object, attributes)
        });
        let mut news = News::default();
        self.publish(effect, &mut news);
        drop(stripe);
        news.tell(&self.shared.signals);
        outcome
    }

    fn row(&self, object: ObjectIdentity<&str>, attributes: Attributes<'_>) -> Row {
        let mut interning = lock(&self.interning);
        // Namespaces come and go; sweeping whenever the number doubles keeps the cost small.
        if interning.interner.len() > 2 * interning.kept + 64 {
            interning.sweep();
        }
        let interner = &mut interning.interner;
        let origin = interner.origin(OriginParts {
            owner: self.key.owner,
            target_namespace: self.key.row_namespace(object.namespace),
            target_name: &self.key.name,
            namespace: object.namespace,
            group: &self.kind.group,
            version: &self.kind.version,
            kind: &self.kind.kind,
        });
        interner.row(&origin, object.name, object.uid, attributes)
    }

    /// Counts what happened and hands it to subscribers. The stripe is locked, so that changes of
    /// one object reach every subscriber in their order.
    fn publish(&self, effect: Effect, news: &mut News) {
        self.row_bytes.fetch_add(effect.bytes, Ordering::Relaxed);
        if effect.failing != 0 {
            self.failing.fetch_add(effect.failing, Ordering::Relaxed);
            news.statuses.push(self.key.clone());
        }
        if let Some(row) = effect.recovered {
            lock(&self.failures).forget(row.origin().namespace(), row.name());
        }
        if effect.before.is_none() && effect.after.is_none() {
            return;
        }
        let count = |row: &Option<Row>| isize::from(row.is_some());
        let added = count(&effect.after) - count(&effect.before);
        self.rows.fetch_add(added, Ordering::Relaxed);
        let revision = self.shared.revision.fetch_add(1, Ordering::AcqRel) + 1;
        self.revision.fetch_max(revision, Ordering::AcqRel);
        if self.is_held() {
            // Half of a target's rows is nothing to tell; when it is complete, all are.
            return;
        }
        for subscriber in read(&self.subscribers).iter() {
            let wakes = subscriber.record(effect.before.as_ref(), effect.after.as_ref());
            if wakes {
                news.readers.push(Arc::clone(subscriber));
            }
        }
    }

    /// Does something to every stripe, one after the other. When it returns, every write that was
    /// under way before has ended.
    fn each_stripe(
        &self,
        mut change: impl FnMut(&mut Stripe, &DefaultHashBuilder) -> Vec<Effect>,
    ) -> News {
        let mut news = News::default();
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            for effect in change(&mut stripe, &self.shared.hasher) {
                self.publish(effect, &mut news);
            }
        }
        news.statuses.dedup();
        news
    }

    /// Waits for the writes that are under way.
    pub(super) fn settle(&self) {
        for stripe in &self.stripes {
            drop(lock(stripe));
        }
    }

    /// A listing begins; the number identifies it.
    pub(super) fn begin_listing(&self, scope: &WatchScope) -> u32 {
        let number = self.listings.fetch_add(1, Ordering::AcqRel) + 1;
        for stripe in &self.stripes {
            lock(stripe).begin(number, scope.clone());
        }
        number
    }

    /// A listing ends: complete, as of a version, or abandoned. What others have taken over from
    /// its feed (`retired`) it says nothing about.
    pub(super) fn end_listing(
        &self,
        number: u32,
        scope: &WatchScope,
        at: Option<Version>,
        retired: &[WatchScope],
    ) {
        if let (Some(at), Some(validity)) = (at, &mut *write(&self.validity)) {
            validity.finish(number, scope, at);
        }
        let speaks_for = |namespace: &str| {
            let validity = read(&self.validity);
            !retired.iter().any(|other| other.contains(namespace))
                && validity
                    .as_ref()
                    .is_some_and(|validity| validity.believes(number, namespace))
        };
        let mut news =
            self.each_stripe(|stripe, hasher| stripe.end(number, at, speaks_for, hasher));
        if at.is_some() {
            lock(&self.interning).sweep();
            let mut sync = lock(&self.sync);
            let lit = sync.is_complete();
            let moved = sync.listed(scope, speaks_for);
            drop(sync);
            if moved {
                news.join(self.completed(lit));
            }
        }
        news.tell(&self.shared.signals);
    }

    /// The target goes on differently.
    pub(super) fn revise(
        &self,
        collection: &Arc<Collection>,
        epoch: Epoch,
        revision: &Revision,
    ) -> News {
        if let Some(validity) = &mut *write(&self.validity) {
            let listings = self.listings.load(Ordering::Acquire);
            validity.revise(Arc::clone(collection), epoch, listings, revision);
        }
        let news = self.each_stripe(|stripe, hasher| {
            let left = revision.left.iter();
            left.flat_map(|name| stripe.leave(name, hasher)).collect()
        });
        if !revision.left.is_empty() {
            lock(&self.interning).sweep();
        }
        news
    }

    /// Follows the plan of the target in what must have been listed before it is complete.
    pub(super) fn expect(&self, plan: &Arc<TargetPlan>) -> News {
        let mut sync = lock(&self.sync);
        let mut expected = lock(&self.expected);
        let same = expected.as_ref().is_some_and(|old| Arc::ptr_eq(old, plan));
        let settled = sync.is_complete() && sync.dark().is_none();
        *expected = Some(Arc::clone(plan));
        if settled || same {
            return News::default();
        }
        let Some(namespaces) = super::expected(plan) else {
            return News::default();
        };
        let lit = sync.is_complete();
        let moved = sync.expect(namespaces);
        drop((sync, expected));
        if moved {
            self.completed(lit)
        } else {
            News::default()
        }
    }

    /// Other rows count from now on: everybody takes all of them anew.
    pub(super) fn start_over(&self) -> News {
        let revision = self.shared.revision.fetch_add(1, Ordering::AcqRel) + 1;
        self.revision.fetch_max(revision, Ordering::AcqRel);
        let subscribers = read(&self.subscribers);
        for subscriber in subscribers.iter() {
            subscriber.start_over();
        }
        let woken = subscribers.iter().filter(|subscriber| subscriber.poke());
        News {
            readers: woken.cloned().collect(),
            statuses: vec![self.key.clone()],
        }
    }

    /// The target has become complete, so that inventories need no longer wait for it; or less of it
    /// is dark (`lit`).
    fn completed(&self, lit: bool) -> News {
        // Whoever took all rows before has kept what was not known: that is known now.
        if write(&self.held).take().is_some() || lit {
            return self.start_over();
        }
        let subscribers = read(&self.subscribers);
        let waiting = subscribers.iter().filter(|subscriber| subscriber.poke());
        News {
            readers: waiting.cloned().collect(),
            statuses: vec![self.key.clone()],
        }
    }

    /// The target ends; its rows go, and nothing can be written any more.
    pub(super) fn close(&self) -> News {
        self.each_stripe(Stripe::close)
    }

    /// Policies could or could not be evaluated on an object.
    pub(super) fn note_policies(&self, object: ObjectIdentity<&str>, failures: &PolicyFailures) {
        if failures.count == 0 && self.policies_failing.load(Ordering::Relaxed) == 0 {
            return;
        }
        let hash = hash_of(&self.shared.hasher, object.namespace, object.name);
        let mut log = lock(&self.policy_failures);
        let before = log.last.is_some();
        log.count += u64::from(failures.count);
        if failures.count > 0 {
            log.failing.insert(hash);
            let last = failures.last.as_deref().unwrap_or_default();
            log.last = Some(format!("{}: {last}", named(object)).into());
        } else if log.failing.remove(&hash) && log.failing.is_empty() {
            log.last = None;
        }
        self.policies_failing
            .store(log.failing.len(), Ordering::Relaxed);
        if before != log.last.is_some() {
            self.shared.signals.raise(&self.key);
        }
    }

    /// An object fails, and why. Says so in the status if that is news.
    pub(super) fn note_failure(&self, object: ObjectIdentity<&str>, message: &str) {
        let news = lock(&self.failures).add(object, message);
        if news {
            self.shared.signals.raise(&self.key);
        }
    }

    pub(super) fn subscribe(&self, subscriber: &Arc<Subscriber>) {
        write(&self.subscribers).push(Arc::clone(subscriber));
    }

    pub(super) fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        write(&self.subscribers).retain(|known| !Arc::ptr_eq(known, subscriber));
    }

    /// The row of one object.
    pub(super) fn find(&self, namespace: &str, name: &str) -> Option<Row> {
        let hash = hash_of(&self.shared.hasher, namespace, name);
        self.stripe(hash).row(hash, namespace, name).cloned()
    }

    /// The rows that hold the object of this hash.
    fn stripe(&self, hash: u64) -> MutexGuard<'_, Stripe> {
        // The table itself looks at the lowest and the highest bits.
        lock(&self.stripes[(hash >> 32) as usize % STRIPES])
    }

    /// Locks all rows, for a look at one moment.
    pub(super) fn freeze(&self) -> impl Iterator<Item = MutexGuard<'_, Stripe>> {
        self.stripes.iter().map(lock)
    }

    pub(super) fn is_complete(&self) -> bool {
        lock(&self.sync).is_complete()
    }

    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.rows.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(super) fn failing(&self) -> usize {
        usize::try_from(self.failing.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Bytes on the heap for rows alone.
    pub(super) fn row_bytes(&self) -> usize {
        usize::try_from(self.row_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes on the heap: rows, their index, and about as much as their shared texts take.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.row_bytes();
        let tables: usize = self.freeze().map(|stripe| stripe.table_bytes()).sum();
        let parts = [
            &*self.key.namespace,
            &*self.key.name,
            &self.kind.group,
            &self.kind.kind,
        ];
        let texts: usize = parts.iter().map(|part| part.len()).sum();
        let shared = lock(&self.interning).interner.len() * (96 + texts);
        size_of::<Self>() + rows + tables + shared
    }
}

impl Interning {
    fn sweep(&mut self) {
        self.interner.sweep();
        self.kept = self.interner.len();
    }
}
