//! How many requests there may be at a time. Each kind has places of its own: reads that take long
//! leave writes theirs, and a flood of reviews delays no status.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{kind::Kind, load::UnderWay};

/// Reads at a time, and watches that are being opened.
const READS: usize = 16;
/// Writes at a time.
const WRITES: usize = 8;
/// Reviews at a time.
const REVIEWS: usize = 4;

/// Places for requests.
pub(super) struct Gate {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    reviews: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            reads: places(READS),
            writes: places(WRITES),
            reviews: places(REVIEWS),
        }
    }
}

/// The right to have one request under way, for as long as it lives.
pub(super) struct Turn {
    _counted: UnderWay,
    _place: Option<OwnedSemaphorePermit>,
}

impl Gate {
    /// Waits in line.
    pub(super) async fn enter(&self, kind: Kind) -> Turn {
        let places = match kind {
            Kind::Lease => None,
            Kind::Review => Some(&self.reviews),
            Kind::Write => Some(&self.writes),
            Kind::Read | Kind::Watch => Some(&self.reads),
        };
        let place = match places {
            None => None,
            Some(places) => {
                let _waits = UnderWay::wait(kind);
                // A semaphore that nobody closes always answers.
                Arc::clone(places).acquire_owned().await.ok()
            }
        };
        Turn {
            _counted: UnderWay::begin(kind),
            _place: place,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn f2_no_kind_uses_up_what_another_needs() {
        let gate = Gate::default();
        let soon = Duration::from_secs(1);
        let mut turns = Vec::new();
        for (kind, most) in [
            (Kind::Read, READS),
            (Kind::Write, WRITES),
            (Kind::Review, REVIEWS),
        ] {
            for _ in 0..most {
                turns.push(timeout(soon, gate.enter(kind)).await.expect("a place"));
            }
            assert!(timeout(soon, gate.enter(kind)).await.is_err(), "{kind:?}");
        }
        assert!(timeout(soon, gate.enter(Kind::Watch)).await.is_err());
        assert!(timeout(soon, gate.enter(Kind::Lease)).await.is_ok());
        turns.clear();
        assert!(timeout(soon, gate.enter(Kind::Watch)).await.is_ok());
    }
}
