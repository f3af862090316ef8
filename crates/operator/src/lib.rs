//! The operator: configuration in, collection running, status out.

pub mod sinks_behind;
pub mod table;
pub mod target_status;
