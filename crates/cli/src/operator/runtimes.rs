//! The threads of the operator.
//!
//! The main thread runs what must never stop: the lease, the probes, the signals. Two runtimes
//! beside it, or three with webhooks, run everything else, see [`kollect_operator::workplaces`].

use anyhow::{Context as _, Result};
use kollect_operator::workplaces::{Workplace, Workplaces};
use kollect_watch::connection;
use kube::{Client, Config};
use tokio::runtime::{Builder, Runtime};

/// Two threads each: one task that computes for long leaves the other one to the rest.
const THREADS: usize = 2;

/// The runtimes beside the process's own.
pub(super) struct Runtimes {
    control: Runtime,
    tenants: Runtime,
    /// Only where webhooks are served.
    admission: Option<Runtime>,
}

impl Runtimes {
    /// Starts them; webhooks get one of their own.
    pub(super) fn start(webhooks: bool) -> Result<Self> {
        let runtime = |name: &str| {
            Builder::new_multi_thread()
                .worker_threads(THREADS)
                .thread_name(name)
                .enable_all()
                .build()
                .context("cannot start threads")
        };
        Ok(Self {
            control: runtime("control")?,
            tenants: runtime("tenants")?,
            admission: webhooks.then(|| runtime("admission")).transpose()?,
        })
    }

    /// Where work runs, each place with a client of its own.
    pub(super) fn workplaces(&self, config: &Config) -> Result<Workplaces> {
        let place = |runtime: &Runtime| -> Result<Workplace> {
            Ok(Workplace {
                runtime: runtime.handle().clone(),
                client: {
                    let _entered = runtime.enter();
                    client(config)?
                },
            })
        };
        Ok(Workplaces {
            control: place(&self.control)?,
            tenants: place(&self.tenants)?,
            admission: place(self.admission.as_ref().unwrap_or(&self.control))?,
        })
    }

    /// Lets go of all threads, whatever they do.
    pub(super) fn abandon(self) {
        self.control.shutdown_background();
        self.tenants.shutdown_background();
        if let Some(admission) = self.admission {
            admission.shutdown_background();
        }
    }
}

/// A client that lives in the runtime that calls this.
pub(super) fn client(config: &Config) -> Result<Client> {
    connection::client(config.clone()).context("cannot build a client from the credentials")
}
