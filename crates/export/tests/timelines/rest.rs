//! Sinks that can say whether they hold what they were given: nothing is gathered for them at rest.

use std::{sync::atomic::Ordering, time::Duration};

use kollect_export::report::LaneState;
use kollect_sinks::SinkError;

use crate::{
    stage::{Mood, Stage, What},
    timelines::{all, changes, whats},
};

const D: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn at_rest_a_sink_is_asked_and_given_nothing() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.confirms("pg", true);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(5_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
    stage.until(62_000).await;
    assert_eq!(whats(&stage), [What::Look, What::Look]);
    assert_eq!(stage.report().lanes[0].state, LaneState::InStep);

    // A change goes at once, and the time of the next look counts from it.
    stage.put("r2", 1);
    stage.until(63_000).await;
    assert_eq!(whats(&stage), [changes(&["r2"], &[])]);
    stage.until(91_000).await;
    assert_eq!(whats(&stage), []);
    stage.until(93_000).await;
    assert_eq!(whats(&stage), [What::Look]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_confirmed_is_sent_at_once() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.confirms("pg", false);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(31_000).await;
    assert_eq!(whats(&stage), [all(&["r1"]), What::Look, all(&["r1"])]);
    assert_eq!(stage.told.failed.load(Ordering::SeqCst), 0, "no failure");
    stage.confirms("pg", true);
    stage.until(61_000).await;
    assert_eq!(whats(&stage), [What::Look]);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_a_failure_and_is_followed_by_all_rows() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.confirms("pg", true);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(5_000).await;
    stage.calls();
    stage.mood("pg", Mood::Fails(SinkError::transient("gone")));
    stage.until(31_000).await;
    assert_eq!(whats(&stage), [What::Look]);
    let report = stage.report();
    assert!(
        matches!(report.lanes[0].state, LaneState::Failed { .. }),
        "{report:?}"
    );
    stage.mood("pg", Mood::Fine);
    stage.until(45_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
}

/// Readers are told that somebody looks every few minutes, whatever the interval is.
#[tokio::test(start_paused = true)]
async fn nobody_is_left_alone_for_longer_than_it_says() {
    for interval in [Duration::ZERO, Duration::from_hours(24)] {
        let mut stage = Stage::new();
        stage.sink("pg", interval);
        stage.sink("git", interval);
        stage.confirms("pg", true);
        stage.listed(&[("r1", 1)]);
        stage.go();
        stage.until(5_000).await;
        assert_eq!(whats(&stage).len(), 2);
        stage.until(730_000).await;
        let looks = stage.calls();
        assert!(looks.iter().all(|call| call.sink == "pg"), "{looks:?}");
        assert!(looks.iter().all(|call| call.what == What::Look));
        assert_eq!(looks.len(), 3, "{looks:?}");
    }
}
