//! Statuses of targets, from what is known of them.

use kollect_api::condition::{self, ConditionStatus};

use super::*;
use k8s_openapi::jiff::Timestamp;

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn healthy() -> TargetFacts {
    TargetFacts {
        generation: Some(3),
        profile: "\"p\"".to_owned(),
        cluster: false,
        trouble: None,
        undecided: false,
        matched_namespaces: ["team-a".into()].into(),
        effective_namespaces: ["team-a".into()].into(),
        outside_scope: Names::default(),
        unpermitted: None,
        found_profile: None,
        unserved: Names::default(),
        forbidden: None,
        active_rules: 0,
        complete: true,
        catching_up: false,
        cluster_scoped: false,
        finalizer: None,
        interruption: None,
        rows: 2,
        failures: 0,
        last_failure: None,
        policy_failure: None,
        sinks: Some(Sinks::None),
    }
}

fn states(status: &TargetStatus) -> Vec<(String, ConditionStatus, String)> {
    let mut states: Vec<_> = status
        .conditions
        .iter()
        .map(|c| (c.type_.clone(), c.status, c.reason.clone()))
        .collect();
    states.sort_by(|a, b| a.0.cmp(&b.0));
    states
}

fn expect(facts: &TargetFacts, expected: &[(&str, ConditionStatus, &str)]) -> TargetStatus {
    let status = status(&TargetStatus::default(), facts, &at(1));
    let expected: Vec<_> = expected
        .iter()
        .map(|(type_, status, reason)| ((*type_).to_owned(), *status, (*reason).to_owned()))
        .collect();
    assert_eq!(states(&status), expected);
    assert_eq!(
        status.observed_generation,
        Some(3),
        "also a failing generation was seen"
    );
    status
}

#[test]
fn a_healthy_target_counts_its_rows() {
    let status = expect(
        &healthy(),
        &[
            ("Ready", True, "Collecting"),
            ("SinkReachable", True, "NoSinksInNamespace"),
            ("Synced", True, "Collecting"),
        ],
    );
    assert_eq!(status.collected_count, Some(2));
    let ready = status
        .conditions
        .iter()
        .find(|c| c.type_ == "Ready")
        .unwrap();
    assert_eq!(ready.message, "profileRef \"p\" resolved; collecting");
}

#[test]
fn a_measured_zero_is_kept_and_an_unchanged_count_keeps_its_time() {
    let zero = TargetFacts {
        rows: 0,
        ..healthy()
    };
    let first = status(&TargetStatus::default(), &zero, &at(1));
    assert_eq!(first.collected_count, Some(0));
    assert_eq!(first.collected_count_updated_at, Some(at(1)));
    let second = status(&first, &zero, &at(60));
    assert_eq!(second, first, "nothing changed, nothing is written");
    let third = status(&second, &healthy(), &at(61));
    assert_eq!(third.collected_count_updated_at, Some(at(61)));
}

#[test]
fn a_cluster_target_says_which_profile_it_uses() {
    let found = TargetFacts {
        cluster: true,
        found_profile: Some(("platform".to_owned(), "p".to_owned())),
        ..healthy()
    };
    let with = status(&TargetStatus::default(), &found, &at(1));
    assert_eq!(with.profile_namespace.as_deref(), Some("platform"));
    assert_eq!(with.profile_name.as_deref(), Some("p"));
    let gone = status(&with, &healthy(), &at(2));
    assert_eq!((gone.profile_namespace, gone.profile_name), (None, None));
}

#[test]
fn what_nobody_allowed_to_collect_is_said_with_the_way_out() {
    let facts = TargetFacts {
        unpermitted: Some("add this line".to_owned()),
        ..healthy()
    };
    let status = status(&TargetStatus::default(), &facts, &at(1));
    let ready = statements::find(&status.conditions, Ready).unwrap();
    assert_eq!(ready.status, True);
    assert!(
        ready.message.ends_with("; add this line"),
        "{}",
        ready.message
    );
}

#[test]
fn a_stopped_target_is_not_ready_and_keeps_its_count() {
    let before = status(&TargetStatus::default(), &healthy(), &at(1));
    let trouble = Trouble {
        reason: Reason::Suspended,
        message: "spec.suspend is true; rows removed from inventories".to_owned(),
    };
    let facts = TargetFacts {
        trouble: Some(trouble),
        rows: 0,
        complete: false,
        ..healthy()
    };
    let after = status(&before, &facts, &at(2));
    assert_eq!(after.collected_count, Some(2));
    assert_eq!(
        states(&after)[..2],
        [
            ("Degraded".to_owned(), True, "Suspended".to_owned()),
            ("Ready".to_owned(), False, "Suspended".to_owned()),
        ]
    );
    let sinks = after
        .conditions
        .iter()
        .find(|c| c.type_ == "SinkReachable")
        .unwrap();
    assert_eq!(
        sinks.reason, "NoSinksInNamespace",
        "sinks have nothing to do with it"
    );
    let back = status(&after, &healthy(), &at(3));
    assert!(back.conditions.iter().all(|c| c.type_ != "Degraded"));
}

#[test]
fn one_bad_object_degrades_but_does_not_stop() {
    let facts = TargetFacts {
        failures: 1,
        last_failure: Some("attribute \"a\": eval CEL: no such key".to_owned()),
        ..healthy()
    };
    let status = expect(
        &facts,
        &[
            ("Degraded", True, "ExtractionFailed"),
            ("Ready", True, "Collecting"),
            ("SinkReachable", True, "NoSinksInNamespace"),
            ("Synced", True, "Collecting"),
        ],
    );
    assert_eq!(status.extraction_failures, 1);
    let none = TargetFacts { rows: 0, ..facts };
    expect(
        &none,
        &[
            ("Degraded", True, "ExtractionFailed"),
            ("Ready", False, "ExtractionFailed"),
            ("SinkReachable", True, "NoSinksInNamespace"),
            ("Synced", True, "Collecting"),
        ],
    );
}

#[test]
fn nothing_is_claimed_before_the_first_listing_is_through() {
    let facts = TargetFacts {
        complete: false,
        rows: 7,
        interruption: Some("the API server answered 503".to_owned()),
        ..healthy()
    };
    let status = expect(
        &facts,
        &[
            ("Ready", False, "Progressing"),
            ("SinkReachable", True, "NoSinksInNamespace"),
            ("Synced", False, "Progressing"),
        ],
    );
    assert_eq!(
        status.collected_count, None,
        "a number that grows would only confuse"
    );
}

#[test]
fn denied_namespaces_and_broken_sinks_do_not_stop_collection() {
    let unreachable = Trouble {
        reason: Reason::SinkNotFound,
        message: "KollectDatabaseSink \"pg\" does not exist".to_owned(),
    };
    let facts = TargetFacts {
        forbidden: Some("denied: [team-b]".to_owned()),
        sinks: Some(Sinks::Unreachable(unreachable)),
        ..healthy()
    };
    expect(
        &facts,
        &[
            ("Degraded", True, "ScopeForbidden"),
            ("Ready", True, "Collecting"),
            ("SinkReachable", False, "SinkNotFound"),
            ("Synced", True, "ScopeForbidden"),
        ],
    );
}

#[test]
fn what_could_not_be_read_changes_nothing() {
    let before = status(&TargetStatus::default(), &healthy(), &at(1));
    let facts = TargetFacts {
        undecided: true,
        rows: 0,
        generation: Some(4),
        ..healthy()
    };
    let after = status(&before, &facts, &at(2));
    assert_eq!(after, before, "also the generation was not looked at");
}

fn ready(status: &TargetStatus) -> &str {
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|c| c.type_ == "Ready").unwrap();
    &ready.message
}

#[test]
fn c_08_a_cluster_target_says_as_much_as_any_other() {
    let facts = TargetFacts {
        cluster: true,
        profile: "\"p\" in namespace \"home\"".to_owned(),
        failures: 1,
        last_failure: Some("attribute \"a\": no such key".to_owned()),
        sinks: None,
        ..healthy()
    };
    let status = expect(
        &facts,
        &[
            ("Degraded", True, "ExtractionFailed"),
            ("Ready", True, "Collecting"),
            ("Synced", True, "Collecting"),
        ],
    );
    assert_eq!(
        ready(&status),
        "profileRef \"p\" in namespace \"home\" resolved; 1 namespace(s) matched; \
         collecting"
    );
    assert_eq!(status.collected_count, Some(2));
    assert_eq!(status.extraction_failures, 1);
}

#[test]
fn c_20_a_policy_that_cannot_be_evaluated_is_shown() {
    let error = "spec.resourceRules[0].matchPolicy: no such key";
    let facts = TargetFacts {
        policy_failure: Some(error.to_owned()),
        ..healthy()
    };
    let status = status(&TargetStatus::default(), &facts, &at(1));
    assert!(ready(&status).ends_with(&format!("; objects do not match because of {error}")));
}

#[test]
fn c_43_a_field_that_alone_changes_is_a_change() {
    let before = status(&TargetStatus::default(), &healthy(), &at(1));
    let matched = TargetFacts {
        matched_namespaces: ["team-a".into(), "team-b".into()].into(),
        ..healthy()
    };
    let rules = TargetFacts {
        active_rules: 1,
        ..healthy()
    };
    for facts in [matched, rules] {
        let after = status(&before, &facts, &at(2));
        assert_eq!(after.conditions, before.conditions);
        assert_ne!(after, before);
    }
}

#[test]
fn events_are_about_transitions() {
    let before = status(&TargetStatus::default(), &healthy(), &at(1));
    let same = status(
        &before,
        &TargetFacts {
            rows: 9,
            ..healthy()
        },
        &at(2),
    );
    assert_eq!(
        condition::transitions(&before.conditions, &same.conditions).count(),
        0,
        "a new number is no event"
    );
    let forbidden = TargetFacts {
        forbidden: Some("denied: [b]".to_owned()),
        ..healthy()
    };
    let after = status(&before, &forbidden, &at(3));
    let reasons: Vec<_> = condition::transitions(&before.conditions, &after.conditions)
        .map(|c| c.reason.as_str())
        .collect();
    assert_eq!(reasons, ["ScopeForbidden", "ScopeForbidden"]);
}

#[test]
fn situations_follow_from_the_facts() {
    let failing = TargetFacts {
        failures: 1,
        ..healthy()
    };
    let situation = |facts: &TargetFacts| match TargetSituation::of(facts) {
        TargetSituation::Stopped(_) => "stopped",
        TargetSituation::Listing(None) => "listing",
        TargetSituation::Listing(Some(_)) => "listing with failures",
        TargetSituation::Collecting(None) => "collecting",
        TargetSituation::Collecting(Some(_)) => "collecting with failures",
        TargetSituation::Fruitless(_) => "fruitless",
    };
    assert_eq!(situation(&healthy()), "collecting");
    assert_eq!(situation(&failing), "collecting with failures");
    let fruitless = TargetFacts {
        rows: 0,
        ..failing.clone()
    };
    assert_eq!(situation(&fruitless), "fruitless");
    let listing = TargetFacts {
        complete: false,
        ..healthy()
    };
    assert_eq!(situation(&listing), "listing");
    let listing = TargetFacts {
        complete: false,
        ..fruitless.clone()
    };
    assert_eq!(
        situation(&listing),
        "listing with failures",
        "more may come"
    );
    let stopped = TargetFacts {
        trouble: Some(Trouble {
            reason: Reason::Suspended,
            message: String::new(),
        }),
        ..fruitless
    };
    assert_eq!(situation(&stopped), "stopped");
}

#[test]
fn c4_a_restart_says_nothing_while_it_catches_up() {
    let before = status(&TargetStatus::default(), &healthy(), &at(1));
    let degraded = status(
        &TargetStatus::default(),
        &TargetFacts {
            failures: 1,
            last_failure: Some("team-a/o: bad".to_owned()),
            ..healthy()
        },
        &at(1),
    );
    let listing = TargetFacts {
        complete: false,
        catching_up: true,
        rows: 0,
        ..healthy()
    };
    for previous in [&before, &degraded] {
        assert_eq!(status(previous, &listing, &at(2)), *previous);
    }
    let reason = |previous: &TargetStatus, facts: &TargetFacts| {
        let status = status(previous, facts, &at(2));
        statements::find(&status.conditions, Ready)
            .unwrap()
            .reason
            .clone()
    };
    let late = TargetFacts {
        catching_up: false,
        ..listing.clone()
    };
    assert_eq!(reason(&before, &late), "Progressing", "it takes too long");
    let edited = TargetFacts {
        generation: Some(4),
        ..listing.clone()
    };
    assert_eq!(
        reason(&before, &edited),
        "Progressing",
        "somebody waits for it"
    );
    assert_eq!(
        reason(&TargetStatus::default(), &listing),
        "Progressing",
        "the first"
    );
    let suspended = TargetFacts {
        trouble: Some(Trouble {
            reason: Reason::Suspended,
            message: String::new(),
        }),
        ..listing
    };
    assert_eq!(
        reason(&before, &suspended),
        "Suspended",
        "trouble does not wait"
    );
}

#[test]
fn c17_a_target_outside_its_scope_is_not_ready() {
    let facts = TargetFacts {
        effective_namespaces: Names::default(),
        outside_scope: ["team-b".into()].into(),
        rows: 0,
        ..healthy()
    };
    let status = expect(
        &facts,
        &[
            ("Degraded", True, "ScopeNamespaceDenied"),
            ("Ready", False, "ScopeNamespaceDenied"),
            ("SinkReachable", True, "NoSinksInNamespace"),
            ("Synced", False, "ScopeNamespaceDenied"),
        ],
    );
    assert!(ready(&status).contains("[team-b]"), "{}", ready(&status));
    let partly = TargetFacts {
        effective_namespaces: ["team-a".into()].into(),
        ..facts
    };
    let status = expect(
        &partly,
        &[
            ("Ready", True, "Collecting"),
            ("SinkReachable", True, "NoSinksInNamespace"),
            ("Synced", True, "Collecting"),
        ],
    );
    assert!(ready(&status).ends_with("; outside the scope: [team-b]"));
}

#[test]
fn c10_cluster_scoped_kinds_are_not_asked_for_namespaces() {
    let nothing = TargetFacts {
        effective_namespaces: Names::default(),
        ..healthy()
    };
    let message = |facts: &TargetFacts| {
        let status = status(&TargetStatus::default(), facts, &at(1));
        ready(&status).to_owned()
    };
    assert!(message(&nothing).contains("no namespace is selected"));
    let cluster_scoped = TargetFacts {
        cluster_scoped: true,
        cluster: true,
        ..nothing
    };
    assert_eq!(
        message(&cluster_scoped),
        "profileRef \"p\" resolved; collecting"
    );
}

#[test]
fn c19_messages_give_no_count_that_ages() {
    let many = TargetFacts {
        rows: 1_000,
        ..healthy()
    };
    let none = TargetFacts {
        rows: 0,
        ..healthy()
    };
    let message = |facts: &TargetFacts| {
        let status = status(&TargetStatus::default(), facts, &at(1));
        ready(&status).to_owned()
    };
    assert_eq!(message(&many), message(&healthy()));
    assert!(message(&none).ends_with("; no object matches"));
}

#[test]
fn c6_a_finalizer_that_cannot_be_added_is_told() {
    let facts = TargetFacts {
        finalizer: Some("patch is forbidden".to_owned()),
        ..healthy()
    };
    let status = expect(
        &facts,
        &[
            ("Degraded", True, "FinalizerNotAdded"),
            ("Ready", True, "Collecting"),
            ("SinkReachable", True, "NoSinksInNamespace"),
            ("Synced", True, "Collecting"),
        ],
    );
    let degraded = statements::find(&status.conditions, Degraded).unwrap();
    assert!(degraded.message.ends_with("patch is forbidden"));
    expect(
        &TargetFacts { rows: 0, ..facts },
        &[
            ("Degraded", True, "FinalizerNotAdded"),
            ("Ready", True, "Collecting"),
            ("SinkReachable", True, "NoSinksInNamespace"),
            ("Synced", True, "Collecting"),
        ],
    );
}

#[test]
fn namespaces_that_nobody_told_the_operator_to_serve_are_named() {
    let facts = TargetFacts {
        effective_namespaces: Names::default(),
        unserved: ["kube-system".into()].into(),
        rows: 0,
        ..healthy()
    };
    let status = status(&TargetStatus::default(), &facts, &at(1));
    let message = ready(&status);
    assert!(message.contains("nothing is collected"), "{message}");
    assert!(
        message.contains("does not serve the namespaces [kube-system] (--watch-namespaces)"),
        "{message}"
    );
}
