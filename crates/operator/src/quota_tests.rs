//! Quotas as tables.

use kollect_api::{KollectScope, reference::SinkFamily};
use serde_json::json;

use super::*;

fn key(name: &str) -> TargetKey {
    TargetKey::namespaced("team-a", name)
}

/// Targets in the order of their creation, with rows and bytes.
fn used(targets: &[(&str, u64, u64)]) -> Vec<Used> {
    let used = targets.iter().enumerate();
    used.map(|(age, (name, rows, bytes))| Used {
        key: key(name),
        created: i64::try_from(age)
            .ok()
            .and_then(|age| Timestamp::from_second(age).ok()),
        generation: Some(1),
        rows: *rows,
        bytes: *bytes,
        collected: false,
        listed: false,
    })
    .collect()
}

fn limits(quota: Quota) -> Limits {
    Limits::new(&quota, &std::iter::empty())
}

fn names(over: &BTreeMap<TargetKey, Good>) -> Vec<(&str, Good)> {
    over.iter().map(|(key, good)| (&*key.name, *good)).collect()
}

#[test]
fn the_newest_give_way() {
    let quota = |targets: Option<u64>, rows: Option<u64>, row_bytes: Option<u64>| Quota {
        targets,
        rows,
        row_bytes,
        ..Quota::default()
    };
    // Names are against the order of age, so that nothing rests on them.
    let three = used(&[("c", 10, 100), ("b", 20, 200), ("a", 30, 300)]);
    for (what, quota, expected) in [
        ("no quota", Quota::default(), vec![]),
        (
            "all fit exactly",
            quota(Some(3), Some(60), Some(600)),
            vec![],
        ),
        (
            "too many",
            quota(Some(2), None, None),
            vec![("a", Good::Targets)],
        ),
        (
            "none at all",
            quota(Some(0), None, None),
            vec![
                ("a", Good::Targets),
                ("b", Good::Targets),
                ("c", Good::Targets),
            ],
        ),
        (
            "one row too many",
            quota(None, Some(59), None),
            vec![("a", Good::Rows)],
        ),
        (
            "the second does not fit, nor what comes after it",
            quota(None, Some(29), None),
            vec![("a", Good::Rows), ("b", Good::Rows)],
        ),
        (
            "used up by older ones",
            quota(None, Some(30), None),
            vec![("a", Good::Rows)],
        ),
        (
            "bytes",
            quota(None, None, Some(599)),
            vec![("a", Good::RowBytes)],
        ),
    ] {
        assert_eq!(names(&over(&three, &limits(quota), 0)), expected, "{what}");
    }
    let mirrors = limits(Quota {
        mirror_bytes: Some(5),
        ..Quota::default()
    });
    assert_eq!(names(&over(&three, &mirrors, 5)), []);
    assert_eq!(
        names(&over(&three, &mirrors, 6)),
        [("a", Good::MirrorBytes)]
    );
    // A new one does not begin where nothing is left.
    let new = used(&[("old", 10, 0), ("new", 0, 0)]);
    let full = limits(quota(None, Some(10), None));
    assert_eq!(names(&over(&new, &full, 0)), [("new", Good::Rows)]);
}

#[test]
fn scopes_override_the_defaults_and_the_smallest_counts() {
    let scope = |name: &str, quota: serde_json::Value| -> KollectScope {
        let scope = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectScope",
            "metadata": {"name": name, "namespace": "team-a"}, "spec": {"quota": quota},
        });
        serde_json::from_value(scope).expect("a scope")
    };
    let defaults = Quota {
        targets: Some(5),
        rows: Some(100),
        ..Quota::default()
    };
    let scopes = [
        scope("wide", json!({"targets": 20, "sinks": 3})),
        scope("narrow", json!({"targets": 7})),
    ];
    let limits = Limits::new(&defaults, &scopes.iter().map(KollectScope::ceiling));
    let numbers: Vec<_> = Good::ALL.iter().map(|good| limits.number(*good)).collect();
    assert_eq!(numbers, [7, 3, 100, u64::MAX, u64::MAX]);
    let said = limits.message(Good::Targets, "team-a", "x");
    assert!(
        said.contains("spec.quota.targets raised in KollectScope \"narrow\""),
        "{said}"
    );
    let said = limits.message(Good::Rows, "team-a", "x");
    assert!(said.contains("--quota-rows"), "{said}");
    assert!(Limits::new(&Quota::default(), &std::iter::empty()).is_empty());
}

#[test]
fn the_newest_sinks_are_not_used() {
    let sink = |age: i64, name: &str| {
        let key = SinkKey::new(SinkFamily::Database, "team-a", name);
        (Timestamp::from_second(age).ok(), key)
    };
    let sinks = [sink(3, "a"), sink(1, "c"), sink(2, "b")];
    let most = |sinks| {
        limits(Quota {
            sinks,
            ..Quota::default()
        })
    };
    let over = sinks_over("team-a", &sinks, &most(Some(2)));
    let names: Vec<&str> = over.keys().map(|key| &*key.name).collect();
    assert_eq!(names, ["a"]);
    assert!(sinks_over("team-a", &sinks, &most(None)).is_empty());
    assert!(sinks_over("team-a", &sinks, &most(Some(3))).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_target_that_was_stopped_may_show_that_it_fits() {
    let limits = limits(Quota {
        rows: Some(10),
        ..Quota::default()
    });
    let mut book = QuotaBook::default();
    let start = Instant::now();
    let mut judge = |rows: u64, generation: i64, after: Duration| {
        let mut used = used(&[("only", rows, 0)]);
        used[0].generation = Some(generation);
        let said = book.judge("team-a", &used, &limits, 0, start + after);
        !said.is_empty()
    };
    let second = Duration::from_secs(1);
    assert!(!judge(10, 1, second), "it fits");
    assert!(judge(11, 1, 2 * second));
    assert!(judge(11, 1, 3 * second), "and stays stopped");
    assert!(!judge(11, 2, 4 * second), "another spec is tried");
    assert!(!judge(11, 2, 5 * second));
    assert!(!judge(9, 2, 6 * second), "and fits");
    assert!(judge(11, 2, 7 * second));
    assert!(!judge(11, 3, 8 * second));
    assert!(judge(12, 3, 9 * second), "a trial is no licence to grow");
    assert!(judge(12, 3, 8 * second + REST));
    assert!(!judge(12, 3, 9 * second + REST), "tried again after a rest");
    assert!(judge(12, 3, 9 * second + REST + TRIAL), "in vain");
}

#[tokio::test(start_paused = true)]
async fn a_target_whose_rows_are_gone_is_not_taken_for_a_small_one() {
    let limits = limits(Quota {
        rows: Some(10),
        ..Quota::default()
    });
    let mut book = QuotaBook::default();
    let start = Instant::now();
    let mut judge = |new: u64, after: Duration| {
        let used = used(&[("old", 8, 0), ("new", new, 0)]);
        let said = book.judge("team-a", &used, &limits, 0, start + after);
        said.contains_key(&key("new"))
    };
    let second = Duration::from_secs(1);
    assert!(!judge(0, second));
    assert!(judge(5, 2 * second));
    assert!(judge(0, 3 * second), "its rows went, and would come again");
    assert!(judge(0, REST));
    assert!(!judge(0, REST + 2 * second), "tried again");
    assert!(judge(3, REST + 2 * second + TRIAL), "in vain");
    assert!(judge(0, REST + 3 * second + TRIAL));
}

#[test]
fn a_first_list_after_a_restart_may_end() {
    let limits = limits(Quota {
        rows: Some(10),
        ..Quota::default()
    });
    let mut two = used(&[("old", 8, 0), ("new", 5, 0)]);
    two[1].collected = true;
    assert_eq!(names(&over(&two, &limits, 0)), []);
    two[1].rows = 13;
    assert_eq!(
        names(&over(&two, &limits, 0)),
        [("new", Good::Rows)],
        "not without an end"
    );
    two[1].rows = 5;
    two[1].listed = true;
    assert_eq!(names(&over(&two, &limits, 0)), [("new", Good::Rows)]);
}

#[test]
fn messages_name_the_namespace_the_number_and_the_way_out() {
    let limits = limits(Quota {
        targets: Some(1),
        ..Quota::default()
    });
    let mut book = QuotaBook::default();
    let two = used(&[("one", 1, 1), ("two", 1, 1)]);
    let said = book.judge("team-a", &two, &limits, 0, Instant::now());
    let said = said.get(&key("two")).expect("over");
    assert!(!said.keeps);
    assert_eq!(
        &*said.message,
        "namespace \"team-a\" may have 1 targets, and older objects come first: this target is not collected; rows it had before stay as they are; use less there, or have spec.quota.targets set in a KollectScope of the namespace, or the operator's --quota-targets raised"
    );
}
