//! Timelines of the contract about what people do to inventories and sinks: edited, created again,
//! deleted; and changes that reach rollups.

use std::{sync::Arc, time::Duration};

use kollect_export::{Configuration, order::Source, report::RetireState};
use kollect_sinks::SinkError;

use crate::{
    stage::{Mood, Stage, What, sink_order},
    timelines::{all, changes, whats},
};

const D: Duration = Duration::from_secs(30);
const ON_CHANGE: Duration = Duration::ZERO;

/// Nothing but the inventory's spec changes: all sinks get all rows at once, as the new generation.
#[tokio::test(start_paused = true)]
async fn s10_an_edited_inventory_goes_to_all_sinks_at_once() {
    let mut stage = Stage::new();
    stage.sink("git", D);
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(10_000).await;
    stage.calls();
    stage.backends.generations.lock().unwrap().clear();
    stage.order.generation = 2;
    for sink in &mut stage.order.deliver {
        sink.configuration = Configuration(2);
    }
    stage.go();
    stage.until(10_200).await;
    assert_eq!(whats(&stage), [all(&["r1"]), all(&["r1"])]);
    let mut generations = stage.backends.generations.lock().unwrap().clone();
    generations.sort();
    assert_eq!(generations, [("git".to_owned(), 2), ("pg".to_owned(), 2)]);
    // The interval counts from there.
    stage.until(39_000).await;
    assert_eq!(whats(&stage), []);
    stage.until(41_000).await;
    assert_eq!(stage.seconds("git"), [40]);
}

/// Another table: the sink is opened anew and gets all rows at once, although none has changed.
#[tokio::test(start_paused = true)]
async fn s13_an_edited_sink_is_opened_anew_and_gets_all_rows_at_once() {
    let mut stage = Stage::new();
    stage.sink("other", ON_CHANGE);
    stage.sink("pg", ON_CHANGE);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(10_000).await;
    stage.calls();
    stage.backends.opened.lock().unwrap().clear();
    let order = &mut stage.order.deliver[1];
    order.configuration = Configuration(2);
    let Source::Ready(source) = &mut order.source else {
        panic!("{order:?}");
    };
    Arc::make_mut(source).version = 2;
    stage.go();
    stage.until(10_200).await;
    let calls = stage.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!((&*calls[0].sink, &calls[0].what), ("pg", &all(&["r1"])));
    let opened = stage.backends.opened.lock().unwrap().clone();
    assert_eq!(opened, [("pg".to_owned(), 2)]);
}

/// What was removed from a sink is delivered again, although the rows are the same: to an inventory
/// that was created again, and to a reference that was taken out and put back.
#[tokio::test(start_paused = true)]
async fn s35_what_was_removed_is_delivered_again_at_once() {
    for created_again in [true, false] {
        let mut stage = Stage::new();
        stage.sink("pg", ON_CHANGE);
        stage.listed(&[("r1", 1)]);
        stage.go();
        stage.until(1_000).await;
        stage.order.open = !created_again;
        stage.order.retire = std::mem::take(&mut stage.order.deliver);
        stage.go();
        stage.until(2_000).await;
        assert_eq!(whats(&stage), [all(&["r1"]), What::Retire]);
        stage.order.open = true;
        stage.order.deliver = std::mem::take(&mut stage.order.retire);
        if created_again {
            stage.stopped().await;
            // Its uid is another one.
            stage.order.deliver[0].configuration = Configuration(2);
        }
        stage.until(5_000).await;
        stage.go();
        stage.until(5_200).await;
        assert_eq!(whats(&stage), [all(&["r1"])], "{created_again}");
    }
}

/// A deleted inventory, suspended or not: every sink is asked once to let go, and gets nothing else.
/// What that means there is the sink's own business: a database removes the rows, a repository
/// keeps its files unless told otherwise.
#[tokio::test(start_paused = true)]
async fn s33_a_deleted_inventory_is_one_call_to_each_sink() {
    let mut stage = Stage::new();
    stage.sink("git", D);
    stage.sink("pg", D);
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(1_000).await;
    stage.calls();
    stage.order.open = false;
    stage.order.retire = std::mem::take(&mut stage.order.deliver);
    stage.go();
    stage.put("r2", 1);
    stage.until(600_000).await;
    let calls = stage.calls();
    let calls: Vec<_> = calls.iter().map(|call| (&*call.sink, &call.what)).collect();
    assert_eq!(calls, [("git", &What::Retire), ("pg", &What::Retire)]);
    let retiring = stage.report().retiring;
    assert_eq!(retiring.len(), 2);
    assert!(retiring.iter().all(|sink| sink.state == RetireState::Done));
}

/// A clean-up that fails is tried again, later each time. The original gives up for ever on a
/// terminal failure, with the object in its way; here whoever waits has a limit of patience, and
/// what seemed final may be repaired meanwhile.
#[tokio::test(start_paused = true)]
async fn s34_a_clean_up_that_fails_is_tried_again_whatever_the_class() {
    for error in [
        SinkError::transient("away"),
        SinkError::terminal("no table"),
    ] {
        let mut stage = Stage::new();
        stage.order.open = false;
        stage.order.retire = vec![sink_order("pg", ON_CHANGE)];
        stage.mood("pg", Mood::Fails(error.clone()));
        stage.go();
        stage.until(1_000).await;
        let state = stage.report().retiring[0].state.clone();
        assert_eq!(state, RetireState::Failed(error));
        stage.until(29_000).await;
        let tries = stage.seconds("pg");
        // 0, then 5, 10 and 20 s apart, give or take a fifth.
        assert_eq!(tries.len(), 3, "{tries:?}");
        assert!((4..=6).contains(&tries[1]), "{tries:?}");
        assert!((12..=18).contains(&tries[2]), "{tries:?}");
        stage.mood("pg", Mood::Fine);
        stage.until(600_000).await;
        assert_eq!(whats(&stage), [What::Retire], "once it works, once");
        assert_eq!(stage.report().retiring[0].state, RetireState::Done);
    }
}

/// A rollup follows its rows as any inventory does, whatever its interval.
#[tokio::test(start_paused = true)]
async fn s39_a_change_reaches_the_sinks_of_a_rollup_at_once() {
    let mut stage = Stage::of_a_rollup();
    stage.sink("pg", Duration::from_mins(10));
    stage.listed(&[("r1", 1)]);
    stage.go();
    stage.until(60_000).await;
    assert_eq!(whats(&stage), [all(&["r1"])]);
    stage.put("r1", 2);
    stage.until(60_200).await;
    assert_eq!(whats(&stage), [changes(&["r1"], &[])]);
    stage.until(600_000).await;
    assert_eq!(whats(&stage), [], "the interval counts from the change");
}
