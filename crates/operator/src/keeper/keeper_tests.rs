//! Tasks that end, panic and stand still.

use std::sync::atomic::{AtomicU32, Ordering};

use kollect_api::condition::Condition;

use super::*;

#[tokio::test(start_paused = true)]
async fn c3_what_ends_or_panics_is_started_again_with_back_off() {
    let (keeper, stop) = (Keeper::default(), CancellationToken::new());
    let runs = Arc::new(AtomicU32::new(0));
    let kept = {
        let (keeper, stop, runs) = (keeper.clone(), stop.clone(), Arc::clone(&runs));
        tokio::spawn(async move {
            let make = || {
                let run = runs.fetch_add(1, Ordering::SeqCst);
                assert!(run != 0, "the making panics");
                async move {
                    assert!(run != 1, "the work panics");
                    if run > 3 {
                        std::future::pending::<()>().await;
                    }
                }
            };
            keeper.keep("example", &stop, make).await;
        })
    };
    // It is begun at 0, 1, 3, 7 and 15 s.
    for (after, count) in [
        (500, 1),
        (1_000, 2),
        (1_000, 2),
        (1_000, 3),
        (3_000, 3),
        (1_000, 4),
        (7_000, 4),
        (1_000, 5),
        (1_000_000, 5),
    ] {
        sleep(Duration::from_millis(after)).await;
        assert_eq!(runs.load(Ordering::SeqCst), count);
    }
    assert_eq!(keeper.restarts(), BTreeMap::from([("example", 4)]));
    assert!(!kept.is_finished());
    kept.abort();
}

#[tokio::test(start_paused = true)]
async fn c3_nothing_is_started_again_after_the_end() {
    let (keeper, stop) = (Keeper::default(), CancellationToken::new());
    stop.cancel();
    keeper.keep("example", &stop, || async {}).await;
    assert!(keeper.restarts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a11_idle_is_no_standstill_and_a_standstill_is_named() {
    let keeper = Keeper::default();
    let idle = {
        let keeper = keeper.clone();
        tokio::spawn(async move { keeper.pulsing("idle", std::future::pending::<()>()).await })
    };
    for _ in 0..100 {
        sleep(Duration::from_secs(37)).await;
        assert_eq!(keeper.stuck(), []);
    }
    // Time passes and nobody is polled.
    let later = |seconds| Instant::now() + Duration::from_secs(seconds);
    let stuck = keeper.stuck_at(later(75));
    assert_eq!(stuck.len(), 1);
    assert_eq!(stuck[0].task, "idle");
    assert!(stuck[0].since >= STANDS_STILL);
    assert_eq!(keeper.stuck_at(later(30)), [], "a missed beat is none");
    idle.abort();
    let _ = idle.await;
    let stuck = keeper.stuck_at(later(1_000));
    assert_eq!(stuck, [], "what has ended does not stand still");
}

#[tokio::test(start_paused = true)]
async fn a11_a_long_pass_that_gets_ahead_does_not_stand_still() {
    let (keeper, progress) = (Keeper::default(), Arc::new(AtomicU64::new(0)));
    let busy = {
        let (keeper, progress) = (keeper.clone(), Arc::clone(&progress));
        let work = std::future::pending::<()>();
        tokio::spawn(async move { keeper.pulsing_with("busy", progress, work).await })
    };
    sleep(Duration::from_secs(1)).await;
    let mut now = Instant::now();
    for _ in 0..10 {
        // Nobody polls it: it computes, and one profile after the other is done.
        now += Duration::from_secs(59);
        progress.fetch_add(1, Ordering::SeqCst);
        assert_eq!(keeper.stuck_at(now), []);
    }
    now += Duration::from_secs(61);
    let stuck = keeper.stuck_at(now);
    assert_eq!(stuck.len(), 1, "now it does not get ahead");
    busy.abort();
}

/// S23, the part about a fault inside a pass: it stays with its object, which is told of and looked
/// at again.
#[tokio::test(start_paused = true)]
async fn c3_s23_one_object_that_panics_is_told_of_and_rests_and_others_do_not() {
    let keeper = Keeper::default();
    let mut bulkhead = Bulkhead::new(keeper.clone(), "inventories");
    let key = |name: &str| name.to_owned();
    let (mut told, no_event) = (Vec::new(), |_: &Condition| panic!("nothing is to be told"));
    let good = bulkhead.attempt(&key("good"), || 1, no_event);
    assert_eq!(good, Attempt::Done(1));
    let bad = || -> u8 { panic!("bad: hunter2") };
    let panicked = bulkhead.attempt(&key("bad"), bad, |c| told.push(c.clone()));
    let Attempt::Panicked(at) = panicked else {
        panic!("{panicked:?}");
    };
    assert_eq!(at, Instant::now() + Duration::from_secs(1));
    let early = bulkhead.attempt(&key("bad"), || 1, no_event);
    assert_eq!(early, Attempt::Resting(at));
    let good = bulkhead.attempt(&key("good"), || 1, no_event);
    assert_eq!(good, Attempt::Done(1));
    sleep(Duration::from_secs(1)).await;
    let panicked = bulkhead.attempt(&key("bad"), bad, |c| told.push(c.clone()));
    let later = Instant::now() + Duration::from_secs(2);
    assert_eq!(panicked.again(), Some(later));
    sleep(Duration::from_secs(2)).await;
    let healed = bulkhead.attempt(&key("bad"), || 2, no_event);
    assert_eq!(healed, Attempt::Done(2));
    assert_eq!(keeper.restarts(), BTreeMap::from([("inventories", 2)]));
    let reasons: Vec<&str> = told.iter().map(|c| &*c.reason).collect();
    assert_eq!(reasons, ["ReconcilePanic"; 2]);
    assert!(told.iter().all(|c| !c.message.contains("hunter2")));
}

#[test]
fn waits_double_up_to_a_minute() {
    let waits = [0, 1, 2, 3, 6, 7, 8, u32::MAX].map(|failures| back_off(failures).as_secs());
    assert_eq!(waits, [1, 1, 2, 4, 32, 60, 60, 60]);
}
