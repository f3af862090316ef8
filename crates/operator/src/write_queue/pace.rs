//! When an object may be written again. Nothing here waits or writes.

use std::time::Duration;

use tokio::time::Instant;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// No wait is longer, but for the spread.
const LONGEST: Duration = Duration::from_mins(5);

/// No wait is longer while the API server pushes back.
const LONGEST_PUSHED_BACK: Duration = Duration::from_secs(10);

/// How a write failed, as far as the next attempt is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteFailure {
    /// The object was not what this version of it said: another version makes another try
    /// worthwhile at once.
    Outdated(Option<String>),
    /// The API server has too much to do. How much it is sent altogether is decided elsewhere
    /// (`kollect_watch::connection`), so an object need not wait for long once it has recovered.
    PushedBack,
    /// Anything else.
    Other,
}

/// What past writes of one object mean for the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WritePace {
    failures: u32,
    not_before: Option<Instant>,
    /// How the last write failed.
    last: Option<WriteFailure>,
}

impl WritePace {
    /// From when on a write may begin that is based on this version of the object.
    pub fn begins_at(&self, version: Option<&str>, now: Instant) -> Instant {
        if let Some(WriteFailure::Outdated(outdated)) = &self.last
            && outdated.as_deref() != version
        {
            return now;
        }
        self.not_before.map_or(now, |at| at.max(now))
    }

    /// A write succeeded.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// A write failed. `spread` is a random number in 0..=1000, so that objects whose writes failed
    /// together are not tried together. Returns how long the next one waits.
    pub fn failed(&mut self, failure: WriteFailure, spread: u16, now: Instant) -> Duration {
        // Progress of the object is progress: only failures on the same version add up.
        if let (Some(WriteFailure::Outdated(before)), WriteFailure::Outdated(version)) =
            (&self.last, &failure)
            && before != version
        {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let mut wait = wait(self.failures, spread);
        if failure == WriteFailure::PushedBack {
            wait = wait.min(LONGEST_PUSHED_BACK);
        }
        self.not_before = Some(now + wait);
        self.last = Some(failure);
        wait
    }
}

/// 1 s after the first failure, doubled each time up to 5 min, spread by a fifth to either side.
fn wait(failures: u32, spread: u16) -> Duration {
    let doubled = FIRST
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(LONGEST);
    doubled * (800 + u32::from(spread.min(1_000)) * 400 / 1_000) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: u16 = 500;

    fn outdated_at(version: &str) -> WriteFailure {
        WriteFailure::Outdated(Some(version.to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_five_minutes_and_are_spread() {
        let mut pace = WritePace::default();
        let now = Instant::now();
        assert_eq!(pace.begins_at(None, now), now, "nothing was tried yet");
        let waits: Vec<u64> = (0..11)
            .map(|_| pace.failed(WriteFailure::Other, MIDDLE, now).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(wait(1, 0), Duration::from_millis(800));
        assert_eq!(wait(1, 1_000), Duration::from_millis(1_200));
        assert_eq!(wait(u32::MAX, MIDDLE), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn f3_a_server_that_recovers_is_not_waited_for() {
        let (mut pace, now) = (WritePace::default(), Instant::now());
        let waits: Vec<u64> = (0..6)
            .map(|_| pace.failed(WriteFailure::PushedBack, MIDDLE, now).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_ends_all_waiting() {
        let mut pace = WritePace::default();
        let now = Instant::now();
        for _ in 0..5 {
            pace.failed(WriteFailure::Other, MIDDLE, now);
        }
        assert_eq!(pace.begins_at(None, now), now + Duration::from_secs(16));
        let later = now + Duration::from_secs(20);
        assert_eq!(pace.begins_at(None, later), later, "it has waited enough");
        pace.succeeded();
        assert_eq!(pace.begins_at(None, now), now);
        let wait = pace.failed(WriteFailure::Other, MIDDLE, now);
        assert_eq!(wait, Duration::from_secs(1), "counted from the beginning");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_version_helps_a_write_that_was_outdated_and_no_other() {
        let now = Instant::now();
        let second = now + Duration::from_secs(1);
        let mut outdated = WritePace::default();
        outdated.failed(outdated_at("7"), MIDDLE, now);
        assert_eq!(outdated.begins_at(Some("7"), now), second);
        assert_eq!(outdated.begins_at(Some("8"), now), now);
        assert_eq!(outdated.begins_at(None, now), now);
        // A race that is lost again and again on ever new versions stays one failure.
        let wait = outdated.failed(outdated_at("8"), MIDDLE, now);
        assert_eq!(wait, Duration::from_secs(1));
        let wait = outdated.failed(outdated_at("8"), MIDDLE, now);
        assert_eq!(wait, Duration::from_secs(2));

        let mut refused = WritePace::default();
        refused.failed(WriteFailure::Other, MIDDLE, now);
        assert_eq!(refused.begins_at(Some("8"), now), second);
    }
}
