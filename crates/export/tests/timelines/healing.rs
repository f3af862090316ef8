//! B7 and the breaker: what works again is used again at once, and what is refused costs nothing.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use kollect_export::{Configuration, order::Source, report::LaneState};
use kollect_sinks::SinkError;

use crate::{
    stage::{Mood, Stage, What},
    timelines::{all, changes, whats},
};

const ON_CHANGE: Duration = Duration::ZERO;
const DEADLINE: Duration = Duration::from_secs(15);

fn of<'c>(calls: &'c [crate::stage::Call], sink: &str) -> Vec<&'c What> {
    let calls = calls.iter().filter(|call| call.sink == sink);
    calls.map(|call| &call.what).collect()
}

#[tokio::test(start_paused = true)]
async fn b7_a_good_probe_reopens_a_lane_that_failed_for_good() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.sink("other", ON_CHANGE);
    for sink in ["pg", "other"] {
        stage.mood(sink, Mood::Fails(SinkError::terminal("rejected")));
    }
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(60_000).await;
    assert_eq!(stage.calls().len(), 2);
    for sink in ["pg", "other"] {
        stage.mood(sink, Mood::Fine);
    }
    let probe = stage.calls.probe(&stage.source(0), DEADLINE).await;
    assert!(probe.is_ok());
    stage.until(60_100).await;
    let calls = stage.calls();
    assert_eq!(of(&calls, "pg"), [&all(&["r1"])], "at once");
    assert!(of(&calls, "other").is_empty(), "and nobody else");
    assert_eq!(stage.report().lanes[0].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn b7_a_good_probe_during_a_failing_delivery_counts() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.mood(
        "pg",
        Mood::SlowlyFails(Duration::from_secs(10), SinkError::terminal("rejected")),
    );
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(5_000).await;
    stage.mood("pg", Mood::Fine);
    assert!(stage.calls.probe(&stage.source(0), DEADLINE).await.is_ok());
    stage.until(10_100).await;
    assert_eq!(stage.report().lanes[0].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn b7_a_good_probe_does_not_repeat_what_still_fails() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.mood("pg", Mood::Fails(SinkError::terminal("no such table")));
    stage.listed(&[("r1", 1)]);
    stage.go();
    for minute in 1..=3 {
        stage.until(minute * 60_000).await;
        assert!(stage.calls.probe(&stage.source(0), DEADLINE).await.is_ok());
    }
    stage.until(300_000).await;
    assert_eq!(stage.calls().len(), 1 + 3, "once for each probe");
}

#[tokio::test(start_paused = true)]
async fn b7_a_bad_probe_reopens_nothing() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.mood("pg", Mood::Fails(SinkError::terminal("rejected")));
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    stage.mood("pg", Mood::Panics);
    assert!(stage.calls.probe(&stage.source(0), DEADLINE).await.is_err());
    stage.until(600_000).await;
    assert_eq!(stage.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn b7_changed_credentials_and_requests_reopen_too() {
    // Other credentials are another version of the sink, and with it another configuration; a new
    // request is another configuration of the same sink.
    for other_version in [true, false] {
        let mut stage = Stage::new();
        stage.sink("pg", ON_CHANGE);
        stage.mood("pg", Mood::Fails(SinkError::terminal("rejected")));
        stage.listed(&[("r1", 1)]);
        stage.go();
        stage.until(60_000).await;
        assert_eq!(stage.calls().len(), 1);
        stage.mood("pg", Mood::Fine);
        let order = &mut stage.order.deliver[0];
        order.configuration = Configuration(2);
        if let Source::Ready(source) = &mut order.source
            && other_version
        {
            Arc::make_mut(source).version = 2;
        }
        stage.go();
        stage.until(60_100).await;
        assert_eq!(whats(&stage), [all(&["r1"])]);
    }
}

#[tokio::test(start_paused = true)]
async fn s18_the_breaker_as_attempts_see_it() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    let source = stage.source(0);
    stage.mood("pg", Mood::Fails(SinkError::transient("conn refused")));
    let mut seen = Vec::new();
    for second in [0, 5, 10, 15, 20, 25, 45, 55] {
        stage.until(second * 1_000).await;
        if second > 50 {
            stage.mood("pg", Mood::Fine);
        }
        seen.push(match stage.attempt(&source).await {
            Ok(_) => "accepted",
            Err(SinkError::Transient(text)) if text == "conn refused" => "reached",
            Err(SinkError::Transient(text)) => {
                let expected = "sink circuit breaker open for \"team-a/pg\"";
                assert!(text.starts_with(expected), "{text}");
                "refused"
            }
            Err(other) => panic!("{other}"),
        });
    }
    let [one, two, three] = ["reached", "refused", "accepted"];
    assert_eq!(seen, [one, one, one, one, one, two, two, three]);
    assert_eq!(stage.seconds("pg"), [0, 5, 10, 15, 20, 55]);
    assert!(
        stage.attempt(&source).await.is_ok(),
        "the breaker is closed"
    );
}

#[tokio::test(start_paused = true)]
async fn s18_one_trial_at_a_time_and_another_rest_after_it_fails() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    let source = stage.source(0);
    stage.mood("pg", Mood::Fails(SinkError::transient("conn refused")));
    for _ in 0..5 {
        assert!(stage.attempt(&source).await.is_err());
    }
    assert_eq!(stage.calls().len(), 5);
    stage.until(31_000).await;
    stage.mood(
        "pg",
        Mood::SlowlyFails(Duration::from_secs(10), SinkError::transient("no")),
    );
    let trials = (0..6).map(|_| stage.attempt(&source));
    let ended = futures::future::join_all(trials).await;
    assert!(ended.iter().all(Result::is_err));
    assert_eq!(stage.calls().len(), 1, "exactly one is let through");
    stage.until(70_000).await;
    assert!(stage.attempt(&source).await.is_err());
    assert_eq!(stage.calls().len(), 0, "it failed at 41: refused until 71");
    stage.until(71_500).await;
    // A trial that is given up does not block the next.
    stage.mood("pg", Mood::Hangs);
    let given_up = tokio::time::timeout(Duration::from_secs(1), stage.attempt(&source));
    assert!(given_up.await.is_err());
    stage.mood("pg", Mood::Fine);
    assert!(stage.attempt(&source).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_the_breaker_costs_no_full_delivery() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
    // Another inventory finds the backend broken.
    stage.mood("pg", Mood::Fails(SinkError::transient("conn refused")));
    for _ in 0..5 {
        assert!(stage.attempt(&stage.source(0)).await.is_err());
    }
    stage.calls();
    stage.mood("pg", Mood::Fine);
    stage.put("r2", 1);
    stage.until(2_000).await;
    assert_eq!(whats(&stage), [], "left alone");
    let LaneState::Failed {
        error, in_a_row, ..
    } = stage.report().lanes[0].state.clone()
    else {
        panic!("{:?}", stage.report());
    };
    assert!(error.message().contains("circuit breaker open"), "{error}");
    assert_eq!(in_a_row, 0, "it was not tried");
    stage.put("r3", 1);
    stage.until(32_000).await;
    assert_eq!(whats(&stage), [changes(&["r2", "r3"], &[])]);
    assert_eq!(stage.report().lanes[0].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn b7_a_good_probe_closes_the_breaker() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    stage.mood("pg", Mood::Fails(SinkError::transient("conn refused")));
    for _ in 0..5 {
        assert!(stage.attempt(&stage.source(0)).await.is_err());
    }
    stage.mood("pg", Mood::Fine);
    stage.put("r2", 1);
    stage.until(2_000).await;
    stage.calls();
    assert!(stage.calls.probe(&stage.source(0), DEADLINE).await.is_ok());
    stage.until(2_100).await;
    assert_eq!(whats(&stage), [changes(&["r2"], &[])]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_leadership_costs_no_full_delivery() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
    stage.leads.store(false, Ordering::SeqCst);
    stage.put("r2", 1);
    stage.until(4_000).await;
    assert_eq!(whats(&stage), [], "another one leads");
    stage.leads.store(true, Ordering::SeqCst);
    stage.until(12_000).await;
    assert_eq!(whats(&stage), [changes(&["r2"], &[])]);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_hangs_until_the_deadline_opens_the_breaker() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.mood("pg", Mood::Hangs);
    let source = stage.source(0);
    for _ in 0..2 {
        let error = stage.attempt(&source).await.expect_err("it hangs");
        assert!(error.message().contains("did not finish"), "{error}");
    }
    let error = stage.attempt(&source).await.expect_err("it is left alone");
    assert!(error.message().contains("circuit breaker open"), "{error}");
    assert_eq!(stage.seconds("pg"), [0, 120]);
}
