//! Whose turn it is to be asked for. Nothing here asks or waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::table::NamespacedName;

/// What is known is asked for again after this.
const AGAIN: Duration = Duration::from_mins(1);
/// What is missing, or could not be had, is asked for again after this.
const SOON: Duration = Duration::from_secs(15);
/// Nothing is asked for more often than this, however many want it.
const LEAST: Duration = Duration::from_secs(2);

/// How asking for something went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is there, or it must not be read.
    Settled,
    /// It may be otherwise soon.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Turn {
    due: Instant,
    /// When it was asked for last.
    asked: Option<Instant>,
    under_way: bool,
}

/// What is asked for in turn.
#[derive(Debug, Default)]
pub(super) struct Turns(BTreeMap<NamespacedName, Turn>);

impl Turns {
    /// Asks for exactly these from now on, new ones at once.
    pub(super) fn follow(&mut self, wanted: &BTreeSet<NamespacedName>, now: Instant) {
        self.0.retain(|key, _| wanted.contains(key));
        for key in wanted {
            self.0.entry(key.clone()).or_insert(Turn {
                due: now,
                asked: None,
                under_way: false,
            });
        }
    }

    /// There is a reason to believe that it has changed.
    pub(super) fn hurry(&mut self, key: &NamespacedName, now: Instant) {
        if let Some(turn) = self.0.get_mut(key) {
            let earliest = turn.asked.map_or(now, |asked| (asked + LEAST).max(now));
            turn.due = turn.due.min(earliest);
        }
    }

    /// Who is to be asked for now, at most so many; or when somebody is.
    pub(super) fn next(
        &mut self,
        most: usize,
        now: Instant,
    ) -> Result<Vec<NamespacedName>, Option<Instant>> {
        let free = self.0.iter_mut().filter(|(_, turn)| !turn.under_way);
        let mut free: Vec<_> = free.collect();
        free.sort_by_key(|(_, turn)| turn.due);
        let earliest = free.first().map(|(_, turn)| turn.due);
        let due: Vec<_> = free
            .into_iter()
            .take(most)
            .filter(|(_, turn)| turn.due <= now)
            .map(|(key, turn)| {
                turn.under_way = true;
                turn.asked = Some(now);
                key.clone()
            })
            .collect();
        if due.is_empty() {
            Err(earliest.map(|at| at.max(now)))
        } else {
            Ok(due)
        }
    }

    /// An answer came, or none. `spread` is a random number between 0 and 1: what was asked for
    /// together is not asked for together again.
    pub(super) fn asked(
        &mut self,
        key: &NamespacedName,
        outcome: Outcome,
        spread: f64,
        now: Instant,
    ) {
        let Some(turn) = self.0.get_mut(key) else {
            return;
        };
        let wait = match outcome {
            Outcome::Settled => AGAIN,
            Outcome::Open => SOON,
        };
        turn.under_way = false;
        turn.due = now + wait.mul_f64(0.75 + spread.clamp(0.0, 1.0) / 2.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> NamespacedName {
        (format!("team-{number:04}"), "dsn".to_owned())
    }

    fn keys(count: usize) -> BTreeSet<NamespacedName> {
        (0..count).map(key).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn f2_every_secret_is_asked_for_once_a_minute_and_never_all_at_once() {
        let begun = Instant::now();
        let mut turns = Turns::default();
        turns.follow(&keys(1_000), begun);
        let (mut per_second, mut random) = (BTreeMap::<u64, usize>::new(), 0.0);
        let mut counts = BTreeMap::<NamespacedName, usize>::new();
        for tick in 0..3_000_u32 {
            let now = begun + Duration::from_millis(100) * tick;
            while let Ok(due) = turns.next(8, now) {
                for key in due {
                    random = f64::fract(random + 0.618_034);
                    turns.asked(&key, Outcome::Settled, random, now);
                    *per_second.entry(u64::from(tick / 10)).or_default() += 1;
                    *counts.entry(key).or_default() += 1;
                }
            }
        }
        assert_eq!(per_second.remove(&0), Some(1_000), "the first time at once");
        let most = per_second.values().max().copied();
        assert!(most < Some(60), "{most:?} in one second");
        assert!(counts.values().all(|count| (4..=8).contains(count)));
    }

    #[tokio::test(start_paused = true)]
    async fn f2_a_failed_login_asks_at_once_but_not_again_and_again() {
        let begun = Instant::now();
        let mut turns = Turns::default();
        turns.follow(&keys(2), begun);
        assert_eq!(turns.next(1, begun), Ok(vec![key(0)]));
        assert_eq!(turns.next(8, begun), Ok(vec![key(1)]));
        assert_eq!(turns.next(8, begun), Err(None), "both are under way");
        turns.asked(&key(0), Outcome::Settled, 0.5, begun);
        turns.asked(&key(1), Outcome::Open, 0.5, begun);
        assert_eq!(turns.next(8, begun), Err(Some(begun + SOON)));
        let later = begun + Duration::from_secs(10);
        turns.hurry(&key(0), later);
        assert_eq!(turns.next(8, later), Ok(vec![key(0)]));
        turns.asked(&key(0), Outcome::Settled, 0.5, later);
        for _ in 0..10 {
            turns.hurry(&key(0), later);
        }
        assert_eq!(turns.next(8, later), Err(Some(later + LEAST)));
        turns.follow(&keys(1), later);
        turns.hurry(&key(1), later);
        assert_eq!(
            turns.next(8, later + LEAST),
            Ok(vec![key(0)]),
            "the other is gone"
        );
    }
}
