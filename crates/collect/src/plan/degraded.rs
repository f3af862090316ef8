//! Why a target does not do all it was asked to.

use kollect_api::condition::Reason;

/// A reason, as it appears in the `Degraded` condition and in events, and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degradation {
    /// One word for machines.
    pub reason: Reason,
    /// What happened and what to do.
    pub message: String,
}

impl Degradation {
    /// Puts the two together.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Degradation {
            reason,
            message: message.into(),
        }
    }
}
