//! What an exporter says about its work.

use jiff::Timestamp;
use kollect_api::SinkKey;
use kollect_collect::plan::TargetKey;
use kollect_sinks::{ReadBack, SinkError, Skipped};

use crate::{churn::Often, survey::Survey};

/// The state of one inventory's exports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Targets whose first listing is not complete. While there are some nothing is exported.
    /// `None` when it has not been looked at, or when not even the targets are known.
    pub waiting_for: Option<Vec<TargetKey>>,
    /// The rows at some recent moment.
    pub survey: Option<Survey>,
    /// The sinks, in the order of the order.
    pub lanes: Vec<LaneReport>,
    /// The sinks that are being cleaned up.
    pub retiring: Vec<RetireReport>,
}

/// The state of one sink of an inventory.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneReport {
    /// Which sink.
    pub key: SinkKey,
    /// How it stands.
    pub state: LaneState,
    /// The last delivery of this process that brought something new.
    pub last_export: Option<Export>,
    /// When accepted rows were last confirmed, by any delivery.
    pub confirmed_at: Option<Timestamp>,
    /// Rows that the sink leaves out, as the last accepted delivery said.
    pub skipped: Option<Skipped>,
    /// How the last delivery of all rows to a stream found out what the stream held.
    pub read_back: Option<ReadBack>,
    /// Changes are written so often that somebody should know.
    pub often: Option<Often>,
}

/// How one sink stands.
#[derive(Debug, Clone, PartialEq)]
pub enum LaneState {
    /// It may not be used now.
    Held(Option<SinkError>),
    /// It holds something else than the current rows; the delivery is due or under way.
    Behind,
    /// It holds the current rows.
    InStep,
    /// It holds rows as new as its change interval allows.
    Gathering,
    /// The last delivery failed.
    Failed {
        /// Why.
        error: SinkError,
        /// How often in a row.
        in_a_row: u32,
        /// When it is tried again; nothing if that is at once, or if it depends on something else
        /// than the time.
        next: Option<Timestamp>,
    },
}

/// A delivery that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// When it began.
    pub at: Timestamp,
    /// The checksum of all rows that the sink holds since, if it is known.
    pub checksum: Option<String>,
}

/// The state of one clean-up.
#[derive(Debug, Clone, PartialEq)]
pub struct RetireReport {
    /// Which sink.
    pub key: SinkKey,
    /// How it stands.
    pub state: RetireState,
}

/// How a clean-up stands.
#[derive(Debug, Clone, PartialEq)]
pub enum RetireState {
    /// It is under way or about to be.
    UnderWay,
    /// Nothing of the inventory is left at the sink.
    Done,
    /// It failed and will be tried again.
    Failed(SinkError),
}
