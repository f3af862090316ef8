//! One replica as a test sees it.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use kollect_operator::lease::{Leadership, Lease, LeaseSettings, NAME};
use kollect_testkit::{Cluster, Proxy, cluster::User};
use kollect_watch::connection;
use kube::Api;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub(crate) const DURATION: Duration = Duration::from_secs(12);
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(9);
pub(crate) const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// How long a test waits for what has to come. Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// A replica that reaches the API server through a network of its own.
pub(crate) struct Replica {
    pub(crate) identity: String,
    pub(crate) network: Proxy,
    pub(crate) leadership: watch::Receiver<Leadership>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    pub(crate) fn start(cluster: &Cluster, namespace: &str, identity: &str) -> Self {
        Self::start_as(cluster, cluster.admin(), namespace, identity)
    }

    pub(crate) fn start_as(
        cluster: &Cluster,
        user: &User,
        namespace: &str,
        identity: &str,
    ) -> Self {
        let address = cluster.url().replace("https://", "");
        let network = Proxy::to(address.trim_end_matches('/')).unwrap();
        // Installs the TLS provider of the process.
        cluster.client(user).unwrap();
        let mut config = cluster.kube_config(user).unwrap();
        config.cluster_url = format!("https://{}", network.address()).parse().unwrap();
        let settings = LeaseSettings {
            namespace: namespace.to_owned(),
            name: NAME.to_owned(),
            identity: identity.to_owned(),
            duration: DURATION,
            renew_deadline: RENEW_DEADLINE,
            retry_period: RETRY_PERIOD,
        };
        let lease = Lease::new(connection::client(config).unwrap(), settings).unwrap();
        let (sender, leadership) = watch::channel(Leadership::Candidate);
        let stop = CancellationToken::new();
        let task = tokio::spawn(lease.run(stop.clone(), sender));
        Replica {
            identity: identity.to_owned(),
            network,
            leadership,
            stop,
            task,
        }
    }

    pub(crate) fn leads(&self) -> bool {
        self.leadership.borrow().leads()
    }

    /// Waits until it leads, or until it does not.
    pub(crate) async fn becomes(&mut self, leader: bool) {
        let identity = self.identity.clone();
        let wanted = self
            .leadership
            .wait_for(|now| matches!(now, Leadership::Leader { .. }) == leader);
        let waited = tokio::time::timeout(PATIENCE, wanted).await;
        let waited = waited.unwrap_or_else(|_| panic!("{identity}: leader {leader} did not come"));
        drop(waited.unwrap());
    }

    /// Ends it as a crash would.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Ends it in good order.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.task).await;
        ended.expect("a replica ends when it is told to").unwrap();
        assert_eq!(*self.leadership.borrow(), Leadership::Candidate);
    }
}

/// The index of the replica that leads, as soon as there is one.
pub(crate) async fn leader_of(replicas: &[Replica]) -> usize {
    let began = Instant::now();
    loop {
        let leaders: Vec<usize> = (0..replicas.len())
            .filter(|&number| replicas[number].leads())
            .collect();
        match leaders[..] {
            [leader] => return leader,
            [] => assert!(began.elapsed() < PATIENCE, "nobody leads"),
            _ => panic!("{} replicas lead", leaders.len()),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What the Lease says.
pub(crate) async fn lease(cluster: &Cluster, namespace: &str) -> Option<LeaseSpec> {
    let client = cluster.client(cluster.admin()).unwrap();
    let api: Api<LeaseObject> = Api::namespaced(client, namespace);
    let lease = api.get_opt(NAME).await.unwrap();
    lease.map(|lease| lease.spec.unwrap())
}
