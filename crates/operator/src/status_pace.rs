//! When a new status is worth a write. Nothing here waits or writes.
//!
//! What a condition says is written at once; details (messages, counts) follow at most once a
//! second, and numbers that move all the time as often as an administrator wants. A condition that
//! comes and goes is not written faster than details are.

use std::time::Duration;

use kollect_api::condition::{self, Condition};
use tokio::time::Instant;

/// Writes of one status are this far apart, but for what is new after a quiet time.
pub const PAUSE: Duration = Duration::from_secs(1);

/// For how long nothing is said of an object that is new and has only just begun: what becomes of it
/// mostly follows within a moment, and is worth one write instead of two.
pub const FIRST_WORD: Duration = Duration::from_secs(3);

/// How much a status says that the one before did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// A count that is somewhere else by the time somebody reads it.
    Numbers,
    /// Messages, names, times.
    Details,
    /// A condition has another status or reason, or came, or went.
    Conditions,
}

impl News {
    /// What is new in these conditions, if the statuses around them differ in details at least.
    pub fn of(before: &[Condition], after: &[Condition]) -> Self {
        let came = condition::transitions(before, after).next().is_some();
        let went = before.len() > after.len();
        if came || went {
            Self::Conditions
        } else {
            Self::Details
        }
    }
}

/// What past writes of one status mean for the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusPace {
    written: Option<Instant>,
    /// When conditions were written last.
    told: Option<Instant>,
}

impl StatusPace {
    /// From when on a status may be written that says this. Numbers wait for `resync`.
    pub fn due(&self, news: News, resync: Duration, now: Instant) -> Instant {
        let due = match news {
            News::Numbers => self.written.map(|at| at + resync),
            News::Details => self.written.map(|at| at + PAUSE),
            News::Conditions => self.told.map(|at| at + PAUSE),
        };
        due.map_or(now, |due| due.max(now))
    }

    /// A status was written that says this.
    pub fn wrote(&mut self, news: News, now: Instant) {
        self.written = Some(now);
        if news == News::Conditions {
            self.told = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use kollect_api::condition::{ConditionStatus, ConditionType, Reason};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn c5_conditions_go_at_once_details_once_a_second_numbers_by_the_resync() {
        use News::{Conditions, Details, Numbers};
        let resync = Duration::from_mins(1);
        let start = Instant::now();
        let mut pace = StatusPace::default();
        for news in [Numbers, Details, Conditions] {
            assert_eq!(pace.due(news, resync, start), start, "the first: {news:?}");
        }
        pace.wrote(Details, start);
        assert_eq!(pace.due(Conditions, resync, start), start, "news at once");
        assert_eq!(pace.due(Details, resync, start), start + PAUSE);
        assert_eq!(pace.due(Numbers, resync, start), start + resync);
        pace.wrote(Conditions, start);
        assert_eq!(
            pace.due(Conditions, resync, start),
            start + PAUSE,
            "one that comes and goes"
        );
        let later = start + PAUSE * 2;
        assert_eq!(pace.due(Conditions, resync, later), later);
        assert_eq!(pace.due(Details, resync, later), later);
    }

    #[test]
    fn c5_what_is_new_in_conditions() {
        let now = Time(Timestamp::UNIX_EPOCH);
        let says = |status, reason, message: &str| {
            Condition::new(
                ConditionType::Ready,
                status,
                reason,
                message,
                None,
                now.clone(),
            )
        };
        let good = says(ConditionStatus::True, Reason::Collecting, "fine");
        let also = says(ConditionStatus::True, Reason::Collecting, "fine too");
        let other = says(ConditionStatus::True, Reason::Exported, "fine");
        let bad = says(ConditionStatus::False, Reason::Collecting, "fine");
        let of = |before: &[&Condition], after: &[&Condition]| {
            let own = |all: &[&Condition]| all.iter().copied().cloned().collect::<Vec<_>>();
            News::of(&own(before), &own(after))
        };
        assert_eq!(of(&[&good], &[&also]), News::Details);
        assert_eq!(of(&[&good], &[&other]), News::Conditions);
        assert_eq!(of(&[&good], &[&bad]), News::Conditions);
        assert_eq!(of(&[&good], &[]), News::Conditions);
        assert_eq!(of(&[], &[&good]), News::Conditions);
    }
}
