//! The status of an inventory, from its plan and from what its exporter reports.
//!
//! Pure: the previous status, the facts and the time go in, the new status comes out. A healthy
//! inventory that nothing happens to has the same status again and again: what passes by itself
//! within seconds is not worth a write.
//!
//! ```text
//! facts ─> standing of each sink ─┬─> entries of the sinks
//!                                 └─> situation of the whole ─> conditions
//! ```

mod conditions;
mod sink_entries;
mod situation;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kollect_api::{
    condition::{Condition, ConditionType, Reason},
    inventory::{
        KollectClusterInventoryStatus, KollectInventoryStatus, MAX_NAMESPACE_SHARDS,
        NamespaceShard, SinkExportStatus,
    },
};
use kollect_collect::plan::TargetKey;
use kollect_export::{Report, report::LaneReport};

pub use self::sink_entries::is_retired;
use self::{
    conditions::Numbers,
    sink_entries::{Standing, standing},
    situation::Situation,
};
use super::plan::InventoryPlan;
use crate::{statements, target_status::Trouble};

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
    /// For how long something under way is not worth telling, see [`patience`].
    pub patience: Duration,
    /// The targets that are Degraded, and why: reason and message.
    pub degraded: &'f [(TargetKey, String)],
}

/// Something under way for longer than this is worth telling.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// So long after the start of an exporter it is still catching up with what the status says,
const CATCHING_UP: Duration = Duration::from_mins(1);
/// and may take this long for each step.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// For how long something under way is not worth telling, this long after the exporter began: a
/// restart changes nothing that anybody outside could see.
pub fn patience(age: Duration) -> Duration {
    if age < CATCHING_UP {
        START_PATIENCE
    } else {
        PATIENCE
    }
}

/// The status that says so.
pub fn status(
    previous: &InventoryStatus,
    facts: &InventoryFacts<'_>,
    now: &Time,
) -> InventoryStatus {
    let mut next = previous.clone();
    if facts.plan.undecided || !is_reported(facts) {
        return next;
    }
    next.observed_generation = Some(facts.generation);
    rows(&mut next, facts);
    let standings: Vec<(&LaneReport, Standing)> = facts
        .report
        .lanes
        .iter()
        .map(|lane| (lane, standing(lane, facts.plan)))
        .collect();
    sink_entries::update(&mut next, previous, facts, &standings, now);
    let synced = statements::find(&previous.conditions, ConditionType::Synced);
    let situation = Situation::of(facts, &standings);
    let numbers = Numbers::of(facts, standings.len());
    // What is no longer true cannot wait.
    let outdated = conditions::denies_sinks(&previous.conditions, &numbers);
    let known = synced.is_some() || situation.is_blocked();
    let patient = situation.passes_by() && facts.steady <= facts.patience;
    let said = if known && patient && !outdated {
        Vec::new()
    } else {
        let settled = situation::is_settled(synced, facts.steady);
        let said = conditions::of(&situation, &numbers, settled, outdated);
        conditions::with_skipped(said, &standings)
    };
    let warning = conditions::size_warning(facts);
    let churn = conditions::churn_warning(facts);
    let doubt = conditions::doubt(facts);
    let said = said.into_iter().chain(warning).chain([churn]).chain(doubt);
    statements::apply(&mut next.conditions, said, Some(facts.generation), now);
    next
}

/// Whether the exporter has looked at what it is told to do now: before, its report says nothing
/// about these sinks.
fn is_reported(facts: &InventoryFacts<'_>) -> bool {
    let ordered = facts.plan.order.deliver.iter().map(|sink| &sink.key);
    ordered.eq(facts.report.lanes.iter().map(|lane| &lane.key))
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

/// The status of an inventory whose rows must not leave, because our finalizer could not be added.
pub fn unfinalized(
    previous: &InventoryStatus,
    generation: i64,
    why: &str,
    now: &Time,
) -> InventoryStatus {
    let mut next = previous.clone();
    let said = conditions::closed(&Trouble {
        reason: Reason::FinalizerNotAdded,
        message: format!(
            "nothing is exported: the finalizer cannot be added and is tried again with growing pauses; the operator needs the right to patch this kind: {why}"
        ),
    });
    statements::apply(&mut next.conditions, said, Some(generation), now);
    next
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
