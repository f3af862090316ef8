//! When to export what.
//!
//! One [`Schedule`] belongs to one sink of one inventory. It is told what happens (content changed,
//! configuration changed, an export ended) and answers what to do now and when to ask again. It
//! knows no clock and does no I/O: the moment and the jitter are passed in, so every history can be
//! replayed, and a simulator drives thousands of random ones.

pub mod breaker;
pub mod retry;
pub mod schedule;

pub use breaker::Breaker;
pub use retry::{FailureClass, Jitter};
pub use schedule::{Attempt, Configuration, Content, Schedule, Verdict, Wanted};

/// A point in time, as the distance from a fixed start that the caller chooses.
pub type Moment = std::time::Duration;
