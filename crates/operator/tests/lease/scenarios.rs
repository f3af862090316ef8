//! What replicas do when one of them, the network or the API server fails.

use std::time::{Duration, Instant};

use kollect_operator::lease::{Leadership, NAME};
use kollect_testkit::{Cluster, ControlPlane, control_plane::Options};

use super::replica::{DURATION, RENEW_DEADLINE, RETRY_PERIOD, Replica, leader_of, lease};

fn namespace(cluster: &Cluster) -> String {
    cluster.create_namespace("lease").unwrap()
}

fn since(replica: &Replica) -> tokio::time::Instant {
    match *replica.leadership.borrow() {
        Leadership::Leader { since, .. } => since,
        Leadership::Candidate => panic!("{} does not lead", replica.identity),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_when_its_lease_has_run_out() {
    let cluster = Cluster::shared().unwrap();
    let namespace = namespace(cluster);
    let mut replicas: Vec<Replica> = ["a", "b", "c"]
        .map(|identity| Replica::start(cluster, &namespace, identity))
        .into();
    let first = replicas.remove(leader_of(&replicas).await);
    let spec = lease(cluster, &namespace).await.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(&*first.identity));
    assert_eq!(spec.lease_duration_seconds, Some(12));
    assert_eq!(spec.lease_transitions, Some(0));
    assert!(spec.acquire_time.is_some());

    first.kill().await;
    let killed = Instant::now();
    let second = leader_of(&replicas).await;
    // The last renewal was at most a retry period and a request ago.
    let earliest = DURATION.saturating_sub(3 * RETRY_PERIOD);
    assert!(
        killed.elapsed() > earliest,
        "taken over after {:?}",
        killed.elapsed()
    );
    let taken = lease(cluster, &namespace).await.unwrap();
    assert_eq!(
        taken.holder_identity.as_deref(),
        Some(&*replicas[second].identity)
    );
    assert_eq!(taken.lease_transitions, Some(1));
    assert!(taken.acquire_time > spec.acquire_time);
    for replica in replicas {
        replica.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_hands_over_at_once() {
    let cluster = Cluster::shared().unwrap();
    let namespace = namespace(cluster);
    let mut replicas: Vec<Replica> = ["a", "b"]
        .map(|identity| Replica::start(cluster, &namespace, identity))
        .into();
    let first = replicas.remove(leader_of(&replicas).await);
    let mut second = replicas.remove(0);
    let stopped = Instant::now();
    first.stop().await;
    second.becomes(true).await;
    assert!(
        stopped.elapsed() < DURATION,
        "handed over after {:?}",
        stopped.elapsed()
    );

    second.stop().await;
    let free = lease(cluster, &namespace).await.unwrap();
    assert_eq!(free.holder_identity.as_deref().unwrap_or_default(), "");
    assert_eq!(free.lease_duration_seconds, Some(1));
    assert_eq!(free.lease_transitions, Some(1));

    let mut third = Replica::start(cluster, &namespace, "c");
    third.becomes(true).await;
    third.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_changes_nothing() {
    let cluster = Cluster::shared().unwrap();
    let namespace = namespace(cluster);
    let mut replica = Replica::start(cluster, &namespace, "a");
    replica.becomes(true).await;
    let began = since(&replica);
    let outage = RENEW_DEADLINE / 2;
    for hangs in [false, true] {
        // The lease is fresh, so the outage is all that counts.
        let renewed = lease(cluster, &namespace).await.unwrap().renew_time;
        while lease(cluster, &namespace).await.unwrap().renew_time == renewed {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if hangs {
            replica.network.stall(true);
        } else {
            replica.network.refuse();
        }
        tokio::time::sleep(outage).await;
        assert!(replica.leads(), "lost in a short outage");
        let before = lease(cluster, &namespace).await.unwrap().renew_time;
        replica.network.stall(false);
        replica.network.accept().unwrap();
        while lease(cluster, &namespace).await.unwrap().renew_time == before {
            assert!(replica.leads(), "lost after a short outage");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(since(&replica), began, "leadership was interrupted");
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_contact_stops_before_another_begins() {
    let cluster = Cluster::shared().unwrap();
    let namespace = namespace(cluster);
    let mut replicas: Vec<Replica> = ["a", "b"]
        .map(|identity| Replica::start(cluster, &namespace, identity))
        .into();
    for _ in 0..2 {
        let cut_off = leader_of(&replicas).await;
        let other = 1 - cut_off;
        replicas[cut_off].network.stall(true);
        let began = Instant::now();
        let mut stopped = None;
        while !replicas[other].leads() {
            let leads = replicas[cut_off].leads();
            assert!(!(leads && replicas[other].leads()), "two leaders");
            if !leads && stopped.is_none() {
                stopped = Some(began.elapsed());
            }
            assert!(began.elapsed() < 4 * DURATION, "nobody took over");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let stopped = stopped.expect("the old leader stops before the new one begins");
        assert!(
            stopped <= RENEW_DEADLINE + RETRY_PERIOD,
            "stopped after {stopped:?}"
        );
        // It is told, does not exit, and does not take the lease back.
        replicas[cut_off].becomes(false).await;
        replicas[cut_off].network.stall(false);
        tokio::time::sleep(3 * RETRY_PERIOD).await;
        assert!(replicas[other].leads() && !replicas[cut_off].leads());
    }
    for replica in replicas {
        replica.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_outage_of_the_api_server_does_not_end_the_process() {
    let mut control_plane = ControlPlane::start_with(Options { controllers: false }).unwrap();
    let cluster = control_plane.cluster().clone();
    let namespace = namespace(&cluster);
    let mut replica = Replica::start(&cluster, &namespace, "a");
    replica.becomes(true).await;
    control_plane.apiserver().kill().unwrap();
    let gone = Instant::now();
    replica.becomes(false).await;
    let lasted = gone.elapsed();
    assert!(
        lasted + 2 * RETRY_PERIOD > RENEW_DEADLINE,
        "lost after {lasted:?}"
    );
    assert!(
        lasted < RENEW_DEADLINE + RETRY_PERIOD,
        "lost after {lasted:?}"
    );
    // Longer than the lease, too.
    tokio::time::sleep(DURATION).await;
    control_plane.apiserver().resume().unwrap();
    replica.becomes(true).await;
    let spec = lease(&cluster, &namespace).await.unwrap();
    assert_eq!(spec.lease_transitions, Some(0), "the holder never changed");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_may_touch_the_lease() {
    let cluster = Cluster::shared().unwrap();
    let namespace = namespace(cluster);
    let mut replica = Replica::start(cluster, &namespace, "a");
    replica.becomes(true).await;
    let began = since(&replica);
    let kubectl = |args: &[&str]| {
        let all = [args, &["--namespace", &namespace]].concat();
        cluster.kubectl(&all).unwrap()
    };

    kubectl(&["label", "lease", NAME, "team=platform"]);
    tokio::time::sleep(3 * RETRY_PERIOD).await;
    assert_eq!(since(&replica), began, "a label interrupts nothing");
    let labels = kubectl(&[
        "get",
        "lease",
        NAME,
        "-o",
        "jsonpath={.metadata.labels.team}",
    ]);
    assert_eq!(labels, "platform", "a label survives renewals");

    kubectl(&["delete", "lease", NAME]);
    while lease(cluster, &namespace).await.is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(since(&replica), began, "a deleted lease is made again");

    let patch = r#"{"spec":{"holderIdentity":"somebody-else","leaseDurationSeconds":3}}"#;
    kubectl(&["patch", "lease", NAME, "--type=merge", "--patch", patch]);
    let patched = Instant::now();
    replica.becomes(false).await;
    assert!(
        patched.elapsed() < RENEW_DEADLINE,
        "noticed after {:?}",
        patched.elapsed()
    );
    replica.becomes(true).await;
    assert!(
        patched.elapsed() > Duration::from_secs(3),
        "another holder's time is respected"
    );
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_permission_a_replica_stays_a_candidate_and_still_stops() {
    let cluster = Cluster::shared().unwrap();
    let namespace = namespace(cluster);
    let replica = Replica::start_as(cluster, cluster.restricted(), &namespace, "a");
    let lost = Replica::start(cluster, "no-such-namespace", "b");
    tokio::time::sleep(3 * RETRY_PERIOD).await;
    for replica in [replica, lost] {
        assert!(!replica.leads());
        let stopping = Instant::now();
        replica.stop().await;
        assert!(stopping.elapsed() < RENEW_DEADLINE);
    }
    assert_eq!(lease(cluster, &namespace).await, None);
}
