//! Options of leader election, and the election while the operator runs.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use clap::Args;
use kollect_api::meta::SYSTEM_NAMESPACE;
use kollect_operator::lease::{self, Leadership, Lease, LeaseSettings};
use kube::Client;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::duration;

/// Where a pod finds the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Options of leader election.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct Election {
    /// Of several replicas let one write; the others collect and take over when it goes.
    #[arg(long)]
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

/// An election under way.
pub(super) struct UnderWay {
    leadership: watch::Receiver<Leadership>,
    /// Without an election: keeps the one replica in office.
    _office: Option<watch::Sender<Leadership>>,
    task: Option<(JoinHandle<()>, CancellationToken)>,
}

impl Election {
    /// Begins to ask for leadership, or takes it if nobody else can.
    pub(super) fn begin(&self, client: &Client) -> Result<UnderWay> {
        if !self.leader_elect {
            let (office, leadership) = watch::channel(Leadership::sole());
            return Ok(UnderWay {
                leadership,
                _office: Some(office),
                task: None,
            });
        }
        let settings = LeaseSettings {
            namespace: self.namespace(),
            name: lease::NAME.to_owned(),
            identity: identity(),
            duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        };
        let lease = Lease::new(client.clone(), settings).context("leader election cannot start")?;
        let (tell, leadership) = watch::channel(Leadership::Candidate);
        let stop = CancellationToken::new();
        let task = tokio::spawn(lease.run(stop.clone(), tell));
        Ok(UnderWay {
            leadership,
            _office: None,
            task: Some((task, stop)),
        })
    }

    fn namespace(&self) -> String {
        if !self.namespace.is_empty() {
            return self.namespace.clone();
        }
        match fs::read_to_string(NAMESPACE_FILE) {
            Ok(name) => name.trim().to_owned(),
            Err(_) => SYSTEM_NAMESPACE.to_owned(),
        }
    }
}

impl UnderWay {
    /// Whether this replica leads, now and later.
    pub(super) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Hands over. To be called when nothing is written any more.
    pub(super) async fn end(self) {
        if let Some((task, stop)) = self.task {
            stop.cancel();
            let _ = task.await;
        }
    }
}

/// The pod's name, and something that no other process has.
fn identity() -> String {
    let name = ["POD_NAME", "HOSTNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| "kollect".to_owned());
    format!("{name}_{:016x}", fastrand::u64(..))
}
