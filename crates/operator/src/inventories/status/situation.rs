//! What an inventory as a whole is up to, in one word. Nothing here is about texts that the word
//! leads to.

use std::time::Duration;

use kollect_api::{
    SinkKey,
    condition::{Condition, ConditionStatus, Reason},
};
use kollect_collect::plan::TargetKey;
use kollect_export::{
    report::LaneReport,
    retry::{self, FailureClass},
};

use super::{InventoryFacts, PATIENCE, sink_entries::Standing};
use crate::target_status::Trouble;

/// What an inventory is up to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Situation<'f> {
    /// Nothing is exported at all, for this reason.
    Closed(&'f Trouble),
    /// These targets have not been listed once; some of them collect nothing, for these reasons.
    WaitingForTargets(&'f [TargetKey], &'f [(TargetKey, String)]),
    /// It refers to no sink.
    WithoutSinks,
    /// No sink fails; this many do not hold the current rows yet.
    Delivering(usize),
    /// All sinks hold the current rows.
    Delivered,
    /// Some sinks fail, and this many hold the current rows.
    PartlyFailed(usize, Failures),
    /// Some sinks fail, and none holds the current rows.
    Failed(Failures),
}

/// The sinks that fail, together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) number: usize,
    /// What is wrong, one line for each sink.
    pub(super) text: String,
    /// The word for all of it.
    pub(super) reason: Reason,
}

impl<'f> Situation<'f> {
    pub(super) fn of(facts: &InventoryFacts<'f>, standings: &[(&LaneReport, Standing)]) -> Self {
        if let Some(trouble) = &facts.plan.gate {
            return Self::Closed(trouble);
        }
        if let Some(targets) = &facts.report.waiting_for {
            return Self::WaitingForTargets(targets, facts.degraded);
        }
        if standings.is_empty() {
            return Self::WithoutSinks;
        }
        let good = standings
            .iter()
            .filter(|(_, standing)| *standing == Standing::Good)
            .count();
        match (Failures::of(standings), good) {
            (None, good) if good < standings.len() => Self::Delivering(standings.len() - good),
            (None, _) => Self::Delivered,
            (Some(failures), 0) => Self::Failed(failures),
            (Some(failures), good) => Self::PartlyFailed(good, failures),
        }
    }

    /// Whether it is expected to be over within moments, as after a restart or a change: only what
    /// lasts is worth telling.
    pub(super) fn passes_by(&self) -> bool {
        matches!(self, Self::WaitingForTargets(..) | Self::Delivering(_)) || self.is_blocked()
    }

    /// Whether a target that is not ready blocks everything. One that is new is ready in a moment.
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self, Self::Closed(trouble) if trouble.reason == Reason::TargetDegraded)
    }
}

impl Failures {
    fn of(standings: &[(&LaneReport, Standing)]) -> Option<Self> {
        let mut bad: Vec<(&SinkKey, Reason, &str, FailureClass)> = standings
            .iter()
            .filter_map(|(lane, standing)| match standing {
                Standing::Bad(reason, text, class) => Some((&lane.key, *reason, &**text, *class)),
                _ => None,
            })
            .collect();
        // Which sink failed first is chance; the text must not depend on it.
        bad.sort_by_key(|(key, ..)| *key);
        let (_, first, ..) = bad.first()?;
        let class = retry::joined(bad.iter().map(|(.., class)| *class));
        let reason = match *first {
            // What is wrong with the object itself is said in its own word.
            own if own != Reason::ExportFailed => own,
            _ if class == Some(FailureClass::Terminal) => Reason::ExportTerminal,
            _ => Reason::ExportFailed,
        };
        let text: Vec<&str> = bad.iter().map(|(_, _, text, _)| *text).collect();
        Some(Self {
            number: bad.len(),
            text: text.join("\n"),
            reason,
        })
    }
}

/// Whether an inventory whose rows are delivered has come to rest, judged by what it said before.
pub(super) fn is_settled(synced: Option<&Condition>, steady: Duration) -> bool {
    synced.is_some_and(|condition| {
        condition.status == ConditionStatus::True
            && (condition.reason == Reason::UpToDate.as_str() || steady > PATIENCE)
    })
}

#[cfg(test)]
#[path = "situation_tests.rs"]
mod tests;
