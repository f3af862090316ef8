//! The operator as a whole: collection on every replica, everything that writes on the leader.
//!
//! Replicas that do not lead collect as well. That costs reading, and makes a take-over a matter of
//! a moment: the rows are there already.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kollect_api::rules;
use kollect_collect::store::Store;
use kollect_export::{Calls, Permits, Pool};
use kollect_sinks::{
    backend::Environment,
    dial::Dialer,
    git,
    identity::workload::{Surroundings, Workload},
};
use kube::Client;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    configuration::Configuration,
    connection_tests::ConnectionTests,
    control_loop::{self, ControlLoop},
    controller::{self, Controller},
    inventories::{self, Inventories},
    keeper::Keeper,
    lease::Leadership,
    listeners::{ListenerError, ListenerSettings},
    metrics::Observed,
    probes::{self, Prober, Probes},
    secrets::Secrets,
    sink_objects::SinkObjects,
    webhooks::{self, WebhookSettings},
    workplaces::Workplaces,
    write_queue::WriteSlots,
};

/// Settings of the operator.
#[derive(Debug, Clone)]
pub struct OperatorSettings {
    /// Collection.
    pub collection: controller::CollectionSettings,
    /// What is valid and reachable.
    pub rules: rules::Settings,
    /// Exports.
    pub inventories: inventories::ExportSettings,
    /// How long one delivery may take.
    pub export_deadline: Duration,
    /// How many deliveries there may be at a time.
    pub parallel_exports: usize,
    /// Where sinks may keep files between deliveries.
    pub work_dir: PathBuf,
    /// Whether sinks without credentials may use what this process is to its cloud.
    pub workload_identity: bool,
    /// Probes and metrics.
    pub listeners: ListenerSettings,
    /// Admission.
    pub webhooks: WebhookSettings,
}

impl Default for OperatorSettings {
    fn default() -> Self {
        Self {
            collection: controller::CollectionSettings::default(),
            rules: rules::Settings::default(),
            inventories: inventories::ExportSettings::default(),
            export_deadline: Duration::from_mins(2),
            parallel_exports: 16,
            work_dir: git::default_root(|name| std::env::var_os(name)),
            workload_identity: false,
            listeners: ListenerSettings::default(),
            webhooks: WebhookSettings::default(),
        }
    }
}

/// Who this process is to its cloud, where sinks may use it.
fn workload(settings: &OperatorSettings) -> Option<Arc<Workload>> {
    if !settings.workload_identity {
        return None;
    }
    let surroundings = Surroundings::of_process(settings.rules.addresses.clone());
    match Workload::new(surroundings) {
        Ok(workload) => Some(Arc::new(workload)),
        Err(error) => {
            tracing::error!(%error, "the operator's own identity cannot be used by sinks");
            None
        }
    }
}

/// The operator.
pub struct Operator {
    leadership: watch::Receiver<Leadership>,
    places: Workplaces,
    settings: OperatorSettings,
    controller: Controller,
    sinks: Arc<SinkObjects>,
    calls: Arc<Calls>,
}

impl Operator {
    /// Begins to watch the configuration. Writes while this replica leads.
    pub fn new(
        places: &Workplaces,
        settings: OperatorSettings,
        leadership: watch::Receiver<Leadership>,
        stop: &CancellationToken,
    ) -> Self {
        let controller =
            Controller::at(places, settings.collection.clone(), stop).led_by(leadership.clone());
        // Secrets belong to the configuration, and their watches beside its own.
        let _entered = places.control.runtime.enter();
        let configuration = controller.configuration();
        let secrets = Secrets::new(
            Arc::clone(controller.server()),
            places.control.client.clone(),
            Arc::clone(&configuration.changed),
            stop,
        );
        let sinks = Arc::new(SinkObjects::new(
            Arc::clone(configuration),
            secrets,
            settings.rules.clone(),
        ));
        let environment = Environment {
            dialer: Dialer::new(settings.rules.addresses.clone()),
            work_dir: settings.work_dir.clone(),
            local_repositories: settings.rules.local_repositories,
            census: Arc::default(),
            local_files: false,
            workload: workload(&settings),
        };
        let calls = Arc::new(Calls {
            pool: Pool::new(environment),
            deadline: settings.export_deadline,
            permits: Permits::new(settings.parallel_exports),
            probes: Permits::new(probes::PARALLEL),
            observer: Arc::clone(&controller.observed().exports) as _,
            may_write: {
                let leadership = leadership.clone();
                Box::new(move || leadership.borrow().leads())
            },
        });
        Self {
            leadership,
            places: places.clone(),
            settings,
            controller,
            sinks,
            calls,
        }
    }

    /// What probes and metrics look at.
    pub fn observed(&self) -> &Arc<Observed> {
        self.controller.observed()
    }

    /// The rows.
    pub fn store(&self) -> &Store {
        self.controller.store()
    }

    /// Answers probes and serves metrics until `stop`, in the runtime that calls this. Callers are
    /// reviewed through `client`, which belongs there. Webhooks are served in their own.
    pub async fn listen(
        &self,
        client: &Client,
        stop: &CancellationToken,
    ) -> Result<JoinSet<()>, ListenerError> {
        let listeners = &self.settings.listeners;
        let mut tasks = listeners.open(client, self.observed(), stop).await?;
        let around = webhooks::Surroundings {
            configuration: Arc::clone(self.controller.configuration()),
            observed: Arc::clone(self.observed()),
            rules: self.settings.rules.clone(),
            plan: self.settings.collection.plan.clone(),
            place: self.places.admission.clone(),
        };
        let webhooks = &self.settings.webhooks;
        webhooks.open(around, stop, &mut tasks).await?;
        Ok(tasks)
    }

    /// Runs until `stop`. When it returns, nothing is under way.
    ///
    /// An error means that the control loop of the collection ended by itself. Everything else
    /// stands on it, so the process had better begin anew.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), CollectionEnded> {
        let keeper = self.observed().keeper.clone();
        let control = self.places.control.runtime.clone();
        let work = Arc::new(Work {
            client: self.places.control.client.clone(),
            places: self.places,
            configuration: Arc::clone(self.controller.configuration()),
            sinks: self.sinks,
            store: self.controller.store().clone(),
            calls: self.calls,
            observed: Arc::clone(self.controller.observed()),
            write_slots: self.controller.write_slots().clone(),
            settings: self.settings.inventories,
        });
        // Rows must stay readable until the last delivery has ended.
        let collecting = CancellationToken::new();
        let mut collection = {
            let (keeper, collecting) = (keeper.clone(), collecting.clone());
            let controller = self.controller;
            control.spawn(async move {
                let progress = controller.progress();
                let running = controller.run(&collecting);
                keeper
                    .pulsing_with(controller::TASK, progress, running)
                    .await;
            })
        };
        let leading = control.spawn(Arc::clone(&work).lead(self.leadership, stop.clone()));
        tokio::pin!(leading);
        let early = tokio::select! {
            _ = &mut leading => false,
            _ = &mut collection => true,
        };
        if early {
            stop.cancel();
            let _ = leading.await;
            return Err(CollectionEnded);
        }
        collecting.cancel();
        let _ = collection.await;
        Ok(())
    }
}

/// The control loop of the collection ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the control loop of the collection ended unexpectedly; see the log above")]
pub struct CollectionEnded;

/// What only the leader does.
struct Work {
    client: Client,
    places: Workplaces,
    configuration: Arc<Configuration>,
    sinks: Arc<SinkObjects>,
    store: Store,
    calls: Arc<Calls>,
    observed: Arc<Observed>,
    write_slots: WriteSlots,
    settings: inventories::ExportSettings,
}

impl Work {
    /// Works whenever this replica leads.
    async fn lead(
        self: Arc<Self>,
        mut leadership: watch::Receiver<Leadership>,
        stop: CancellationToken,
    ) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                led = leadership.wait_for(Leadership::leads) => if led.is_err() { return },
            }
            let term = stop.child_token();
            let lost = async {
                // Whoever decided is gone: that is no leadership either.
                let _ = leadership.wait_for(|now| !now.leads()).await;
                term.cancel();
            };
            let working = Arc::clone(&self).work(term.clone());
            tokio::pin!(working);
            tokio::select! {
                () = &mut working => {}
                () = lost => {
                    tracing::warn!("no longer the leader; exports stop");
                    working.await;
                }
            }
        }
    }

    /// Runs the loops of a leader until the end of its term, each as a task of its own: one that
    /// is busy holds up no other.
    async fn work(self: Arc<Self>, term: CancellationToken) {
        let prober = {
            let _entered = self.places.tenants.runtime.enter();
            let observer = Arc::clone(&self.observed.exports) as _;
            Arc::new(Prober::new(Arc::clone(&self.calls), observer))
        };
        let mut loops = JoinSet::new();
        self.spawn(&mut loops, "inventories", &term, |work| {
            // Exporters belong where tenants' work runs.
            let _entered = work.places.tenants.runtime.enter();
            Inventories::new(
                work.client.clone(),
                Arc::clone(&work.configuration),
                Arc::clone(&work.sinks),
                work.store.clone(),
                Arc::clone(&work.calls),
                Arc::clone(&work.observed.exports),
                work.write_slots.clone(),
                &work.observed.keeper,
                work.settings.clone(),
            )
        });
        self.spawn(&mut loops, "probes", &term, {
            let prober = Arc::clone(&prober);
            move |work| {
                Probes::new(
                    work.client.clone(),
                    Arc::clone(&work.sinks),
                    Arc::clone(&prober),
                    work.write_slots.clone(),
                    &work.observed.keeper,
                )
            }
        });
        self.spawn(&mut loops, "connection-tests", &term, move |work| {
            ConnectionTests::new(
                work.client.clone(),
                Arc::clone(&work.configuration),
                Arc::clone(&work.sinks),
                Arc::clone(&prober),
                work.write_slots.clone(),
                &work.observed.keeper,
            )
        });
        while loops.join_next().await.is_some() {}
    }

    /// Keeps a loop running until the end of a term.
    fn spawn<L>(
        self: &Arc<Self>,
        loops: &mut JoinSet<()>,
        task: &'static str,
        term: &CancellationToken,
        make: impl Fn(&Self) -> L + Send + Sync + 'static,
    ) where
        L: ControlLoop + Send + 'static,
        L::Ended: Send,
    {
        let (work, term) = (Arc::clone(self), term.clone());
        let kept = async move {
            let keeper: &Keeper = &work.observed.keeper;
            let make = || {
                let control = make(&work);
                control_loop::run(task, control, &work.configuration, &work.observed, &term)
            };
            keeper.keep(task, &term, make).await;
        };
        loops.spawn_on(kept, &self.places.control.runtime);
    }
}
