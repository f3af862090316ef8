//! Panics, failures before a call, and calls that meet: all of it stays where it happened.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use kollect_api::inventory::Dedupe;
use kollect_collect::store::{RowSelection, Store};
use kollect_export::{
    ExportTask,
    order::Source,
    report::{LaneState, RetireState},
    survey::Survey,
};
use kollect_sinks::SinkError;

use crate::{
    stage::{Mood, Stage, What, resumed, sink_order},
    timelines::{all, changes, whats},
};

const ON_CHANGE: Duration = Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn an_opening_that_panics_is_a_failure_of_that_sink() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.sink("fine", ON_CHANGE);
    stage.mood("pg", Mood::OpeningPanics);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    let report = stage.report();
    let LaneState::Failed { error, .. } = &report.lanes[0].state else {
        panic!("{report:?}");
    };
    assert!(error.message().contains("a panic"), "{error}");
    assert_eq!(report.lanes[1].state, LaneState::InStep);
    assert_eq!(*stage.told.panics.lock().unwrap(), [ExportTask::Call]);
    stage.mood("pg", Mood::Fine);
    stage.until(10_000).await;
    assert_eq!(stage.report().lanes[0].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn a_failure_before_the_call_is_counted() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    let error = SinkError::terminal("no such key");
    stage.mood("pg", Mood::NotOpened(error.clone()));
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    assert_eq!(stage.told.failed.load(Ordering::SeqCst), 1);
    assert_eq!(stage.told.delivered.load(Ordering::SeqCst), 0);
    let report = stage.report();
    let LaneState::Failed {
        error: told,
        in_a_row: 1,
        ..
    } = &report.lanes[0].state
    else {
        panic!("{report:?}");
    };
    assert_eq!(*told, error);
    assert_eq!(whats(&stage), []);
}

static SURVEYS: AtomicU32 = AtomicU32::new(0);

fn panics_thrice(
    store: &Store,
    scope: &RowSelection,
    dedupe: Dedupe,
    sizes: &[Option<NonZeroU64>],
) -> Survey {
    let before = SURVEYS.fetch_add(1, Ordering::SeqCst);
    assert!(before >= 3, "a survey panics");
    Survey::take(store, scope, dedupe, sizes)
}

#[tokio::test(start_paused = true)]
async fn c3_a_survey_that_panics_is_noticed_and_tried_again_later_each_time() {
    let mut stage = Stage::new();
    stage.surveyed_by(panics_thrice);
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    // 5, 10 and 20 s apart, give or take a fifth.
    for (second, surveys) in [(1, 1), (3, 1), (7, 2), (9, 2), (20, 3), (24, 3), (45, 4)] {
        stage.until(second * 1_000).await;
        assert_eq!(SURVEYS.load(Ordering::SeqCst), surveys, "after {second} s");
    }
    assert_eq!(*stage.told.panics.lock().unwrap(), [ExportTask::Survey; 3]);
    let report = stage.report();
    assert_eq!(report.survey.expect("a survey at last").rows, 1);
    assert_eq!(report.lanes[0].state, LaneState::InStep, "exports went on");
}

#[tokio::test(start_paused = true)]
async fn c3_an_exporter_that_panics_is_noticed_and_begun_anew() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go_kept();
    stage.until(1_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
    // A row that comes and goes while changes are gathered is told as debounced.
    stage.told.panics_next.store(true, Ordering::SeqCst);
    stage.put("x", 1);
    stage.delete("x");
    stage.until(1_500).await;
    assert_eq!(*stage.told.panics.lock().unwrap(), [ExportTask::Exporter]);
    assert_eq!(whats(&stage), []);
    stage.put("r2", 1);
    stage.until(3_000).await;
    assert_eq!(
        whats(&stage),
        [all(&["r1", "r2"])],
        "nothing is taken on trust"
    );
    stage.put("r3", 1);
    stage.until(4_000).await;
    assert_eq!(whats(&stage), [changes(&["r3"], &[])]);
}

#[tokio::test(start_paused = true)]
async fn a_lane_knows_what_the_sink_wants_before_it_trusts_a_status() {
    // The digest of the documents, which is not the checksum of the rows.
    let (rows, documents) = {
        let mut stage = Stage::new();
        stage.sink("s3", Duration::from_mins(5));
        stage.writes_documents("s3");
        stage.listed(&[("r1", 1)]);
        stage.go();
        stage.until(1_000).await;
        let report = stage.report();
        let export = report.lanes[0].last_export.clone().expect("an export");
        let survey = report.survey.expect("a survey");
        (survey.checksum, export.checksum.expect("a checksum"))
    };
    assert_ne!(rows, documents);
    let mut stage = Stage::new();
    stage.sink("s3", Duration::from_mins(5)).resume = Some(resumed(&documents, 10));
    stage.writes_documents("s3");
    let ready = stage.order.deliver[0].source.clone();
    stage.order.deliver[0].source = Source::Reading;
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(10_000).await;
    stage.order.deliver[0].source = ready;
    stage.go();
    stage.until(100_000).await;
    assert_eq!(whats(&stage), [], "the sink holds just that");
    assert_eq!(stage.report().lanes[0].state, LaneState::InStep);
}

#[tokio::test(start_paused = true)]
async fn b11_a_reference_that_comes_back_waits_for_its_clean_up() {
    let mut stage = Stage::new();
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
    stage.mood("pg", Mood::Slow(Duration::from_secs(5)));
    let deliver = std::mem::take(&mut stage.order.deliver);
    stage.order.retire = vec![sink_order("pg", ON_CHANGE)];
    stage.go();
    stage.until(2_000).await;
    assert_eq!(whats(&stage), [What::Retire]);
    stage.order.deliver = deliver;
    stage.order.retire.clear();
    stage.mood("pg", Mood::Fine);
    stage.go();
    stage.until(5_000).await;
    assert_eq!(whats(&stage), [], "the clean-up is under way");
    stage.until(7_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])], "as soon as it has ended");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_exporter_does_not_wait_for_turns() {
    let mut stage = Stage::with_permits(1);
    for sink in ["a", "b", "c"] {
        stage.sink(sink, ON_CHANGE);
        stage.mood(sink, Mood::Slow(Duration::from_secs(10)));
    }
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    let begun = stage.calls().len();
    assert!(begun < 3, "somebody waits");
    stage.stopped().await;
    assert_eq!(stage.calls().len(), 0, "nothing begins after the end");
    let (waiting, under_way) = stage.calls.permits.load();
    assert_eq!((waiting, under_way), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_a_lane_waited_for_its_turn_is_delivered_with_it() {
    let mut stage = Stage::with_permits(1);
    // Of two namespaces: the second waits until the first becomes a slow one.
    stage.mood("slow", Mood::Hangs);
    stage.sink_of("team-a", "slow");
    stage.sink_of("team-a", "second");
    stage.sink_of("team-b", "third");
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    stage.calls();
    stage.put("r2", 1);
    stage.order.deliver.remove(1);
    stage.go();
    stage.until(5_000).await;
    let calls = stage.calls();
    let reached: Vec<_> = calls.iter().map(|call| (&*call.sink, &call.what)).collect();
    assert_eq!(reached, [("third", &all(&["r1", "r2"]))]);
    assert!(
        stage
            .report()
            .retiring
            .iter()
            .all(|r| r.state != RetireState::Done)
    );
}
