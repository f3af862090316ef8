//! The operator: configuration in, collection running, status out.

pub mod configuration;
pub mod sinks_behind;
pub mod table;
pub mod target_status;
pub mod writer;
