//! The operator as a whole: collection on every replica, everything that writes on the leader.
//!
//! Replicas that do not lead collect as well. That costs reading, and makes a take-over a matter of
//! a moment: the rows are there already.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kollect_api::rules;
use kollect_collect::store::Store;
use kollect_export::{Calls, Permits, Pool};
use kollect_sinks::{backend::Environment, dial::Dialer, git};
use kube::Client;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    configuration::Configuration,
    connection_tests::ConnectionTests,
    control_loop,
    controller::{self, Controller},
    inventories::{self, Inventories},
    lease::Leadership,
    listeners::{ListenerError, ListenerSettings},
    metrics::Observed,
    probes::{self, Prober, Probes},
    secrets::Secrets,
    sink_objects::SinkObjects,
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
    /// Probes and metrics.
    pub listeners: ListenerSettings,
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
            listeners: ListenerSettings::default(),
        }
    }
}

/// The operator.
pub struct Operator {
    leadership: watch::Receiver<Leadership>,
    client: Client,
    settings: OperatorSettings,
    controller: Controller,
    sinks: Arc<SinkObjects>,
    calls: Arc<Calls>,
}

impl Operator {
    /// Begins to watch the configuration. Writes while this replica leads.
    pub fn new(
        client: &Client,
        settings: OperatorSettings,
        leadership: watch::Receiver<Leadership>,
        stop: &CancellationToken,
    ) -> Self {
        let controller =
            Controller::new(client, settings.collection.clone(), stop).led_by(leadership.clone());
        let configuration = controller.configuration();
        let secrets = Secrets::new(
            Arc::clone(controller.server()),
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
            client: client.clone(),
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

    /// Answers probes and serves metrics until `stop`.
    pub async fn listen(&self, stop: &CancellationToken) -> Result<JoinSet<()>, ListenerError> {
        let listeners = &self.settings.listeners;
        listeners.open(&self.client, self.observed(), stop).await
    }

    /// Runs until `stop`. When it returns, nothing is under way.
    pub async fn run(self, stop: &CancellationToken) {
        let work = Work {
            client: self.client,
            configuration: Arc::clone(self.controller.configuration()),
            sinks: self.sinks,
            store: self.controller.store().clone(),
            calls: self.calls,
            observed: Arc::clone(self.controller.observed()),
            write_slots: self.controller.write_slots().clone(),
            settings: self.settings.inventories,
        };
        // Rows must stay readable until the last delivery has ended.
        let collecting = CancellationToken::new();
        let exporting = async {
            work.lead(self.leadership, stop).await;
            collecting.cancel();
        };
        tokio::join!(exporting, self.controller.run(&collecting));
    }
}

/// What only the leader does.
struct Work {
    client: Client,
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
    async fn lead(&self, mut leadership: watch::Receiver<Leadership>, stop: &CancellationToken) {
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
            let working = self.work(&term);
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

    async fn work(&self, term: &CancellationToken) {
        let inventories = Inventories::new(
            self.client.clone(),
            Arc::clone(&self.configuration),
            Arc::clone(&self.sinks),
            self.store.clone(),
            Arc::clone(&self.calls),
            Arc::clone(&self.observed.exports),
            self.write_slots.clone(),
            self.settings.clone(),
        );
        let prober = Arc::new(Prober::new(
            Arc::clone(&self.calls),
            Arc::clone(&self.observed.exports) as _,
        ));
        let probes = Probes::new(
            self.client.clone(),
            Arc::clone(&self.sinks),
            Arc::clone(&prober),
            self.write_slots.clone(),
        );
        let tests = ConnectionTests::new(
            self.client.clone(),
            Arc::clone(&self.configuration),
            Arc::clone(&self.sinks),
            prober,
            self.write_slots.clone(),
        );
        let configuration = &self.configuration;
        tokio::join!(
            control_loop::run(inventories, configuration, term),
            control_loop::run(probes, configuration, term),
            control_loop::run(tests, configuration, term),
        );
    }
}
