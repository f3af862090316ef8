//! How often a sink is written because rows changed.
//!
//! A document is written anew, and a commit made, for every export of a change. Under steady churn
//! that adds up, and nobody notices before the repository has grown; so it is counted.

use std::{collections::VecDeque, time::Duration};

use crate::Moment;

/// More writes than this within an hour are worth a word,
const MANY: u32 = 200;
/// and no more than this mean that it is over.
const CALM: u32 = 100;
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// Many writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Often {
    /// How many within an hour, when it was noticed.
    pub writes: u32,
    /// The bytes of their rows.
    pub bytes: u64,
}

/// The writes of the last hour, by minute.
#[derive(Debug, Default)]
pub(crate) struct Churn {
    minutes: VecDeque<Minute>,
    often: Option<Often>,
}

#[derive(Debug)]
struct Minute {
    begins: Moment,
    writes: u32,
    bytes: u64,
}

impl Churn {
    /// A change was written.
    pub(crate) fn note(&mut self, bytes: u64, now: Moment) {
        match self.minutes.back_mut() {
            Some(minute) if now < minute.begins + MINUTE => {
                minute.writes += 1;
                minute.bytes = minute.bytes.saturating_add(bytes);
            }
            _ => self.minutes.push_back(Minute {
                begins: now,
                writes: 1,
                bytes,
            }),
        }
        self.look(now);
    }

    /// Whether changes are written often. What was noticed stays as it was said until it is over:
    /// a status is no counter.
    pub(crate) fn look(&mut self, now: Moment) -> Option<Often> {
        while self
            .minutes
            .front()
            .is_some_and(|minute| minute.begins + HOUR <= now)
        {
            self.minutes.pop_front();
        }
        let writes = self.minutes.iter().map(|minute| minute.writes).sum();
        if writes > MANY && self.often.is_none() {
            let bytes = self.minutes.iter().map(|minute| minute.bytes).sum();
            self.often = Some(Often { writes, bytes });
        } else if writes <= CALM {
            self.often = None;
        }
        self.often
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment::from_secs(second)
    }

    #[test]
    fn two_hundred_writes_in_an_hour_are_normal_and_one_more_is_often() {
        let mut churn = Churn::default();
        for write in 0..200 {
            churn.note(10, at(write * 10));
        }
        assert_eq!(churn.look(at(2_000)), None);
        churn.note(10, at(2_001));
        let often = Often {
            writes: 201,
            bytes: 2_010,
        };
        assert_eq!(churn.look(at(2_002)), Some(often));
        churn.note(10, at(2_010));
        assert_eq!(churn.look(at(2_011)), Some(often), "said once");
        assert!(churn.minutes.len() <= 61, "{}", churn.minutes.len());
    }

    #[test]
    fn it_is_over_when_an_hour_was_calm() {
        let mut churn = Churn::default();
        for write in 0..300 {
            churn.note(1, at(write));
        }
        assert!(churn.look(at(3_500)).is_some());
        assert_eq!(churn.look(at(3_900)), None);
        assert!(churn.minutes.is_empty());
    }

    #[test]
    fn a_write_every_minute_is_never_often() {
        let mut churn = Churn::default();
        for write in 0..1_000 {
            churn.note(1, at(write * 60));
            assert_eq!(churn.look(at(write * 60)), None);
        }
    }
}
