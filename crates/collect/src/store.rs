//! All rows, in memory, per target.
//!
//! # Writing
//!
//! [`Store::apply`] makes the store follow a plan; see [`plan`](crate::plan) for when. It decides
//! which targets exist. A watch then asks for one [`Feed`] per target it serves and reports:
//!
//! ```text
//! the watch lists (first, after 410, or because the plan says so)
//!     listing = feed.begin_listing(scope)            one per target of ResourcePlan::targets_in(scope)
//!     each object, each Interest of its namespace    listing.put | listing.skip | listing.fail
//!     after the last object was written              listing.finish(version of the list)
//! the watch reports a change
//!     each Interest of the namespace                 feed.put | feed.skip | feed.fail
//! the watch reports a deletion
//!     each Interest of the namespace                 feed.delete(version of the deletion)
//! another watch, opened later, has finished its first list of some scope
//!     feed.retire(scope)                             every feed of the older watch
//!     feed.close()                                   when the older watch itself is closed
//! ```
//!
//! - Every write carries a [`Stamp`]: the epoch of the plan it was decided with and the version
//!   of the object. Writes about one object must keep their order (route them by uid to workers);
//!   writes of different sources need not.
//! - `finish` may be called only when all objects of the list have been written, also those still
//!   in a queue. That is what makes a target complete.
//! - A list that breaks off is dropped, not finished.
//! - What a feed answers is no error. [`Outcome::Superseded`] and [`Outcome::Closed`] mean that
//!   somebody else takes care of the object.
//! - When a watch is refused (403) the answer belongs into [`World::access`]; the next plan then
//!   does without what is forbidden, and lists it again when access returns. Its rows stay.
//!
//! A row leaves the store only by a deletion, by a list that no longer shows it, by a decision
//! against it, or by the end of its target or of the target's interest in the namespace. That
//! something may not be read is none of these.
//!
//! # Reading
//!
//! An inventory subscribes with its [`RowSelection`] and takes [`Taken`] when woken. Nothing is
//! handed out before every contributing target has been listed completely in this process:
//! otherwise a restart would delete everybody's rows. Statuses are read with [`Store::summary`];
//! [`Store::take_signals`] tells whose has news.
//!
//! # Locks
//!
//! Writers of different objects of one target rarely meet, writers of different targets never.
//! Extraction and export hold no lock. A reader of all rows blocks the writers of its targets for
//! as long as it takes to count references to the rows, not to look at them.
//!
//! [`World::access`]: crate::plan::World::access

mod entry;
mod failures;
mod feed;
mod held;
mod locks;
mod moment;
mod news;
mod selection;
mod signals;
mod stripe;
mod subscriber;
mod subscription;
mod summary;
mod sync;
mod target;
mod validity;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

use kollect_inventory::{Row, Snapshot, TargetKind};

use self::locks::{read, write};
use self::moment::Moment;
use self::news::News;
use self::signals::Signals;
use self::subscriber::Subscriber;
use self::sync::Expected;
use self::target::{Shared, TargetRows};
use crate::plan::{Course, Plan, PlanDelta, TargetChange, TargetKey, TargetPlan};

pub use self::entry::{Outcome, Stamp};
pub use self::failures::Failure;
pub use self::feed::{Feed, Listing};
pub use self::held::HeldTarget;
pub use self::selection::RowSelection;
pub use self::subscription::{Subscription, Taken};
pub use self::summary::{StoreSummary, TargetSummary, Usage};

/// A moment in the history of the store. Whoever sees a revision sees at least all changes up to
/// it; equal revisions of one scope mean equal rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Its number: greater for later.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Bounds of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many changes are kept for a reader that does not take them. One that is further behind
    /// gets all rows.
    pub pending_changes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            pending_changes: 50_000,
        }
    }
}

/// All rows.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    limits: Limits,
    /// Locked before any target.
    directory: RwLock<Directory>,
}

#[derive(Debug, Default)]
struct Directory {
    targets: BTreeMap<TargetKey, Arc<TargetRows>>,
    subscribers: Vec<Arc<Subscriber>>,
    /// A plan was applied, so the targets are known.
    planned: bool,
    /// Namespaces whose targets could not be read when the plan was made: it says nothing of them.
    unplanned: BTreeSet<String>,
    /// The cluster targets that the plan knows, also those without rows.
    cluster_targets: BTreeSet<Arc<str>>,
    /// The last change of a target that is no longer there.
    removed: u64,
}

impl Store {
    /// An empty store. `wake` is called when [`Store::take_signals`] has something; it must not
    /// block.
    pub fn new(limits: Limits, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Store(Arc::new(Inner {
            shared: Arc::new(Shared {
                hasher: hashbrown::DefaultHashBuilder::default(),
                revision: AtomicU64::new(0),
                signals: Signals::new(Box::new(wake)),
            }),
            limits,
            directory: RwLock::default(),
        }))
    }

    /// Follows a plan: targets come and go, rows of namespaces that were left go, and decisions of
    /// older plans about whatever changed are refused from now on.
    pub fn apply(&self, plan: &Plan, delta: &PlanDelta) {
        let mut news = News::default();
        let mut directory = write(&self.0.directory);
        for (key, change) in &delta.targets {
            news.join(self.0.apply_change(&mut directory, plan, key, change));
        }
        for target in plan.targets() {
            if let Some(rows) = directory.targets.get(&target.key) {
                news.join(rows.expect(target));
            }
        }
        directory.planned = true;
        let keys = plan.targets().map(|target| &target.key);
        directory.cluster_targets = keys
            .filter(|key| key.owner == TargetKind::ClusterTarget)
            .map(|key| Arc::clone(&key.name))
            .collect();
        // Whether a scope is complete may have changed, also by what ended.
        let readers = directory.subscribers.iter().filter(|reader| reader.poke());
        news.readers.extend(readers.cloned());
        drop(directory);
        news.tell(&self.0.shared.signals);
    }

    /// Tells which targets are at fault themselves, and why. Inventories of their namespace do not
    /// wait for them any more if they have not been listed yet: their rows are left out, and
    /// whoever takes all rows is told that nothing is known of those ([`Snapshot::held`]).
    /// Cluster inventories wait nevertheless.
    pub fn hold(&self, faulty: &BTreeMap<TargetKey, String>) {
        let mut news = News::default();
        let directory = read(&self.0.directory);
        for (key, target) in &directory.targets {
            news.join(target.hold(faulty.get(key).map(String::as_str)));
        }
        drop(directory);
        news.tell(&self.0.shared.signals);
    }

    /// Tells of which namespaces the plan that was applied last says nothing, because their targets
    /// could not be read when it was made. Their rows are waited for.
    pub fn unplanned(&self, namespaces: BTreeSet<String>) {
        let mut directory = write(&self.0.directory);
        if directory.unplanned == namespaces {
            return;
        }
        directory.unplanned = namespaces;
        let mut news = News::default();
        let readers = directory.subscribers.iter().filter(|reader| reader.poke());
        news.readers.extend(readers.cloned());
        drop(directory);
        news.tell(&self.0.shared.signals);
    }

    /// The targets of a scope of which something is not known although nobody waits for them.
    pub fn held(&self, scope: &RowSelection) -> Vec<HeldTarget> {
        let directory = read(&self.0.directory);
        let targets = directory.targets_in(scope);
        targets
            .filter_map(|target| HeldTarget::of(target, |name| scope.includes_namespace(name)))
            .collect()
    }

    /// The targets of a scope whose rows are known and go out of date, because something of them may
    /// not be read any more; and what.
    pub fn stale(&self, scope: &RowSelection) -> Vec<(TargetKey, String)> {
        let directory = read(&self.0.directory);
        let targets = directory.targets_in(scope);
        let known = targets.filter(|target| !target.is_held() && target.dark().is_none());
        known
            .filter_map(|target| Some((target.key.clone(), target.stale()?)))
            .collect()
    }

    /// All targets of which something is not known although nobody waits for them.
    pub fn all_held(&self) -> Vec<HeldTarget> {
        let directory = read(&self.0.directory);
        let targets = directory.targets.values();
        targets
            .filter_map(|target| HeldTarget::of(target, |_| true))
            .collect()
    }

    /// How many targets of a scope have rows, or may have some.
    pub fn targets(&self, scope: &RowSelection) -> usize {
        read(&self.0.directory).targets_in(scope).count()
    }

    /// A way to write the rows of a target, if the target collects.
    pub fn feed(&self, key: &TargetKey) -> Option<Arc<Feed>> {
        let directory = read(&self.0.directory);
        let target = directory.targets.get(key)?;
        Some(Arc::new(Feed::new(Arc::clone(target))))
    }

    /// Follows the rows of an inventory. `wake` is called when there may be something to take; it
    /// must not block.
    pub fn subscribe(
        &self,
        scope: RowSelection,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Subscription {
        let limit = self.0.limits.pending_changes;
        let subscriber = Arc::new(Subscriber::new(scope, limit, Box::new(wake)));
        let mut directory = write(&self.0.directory);
        directory.attach(&subscriber);
        directory.subscribers.push(Arc::clone(&subscriber));
        Subscription {
            inner: Arc::clone(&self.0),
            subscriber,
        }
    }

    /// The rows of a scope at one moment, whether its targets are complete or not.
    pub fn snapshot(&self, scope: &RowSelection) -> (Snapshot, Revision) {
        let directory = read(&self.0.directory);
        let mut moment = Moment::of(&directory, scope);
        let (rows, revision) = (moment.rows(scope), moment.revision);
        let held = std::mem::take(&mut moment.held);
        drop(moment);
        drop(directory);
        (Snapshot::new(rows).holding(held), revision)
    }

    /// The rows of one target.
    pub fn rows(&self, key: &TargetKey) -> Vec<Row> {
        let directory = read(&self.0.directory);
        let Some(target) = directory.targets.get(key) else {
            return Vec::new();
        };
        let stripes: Vec<_> = target.freeze().collect();
        let rows = stripes.iter().flat_map(|stripe| stripe.rows());
        rows.cloned().collect()
    }

    /// What the targets of a scope know about one object, one row each.
    pub fn find(&self, scope: &RowSelection, namespace: &str, name: &str) -> Vec<Row> {
        let directory = read(&self.0.directory);
        let rows = directory
            .targets_in(scope)
            .filter_map(|target| target.find(namespace, name));
        rows.filter(|row| scope.includes_row(row)).collect()
    }

    /// The last change of a scope's rows. It never goes back, also not when targets end.
    pub fn revision(&self, scope: &RowSelection) -> Revision {
        read(&self.0.directory).last_revision(scope)
    }

    /// Whether a scope's rows are all there: a plan has been applied, and every contributing
    /// target has been listed completely, or is held.
    pub fn is_complete(&self, scope: &RowSelection) -> bool {
        let directory = read(&self.0.directory);
        directory.knows_targets_of(scope) && directory.incomplete(scope).is_empty()
    }

    /// The targets whose status has news: complete, failures, policy failures. Meant for one
    /// reader.
    pub fn take_signals(&self) -> BTreeSet<TargetKey> {
        self.0.shared.signals.take()
    }
}

impl Inner {
    fn apply_change(
        &self,
        directory: &mut Directory,
        plan: &Plan,
        key: &TargetKey,
        change: &TargetChange,
    ) -> News {
        let mut news = News::default();
        let target = plan.target(key);
        if let TargetChange::Revise(revision) = change {
            let collection = target.and_then(|target| target.collection());
            if let (Some(rows), Some(collection)) = (directory.targets.get(key), collection) {
                news = rows.revise(collection, plan.epoch(), revision);
            }
            return news;
        }
        if let Some(old) = directory.targets.remove(key) {
            news = old.close();
            if old.is_held() {
                // What its rows are worth was not known; now it is, or will be.
                news.join(old.start_over());
            }
            directory.removed = directory.removed.max(old.revision());
        }
        let shared = Arc::clone(&self.shared);
        let rows = match target.map(|target| (&target.course, expected(target))) {
            Some((Course::Collect(collection), Some(namespaces))) => TargetRows::collecting(
                key.clone(),
                Arc::clone(collection),
                namespaces,
                plan.epoch(),
                shared,
            ),
            Some((Course::Wait, _)) => TargetRows::waiting(key.clone(), shared),
            _ => return news,
        };
        for subscriber in &directory.subscribers {
            if subscriber.scope().includes_target(key) {
                rows.subscribe(subscriber);
            }
        }
        directory.targets.insert(key.clone(), Arc::new(rows));
        news
    }

    fn take(&self, subscriber: &Subscriber) -> Taken {
        let directory = read(&self.directory);
        if let Some(incomplete) = directory.waiting_for(subscriber) {
            return Taken::Waiting(incomplete);
        }
        let scope = subscriber.scope();
        if subscriber.rest() {
            return Taken::Nothing;
        }
        let mut moment = Moment::of(&directory, &scope);
        let revision = moment.revision;
        match subscriber.take() {
            Some(delta) if delta.is_empty() => Taken::Nothing,
            Some(delta) => Taken::Changes(delta, revision),
            None => {
                let rows = moment.rows(&scope);
                let held = std::mem::take(&mut moment.held);
                drop(moment);
                drop(directory);
                Taken::Everything(Snapshot::new(rows).holding(held), revision)
            }
        }
    }

    fn follow(&self, subscriber: &Arc<Subscriber>, scope: RowSelection) {
        {
            let mut directory = write(&self.directory);
            directory.detach(subscriber);
            subscriber.set_scope(scope);
            directory.attach(subscriber);
        }
        if subscriber.poke() {
            subscriber.wake();
        }
    }

    fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        let mut directory = write(&self.directory);
        directory.detach(subscriber);
        directory
            .subscribers
            .retain(|known| !Arc::ptr_eq(known, subscriber));
    }
}

impl Directory {
    /// The targets that a reader waits for. While there are some, only their completion wakes it.
    fn waiting_for(&self, subscriber: &Subscriber) -> Option<Vec<TargetKey>> {
        let scope = subscriber.scope();
        // Before looking, so that a target that becomes complete meanwhile is not missed.
        subscriber.wait();
        let incomplete = self.incomplete(&scope);
        if !self.knows_targets_of(&scope) || !incomplete.is_empty() {
            return Some(incomplete);
        }
        subscriber.listen();
        None
    }

    /// Whether the plan says which targets there are for a scope. Whoever reads the configuration
    /// may know more already; rows follow the plan.
    fn knows_targets_of(&self, scope: &RowSelection) -> bool {
        let unplanned =
            matches!(scope, RowSelection::Namespace(name) if self.unplanned.contains(name));
        self.planned && !unplanned
    }

    /// The targets that have to be listed before a scope's rows are known.
    fn incomplete(&self, scope: &RowSelection) -> Vec<TargetKey> {
        let rollup = matches!(scope, RowSelection::Cluster { .. });
        let incomplete = self
            .targets_in(scope)
            .filter(|target| !target.is_complete() && (rollup || !target.is_held()));
        let mut incomplete: Vec<_> = incomplete.map(|target| target.key.clone()).collect();
        if let RowSelection::Cluster { targets, .. } = scope {
            // Whoever selects them knows them from the configuration, which may be ahead.
            let unplanned = targets
                .iter()
                .filter(|name| !self.cluster_targets.contains(name.as_str()));
            incomplete.extend(unplanned.map(|name| TargetKey::cluster(name)));
        }
        incomplete
    }

    /// The last change of a scope's rows.
    fn last_revision(&self, scope: &RowSelection) -> Revision {
        let last = self.targets_in(scope).map(|target| target.revision()).max();
        Revision(last.unwrap_or(0).max(self.removed))
    }

    fn targets_in<'a, 's>(
        &'a self,
        scope: &'s RowSelection,
    ) -> impl Iterator<Item = &'a Arc<TargetRows>> + use<'a, 's> {
        let targets = self.targets.values();
        targets.filter(|target| scope.includes_target(&target.key))
    }

    fn attach(&mut self, subscriber: &Arc<Subscriber>) {
        let scope = subscriber.scope();
        for target in self.targets_in(&scope) {
            target.subscribe(subscriber);
        }
    }

    fn detach(&mut self, subscriber: &Arc<Subscriber>) {
        for target in self.targets.values() {
            target.unsubscribe(subscriber);
        }
    }
}

/// The namespaces a target must have listed, if it collects.
fn expected(target: &TargetPlan) -> Option<Expected> {
    let collection = target.collection()?;
    Some(Expected {
        all: collection.wanted.keys().cloned().collect(),
        refused: target.refused().cloned().collect(),
    })
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = read(&self.0.directory);
        f.debug_map()
            .entries(
                directory
                    .targets
                    .iter()
                    .map(|(key, target)| (key, target.rows())),
            )
            .finish()
    }
}
