//! The control loop: whenever something changes, plan again, follow the plan, tell users.
//!
//! There is one loop for all targets. The plan is a pure function of everything that is known, so
//! there is nothing to gain from looking at objects one by one, and nothing can be forgotten when
//! something that a target depends on changes: every change leads through the same pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use kollect_api::{GroupVersionKind, scope::Quota};
use kollect_collect::{
    engine::Engine,
    extract,
    plan::{self, KindFact, Plan, TargetKey, Watch, World},
    store::{HeldTarget, Store},
};
use kollect_watch::{
    ApiServer, Backoff, InterruptionClass, Resource,
    access::{Permission, Reviewer},
    discovery::{Discovery, group_of_crd},
};
use kube::Client;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    configuration::Configuration,
    events::Events,
    keeper::EndedHow,
    lease::Leadership,
    metrics::{Observed, conditions},
    mirrors::Mirrors,
    questions::{Answered, Pace, Questions, Unanswered},
    quotas::Quotas,
    targets::Targets,
    workplaces::Workplaces,
    write_queue::WriteSlots,
};

/// How long to gather changes before a pass. A burst of changes is one pass, and steady change
/// cannot put a pass off for longer than this. Nobody waits for it who has nothing to gather: when
/// the last open question is answered, or a watch has news after a quiet time, the pass begins at
/// once.
const GATHER: Duration = Duration::from_millis(50);
/// How often something is asked again that was refused or not there, beside the events of CRDs.
const ASK_AGAIN: Backoff = Backoff {
    first: Duration::from_secs(5),
    cap: Duration::from_mins(1),
};
/// What this loop is called where tasks are counted.
pub const TASK: &str = "collection";
/// How often people who wait are told what for.
const REPORT: Duration = Duration::from_secs(10);
/// How often it is looked whether the wait is over.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a watch may fail to list before nobody waits for its targets any more.
const FAULTY: Duration = Duration::from_secs(15);

/// CollectionSettings of the operator that concern collection.
#[derive(Debug, Clone)]
pub struct CollectionSettings {
    /// What steers the plan.
    pub plan: plan::Settings,
    /// What steers extraction.
    pub extraction: extract::Settings,
    /// How much namespaces may use that no scope says anything else about.
    pub quota: Quota,
    /// Where Git mirrors are, whose size counts.
    pub mirrors: Option<PathBuf>,
    /// How often a count that alone has changed is written.
    pub count_resync: Duration,
    /// How often access is reviewed again: a right that was granted or withdrawn shows within
    /// this time.
    pub review_interval: Duration,
}

impl Default for CollectionSettings {
    fn default() -> Self {
        Self {
            plan: plan::Settings::default(),
            extraction: extract::Settings::default(),
            quota: Quota::default(),
            mirrors: None,
            count_resync: Duration::from_mins(1),
            review_interval: Duration::from_secs(30),
        }
    }
}

/// What of targets is not known, or not any more.
#[derive(Debug, Default, PartialEq, Eq)]
struct Unread {
    /// The targets that are at fault themselves, and why.
    faulty: BTreeMap<TargetKey, String>,
    /// Those of which something may not be read, and what.
    forbidden: BTreeMap<TargetKey, String>,
    /// Those that nobody waits for.
    held: Vec<HeldTarget>,
}

/// The control loop.
pub struct Controller {
    /// The way to the API server for watches of the configuration.
    server: Arc<ApiServer>,
    configuration: Arc<Configuration>,
    /// Hears of every change of the configuration.
    configured: Arc<Notify>,
    engine: Engine,
    discovery: Arc<Discovery>,
    reviewer: Arc<Reviewer>,
    questions: Questions,
    answers: mpsc::UnboundedReceiver<Answered>,
    write_slots: WriteSlots,
    targets: Targets,
    leadership: watch::Receiver<Leadership>,
    world: World,
    definitions: BTreeMap<String, String>,
    news: Arc<Notify>,
    observed: Arc<Observed>,
    passed_at: Instant,
    review_at: Instant,
    review_interval: Duration,
    /// When to ask again about kinds that were not there, or could not be asked about.
    kind_pace: Pace<GroupVersionKind>,
    /// When to ask again what the API server thinks of resources that it refuses.
    refusal_pace: Pace<Arc<Resource>>,
    /// The watches that have not listed and fail, and since when.
    failing: BTreeMap<Watch, Instant>,
    /// What of targets is not known, as inventories were told last.
    unread: Unread,
    /// What people were told last about a question that was not answered.
    unanswered: Unanswered,
    /// What namespaces may use.
    quotas: Quotas,
}

impl Controller {
    /// Begins to watch the configuration; everything runs in the runtime that calls this.
    pub fn new(client: &Client, settings: CollectionSettings, stop: &CancellationToken) -> Self {
        Self::at(&Workplaces::here(client), settings, stop)
    }

    /// Begins to watch the configuration. What tenants ask for runs where it holds up nobody else.
    pub fn at(places: &Workplaces, settings: CollectionSettings, stop: &CancellationToken) -> Self {
        let news = Arc::new(Notify::new());
        let engine = {
            let _entered = places.tenants.runtime.enter();
            Engine::new(places.tenants.client.clone(), Arc::clone(&news), stop)
        };
        let _entered = places.control.runtime.enter();
        let client = &places.control.client;
        let server = ApiServer::new(client.clone());
        let configuration = Arc::new(Configuration::watch(
            &server,
            client,
            &settings.plan.watch_namespaces,
            settings.plan.tenant_mode,
            stop,
        ));
        let discovery = Arc::new(Discovery::new(client.clone()));
        let reviewer = Arc::new(Reviewer::new(client.clone()));
        let observed = Arc::new(Observed::new(
            engine.store().clone(),
            Arc::clone(engine.tally()),
            Arc::clone(&reviewer),
        ));
        for server in [engine.server(), &server] {
            let keeper = observed.keeper.clone();
            server.kept_by(move |subject, wait| {
                keeper.note("watch", &subject.resource.plural, EndedHow::Panicked, wait);
            });
        }
        let (questions, answers) = Questions::new(
            Arc::clone(&discovery),
            Arc::clone(&reviewer),
            observed.keeper.clone(),
        );
        let write_slots = WriteSlots::new(Events::start(client.clone(), &observed.keeper, stop));
        observed.told_by({
            let (configuration, slots) = (Arc::clone(&configuration), write_slots.clone());
            move || conditions::told(&configuration, slots.waiting())
        });
        let now = Instant::now();
        Self {
            server,
            configured: configuration.changed.subscribe(),
            configuration,
            engine,
            discovery,
            reviewer,
            questions,
            answers,
            targets: Targets::new(
                client.clone(),
                write_slots.clone(),
                settings.count_resync,
                &observed.keeper,
            ),
            write_slots,
            // Without rivals, until somebody says otherwise.
            leadership: watch::channel(Leadership::sole()).1,
            world: World {
                settings: settings.plan,
                extraction: settings.extraction,
                ..World::default()
            },
            definitions: BTreeMap::new(),
            news,
            observed,
            passed_at: now,
            review_at: now + settings.review_interval,
            review_interval: settings.review_interval,
            kind_pace: Pace::new(ASK_AGAIN),
            refusal_pace: Pace::new(ASK_AGAIN),
            failing: BTreeMap::new(),
            unread: Unread::default(),
            unanswered: Unanswered::default(),
            quotas: Quotas::new(
                settings.quota,
                settings.mirrors.map(Mirrors::new).unwrap_or_default(),
            ),
        }
    }

    /// Writes only while this replica leads.
    #[must_use]
    pub fn led_by(mut self, leadership: watch::Receiver<Leadership>) -> Self {
        self.leadership = leadership;
        self
    }

    /// The rows.
    pub fn store(&self) -> &Store {
        self.engine.store()
    }

    /// What users configured.
    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.configuration
    }

    /// The way to the API server that watches of the configuration share.
    pub fn server(&self) -> &Arc<ApiServer> {
        &self.server
    }

    /// The slots that all writes of this process share.
    pub fn write_slots(&self) -> &WriteSlots {
        &self.write_slots
    }

    /// Grows while a plan is being made: a pass that takes long still moves.
    pub fn progress(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.world.progress)
    }

    /// What probes and metrics look at.
    pub fn observed(&self) -> &Arc<Observed> {
        &self.observed
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: &CancellationToken) {
        let keeper = self.observed.keeper.clone();
        let mut failures = 0;
        if self.listed(stop).await {
            while !stop.is_cancelled() {
                match keeper.contain(TASK, &mut failures, || self.pass()) {
                    Ok(wake) => self.wait(stop, wake).await,
                    // A pass looks at everything, so the next one makes up for it.
                    Err(wait) => tokio::select! {
                        () = stop.cancelled() => {}
                        () = sleep(wait) => {}
                    },
                }
            }
        }
        self.engine.stop().await;
    }

    /// Waits until the configuration is known. A plan made before would take what is not listed
    /// yet for deleted.
    async fn listed(&mut self, stop: &CancellationToken) -> bool {
        let mut report = Instant::now() + REPORT;
        while !self.configuration.can_plan() {
            if let Some(what) = self.configuration.waiting_for() {
                self.observed.waiting_for(what);
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = self.configured.notified() => {}
                // That something cannot be listed becomes certain with time alone.
                () = sleep_until(report.min(Instant::now() + LOOK_AGAIN)) => {}
            }
            if report <= Instant::now() {
                let what = self.configuration.waiting_for();
                let what = what.as_deref().unwrap_or("the first listings");
                tracing::warn!("still waiting for {what}");
                report = Instant::now() + REPORT;
            }
        }
        true
    }

    /// One pass: plan, follow, ask, tell. Returns when to look again, if not before.
    fn pass(&mut self) -> Instant {
        let begun = self.observed.passes.begin();
        // Before it is read: what becomes known in between counts with the next pass.
        let unread_namespaces = self.configuration.targets.unknown_namespaces();
        self.configuration.fill(&mut self.world);
        self.note_definitions();
        let over_quota =
            self.quotas
                .judge(&self.configuration, self.engine.store(), Instant::now());
        self.configuration.note_over_quota(&over_quota.sinks);
        self.world.over_quota = over_quota.targets;
        let plan = self.engine.follow(&self.world);
        let unplanned = unread_namespaces.into_keys().collect();
        self.engine.store().unplanned(unplanned);
        let faulty = self.find_faulty(&plan);
        self.engine.store().hold(&faulty);
        let forbidden = plan.targets().filter_map(|target| {
            let message = target.forbidden_message()?;
            Some((target.key.clone(), message))
        });
        let unread = Unread {
            faulty,
            forbidden: forbidden.collect(),
            held: self.engine.store().all_held(),
        };
        if unread != self.unread {
            // Inventories say which targets are held or out of date, and why.
            self.unread = unread;
            self.configuration.changed.notify();
        }
        self.observed.passed(&self.engine, &plan);
        self.ask(&plan);
        // A replica that does not lead collects and keeps quiet.
        let leads = self.leadership.borrow_and_update().leads();
        let targets = if leads {
            self.targets
                .update(&self.configuration, &self.engine, &plan)
        } else {
            self.targets.stand_down();
            None
        };
        self.observed.passes.end(begun, &plan);
        self.passed_at = Instant::now();
        let failing = self.failing.values().map(|since| *since + FAULTY);
        let timers = [
            Some(self.review_at),
            self.kind_pace.next(),
            self.refusal_pace.next(),
        ];
        let timers = timers.into_iter().flatten();
        let timers = timers.chain(failing.filter(|at| *at > self.passed_at));
        timers.chain(targets).min().unwrap_or(self.review_at)
    }

    /// The targets that are at fault themselves, and why: nobody else waits for them.
    fn find_faulty(&mut self, plan: &Plan) -> BTreeMap<TargetKey, String> {
        let degraded = plan.targets().filter_map(|target| {
            let degradation = target.degradation()?;
            Some((target.key.clone(), degradation.message.clone()))
        });
        let mut faulty: BTreeMap<TargetKey, String> = degraded.collect();
        let now = Instant::now();
        let mut failing = BTreeMap::new();
        for state in self.engine.watches().filter(|state| !state.listed) {
            let Some(interruption) = state.interruption else {
                continue;
            };
            let since = self.failing.get(&state.watch).copied().unwrap_or(now);
            failing.insert(state.watch.clone(), since);
            if now.duration_since(since) < FAULTY {
                continue;
            }
            let resource = plan.resource(&state.watch.resource);
            for target in resource
                .iter()
                .flat_map(|one| one.targets_in(&state.watch.scope))
            {
                let why = format!("list {}: {}", state.watch.resource, interruption.message);
                faulty.entry(target.key.clone()).or_insert(why);
            }
        }
        self.failing = failing;
        faulty
    }

    /// Waits until there is a reason for another pass, and for what else may come with it.
    async fn wait(&mut self, stop: &CancellationToken, wake: Instant) {
        let mut until = tokio::select! {
            () = stop.cancelled() => return,
            () = self.configured.notified() => Instant::now() + GATHER,
            () = self.news.notified() => self.passed_at + GATHER,
            () = self.targets.written() => self.passed_at + GATHER,
            Ok(()) = self.leadership.changed() => Instant::now(),
            Some(answer) = self.answers.recv() => self.learn(answer),
            () = self.quotas.changed(&self.configuration, self.engine.store()),
                if self.quotas.in_force() => Instant::now(),
            () = sleep_until(wake) => Instant::now(),
        };
        while Instant::now() < until {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(answer) = self.answers.recv() => until = until.min(self.learn(answer)),
                () = sleep_until(until) => {}
            }
        }
        while let Ok(answer) = self.answers.try_recv() {
            self.learn(answer);
        }
        let failures = self.targets.take_failures();
        self.observed.passes.writes_failed(&failures);
        self.engine.store().take_signals();
        self.engine.tidy();
    }

    /// Takes an answer. Returns until when others may be waited for.
    fn learn(&mut self, answer: Answered) -> Instant {
        self.questions.answered(&answer);
        match answer {
            Answered::Kind(gvk, fact) => {
                let why = match &fact {
                    KindFact::Failed(why) => Some(&**why),
                    _ => None,
                };
                self.unanswered.note(&format!("look up kind {gvk}"), why);
                // An answer that could not be had does not make a known kind unknown.
                let known = matches!(self.world.kinds.get(&gvk), Some(KindFact::Served(_)));
                if !(known && matches!(fact, KindFact::Failed(_))) {
                    if let KindFact::Served(resource) = &fact {
                        self.engine.retry(resource);
                    }
                    self.world.kinds.set(gvk, fact);
                }
            }
            Answered::Access(review, permission) => {
                let why = match &permission {
                    Permission::Failed(why) => Some(&**why),
                    _ => None,
                };
                let question = format!("access review of {}", review.resource);
                self.unanswered.note(&question, why);
                self.world.access.set(review, permission);
            }
        }
        let now = Instant::now();
        if self.questions.is_idle() {
            now
        } else {
            now + GATHER
        }
    }

    /// A CustomResourceDefinition that came, went or changed makes answers about its group old.
    fn note_definitions(&mut self) {
        let now = self.configuration.definitions();
        let changed: Vec<String> = now
            .iter()
            .filter(|(name, version)| self.definitions.get(*name) != Some(version))
            .map(|(name, _)| name)
            .chain(
                self.definitions
                    .keys()
                    .filter(|name| !now.contains_key(*name)),
            )
            .filter_map(|name| group_of_crd(name))
            .map(str::to_owned)
            .collect();
        for group in changed {
            self.discovery.group_changed(&group);
            self.rediscover(|gvk| gvk.group == group);
        }
        self.definitions = now;
    }

    /// Asks what the plan does not know, and what may have changed.
    fn ask(&mut self, plan: &Plan) {
        for gvk in &plan.unknown_kinds {
            if self.world.kinds.get(gvk).is_none() {
                self.questions.ask_kind(gvk);
            }
        }
        let now = Instant::now();
        let all = now >= self.review_at;
        if all {
            self.review_at = now + self.review_interval;
            self.reviewer.forget();
            self.world
                .access
                .retain(|review| plan.reviews.contains(review));
        }
        let refused = self.engine.refused();
        let all_refused: BTreeSet<&Arc<Resource>> = refused.values().flatten().collect();
        self.refusal_pace
            .retain(now, |resource| all_refused.contains(resource));
        if let Some(forbidden) = refused.get(&InterruptionClass::Forbidden) {
            // What was refused was allowed by what is known: that is outdated, or the API server
            // says one thing and does another. Either way asking without a pause helps nobody.
            let due: BTreeSet<&Arc<Resource>> = forbidden
                .iter()
                .filter(|resource| self.refusal_pace.is_due(resource, now))
                .collect();
            if !due.is_empty() {
                self.reviewer.forget();
            }
            for review in plan.reviews.iter().filter(|r| due.contains(&r.resource)) {
                self.questions.ask_access(review);
            }
        }
        for review in &plan.reviews {
            if all || self.world.access.get(review).is_none() {
                self.questions.ask_access(review);
            }
        }
        if let Some(missing) = refused.get(&InterruptionClass::NotInstalled) {
            let due: Vec<&Arc<Resource>> = missing
                .iter()
                .filter(|resource| self.refusal_pace.is_due(resource, now))
                .collect();
            for resource in &due {
                self.discovery.group_changed(&resource.group);
            }
            let groups: Vec<String> = due.iter().map(|r| r.group.clone()).collect();
            self.rediscover(|gvk| groups.contains(&gvk.group));
        }
        self.kind_pace
            .retain(now, |gvk| plan.unsettled_kinds.contains(gvk));
        for gvk in &plan.unsettled_kinds {
            if self.kind_pace.is_due(gvk, now) {
                self.discovery.group_changed(group_in_paths(&gvk.group));
                self.questions.ask_kind(gvk);
            }
        }
    }

    /// Asks again about the kinds of all profiles for which this holds.
    fn rediscover(&mut self, holds: impl Fn(&GroupVersionKind) -> bool) {
        for profile in self.configuration.profiles.all() {
            let gvk = &profile.spec.target_gvk;
            if holds(gvk) && self.world.kinds.get(gvk).is_some() {
                self.questions.ask_kind(gvk);
            }
        }
    }
}

/// A group as discovery knows it: people write the core group with a name.
fn group_in_paths(group: &str) -> &str {
    if group == "core" { "" } else { group }
}
