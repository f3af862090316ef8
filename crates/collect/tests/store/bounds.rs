//! What comes and goes leaves nothing behind.

use kollect_collect::{
    gates::Version,
    plan::Plan,
    store::{Limits, Stamp, Store},
};
use kollect_watch::WatchScope;
use serde_json::json;

use crate::support::{add, key, plan, remove, world};
use crate::writes::{MANIFESTS, attributes, bench, object};

fn bytes(store: &Store) -> usize {
    store.totals().bytes
}

#[test]
fn namespaces_that_come_and_go_leave_no_texts_behind() {
    let mut world = world(MANIFESTS);
    let store = Store::new(Limits::default(), || {});
    let mut current = plan(&Plan::new(), &mut world);
    store.apply(&current, &current.delta_from(&Plan::new()));
    let baseline = bytes(&store);
    let mut peak = 0;
    for round in 0..300_u64 {
        let name = format!("ephemeral-namespace-of-a-pull-request-{round}");
        let namespace = json!({"kind": "Namespace", "metadata": {"name": name}});
        add(&mut world, namespace.clone());
        let next = plan(&current, &mut world);
        store.apply(&next, &next.delta_from(&current));
        let feed = store.feed(&key("home/t")).expect("the target collects");
        for number in 0..5 {
            let own = format!("web-{number}");
            let stamp = Stamp {
                epoch: next.epoch(),
                version: Version::new(round + 1),
            };
            feed.put(stamp, object(&name, &own, &own), attributes(number).view());
        }
        peak = peak.max(bytes(&store));
        remove(&mut world, &namespace);
        let last = plan(&next, &mut world);
        store.apply(&last, &last.delta_from(&next));
        current = last;
    }
    assert_eq!(store.totals().rows, 0);
    assert!(peak > baseline);
    let left = bytes(&store) - baseline;
    assert!(left < 4_096, "{left} bytes are left");
}

#[test]
fn a_table_that_was_large_shrinks() {
    let bench = bench();
    let baseline = bytes(&bench.store);
    for number in 0..20_000 {
        let name = format!("web-{number}");
        bench.put(object("team-a", &name, &name), 1, 1);
    }
    let full = bytes(&bench.store);
    assert!(full - baseline > 20_000 * 100);
    bench
        .feed
        .begin_listing(WatchScope::All)
        .finish(Version::new(2));
    let left = bytes(&bench.store) - baseline;
    assert!(left < full / 100, "{left} bytes are left of {full}");
}

#[test]
fn what_a_listing_made_remembered_is_forgotten_with_it() {
    let bench = bench();
    let baseline = bytes(&bench.store);
    let listing = bench.feed.begin_listing(WatchScope::All);
    for number in 0..5_000 {
        let name = format!("web-{number}");
        bench
            .feed
            .delete(Version::new(7), object("team-a", &name, &name));
    }
    assert!(bytes(&bench.store) - baseline > 5_000 * 50);
    drop(listing);
    let left = bytes(&bench.store) - baseline;
    assert!(left < 8_192, "{left} bytes are left");
}

#[test]
fn only_some_failures_are_kept_but_all_are_counted() {
    let bench = bench();
    for number in 0..1_000 {
        let name = format!("web-{number}");
        let message = format!("failure {number}");
        bench
            .feed
            .fail(bench.stamp(1), object("team-a", &name, &name), &message);
    }
    let summary = bench.store.summary(&key("home/t")).expect("it is there");
    assert_eq!(summary.failing, 1_000);
    assert_eq!(summary.failures.len(), 16);
    assert_eq!(
        summary.last_failure.as_deref(),
        Some("team-a/web-999: failure 999")
    );
    for number in 0..1_000 {
        let name = format!("web-{number}");
        bench.put(object("team-a", &name, &name), 2, 1);
    }
    let summary = bench.store.summary(&key("home/t")).expect("it is there");
    assert_eq!((summary.failing, summary.failures.len()), (0, 0));
}
