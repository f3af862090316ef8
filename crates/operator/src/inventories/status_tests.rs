//! Statuses of inventories, from tables of what their sinks do.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use kollect_api::{InventoryId, SinkKey, inventory::Dedupe, reference::SinkFamily};
use kollect_collect::{
    plan::TargetKey,
    store::{Limits, RowSelection, Store},
};
use kollect_export::{
    Configuration, Order, SinkOrder,
    order::Source,
    report::{Export, LaneState},
    survey::Survey,
};
use kollect_sinks::{DocumentOptions, SinkError};

use super::{super::plan::Finding, *};
use crate::target_status::Trouble;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn key(family: SinkFamily, name: &str) -> SinkKey {
    SinkKey {
        family,
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
    }
}

fn plan() -> InventoryPlan {
    InventoryPlan {
        order: Order {
            inventory: InventoryId::namespaced("team-a", "inv"),
            generation: 1,
            scope: RowSelection::Namespace("team-a".to_owned()),
            dedupe: Dedupe::KeepAll,
            open: true,
            deliver: Vec::new(),
            retire: Vec::new(),
        },
        gate: None,
        doubt: None,
        undecided: false,
        findings: Vec::new(),
        orphans: Vec::new(),
        targets: BTreeSet::new(),
    }
}

fn survey(rows: usize) -> Survey {
    let store = Store::new(Limits::default(), || {});
    let scope = RowSelection::Namespace("team-a".to_owned());
    let revision = store.revision(&scope);
    Survey {
        revision,
        rows,
        checksum: "c1".to_owned(),
        shares: Vec::new(),
        parts: Vec::new(),
    }
}

fn lane(key: SinkKey, state: LaneState) -> LaneReport {
    LaneReport {
        last_export: (state == LaneState::InStep).then(|| Export {
            at: at(0),
            checksum: Some("c1".to_owned()),
        }),
        confirmed_at: None,
        skipped: None,
        read_back: None,
        often: None,
        key,
        state,
    }
}

fn failed(error: SinkError) -> LaneState {
    LaneState::Failed {
        error,
        in_a_row: 1,
        next: None,
    }
}

fn report(lanes: Vec<LaneReport>) -> Report {
    Report {
        waiting_for: None,
        survey: Some(survey(1)),
        lanes,
        retiring: Vec::new(),
    }
}

fn pass(
    previous: &InventoryStatus,
    plan: &InventoryPlan,
    report: &Report,
    steady: u64,
    now: i64,
) -> InventoryStatus {
    let mut plan = plan.clone();
    if plan.order.deliver.is_empty() {
        let lanes = report.lanes.iter();
        let orders = lanes.map(|lane| match &lane.state {
            LaneState::Held(Some(error)) => order(&lane.key, Source::Held(error.clone())),
            _ => order(&lane.key, Source::Reading),
        });
        plan.order.deliver = orders.collect();
    }
    let facts = InventoryFacts {
        generation: 1,
        cluster: false,
        plan: &plan,
        report,
        steady: Duration::from_secs(steady),
        patience: PATIENCE,
        degraded: &[],
    };
    status(previous, &facts, &Time(at(now)))
}

/// An order to deliver to a sink.
fn order(key: &SinkKey, source: Source) -> SinkOrder {
    SinkOrder {
        key: key.clone(),
        source,
        configuration: Configuration(0),
        interval: Duration::ZERO,
        change_interval: Duration::ZERO,
        documents: DocumentOptions::default(),
        resume: None,
    }
}

/// `Type=InventoryStatus/Reason: message`, sorted.
fn told(status: &InventoryStatus) -> Vec<String> {
    let mut told: Vec<String> = status
        .conditions
        .iter()
        .map(|c| format!("{}={:?}/{}: {}", c.type_, c.status, c.reason, c.message))
        .collect();
    told.sort();
    told
}

fn pg() -> SinkKey {
    key(SinkFamily::Database, "pg")
}

fn git() -> SinkKey {
    key(SinkFamily::Snapshot, "git")
}

#[test]
fn s01_s02_an_export_and_then_rest() {
    let (plan, good) = (plan(), report(vec![lane(pg(), LaneState::InStep)]));
    let first = pass(&InventoryStatus::default(), &plan, &good, 0, 1);
    assert_eq!(
        told(&first),
        [
            "Ready=True/Exported: exported 1 item(s) across 1 sink(s)",
            "SinkReachable=True/ExportSucceeded: last export completed successfully",
            "Synced=True/Exported: exported to 1 sink(s)",
        ]
    );
    assert_eq!(first.item_count, 1);
    let [entry] = first.sink_exports.as_slice() else {
        panic!("{first:?}");
    };
    assert_eq!(entry.name, "database/pg");
    assert_eq!(entry.last_checksum.as_deref(), Some("c1"));
    assert_eq!(entry.last_export_time, Some(Time(at(0))));
    assert_eq!(first.last_export_time, Some(Time(at(0))));

    let settled = pass(&first, &plan, &good, 6, 7);
    assert!(told(&settled)[2].starts_with("Synced=True/UpToDate"));
    assert_eq!(settled.sink_exports, first.sink_exports, "history stays");

    // Ten minutes of refreshes later: nothing to write.
    let mut confirmed = good.clone();
    confirmed.lanes[0].confirmed_at = Some(at(600));
    assert_eq!(pass(&settled, &plan, &confirmed, 600, 600), settled);
    // A while later the time is brought up to date.
    confirmed.lanes[0].confirmed_at = Some(at(1_000));
    let later = pass(&settled, &plan, &confirmed, 1_000, 1_000);
    assert_eq!(later.last_export_time, Some(Time(at(1_000))));
    assert_eq!(later.conditions, settled.conditions);
}

/// Rows that a sink leaves out are told for as long as it does, with the first of them.
#[test]
fn b10_rows_that_are_left_out_are_told() {
    let plan = plan();
    let good = report(vec![
        lane(pg(), LaneState::InStep),
        lane(git(), LaneState::InStep),
    ]);
    let mut partial = good.clone();
    partial.lanes[1].skipped = Some(kollect_sinks::Skipped {
        rows: 3,
        first: "ConfigMap/team-a/cfg".to_owned(),
        why: kollect_sinks::Why::TooLarge { limit: 1_048_576 },
    });
    let unread = "permission denied".to_owned();
    partial.lanes[1].read_back = Some(kollect_sinks::ReadBack::Replayed(unread));
    let first = pass(&InventoryStatus::default(), &plan, &partial, 0, 1);
    let said = told(&first);
    assert!(
        said[0].starts_with("Degraded=True/RowsSkipped: snapshot/git: 3 row(s)")
            && said[0].contains("ConfigMap/team-a/cfg")
            && said[0].contains("1048576 bytes"),
        "{said:?}"
    );
    assert!(said.iter().any(|line| line.starts_with("Ready=True")));
    let entry = &first.sink_exports[1].conditions[0];
    assert_eq!(entry.reason, "RowsSkipped");
    let read_back = &first.sink_exports[1].conditions[1];
    assert_eq!(
        (&*read_back.type_, &*read_back.reason),
        ("ReadBack", "Replayed")
    );
    assert!(read_back.message.contains("permission denied"));
    let again = pass(&first, &plan, &partial, 6, 7);
    let settled = pass(&again, &plan, &partial, 60, 67);
    assert_eq!(settled, again, "it is told once");
    let mut good = good;
    good.lanes[1].read_back = Some(kollect_sinks::ReadBack::Compared);
    let healed = pass(&settled, &plan, &good, 60, 120);
    assert_eq!(healed.sink_exports[1].conditions.len(), 1, "it was read");
    assert!(
        !told(&healed)
            .iter()
            .any(|line| line.starts_with("Degraded"))
    );
}

#[test]
fn what_is_delivered_within_moments_changes_nothing() {
    let (plan, good) = (plan(), report(vec![lane(pg(), LaneState::InStep)]));
    let settled = pass(
        &pass(&InventoryStatus::default(), &plan, &good, 0, 1),
        &plan,
        &good,
        6,
        7,
    );
    let mut behind = good.clone();
    behind.lanes[0].state = LaneState::Behind;
    assert_eq!(pass(&settled, &plan, &behind, 1, 8), settled);
    let slow = pass(&settled, &plan, &behind, 6, 13);
    assert_eq!(
        told(&slow)[2],
        "Synced=False/Progressing: delivering to 1 of 1 sink(s)"
    );
    let waiting = Report {
        waiting_for: Some(vec![TargetKey::namespaced("team-a", "t")]),
        ..good
    };
    assert_eq!(pass(&settled, &plan, &waiting, 1, 8), settled, "a restart");
    let long = pass(&settled, &plan, &waiting, 60, 68);
    assert_eq!(
        told(&long)[2],
        "Synced=False/WaitingForCollection: waiting for the first listing of 1 target(s): [t]"
    );
}

/// Two sinks, and what is told.
type Case = (LaneState, LaneState, &'static [&'static str]);

#[test]
fn s14_s17_failures_in_all_mixtures() {
    let transient = || failed(SinkError::transient("conn refused"));
    let terminal = || failed(SinkError::terminal("bad table"));
    let cases: [Case; 4] = [
        (
            LaneState::InStep,
            transient(),
            &[
                "Ready=True/PartiallySynced: exported 1 item(s) to 1/2 sink(s)",
                "SinkReachable=False/ExportFailed: export to \"pg\": conn refused",
                "Synced=False/PartiallySynced: 1/2 sinks exported; 1 failed",
            ],
        ),
        (
            LaneState::InStep,
            terminal(),
            &[
                "Ready=True/PartiallySynced: exported 1 item(s) to 1/2 sink(s)",
                "SinkReachable=False/ExportTerminal: export to \"pg\": bad table",
                "Synced=False/PartiallySynced: 1/2 sinks exported; 1 failed",
            ],
        ),
        (
            terminal(),
            transient(),
            &[
                "Degraded=True/Progressing: export to \"git\": bad table\nexport to \"pg\": conn refused",
                "Ready=False/Progressing: export to \"git\": bad table\nexport to \"pg\": conn refused",
                "SinkReachable=False/ExportFailed: export to \"git\": bad table\nexport to \"pg\": conn refused",
                "Synced=False/Progressing: export to \"git\": bad table\nexport to \"pg\": conn refused",
            ],
        ),
        (
            terminal(),
            terminal(),
            &[
                "Degraded=True/ExportTerminal: export to \"git\": bad table\nexport to \"pg\": bad table",
                "Ready=False/ExportTerminal: export to \"git\": bad table\nexport to \"pg\": bad table",
                "SinkReachable=False/ExportTerminal: export to \"git\": bad table\nexport to \"pg\": bad table",
                "Synced=False/ExportTerminal: export to \"git\": bad table\nexport to \"pg\": bad table",
            ],
        ),
    ];
    for (first, second, expected) in cases {
        let report = report(vec![lane(git(), first), lane(pg(), second)]);
        let status = pass(&InventoryStatus::default(), &plan(), &report, 0, 1);
        assert_eq!(told(&status), expected);
    }
}

/// What the sink itself says is shown with the sinks: `s26_a_ceiling_below_one_row_is_terminal`.
#[test]
fn s26_a_ceiling_too_small_for_one_row_concerns_one_sink() {
    let text = "single item export envelope exceeds maxExportBytes (100): more";
    let lanes = vec![
        lane(git(), failed(SinkError::terminal(text))),
        lane(pg(), LaneState::InStep),
    ];
    let status = pass(&InventoryStatus::default(), &plan(), &report(lanes), 0, 1);
    let reachable = format!("SinkReachable=False/ExportTerminal: export to \"git\": {text}");
    let expected = [
        "Ready=True/PartiallySynced: exported 1 item(s) to 1/2 sink(s)",
        &reachable,
        "Synced=False/PartiallySynced: 1/2 sinks exported; 1 failed",
    ];
    assert_eq!(told(&status), expected);
    let entries = status.sink_exports.iter().map(|entry| {
        let condition = &entry.conditions[0];
        let told = condition.message.contains(text);
        (&*entry.name, &*condition.reason, told)
    });
    let expected = [
        ("snapshot/git", "ExportFailed", true),
        ("database/pg", "Exported", false),
    ];
    assert_eq!(entries.collect::<Vec<_>>(), expected);
}

#[test]
fn s19_s20_only_the_sink_in_question_is_blocked() {
    let missing = key(SinkFamily::Database, "missing");
    let mut plan = plan();
    plan.findings.push(Finding {
        key: missing.clone(),
        trouble: Trouble {
            reason: Reason::SinkNotFound,
            message: "get KollectDatabaseSink \"missing\" in \"team-a\": not found".to_owned(),
        },
    });
    let held = LaneState::Held(Some(SinkError::terminal("not found")));
    let report = report(vec![lane(pg(), LaneState::InStep), lane(missing, held)]);
    let status = pass(&InventoryStatus::default(), &plan, &report, 0, 1);
    let told = told(&status);
    assert!(
        told[0].starts_with("Ready=True/PartiallySynced"),
        "{told:?}"
    );
    assert!(
        told[1].starts_with("SinkReachable=False/SinkNotFound"),
        "{told:?}"
    );
    let reasons: Vec<_> = status
        .sink_exports
        .iter()
        .map(|entry| (&*entry.name, &*entry.conditions[0].reason))
        .collect();
    assert_eq!(
        reasons,
        [
            ("database/pg", "Exported"),
            ("database/missing", "SinkNotFound")
        ]
    );
}

#[test]
fn history_survives_a_failure_and_a_failure_leaves_with_its_cause() {
    let (plan, good) = (plan(), report(vec![lane(pg(), LaneState::InStep)]));
    let first = pass(&InventoryStatus::default(), &plan, &good, 0, 1);
    let bad = report(vec![lane(pg(), failed(SinkError::transient("away")))]);
    let status = pass(&first, &plan, &bad, 0, 60);
    let entry = &status.sink_exports[0];
    assert_eq!(entry.last_checksum.as_deref(), Some("c1"));
    assert_eq!(entry.conditions[0].reason, "ExportFailed");
    assert!(told(&status)[0].starts_with("Degraded"));
    let healed = pass(&status, &plan, &good, 0, 90);
    assert_eq!(told(&healed), told(&first));
}

#[test]
fn s12_s29_no_sinks_and_many_rows() {
    let none = report(Vec::new());
    let status = pass(&InventoryStatus::default(), &plan(), &none, 0, 1);
    assert_eq!(
        told(&status),
        [
            "Ready=True/NoExport: no family sink refs configured",
            "SinkReachable=True/NoSinksConfigured: no family sink refs configured",
            "Synced=True/NoExport: no family sink refs configured",
        ]
    );
    for (rows, warned) in [(1_799, false), (1_800, true)] {
        let mut many = none.clone();
        many.survey = Some(survey(rows));
        let status = pass(&InventoryStatus::default(), &plan(), &many, 0, 1);
        let shown = told(&status)
            .iter()
            .any(|c| c.starts_with("ExportShardWarning"));
        assert_eq!(shown, warned, "{rows}");
        let fewer = pass(&status, &plan(), &none, 0, 2);
        assert!(
            !told(&fewer)
                .iter()
                .any(|c| c.starts_with("ExportShardWarning"))
        );
    }
}

#[test]
fn changes_that_are_written_all_the_time_are_told_and_taken_back() {
    let churn = |family| {
        let key = SinkKey { family, ..pg() };
        let mut busy = report(vec![lane(key, LaneState::Gathering)]);
        busy.lanes[0].often = Some(kollect_export::churn::Often {
            writes: 201,
            bytes: 5 << 20,
        });
        busy
    };
    let status = pass(
        &InventoryStatus::default(),
        &plan(),
        &churn(SinkFamily::Snapshot),
        0,
        1,
    );
    let warned = |status: &InventoryStatus| {
        let warned = told(status).into_iter();
        warned
            .filter(|c| c.starts_with("ExportChurnWarning"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        warned(&status),
        [
            "ExportChurnWarning=True/ChangesExportedOften: changes were exported 201 times within an hour to \"pg\", 5 MiB in all; if readers can wait, set changeInterval on the reference, the sink or the inventory, such as 1m"
        ]
    );
    let database = churn(SinkFamily::Database);
    let calm = pass(&status, &plan(), &database, 0, 2);
    assert_eq!(warned(&calm), [""; 0], "a database takes a row for a row");
}

#[test]
fn a_gate_is_told_and_taken_back() {
    let mut closed = plan();
    closed.gate = Some(Trouble {
        reason: Reason::Suspended,
        message: "spec.suspend is true".to_owned(),
    });
    let good = report(vec![lane(pg(), LaneState::InStep)]);
    let status = pass(&InventoryStatus::default(), &closed, &good, 0, 1);
    assert_eq!(
        told(&status),
        [
            "Degraded=True/Suspended: spec.suspend is true",
            "Ready=False/Suspended: spec.suspend is true",
            "Synced=False/Suspended: spec.suspend is true",
        ]
    );
    let open = pass(&status, &plan(), &good, 0, 2);
    assert!(told(&open)[0].starts_with("Ready=True"));
}

#[test]
fn long_texts_are_cut() {
    let text = "é".repeat(40_000);
    let bad = report(vec![lane(pg(), failed(SinkError::transient(text)))]);
    let status = pass(&InventoryStatus::default(), &plan(), &bad, 0, 1);
    assert!(status.conditions.iter().all(|c| c.message.len() <= 1_024));
}

/// An exporter that has just begun has said nothing, and that is not "no sinks".
#[test]
fn c16_a_restart_says_nothing_before_it_knows() {
    let good = report(vec![lane(pg(), LaneState::InStep)]);
    let settled = pass(
        &pass(&InventoryStatus::default(), &plan(), &good, 0, 1),
        &plan(),
        &good,
        6,
        7,
    );
    let mut plan = plan();
    plan.order.deliver = vec![order(&pg(), Source::Reading)];
    let silent = Report::default();
    for previous in [&settled, &InventoryStatus::default()] {
        for steady in [0, 100] {
            let facts = InventoryFacts {
                generation: 1,
                cluster: false,
                plan: &plan,
                report: &silent,
                steady: Duration::from_secs(steady),
                patience: PATIENCE,
                degraded: &[],
            };
            let status = status(previous, &facts, &Time(at(8)));
            assert_eq!(status, *previous, "nor is any history lost");
        }
    }
}

/// What an earlier version, or an earlier spec, said about sinks is taken back.
#[test]
fn c16_no_sinks_is_taken_back_when_there_are_some() {
    let without = pass(
        &InventoryStatus::default(),
        &plan(),
        &report(Vec::new()),
        0,
        1,
    );
    assert!(told(&without)[0].starts_with("Ready=True/NoExport"));
    let behind = report(vec![lane(pg(), LaneState::Behind)]);
    let waiting = Report {
        waiting_for: Some(vec![TargetKey::namespaced("team-a", "t")]),
        ..behind.clone()
    };
    for (report, expected) in [
        (
            &behind,
            [
                "Ready=False/Progressing: delivering to 1 of 1 sink(s)",
                "Synced=False/Progressing: delivering to 1 of 1 sink(s)",
            ],
        ),
        (
            &waiting,
            [
                "Ready=False/WaitingForCollection: waiting for the first listing of 1 target(s): [t]",
                "Synced=False/WaitingForCollection: waiting for the first listing of 1 target(s): [t]",
            ],
        ),
    ] {
        let status = pass(&without, &plan(), report, 0, 2);
        assert_eq!(told(&status), expected);
    }
    let mut closed = plan();
    closed.gate = Some(Trouble {
        reason: Reason::Suspended,
        message: "spec.suspend is true".to_owned(),
    });
    let status = pass(&without, &closed, &behind, 0, 2);
    assert!(
        !told(&status)
            .iter()
            .any(|c| c.contains("no family sink refs")),
        "{:?}",
        told(&status)
    );
}

#[test]
fn c17_who_is_waited_for_is_named_with_what_is_wrong() {
    let targets = ["good", "bad"].map(|name| TargetKey::namespaced("team-a", name));
    let waiting = Report {
        waiting_for: Some(targets.to_vec()),
        ..report(Vec::new())
    };
    let why = "InvalidSpec: spec.labelSelector: bad operator".to_owned();
    let degraded = [(targets[1].clone(), why)];
    let facts = InventoryFacts {
        generation: 1,
        cluster: false,
        plan: &plan(),
        report: &waiting,
        steady: Duration::ZERO,
        patience: PATIENCE,
        degraded: &degraded,
    };
    let status = status(&InventoryStatus::default(), &facts, &Time(at(1)));
    assert_eq!(
        told(&status)[1],
        "Synced=False/WaitingForCollection: waiting for the first listing of 2 target(s): \
         [bad (Degraded: InvalidSpec: spec.labelSelector: bad operator), good]; \
         mend or delete the targets that are Degraded"
    );
}

#[test]
fn c19_rows_that_were_not_counted_are_not_given() {
    let mut uncounted = report(vec![lane(pg(), LaneState::InStep)]);
    uncounted.survey = None;
    let status = pass(&InventoryStatus::default(), &plan(), &uncounted, 0, 1);
    assert_eq!(
        told(&status)[0],
        "Ready=True/Exported: exported across 1 sink(s)"
    );
}

#[test]
fn c4_a_restart_has_more_patience_than_a_change() {
    assert_eq!(patience(Duration::ZERO), Duration::from_secs(30));
    assert_eq!(patience(Duration::from_secs(59)), Duration::from_secs(30));
    assert_eq!(patience(Duration::from_mins(1)), PATIENCE);
}

#[test]
fn c6_a_finalizer_that_cannot_be_added_is_told() {
    let status = unfinalized(&InventoryStatus::default(), 3, "denied", &Time(at(1)));
    let told = told(&status);
    assert!(
        told[0].starts_with("Degraded=True/FinalizerNotAdded: nothing is exported"),
        "{told:?}"
    );
    assert!(
        told[1].starts_with("Ready=False/FinalizerNotAdded"),
        "{told:?}"
    );
    assert!(told[0].contains("right to patch") && told[0].ends_with("denied"));
    assert_eq!(unfinalized(&status, 3, "denied", &Time(at(2))), status);
}

#[test]
fn c4_a_target_that_is_not_ready_yet_is_told_when_it_lasts() {
    let mut blocked = plan();
    blocked.gate = Some(Trouble {
        reason: Reason::TargetDegraded,
        message: "1 target(s) not Ready: [all]".to_owned(),
    });
    let behind = report(vec![lane(pg(), LaneState::Behind)]);
    let first = pass(&InventoryStatus::default(), &blocked, &behind, 0, 1);
    assert!(first.conditions.is_empty(), "{:?}", told(&first));
    let later = pass(&first, &blocked, &behind, 6, 7);
    assert_eq!(
        told(&later)[0],
        "Degraded=True/TargetDegraded: 1 target(s) not Ready: [all]"
    );
}

#[test]
fn c17_a_failed_export_says_when_it_is_tried_again() {
    let state = |error, next: Option<i64>| LaneState::Failed {
        error,
        in_a_row: 1,
        next: next.map(at),
    };
    for (error, next, expected) in [
        (
            SinkError::terminal("authentication failed"),
            Some(3_600),
            "export to \"pg\": authentication failed; next attempt at 1970-01-12T14:46:40Z, and at once when the inventory, the sink or its Secret changes, when a probe succeeds again, or with a new value of the annotation kollect.dev/requestedAt",
        ),
        (
            SinkError::transient("conn refused"),
            Some(5),
            "export to \"pg\": conn refused; next attempt at 1970-01-12T13:46:45Z, and at once with a new value of the annotation kollect.dev/requestedAt",
        ),
        (
            SinkError::transient("conn refused"),
            None,
            "export to \"pg\": conn refused; it is tried again now, and at once with a new value of the annotation kollect.dev/requestedAt",
        ),
    ] {
        let bad = report(vec![lane(pg(), state(error, next))]);
        let status = pass(&InventoryStatus::default(), &plan(), &bad, 0, 1);
        assert_eq!(status.sink_exports[0].conditions[0].message, expected);
    }
}

/// What held a sink is over, and the exporter has not looked yet: what it said before is no news.
#[test]
fn recovery_begins_without_the_old_cause() {
    let missing = SinkError::transient("secret \"dsn\" is missing");
    let held = report(vec![lane(pg(), LaneState::Held(Some(missing.clone())))]);
    let mut broken = plan();
    broken.order.deliver = vec![order(&pg(), Source::Held(missing))];
    let before = pass(&InventoryStatus::default(), &broken, &held, 60, 1);
    assert!(told(&before)[0].starts_with("Degraded=True/Progressing: acquire"));
    let mut found = broken.clone();
    found.findings = vec![Finding {
        key: pg(),
        trouble: Trouble {
            reason: Reason::SinkUnreachable,
            message: "not verified".to_owned(),
        },
    }];
    let unverified = pass(&before, &found, &held, 60, 2);
    let mut mended = broken.clone();
    mended.order.deliver = vec![order(&pg(), Source::Reading)];
    let during = pass(&unverified, &mended, &held, 0, 3);
    assert_eq!(told(&during), told(&unverified), "no other cause");
    let news = crate::events::news::worth_telling(&unverified.conditions, &during.conditions);
    assert_eq!(news, Vec::<&Condition>::new());
}
