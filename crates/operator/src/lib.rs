//! The operator: configuration in, collection running, status out.
//!
//! ```text
//! configuration ─┐
//! discovery ─────┼─> world ─> plan ─> engine ─> rows
//! access ────────┘                      │
//!                targets <── status ────┘
//! ```
//!
//! [`controller`] is the loop; everything it decides with is pure and lives in `kollect-collect`
//! ([`kollect_collect::plan`]) or here ([`target_status`]).

pub mod api_error;
pub mod configuration;
pub mod connection_tests;
pub mod control_loop;
pub mod controller;
pub mod definitions;
pub mod events;
pub mod inventories;
pub mod keeper;
pub mod lease;
pub mod listeners;
pub mod metrics;
pub mod mirrors;
pub mod named_namespaces;
pub mod preview;
pub mod probes;
pub mod process;
pub mod questions;
pub mod quota;
pub mod quotas;
pub mod rights;
pub mod secrets;
pub mod sink_objects;
pub mod sink_usability;
pub mod statements;
pub mod status_log;
pub mod status_pace;
pub mod table;
pub mod target_status;
pub mod targets;
pub mod wakeups;
pub mod webhooks;
pub mod workplaces;
pub mod write_queue;
pub mod writer;
