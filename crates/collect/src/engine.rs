//! The running collection: watches that follow a plan and write rows.
//!
//! The engine decides nothing. The [`plan`](crate::plan) says what to watch and which targets want
//! an object, the [`extract`](crate::extract) modules say what a row holds, the
//! [`store`](crate::store) keeps rows; the engine opens and closes [`watch`](kollect_watch)
//! sources and carries objects from one to the other.
//!
//! ```text
//! world ─> plan ─> apply ─┬─> store.apply          targets come and go
//!                         ├─> sources open/close   one per Watch of the plan
//!                         └─> sources list again   a projection grew, or a target must look again
//! source ─ bytes ─> projection ─ projected object ─> dispatcher ─ row ─> store
//! ```
//!
//! A change of plan never loses rows: a watch that another one replaces is closed only after the
//! other has finished its first listing, and rows that a new plan no longer wants are swept by the
//! listing that follows it, not before.

mod dispatch;
mod feeds;
mod numbered_projection;
mod purse;
mod running;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use kollect_watch::{
    ApiServer, Interruption, InterruptionClass, Resource, View, WatchCounters, WatchSource,
    WatchSubject,
};
use kube::Client;
use tokio::{runtime::Handle, sync::Notify};
use tokio_util::sync::CancellationToken;

use self::dispatch::{Assignment, Dispatcher};
use self::feeds::Feeds;
use self::numbered_projection::NumberedProjection;
use self::running::{Closing, Running};
use self::tally::Ledger;
use crate::plan::{Plan, PlanDelta, Watch, World};
use crate::store::{Limits, Store};

pub use self::tally::{Carried, Durations, ResourceTally, Tally, Traffic};

/// What dispatchers share: the plan in force and where rows go.
#[derive(Debug)]
struct Shared {
    store: Store,
    current: RwLock<Arc<Current>>,
    /// Told when a watch has news: listed, interrupted, resumed.
    news: Arc<Notify>,
    tally: Arc<Tally>,
}

impl Shared {
    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One plan, and how objects must have been seen to be treated by it.
#[derive(Debug, Default)]
struct Current {
    plan: Arc<Plan>,
    /// Which projection shows enough of a resource's objects. What came through an older one is left to
    /// the listing that the newer one began.
    projections: BTreeMap<Arc<Resource>, u64>,
}

/// The state of one watch, for statuses and metrics.
#[derive(Debug, Clone)]
pub struct WatchState {
    /// Which watch.
    pub watch: Watch,
    /// Whether it has finished its first listing.
    pub listed: bool,
    /// Why nothing arrives at present, if so.
    pub interruption: Option<Interruption>,
    /// What happened so far.
    pub counters: Arc<WatchCounters>,
}

/// The running collection.
pub struct Engine {
    server: Arc<ApiServer>,
    shared: Arc<Shared>,
    running: BTreeMap<Watch, Running>,
    /// Watches that others replace, until those have listed.
    closing: Vec<Closing>,
    /// Lists beside watches, until they are through.
    lists: Vec<Running>,
    ledger: Ledger,
    next_projection: u64,
    /// Where watches run.
    runtime: Handle,
    stop: CancellationToken,
}

impl Engine {
    /// An engine that watches through `client` and has nothing to do yet. `news` is told when the
    /// store or a watch has something to report. Watches run in the runtime that makes the engine,
    /// whoever drives it.
    pub fn new(client: Client, news: Arc<Notify>, stop: &CancellationToken) -> Self {
        let wake = Arc::clone(&news);
        let store = Store::new(Limits::default(), move || wake.notify_one());
        Self {
            server: ApiServer::new(client),
            shared: Arc::new(Shared {
                store,
                current: RwLock::default(),
                news,
                tally: Arc::default(),
            }),
            running: BTreeMap::new(),
            closing: Vec::new(),
            lists: Vec::new(),
            ledger: Ledger::default(),
            next_projection: 1,
            runtime: Handle::current(),
            stop: stop.child_token(),
        }
    }

    /// The rows.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The API server, for other watches of the same process.
    pub fn server(&self) -> &Arc<ApiServer> {
        &self.server
    }

    /// The plan in force.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.shared.current().plan)
    }

    /// Follows a new state of the world. Returns the plan that is now in force.
    pub fn follow(&mut self, world: &World) -> Arc<Plan> {
        let before = self.shared.current();
        let plan = Arc::new(before.plan.next(world));
        let delta = plan.delta_from(&before.plan);

        let views = self.changed_views(&plan, &delta);
        let mut projections = before.projections.clone();
        projections.retain(|resource, _| plan.resource(resource).is_some());
        for (watch, view) in &views {
            projections.insert(Arc::clone(&watch.resource), view.decoder.number());
        }
        let current = Current {
            plan: Arc::clone(&plan),
            projections,
        };
        let slot = &self.shared.current;
        *slot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(current);
        self.shared.store.apply(&plan, &delta);

        let fresh = views.iter().map(|(watch, _)| watch.clone()).collect();
        self.open_and_close(&plan, &delta, views);
        self.list_again(&delta, &fresh);
        self.tidy();
        plan
    }

    /// Closes what has been replaced and forgets lists that are through. To be called when there
    /// is news.
    pub fn tidy(&mut self) {
        self.lists.retain(|list| !list.is_through());
        let running = &self.running;
        self.closing.retain(|closing| {
            let replaced = closing.is_replaced(running);
            if replaced {
                closing.running.feeds.close();
            }
            !replaced
        });
        let closing = self.closing.iter().map(|closing| &closing.running);
        let live = running.values().chain(closing).chain(&self.lists);
        let plan = &self.shared.current().plan;
        self.ledger
            .tidy(live.map(|run| run.handle.counters()), |resource| {
                plan.resource(resource).is_some()
            });
    }

    /// The state of all watches.
    pub fn watches(&self) -> impl Iterator<Item = WatchState> {
        self.running
            .iter()
            .map(|(watch, running)| running.state(watch))
    }

    /// What all dispatchers count, for metrics.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.shared.tally
    }

    /// The traffic of each resource that is watched. What is handed out goes on counting.
    pub fn traffic(&self) -> Vec<(Arc<Resource>, Traffic)> {
        self.ledger.copy()
    }

    /// Ends the waits of watches of a resource, as when a right was granted or a kind installed.
    pub fn retry(&self, resource: &Resource) {
        for (watch, running) in &self.running {
            if *watch.resource == *resource {
                running.handle.retry_now();
            }
        }
    }

    /// Resources whose watches the API server refuses: what is known about them is outdated.
    pub fn refused(&self) -> BTreeMap<InterruptionClass, BTreeSet<Arc<Resource>>> {
        let mut refused: BTreeMap<InterruptionClass, BTreeSet<_>> = BTreeMap::new();
        for state in self.watches() {
            if let Some(interruption) = state.interruption
                && matches!(
                    interruption.class,
                    InterruptionClass::Forbidden | InterruptionClass::NotInstalled
                )
            {
                refused
                    .entry(interruption.class)
                    .or_default()
                    .insert(state.watch.resource);
            }
        }
        refused
    }

    /// Stops all watches. Returns when nothing is written any more.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let running = std::mem::take(&mut self.running).into_values();
        let closing = self.closing.drain(..).map(|closing| closing.running);
        for running in running.chain(closing).chain(self.lists.drain(..)) {
            running.handle.stop().await;
        }
    }

    /// The views of watches that are new, or that show less than the new plan reads.
    fn changed_views(
        &mut self,
        plan: &Plan,
        delta: &PlanDelta,
    ) -> Vec<(Watch, View<NumberedProjection>)> {
        let mut views = Vec::new();
        for resource in plan.resources() {
            let blind = resource.watches.iter().any(|watch| {
                delta.open.contains(watch)
                    || self
                        .running
                        .get(watch)
                        .is_none_or(|run| !run.shows(resource.projection.reads()))
            });
            if !blind {
                continue;
            }
            let number = self.next_projection;
            self.next_projection += 1;
            // One projection for all watches of the resource: their objects are treated alike.
            let projection = Arc::new(NumberedProjection::new(number, resource));
            for watch in &resource.watches {
                let view = View {
                    decoder: Arc::clone(&projection),
                    content: watch.content,
                };
                views.push((watch.clone(), view));
            }
        }
        views
    }

    fn open_and_close(
        &mut self,
        plan: &Plan,
        delta: &PlanDelta,
        views: Vec<(Watch, View<NumberedProjection>)>,
    ) {
        for watch in &delta.close {
            let Some(running) = self.running.remove(watch) else {
                continue;
            };
            let replaced_by: Vec<Watch> = plan
                .resource(&watch.resource)
                .map(|resource| resource.watches.iter().cloned().collect())
                .unwrap_or_default();
            if replaced_by.is_empty() {
                // Without a successor nothing waits: the handle's drop ends the watch.
                running.feeds.close();
            } else {
                self.closing.push(Closing {
                    running,
                    replaced_by,
                });
            }
        }
        for (watch, view) in views {
            match self.running.get_mut(&watch) {
                // Looking through a new projection lists everything again.
                Some(running) => running.show(view),
                None => {
                    let assignment = Assignment {
                        scope: watch.scope.clone(),
                        only: None,
                        replaces: self.older(&watch.resource),
                        watch: watch.clone(),
                    };
                    let running = self.start(assignment, view);
                    self.running.insert(watch, running);
                }
            }
        }
    }

    /// Lists beside watches that stay as they are, for targets that must look again. Watches that
    /// begin a listing with this very plan (`fresh`) show everything anyway; a listing that began
    /// before it does not.
    fn list_again(&mut self, delta: &PlanDelta, fresh: &BTreeSet<Watch>) {
        for ((resource, scope), targets) in &delta.relist {
            let covering = self
                .running
                .iter()
                .find(|(watch, _)| watch.resource == *resource && watch.scope.covers(scope));
            let Some((watch, running)) = covering else {
                continue;
            };
            if fresh.contains(watch) {
                continue;
            }
            let assignment = Assignment {
                watch: watch.clone(),
                scope: scope.clone(),
                only: Some(targets.clone()),
                replaces: Vec::new(),
            };
            let view = running.view.clone();
            let list = self.start(assignment, view);
            self.lists.push(list);
        }
    }

    /// What runs for a resource and will be behind once a new watch has listed everything: watches
    /// that are being replaced, and lists beside them. Watches of other namespaces are not older.
    fn older(&self, resource: &Arc<Resource>) -> Vec<Arc<Feeds>> {
        let closing = self.closing.iter().map(|closing| &closing.running);
        let older = closing.chain(&self.lists);
        let older = older.filter(|running| running.resource == *resource);
        older.map(|running| Arc::clone(&running.feeds)).collect()
    }

    fn start(&mut self, assignment: Assignment, view: View<NumberedProjection>) -> Running {
        let resource = Arc::clone(&assignment.watch.resource);
        let subject = WatchSubject {
            scope: assignment.scope.clone(),
            ..assignment.watch.subject()
        };
        let stop = self.stop.child_token();
        let tally = self.ledger.tally(&resource);
        let dispatcher = Dispatcher::new(Arc::clone(&self.shared), assignment, tally, stop.clone());
        let (progress, feeds) = (dispatcher.progress(), dispatcher.feeds());
        let source = WatchSource::new(Arc::clone(&self.server), subject, view.clone());
        let handle = {
            let _entered = self.runtime.enter();
            source.spawn(dispatcher, &stop)
        };
        self.ledger.started(&resource, handle.counters());
        Running {
            resource,
            handle,
            view,
            progress,
            feeds,
        }
    }
}
