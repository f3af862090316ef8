//! Writes that hang, fail, panic and come too often.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::{sync::oneshot, time::sleep};

use super::*;

type Queue = WriteQueue<&'static str, u8>;

fn queue() -> Queue {
    WriteQueue::new(WriteSlots::default())
}

fn refused(code: u16) -> WriteError {
    let status = kube::core::Status {
        code,
        ..Default::default()
    };
    WriteError::Refused(kube::Error::Api(Box::new(status)))
}

async fn next(queue: &mut Queue) -> (&'static str, Option<u8>) {
    let ended = queue.next().await;
    (ended.key, ended.result.ok())
}

async fn is_idle(queue: &mut Queue) -> bool {
    timeout(Duration::from_millis(20), queue.next())
        .await
        .is_err()
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_holds_up_nobody_else() {
    let mut writes = queue();
    let (release, hangs) = oneshot::channel::<()>();
    writes.submit("slow", None, async move {
        let _ = hangs.await;
        Ok(0)
    });
    writes.submit("fast", None, async { Ok(1) });
    assert_eq!(next(&mut writes).await, ("fast", Some(1)));
    assert!(writes.defer(&"slow") && !writes.defer(&"fast"));
    release.send(()).unwrap();
    assert_eq!(next(&mut writes).await, ("slow", Some(0)));
    assert!(is_idle(&mut writes).await, "there is nothing to wait for");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_failure_of_one_write() {
    let mut writes = queue();
    let begun = Instant::now();
    writes.submit("bad", None, async { panic!("a panic for the test") });
    let ended = writes.next().await;
    assert!(matches!(ended.result, Err(WriteError::Panicked)));
    writes.submit("bad", None, async { Ok(2) });
    assert_eq!(next(&mut writes).await, ("bad", Some(2)));
    assert!(begun.elapsed() >= Duration::from_millis(800), "it waited");
}

#[tokio::test(start_paused = true)]
async fn only_some_run_at_once_whichever_queue_they_are_in() {
    let slots = WriteSlots::default();
    let running = Arc::new(AtomicUsize::new(0));
    let run = |slots: WriteSlots| {
        let running = Arc::clone(&running);
        async move {
            let mut writes = WriteQueue::new(slots);
            for key in 0..4 * PARALLEL {
                let running = Arc::clone(&running);
                writes.submit(key, None, async move {
                    let others = running.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_millis(5)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok(others)
                });
            }
            for _ in 0..4 * PARALLEL {
                let others = writes.next().await.result.unwrap();
                assert!(others < PARALLEL, "{others} others were under way");
            }
        }
    };
    let both = async { tokio::join!(run(slots.clone()), run(slots)) };
    let ended = timeout(Duration::from_secs(1), both).await;
    assert!(ended.is_ok(), "nobody waits for a slot for ever");
}

#[tokio::test(start_paused = true)]
async fn the_newest_content_wins_while_it_waits() {
    let mut writes = queue();
    writes.submit("object", None, async { Err(refused(500)) });
    assert_eq!(next(&mut writes).await, ("object", None));
    writes.submit("object", None, async { Ok(1) });
    writes.submit("object", None, async { Ok(2) });
    assert_eq!(next(&mut writes).await, ("object", Some(2)));
    assert!(is_idle(&mut writes).await, "one write is enough");

    writes.submit("object", None, async { Err(refused(500)) });
    assert_eq!(next(&mut writes).await, ("object", None));
    writes.submit("object", None, async { Ok(3) });
    writes.withdraw(&"object");
    let nothing = timeout(Duration::from_mins(10), writes.next()).await;
    assert!(nothing.is_err(), "it was withdrawn");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_during_a_write_is_computed_anew() {
    let mut writes = queue();
    let (release, hangs) = oneshot::channel::<()>();
    writes.submit("object", None, async move {
        let _ = hangs.await;
        Ok(1)
    });
    writes.submit("object", None, async { Ok(2) });
    release.send(()).unwrap();
    let ended = writes.next().await;
    assert_eq!((ended.result.unwrap(), ended.superseded), (1, true));
    assert!(is_idle(&mut writes).await);
    writes.submit("object", None, async { Ok(3) });
    let ended = writes.next().await;
    assert_eq!((ended.result.unwrap(), ended.superseded), (3, false));
}

#[tokio::test(start_paused = true)]
async fn a_new_version_ends_the_wait_of_an_outdated_write() {
    for (code, version, at_once) in [
        (409, "8", true),
        (404, "8", true),
        (409, "7", false),
        (500, "8", false),
    ] {
        let mut writes = queue();
        let based_on = |version: &str| Some(version.to_owned());
        writes.submit("object", based_on("7"), async move { Err(refused(code)) });
        assert_eq!(next(&mut writes).await, ("object", None));
        let failed = Instant::now();
        writes.submit("object", based_on(version), async { Ok(1) });
        assert_eq!(next(&mut writes).await, ("object", Some(1)));
        let waited = failed.elapsed() >= Duration::from_millis(800);
        assert_eq!(waited, !at_once, "{code} {version}");
    }
}

/// A loop that asks again as soon as it is told of the failure.
#[tokio::test(start_paused = true)]
async fn c1_a_write_that_always_fails_is_tried_a_few_times_in_the_first_minute() {
    for code in [403, 404, 409, 422, 500] {
        let mut writes = queue();
        let mut tried = 0;
        let minute = async {
            loop {
                writes.submit("object", None, async move { Err(refused(code)) });
                writes.next().await;
                tried += 1;
            }
        };
        let _ = timeout(Duration::from_mins(1), minute).await;
        assert!((5..=7).contains(&tried), "{tried} times for {code}");
    }
}
