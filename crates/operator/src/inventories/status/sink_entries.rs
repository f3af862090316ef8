//! The entries of the sinks in the status of an inventory.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::{
    SinkKey,
    condition::{ConditionStatus, ConditionType, Reason},
    inventory::SinkExportStatus,
};
use kollect_export::{
    Report,
    order::Source,
    report::{LaneReport, LaneState, RetireState},
    retry::FailureClass,
};
use kollect_sinks::{ReadBack, SinkError};

use super::{super::plan::InventoryPlan, InventoryFacts, InventoryStatus};
use crate::{
    statements::{self, Statement},
    target_status::Trouble,
};

/// How old a time in the status may get while unchanged rows are confirmed again and again.
const CONFIRMATION: Duration = Duration::from_mins(15);

/// How one sink stands, in the words of a status.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Standing {
    /// It holds the current rows.
    Good,
    /// A delivery is due or under way.
    Behind,
    /// It cannot be delivered to.
    Bad(Reason, String, FailureClass),
}

/// How a sink stands.
pub(super) fn standing(lane: &LaneReport, plan: &InventoryPlan) -> Standing {
    let mut findings = plan.findings.iter();
    if let Some(finding) = findings.find(|finding| finding.key == lane.key) {
        let Trouble { reason, message } = &finding.trouble;
        let class = match reason {
            Reason::SinkNotFound => FailureClass::Terminal,
            Reason::SinkForbidden => FailureClass::Forbidden,
            _ => FailureClass::Transient,
        };
        return Standing::Bad(*reason, message.clone(), class);
    }
    let failed = |error: &SinkError, text: String| {
        let class = match error {
            SinkError::Terminal(_) => FailureClass::Terminal,
            SinkError::Forbidden(_) => FailureClass::Forbidden,
            _ => FailureClass::Transient,
        };
        Standing::Bad(Reason::ExportFailed, text, class)
    };
    let mut orders = plan.order.deliver.iter();
    let order = orders.find(|order| order.key == lane.key);
    let held = order.is_none_or(|order| matches!(order.source, Source::Held(_)));
    match &lane.state {
        LaneState::InStep | LaneState::Gathering => Standing::Good,
        LaneState::Behind | LaneState::Held(None) => Standing::Behind,
        // What held it is over: the exporter has not looked yet.
        LaneState::Held(Some(_)) if !held => Standing::Behind,
        LaneState::Held(Some(error)) => failed(
            error,
            format!("acquire backend for {:?}: {error}", lane.key.name),
        ),
        LaneState::Failed { error, .. } => {
            failed(error, format!("export to {:?}: {error}", lane.key.name))
        }
    }
}

/// The entries of the sinks. They keep their history: what was delivered last stays there while
/// the sink is debounced, held or failing.
pub(super) fn update(
    next: &mut InventoryStatus,
    previous: &InventoryStatus,
    facts: &InventoryFacts<'_>,
    standings: &[(&LaneReport, Standing)],
    now: &Time,
) {
    // What is still to be cleaned up must not be forgotten.
    let unfinished: Vec<&SinkKey> = facts
        .plan
        .order
        .retire
        .iter()
        .map(|sink| &sink.key)
        .filter(|key| !is_retired(facts.report, key))
        .collect();
    let leaving = previous.sink_exports.iter().filter(|entry| {
        unfinished
            .iter()
            .any(|key| is_entry_of(entry, key, facts.cluster))
    });
    let leaving: Vec<SinkExportStatus> = leaving.cloned().collect();
    next.sink_exports = standings
        .iter()
        .map(|(lane, standing)| {
            let known = previous
                .sink_exports
                .iter()
                .find(|entry| is_entry_of(entry, &lane.key, facts.cluster));
            entry(known, lane, standing, facts, now)
        })
        .chain(leaving)
        .collect();
    let times = next.sink_exports.iter();
    let newest = times
        .filter_map(|entry| entry.last_export_time.clone())
        .max();
    if newest.is_some() {
        next.last_export_time = newest;
    }
}

/// Whether nothing of the inventory is left at a sink.
pub fn is_retired(report: &Report, key: &SinkKey) -> bool {
    let mut all = report.retiring.iter();
    all.any(|retire| retire.key == *key && retire.state == RetireState::Done)
}

fn is_entry_of(entry: &SinkExportStatus, key: &SinkKey, cluster: bool) -> bool {
    entry.name == key.within_inventory()
        && (!cluster || entry.namespace.as_deref() == Some(key.namespace.as_str()))
}

fn entry(
    known: Option<&SinkExportStatus>,
    lane: &LaneReport,
    standing: &Standing,
    facts: &InventoryFacts<'_>,
    now: &Time,
) -> SinkExportStatus {
    let mut entry = known.cloned().unwrap_or_default();
    entry.name = lane.key.within_inventory();
    entry.namespace = facts.cluster.then(|| lane.key.namespace.clone());
    if let Some(export) = &lane.last_export {
        let first = entry.last_export_time.is_none();
        // Time and checksum belong together, and the checksum comes a moment later.
        if export.checksum.is_some() || first {
            let at = lane.confirmed_at.unwrap_or(export.at);
            let recorded = entry.last_export_time.as_ref().map(|time| time.0);
            let same = entry.last_checksum == export.checksum && !first;
            let stale = recorded.is_none_or(|recorded| old(recorded, at));
            if !same || stale {
                entry.last_export_time = Some(Time(whole_seconds(at)));
            }
            entry.last_checksum.clone_from(&export.checksum);
        }
    }
    let synced = |status, reason, message: &str| {
        Statement::says(ConditionType::Synced, status, reason, message)
    };
    let said = match standing {
        Standing::Good => Some(match &lane.skipped {
            None => synced(ConditionStatus::True, Reason::Exported, "export completed"),
            Some(skipped) => synced(
                ConditionStatus::True,
                Reason::RowsSkipped,
                &format!("export completed; {skipped}"),
            ),
        }),
        Standing::Bad(reason, text, class) => {
            let text = match &lane.state {
                LaneState::Failed { next, .. } if *reason == Reason::ExportFailed => {
                    format!("{text}; {}", next_attempt(*next, *class))
                }
                // What has to be changed first is said already.
                _ => text.clone(),
            };
            Some(synced(ConditionStatus::False, *reason, &text))
        }
        Standing::Behind => {
            let first = statements::find(&entry.conditions, ConditionType::Synced).is_none();
            (first || facts.steady > facts.patience).then(|| {
                synced(
                    ConditionStatus::False,
                    Reason::Progressing,
                    "the current rows are being delivered",
                )
            })
        }
    };
    let read_back = read_back(lane);
    let said = said.into_iter().chain(read_back);
    statements::apply(&mut entry.conditions, said, Some(facts.generation), now);
    entry
}

/// Whether what the stream holds could be read, as far as this process has tried.
fn read_back(lane: &LaneReport) -> Option<Statement> {
    Some(match lane.read_back.as_ref()? {
        ReadBack::Compared => Statement::Ends(ConditionType::ReadBack),
        ReadBack::Replayed(why) => Statement::says(
            ConditionType::ReadBack,
            ConditionStatus::False,
            Reason::Replayed,
            format!("all rows were published, because the stream could not be read: {why}"),
        ),
    })
}

/// When a failed export is tried again, and what ends the wait.
fn next_attempt(at: Option<Timestamp>, class: FailureClass) -> String {
    let at = match at {
        Some(at) => format!("next attempt at {}", whole_seconds(at)),
        None => "it is tried again now".to_owned(),
    };
    let sooner = match class {
        FailureClass::Terminal => {
            "when the inventory, the sink or its Secret changes, when a probe succeeds again, or with"
        }
        FailureClass::Transient | FailureClass::Forbidden => "with",
    };
    format!("{at}, and at once {sooner} a new value of the annotation kollect.dev/requestedAt")
}

/// Whether what is recorded is worth a correction. A time to come was not written by us.
fn old(recorded: Timestamp, at: Timestamp) -> bool {
    Duration::try_from(at.duration_since(recorded)).map_or(true, |age| age >= CONFIRMATION)
}

/// Times in a status have no fractions.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
