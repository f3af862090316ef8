use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::time::{sleep, timeout};

use super::*;

/// Counts itself while it is open.
struct Line {
    opened: Instant,
    open: Arc<AtomicUsize>,
}

impl Connection for Line {
    fn opened(&self) -> Instant {
        self.opened
    }

    fn is_closed(&self) -> bool {
        false
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

const LIMITS: Limits = Limits {
    connections: 2,
    lifetime: Duration::from_hours(1),
    idle: Duration::from_mins(1),
};

type Lines = Registry<&'static str, Line>;

async fn lease(member: &Member<Line>, open: &Arc<AtomicUsize>) -> Lease<Line> {
    let connect = async {
        open.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(Line {
            opened: Instant::now(),
            open: Arc::clone(open),
        })
    };
    let Ok(lease) = member.lease(connect).await;
    lease
}

#[tokio::test(start_paused = true)]
async fn f1_equal_identities_share_connections_and_others_do_not() {
    let (lines, open) = (Lines::new(), Arc::new(AtomicUsize::new(0)));
    let (a, b) = ("a".into(), "b".into());
    let members = [
        lines.join("db as app", LIMITS, &a),
        lines.join("db as app", LIMITS, &b),
        lines.join("db as other", LIMITS, &a),
    ];
    for member in &members {
        lease(member, &open).await.give_back();
    }
    assert_eq!(open.load(Ordering::SeqCst), 2);
    assert!(lease(&members[1], &open).await.reused);
    assert_eq!(open.load(Ordering::SeqCst), 1, "dropped midway: closed");
    // The pool goes with its last member, and what is idle with it.
    drop(members);
    assert_eq!(open.load(Ordering::SeqCst), 0);
    let again = lines.join("db as app", LIMITS, &a);
    assert!(!lease(&again, &open).await.reused);
    assert_eq!(lock(&lines.0).len(), 1, "identities are forgotten");
}

#[tokio::test(start_paused = true)]
async fn f1_idle_connections_close_by_themselves() {
    let (lines, open) = (Lines::new(), Arc::new(AtomicUsize::new(0)));
    let member = lines.join("db", LIMITS, &"a".into());
    let (one, two) = (lease(&member, &open).await, lease(&member, &open).await);
    one.give_back();
    sleep(Duration::from_secs(40)).await;
    two.give_back();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(open.load(Ordering::SeqCst), 1, "the first one");
    sleep(Duration::from_secs(40)).await;
    assert_eq!(open.load(Ordering::SeqCst), 0);
    lease(&member, &open).await.give_back();
    sleep(Duration::from_secs(70)).await;
    assert_eq!(open.load(Ordering::SeqCst), 0, "every time");
}

#[tokio::test(start_paused = true)]
async fn f1_a_place_is_kept_for_the_call_that_waited_for_it() {
    let (lines, open) = (Lines::new(), Arc::new(AtomicUsize::new(0)));
    let member = lines.join("db", LIMITS, &"a".into());
    let other = lines.join("db", LIMITS, &"a".into());
    let places = [member.place().await, member.place().await];
    let soon = Duration::from_secs(5);
    assert!(timeout(soon, lease(&other, &open)).await.is_err(), "full");
    let used = timeout(soon, lease(&member, &open)).await.expect("kept");
    // The end of one call takes nothing from the next.
    let [first, second] = places;
    drop(first);
    assert!(timeout(soon, other.place()).await.is_err(), "still kept");
    drop(second);
    let second = timeout(soon, lease(&other, &open)).await.expect("free");
    assert!(timeout(soon, other.place()).await.is_err(), "full again");
    drop((used, second));
    assert!(timeout(soon, other.place()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn f1_a_connection_of_its_own_counts_as_the_others_do() {
    let (lines, open) = (Lines::new(), Arc::new(AtomicUsize::new(0)));
    let member = lines.join("db", LIMITS, &"a".into());
    let connect = async || {
        open.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(Line {
            opened: Instant::now(),
            open: Arc::clone(&open),
        })
    };
    let patience = Duration::from_secs(3);
    let (one, two) = (lease(&member, &open).await, lease(&member, &open).await);
    one.give_back();
    two.give_back();
    let Ok(alone) = member.alone(patience, connect()).await;
    assert_eq!(
        open.load(Ordering::SeqCst),
        2,
        "one of two idle ones had to go"
    );
    let used = lease(&member, &open).await;
    assert!(used.reused);
    assert_eq!(open.load(Ordering::SeqCst), 2);
    // It does not wait for ever: what it says matters to those who wait.
    let Ok(second) = member.alone(patience, connect()).await;
    assert_eq!(open.load(Ordering::SeqCst), 3);
    drop((alone.connection, second.connection, used));
}
