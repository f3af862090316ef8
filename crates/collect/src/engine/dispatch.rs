//! Carries the objects of one watch to the rows of the targets that want them.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use kollect_inventory::AttributesBuffer;
use kollect_watch::{
    Consumer, Interruption, ObjectIdentity, Unreadable, WatchDelivery, WatchScope,
};
use tokio_util::sync::CancellationToken;

use super::feeds::Feeds;
use super::numbered_projection::SeenObject;
use super::purse::{Purse, STEPS_PER_OBJECT, is_short};
use super::running::Progress;
use super::tally::ResourceTally;
use super::{Current, Shared};
use crate::gates::{ObjectView, PolicyFailures, Version};
use crate::gather::{Contribution, contribution};
use crate::plan::{Epoch, Interest, ResourcePlan, TargetKey, Watch};
use crate::store::{Feed, Listing, Outcome, Stamp};

/// What is said about an object whose extraction panicked. The panic's own text is in the log alone:
/// it may contain values.
const PANICKED: &str = "extraction failed in an unexpected way (a panic; see the operator's log)";

/// The consumer of one watch, or of one list beside a watch.
pub(super) struct Dispatcher {
    shared: Arc<Shared>,
    assignment: Assignment,
    tally: Arc<ResourceTally>,
    stop: CancellationToken,
    progress: Arc<Progress>,
    feeds: Arc<Feeds>,
    /// The plan as this dispatcher last saw it, with what it looked up for it.
    route: Route,
    listings: HashMap<TargetKey, Listing>,
    /// The newest projection that the listing under way came through.
    projection: u64,
    /// The listing under way came through a projection that shows too little, at least in part.
    blind: bool,
    buffer: AttributesBuffer,
    /// What each target has left to spend.
    purses: HashMap<TargetKey, Purse>,
    /// Steps of evaluation since this dispatcher let others have the worker.
    busy: u64,
}

/// Between two looks at an object others get the worker after this many steps, which take about
/// a millisecond.
const STEPS_AT_A_STRETCH: u64 = 100_000;

/// What an object costs beside its expressions, in steps: decoding, gates, writing.
const STEPS_PER_LOOK: u64 = 500;

/// What a dispatcher is sent for.
#[derive(Debug)]
pub(super) struct Assignment {
    /// The watch it carries for, or beside which it lists.
    pub(super) watch: Watch,
    /// Where: all of the watch, or the part that is listed beside it.
    pub(super) scope: WatchScope,
    /// A list beside a watch is for these targets and ends when it is through.
    pub(super) only: Option<BTreeSet<TargetKey>>,
    /// What ran for the resource before. Once everything has been listed here it may be behind,
    /// and is not listened to any more.
    pub(super) replaces: Vec<Arc<Feeds>>,
}

/// What a dispatcher looks up once per plan instead of once per object.
#[derive(Default)]
struct Route {
    current: Arc<Current>,
    plan: Option<Arc<ResourcePlan>>,
    /// The targets whose objects this watch shows, if that is not all of them: a watch that is
    /// being replaced may ask for other labels than the plan does now.
    served: Option<HashSet<TargetKey>>,
    feeds: HashMap<TargetKey, Arc<Feed>>,
    projection: u64,
}

impl Dispatcher {
    pub(super) fn new(
        shared: Arc<Shared>,
        assignment: Assignment,
        tally: Arc<ResourceTally>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            shared,
            assignment,
            tally,
            stop,
            progress: Arc::default(),
            feeds: Arc::default(),
            route: Route::default(),
            listings: HashMap::new(),
            projection: 0,
            blind: false,
            buffer: AttributesBuffer::default(),
            purses: HashMap::new(),
            busy: 0,
        }
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    pub(super) fn feeds(&self) -> Arc<Feeds> {
        Arc::clone(&self.feeds)
    }

    /// Takes note of a new plan.
    fn look_up(&mut self) {
        let current = self.shared.current();
        if Arc::ptr_eq(&current, &self.route.current) {
            return;
        }
        let watch = &self.assignment.watch;
        let plan = current.plan.resource(&watch.resource).cloned();
        self.route = Route {
            served: plan.as_deref().and_then(|plan| served(watch, plan)),
            plan,
            feeds: HashMap::new(),
            projection: current
                .projections
                .get(&watch.resource)
                .copied()
                .unwrap_or(0),
            current,
        };
        let plan = self.route.plan.as_deref();
        let targets: HashSet<&TargetKey> = plan
            .into_iter()
            .flat_map(|plan| plan.targets_in(&WatchScope::All))
            .map(|target| &target.key)
            .collect();
        self.purses.retain(|key, _| targets.contains(key));
    }

    /// Lets other tasks have the worker if this one had it for long.
    async fn rest(&mut self) {
        if self.busy >= STEPS_AT_A_STRETCH {
            self.busy = 0;
            tokio::task::yield_now().await;
        }
    }

    /// Whether this dispatcher has anything to say about a target.
    fn serves(&self, target: &TargetKey) -> bool {
        let only = &self.assignment.only;
        let served = &self.route.served;
        only.as_ref().is_none_or(|only| only.contains(target))
            && served.as_ref().is_none_or(|served| served.contains(target))
    }

    fn begin_listing(&mut self) {
        self.look_up();
        self.projection = self.route.projection;
        self.blind = false;
        self.listings.clear();
        let Some(plan) = &self.route.plan else { return };
        let scope = &self.assignment.scope;
        for target in plan.targets_in(scope) {
            if !self.serves(&target.key) {
                continue;
            }
            if let Some(feed) = self.feeds.give(&self.shared.store, &target.key) {
                let listing = feed.begin_listing(scope.clone());
                self.listings.insert(target.key.clone(), listing);
            }
        }
    }

    fn finish_listing(&mut self, version: &str) {
        if self.blind {
            // Objects that were passed over were not looked at; rows must not be swept for that.
            // The new projection has begun another listing.
            self.listings.clear();
            return;
        }
        let version = Version::parse(version);
        for (_, listing) in self.listings.drain() {
            listing.finish(version);
        }
        for older in self.assignment.replaces.drain(..) {
            older.retire(&self.assignment.scope);
        }
        self.progress.listed(self.projection);
        self.progress.interrupt(None);
        self.shared.news.notify_one();
        if self.assignment.only.is_some() {
            self.stop.cancel();
        }
    }

    async fn object(&mut self, seen: &SeenObject) {
        self.look_up();
        self.projection = self.projection.max(seen.projection);
        let Some(plan) = self.route.plan.clone() else {
            return;
        };
        // Too little of the object may be visible; the new projection has begun a listing that shows it.
        if seen.projection < self.route.projection {
            self.blind = true;
            return;
        }
        let view = ObjectView::new(seen.object.value());
        let stamp = Stamp {
            epoch: self.epoch(),
            version: view.version(),
        };
        // A list beside a watch shows its targets what others have been shown already.
        if self.assignment.only.is_none() {
            self.tally.mismatched(plan.uninterested(view.namespace()));
        }
        for interest in plan.interests(view.namespace()) {
            if !self.serves(interest.key) {
                continue;
            }
            // One profile that finds a flaw of ours must not end the watch that others share.
            let shown = catch_unwind(AssertUnwindSafe(|| self.show(interest, &view, stamp)));
            if shown.is_err() {
                self.shared.tally.extraction_failed(interest.key.owner);
                self.write(interest, &view, &PolicyFailures::default(), |way| {
                    way.fail(stamp, view.identity(), PANICKED)
                });
            }
            self.rest().await;
        }
    }

    /// Shows an object to one target that is interested.
    fn show(&mut self, interest: Interest<'_>, view: &ObjectView<'_>, stamp: Stamp) {
        let purse = self.purses.entry_ref(interest.key).or_default();
        let mut allowance = purse.open();
        // The buffer is taken out for the time of the write, which borrows the dispatcher.
        let mut buffer = std::mem::take(&mut self.buffer);
        let (contribution, failures) = contribution(&interest, view, &mut allowance, &mut buffer);
        purse.close(&allowance);
        self.busy += STEPS_PER_LOOK + allowance.steps_taken();
        match contribution {
            Contribution::Row(attributes) => self.write(interest, view, &failures, |way| {
                way.put(stamp, view.identity(), attributes)
            }),
            Contribution::Nothing(_) => {
                self.write(interest, view, &failures, |way| {
                    way.skip(stamp, view.identity())
                });
            }
            Contribution::Failed(error) => {
                self.shared.tally.extraction_failed(interest.key.owner);
                let message = if error.is_over_budget() && is_short(&allowance) {
                    format!(
                        "{error}; the target gets less than others because it took more than {STEPS_PER_OBJECT} steps per object so far"
                    )
                } else {
                    error.to_string()
                };
                self.write(interest, view, &failures, |way| {
                    way.fail(stamp, view.identity(), &message)
                });
            }
        }
        self.buffer = buffer;
    }

    fn gone(&mut self, identity: &ObjectIdentity, version: Version) {
        self.look_up();
        let Some(plan) = self.route.plan.clone() else {
            return;
        };
        for interest in plan.interests(&identity.namespace) {
            // To a watch an object is gone as well when it stops to match the labels asked for.
            if !self.serves(interest.key) {
                continue;
            }
            if let Some(feed) = self.feed(interest.key) {
                feed.delete(version, identity.borrowed());
            }
        }
    }

    fn unreadable(&mut self, unreadable: &Unreadable) {
        self.look_up();
        let (Some(plan), Some(identity)) = (self.route.plan.clone(), &unreadable.identity) else {
            return;
        };
        let stamp = Stamp {
            epoch: self.epoch(),
            version: Version::UNKNOWN,
        };
        let message = unreadable.error.to_string();
        for interest in plan.interests(&identity.namespace) {
            if !self.serves(interest.key) {
                continue;
            }
            self.shared.tally.extraction_failed(interest.key.owner);
            let Some(feed) = self.feed(interest.key) else {
                continue;
            };
            match self.listings.get(interest.key) {
                Some(listing) => Way::Listing(listing).fail(stamp, identity.borrowed(), &message),
                None => Way::Feed(&feed).fail(stamp, identity.borrowed(), &message),
            };
        }
    }

    /// Writes about one object, as part of the listing under way if the target takes part in it.
    fn write(
        &mut self,
        interest: Interest<'_>,
        object: &ObjectView<'_>,
        failures: &PolicyFailures,
        write: impl Fn(&Way<'_>) -> Outcome,
    ) {
        let Some(feed) = self.feed(interest.key) else {
            return;
        };
        match self.listings.get(interest.key) {
            Some(listing) => write(&Way::Listing(listing)),
            None => write(&Way::Feed(&feed)),
        };
        feed.note_policies(object.identity(), failures);
    }

    fn interrupt(&self, interruption: Option<Interruption>) {
        if self.progress.interrupt(interruption) {
            self.shared.news.notify_one();
        }
    }

    fn feed(&mut self, target: &TargetKey) -> Option<Arc<Feed>> {
        if let Some(feed) = self.route.feeds.get(target) {
            return Some(Arc::clone(feed));
        }
        let feed = self.feeds.give(&self.shared.store, target)?;
        self.route.feeds.insert(target.clone(), Arc::clone(&feed));
        Some(feed)
    }

    fn epoch(&self) -> Epoch {
        self.route.current.plan.epoch()
    }
}

/// How an object reaches a target: in a listing or as a change.
enum Way<'a> {
    Listing(&'a Listing),
    Feed(&'a Feed),
}

impl Way<'_> {
    fn put(
        &self,
        stamp: Stamp,
        object: ObjectIdentity<&str>,
        attributes: kollect_inventory::Attributes<'_>,
    ) -> Outcome {
        match self {
            Way::Listing(listing) => listing.put(stamp, object, attributes),
            Way::Feed(feed) => feed.put(stamp, object, attributes),
        }
    }

    fn skip(&self, stamp: Stamp, object: ObjectIdentity<&str>) -> Outcome {
        match self {
            Way::Listing(listing) => listing.skip(stamp, object),
            Way::Feed(feed) => feed.skip(stamp, object),
        }
    }

    fn fail(&self, stamp: Stamp, object: ObjectIdentity<&str>, message: &str) -> Outcome {
        match self {
            Way::Listing(listing) => listing.fail(stamp, object, message),
            Way::Feed(feed) => feed.fail(stamp, object, message),
        }
    }
}

/// The targets of a plan that a watch of an older plan still serves; nothing for a watch of this
/// plan, which serves them all.
fn served(watch: &Watch, plan: &ResourcePlan) -> Option<HashSet<TargetKey>> {
    if plan.watches.contains(watch) {
        return None;
    }
    let targets = plan.targets_in(&watch.scope).filter(|target| {
        let collection = target.collection();
        collection.is_some_and(|collection| watch.serves(collection))
    });
    Some(targets.map(|target| target.key.clone()).collect())
}

impl Consumer<SeenObject> for Dispatcher {
    async fn take(&mut self, delivery: WatchDelivery<SeenObject>) {
        let begun = Instant::now();
        match delivery {
            WatchDelivery::ListingStarted => return self.begin_listing(),
            WatchDelivery::Object(seen) => self.object(&seen).await,
            WatchDelivery::Gone {
                identity,
                resource_version,
            } => {
                self.gone(&identity, Version::parse(&resource_version));
            }
            WatchDelivery::Unreadable(unreadable) => self.unreadable(&unreadable),
            WatchDelivery::ListingFinished { resource_version } => {
                return self.finish_listing(&resource_version);
            }
            WatchDelivery::Progress { .. } => return,
            WatchDelivery::Interrupted(interruption) => return self.interrupt(Some(interruption)),
            WatchDelivery::Resumed => return self.interrupt(None),
        }
        // Only what concerns one object is counted.
        self.shared.tally.dispatch.observe(begun.elapsed());
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
