//! What an exporter is told to do.
//!
//! An order is a plain value that says everything about one inventory's exports as of now. Whoever
//! gives orders (the operator) decides what is allowed and who is meant; the exporter does it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kollect_api::{InventoryId, SinkKey, inventory::Dedupe, sink::SinkSpec};
use kollect_collect::store::RowSelection;
use kollect_sinks::{Demand, DocumentOptions, SinkError, credentials::Materials};

use crate::schedule::Configuration;

/// A sink as it is configured now, with everything needed to build it.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkSource {
    /// Which sink.
    pub key: SinkKey,
    /// Its uid: a sink that was deleted and created again is another one.
    pub uid: String,
    /// Changes with anything that the sink is built from: its spec and the Secrets it refers to.
    pub version: u128,
    /// The configuration.
    pub spec: Arc<SinkSpec>,
    /// What the sink wants to be given.
    pub demand: Demand,
    /// The credentials.
    pub materials: Arc<Materials>,
}

/// What an inventory wants of one sink.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkOrder {
    /// Which sink.
    pub key: SinkKey,
    /// The sink, unless it cannot be used now.
    pub source: Source,
    /// Everything that an export depends on beside its rows. A change leads to a full export.
    pub configuration: Configuration,
    /// How often accepted rows are delivered again; zero for never.
    pub interval: Duration,
    /// The least time between two exports of changed rows.
    pub change_interval: Duration,
    /// How rows become documents.
    pub documents: DocumentOptions,
    /// What an earlier process says it delivered.
    pub resume: Option<Resume>,
}

/// Whether a sink can be used now.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// It can.
    Ready(Arc<SinkSource>),
    /// Not yet: something about it is being read.
    Reading,
    /// It cannot, for this reason; somebody else reports it and says when it is over.
    Held(SinkError),
}

/// What an earlier process says it delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The checksum of the rows.
    pub checksum: String,
    /// When.
    pub at: Timestamp,
}

/// What to do for one inventory.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The inventory.
    pub inventory: InventoryId,
    /// Its generation.
    pub generation: i64,
    /// Which rows belong to it.
    pub scope: RowSelection,
    /// What to do with objects that several targets saw.
    pub dedupe: Dedupe,
    /// Whether anything may be exported at all.
    pub open: bool,
    /// The sinks to deliver to.
    pub deliver: Vec<SinkOrder>,
    /// The sinks that are to hold nothing of this inventory any more.
    pub retire: Vec<SinkOrder>,
}
