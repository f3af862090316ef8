//! How much a server may send, and how slowly.
//!
//! A server is whatever an endpoint was pointed at. Everything that it sends has an end that we
//! set, in bytes and in time, and running into one is an error of its own class: too much needs a
//! person ([`GitError::Excess`]), too slow may heal ([`GitError::Slow`]).

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::error::GitError;

const MIB: u64 = 1 << 20;
/// Files above this size are neither written nor fetched. Large hosts refuse them, too.
pub(super) const LARGEST_FILE: u64 = 100 * MIB;

/// What a server may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Bytes of the list of refs.
    pub(super) advertisement: u64,
    /// Bytes of the answer to a push, remarks for people included.
    pub(super) report: u64,
    /// Commits that are said to come without parents.
    pub(super) shallow: usize,
    /// What a fetch may bring.
    pub(super) fetch: FetchLimits,
    /// Bytes that a mirror may have before it is fetched anew.
    pub(super) mirror: u64,
    /// How slow it may be.
    pub(super) pace: Pace,
}

/// What a fetch may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FetchLimits {
    /// Bytes on the wire, and on disk.
    pub(super) pack: u64,
    /// Objects in it.
    pub(super) objects: u32,
    /// Bytes of one object once it is unpacked.
    pub(super) object: u64,
    /// Bytes of all objects once they are unpacked.
    pub(super) unpacked: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            advertisement: 32 * MIB,
            report: 4 * MIB,
            shallow: 10_000,
            fetch: FetchLimits {
                pack: 512 * MIB,
                objects: 4_000_000,
                object: LARGEST_FILE,
                unpacked: 4096 * MIB,
            },
            mirror: 1024 * MIB,
            pace: Pace {
                grace: Duration::from_mins(1),
                bytes_per_second: 16 * 1024,
            },
        }
    }
}

/// How slow a transfer may be: a while in which nothing has to happen, and a rate from then on.
/// Silence and a drip end alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) grace: Duration,
    pub(super) bytes_per_second: u64,
}

impl Pace {
    /// How long a transfer may have taken that has moved so many bytes.
    fn allowed(&self, moved: u64) -> Duration {
        self.grace + Duration::from_secs(moved / self.bytes_per_second.max(1))
    }
}

/// Measures one transfer.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    what: &'static str,
    begun: Instant,
    pace: Pace,
    moved: Arc<AtomicU64>,
}

impl Clock {
    /// Begins to measure; `what` names the transfer in the error.
    pub(super) fn start(what: &'static str, pace: Pace) -> Self {
        Self {
            what,
            begun: Instant::now(),
            pace,
            moved: Arc::default(),
        }
    }

    /// Notes bytes that were moved.
    pub(super) fn moved(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits for a part of the transfer, as long as the whole of it is fast enough.
    pub(super) async fn keep<T>(
        &self,
        work: impl Future<Output = Result<T, GitError>>,
    ) -> Result<T, GitError> {
        let mut work = pin!(work);
        loop {
            let before = self.moved.load(Ordering::Relaxed);
            let until = self.begun + self.pace.allowed(before);
            if let Ok(result) = timeout_at(until, work.as_mut()).await {
                return result;
            }
            // Others may have moved something meanwhile.
            let after = self.moved.load(Ordering::Relaxed);
            if self.begun + self.pace.allowed(after) <= Instant::now() {
                return Err(GitError::Slow(format!(
                    "{} is too slow: {after} bytes in {} s; check the server and the network",
                    self.what,
                    self.begun.elapsed().as_secs(),
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a5_silence_and_a_drip_end_alike() {
        let pace = Limits::default().pace;
        for (bytes, seconds) in [(0, 60), (60, 60), (16 * 1024, 61), (16 << 20, 60 + 1024)] {
            assert_eq!(pace.allowed(bytes), Duration::from_secs(seconds), "{bytes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a5_a_transfer_goes_on_while_it_moves() {
        let pace = Pace {
            grace: Duration::from_secs(10),
            bytes_per_second: 100,
        };
        let clock = Clock::start("a transfer", pace);
        let steady = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                clock.moved(100);
            }
            Ok(())
        };
        clock.keep(steady).await.unwrap();
        let clock = Clock::start("a drip", pace);
        let drip = async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                clock.moved(1);
            }
        };
        let ended: Result<(), GitError> = clock.keep(drip).await;
        assert!(matches!(ended, Err(GitError::Slow(_))), "{ended:?}");
        assert!(clock.begun.elapsed() < Duration::from_secs(12));
    }
}
