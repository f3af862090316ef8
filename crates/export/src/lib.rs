//! When to export what, and doing it.
//!
//! One [`Schedule`] belongs to one sink of one inventory. It is told what happens (content changed,
//! configuration changed, an export ended) and answers what to do now and when to ask again. It
//! knows no clock and does no I/O: the moment and the jitter are passed in, so every history can be
//! replayed, and a simulator drives thousands of random ones.
//!
//! Around it an [`Exporter`] per inventory follows rows and orders and calls the sinks:
//!
//! ```text
//! orders ─> exporter ─┬─> lane: subscription, schedule ─┐
//!  rows ─>            ├─> lane                          ├─> calls: deadline, breaker ─> sinks
//!                     └─> lane                          ┘
//!           reports <─┘
//! ```
//!
//! Nothing here knows Kubernetes objects: the operator turns them into [`Order`]s and [`Report`]s
//! into statuses.

pub mod breaker;
pub mod churn;
pub mod delivery;
pub mod exporter;
mod lane;
pub mod order;
pub mod permits;
pub mod pool;
pub mod report;
mod retiring;
pub mod retry;
mod rows;
pub mod schedule;
pub mod shares;
pub mod survey;

pub use breaker::Breaker;
pub use delivery::{Calls, ExportTask, Observer};
pub use exporter::Exporter;
pub use order::{Order, SinkOrder, SinkSource};
pub use permits::Permits;
pub use pool::Pool;
pub use report::Report;
pub use retry::{FailureClass, Jitter};
pub use schedule::{Attempt, Configuration, ContentVersion, Schedule, Verdict, Wanted};

/// A point in time, as the distance from a fixed start that the caller chooses.
pub type Moment = std::time::Duration;
