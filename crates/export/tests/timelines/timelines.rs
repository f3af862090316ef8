//! The timelines of the contract, S01 to S36, as far as they are about what reaches sinks when. Those
//! about edits and deletions are in `edits.rs`.

use std::time::Duration;

use jiff::Timestamp;
use kollect_export::{
    Configuration, ExportTask,
    order::Source,
    report::{LaneState, RetireState},
};
use kollect_sinks::{Demand, SinkError};

use crate::stage::{Mood, Stage, What, resumed, sink_order};

const D: Duration = Duration::from_secs(30);
const ON_CHANGE: Duration = Duration::ZERO;

pub(crate) fn all(rows: &[&str]) -> What {
    What::All(rows.iter().copied().map(str::to_owned).collect())
}

pub(crate) fn changes(came: &[&str], went: &[&str]) -> What {
    let names = |rows: &[&str]| rows.iter().copied().map(str::to_owned).collect();
    What::Changes(names(came), names(went))
}

pub(crate) fn whats(stage: &Stage) -> Vec<What> {
    stage.calls().into_iter().map(|call| call.what).collect()
}

#[tokio::test(start_paused = true)]
async fn s01_s02_s03_first_export_refreshes_and_a_change_inside_the_interval() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(5_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
    let report = stage.report();
    assert_eq!(report.lanes[0].state, LaneState::InStep);
    let export = report.lanes[0].last_export.clone().expect("an export");
    assert_eq!(
        export.checksum,
        Some(report.survey.expect("a survey").checksum)
    );

    stage.put("r2", 1);
    stage.until(5_200).await;
    assert_eq!(whats(&stage), [changes(&["r2"], &[])]);

    stage.until(34_900).await;
    assert_eq!(whats(&stage), [], "not at 30");
    stage.until(100_000).await;
    assert_eq!(stage.seconds("pg"), [35, 65, 95], "a refresh is all rows");
}

#[tokio::test(start_paused = true)]
async fn s04_a_flip_flop_reaches_the_sink_both_times() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(5_000).await;
    stage.put("r2", 1);
    stage.until(6_000).await;
    stage.delete("r2");
    stage.until(7_000).await;
    let expected = [all(&["r1"]), changes(&["r2"], &[]), changes(&[], &["r2"])];
    assert_eq!(whats(&stage), expected);
}

#[tokio::test(start_paused = true)]
async fn s05_a_burst_is_two_exports_and_steady_churn_exports_every_second() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 0)]);
    stage.go();
    stage.until(5_000).await;
    stage.calls();
    for change in 0..100 {
        stage.put("r1", change + 1);
        stage
            .until(5_000 + u64::try_from(change).unwrap() * 40 / 100)
            .await;
    }
    stage.until(5_001).await;
    // The contract's S05 has one export, 50 ms after the last change. Here the first change does not
    // wait for company, and the others are gathered behind it.
    let calls = stage.calls();
    assert_eq!(calls[0].at, 5_000, "at once");
    stage.until(6_000).await;
    assert_eq!(calls.len() + stage.calls().len(), 2);

    for change in 0..1_000_u64 {
        stage.put("r1", 1_000 + i64::try_from(change).unwrap());
        stage.until(6_000 + change * 10).await;
    }
    let calls: Vec<u64> = stage.calls().iter().map(|call| call.at).collect();
    assert!((8..=12).contains(&calls.len()), "{calls:?}");
    let gaps = calls.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.max().unwrap() <= 1_200, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_after_a_quiet_moment_goes_out_at_once() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 0)]);
    stage.go();
    stage.until(5_000).await;
    stage.calls();
    for change in 1..=5 {
        stage.put("r1", change);
        let due = 5_000 + u64::try_from(change).unwrap() * 200;
        stage.until(due).await;
    }
    let calls: Vec<u64> = stage.calls().iter().map(|call| call.at).collect();
    assert_eq!(calls, [5_000, 5_200, 5_400, 5_600, 5_800]);
}

#[tokio::test(start_paused = true)]
async fn changes_under_churn_are_gathered_for_the_change_interval() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE).change_interval = Duration::from_secs(30);
    stage.listed(&[("r1", 0)]);
    stage.go();
    stage.until(60_000).await;
    stage.calls();
    for change in 1..=300_i64 {
        stage.put("r1", change);
        let due = 60_000 + u64::try_from(change).unwrap() * 1_000;
        stage.until(due).await;
    }
    stage.until(400_000).await;
    let calls = stage.calls();
    let at: Vec<u64> = calls.iter().map(|call| call.at).collect();
    assert_eq!(at[0], 60_000, "the first at once");
    assert!((10..=11).contains(&at.len()), "{at:?}");
    assert!(at.windows(2).all(|two| two[1] - two[0] >= 30_000), "{at:?}");
    assert_eq!(stage.report().lanes[0].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn s06_s07_s11_intervals() {
    let mut stage = Stage::new();
    stage.sink("change", ON_CHANGE);
    stage.sink("often", Duration::from_millis(500));
    stage.sink("hourly", Duration::from_hours(1));
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(10_000).await;
    let calls = stage.calls();
    let of = |name| calls.iter().filter(|call| call.sink == name).count();
    assert_eq!((of("change"), of("hourly")), (1, 1));
    assert!((9..=10).contains(&of("often")), "at most once a second");

    stage.until(7_300_000).await;
    let calls = stage.calls();
    let of = |name| calls.iter().filter(|call| call.sink == name).count();
    assert_eq!((of("change"), of("hourly")), (0, 2));
    stage.put("r2", 1);
    stage.until(7_300_200).await;
    let changed = stage.calls();
    for sink in ["change", "often", "hourly"] {
        let known = |call: &&crate::stage::Call| call.sink == sink;
        let call = changed
            .iter()
            .find(known)
            .expect("every sink gets a change at once");
        assert_eq!(call.what, changes(&["r2"], &[]));
    }
}

#[tokio::test(start_paused = true)]
async fn s14_s15_failures_are_retried_alone_and_later_each_time() {
    let mut stage = Stage::new();
    stage.sink("git", D);
    stage.sink("pg", D);
    stage.mood("pg", Mood::Fails(SinkError::transient("conn refused")));
    stage.listed(&[("r1", 1)]);
    let begun = Timestamp::now();
    stage.go();
    stage.until(1_000).await;
    let report = stage.report();
    assert_eq!(report.lanes[0].state, LaneState::InStep);
    let LaneState::Failed {
        error,
        in_a_row: 1,
        next: Some(next),
    } = report.lanes[1].state.clone()
    else {
        panic!("{report:?}");
    };
    assert_eq!(error, SinkError::transient("conn refused"));
    let told = next.duration_since(begun).as_secs();
    stage.until(29_000).await;
    let calls = stage.calls();
    let second = calls.iter().filter(|call| call.sink == "pg").nth(1);
    let second = second.expect("a second try").at / 1_000;
    // The clock of the exporter is not turned by the test: it may be a moment further.
    let late = told - i64::try_from(second).expect("short");
    assert!((-1..=2).contains(&late), "C17: {told} s, was {second} s");
    let tries: Vec<u64> = calls
        .iter()
        .filter(|call| call.sink == "pg")
        .map(|call| call.at / 1_000)
        .collect();
    // 0, then 5, 10 and 20 s apart, give or take a fifth.
    assert_eq!(tries.len(), 3, "{tries:?}");
    assert!(
        (4..=6).contains(&tries[1]) && (12..=18).contains(&tries[2]),
        "{tries:?}"
    );
    stage.mood("pg", Mood::Fine);
    stage.until(45_000).await;
    assert_eq!(stage.report().lanes[1].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn s16_terminal_failures_wait_for_a_change_or_an_hour() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.mood("pg", Mood::Fails(SinkError::terminal("bad table")));
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(600_000).await;
    assert_eq!(stage.calls().len(), 1);
    stage.put("r2", 1);
    stage.until(601_000).await;
    assert_eq!(stage.calls().len(), 0, "changed rows do not repair a table");
    stage.mood("pg", Mood::Fine);
    stage.order.deliver[0].configuration = Configuration(2);
    stage.go();
    stage.until(601_500).await;
    assert_eq!(whats(&stage), [all(&["r1", "r2"])]);
}

/// S23, the part about a fault inside a sink: it is that sink's failure, others go on, it is noticed,
/// and it is tried again as any failure is.
#[tokio::test(start_paused = true)]
async fn s23_a_panic_is_a_failure_of_that_sink() {
    let mut stage = Stage::new();
    stage.sink("fine", ON_CHANGE);
    stage.sink("pg", ON_CHANGE);
    stage.mood("pg", Mood::Panics);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    stage.put("r2", 1);
    stage.until(2_000).await;
    let report = stage.report();
    assert_eq!(report.lanes[0].state, LaneState::InStep);
    let LaneState::Failed {
        error, in_a_row: 1, ..
    } = &report.lanes[1].state
    else {
        panic!("{report:?}");
    };
    assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
    assert_eq!(*stage.told.panics.lock().unwrap(), [ExportTask::Call]);
    let calls = stage.calls();
    let of = |name| {
        let calls = calls.iter().filter(move |call| call.sink == name);
        calls.map(|call| &call.what).collect::<Vec<_>>()
    };
    let (first, second) = (all(&["r1"]), changes(&["r2"], &[]));
    assert_eq!(of("fine"), [&first, &second], "others are none the worse");
    assert_eq!(of("pg"), [&first], "the change waits for the next attempt");
    stage.mood("pg", Mood::Fine);
    stage.until(10_000).await;
    assert_eq!(whats(&stage), [all(&["r1", "r2"])]);
    assert_eq!(stage.report().lanes[1].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn s30_the_last_row_goes_everywhere() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.sink("s3", D);
    stage.writes_documents("s3");
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(10_000).await;
    stage.calls();
    stage.delete("r1");
    stage.until(10_200).await;
    let calls = stage.calls();
    let of = |name: &str| &calls.iter().find(|call| call.sink == name).unwrap().what;
    assert_eq!(of("pg"), &changes(&[], &["r1"]));
    assert_eq!(of("s3"), &all(&[]), "an empty document");
}

#[tokio::test(start_paused = true)]
async fn s36_nothing_leaves_before_the_first_listing_has_ended() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.go();
    stage.put("r1", 1);
    stage.until(8_000).await;
    assert_eq!(whats(&stage), []);
    assert!(stage.report().waiting_for.is_some());
    stage.listed(&[("r1", 1), ("r2", 1)]);
    stage.until(8_200).await;
    assert_eq!(whats(&stage), [all(&["r1", "r2"])]);
}

#[tokio::test(start_paused = true)]
async fn s36_a_restart_trusts_a_fresh_status_and_nothing_else() {
    // What the rows' checksum is, from an exporter that ran before.
    let checksum = {
        let mut stage = Stage::new();
        stage.listed(&[("r1", 1)]);
        stage.go();
        stage.until(1_000).await;
        stage.report().survey.expect("a survey").checksum
    };
    // Interval, checksum, age of the export, calls within the first second.
    let cases = [
        (D, &*checksum, 10, 0),
        (D, &*checksum, 40, 1),
        (D, "another", 10, 1),
        (ON_CHANGE, &*checksum, 10, 1),
        (Duration::from_hours(24), &*checksum, 10, 1),
    ];
    for (interval, checksum, age, expected) in cases {
        let mut stage = Stage::new();
        stage.sink("pg", interval).resume = Some(resumed(checksum, age));
        stage.listed(&[("r1", 1)]);
        stage.go();
        stage.until(1_000).await;
        let calls = whats(&stage);
        assert_eq!(calls.len(), expected, "{interval:?} {age} {calls:?}");
        // What an earlier process delivered is no base for a delta.
        stage.put("r2", 1);
        stage.until(1_500).await;
        let last = whats(&stage).pop().expect("a change is delivered");
        let whole = all(&["r1", "r2"]);
        assert_eq!(last == whole, expected == 0, "{interval:?} {age} {last:?}");
    }
}

/// A stream knows itself what it holds: it is asked at every start, whatever a status says, and at
/// every refresh; in between it gets what changed.
#[tokio::test(start_paused = true)]
async fn a_stream_is_compared_at_every_start_and_refresh() {
    let checksum = {
        let mut stage = Stage::new();
        stage.listed(&[("r1", 1)]);
        stage.go();
        stage.until(1_000).await;
        stage.report().survey.expect("a survey").checksum
    };
    for interval in [D, ON_CHANGE] {
        let mut stage = Stage::new();
        stage.sink("stream", interval).resume = Some(resumed(&checksum, 10));
        stage.demands("stream", Demand::Stream);
        stage.listed(&[("r1", 1)]);
        stage.go();
        stage.until(1_000).await;
        assert_eq!(whats(&stage), [all(&["r1"])], "{interval:?}");
        stage.put("r2", 1);
        stage.until(2_000).await;
        let change = What::Changes(vec!["r2".to_owned()], Vec::new());
        assert_eq!(whats(&stage).last(), Some(&change), "{interval:?}");
        stage.until(40_000).await;
        let refreshed = whats(&stage).last() == Some(&all(&["r1", "r2"]));
        assert_eq!(refreshed, !interval.is_zero(), "{interval:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_slow_export_are_one_delta_afterwards() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    stage.mood("pg", Mood::Slow(Duration::from_secs(20)));
    stage.put("r1", 2);
    stage.until(2_000).await;
    stage.calls();
    for change in 3..50 {
        stage.put("r1", change);
        stage.put(&format!("x{change}"), 1);
        stage.delete(&format!("x{change}"));
        stage
            .until(2_000 + u64::try_from(change).unwrap() * 100)
            .await;
    }
    stage.put("r2", 1);
    stage.mood("pg", Mood::Fine);
    stage.until(30_000).await;
    assert_eq!(whats(&stage), [changes(&["r1", "r2"], &[])]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_lost_its_place_gets_all_rows_at_once() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    stage.calls();
    stage.mood(
        "pg",
        Mood::Fails(SinkError::OutOfStep("the table is another".to_owned())),
    );
    stage.put("r2", 1);
    stage.until(1_060).await;
    stage.mood("pg", Mood::Fine);
    stage.until(10_000).await;
    let calls = whats(&stage);
    assert_eq!(calls.first(), Some(&changes(&["r2"], &[])));
    assert_eq!(calls.last(), Some(&all(&["r1", "r2"])));
    assert_eq!(stage.report().lanes[0].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_given_up_after_the_deadline() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.mood("pg", Mood::Slow(Duration::from_hours(5)));
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(121_000).await;
    let LaneState::Failed { error, .. } = stage.report().lanes[0].state.clone() else {
        panic!("{:?}", stage.report());
    };
    assert!(error.message().contains("did not finish"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_held_sink_gets_nothing_and_catches_up() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    let ready = stage.order.deliver[0].source.clone();
    stage.order.deliver[0].source = Source::Held(SinkError::transient("not verified"));
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(10_000).await;
    assert_eq!(whats(&stage), []);
    stage.order.deliver[0].source = ready;
    stage.go();
    stage.until(10_200).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_no_longer_named_is_cleaned_up_after_its_last_delivery() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.mood("pg", Mood::Slow(Duration::from_secs(5)));
    stage.go();
    stage.until(1_000).await;
    stage.order.deliver.clear();
    stage.order.retire = vec![sink_order("pg", ON_CHANGE)];
    stage.go();
    stage.until(4_000).await;
    assert_eq!(
        whats(&stage),
        [all(&["r1"])],
        "the delivery is still under way"
    );
    stage.mood("pg", Mood::Fails(SinkError::transient("gone")));
    stage.until(6_000).await;
    assert_eq!(whats(&stage), [What::Retire]);
    assert!(matches!(
        stage.report().retiring[0].state,
        RetireState::Failed(_)
    ));
    stage.mood("pg", Mood::Fine);
    stage.until(20_000).await;
    assert_eq!(whats(&stage), [What::Retire]);
    assert_eq!(stage.report().retiring[0].state, RetireState::Done);
}

#[tokio::test(start_paused = true)]
async fn a_closed_inventory_exports_nothing() {
    let mut stage = Stage::new();
    stage.sink("pg", D);
    stage.order.open = false;
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(100_000).await;
    assert_eq!(whats(&stage), []);
    stage.order.open = true;
    stage.go();
    stage.until(100_100).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
}
