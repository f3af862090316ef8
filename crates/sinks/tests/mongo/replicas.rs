//! Three servers that make one, of which the first one dies.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use kollect_sinks::conformance::{self, Subject};
use kollect_testkit::Mongo;
use serde_json::json;

use super::{
    faults::{expected, found, until_accepted},
    items::deployments,
    server::{Stage, T1, T2, T3, changes, everything, inventory},
    subject::MongoSubject,
};

/// Cases of the suite that take the server away from everybody.
const TROUBLE: [&str; 6] = [
    "a_server_that_is_gone_comes_back",
    "a_server_may_come_late",
    "a_server_may_restart_unnoticed",
    "a_server_may_go_in_the_middle",
    "texts_contain_no_secrets",
    "ten_thousand_rows",
];

/// One test, because it is one set of servers: first the suite, then the primary goes, midway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_set_passes_the_suite_and_survives_its_primary() {
    let mut set = tokio::task::spawn_blocking(|| Mongo::start_replica_set().expect("a set"))
        .await
        .expect("a set");
    // Side by side: most of the time they wait for a majority.
    let cases = conformance::cases().into_iter();
    let cases = cases.filter(|(name, _)| !TROUBLE.contains(name));
    stream::iter(cases)
        .for_each_concurrent(6, |(name, case)| {
            let set = &set;
            async move {
                let subject = MongoSubject::on(set).await;
                case(&subject as &dyn Subject).await;
                println!("passed: {name}");
            }
        })
        .await;

    let stage = Stage::on(&set).await;
    let sink = Arc::new(stage.sink(json!({})));
    everything(&*sink, &inventory(), T1, &deployments(2_000, 0))
        .await
        .expect("delivered");
    for kill in 1..=2_u64 {
        let next = deployments(3_000, kill);
        let delivering = {
            let (sink, next) = (Arc::clone(&sink), next.clone());
            tokio::spawn(async move { everything(&*sink, &inventory(), T2, &next).await })
        };
        tokio::time::sleep(Duration::from_millis(30 * kill)).await;
        tokio::task::block_in_place(|| set.kill_primary().expect("killed"));
        let outcome = delivering.await.expect("no panic");
        let replicas = i64::try_from(kill).expect("small");
        if outcome.is_ok() {
            assert_eq!(
                found(&stage).await,
                expected(3_000, replicas),
                "lost by fail-over"
            );
        }
        until_accepted(&*sink, &next).await;
        assert_eq!(found(&stage).await, expected(3_000, replicas));
        // In step again: one change is one document, also on the new primary.
        let after = deployments(3_001, kill);
        let receipt = changes(&*sink, &inventory(), T3, &next, &after).await;
        assert_eq!(receipt.expect("changes").written, 1);
        tokio::task::block_in_place(|| set.resume().expect("back"));
    }
    drop(sink);
    drop(stage);
    tokio::task::spawn_blocking(move || drop(set))
        .await
        .expect("stopped");
}
