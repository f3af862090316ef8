//! How much is under way to the API server, and how much waits: numbers of the process.

use std::sync::atomic::{AtomicU64, Ordering};

pub use super::kind::Kind;

static IN_FLIGHT: [AtomicU64; Kind::ALL.len()] = [const { AtomicU64::new(0) }; Kind::ALL.len()];
static WAITING: [AtomicU64; Kind::ALL.len()] = [const { AtomicU64::new(0) }; Kind::ALL.len()];

/// Requests that were sent and whose answers were not read to their end; watches that are open.
pub fn in_flight(kind: Kind) -> u64 {
    IN_FLIGHT[kind as usize].load(Ordering::Relaxed)
}

/// Requests that wait for their turn.
pub fn waiting(kind: Kind) -> u64 {
    WAITING[kind as usize].load(Ordering::Relaxed)
}

/// Counts for as long as it lives.
pub(super) struct UnderWay(&'static AtomicU64);

impl UnderWay {
    /// Something is under way.
    pub(super) fn begin(kind: Kind) -> Self {
        Self::count(&IN_FLIGHT[kind as usize])
    }

    /// Something waits.
    pub(super) fn wait(kind: Kind) -> Self {
        Self::count(&WAITING[kind as usize])
    }

    fn count(number: &'static AtomicU64) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
