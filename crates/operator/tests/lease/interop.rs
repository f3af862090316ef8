//! The same Lease shared with a component written by others: Kubernetes' own controller manager,
//! whose leader election is the one that everybody uses.

use std::time::{Duration, Instant};

use kollect_operator::lease::NAME;
use kollect_testkit::{
    Cluster, RunDir, go, ports,
    process::{Process, Program, Signal},
};

use super::replica::{DURATION, RENEW_DEADLINE, RETRY_PERIOD, Replica, lease};

/// A controller manager with nothing to control that competes for our Lease.
fn stranger(cluster: &Cluster, namespace: &str, run: &RunDir) -> Process {
    let programs = go::KUBERNETES.binaries().unwrap();
    let seconds = |time: Duration| format!("{}s", time.as_secs());
    let name = "kube-controller-manager";
    Program::new(name, programs.join(name))
        .flag("kubeconfig", cluster.kubeconfig())
        .flag("bind-address", "127.0.0.1")
        .flag("secure-port", ports::free().unwrap().to_string())
        .flag("cert-dir", run.path())
        // The name of one that finds nothing to do here leaves all others out.
        .flag("controllers", "bootstrap-signer-controller")
        .flag("leader-elect", "true")
        .flag("leader-elect-resource-lock", "leases")
        .flag("leader-elect-resource-name", NAME)
        .flag("leader-elect-resource-namespace", namespace)
        .flag("leader-elect-lease-duration", seconds(DURATION))
        .flag("leader-elect-renew-deadline", seconds(RENEW_DEADLINE))
        .flag("leader-elect-retry-period", seconds(RETRY_PERIOD))
        .spawn(run.path())
        .unwrap()
}

async fn holder(cluster: &Cluster, namespace: &str) -> String {
    let spec = lease(cluster, namespace).await;
    spec.and_then(|spec| spec.holder_identity)
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_yields_to_us_and_we_yield_to_it() {
    let cluster = Cluster::shared().unwrap();
    let namespace = cluster.create_namespace("lease").unwrap();
    let run = RunDir::new("stranger").unwrap();
    let mut ours = Replica::start(cluster, &namespace, "ours");
    ours.becomes(true).await;

    // It sees our lease and waits, for longer than a lease lasts.
    let mut stranger = stranger(cluster, &namespace, &run);
    tokio::time::sleep(DURATION + 3 * RETRY_PERIOD).await;
    assert!(stranger.is_running());
    assert!(ours.leads());
    assert_eq!(holder(cluster, &namespace).await, "ours");

    // We hand over and it takes over at once.
    ours.stop().await;
    let stopped = Instant::now();
    while holder(cluster, &namespace).await.is_empty() {
        assert!(
            stopped.elapsed() < DURATION,
            "it does not take a lease that we freed"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    // We see its lease and wait, for longer than a lease lasts, and take over when it is gone.
    let mut ours = Replica::start(cluster, &namespace, "ours-again");
    tokio::time::sleep(DURATION + 3 * RETRY_PERIOD).await;
    assert!(!ours.leads());
    assert_ne!(holder(cluster, &namespace).await, "ours-again");
    stranger.stop(Signal::KILL).unwrap();
    ours.becomes(true).await;
    let spec = lease(cluster, &namespace).await.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("ours-again"));
    assert_eq!(spec.lease_transitions, Some(2));
    ours.stop().await;
}
