//! Many writers and readers at once, with real threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kollect_collect::{
    gates::Version,
    plan::Plan,
    store::{Limits, RowSelection, Stamp, Store, Subscription, Taken},
};
use kollect_inventory::Snapshot;
use kollect_watch::WatchScope;

use crate::support::{add, key, plan, world, yaml};
use crate::writes::{MANIFESTS, attributes, object};

const WRITERS: u64 = 4;
const OBJECTS: u64 = 200;
const ROUNDS: u64 = 30;

fn home() -> RowSelection {
    RowSelection::Namespace("home".into())
}

fn two_targets() -> (Store, Plan) {
    let mut world = world(MANIFESTS);
    let second =
        "{kind: KollectTarget, metadata: {namespace: home, name: second}, spec: {profileRef: p}}";
    add(&mut world, yaml(second));
    let plan = plan(&Plan::new(), &mut world);
    let store = Store::new(
        Limits {
            pending_changes: 100,
        },
        || {},
    );
    store.apply(&plan, &plan.delta_from(&Plan::new()));
    for name in ["home/t", "home/second"] {
        let feed = store.feed(&key(name)).expect("the target collects");
        feed.begin_listing(WatchScope::All).finish(Version::new(1));
    }
    (store, plan)
}

/// Follows until `done`, and then until there is nothing left.
fn follow(subscription: &Subscription, done: &AtomicBool) -> Snapshot {
    let mut rows = Snapshot::default();
    let mut last = None;
    loop {
        let finished = done.load(Ordering::SeqCst);
        match subscription.take() {
            Taken::Waiting(_) => unreachable!("all targets are complete"),
            Taken::Nothing if finished => return rows,
            Taken::Nothing => thread::yield_now(),
            Taken::Everything(all, revision) => {
                assert!(last <= Some(revision));
                last = Some(revision);
                rows = all;
            }
            Taken::Changes(delta, revision) => {
                assert!(last < Some(revision));
                last = Some(revision);
                for change in delta.changes() {
                    assert_eq!(rows.get(change.identity()), change.before());
                }
                rows = rows.apply(&delta);
            }
        }
    }
}

#[test]
fn writers_and_readers_agree_in_the_end() {
    let (store, plan) = two_targets();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let subscription = store.subscribe(home(), || {});
            let done = Arc::clone(&done);
            thread::spawn(move || follow(&subscription, &done))
        })
        .collect();
    let epoch = plan.epoch();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            for target in ["home/t", "home/second"] {
                let feed = store.feed(&key(target)).expect("the target collects");
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        // Every writer has objects of its own, as if routed by uid.
                        for number in (0..OBJECTS).filter(|number| number % WRITERS == writer) {
                            let name = format!("web-{number}");
                            let object = object("team-a", &name, &name);
                            let version = Version::new(2 + round);
                            if (round + number).is_multiple_of(5) {
                                feed.delete(version, object);
                            } else {
                                let row = attributes((round * number) % 3);
                                feed.put(Stamp { epoch, version }, object, row.view());
                            }
                        }
                    }
                });
            }
        }
        // A third source lists again and again, and gives up.
        let feed = store.feed(&key("home/t")).expect("the target collects");
        scope.spawn(move || {
            for _ in 0..50 {
                drop(feed.begin_listing(WatchScope::All));
            }
        });
        scope.spawn(|| {
            for _ in 0..200 {
                let totals = store.totals();
                assert!(totals.rows <= 2 * usize::try_from(OBJECTS).expect("few"));
                store.summaries();
            }
        });
    });
    done.store(true, Ordering::SeqCst);
    let (rows, _) = store.snapshot(&home());
    let last = ROUNDS - 1;
    let expected = 2
        * (0..OBJECTS)
            .filter(|number| !(last + number).is_multiple_of(5))
            .count();
    assert_eq!(rows.len(), expected);
    assert_eq!(store.totals().rows, expected);
    for reader in readers {
        assert_eq!(reader.join().expect("it ends well"), rows);
    }
}

#[test]
fn targets_that_come_and_go_under_writers_leave_nothing() {
    let (store, first) = two_targets();
    let feed = store
        .feed(&key("home/second"))
        .expect("the target collects");
    let epoch = first.epoch();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (feed, stop) = (&feed, &stop);
            scope.spawn(move || {
                let mut version = 2;
                while !stop.load(Ordering::SeqCst) {
                    version += 1;
                    let name = format!("web-{writer}-{}", version % 50);
                    let object = object("team-a", &name, &name);
                    let stamp = Stamp {
                        epoch,
                        version: Version::new(version),
                    };
                    feed.put(stamp, object, attributes(version).view());
                }
            });
        }
        thread::sleep(std::time::Duration::from_millis(30));
        let next = plan(&first, &mut world(MANIFESTS));
        store.apply(&next, &next.delta_from(&first));
        // From here on nothing of the target can appear, although its writers go on.
        for _ in 0..50 {
            assert_eq!(store.snapshot(&home()).0.len(), 0);
            thread::yield_now();
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(store.totals().rows, 0);
}

#[test]
fn a_writer_that_panics_takes_nobody_with_it() {
    let (store, plan) = two_targets();
    let feed = store.feed(&key("home/t")).expect("the target collects");
    let crashing = store.subscribe(home(), || panic!("a reader's callback fails"));
    assert!(matches!(crashing.take(), Taken::Everything(..)));
    let stamp = |version| Stamp {
        epoch: plan.epoch(),
        version: Version::new(version),
    };
    let web = object("team-a", "web", "u1");
    let panicked = thread::scope(|scope| {
        let writer = scope.spawn(|| feed.put(stamp(2), web, attributes(1).view()));
        writer.join().is_err()
    });
    assert!(panicked);
    feed.put(stamp(3), web, attributes(2).view());
    assert_eq!(store.totals().rows, 1);
    assert!(matches!(crashing.take(), Taken::Changes(delta, _) if delta.len() == 1));
}
