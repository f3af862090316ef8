//! The circuit breaker of one sink: a backend that keeps failing is left alone for a while.

use std::time::Duration;

use crate::{Moment, shares::SLOW_AFTER};

const THRESHOLD: u32 = 5;
const WINDOW: Duration = Duration::from_mins(1);
const REST: Duration = Duration::from_secs(30);
/// When to ask again while the one attempt is under way that an open breaker lets through.
const TRIAL: Duration = Duration::from_secs(5);

/// Counts failures in a row and says whether the backend may be tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breaker {
    run: Option<Run>,
    /// Refuses until this moment; then lets one attempt through.
    open_until: Option<Moment>,
    /// That one attempt is under way.
    trial: bool,
}

/// Failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// When it began.
    begin: Moment,
    count: u32,
    /// How long all of them took together, and the last.
    spent: Duration,
    last: Duration,
}

/// What an attempt is that was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    /// One of many.
    Freely,
    /// The one that shows whether the backend is back.
    OnTrial,
}

impl Breaker {
    /// Whether the backend may be tried now; otherwise when to ask again. Whoever may try must say
    /// how it ended.
    pub fn admit(&mut self, now: Moment) -> Result<Admitted, Moment> {
        self.look(now)?;
        if self.open_until.is_none() {
            return Ok(Admitted::Freely);
        }
        self.trial = true;
        Ok(Admitted::OnTrial)
    }

    /// What [`admit`](Self::admit) would say.
    pub fn look(&self, now: Moment) -> Result<(), Moment> {
        match self.open_until {
            Some(until) if now < until => Err(until),
            Some(_) if self.trial => Err(now + TRIAL),
            _ => Ok(()),
        }
    }

    /// An attempt succeeded, or something else says so: all is well.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// An attempt failed after this time. Half a minute of rest follows five failures within a
    /// minute, or two that together took a minute (a backend that hangs would not fail five times
    /// in an hour), or the failure of the one attempt that an open breaker let through.
    pub fn failed(&mut self, admitted: Admitted, took: Duration, now: Moment) {
        let before = self.run.filter(|run| {
            let pauses = now
                .saturating_sub(run.begin)
                .saturating_sub(run.spent + took);
            run.spent + took >= WINDOW || pauses <= WINDOW
        });
        let run = match before {
            Some(run) => Run {
                count: run.count.saturating_add(1),
                spent: run.spent + took,
                last: took,
                ..run
            },
            None => Run {
                begin: now.saturating_sub(took),
                count: 1,
                spent: took,
                last: took,
            },
        };
        self.run = Some(run);
        let opens = match (self.open_until, admitted) {
            (Some(_), Admitted::OnTrial) => {
                self.trial = false;
                true
            }
            // It began before the breaker opened, and says nothing new.
            (Some(_), Admitted::Freely) => false,
            (None, _) => run.count >= THRESHOLD || (run.count >= 2 && run.spent >= WINDOW),
        };
        if opens {
            self.open_until = Some(now + REST);
        }
    }

    /// An attempt ended in a way that says nothing about the backend's health.
    pub fn abandoned(&mut self, admitted: Admitted) {
        if admitted == Admitted::OnTrial {
            self.trial = false;
        }
    }

    /// Whether the breaker refuses at this moment.
    pub fn is_open(&self, now: Moment) -> bool {
        self.look(now).is_err()
    }

    /// Whether the backend let the last attempt wait in vain.
    pub fn is_doubtful(&self) -> bool {
        self.run.is_some_and(|run| run.last >= SLOW_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(10);

    fn at(second: u64) -> Moment {
        Moment::from_secs(second)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        (0..5).for_each(|second| breaker.failed(Admitted::Freely, QUICK, at(second)));
        breaker
    }

    #[test]
    fn s18_five_failures_open_it_and_one_success_closes_it() {
        let mut breaker = Breaker::default();
        let mut reached = Vec::new();
        for second in [0, 5, 10, 15, 20, 25, 45, 55] {
            if let Ok(admitted) = breaker.admit(at(second)) {
                reached.push(second);
                if second < 50 {
                    breaker.failed(admitted, QUICK, at(second));
                } else {
                    breaker.succeeded();
                }
            }
        }
        assert_eq!(reached, [0, 5, 10, 15, 20, 55]);
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn s18_a_failed_trial_rests_again() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(10)), Err(at(34)));
        let trial = breaker.admit(at(34)).expect("a trial");
        assert_eq!(trial, Admitted::OnTrial);
        breaker.failed(trial, QUICK, at(34));
        assert_eq!(breaker.admit(at(63)), Err(at(64)));
    }

    #[test]
    fn exactly_one_is_let_through_on_trial() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(40)), Ok(Admitted::OnTrial));
        assert_eq!(breaker.admit(at(40)), Err(at(45)), "one is under way");
        assert_eq!(breaker.admit(at(100)), Err(at(105)));
        // One that began before the breaker opened ends meanwhile.
        breaker.failed(Admitted::Freely, Duration::from_secs(90), at(101));
        assert_eq!(breaker.admit(at(102)), Err(at(107)));
        // The one on trial was given up.
        breaker.abandoned(Admitted::OnTrial);
        assert_eq!(breaker.admit(at(108)), Ok(Admitted::OnTrial));
    }

    #[test]
    fn rare_failures_do_not_open_it() {
        let mut breaker = Breaker::default();
        for minute in 0..20 {
            breaker.failed(Admitted::Freely, QUICK, at(minute * 61));
            assert!(!breaker.is_open(at(minute * 61)));
        }
    }

    #[test]
    fn a_backend_that_hangs_until_the_deadline_opens_it_too() {
        let deadline = Duration::from_mins(2);
        let mut breaker = Breaker::default();
        breaker.failed(Admitted::Freely, deadline, at(120));
        assert!(!breaker.is_open(at(120)), "once is no habit");
        assert!(breaker.is_doubtful());
        // However long the pause was before it was tried again.
        breaker.failed(Admitted::Freely, deadline, at(540));
        assert!(breaker.is_open(at(560)));
        assert!(!breaker.is_open(at(571)));
        breaker.succeeded();
        assert!(!breaker.is_doubtful());
    }
}
