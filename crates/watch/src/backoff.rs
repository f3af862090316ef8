//! How long to wait before the next try. Randomness is a number between 0 and 1 that is passed in.

use std::time::Duration;

/// Waiting times that double with every failure in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait after the first failure.
    pub first: Duration,
    /// No wait is longer.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(400),
            cap: Duration::from_secs(30),
        }
    }
}

impl Backoff {
    /// The wait after the `failures`th failure in a row.
    ///
    /// The upper half of the range is random: watches that were cut off together do not come
    /// back together, and none comes back at once.
    pub fn wait(&self, failures: u32, random: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let longest = self.first.saturating_mul(1 << doublings).min(self.cap);
        longest.mul_f64(0.5 + 0.5 * random)
    }
}

/// `duration` give or take a quarter.
pub(super) fn about(duration: Duration, random: f64) -> Duration {
    duration.mul_f64(0.75 + 0.5 * random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap() {
        let backoff = Backoff {
            first: Duration::from_millis(400),
            cap: Duration::from_secs(30),
        };
        let longest = [
            400, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000,
        ];
        for (failures, millis) in (0..).zip(longest) {
            let wait = |random| backoff.wait(failures, random);
            assert_eq!(wait(1.0), Duration::from_millis(millis), "{failures}");
            assert_eq!(wait(0.0), Duration::from_millis(millis) / 2, "{failures}");
            assert!(wait(0.0) < wait(0.3) && wait(0.3) < wait(0.9), "{failures}");
        }
        assert_eq!(backoff.wait(u32::MAX, 1.0), backoff.cap);
    }

    #[test]
    fn slow_retries_are_spread() {
        let minute = Duration::from_mins(1);
        assert_eq!(about(minute, 0.0), Duration::from_secs(45));
        assert_eq!(about(minute, 0.5), minute);
        assert_eq!(about(minute, 1.0), Duration::from_secs(75));
    }
}
