//! Single writes: what counts, what does not, and what is remembered.

use std::sync::Arc;

use kollect_collect::{
    gates::{PolicyFailures, Version},
    plan::{Epoch, Plan},
    store::{Feed, Limits, Outcome, RowSelection, Stamp, Store},
};
use kollect_inventory::AttributesBuffer;
use kollect_watch::{ObjectIdentity, WatchScope};
use serde_json::json;

use crate::support::{add, key, plan, world, yaml};

pub(crate) const MANIFESTS: &str = "
- {kind: Namespace, metadata: {name: team-a}}
- {kind: Namespace, metadata: {name: team-b}}
- kind: KollectProfile
  metadata: {namespace: home, name: p}
  spec:
    targetGVK: {group: apps, version: v1, kind: Deployment}
    attributes: [{name: replicas, path: $.spec.replicas}]
- {kind: KollectTarget, metadata: {namespace: home, name: t}, spec: {profileRef: p}}
";

/// A store with one target `home/t`, and the plan behind it.
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) plan: Plan,
    pub(crate) feed: Arc<Feed>,
}

pub(crate) fn bench() -> Bench {
    let plan = plan(&Plan::new(), &mut world(MANIFESTS));
    let store = Store::new(Limits::default(), || {});
    store.apply(&plan, &plan.delta_from(&Plan::new()));
    let feed = store.feed(&key("home/t")).expect("the target collects");
    Bench { store, plan, feed }
}

pub(crate) fn attributes(replicas: u64) -> AttributesBuffer {
    let mut buffer = AttributesBuffer::new();
    let object = json!({"replicas": replicas});
    buffer.set(object.as_object().expect("it is one"));
    buffer
}

pub(crate) fn object<'a>(
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
) -> ObjectIdentity<&'a str> {
    ObjectIdentity {
        namespace,
        name,
        uid,
    }
}

const WEB: ObjectIdentity<&str> = ObjectIdentity {
    namespace: "team-a",
    name: "web",
    uid: "u1",
};

impl Bench {
    pub(crate) fn stamp(&self, version: u64) -> Stamp {
        Stamp {
            epoch: self.plan.epoch(),
            version: Version::new(version),
        }
    }

    pub(crate) fn put(&self, object: ObjectIdentity<&str>, version: u64, replicas: u64) -> Outcome {
        self.feed
            .put(self.stamp(version), object, attributes(replicas).view())
    }

    /// The rows as `name=replicas`, sorted.
    fn rows(&self) -> Vec<String> {
        let rows = self.store.rows(&key("home/t"));
        let mut rows: Vec<String> = rows
            .iter()
            .map(|row| {
                let replicas = row.attributes().get("replicas").expect("it has one");
                format!(
                    "{}:{}={}",
                    row.name(),
                    &*row.uid().text(),
                    replicas.as_str()
                )
            })
            .collect();
        rows.sort();
        rows
    }
}

#[test]
fn the_same_content_is_no_change() {
    let bench = bench();
    assert_eq!(bench.put(WEB, 1, 3), Outcome::Changed);
    let scope = RowSelection::Namespace("home".into());
    let before = bench.store.revision(&scope);
    assert_eq!(bench.put(WEB, 2, 3), Outcome::Unchanged);
    assert_eq!(bench.store.revision(&scope), before);
    assert_eq!(bench.put(WEB, 3, 4), Outcome::Changed);
    assert!(bench.store.revision(&scope) > before);
    assert_eq!(bench.rows(), ["web:u1=4"]);
}

#[test]
fn c_38_refusing_what_is_not_there_is_no_change() {
    let bench = bench();
    let scope = RowSelection::Namespace("home".into());
    bench.put(WEB, 1, 3);
    let before = bench.store.revision(&scope);
    let other = object("team-a", "other", "u2");
    assert_eq!(bench.feed.skip(bench.stamp(2), other), Outcome::Unchanged);
    assert_eq!(
        bench.feed.delete(Version::new(3), other),
        Outcome::Unchanged
    );
    assert_eq!(bench.store.revision(&scope), before);
}

#[test]
fn c_31_an_older_version_never_overwrites_a_newer_one() {
    let bench = bench();
    bench.put(WEB, 5, 5);
    assert_eq!(bench.put(WEB, 4, 4), Outcome::Stale);
    assert_eq!(bench.feed.skip(bench.stamp(4), WEB), Outcome::Stale);
    assert_eq!(bench.feed.delete(Version::new(4), WEB), Outcome::Stale);
    assert_eq!(bench.rows(), ["web:u1=5"]);
}

#[test]
fn versions_that_cannot_be_compared_are_taken_in_their_order() {
    let bench = bench();
    bench.put(WEB, 5, 5);
    assert_eq!(bench.put(WEB, 0, 6), Outcome::Changed);
    assert_eq!(bench.put(WEB, 4, 7), Outcome::Stale);
    assert_eq!(bench.put(WEB, 6, 8), Outcome::Changed);
    assert_eq!(bench.feed.delete(Version::UNKNOWN, WEB), Outcome::Changed);
    assert!(bench.rows().is_empty());
}

#[test]
fn en_10_a_deletion_removes_the_row_whatever_the_plan_says_now() {
    let bench = bench();
    bench.put(WEB, 5, 5);
    assert_eq!(bench.feed.delete(Version::new(6), WEB), Outcome::Changed);
    assert!(bench.rows().is_empty());
}

#[test]
fn an_object_created_again_under_its_name_replaces_the_old_one() {
    let bench = bench();
    let again = object("team-a", "web", "u2");
    bench.put(WEB, 1, 3);
    assert_eq!(bench.put(again, 4, 3), Outcome::Changed);
    assert_eq!(bench.rows(), ["web:u2=3"]);
    // The end of the old one comes late, or its version is not known.
    assert_eq!(bench.feed.delete(Version::new(3), WEB), Outcome::Stale);
    assert_eq!(bench.feed.delete(Version::UNKNOWN, WEB), Outcome::Stale);
    assert_eq!(bench.rows(), ["web:u2=3"]);
    // The end of any object of that name, if later than what is known, means that there is none.
    assert_eq!(bench.feed.delete(Version::new(5), WEB), Outcome::Changed);
    assert!(bench.rows().is_empty());
}

#[test]
fn c_32_a_decision_of_an_older_plan_is_not_written() {
    let bench = bench();
    let old = Stamp {
        epoch: Epoch::default(),
        version: Version::new(1),
    };
    let row = attributes(1);
    assert_eq!(bench.feed.put(old, WEB, row.view()), Outcome::Superseded);
    assert_eq!(bench.feed.fail(old, WEB, "no"), Outcome::Superseded);
    bench.put(WEB, 1, 1);
    assert_eq!(bench.feed.skip(old, WEB), Outcome::Superseded);
    assert_eq!(bench.rows(), ["web:u1=1"]);
    let summary = bench.store.summary(&key("home/t")).expect("it is there");
    assert_eq!((summary.failing, summary.last_failure), (0, None));
}

#[test]
fn c_32_nothing_is_written_for_a_target_that_ended() {
    let bench = bench();
    bench.put(WEB, 1, 1);
    let mut without = world(MANIFESTS);
    without.targets.clear();
    let next = plan(&bench.plan, &mut without);
    bench.store.apply(&next, &next.delta_from(&bench.plan));
    assert_eq!(bench.put(WEB, 2, 2), Outcome::Closed);
    assert_eq!(bench.feed.delete(Version::new(3), WEB), Outcome::Closed);
    assert_eq!(bench.store.totals().rows, 0);
    assert!(bench.store.feed(&key("home/t")).is_none());
}

#[test]
fn a_closed_feed_writes_nothing_and_sweeps_nothing() {
    let bench = bench();
    bench.put(WEB, 1, 1);
    let listing = bench.feed.begin_listing(WatchScope::All);
    bench.feed.close();
    assert_eq!(bench.put(WEB, 2, 2), Outcome::Closed);
    listing.finish(Version::new(9));
    assert_eq!(bench.rows(), ["web:u1=1"]);
    let complete = bench
        .store
        .summary(&key("home/t"))
        .expect("it is there")
        .complete;
    assert!(!complete);
}

#[test]
fn a_namespace_the_target_does_not_collect_from_is_not_written() {
    let bench = bench();
    let elsewhere = object("kube-system", "web", "u1");
    assert_eq!(bench.put(elsewhere, 1, 1), Outcome::Superseded);
    assert!(bench.rows().is_empty());
}

#[test]
fn a_listing_sweeps_what_it_did_not_show_in_its_scope() {
    let bench = bench();
    bench.put(WEB, 1, 1);
    bench.put(object("team-a", "api", "u2"), 2, 2);
    bench.put(object("team-b", "db", "u3"), 3, 3);
    let listing = bench
        .feed
        .begin_listing(WatchScope::Namespace("team-a".into()));
    let stamp = bench.stamp(1);
    assert_eq!(
        listing.put(stamp, WEB, attributes(1).view()),
        Outcome::Unchanged
    );
    assert_eq!(bench.rows().len(), 3);
    listing.finish(Version::new(4));
    assert_eq!(bench.rows(), ["db:u3=3", "web:u1=1"]);
}

#[test]
fn a_listing_that_breaks_off_sweeps_nothing() {
    let bench = bench();
    bench.put(WEB, 1, 1);
    drop(bench.feed.begin_listing(WatchScope::All));
    assert_eq!(bench.rows(), ["web:u1=1"]);
}

#[test]
fn a_listing_does_not_sweep_what_is_newer_than_itself() {
    let bench = bench();
    let listing = bench.feed.begin_listing(WatchScope::All);
    bench.put(WEB, 7, 1);
    listing.finish(Version::new(6));
    assert_eq!(bench.rows(), ["web:u1=1"]);
}

#[test]
fn a_listing_does_not_bring_back_what_has_ended_since() {
    let bench = bench();
    let listing = bench.feed.begin_listing(WatchScope::All);
    bench.feed.delete(Version::new(7), WEB);
    bench
        .feed
        .skip(bench.stamp(7), object("team-a", "api", "u2"));
    let stamp = bench.stamp(5);
    assert_eq!(
        listing.put(stamp, WEB, attributes(1).view()),
        Outcome::Stale
    );
    let api = object("team-a", "api", "u2");
    assert_eq!(
        listing.put(stamp, api, attributes(1).view()),
        Outcome::Stale
    );
    listing.finish(Version::new(6));
    assert!(bench.rows().is_empty());
    // What ended is not remembered beyond the listing; what the listing knows is.
    assert_eq!(bench.put(WEB, 6, 1), Outcome::Stale);
    assert_eq!(bench.put(WEB, 7, 1), Outcome::Changed);
}

#[test]
fn what_a_list_has_not_shown_is_not_brought_back_by_somebody_who_is_behind() {
    let bench = bench();
    let slow = bench.feed.begin_listing(WatchScope::All);
    let fast = bench
        .feed
        .begin_listing(WatchScope::Namespace("team-a".into()));
    fast.finish(Version::new(6));
    let stamp = bench.stamp(5);
    let row = attributes(1);
    assert_eq!(slow.put(stamp, WEB, row.view()), Outcome::Stale);
    assert_eq!(slow.fail(stamp, WEB, "bad"), Outcome::Stale);
    assert_eq!(bench.feed.put(stamp, WEB, row.view()), Outcome::Stale);
    let db = object("team-b", "db", "u3");
    assert_eq!(slow.put(stamp, db, row.view()), Outcome::Changed);
    slow.finish(Version::new(5));
    assert_eq!(bench.rows(), ["db:u3=1"]);
}

#[test]
fn what_a_list_knew_is_forgotten_when_the_target_changes() {
    let bench = bench();
    let before = bench.feed.begin_listing(WatchScope::All);
    bench
        .feed
        .begin_listing(WatchScope::All)
        .finish(Version::new(6));
    assert_eq!(bench.put(WEB, 5, 1), Outcome::Stale);
    let mut changed = world(MANIFESTS);
    let namespace =
        "{kind: Namespace, metadata: {name: team-a, labels: {kollect.dev/watch: enabled}}}";
    add(&mut changed, yaml(namespace));
    let next = plan(&bench.plan, &mut changed);
    bench.store.apply(&next, &next.delta_from(&bench.plan));
    // A list that began before the change says nothing about what is collected now.
    before.finish(Version::new(6));
    let bench = Bench {
        plan: next,
        ..bench
    };
    assert_eq!(bench.put(WEB, 5, 1), Outcome::Changed);
    assert_eq!(
        bench.put(object("team-b", "db", "u3"), 5, 1),
        Outcome::Stale
    );
}

#[test]
fn a_feed_is_retired_scope_by_scope() {
    let bench = bench();
    bench.feed.retire(WatchScope::Namespace("team-a".into()));
    assert_eq!(bench.put(WEB, 1, 1), Outcome::Closed);
    assert_eq!(bench.feed.delete(Version::new(2), WEB), Outcome::Closed);
    assert_eq!(
        bench.put(object("team-b", "db", "u3"), 1, 1),
        Outcome::Changed
    );
}

#[test]
fn of_two_listings_the_later_one_knows_better() {
    let bench = bench();
    let early = bench.feed.begin_listing(WatchScope::All);
    let late = bench
        .feed
        .begin_listing(WatchScope::Namespace("team-a".into()));
    late.put(bench.stamp(5), WEB, attributes(1).view());
    late.finish(Version::new(6));
    early.finish(Version::new(4));
    assert_eq!(bench.rows(), ["web:u1=1"]);
}

#[test]
fn en_07_en_08_failures_are_counted_until_they_are_over() {
    let bench = bench();
    let api = object("team-a", "api", "u2");
    let summary = || bench.store.summary(&key("home/t")).expect("it is there");
    bench.put(WEB, 1, 1);
    let scope = RowSelection::Namespace("home".into());
    let (rows, revision) = bench.store.snapshot(&scope);

    assert_eq!(
        bench.feed.fail(bench.stamp(2), WEB, "web is bad"),
        Outcome::Changed
    );
    assert_eq!((summary().rows, summary().failing), (0, 1));
    let (after, later) = bench.store.snapshot(&scope);
    assert!(later > revision && after.fingerprint() != rows.fingerprint());

    assert_eq!(
        bench.feed.fail(bench.stamp(3), api, "api is bad"),
        Outcome::Changed
    );
    assert_eq!(
        bench.feed.fail(bench.stamp(4), api, "api is worse"),
        Outcome::Unchanged
    );
    assert_eq!(summary().failing, 2);
    let named = format!("{}/{}: api is worse", api.namespace, api.name);
    assert_eq!(summary().last_failure.as_deref(), Some(&*named));
    let messages: Vec<_> = summary()
        .failures
        .iter()
        .map(|f| f.message.to_string())
        .collect();
    assert_eq!(messages, ["web is bad", "api is worse"]);

    bench.feed.delete(Version::new(5), api);
    assert_eq!(summary().failing, 1);
    let last = summary().last_failure;
    assert_eq!(last.as_deref(), Some("team-a/web: web is bad"));
    let names: Vec<_> = summary()
        .failures
        .iter()
        .map(|f| f.name.to_string())
        .collect();
    assert_eq!(names, ["web"]);
    bench.put(WEB, 6, 1);
    assert_eq!(
        (summary().rows, summary().failing, summary().last_failure),
        (1, 0, None)
    );
    assert_eq!(bench.store.snapshot(&scope).0, rows);
}

#[test]
fn failing_objects_are_swept_like_rows() {
    let bench = bench();
    bench.feed.fail(bench.stamp(1), WEB, "bad");
    let listing = bench.feed.begin_listing(WatchScope::All);
    listing.fail(bench.stamp(2), object("team-b", "db", "u2"), "bad too");
    listing.finish(Version::new(3));
    let summary = bench.store.summary(&key("home/t")).expect("it is there");
    assert_eq!(summary.failing, 1);
    assert_eq!(summary.failures.len(), 1);
    assert_eq!(&*summary.failures[0].name, "db");
}

#[test]
fn c_20_policies_that_fail_are_counted() {
    let bench = bench();
    let failures = |count, last: &str| PolicyFailures {
        count,
        last: Some(last.into()),
    };
    let api = object("team-b", "api", "u2");
    bench.feed.note_policies(WEB, &failures(2, "first"));
    bench.feed.note_policies(api, &PolicyFailures::default());
    bench.feed.note_policies(WEB, &failures(1, "second"));
    let summary = bench.store.summary(&key("home/t")).expect("it is there");
    assert_eq!(summary.policy_failures, 3);
    let last = summary.last_policy_failure;
    assert_eq!(last.as_deref(), Some("team-a/web: second"));
}

#[test]
fn c10_a_policy_that_works_again_is_not_reported_any_more() {
    let bench = bench();
    let summary = || bench.store.summary(&key("home/t")).expect("it is there");
    let failures = PolicyFailures {
        count: 1,
        last: Some("no such key".into()),
    };
    let api = object("team-b", "api", "u2");
    bench.feed.note_policies(WEB, &failures);
    bench.feed.note_policies(api, &failures);
    bench.feed.note_policies(WEB, &PolicyFailures::default());
    assert!(summary().last_policy_failure.is_some());
    // An object that is gone fails no more either.
    bench.feed.delete(Version::new(5), api);
    assert_eq!(summary().last_policy_failure, None);
    assert_eq!(summary().policy_failures, 2);
}

#[test]
fn c10_the_last_failure_names_its_object() {
    let bench = bench();
    let last = || {
        let summary = bench.store.summary(&key("home/t")).expect("it is there");
        summary.last_failure.map(String::from)
    };
    bench.feed.fail(bench.stamp(1), WEB, "attribute \"a\": bad");
    assert_eq!(last().as_deref(), Some("team-a/web: attribute \"a\": bad"));
    // The same problem elsewhere does not make another message.
    let api = object("team-b", "api", "u2");
    bench.feed.fail(bench.stamp(2), api, "attribute \"a\": bad");
    assert_eq!(last().as_deref(), Some("team-a/web: attribute \"a\": bad"));
    bench.put(WEB, 3, 1);
    assert_eq!(last().as_deref(), Some("team-b/api: attribute \"a\": bad"));
    bench.put(api, 4, 1);
    assert_eq!(last(), None);
}
