//! The status of an inventory, from its plan and from what its exporter reports.
//!
//! Pure: the previous status, the facts and the time go in, the new status comes out. A healthy
//! inventory that nothing happens to has the same status again and again: what passes by itself
//! within seconds is not worth a write.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::SinkKey;
use kollect_api::{
    condition::{self, Condition, ConditionStatus, ConditionType, Reason},
    inventory::{
        KollectClusterInventoryStatus, KollectInventoryStatus, MAX_NAMESPACE_SHARDS,
        NamespaceShard, SinkExportStatus,
    },
};
use kollect_export::{
    Report,
    report::{LaneReport, LaneState, RetireState},
    retry::{self, FailureClass},
};
use kollect_sinks::SinkError;

use super::plan::{Finding, InventoryPlan};
use crate::target_status::Trouble;

/// How old a time in the status may get while unchanged rows are confirmed again and again.
const CONFIRMATION: Duration = Duration::from_mins(15);
/// From this many rows on, people are told that documents get large.
const MANY_ROWS: usize = 1_800;

/// What the statuses of both kinds have in common, and what a rollup adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InventoryStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The generation that this is about.
    pub observed_generation: Option<i64>,
    /// Rows.
    pub item_count: i64,
    /// The newest export.
    pub last_export_time: Option<Time>,
    /// The sinks.
    pub sink_exports: Vec<SinkExportStatus>,
    /// Cluster targets.
    pub target_count: i64,
    /// Namespaces with rows.
    pub namespace_shard_count: i64,
    /// The first of them.
    pub namespace_shards: Vec<NamespaceShard>,
}

impl From<&KollectInventoryStatus> for InventoryStatus {
    fn from(status: &KollectInventoryStatus) -> Self {
        InventoryStatus {
            conditions: status.conditions.clone(),
            observed_generation: status.observed_generation,
            item_count: status.item_count,
            last_export_time: status.last_export_time.clone(),
            sink_exports: status.sink_exports.clone(),
            ..InventoryStatus::default()
        }
    }
}

impl From<&KollectClusterInventoryStatus> for InventoryStatus {
    fn from(status: &KollectClusterInventoryStatus) -> Self {
        InventoryStatus {
            conditions: status.conditions.clone(),
            observed_generation: status.observed_generation,
            item_count: status.item_count,
            last_export_time: status.last_export_time.clone(),
            sink_exports: status.sink_exports.clone(),
            target_count: status.target_count,
            namespace_shard_count: status.namespace_shard_count,
            namespace_shards: status.namespace_shards.clone(),
        }
    }
}

impl From<InventoryStatus> for KollectInventoryStatus {
    fn from(status: InventoryStatus) -> Self {
        KollectInventoryStatus {
            conditions: status.conditions,
            observed_generation: status.observed_generation,
            item_count: status.item_count,
            last_export_time: status.last_export_time,
            sink_exports: status.sink_exports,
        }
    }
}

impl From<InventoryStatus> for KollectClusterInventoryStatus {
    fn from(status: InventoryStatus) -> Self {
        KollectClusterInventoryStatus {
            conditions: status.conditions,
            observed_generation: status.observed_generation,
            item_count: status.item_count,
            last_export_time: status.last_export_time,
            sink_exports: status.sink_exports,
            target_count: status.target_count,
            namespace_shard_count: status.namespace_shard_count,
            namespace_shards: status.namespace_shards,
        }
    }
}

/// What is known of an inventory at one moment.
#[derive(Debug, Clone, Copy)]
pub struct InventoryFacts<'f> {
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is a cluster inventory.
    pub cluster: bool,
    /// Its plan.
    pub plan: &'f InventoryPlan,
    /// What its exporter says.
    pub report: &'f Report,
    /// How long things have been as they are, so that what passes by itself is not written down.
    pub steady: Duration,
}

/// Something under way for longer than this is worth telling.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How one sink stands, in the words of a status.
#[derive(Debug, Clone, PartialEq)]
enum Standing {
    /// It holds the current rows.
    Good,
    /// A delivery is due or under way.
    Behind,
    /// It cannot be delivered to.
    Bad(Reason, String, FailureClass),
}

/// The status that says so.
pub fn status(
    previous: &InventoryStatus,
    facts: &InventoryFacts<'_>,
    now: &Time,
) -> InventoryStatus {
    let mut next = previous.clone();
    if facts.plan.undecided {
        return next;
    }
    next.observed_generation = Some(facts.generation);
    rows(&mut next, facts);
    let standings: Vec<(&LaneReport, Standing)> = facts
        .report
        .lanes
        .iter()
        .map(|lane| (lane, standing(lane, &facts.plan.findings)))
        .collect();
    exports(&mut next, previous, facts, &standings, now);
    let mut write = Write {
        conditions: &mut next.conditions,
        generation: facts.generation,
        now,
    };
    judge(&mut write, previous, facts, &standings);
    warn(&mut write, facts);
    next
}

/// Numbers.
fn rows(next: &mut InventoryStatus, facts: &InventoryFacts<'_>) {
    if facts.cluster {
        next.target_count = count(facts.plan.targets.len());
    }
    let Some(survey) = &facts.report.survey else {
        return;
    };
    if facts.plan.gate.is_some() && facts.cluster {
        // What could not be rolled up is not counted anew.
        return;
    }
    next.item_count = count(survey.rows);
    if facts.cluster {
        next.namespace_shard_count = count(survey.shares.len());
        next.namespace_shards = survey
            .shares
            .iter()
            .take(MAX_NAMESPACE_SHARDS)
            .map(|share| NamespaceShard {
                namespace: share.namespace.clone(),
                item_count: count(share.rows),
                target_count: count(share.targets),
                checksum: Some(share.checksum.clone()),
            })
            .collect();
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn standing(lane: &LaneReport, findings: &[Finding]) -> Standing {
    if let Some(finding) = findings.iter().find(|finding| finding.key == lane.key) {
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
    match &lane.state {
        LaneState::InStep => Standing::Good,
        LaneState::Behind | LaneState::Held(None) => Standing::Behind,
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
fn exports(
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
    let mut write = Write {
        conditions: &mut entry.conditions,
        generation: facts.generation,
        now,
    };
    match standing {
        Standing::Good => write.set(
            ConditionType::Synced,
            ConditionStatus::True,
            Reason::Exported,
            "export completed",
        ),
        Standing::Bad(reason, text, _) => {
            write.set(ConditionType::Synced, ConditionStatus::False, *reason, text);
        }
        Standing::Behind => {
            let first = write.get(ConditionType::Synced).is_none();
            if first || facts.steady > PATIENCE {
                write.set(
                    ConditionType::Synced,
                    ConditionStatus::False,
                    Reason::Progressing,
                    "the current rows are being delivered",
                );
            }
        }
    }
    entry
}

fn old(recorded: Timestamp, at: Timestamp) -> bool {
    Duration::try_from(at.duration_since(recorded)).is_ok_and(|age| age >= CONFIRMATION)
}

/// Times in a status have no fractions.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The conditions of the whole.
fn judge(
    write: &mut Write<'_>,
    previous: &InventoryStatus,
    facts: &InventoryFacts<'_>,
    standings: &[(&LaneReport, Standing)],
) {
    use ConditionStatus::{False, True};
    use ConditionType::{Degraded, ExportSucceeded, Ready, SinkReachable, Synced};

    let items = count(facts.report.survey.as_ref().map_or(0, |survey| survey.rows));
    let rolled_up = || {
        format!(
            "rolled up {} target(s), {items} item(s)",
            facts.plan.targets.len()
        )
    };
    if let Some(Trouble { reason, message }) = &facts.plan.gate {
        write.set(Synced, False, *reason, message);
        write.set(Degraded, True, *reason, message);
        write.set(Ready, False, *reason, message);
        return;
    }
    if let Some(targets) = &facts.report.waiting_for {
        // A restart finds everything as it was within moments; only what lasts is told.
        if write.get(Synced).is_none() || facts.steady > PATIENCE {
            let message = waiting(targets);
            write.set(Synced, False, Reason::WaitingForCollection, &message);
            if write.get(Ready).is_none() {
                write.set(Ready, False, Reason::WaitingForCollection, &message);
            }
        }
        return;
    }
    let total = standings.len();
    if total == 0 {
        let (reason, message) = if facts.cluster {
            (Reason::RolledUp, rolled_up())
        } else {
            (
                Reason::NoExport,
                "no family sink refs configured".to_owned(),
            )
        };
        write.remove(Degraded);
        write.set(Synced, True, reason, &message);
        write.set(Ready, True, reason, &message);
        let none = "no family sink refs configured";
        write.set(SinkReachable, True, Reason::NoSinksConfigured, none);
        return;
    }
    let good = standings
        .iter()
        .filter(|(_, s)| *s == Standing::Good)
        .count();
    let mut bad: Vec<(&SinkKey, Reason, &str, FailureClass)> = standings
        .iter()
        .filter_map(|(lane, standing)| match standing {
            Standing::Bad(reason, text, class) => Some((&lane.key, *reason, &**text, *class)),
            _ => None,
        })
        .collect();
    // Which sink failed first is chance; the text must not depend on it.
    bad.sort_by_key(|(key, ..)| *key);
    if bad.is_empty() && good < total {
        // On the way. A change that is delivered within moments is no change of state.
        if write.get(Synced).is_none() || facts.steady > PATIENCE {
            let message = format!("delivering to {} of {total} sink(s)", total - good);
            write.set(Synced, False, Reason::Progressing, &message);
            if write.get(Ready).is_none() {
                write.set(Ready, False, Reason::Progressing, &message);
            }
        }
        return;
    }
    if bad.is_empty() {
        let message = if facts.cluster {
            rolled_up()
        } else {
            format!("exported {items} item(s) across {total} sink(s)")
        };
        write.remove(Degraded);
        write.set(Ready, True, Reason::Exported, &message);
        write.set(
            SinkReachable,
            True,
            Reason::ExportSucceeded,
            "last export completed successfully",
        );
        if facts.cluster {
            let message = format!("exported {items} item(s) to {total} sink(s)");
            write.set(ExportSucceeded, True, Reason::Exported, &message);
        }
        let was = previous
            .conditions
            .iter()
            .find(|condition| condition.type_ == Synced.as_str());
        let settled = was.is_some_and(|condition| {
            condition.status == True
                && (condition.reason == Reason::UpToDate.as_str() || facts.steady > PATIENCE)
        });
        if settled {
            let message = format!("all {total} sink(s) hold the current rows");
            write.set(Synced, True, Reason::UpToDate, &message);
        } else {
            let message = format!("exported to {total} sink(s)");
            write.set(Synced, True, Reason::Exported, &message);
        }
        return;
    }
    let text: Vec<&str> = bad.iter().map(|(_, _, text, _)| *text).collect();
    let text = text.join("\n");
    let class = retry::joined(bad.iter().map(|(.., class)| *class));
    let terminal = class == Some(FailureClass::Terminal);
    let reachable = match bad.as_slice() {
        // What is wrong with the object itself is said in its own word.
        [(_, reason, ..), ..] if *reason != Reason::ExportFailed => *reason,
        _ if terminal => Reason::ExportTerminal,
        _ => Reason::ExportFailed,
    };
    write.set(SinkReachable, False, reachable, &text);
    if good > 0 {
        let message = format!("{good}/{total} sinks exported; {} failed", bad.len());
        write.set(Synced, False, Reason::PartiallySynced, &message);
        let message = if facts.cluster {
            rolled_up()
        } else {
            format!("exported {items} item(s) to {good}/{total} sink(s)")
        };
        write.set(Ready, True, Reason::PartiallySynced, &message);
        write.remove(Degraded);
        if facts.cluster {
            let message = format!("exported {items} item(s) to {good}/{total} sink(s)");
            write.set(ExportSucceeded, True, Reason::PartiallySynced, &message);
        }
    } else {
        let reason = match reachable {
            Reason::ExportFailed => Reason::Progressing,
            other => other,
        };
        write.set(Synced, False, reason, &text);
        write.set(Degraded, True, reason, &text);
        write.set(Ready, False, reason, &text);
    }
}

fn waiting(targets: &[kollect_collect::plan::TargetKey]) -> String {
    let mut names: Vec<String> = targets
        .iter()
        .take(5)
        .map(|key| key.name.to_string())
        .collect();
    if targets.len() > names.len() {
        names.push("…".to_owned());
    }
    match targets.len() {
        0 => "waiting for the first plan of collection".to_owned(),
        number => format!(
            "waiting for the first listing of {number} target(s): [{}]",
            names.join(" ")
        ),
    }
}

/// Tells that documents get large. Nothing is refused because of it.
fn warn(write: &mut Write<'_>, facts: &InventoryFacts<'_>) {
    let Some(survey) = &facts.report.survey else {
        return;
    };
    if facts.cluster || survey.rows < MANY_ROWS {
        write.remove(ConditionType::ExportShardWarning);
        return;
    }
    write.set(
        ConditionType::ExportShardWarning,
        ConditionStatus::True,
        Reason::ApproachingExportCap,
        "many rows for one document; where readers need smaller ones set maxExportBytes on the reference, or lay rows out one file each",
    );
}

/// Writes conditions of one generation at one moment.
struct Write<'w> {
    conditions: &'w mut Vec<Condition>,
    generation: i64,
    now: &'w Time,
}

impl Write<'_> {
    fn set(
        &mut self,
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: &str,
    ) {
        let condition = Condition::new(
            type_,
            status,
            reason,
            message,
            Some(self.generation),
            self.now.clone(),
        );
        condition::set(self.conditions, condition);
    }

    fn get(&self, type_: ConditionType) -> Option<&Condition> {
        let mut all = self.conditions.iter();
        all.find(|condition| condition.type_ == type_.as_str())
    }

    fn remove(&mut self, type_: ConditionType) {
        condition::remove(self.conditions, type_);
    }
}

/// The conditions that say something new. That an inventory comes to rest is none.
pub fn transitions<'s>(
    before: &'s InventoryStatus,
    after: &'s InventoryStatus,
) -> impl Iterator<Item = &'s Condition> {
    condition::transitions(&before.conditions, &after.conditions)
        .filter(|condition| condition.reason != Reason::UpToDate.as_str())
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
