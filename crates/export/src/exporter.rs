//! The exports of one inventory.
//!
//! An [`Exporter`] follows orders and rows, and keeps every sink of its inventory in step. All
//! decisions are the lanes' schedules; what happens here is waiting, calling and telling.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kollect_api::{InventoryId, SinkKey};
use kollect_collect::store::{Revision, Store, Subscription, Taken};
use kollect_sinks::{Delivery, Demand, Receipt, SinkError};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Moment,
    delivery::Calls,
    lane::{Lane, RowsVersion},
    order::{Order, SinkOrder, Source},
    report::{Report, RetireReport, RetireState},
    retry::{self, Jitter},
    rows,
    schedule::{Attempt, Verdict},
    survey::Survey,
};

/// Changes are gathered until none comes for this long,
const QUIET: Duration = Duration::from_millis(50);
/// but never for longer than this.
const LONGEST_GATHER: Duration = Duration::from_secs(1);
/// Surveys are at least this far apart,
const SURVEY_PAUSE: Duration = Duration::from_secs(1);
/// and take at most this part of a core.
const SURVEY_SHARE: u32 = 20;
/// How long deliveries under way may take to end when the exporter is stopped.
const SHUTDOWN: Duration = Duration::from_secs(15);
/// Moments count from long before the start, so that what happened earlier has one too.
const PAST: Duration = Duration::from_hours(24 * 30);

/// Keeps the sinks of one inventory in step.
pub struct Exporter {
    store: Store,
    calls: Arc<Calls>,
    orders: watch::Receiver<Arc<Order>>,
    reports: watch::Sender<Report>,
    /// Told when a report says something new.
    news: Arc<Notify>,
    order: Arc<Order>,
    /// Never taken from; wakes this exporter when rows change.
    wake_subscription: Subscription,
    woken: Arc<Notify>,
    /// Grows when other rows are selected.
    selection: u64,
    lanes: Vec<Lane>,
    retiring: BTreeMap<SinkKey, Retiring>,
    under_way: JoinSet<Ended>,
    /// The sinks that a delivery or a clean-up is under way at: one at a time. Whoever comes back,
    /// as a lane or as a clean-up, waits for what its predecessor began.
    busy: BTreeSet<SinkKey>,
    survey: Option<(RowsVersion, Survey)>,
    surveying: bool,
    survey_not_before: Instant,
    begun: Instant,
}

/// A clean-up.
#[derive(Debug)]
struct Retiring {
    order: SinkOrder,
    failures: u32,
    not_before: Instant,
    state: RetireState,
}

/// Something that was under way has ended.
enum Ended {
    Delivery(SinkKey, Result<Receipt, SinkError>),
    Retirement(SinkKey, Result<Receipt, SinkError>),
    /// A survey of a selection, unless it panicked.
    Survey(u64, Option<Box<Survey>>, Duration),
}

impl Exporter {
    /// Follows `orders`, tells `reports`, and tells `news` when there is something new to read.
    pub fn new(
        store: Store,
        calls: Arc<Calls>,
        mut orders: watch::Receiver<Arc<Order>>,
        reports: watch::Sender<Report>,
        news: Arc<Notify>,
    ) -> Self {
        let order = Arc::clone(&orders.borrow_and_update());
        let woken = Arc::new(Notify::new());
        let wake_subscription = {
            let woken = Arc::clone(&woken);
            store.subscribe(order.scope.clone(), move || woken.notify_one())
        };
        let now = Instant::now();
        Self {
            store,
            calls,
            orders,
            reports,
            news,
            order,
            wake_subscription,
            woken,
            selection: 0,
            lanes: Vec::new(),
            retiring: BTreeMap::new(),
            under_way: JoinSet::new(),
            busy: BTreeSet::new(),
            survey: None,
            surveying: false,
            survey_not_before: now,
            begun: now,
        }
    }

    /// Runs until `stop`, or until nobody gives orders any more.
    pub async fn run(mut self, stop: CancellationToken) {
        self.follow(Arc::clone(&self.order));
        while !stop.is_cancelled() {
            let wake = self.pass();
            let more = tokio::select! {
                () = stop.cancelled() => false,
                changed = self.orders.changed() => changed.is_ok(),
                () = self.woken.notified() => { self.gather(&stop).await; true }
                Some(ended) = self.under_way.join_next() => { self.ended(ended); true }
                () = sleep_until(wake.unwrap_or_else(far)), if wake.is_some() => true,
            };
            if !more {
                break;
            }
            while let Some(ended) = self.under_way.try_join_next() {
                self.ended(ended);
            }
            let order = Arc::clone(&self.orders.borrow_and_update());
            if !Arc::ptr_eq(&order, &self.order) {
                self.follow(order);
            }
        }
        self.shut_down().await;
    }

    /// What is under way may end; what does not is dropped, which every sink can take.
    async fn shut_down(&mut self) {
        let end = async {
            while let Some(ended) = self.under_way.join_next().await {
                self.ended(ended);
            }
        };
        let _ = tokio::time::timeout(SHUTDOWN, end).await;
        self.under_way.abort_all();
    }

    /// Waits until changes pause.
    async fn gather(&self, stop: &CancellationToken) {
        let latest = Instant::now() + LONGEST_GATHER;
        let mut revision = self.revision();
        while Instant::now() < latest && !stop.is_cancelled() {
            sleep(QUIET).await;
            let now = self.revision();
            if now == revision {
                break;
            }
            revision = now;
        }
    }

    fn revision(&self) -> Revision {
        self.store.revision(&self.order.scope)
    }

    fn moment(&self) -> Moment {
        PAST + self.begun.elapsed()
    }

    /// Takes a new order.
    fn follow(&mut self, order: Arc<Order>) {
        if order.dedupe != self.order.dedupe {
            self.selection += 1;
        }
        if order.scope != self.order.scope {
            self.selection += 1;
            self.wake_subscription.follow(order.scope.clone());
            for lane in &self.lanes {
                lane.subscription.follow(order.scope.clone());
            }
        }
        let mut known: BTreeMap<SinkKey, Lane> = std::mem::take(&mut self.lanes)
            .into_iter()
            .map(|lane| (lane.order.key.clone(), lane))
            .collect();
        for sink in &order.deliver {
            let lane = match known.remove(&sink.key) {
                Some(mut lane) => {
                    lane.follow(sink.clone());
                    lane
                }
                None => {
                    let subscription = self.store.subscribe(order.scope.clone(), || {});
                    Lane::new(sink.clone(), subscription)
                }
            };
            self.lanes.push(lane);
            self.retiring.remove(&sink.key);
        }
        self.retiring
            .retain(|key, _| order.retire.iter().any(|sink| sink.key == *key));
        for sink in &order.retire {
            let retiring = self
                .retiring
                .entry(sink.key.clone())
                .or_insert_with(|| Retiring::new(sink.clone()));
            retiring.order = sink.clone();
        }
        self.order = order;
    }

    /// Looks at everything and begins what is due. Returns when to look again.
    fn pass(&mut self) -> Option<Instant> {
        let waiting = self.wake_subscription.waiting_for();
        let open = self.order.open && waiting.is_none();
        let mut wake = None;
        if waiting.is_none() {
            wake = self.refresh_survey();
        }
        let rows_version = self.rows_version();
        let now = self.moment();
        let mut due = Vec::new();
        for (at, lane) in self.lanes.iter().enumerate() {
            match lane.verdict(rows_version, open, now) {
                Verdict::Export(attempt) => due.push((at, attempt)),
                Verdict::Wait(Some(moment)) => {
                    let at = Instant::now() + moment.saturating_sub(now);
                    wake = earliest(wake, Some(at));
                }
                Verdict::Wait(None) => {}
            }
        }
        for (at, attempt) in due {
            self.begin(at, attempt);
        }
        wake = earliest(wake, self.retire());
        self.tell(waiting, open);
        wake
    }

    fn rows_version(&self) -> RowsVersion {
        RowsVersion {
            selection: self.selection,
            revision: self.revision(),
        }
    }

    /// Begins a delivery.
    fn begin(&mut self, at: usize, attempt: Attempt) {
        let now = self.moment();
        let wall = Timestamp::now();
        let lane = &mut self.lanes[at];
        if self.busy.contains(&lane.order.key) {
            return;
        }
        let Some(source) = lane.source().map(Arc::clone) else {
            return;
        };
        if attempt.since.is_none() || source.demand == Demand::Documents {
            lane.subscription.start_over();
        }
        // Before taking: a change that comes in between must count as not delivered.
        let before = self.store.revision(&self.order.scope);
        let taken = lane.subscription.take();
        let revision = match &taken {
            Taken::Waiting(_) => return,
            Taken::Nothing => {
                let rows_version = RowsVersion {
                    selection: self.selection,
                    revision: before,
                };
                lane.unchanged(attempt, rows_version, now);
                self.calls.observer.debounced();
                return;
            }
            Taken::Everything(_, revision) | Taken::Changes(_, revision) => *revision,
        };
        let rows_version = RowsVersion {
            selection: self.selection,
            revision,
        };
        let order = &self.order;
        let Some(rows) = rows::of_delivery(&self.store, &order.scope, order.dedupe, taken) else {
            return;
        };
        lane.begin(attempt, rows_version, now, wall);
        let delivery = Delivery {
            inventory: order.inventory.clone(),
            generation: order.generation,
            at: wall,
            rows,
            documents: lane.order.documents.clone(),
        };
        let (calls, key) = (Arc::clone(&self.calls), lane.order.key.clone());
        self.busy.insert(key.clone());
        self.under_way.spawn(async move {
            let result = calls.deliver(&source, &delivery).await;
            Ended::Delivery(key, result)
        });
    }

    /// Something has ended.
    fn ended(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        let now = self.moment();
        match ended {
            Ok(Ended::Delivery(key, result)) => {
                self.busy.remove(&key);
                let inventory = &self.order.inventory;
                match &result {
                    Ok(receipt) => tracing::debug!(
                        %inventory, sink = %key, written = receipt.written,
                        removed = receipt.removed, note = receipt.note, "exported"
                    ),
                    Err(error) => {
                        tracing::warn!(%inventory, sink = %key, %error, "export failed");
                    }
                }
                if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.order.key == key) {
                    lane.end(result.map(|_| ()), now, jitter());
                }
            }
            Ok(Ended::Retirement(key, result)) => {
                self.busy.remove(&key);
                if let Some(retiring) = self.retiring.get_mut(&key) {
                    retiring.end(&self.order.inventory, result.map(|_| ()));
                }
            }
            Ok(Ended::Survey(selection, survey, took)) => {
                self.surveying = false;
                self.survey_not_before = Instant::now() + (took * SURVEY_SHARE).max(SURVEY_PAUSE);
                let Some(survey) = survey else {
                    tracing::error!(inventory = %self.order.inventory, "a survey of the rows panicked; trying again");
                    return;
                };
                let rows_version = RowsVersion {
                    selection,
                    revision: survey.revision,
                };
                self.survey = Some((rows_version, *survey));
            }
            // Calls and surveys contain their panics; what is left is a task that was aborted.
            Err(error) => tracing::error!(%error, "a task of an export ended"),
        }
    }

    /// Begins clean-ups that are due.
    fn retire(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut wake = None;
        for (key, retiring) in &mut self.retiring {
            // A delivery under way to a sink of this name may still add what is to go.
            if self.busy.contains(key) || retiring.state == RetireState::Done {
                continue;
            }
            if retiring.not_before > now {
                wake = earliest(wake, Some(retiring.not_before));
                continue;
            }
            match &retiring.order.source {
                Source::Ready(source) => {
                    self.busy.insert(key.clone());
                    let (calls, source) = (Arc::clone(&self.calls), Arc::clone(source));
                    let (key, inventory) = (key.clone(), self.order.inventory.clone());
                    self.under_way.spawn(async move {
                        let result = calls.retire(&source, &inventory).await;
                        Ended::Retirement(key, result)
                    });
                }
                Source::Reading => {}
                Source::Held(error) => retiring.state = RetireState::Failed(error.clone()),
            }
        }
        wake
    }

    /// Tells the lanes what is known of the rows, and surveys them anew if it is time to. Returns
    /// when it will be, if not now.
    fn refresh_survey(&mut self) -> Option<Instant> {
        let (now, wall) = (self.moment(), Timestamp::now());
        let rows_version = self.rows_version();
        if let Some((known, survey)) = &self.survey {
            for lane in &mut self.lanes {
                lane.resume(survey, *known, now, wall);
                lane.learn(survey, *known);
            }
            if *known == rows_version {
                return None;
            }
        }
        if self.surveying {
            return None;
        }
        // The first one is waited for; but one that failed is not repeated at once.
        let first = self.survey.is_none() && self.survey_not_before <= Instant::now();
        if !first {
            // Deliveries first: what they bring is what people wait for.
            let quiet = self.busy.is_empty();
            let pause = if quiet {
                Duration::ZERO
            } else {
                LONGEST_GATHER * 10
            };
            let at = self.survey_not_before + pause;
            if at > Instant::now() {
                return Some(at);
            }
        }
        self.begin_survey();
        None
    }

    fn begin_survey(&mut self) {
        let mut sizes: Vec<Option<NonZeroU64>> = self
            .order
            .deliver
            .iter()
            .filter(|sink| match &sink.source {
                Source::Ready(source) => source.demand == Demand::Documents,
                Source::Reading | Source::Held(_) => false,
            })
            .map(|sink| sink.documents.max_bytes)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (store, order) = (self.store.clone(), Arc::clone(&self.order));
        let selection = self.selection;
        self.surveying = true;
        self.under_way.spawn_blocking(move || {
            let begun = Instant::now();
            let survey = catch_unwind(AssertUnwindSafe(|| {
                Survey::take(&store, &order.scope, order.dedupe, &sizes)
            }));
            Ended::Survey(selection, survey.ok().map(Box::new), begun.elapsed())
        });
    }

    fn tell(&self, waiting: Option<Vec<kollect_collect::plan::TargetKey>>, open: bool) {
        let rows_version = self.rows_version();
        let report = Report {
            waiting_for: waiting,
            survey: self.survey.as_ref().map(|(_, survey)| survey.clone()),
            lanes: self
                .lanes
                .iter()
                .map(|lane| lane.report(rows_version, open))
                .collect(),
            retiring: self
                .retiring
                .iter()
                .map(|(key, retiring)| RetireReport {
                    key: key.clone(),
                    state: retiring.state.clone(),
                })
                .collect(),
        };
        let news = self.reports.send_if_modified(|known| {
            let news = *known != report;
            *known = report;
            news
        });
        if news {
            self.news.notify_one();
        }
    }
}

impl Retiring {
    fn new(order: SinkOrder) -> Self {
        Self {
            order,
            failures: 0,
            not_before: Instant::now(),
            state: RetireState::UnderWay,
        }
    }

    fn end(&mut self, inventory: &InventoryId, result: Result<(), SinkError>) {
        match result {
            Ok(()) => self.state = RetireState::Done,
            Err(error) => {
                let sink = &self.order.key;
                tracing::warn!(%inventory, %sink, %error, "clean-up failed");
                self.failures += 1;
                // Whatever the class: somebody waits for this to end, and gives up after a while.
                let wait = retry::wait(retry::FailureClass::Transient, self.failures, jitter());
                self.not_before = Instant::now() + wait;
                self.state = RetireState::Failed(error);
            }
        }
    }
}

fn jitter() -> Jitter {
    Jitter::new(fastrand::u64(..))
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    [a, b].into_iter().flatten().min()
}

fn far() -> Instant {
    Instant::now() + Duration::from_hours(24)
}
