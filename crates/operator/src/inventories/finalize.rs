//! Whether a deleted inventory may go: when its rows have left all sinks, or when nobody can wait
//! any longer. Nothing here writes or waits.

use std::{collections::BTreeSet, time::Duration};

use kollect_api::{SinkKey, condition::Reason};
use kollect_export::{
    Report,
    order::{Order, Source},
    report::RetireState,
};
use kollect_sinks::SinkError;

use super::status::is_retired;

/// What to do about a deleted inventory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Farewell {
    /// What to tell about sinks that keep rows of it, in this order.
    pub(super) notices: Vec<Notice>,
    pub(super) next: NextStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Nothing keeps it any longer.
    Release,
    /// Rows are still to be removed; this is how much patience is left.
    Wait(Duration),
}

/// What becomes of the rows that a sink holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Notice {
    pub(super) sink: SinkKey,
    pub(super) fate: Fate,
    pub(super) error: Option<SinkError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody can remove them.
    LeftAsTheyAre,
    /// There was not enough time.
    GivenUp,
    /// It is tried again.
    TriedAgain,
}

impl Fate {
    /// The word of the event: nobody is to mend what is tried again by itself.
    pub(super) fn reason(self) -> Reason {
        match self {
            Self::LeftAsTheyAre | Self::GivenUp => Reason::CleanupTerminal,
            Self::TriedAgain => Reason::Progressing,
        }
    }

    /// What is told, after the name of the sink.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::LeftAsTheyAre => "is left as it is",
            Self::GivenUp => {
                "could not be cleaned up in time; remove by hand what it still holds of this inventory"
            }
            Self::TriedAgain => {
                "cannot be cleaned up yet; it is tried again with growing pauses, as long as the operator's patience lasts"
            }
        }
    }
}

/// Decides about a deleted inventory that this process has been cleaning up after for so long. It
/// has seen these sinks emptied.
pub(super) fn farewell(
    order: &Order,
    report: &Report,
    emptied: &BTreeSet<SinkKey>,
    waited: Duration,
    patience: Duration,
) -> Farewell {
    let mut notices = Vec::new();
    let mut left = Vec::new();
    for sink in &order.retire {
        if is_retired(report, &sink.key) || emptied.contains(&sink.key) {
            continue;
        }
        let notice = |fate| Notice {
            sink: sink.key.clone(),
            fate,
            error: failure(report, &sink.key).cloned(),
        };
        // Without credentials nothing can be cleaned up, and whoever removed them knows.
        if matches!(&sink.source, Source::Held(SinkError::Terminal(_))) {
            notices.push(notice(Fate::LeftAsTheyAre));
        } else {
            left.push(notice(Fate::TriedAgain));
        }
    }
    let next = if left.is_empty() || waited > patience {
        notices.extend(left.into_iter().map(|notice| Notice {
            fate: Fate::GivenUp,
            ..notice
        }));
        NextStep::Release
    } else {
        notices.extend(left.into_iter().find(|notice| notice.error.is_some()));
        NextStep::Wait(patience.saturating_sub(waited))
    };
    Farewell { notices, next }
}

/// Why a sink could not be cleaned up last time.
fn failure<'r>(report: &'r Report, key: &SinkKey) -> Option<&'r SinkError> {
    let mut all = report.retiring.iter();
    all.find_map(|retire| match &retire.state {
        RetireState::Failed(error) if retire.key == *key => Some(error),
        _ => None,
    })
}

#[cfg(test)]
#[path = "finalize_tests.rs"]
mod tests;
