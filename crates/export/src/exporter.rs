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

use futures::FutureExt as _;
use jiff::Timestamp;
use kollect_api::{SinkKey, inventory::Dedupe};
use kollect_collect::store::{Revision, RowSelection, Store, Subscription, Taken};
use kollect_sinks::{Delivery, DeliveryRows, Demand, Receipt, SinkError, backend};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Moment, SinkSource,
    delivery::{Calls, ExportTask, NoTurn, Turn},
    lane::{Lane, RowsVersion},
    order::{Order, Source},
    report::{Report, RetireState},
    retiring::Retiring,
    retry::{self, FailureClass, Jitter},
    rows,
    schedule::{Attempt, Verdict},
    survey::Survey,
};

/// A change after a quiet moment goes out at once. Those that follow are gathered until none comes
/// for this long,
const QUIET: Duration = Duration::from_millis(50);
/// but never for longer than this.
const LONGEST_GATHER: Duration = Duration::from_secs(1);
/// Surveys are at least this far apart,
const SURVEY_PAUSE: Duration = Duration::from_secs(1);
/// and take at most this part of a core.
const SURVEY_SHARE: u32 = 20;
/// How long an exporter rests after a panic: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How long deliveries under way may take to end when the exporter is stopped.
const SHUTDOWN: Duration = Duration::from_secs(8);
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
    /// The sizes of documents that were asked for with the last survey.
    surveyed_sizes: Vec<Option<NonZeroU64>>,
    surveying: bool,
    survey_not_before: Instant,
    /// Surveys that panicked, in a row.
    survey_panics: u32,
    surveyor: Surveyor,
    /// Whoever waits for a turn need not wait any longer.
    no_more_turns: CancellationToken,
    begun: Instant,
    /// When rows changed last.
    changed: Option<Instant>,
    /// The time when it began.
    begun_at: Timestamp,
}

/// Something that was under way has ended.
enum Ended {
    /// Waiting for a turn to make this attempt.
    Turn(SinkKey, Attempt, Result<Box<Turn>, NoTurn>),
    Delivery(SinkKey, Result<Receipt, SinkError>),
    /// No receipt: the sink does not hold what it was given, or cannot say.
    Look(SinkKey, Result<Option<Receipt>, SinkError>),
    Retirement(SinkKey, Result<(), NoTurn>),
    /// A call that panicked where calls do not: around the sink.
    Panic(SinkKey),
    /// A survey of a selection, unless it panicked.
    Survey(u64, Option<Box<Survey>>, Duration),
}

/// How rows are surveyed. The way is [`Survey::take`]; tests have theirs.
pub type Surveyor = fn(&Store, &RowSelection, Dedupe, &[Option<NonZeroU64>]) -> Survey;

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
            surveyed_sizes: Vec::new(),
            surveying: false,
            survey_not_before: now,
            survey_panics: 0,
            surveyor: Survey::take,
            no_more_turns: CancellationToken::new(),
            begun: now,
            changed: None,
            begun_at: Timestamp::now(),
        }
    }

    /// Surveys rows in another way.
    pub fn surveyed_by(mut self, surveyor: Surveyor) -> Self {
        self.surveyor = surveyor;
        self
    }

    /// Keeps an exporter running until `stop`: one that panics is told of and begun anew, after a
    /// pause that grows. What it had under way is dropped, which every sink can take.
    pub async fn keep(
        store: Store,
        calls: Arc<Calls>,
        orders: watch::Receiver<Arc<Order>>,
        reports: watch::Sender<Report>,
        news: Arc<Notify>,
        stop: CancellationToken,
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let run = async {
                let exporter = Exporter::new(
                    store.clone(),
                    Arc::clone(&calls),
                    orders.clone(),
                    reports.clone(),
                    Arc::clone(&news),
                );
                exporter.run(stop.clone()).await;
            };
            if AssertUnwindSafe(run).catch_unwind().await.is_ok() {
                return;
            }
            calls.observer.panicked(ExportTask::Exporter);
            if begun.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            let inventory = orders.borrow().inventory.clone();
            tracing::error!(%inventory, "the exports panicked; they begin anew in {pause:?}");
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs until `stop`, or until nobody gives orders any more.
    pub async fn run(mut self, stop: CancellationToken) {
        self.follow(Arc::clone(&self.order));
        let mut reopenings = self.calls.pool.reopenings();
        while !stop.is_cancelled() {
            self.reopen();
            let wake = self.pass();
            let more = tokio::select! {
                () = stop.cancelled() => false,
                changed = self.orders.changed() => changed.is_ok(),
                () = self.woken.notified() => { self.gather(&stop).await; true }
                Some(ended) = self.under_way.join_next() => { self.ended(ended); true }
                Ok(()) = reopenings.changed() => true,
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
        self.no_more_turns.cancel();
        let end = async {
            while let Some(ended) = self.under_way.join_next().await {
                self.ended(ended);
            }
        };
        let _ = tokio::time::timeout(SHUTDOWN, end).await;
        self.under_way.abort_all();
    }

    /// Waits until changes pause, unless this one came after a pause itself. Whatever ends meanwhile is taken note of: somebody else may be
    /// waiting for its place.
    async fn gather(&mut self, stop: &CancellationToken) {
        let before = self.changed.replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() >= QUIET) {
            return;
        }
        let latest = Instant::now() + LONGEST_GATHER;
        let mut revision = self.revision();
        while Instant::now() < latest && !stop.is_cancelled() {
            let quiet = Instant::now() + QUIET;
            while Instant::now() < quiet {
                tokio::select! {
                    () = sleep_until(quiet) => {}
                    Some(ended) = self.under_way.join_next() => self.ended(ended),
                }
            }
            let now = self.revision();
            if now == revision {
                break;
            }
            revision = now;
        }
        self.changed = Some(Instant::now());
    }

    /// Sinks that were found to work need not be waited for.
    fn reopen(&mut self) {
        let pool = &self.calls.pool;
        for lane in &mut self.lanes {
            if let Some(source) = lane.source() {
                let reopened = pool.reopened(&source.uid);
                lane.reopen(reopened);
            }
        }
        for retiring in self.retiring.values_mut() {
            if let Some(reopened) = retiring.uid().map(|uid| pool.reopened(uid)) {
                retiring.reopen(reopened);
            }
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
            self.queue(at, attempt);
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

    /// Waits for a turn to deliver.
    fn queue(&mut self, at: usize, attempt: Attempt) {
        let lane = &self.lanes[at];
        let key = lane.order.key.clone();
        let Some(source) = lane.source().map(Arc::clone) else {
            return;
        };
        let keeps_held = backend::keeps_held(&source.spec);
        if !keeps_held && !self.store.held(&self.order.scope).is_empty() {
            // It cannot leave rows as they are of which nothing is known, so it waits for them.
            return;
        }
        if !self.busy.insert(key.clone()) {
            return;
        }
        let (calls, no_more) = (Arc::clone(&self.calls), self.no_more_turns.clone());
        let inventory = self.order.inventory.clone();
        self.spawn(key.clone(), async move {
            let turn = tokio::select! {
                () = no_more.cancelled() => Err(stopped()),
                turn = calls.turn(&source) => turn,
            };
            if let Err(no_turn) = &turn {
                calls.unsent(&source, &inventory, no_turn.error());
            }
            Ended::Turn(key, attempt, turn.map(Box::new))
        });
    }

    /// Runs something at a sink, beside everything else.
    fn spawn(&mut self, key: SinkKey, call: impl Future<Output = Ended> + Send + 'static) {
        self.under_way.spawn(async move {
            let call = AssertUnwindSafe(call).catch_unwind().await;
            call.unwrap_or(Ended::Panic(key))
        });
    }

    /// It is a lane's turn. While it waited everything may have changed: what to deliver is decided
    /// now, if anything.
    fn turn(&mut self, key: &SinkKey, turn: Turn) {
        let open = self.order.open && self.wake_subscription.waiting_for().is_none();
        let (rows_version, now) = (self.rows_version(), self.moment());
        let Some(at) = self.lanes.iter().position(|lane| lane.order.key == *key) else {
            return;
        };
        let lane = &self.lanes[at];
        let same = |source: &Arc<SinkSource>| {
            source.uid == turn.source().uid && source.version == turn.source().version
        };
        if self.no_more_turns.is_cancelled() || !lane.source().is_some_and(same) {
            return;
        }
        if let Verdict::Export(attempt) = lane.verdict(rows_version, open, now) {
            self.begin(at, attempt, turn);
        }
    }

    /// Begins a delivery.
    fn begin(&mut self, at: usize, attempt: Attempt, turn: Turn) {
        let now = self.moment();
        let wall = Timestamp::now();
        let lane = &mut self.lanes[at];
        let source = Arc::clone(turn.source());
        let rows_version = RowsVersion {
            selection: self.selection,
            revision: self.store.revision(&self.order.scope),
        };
        lane.silence = turn.longest_silence();
        if turn.confirms() && lane.is_at_rest(attempt, rows_version) {
            self.confirm(at, attempt, rows_version, turn);
            return;
        }
        let keeps_held = backend::keeps_held(&source.spec);
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
            Taken::Everything(snapshot, _) if !keeps_held && !snapshot.held().is_empty() => {
                lane.subscription.start_over();
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
        let reopened = self.calls.pool.reopened(&source.uid);
        lane.begin(attempt, rows_version, reopened, now, wall);
        let delivery = Delivery {
            inventory: order.inventory.clone(),
            generation: order.generation,
            at: wall,
            rows,
            documents: lane.order.documents.clone(),
        };
        let (calls, key) = (Arc::clone(&self.calls), lane.order.key.clone());
        self.busy.insert(key.clone());
        self.spawn(key.clone(), async move {
            let result = calls.deliver(turn, &delivery).await;
            Ended::Delivery(key, result)
        });
    }

    /// Asks a sink whether it still holds what it was given, instead of gathering all rows to see.
    fn confirm(&mut self, at: usize, attempt: Attempt, rows_version: RowsVersion, turn: Turn) {
        let (now, wall) = (self.moment(), Timestamp::now());
        let lane = &mut self.lanes[at];
        let reopened = self.calls.pool.reopened(&turn.source().uid);
        lane.begin(attempt, rows_version, reopened, now, wall);
        let delivery = Delivery {
            inventory: self.order.inventory.clone(),
            generation: self.order.generation,
            at: wall,
            rows: DeliveryRows::Changes(Arc::default()),
            documents: lane.order.documents.clone(),
        };
        let (calls, key) = (Arc::clone(&self.calls), lane.order.key.clone());
        self.busy.insert(key.clone());
        self.spawn(key.clone(), async move {
            let result = calls.confirm(turn, &delivery).await;
            Ended::Look(key, result)
        });
    }

    /// Something has ended.
    fn ended(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        let now = self.moment();
        match ended {
            Ok(Ended::Turn(key, attempt, turn)) => {
                self.busy.remove(&key);
                match turn {
                    Ok(turn) => self.turn(&key, *turn),
                    Err(no_turn) => self.no_turn(&key, attempt, no_turn),
                }
            }
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
                self.delivered(&key, result, now);
            }
            Ok(Ended::Look(key, result)) => {
                self.busy.remove(&key);
                match result.transpose() {
                    Some(result) => {
                        if let Err(error) = &result {
                            let inventory = &self.order.inventory;
                            tracing::warn!(%inventory, sink = %key, %error, "a look failed");
                        }
                        self.delivered(&key, result, now);
                    }
                    None => {
                        let lane = self.lanes.iter_mut().find(|lane| lane.order.key == key);
                        lane.into_iter().for_each(Lane::unconfirmed);
                    }
                }
            }
            Ok(Ended::Retirement(key, result)) => {
                self.busy.remove(&key);
                if let Some(retiring) = self.retiring.get_mut(&key) {
                    let inventory = &self.order.inventory;
                    match result {
                        Ok(()) => retiring.end(inventory, Ok(()), jitter()),
                        Err(NoTurn::Refused { error, wait }) => retiring.refused(error, wait),
                        Err(NoTurn::Failed(error)) => {
                            retiring.end(inventory, Err(error), jitter());
                        }
                    }
                }
            }
            Ok(Ended::Panic(key)) => {
                self.busy.remove(&key);
                self.calls.observer.panicked(ExportTask::Call);
                let error = || SinkError::transient("an unexpected failure (a panic; see the log)");
                self.delivered(&key, Err(error()), now);
                if let Some(retiring) = self.retiring.get_mut(&key) {
                    retiring.end(&self.order.inventory, Err(error()), jitter());
                }
            }
            Ok(Ended::Survey(selection, survey, took)) => {
                self.surveying = false;
                self.survey_not_before = Instant::now() + (took * SURVEY_SHARE).max(SURVEY_PAUSE);
                let Some(survey) = survey else {
                    self.survey_panicked();
                    return;
                };
                self.survey_panics = 0;
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

    fn delivered(&mut self, key: &SinkKey, result: Result<Receipt, SinkError>, now: Moment) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.order.key == *key) {
            let reopened = lane
                .source()
                .map(|source| self.calls.pool.reopened(&source.uid));
            lane.end(result, reopened.unwrap_or_default(), now, jitter());
        }
    }

    fn no_turn(&mut self, key: &SinkKey, attempt: Attempt, no_turn: NoTurn) {
        let (inventory, error) = (&self.order.inventory, no_turn.error());
        tracing::warn!(%inventory, sink = %key, %error, "export did not begin");
        let now = self.moment();
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.order.key == *key) else {
            return;
        };
        match no_turn {
            NoTurn::Refused { error, wait } => lane.refused(attempt, error, now + wait),
            NoTurn::Failed(error) => lane.unsent(attempt, error, now, jitter()),
        }
    }

    fn survey_panicked(&mut self) {
        self.survey_panics = self.survey_panics.saturating_add(1);
        let wait = retry::wait(FailureClass::Transient, self.survey_panics, jitter());
        self.survey_not_before = Instant::now() + wait;
        self.calls.observer.panicked(ExportTask::Survey);
        let inventory = &self.order.inventory;
        tracing::error!(%inventory, "a survey of the rows panicked; trying again in {wait:?}");
    }

    /// Begins clean-ups that are due.
    fn retire(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let (mut wake, mut due) = (None, Vec::new());
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
                Source::Ready(source) => due.push((key.clone(), Arc::clone(source))),
                Source::Reading => {}
                Source::Held(error) => retiring.state = RetireState::Failed(error.clone()),
            }
        }
        for (key, source) in due {
            self.busy.insert(key.clone());
            let (calls, no_more) = (Arc::clone(&self.calls), self.no_more_turns.clone());
            let inventory = self.order.inventory.clone();
            self.spawn(key.clone(), async move {
                let turn = tokio::select! {
                    () = no_more.cancelled() => Err(stopped()),
                    turn = calls.turn(&source) => turn,
                };
                let result = match turn {
                    Ok(turn) => calls.retire(turn, &inventory).await,
                    Err(no_turn) => return Ended::Retirement(key, Err(no_turn)),
                };
                Ended::Retirement(key, result.map(drop).map_err(NoTurn::Failed))
            });
        }
        wake
    }

    /// Tells the lanes what is known of the rows, and surveys them anew if it is time to. Returns
    /// when it will be, if not now.
    fn refresh_survey(&mut self) -> Option<Instant> {
        let (now, wall) = (self.moment(), Timestamp::now());
        let rows_version = self.rows_version();
        // Which sizes count is known once the sinks can be used.
        let sizes = self.document_sizes();
        let complete = sizes.iter().all(|size| self.surveyed_sizes.contains(size));
        if let Some((known, survey)) = &self.survey
            && complete
        {
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
        let first =
            (self.survey.is_none() || !complete) && self.survey_not_before <= Instant::now();
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
        self.begin_survey(sizes);
        None
    }

    fn document_sizes(&self) -> Vec<Option<NonZeroU64>> {
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
        sizes
    }

    fn begin_survey(&mut self, sizes: Vec<Option<NonZeroU64>>) {
        self.surveyed_sizes.clone_from(&sizes);
        let (store, order) = (self.store.clone(), Arc::clone(&self.order));
        let (selection, surveyor) = (self.selection, self.surveyor);
        self.surveying = true;
        self.under_way.spawn_blocking(move || {
            let begun = Instant::now();
            let survey = catch_unwind(AssertUnwindSafe(|| {
                surveyor(&store, &order.scope, order.dedupe, &sizes)
            }));
            Ended::Survey(selection, survey.ok().map(Box::new), begun.elapsed())
        });
    }

    fn tell(&mut self, waiting: Option<Vec<kollect_collect::plan::TargetKey>>, open: bool) {
        let (rows_version, now) = (self.rows_version(), self.moment());
        // Always the same time for the same moment.
        let begun_at = self.begun_at;
        let wall = |moment: Moment| {
            let at = begun_at.saturating_add(moment.saturating_sub(PAST));
            at.unwrap_or(Timestamp::MAX)
        };
        let report = Report {
            waiting_for: waiting,
            survey: self.survey.as_ref().map(|(_, survey)| survey.clone()),
            lanes: self
                .lanes
                .iter_mut()
                .map(|lane| lane.report(rows_version, open, now, wall))
                .collect(),
            retiring: self.retiring.values().map(Retiring::report).collect(),
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

fn stopped() -> NoTurn {
    NoTurn::Refused {
        error: SinkError::transient("the exports of this inventory stop"),
        wait: Duration::ZERO,
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
