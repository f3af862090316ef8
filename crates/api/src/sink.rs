//! The three sink kinds: where inventories are delivered to.
//!
//! What they have in common is in [`common`]; each family adds its backends.

pub mod common;
pub mod database;
pub mod event;
pub mod snapshot;
pub mod spec;
pub mod status;

pub use common::{SinkCommon, SinkType};
pub use database::{KollectDatabaseSink, KollectDatabaseSinkSpec};
pub use event::{KollectEventSink, KollectEventSinkSpec};
pub use snapshot::{KollectSnapshotSink, KollectSnapshotSinkSpec};
pub use spec::{Otherwise, OwnSecret, SinkSpec};
pub use status::SinkStatus;
