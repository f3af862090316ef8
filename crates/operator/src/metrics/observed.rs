//! What a scrape or a probe may look at.
//!
//! The control loop owns the collection. After each pass it publishes what others need; what is
//! published goes on counting by itself, so a scrape between two passes is up to date.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use kollect_collect::{
    engine::{Engine, Tally, Traffic, WatchState},
    plan::Plan,
    store::Store,
};
use kollect_watch::{Resource, access::Reviewer};

use super::{
    admissions::Admissions, conditions::Told, exports::Exports, passes::Passes,
    reconciles::Reconciles,
};
use crate::keeper::Keeper;

/// Shared between the control loop, scrapes and probes.
pub struct Observed {
    /// The rows.
    pub store: Store,
    /// What the collection counts.
    pub tally: Arc<Tally>,
    /// Access reviews of our own rights.
    pub reviewer: Arc<Reviewer>,
    /// What the control loop counts.
    pub passes: Passes,
    /// What exports and probes count.
    pub exports: Arc<Exports>,
    /// What the other control loops count.
    pub reconciles: Reconciles,
    /// What webhooks count, and whether they can be asked.
    pub admissions: Admissions,
    /// Who looks after the tasks.
    pub keeper: Keeper,
    scene: RwLock<Arc<Scene>>,
    teller: OnceLock<Teller>,
}

/// Says what our objects say of themselves.
type Teller = Box<dyn Fn() -> Told + Send + Sync>;

/// The collection after a pass.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// How far the operator is.
    pub readiness: Readiness,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// The watches.
    pub watches: Vec<WatchState>,
    /// What they carry.
    pub traffic: Vec<(Arc<Resource>, Traffic)>,
}

/// How far the operator is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// The configuration is not known yet, for this reason.
    Listing(String),
    /// Webhooks cannot be served yet, for this reason.
    Webhooks(String),
    /// A plan made from the whole configuration is in force.
    Ready,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::Listing("the first listings".to_owned())
    }
}

impl Readiness {
    /// Why the operator is not ready, if it is not.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Listing(what) => Some(format!("the configuration is not listed yet: {what}")),
            Self::Webhooks(what) => Some(format!("admission webhooks are not served yet: {what}")),
            Self::Ready => None,
        }
    }
}

impl Observed {
    /// Nothing has happened yet.
    pub fn new(store: Store, tally: Arc<Tally>, reviewer: Arc<Reviewer>) -> Self {
        let keeper = Keeper::default();
        Self {
            store,
            tally,
            reviewer,
            passes: Passes::default(),
            exports: Arc::new(Exports::kept_by(keeper.clone())),
            reconciles: Reconciles::default(),
            admissions: Admissions::default(),
            keeper,
            scene: RwLock::default(),
            teller: OnceLock::new(),
        }
    }

    /// From now on `teller` is asked what our objects say of themselves. Only the first one is.
    pub fn told_by(&self, teller: impl Fn() -> Told + Send + Sync + 'static) {
        let _ = self.teller.set(Box::new(teller));
    }

    /// What our objects say of themselves, if there is somebody to ask.
    pub fn told(&self) -> Option<Told> {
        self.teller.get().map(|teller| teller())
    }

    /// What was published last.
    pub fn scene(&self) -> Arc<Scene> {
        Arc::clone(&self.scene.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far the operator is, webhooks included.
    pub fn readiness(&self) -> Readiness {
        let readiness = self.scene().readiness.clone();
        match (readiness, self.admissions.missing()) {
            (Readiness::Ready, Some(what)) => Readiness::Webhooks(what),
            (readiness, _) => readiness,
        }
    }

    /// Publishes the collection as it is now.
    pub fn publish(&self, scene: Scene) {
        *self.scene.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(scene);
    }

    /// Publishes what the configuration still waits for.
    pub fn waiting_for(&self, what: String) {
        self.publish(Scene {
            readiness: Readiness::Listing(what),
            ..Scene::default()
        });
    }

    /// Publishes the collection after a pass.
    pub fn passed(&self, engine: &Engine, plan: &Arc<Plan>) {
        self.publish(Scene {
            readiness: Readiness::Ready,
            plan: Arc::clone(plan),
            watches: engine.watches().collect(),
            traffic: engine.traffic(),
        });
    }
}
