//! Options of leader election, and the election while the operator runs.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use clap::{ArgAction, Args};
use kollect_operator::{
    keeper::Keeper,
    lease::{self, Leadership, Lease, LeaseSettings},
};
use kube::Client;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    duration,
    inherited::{GoSwitch as _, switch},
};

/// Where a pod finds the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Options of leader election.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct Election {
    /// Of several replicas let one write; the others collect and take over when it goes.
    #[arg(long, action = ArgAction::Set, default_value_t = false, value_parser = switch, go_switch())]
    leader_elect: bool,
    /// Namespace of the Lease; empty for the pod's own.
    #[arg(
        long = "leader-elect-namespace",
        value_name = "NAMESPACE",
        default_value = "",
        env = "POD_NAMESPACE"
    )]
    namespace: String,
    /// How long the others wait for a leader that is silent.
    #[arg(long = "leader-elect-lease-duration", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    lease_duration: Duration,
    /// How long a leader goes on without an answer of the API server.
    #[arg(long = "leader-elect-renew-deadline", value_name = "DURATION", default_value = "40s", value_parser = duration)]
    renew_deadline: Duration,
    /// How often leadership is renewed or asked for.
    #[arg(long = "leader-elect-retry-period", value_name = "DURATION", default_value = "5s", value_parser = duration)]
    retry_period: Duration,
}

/// An election that is about to begin.
pub(super) struct Beginning {
    client: Client,
    /// Nothing without an election: then the one replica stays in office.
    settings: Option<LeaseSettings>,
    tell: watch::Sender<Leadership>,
}

/// An election under way.
pub(super) struct UnderWay {
    /// Held because leadership ends with it.
    _tell: watch::Sender<Leadership>,
    task: Option<(JoinHandle<()>, CancellationToken)>,
}

impl Election {
    /// Prepares to ask for leadership, or takes it if nobody else can. The Lease is in the namespace
    /// that was given, that of the pod, or `home`.
    pub(super) fn begin(&self, client: &Client, home: &str) -> Result<Beginning> {
        let client = client.clone();
        if !self.leader_elect {
            return Ok(Beginning {
                client,
                settings: None,
                tell: watch::channel(Leadership::sole()).0,
            });
        }
        let settings = LeaseSettings {
            namespace: self.namespace(home),
            name: lease::NAME.to_owned(),
            identity: identity(),
            duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        };
        Lease::new(client.clone(), settings.clone()).context("leader election cannot start")?;
        Ok(Beginning {
            client,
            settings: Some(settings),
            tell: watch::channel(Leadership::Candidate).0,
        })
    }

    /// The namespace that was given, the pod's, or `home`.
    pub(super) fn namespace(&self, home: &str) -> String {
        if !self.namespace.is_empty() {
            return self.namespace.clone();
        }
        match fs::read_to_string(NAMESPACE_FILE) {
            Ok(name) => name.trim().to_owned(),
            Err(_) => home.to_owned(),
        }
    }
}

impl Beginning {
    /// Whether this replica leads, now and later.
    pub(super) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.tell.subscribe()
    }

    /// Asks for leadership from now on, in the runtime that calls this.
    pub(super) fn run(self, keeper: &Keeper) -> UnderWay {
        let Self {
            client,
            settings,
            tell,
        } = self;
        let task = settings.map(|settings| {
            let stop = CancellationToken::new();
            let (keeper, token, tell) = (keeper.clone(), stop.clone(), tell.clone());
            let kept = async move {
                let take_part = || {
                    let lease = Lease::new(client.clone(), settings.clone());
                    // Whoever begins anew knows nothing of a lease yet.
                    tell.send_replace(Leadership::Candidate);
                    let (stop, tell) = (token.clone(), tell.clone());
                    async move {
                        if let Ok(lease) = lease {
                            lease.run(stop, tell).await;
                        }
                    }
                };
                Box::pin(keeper.keep("lease", &token, take_part)).await;
            };
            (tokio::spawn(kept), stop)
        });
        UnderWay { _tell: tell, task }
    }
}

impl UnderWay {
    /// Hands over. To be called when nothing is written any more.
    pub(super) async fn end(self) {
        if let Some((task, stop)) = self.task {
            stop.cancel();
            let _ = task.await;
        }
    }
}

/// Whether this process runs in a pod.
pub(super) fn in_a_pod() -> bool {
    Path::new(NAMESPACE_FILE).exists()
}

/// The pod's name, and something that no other process has.
fn identity() -> String {
    let name = ["POD_NAME", "HOSTNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| "kollect".to_owned());
    format!("{name}_{:016x}", fastrand::u64(..))
}
