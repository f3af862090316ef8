//! A7: sinks that never answer cost other namespaces nothing.

use std::time::Duration;

use tokio::{task::JoinSet, time::Instant};

use crate::stage::{Mood, Stage};

/// Sinks of `team-a` that never answer, and one of `team-b` that is fine and named last.
fn forty_hang(permits: usize) -> Stage {
    let mut stage = Stage::with_permits(permits);
    for sink in 0..40 {
        let name = format!("hung-{sink:02}");
        stage.mood(&name, Mood::Hangs);
        stage.sink_of("team-a", &name);
    }
    stage.sink_of("team-b", "pg");
    stage.listed(&[("r1", 0)]);
    stage
}

/// A row changes every second for ten minutes. Returns how long each change took to reach `pg`, in
/// milliseconds.
async fn latencies(stage: &mut Stage) -> Vec<u64> {
    stage.go();
    let mut all = Vec::new();
    for second in 0..600_u64 {
        stage.put("r1", i64::try_from(second).expect("small") + 1);
        stage.until((second + 1) * 1_000).await;
        let calls = stage.calls();
        let reached = calls.iter().find(|call| call.sink == "pg");
        let reached = reached.unwrap_or_else(|| panic!("nothing in second {second}"));
        all.push(reached.at - second * 1_000);
    }
    all.sort_unstable();
    all
}

#[tokio::test(start_paused = true)]
async fn a7_forty_sinks_that_never_answer_cost_another_namespace_nothing() {
    for permits in [16, 2] {
        let mut stage = forty_hang(permits);
        let latencies = latencies(&mut stage).await;
        // Changes are gathered for 50 ms; whatever is beyond that was waiting.
        let worst = *latencies.last().expect("some");
        assert!(worst <= 60, "{permits} permits: {latencies:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a7_a_namespace_is_not_blocked_by_its_own_hung_sinks_for_long() {
    let mut stage = forty_hang(16);
    stage.sink_of("team-a", "own");
    stage.go();
    // Two rounds of sixteen that nobody knows to hang are first, two seconds each.
    stage.until(5_000).await;
    assert!(stage.calls().iter().any(|call| call.sink == "own"));
    for second in 6..600 {
        stage.put("r1", i64::try_from(second).expect("small"));
        stage.until(second * 1_000 + 500).await;
        let calls = stage.calls();
        assert!(calls.iter().any(|call| call.sink == "own"), "{second}");
    }
    let (_, under_way) = stage.calls.permits.load();
    assert!(under_way <= 16, "sinks that hang have a limit: {under_way}");
}

#[tokio::test(start_paused = true)]
async fn a7_many_namespaces_with_hung_sinks_hold_places_for_a_moment_only() {
    let mut stage = Stage::with_permits(4);
    for namespace in 0..20 {
        let name = format!("hung-{namespace:02}");
        stage.mood(&name, Mood::Hangs);
        stage.sink_of(&format!("team-{namespace:02}"), &name);
    }
    stage.sink_of("team-b", "pg");
    stage.listed(&[("r1", 0)]);
    stage.go();
    // Four at a time, two seconds each.
    stage.until(11_000).await;
    assert!(stage.calls().iter().any(|call| call.sink == "pg"));
    // Once they are known to hang they take no place at all.
    for second in 130..400 {
        stage.put("r1", i64::try_from(second).expect("small"));
        stage.until(second * 1_000 + 70).await;
        let calls = stage.calls();
        assert!(calls.iter().any(|call| call.sink == "pg"), "{second}");
        stage.until(second * 1_000 + 1_000).await;
        stage.calls();
    }
}

#[tokio::test(start_paused = true)]
async fn a7_probes_that_hang_hold_nobody_up() {
    let stage = forty_hang(16);
    let mut probes = JoinSet::new();
    let deadline = Duration::from_secs(15);
    for at in 0..40 {
        let (calls, source) = (stage.calls.clone(), stage.source(at));
        probes.spawn(async move { calls.probe(&source, deadline).await });
    }
    tokio::task::yield_now().await;
    for _ in 0..20 {
        let begun = Instant::now();
        let probe = stage.calls.probe(&stage.source(40), deadline).await;
        assert!(probe.is_ok());
        assert_eq!(begun.elapsed(), Duration::ZERO);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    while let Some(ended) = probes.join_next().await {
        let error = ended.expect("no panic").expect_err("it hangs");
        assert!(error.message().contains("no answer within"), "{error}");
    }
}
