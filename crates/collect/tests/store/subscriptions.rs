//! Readers: what they are given, when they are woken, and what a slow one costs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kollect_collect::{
    gates::Version,
    plan::{Plan, TargetKey},
    store::{HeldTarget, Limits, RowSelection, Stamp, Store, Subscription, Taken},
};
use kollect_inventory::{Delta, HeldRows, Snapshot};
use kollect_watch::WatchScope;

use crate::support::{add, key, plan, world, yaml};
use crate::writes::{Bench, MANIFESTS, attributes, bench, object};

/// Counts how often a reader is woken.
#[derive(Clone, Default)]
struct Woken(Arc<AtomicUsize>);

impl Woken {
    fn wake(&self) -> impl Fn() + Send + Sync + 'static {
        let count = Arc::clone(&self.0);
        move || {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

fn home() -> RowSelection {
    RowSelection::Namespace("home".into())
}

impl Bench {
    /// Lists everything there is, which completes the target.
    fn complete(&self) {
        let listing = self.feed.begin_listing(WatchScope::All);
        for row in self.store.rows(&key("home/t")) {
            let uid = row.uid().text();
            let object = object(row.origin().namespace(), row.name(), &uid);
            listing.put(self.stamp(1), object, row.attributes());
        }
        listing.finish(Version::new(1));
    }
}

fn everything(reader: &Subscription) -> Snapshot {
    match reader.take() {
        Taken::Everything(rows, _) => rows,
        other => panic!("{other:?}"),
    }
}

fn changes(reader: &Subscription) -> Delta {
    match reader.take() {
        Taken::Changes(delta, _) => delta,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_rows_first_then_what_changed() {
    let bench = bench();
    let reader = bench.store.subscribe(home(), || {});
    bench.put(object("team-a", "web", "u1"), 1, 1);
    assert_eq!(reader.take(), Taken::Waiting(vec![key("home/t")]));
    bench.complete();
    let rows = everything(&reader);
    assert_eq!(rows.len(), 1);
    assert_eq!(reader.take(), Taken::Nothing);

    bench.put(object("team-a", "web", "u1"), 2, 2);
    bench.put(object("team-a", "api", "u2"), 3, 3);
    bench.put(object("team-a", "api", "u2"), 4, 4);
    bench.put(object("team-b", "gone", "u3"), 5, 5);
    bench
        .feed
        .delete(Version::new(6), object("team-b", "gone", "u3"));
    assert_eq!(reader.backlog(), Some(2));
    let delta = changes(&reader);
    let names: Vec<_> = delta.upserts().map(|row| row.name().to_owned()).collect();
    assert_eq!(names, ["api", "web"], "what came and went is not mentioned");
    assert_eq!(delta.deletes().count(), 0);
    assert_eq!(rows.apply(&delta), bench.store.snapshot(&home()).0);
}

#[test]
fn a_change_that_is_undone_is_none() {
    let bench = bench();
    bench.put(object("team-a", "web", "u1"), 1, 1);
    bench.complete();
    let reader = bench.store.subscribe(home(), || {});
    everything(&reader);
    bench.put(object("team-a", "web", "u1"), 2, 2);
    bench.put(object("team-a", "web", "u1"), 3, 1);
    assert_eq!(reader.take(), Taken::Nothing);
}

#[test]
fn an_object_created_again_is_a_deletion_and_a_new_row() {
    let bench = bench();
    bench.put(object("team-a", "web", "u1"), 1, 1);
    bench.complete();
    let reader = bench.store.subscribe(home(), || {});
    everything(&reader);
    bench.put(object("team-a", "web", "u2"), 3, 1);
    let delta = changes(&reader);
    let uid = |row: &kollect_inventory::Row| row.uid().text().to_string();
    assert_eq!(delta.deletes().map(uid).collect::<Vec<_>>(), ["u1"]);
    assert_eq!(delta.upserts().map(uid).collect::<Vec<_>>(), ["u2"]);
}

#[test]
fn c_39_a_reader_is_woken_once_until_it_takes() {
    let bench = bench();
    bench.complete();
    let woken = Woken::default();
    let reader = bench.store.subscribe(home(), woken.wake());
    everything(&reader);
    assert_eq!(woken.take(), 0);
    for version in 2..50 {
        bench.put(object("team-a", "web", "u1"), version, version);
    }
    assert_eq!(woken.take(), 1);
    changes(&reader);
    bench.put(object("team-a", "web", "u1"), 50, 0);
    assert_eq!(woken.take(), 1);
    // What is equal wakes nobody.
    changes(&reader);
    bench.put(object("team-a", "web", "u1"), 51, 0);
    bench
        .feed
        .skip(bench.stamp(52), object("team-a", "other", "u9"));
    assert_eq!(woken.take(), 0);
}

#[test]
fn a_reader_that_waits_is_woken_by_completeness_not_by_rows() {
    let bench = bench();
    let woken = Woken::default();
    let reader = bench.store.subscribe(home(), woken.wake());
    assert!(matches!(reader.take(), Taken::Waiting(_)));
    woken.take();
    for version in 1..10 {
        bench.put(object("team-a", "web", "u1"), version, version);
    }
    assert_eq!(woken.take(), 0);
    bench.complete();
    assert_eq!(woken.take(), 1);
    assert_eq!(everything(&reader).len(), 1);
}

#[test]
fn rows_of_others_do_not_wake_a_reader() {
    let bench = bench();
    bench.complete();
    let woken = Woken::default();
    let reader = bench
        .store
        .subscribe(RowSelection::Namespace("other".into()), woken.wake());
    assert_eq!(everything(&reader).len(), 0);
    bench.put(object("team-a", "web", "u1"), 2, 2);
    assert_eq!((woken.take(), reader.take()), (0, Taken::Nothing));
}

#[test]
fn a_reader_that_lags_too_far_is_given_all_rows() {
    let plan = plan(&Plan::new(), &mut world(MANIFESTS));
    let store = Store::new(
        Limits {
            pending_changes: 10,
        },
        || {},
    );
    store.apply(&plan, &plan.delta_from(&Plan::new()));
    let feed = store.feed(&key("home/t")).expect("the target collects");
    let bench = Bench { store, plan, feed };
    bench.complete();
    let reader = bench.store.subscribe(home(), || {});
    everything(&reader);
    let put = |count: usize| {
        for number in 0..count {
            let name = format!("web-{number}");
            bench.put(object("team-a", &name, &name), 2, 2);
        }
    };
    put(10);
    assert_eq!(reader.backlog(), Some(10));
    put(11);
    assert_eq!(reader.backlog(), None, "nothing is kept for it any more");
    assert_eq!(everything(&reader).len(), 11);
    assert_eq!(reader.take(), Taken::Nothing);
}

#[test]
fn a_reader_may_start_over_or_follow_other_rows() {
    let bench = bench();
    bench.put(object("team-a", "web", "u1"), 1, 1);
    bench.complete();
    let woken = Woken::default();
    let reader = bench.store.subscribe(home(), woken.wake());
    assert_eq!(everything(&reader).len(), 1);
    reader.start_over();
    assert_eq!(everything(&reader).len(), 1);

    reader.follow(RowSelection::Namespace("other".into()));
    assert_eq!(woken.take(), 1);
    assert_eq!(everything(&reader).len(), 0);
    bench.put(object("team-a", "web", "u1"), 2, 2);
    assert_eq!(reader.take(), Taken::Nothing);
    reader.follow(home());
    assert_eq!(everything(&reader).len(), 1);
    bench.put(object("team-a", "web", "u1"), 3, 3);
    assert_eq!(changes(&reader).len(), 1);
}

#[test]
fn a_new_target_is_waited_for_and_its_end_is_noticed() {
    let bench = bench();
    bench.complete();
    let woken = Woken::default();
    let reader = bench.store.subscribe(home(), woken.wake());
    everything(&reader);
    let mut more = world(MANIFESTS);
    let second =
        "{kind: KollectTarget, metadata: {namespace: home, name: second}, spec: {profileRef: p}}";
    add(&mut more, yaml(second));
    let next = plan(&bench.plan, &mut more);
    bench.store.apply(&next, &next.delta_from(&bench.plan));
    assert_eq!(woken.take(), 1);
    assert_eq!(reader.take(), Taken::Waiting(vec![key("home/second")]));
    let last = plan(&next, &mut world(MANIFESTS));
    bench.store.apply(&last, &last.delta_from(&next));
    assert_eq!(woken.take(), 1);
    assert_eq!(reader.take(), Taken::Nothing);
}

#[test]
fn a_target_that_ends_is_so_many_deletions() {
    let bench = bench();
    bench.put(object("team-a", "web", "u1"), 1, 1);
    bench.put(object("team-a", "api", "u2"), 1, 1);
    bench.complete();
    let reader = bench.store.subscribe(home(), || {});
    everything(&reader);
    let mut without = world(MANIFESTS);
    without.targets.clear();
    let next = plan(&bench.plan, &mut without);
    bench.store.apply(&next, &next.delta_from(&bench.plan));
    assert_eq!(changes(&reader).deletes().count(), 2);
}

#[test]
fn a_reader_that_is_gone_costs_nothing() {
    let bench = bench();
    bench.complete();
    let woken = Woken::default();
    drop(bench.store.subscribe(home(), woken.wake()));
    bench.put(object("team-a", "web", "u1"), 2, 2);
    assert_eq!(woken.take(), 0);
    assert_eq!(
        Arc::strong_count(&woken.0),
        1,
        "nobody holds the callback any more"
    );
}

#[test]
fn those_who_are_woken_may_use_the_store() {
    let bench = bench();
    bench.complete();
    let store = bench.store.clone();
    let scope = home();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let reader = bench.store.subscribe(home(), move || {
        count.fetch_add(
            store.snapshot(&scope).0.len() + store.totals().rows,
            Ordering::SeqCst,
        );
    });
    everything(&reader);
    bench.put(object("team-a", "web", "u1"), 2, 2);
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[test]
fn c_03_statuses_with_news_are_told_once() {
    let woken = Woken::default();
    let plan = plan(&Plan::new(), &mut world(MANIFESTS));
    let store = Store::new(Limits::default(), woken.wake());
    store.apply(&plan, &plan.delta_from(&Plan::new()));
    let feed = store.feed(&key("home/t")).expect("the target collects");
    let bench = Bench { store, plan, feed };
    woken.take();
    bench.store.take_signals();

    bench.complete();
    assert_eq!(woken.take(), 1);
    let signals = || bench.store.take_signals().into_iter().collect::<Vec<_>>();
    assert_eq!(signals(), [key("home/t")]);

    bench.put(object("team-a", "web", "u1"), 2, 2);
    assert!(signals().is_empty(), "rows are counted from time to time");
    bench
        .feed
        .fail(bench.stamp(3), object("team-a", "web", "u1"), "bad");
    bench
        .feed
        .fail(bench.stamp(3), object("team-a", "api", "u2"), "bad");
    assert_eq!((woken.take(), signals()), (1, vec![key("home/t")]));
    bench
        .feed
        .fail(bench.stamp(4), object("team-a", "api", "u2"), "bad");
    assert!(signals().is_empty(), "the same failure again is no news");
    bench
        .feed
        .fail(bench.stamp(5), object("team-a", "api", "u2"), "worse");
    assert_eq!(signals(), [key("home/t")]);
    bench.put(object("team-a", "api", "u2"), 6, 2);
    assert_eq!(signals(), [key("home/t")]);
}

/// A second target of the same namespace, whose selector means nothing.
const BAD: &str = "{kind: KollectTarget, metadata: {namespace: home, name: bad}, \
     spec: {profileRef: p, labelSelector: {matchExpressions: [{key: a, operator: Bogus}]}}}";

#[test]
fn b3_nobody_waits_for_a_target_that_is_at_fault_itself() {
    let mut world = world(MANIFESTS);
    add(&mut world, yaml(BAD));
    let first = plan(&Plan::new(), &mut world);
    let store = Store::new(Limits::default(), || {});
    store.apply(&first, &first.delta_from(&Plan::new()));
    let feed = store.feed(&key("home/t")).expect("the target collects");
    let stamp = |version| Stamp {
        epoch: first.epoch(),
        version: Version::new(version),
    };
    let listing = feed.begin_listing(WatchScope::All);
    listing.put(
        stamp(1),
        object("team-a", "web", "u1"),
        attributes(1).view(),
    );
    listing.finish(Version::new(1));

    let woken = Woken::default();
    let reader = store.subscribe(home(), woken.wake());
    assert_eq!(reader.take(), Taken::Waiting(vec![key("home/bad")]));
    let faulty = BTreeMap::from([(key("home/bad"), "it means nothing".to_owned())]);
    woken.take();
    store.hold(&faulty);
    assert_eq!(woken.take(), 1, "others go on");
    let rows = everything(&reader);
    assert_eq!(
        (rows.len(), rows.held()),
        (1, &[HeldRows::of_target("bad")][..])
    );
    let held = vec![HeldTarget {
        key: key("home/bad"),
        namespaces: None,
        why: "it means nothing".to_owned(),
    }];
    assert_eq!(store.held(&home()), held);
    store.hold(&faulty);
    assert_eq!(
        (woken.take(), reader.take()),
        (0, Taken::Nothing),
        "no news"
    );

    // Changes of others arrive as ever.
    feed.put(
        stamp(2),
        object("team-a", "api", "u2"),
        attributes(1).view(),
    );
    assert_eq!(changes(&reader).len(), 1);

    // Mended: its rows count once all of them are there, and not before.
    add(
        &mut world,
        yaml(
            "{kind: KollectTarget, metadata: {namespace: home, name: bad}, spec: {profileRef: p}}",
        ),
    );
    let second = plan(&first, &mut world);
    store.apply(&second, &second.delta_from(&first));
    let stamp = |version| Stamp {
        epoch: second.epoch(),
        version: Version::new(version),
    };
    let mended = store.feed(&key("home/bad")).expect("it collects");
    store.hold(&BTreeMap::new());
    let listing = mended.begin_listing(WatchScope::All);
    listing.put(
        stamp(3),
        object("team-a", "web", "u1"),
        attributes(1).view(),
    );
    assert_eq!(reader.take(), Taken::Waiting(vec![key("home/bad")]));
    listing.finish(Version::new(3));
    let rows = everything(&reader);
    assert_eq!((rows.len(), rows.held().len()), (3, 0));
}

#[test]
fn b3_a_target_that_lists_while_it_is_held_is_taken_as_a_whole() {
    let bench = bench();
    let reader = bench.store.subscribe(home(), || {});
    let faulty = BTreeMap::from([(key("home/t"), "it is refused".to_owned())]);
    bench.store.hold(&faulty);
    let rows = everything(&reader);
    assert_eq!(
        (rows.len(), rows.held()),
        (0, &[HeldRows::of_target("t")][..])
    );
    bench.put(object("team-a", "web", "u1"), 1, 1);
    assert_eq!(reader.take(), Taken::Nothing, "half a target is nothing");
    bench.complete();
    let rows = everything(&reader);
    assert_eq!((rows.len(), rows.held().len()), (1, 0));
    bench.store.hold(&faulty);
    assert_eq!(reader.take(), Taken::Nothing, "what is complete stays so");
}

#[test]
fn a_rollup_waits_for_targets_that_no_plan_knows_yet() {
    let bench = bench();
    bench.complete();
    let scope = RowSelection::Cluster {
        targets: ["ahead".to_owned()].into(),
        namespaces: ["team-a".to_owned()].into(),
    };
    let reader = bench.store.subscribe(scope, || {});
    let waiting = Taken::Waiting(vec![TargetKey::cluster("ahead")]);
    assert_eq!(reader.take(), waiting);
}

#[test]
fn a_namespace_that_the_plan_could_not_read_is_waited_for() {
    let bench = bench();
    let woken = Woken::default();
    let unread = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let elsewhere = bench
        .store
        .subscribe(RowSelection::Namespace("elsewhere".into()), woken.wake());
    assert_eq!(everything(&elsewhere).len(), 0, "the plan has no targets");

    bench.store.unplanned(unread(&["elsewhere"]));
    let reader = bench
        .store
        .subscribe(RowSelection::Namespace("elsewhere".into()), woken.wake());
    assert_eq!(reader.take(), Taken::Waiting(Vec::new()));
    let scope = RowSelection::Namespace("elsewhere".into());
    assert!(!bench.store.is_complete(&scope));
    bench.complete();
    assert!(bench.store.is_complete(&home()), "others go on");

    woken.take();
    bench.store.unplanned(unread(&[]));
    assert_eq!(woken.take(), 1, "whoever waited is told");
    assert_eq!(everything(&reader).len(), 0);
    assert!(bench.store.is_complete(&scope));
}
