//! The conditions of an inventory: for each situation, what is said.

use kollect_api::{
    condition::{
        Condition,
        ConditionStatus::{False, True},
        ConditionType::{
            Degraded, ExportChurnWarning, ExportShardWarning, ExportSucceeded, Ready,
            SinkReachable, Synced,
        },
        Reason,
    },
    reference::SinkFamily,
};
use kollect_collect::plan::TargetKey;
use kollect_export::{churn::Often, report::LaneReport};

use super::{
    InventoryFacts, count,
    sink_entries::Standing,
    situation::{Failures, Situation},
};
use crate::{
    statements::{
        self,
        Statement::{self, Ends, SaysAtFirst},
    },
    target_status::Trouble,
};

/// From this many rows on, people are told that documents get large.
const MANY_ROWS: usize = 1_800;

/// The numbers that messages mention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    /// Rows, if they have been counted.
    items: Option<i64>,
    targets: usize,
    sinks: usize,
    /// Whether it is a cluster inventory, which speaks of rolling up.
    cluster: bool,
}

impl Numbers {
    pub(super) fn of(facts: &InventoryFacts<'_>, sinks: usize) -> Self {
        let survey = facts.report.survey.as_ref();
        Self {
            items: survey.map(|survey| count(survey.rows)),
            targets: facts.plan.targets.len(),
            sinks,
            cluster: facts.cluster,
        }
    }

    fn rolled_up(&self) -> String {
        let targets = self.targets;
        match self.items {
            Some(items) => format!("rolled up {targets} target(s), {items} item(s)"),
            None => format!("rolled up {targets} target(s)"),
        }
    }

    fn exported(&self) -> String {
        match self.items {
            Some(items) => format!("exported {items} item(s)"),
            None => "exported".to_owned(),
        }
    }
}

/// Whether conditions say that there is no sink although there are some.
pub(super) fn denies_sinks(conditions: &[Condition], numbers: &Numbers) -> bool {
    let reachable = statements::find(conditions, SinkReachable);
    numbers.sinks > 0
        && reachable.is_some_and(|said| said.reason == Reason::NoSinksConfigured.as_str())
}

/// What the conditions say. `settled` is whether delivered rows are no news any more, `outdated`
/// whether what is said about sinks is no longer true.
pub(super) fn of(
    situation: &Situation<'_>,
    numbers: &Numbers,
    settled: bool,
    outdated: bool,
) -> Vec<Statement> {
    let mut said = match situation {
        Situation::Closed(trouble) => closed(trouble),
        Situation::WaitingForTargets(targets, degraded) => {
            let message = waiting(targets, degraded);
            not_yet(Reason::WaitingForCollection, message, outdated)
        }
        Situation::WithoutSinks => without_sinks(numbers),
        Situation::Delivering(behind) => {
            let message = format!("delivering to {behind} of {} sink(s)", numbers.sinks);
            not_yet(Reason::Progressing, message, outdated)
        }
        Situation::Delivered => delivered(numbers, settled),
        Situation::PartlyFailed(good, failures) => partly_failed(numbers, *good, failures),
        Situation::Failed(failures) => failed(failures),
    };
    if outdated && !said.iter().any(|said| said.is_about(SinkReachable)) {
        said.push(Ends(SinkReachable));
    }
    said
}

pub(super) fn closed(trouble: &Trouble) -> Vec<Statement> {
    let Trouble { reason, message } = trouble;
    vec![
        Statement::says(Synced, False, *reason, message),
        Statement::says(Degraded, True, *reason, message),
        Statement::says(Ready, False, *reason, message),
    ]
}

/// What was ready stays ready while it is brought up to date, unless it was ready without sinks.
fn not_yet(reason: Reason, message: String, outdated: bool) -> Vec<Statement> {
    let synced = Statement::says(Synced, False, reason, &message);
    let ready = if outdated {
        Statement::says(Ready, False, reason, message)
    } else {
        SaysAtFirst(Ready, False, reason, message)
    };
    vec![synced, ready]
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
    let Numbers { sinks, cluster, .. } = numbers;
    let exported = numbers.exported();
    let ready = if *cluster {
        numbers.rolled_up()
    } else {
        format!("{exported} across {sinks} sink(s)")
    };
    let reachable = "last export completed successfully";
    let mut said = vec![
        Ends(Degraded),
        Statement::says(Ready, True, Reason::Exported, ready),
        Statement::says(SinkReachable, True, Reason::ExportSucceeded, reachable),
    ];
    if *cluster {
        let message = format!("{exported} to {sinks} sink(s)");
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

/// What is said of rows that sinks leave out; in the place of saying that nothing is wrong.
pub(super) fn with_skipped(
    said: Vec<Statement>,
    standings: &[(&LaneReport, Standing)],
) -> Vec<Statement> {
    let Some(message) = skipped(standings) else {
        return said;
    };
    let told = Statement::says(Degraded, True, Reason::RowsSkipped, message);
    let instead = |statement| match statement {
        Ends(Degraded) => told.clone(),
        other => other,
    };
    said.into_iter().map(instead).collect()
}

fn skipped(standings: &[(&LaneReport, Standing)]) -> Option<String> {
    let lines: Vec<String> = standings
        .iter()
        .filter(|(_, standing)| *standing == Standing::Good)
        .filter_map(|(lane, _)| {
            let skipped = lane.skipped.as_ref()?;
            Some(format!("{}: {skipped}", lane.key.within_inventory()))
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn partly_failed(numbers: &Numbers, good: usize, failures: &Failures) -> Vec<Statement> {
    let Numbers { sinks, cluster, .. } = numbers;
    let partly = Reason::PartiallySynced;
    let synced = format!("{good}/{sinks} sinks exported; {} failed", failures.number);
    let exported = format!("{} to {good}/{sinks} sink(s)", numbers.exported());
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

/// Names the targets that are waited for. Those that collect nothing come first, with the reason:
/// they are what somebody has to look at.
fn waiting(targets: &[TargetKey], degraded: &[(TargetKey, String)]) -> String {
    if targets.is_empty() {
        return "waiting for the first collection plan".to_owned();
    }
    let trouble = |key: &TargetKey| {
        let mut known = degraded.iter();
        known.find(|(known, _)| known == key).map(|(_, why)| why)
    };
    let (bad, good): (Vec<_>, Vec<_>) = targets
        .iter()
        .map(|key| (key, trouble(key)))
        .partition(|(_, trouble)| trouble.is_some());
    let mut names: Vec<String> = bad
        .into_iter()
        .chain(good)
        .take(5)
        .map(|(key, trouble)| match trouble {
            Some(why) => {
                let brief = &why[..why.floor_char_boundary(200)];
                format!("{} (Degraded: {brief})", key.name)
            }
            None => key.name.to_string(),
        })
        .collect();
    if targets.len() > names.len() {
        names.push("…".to_owned());
    }
    let number = targets.len();
    let names = names.join(", ");
    let mut text = format!("waiting for the first listing of {number} target(s): [{names}]");
    if targets.iter().any(|key| trouble(key).is_some()) {
        text += "; mend or delete the targets that are Degraded";
    }
    text
}

/// Tells what is wrong although exports go on. Comes after everything else, which may have found
/// nothing to complain about.
pub(super) fn doubt(facts: &InventoryFacts<'_>) -> Option<Statement> {
    let doubt = facts.plan.doubt.as_ref()?;
    facts
        .plan
        .gate
        .is_none()
        .then(|| Statement::says(Degraded, True, doubt.reason, &doubt.message))
}

/// A word about snapshot sinks that are written for every one of many changes. Databases and streams
/// take a change for what it is.
pub(super) fn churn_warning(facts: &InventoryFacts<'_>) -> Statement {
    let snapshots = facts.report.lanes.iter();
    let mut often = snapshots
        .filter(|lane| lane.key.family == SinkFamily::Snapshot)
        .filter_map(|lane| Some((lane, lane.often?)));
    let Some((lane, Often { writes, bytes })) = often.next() else {
        return Ends(ExportChurnWarning);
    };
    let others = match often.count() {
        0 => String::new(),
        count => format!(" (and to {count} more)"),
    };
    let mebibytes = bytes.div_ceil(1 << 20);
    Statement::says(
        ExportChurnWarning,
        True,
        Reason::ChangesExportedOften,
        format!(
            "changes were exported {writes} times within an hour to {:?}{others}, {mebibytes} MiB in all; if readers can wait, set changeInterval on the reference, the sink or the inventory, such as 1m",
            lane.key.name
        ),
    )
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
