//! The circuit breaker of one sink: a backend that keeps failing is left alone for a while.

use std::time::Duration;

use crate::Moment;

const THRESHOLD: u32 = 5;
const WINDOW: Duration = Duration::from_mins(1);
const REST: Duration = Duration::from_secs(30);

/// Counts failures in a row and says whether the backend may be tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breaker {
    /// When the current run of failures began, and its length.
    run: Option<(Moment, u32)>,
    /// Refuses until this moment; then lets one attempt through.
    open_until: Option<Moment>,
}

impl Breaker {
    /// Whether the backend may be tried now; otherwise until when it may not.
    pub fn admit(&self, now: Moment) -> Result<(), Moment> {
        match self.open_until {
            Some(until) if now < until => Err(until),
            _ => Ok(()),
        }
    }

    /// An attempt succeeded: all is well.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// An attempt failed. Five in a row within a minute open the breaker for half a minute; so does
    /// the failure of the attempt that an open breaker let through.
    pub fn failed(&mut self, now: Moment) {
        if self.open_until.is_some() {
            self.open_until = Some(now + REST);
            return;
        }
        let (begin, count) = match self.run {
            Some((begin, count)) if now.saturating_sub(begin) <= WINDOW => (begin, count + 1),
            _ => (now, 1),
        };
        self.run = Some((begin, count));
        if count >= THRESHOLD {
            self.open_until = Some(now + REST);
        }
    }

    /// Whether the breaker refuses at this moment.
    pub fn is_open(&self, now: Moment) -> bool {
        self.admit(now).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment::from_secs(second)
    }

    #[test]
    fn five_failures_open_it_and_one_success_closes_it() {
        let mut breaker = Breaker::default();
        let mut reached = Vec::new();
        for second in [0, 5, 10, 15, 20, 25, 45, 55] {
            if breaker.admit(at(second)).is_ok() {
                reached.push(second);
                if second < 50 {
                    breaker.failed(at(second));
                } else {
                    breaker.succeeded();
                }
            }
        }
        assert_eq!(reached, [0, 5, 10, 15, 20, 55]);
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn a_failed_trial_rests_again() {
        let mut breaker = Breaker::default();
        (0..5).for_each(|second| breaker.failed(at(second)));
        assert_eq!(breaker.admit(at(10)), Err(at(34)));
        assert!(breaker.admit(at(34)).is_ok());
        breaker.failed(at(34));
        assert_eq!(breaker.admit(at(63)), Err(at(64)));
    }

    #[test]
    fn slow_failures_do_not_open_it() {
        let mut breaker = Breaker::default();
        for minute in 0..20 {
            breaker.failed(at(minute * 61));
            assert!(!breaker.is_open(at(minute * 61)));
        }
    }
}
