//! Servers that refuse, hang, vanish and come back.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use kollect_api::InventoryId;
use kollect_inventory::{Delta, Snapshot};

use super::{
    exporter::{CLUSTER, Exporter, PATIENCE},
    rows::Rows,
    subject::{Retirement, Subject, not_applicable},
};
use crate::{
    error::SinkError,
    sink::{DeliveryRows, Demand},
};

/// How long a rejected login may take.
const REJECTION: Duration = Duration::from_secs(20);

/// How long a caller waits for a server that hangs.
const DEADLINE: Duration = Duration::from_millis(700);

fn assert_silent(subject: &dyn Subject, text: &str) {
    for secret in subject.secrets() {
        // The text itself stays out of the message: it would print the secret.
        assert!(!text.contains(&secret), "a text contains a secret");
    }
}

/// Rejected credentials need a person, so the failure is terminal and comes at once.
pub(super) async fn wrong_credentials_are_terminal(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let some = rows.deployments(3, 1);
    exporter.everything(&some).await;
    let Some(rejected) = subject.sink_with_wrong_credentials().await else {
        not_applicable("knows no credentials");
        return;
    };
    let accepted = std::mem::replace(&mut exporter.sink, rejected.clone());
    let began = Instant::now();
    let delivered = exporter
        .attempt(DeliveryRows::All(Snapshot::default()))
        .await;
    let retired = exporter.retire().await;
    let probed = tokio::time::timeout(PATIENCE, rejected.probe()).await;
    let probed = probed.expect("a probe ends");
    assert!(
        began.elapsed() < 3 * REJECTION,
        "three rejections took {:?}",
        began.elapsed()
    );
    for (what, error) in [
        ("deliver", delivered.err()),
        ("retire", retired.err()),
        ("probe", probed.err()),
    ] {
        // Where nothing has to be removed, retiring need not talk to the server at all.
        let Some(error) = error.or_else(|| nothing_to_say(subject, what)) else {
            continue;
        };
        assert!(
            matches!(error, SinkError::Terminal(_)),
            "{what} with rejected credentials: {error:?}"
        );
    }
    exporter.sink = accepted;
    exporter.check("after somebody failed to log in").await;
}

/// What counts as the failure of a call that succeeded with rejected credentials.
fn nothing_to_say(subject: &dyn Subject, what: &str) -> Option<SinkError> {
    let excused = what == "retire" && subject.retirement() == Retirement::Keeps;
    (!excused).then(|| SinkError::transient("succeeded"))
}

/// While the server is gone every call fails in a way that may heal, and then it heals.
pub(super) async fn a_server_that_is_gone_comes_back(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(5, 1)).await;
    subject.stop().await;
    let next = rows.deployments(6, 2);
    for _ in 0..2 {
        let failed = exporter.attempt(DeliveryRows::All(next.clone())).await;
        assert!(
            matches!(failed, Err(SinkError::Transient(_))),
            "a delivery without a server: {failed:?}"
        );
    }
    let probed = tokio::time::timeout(PATIENCE, exporter.sink.probe()).await;
    let probed = probed.expect("a probe ends");
    assert!(
        matches!(probed, Err(SinkError::Transient(_))),
        "a probe without a server: {probed:?}"
    );
    subject.start().await;
    exporter.check("after the server came back").await;
    exporter.recover(&next).await;
}

/// A sink that was made while the server was gone works as soon as it is there.
pub(super) async fn a_server_may_come_late(subject: &dyn Subject) {
    let mut rows = Rows::new();
    subject.stop().await;
    let mut exporter = Exporter::new(subject).await;
    let some = rows.deployments(5, 1);
    let failed = exporter.attempt(DeliveryRows::All(some.clone())).await;
    assert!(
        matches!(failed, Err(SinkError::Transient(_))),
        "a first delivery without a server: {failed:?}"
    );
    subject.start().await;
    exporter.recover(&some).await;
}

/// The server restarted between two deliveries; the sink's connections are dead and it does not
/// know yet.
pub(super) async fn a_server_may_restart_unnoticed(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(5, 1)).await;
    subject.stop().await;
    subject.start().await;
    exporter.recover(&rows.deployments(6, 2)).await;
}

/// The server goes away in the middle of a large delivery.
pub(super) async fn a_server_may_go_in_the_middle(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let many = rows.deployments(5_000 / subject.scale(), 1);
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(5, 1)).await;
    for delay in [1, 20, 60] {
        let stop = async {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            subject.stop().await;
        };
        let (result, ()) = tokio::join!(exporter.attempt(DeliveryRows::All(many.clone())), stop);
        if let Err(error) = &result {
            assert!(
                matches!(error, SinkError::Transient(_)),
                "cut off: {error:?}"
            );
        }
        subject.start().await;
        exporter.recover(&rows.deployments(7, delay)).await;
    }
}

/// The caller gives up on a server that hangs; later all is well, also for the same sink object.
pub(super) async fn a_server_that_hangs_recovers(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(5, 1)).await;
    for connected in [true, false] {
        if !connected {
            exporter.restart().await;
        }
        if !subject.stall(true).await {
            not_applicable("cannot be made to hang");
            return;
        }
        let delivery = exporter.delivery(DeliveryRows::All(rows.deployments(9, 9)));
        let sink = exporter.sink.clone();
        let result = tokio::time::timeout(DEADLINE, sink.deliver(&delivery)).await;
        assert!(
            !matches!(result, Ok(Ok(_))),
            "a delivery succeeded while the server hung"
        );
        let probe = tokio::time::timeout(DEADLINE, sink.probe()).await;
        assert!(
            !matches!(probe, Ok(Ok(_))),
            "a probe succeeded while the server hung"
        );
        subject.stall(false).await;
        exporter.recover(&rows.deployments(6, 2)).await;
    }
}

/// A delivery may be dropped at any moment; the next one puts everything right, and neighbours
/// notice nothing.
pub(super) async fn a_delivery_may_be_cancelled(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let neighbour = InventoryId::namespaced("team-a", "neighbour");
    let mut neighbour = Exporter::of(subject, CLUSTER, neighbour).await;
    neighbour.sink = exporter.sink.clone();
    neighbour.everything(&rows.deployments(3, 1)).await;
    exporter.everything(&rows.deployments(50, 1)).await;

    // After a number of steps of the delivery itself, and after some time for what goes on
    // elsewhere on its behalf.
    let cancellations = (1..=8)
        .map(|steps| (steps, PATIENCE))
        .chain([0, 2, 8, 30, 90].map(|millis| (usize::MAX, Duration::from_millis(millis))));
    for (number, (steps, time)) in cancellations.enumerate() {
        let many = rows.deployments(1_200 / subject.scale(), number as u64);
        let content = if exporter.sink.demand() != Demand::Documents && number % 3 == 2 {
            DeliveryRows::Changes(Arc::new(Delta::between(&exporter.expected, &many)))
        } else {
            DeliveryRows::All(many)
        };
        let delivery = exporter.delivery(content);
        let sink = exporter.sink.clone();
        let _ = tokio::time::timeout(time, abandon(sink.deliver(&delivery), steps)).await;
        exporter.recover(&rows.deployments(40 + number, 2)).await;
        neighbour
            .check("after a neighbour's delivery was cancelled")
            .await;
    }
    neighbour.changes(&rows.deployments(4, 1)).await;
}

/// Polls a future some times and then drops it.
async fn abandon<F: Future>(future: F, mut steps: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(move |context| {
        if steps == 0 {
            return Poll::Ready(None);
        }
        steps -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Failures and debug output keep secrets to themselves.
pub(super) async fn texts_contain_no_secrets(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    assert_silent(subject, &format!("{:?}", exporter.sink));
    let some = rows.deployments(2, 1);
    exporter.everything(&some).await;
    assert_silent(subject, &format!("{:?}", exporter.sink));
    let answer = exporter.sink.probe().await.expect("a probe");
    assert_silent(subject, &answer);

    let mut errors = Vec::new();
    if let Some(rejected) = subject.sink_with_wrong_credentials().await {
        assert_silent(subject, &format!("{rejected:?}"));
        let delivery = exporter.delivery(DeliveryRows::All(some.clone()));
        errors.extend(rejected.deliver(&delivery).await.err());
        errors.extend(rejected.probe().await.err());
        errors.extend(rejected.retire(&exporter.inventory).await.err());
    }
    subject.stop().await;
    errors.extend(exporter.attempt(DeliveryRows::All(some)).await.err());
    errors.extend(exporter.sink.probe().await.err());
    errors.extend(exporter.retire().await.err());
    subject.start().await;
    assert!(!errors.is_empty(), "nothing failed without a server");
    for error in errors {
        assert!(
            !error.message().trim().is_empty(),
            "an error without a text"
        );
        assert_silent(subject, &format!("{error} {error:?}"));
    }
}

/// A probe looks and does not touch.
pub(super) async fn a_probe_changes_nothing(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let untouched = subject.mark().await;
    let answer = exporter.sink.probe().await;
    let answer = answer.expect("a probe of an untouched backend");
    assert!(!answer.trim().is_empty(), "a probe says what it found");
    assert_eq!(
        subject.mark().await,
        untouched,
        "a probe wrote to an untouched backend"
    );
    exporter
        .check("after a probe of an untouched backend")
        .await;

    exporter.everything(&rows.deployments(3, 1)).await;
    let filled = subject.mark().await;
    exporter.sink.probe().await.expect("a probe");
    subject.sink(CLUSTER).await.probe().await.expect("a probe");
    assert_eq!(
        subject.mark().await,
        filled,
        "a probe wrote to a filled backend"
    );
    exporter.changes(&rows.deployments(4, 1)).await;
}
