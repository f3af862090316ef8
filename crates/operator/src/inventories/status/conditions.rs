//! The conditions of an inventory: for each situation, what is said.

use kollect_api::condition::{
    ConditionStatus::{False, True},
    ConditionType::{Degraded, ExportShardWarning, ExportSucceeded, Ready, SinkReachable, Synced},
    Reason,
};
use kollect_collect::plan::TargetKey;

use super::{
    InventoryFacts, count,
    situation::{Failures, Situation},
};
use crate::{
    statements::Statement::{self, Ends, SaysAtFirst},
    target_status::Trouble,
};

/// From this many rows on, people are told that documents get large.
const MANY_ROWS: usize = 1_800;

/// The numbers that messages mention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    items: i64,
    targets: usize,
    sinks: usize,
    /// Whether it is a cluster inventory, which speaks of rolling up.
    cluster: bool,
}

impl Numbers {
    pub(super) fn of(facts: &InventoryFacts<'_>, sinks: usize) -> Self {
        let survey = facts.report.survey.as_ref();
        Self {
            items: count(survey.map_or(0, |survey| survey.rows)),
            targets: facts.plan.targets.len(),
            sinks,
            cluster: facts.cluster,
        }
    }

    fn rolled_up(&self) -> String {
        let Self { items, targets, .. } = self;
        format!("rolled up {targets} target(s), {items} item(s)")
    }
}

/// What the conditions say. `settled` is whether delivered rows are no news any more.
pub(super) fn of(situation: &Situation<'_>, numbers: &Numbers, settled: bool) -> Vec<Statement> {
    match situation {
        Situation::Closed(trouble) => closed(trouble),
        Situation::WaitingForTargets(targets) => {
            not_yet(Reason::WaitingForCollection, waiting(targets))
        }
        Situation::WithoutSinks => without_sinks(numbers),
        Situation::Delivering(behind) => {
            let message = format!("delivering to {behind} of {} sink(s)", numbers.sinks);
            not_yet(Reason::Progressing, message)
        }
        Situation::Delivered => delivered(numbers, settled),
        Situation::PartlyFailed(good, failures) => partly_failed(numbers, *good, failures),
        Situation::Failed(failures) => failed(failures),
    }
}

fn closed(trouble: &Trouble) -> Vec<Statement> {
    let Trouble { reason, message } = trouble;
    vec![
        Statement::says(Synced, False, *reason, message),
        Statement::says(Degraded, True, *reason, message),
        Statement::says(Ready, False, *reason, message),
    ]
}

/// What was ready stays ready while it is brought up to date.
fn not_yet(reason: Reason, message: String) -> Vec<Statement> {
    vec![
        Statement::says(Synced, False, reason, &message),
        SaysAtFirst(Ready, False, reason, message),
    ]
}

fn without_sinks(numbers: &Numbers) -> Vec<Statement> {
    let none = "no family sink refs configured";
    let (reason, message) = if numbers.cluster {
        (Reason::RolledUp, numbers.rolled_up())
    } else {
        (Reason::NoExport, none.to_owned())
    };
    vec![
        Ends(Degraded),
        Statement::says(Synced, True, reason, &message),
        Statement::says(Ready, True, reason, message),
        Statement::says(SinkReachable, True, Reason::NoSinksConfigured, none),
    ]
}

fn delivered(numbers: &Numbers, settled: bool) -> Vec<Statement> {
    let Numbers {
        items,
        sinks,
        cluster,
        ..
    } = numbers;
    let ready = if *cluster {
        numbers.rolled_up()
    } else {
        format!("exported {items} item(s) across {sinks} sink(s)")
    };
    let reachable = "last export completed successfully";
    let mut said = vec![
        Ends(Degraded),
        Statement::says(Ready, True, Reason::Exported, ready),
        Statement::says(SinkReachable, True, Reason::ExportSucceeded, reachable),
    ];
    if *cluster {
        let message = format!("exported {items} item(s) to {sinks} sink(s)");
        said.push(Statement::says(
            ExportSucceeded,
            True,
            Reason::Exported,
            message,
        ));
    }
    said.push(if settled {
        let message = format!("all {sinks} sink(s) hold the current rows");
        Statement::says(Synced, True, Reason::UpToDate, message)
    } else {
        let message = format!("exported to {sinks} sink(s)");
        Statement::says(Synced, True, Reason::Exported, message)
    });
    said
}

fn partly_failed(numbers: &Numbers, good: usize, failures: &Failures) -> Vec<Statement> {
    let Numbers {
        items,
        sinks,
        cluster,
        ..
    } = numbers;
    let partly = Reason::PartiallySynced;
    let synced = format!("{good}/{sinks} sinks exported; {} failed", failures.number);
    let exported = format!("exported {items} item(s) to {good}/{sinks} sink(s)");
    let ready = if *cluster {
        numbers.rolled_up()
    } else {
        exported.clone()
    };
    let mut said = vec![
        Statement::says(SinkReachable, False, failures.reason, &failures.text),
        Statement::says(Synced, False, partly, synced),
        Statement::says(Ready, True, partly, ready),
        Ends(Degraded),
    ];
    if *cluster {
        said.push(Statement::says(ExportSucceeded, True, partly, exported));
    }
    said
}

fn failed(failures: &Failures) -> Vec<Statement> {
    let Failures { text, reason, .. } = failures;
    // What may heal by itself is on its way.
    let whole = match reason {
        Reason::ExportFailed => Reason::Progressing,
        other => *other,
    };
    vec![
        Statement::says(SinkReachable, False, *reason, text),
        Statement::says(Synced, False, whole, text),
        Statement::says(Degraded, True, whole, text),
        Statement::says(Ready, False, whole, text),
    ]
}

fn waiting(targets: &[TargetKey]) -> String {
    let mut names: Vec<String> = targets
        .iter()
        .take(5)
        .map(|key| key.name.to_string())
        .collect();
    if targets.len() > names.len() {
        names.push("…".to_owned());
    }
    match targets.len() {
        0 => "waiting for the first collection plan".to_owned(),
        number => format!(
            "waiting for the first listing of {number} target(s): [{}]",
            names.join(" ")
        ),
    }
}

/// Tells that documents get large. Nothing is refused because of it.
pub(super) fn size_warning(facts: &InventoryFacts<'_>) -> Option<Statement> {
    let survey = facts.report.survey.as_ref()?;
    if facts.cluster || survey.rows < MANY_ROWS {
        return Some(Ends(ExportShardWarning));
    }
    Some(Statement::says(
        ExportShardWarning,
        True,
        Reason::ApproachingExportCap,
        "many rows for one document; if readers need smaller ones, set maxExportBytes on the reference or choose a layout with one file per row",
    ))
}
