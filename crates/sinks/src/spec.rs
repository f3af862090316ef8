//! One description for the three kinds of sink.

use kollect_api::{
    reference::SinkFamily,
    sink::{
        KollectDatabaseSinkSpec, KollectEventSinkSpec, KollectSnapshotSinkSpec, SinkCommon,
        SinkType,
    },
};
use serde::Serialize;

/// The configuration of one sink, whatever its kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SinkSpec {
    /// Of a `KollectSnapshotSink`.
    Snapshot(KollectSnapshotSinkSpec),
    /// Of a `KollectDatabaseSink`.
    Database(KollectDatabaseSinkSpec),
    /// Of a `KollectEventSink`.
    Event(KollectEventSinkSpec),
}

impl SinkSpec {
    /// The family.
    pub fn family(&self) -> SinkFamily {
        match self {
            SinkSpec::Snapshot(_) => SinkFamily::Snapshot,
            SinkSpec::Database(_) => SinkFamily::Database,
            SinkSpec::Event(_) => SinkFamily::Event,
        }
    }

    /// The backend.
    pub fn sink_type(&self) -> SinkType {
        match self {
            SinkSpec::Snapshot(spec) => spec.type_.into(),
            SinkSpec::Database(spec) => spec.type_.into(),
            SinkSpec::Event(spec) => spec.type_.into(),
        }
    }

    /// What all sinks have in common.
    pub fn common(&self) -> &SinkCommon {
        match self {
            SinkSpec::Snapshot(spec) => &spec.common,
            SinkSpec::Database(spec) => &spec.common,
            SinkSpec::Event(spec) => &spec.common,
        }
    }

    /// The cluster's name as rows and paths show it, without blanks around it; empty when not set.
    pub fn cluster(&self) -> &str {
        self.common().cluster.as_deref().unwrap_or_default().trim()
    }
}
