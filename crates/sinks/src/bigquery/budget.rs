//! One job per table at a time, and no more of them than the service takes.
//!
//! The service runs two changing statements on a table at a time, lets twenty wait, and takes
//! twenty-five in ten seconds, from everybody together. So the sinks of this process on one table
//! take turns, whatever their namespaces, and leave room for others. Changes pile up meanwhile and go
//! with the next job.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::time::Instant;

use super::names::Names;
use crate::pool::{Connection, Limits, Member, Registry};

/// The time that is looked at, and the changing statements in it.
const WINDOW: Duration = Duration::from_secs(10);
const STATEMENTS: usize = 20;

/// A place in the queue of a table. Nothing is kept between two.
pub(super) struct Turn(Instant);

impl Turn {
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }
}

impl Connection for Turn {
    fn opened(&self) -> Instant {
        self.0
    }

    fn is_closed(&self) -> bool {
        true
    }
}

const ONE: Limits = Limits {
    connections: 1,
    lifetime: WINDOW,
    idle: WINDOW,
};

/// Tables of this process: at which service, and which.
static TURNS: Registry<(String, Names), Turn> = Registry::new();
static BUDGETS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

type Known = ((String, Names), Weak<Mutex<Budget>>);

/// What a sink holds of its table.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) turns: Member<Turn>,
    budget: Arc<Mutex<Budget>>,
}

impl Share {
    /// A share of a table for somebody, such as a namespace.
    pub(super) fn of(service: &str, names: &Names, user: &Arc<str>) -> Self {
        let table = (service.to_owned(), names.clone());
        let budget = {
            let mut known = BUDGETS.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|(_, budget)| budget.strong_count() > 0);
            let found = known.iter().find(|(other, _)| *other == table);
            match found.and_then(|(_, budget)| budget.upgrade()) {
                Some(budget) => budget,
                None => {
                    let budget = Arc::<Mutex<Budget>>::default();
                    known.push((table.clone(), Arc::downgrade(&budget)));
                    budget
                }
            }
        };
        Self {
            turns: TURNS.join(table, ONE, user),
            budget,
        }
    }

    /// Waits until the table takes another statement, and says for how long it waited.
    pub(super) async fn spend(&self) -> Duration {
        let begun = Instant::now();
        loop {
            let wait = {
                let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
                budget.spend(Instant::now())
            };
            let Some(wait) = wait else {
                return begun.elapsed();
            };
            tokio::time::sleep(wait).await;
        }
    }
}

/// When statements were sent.
#[derive(Debug, Default)]
struct Budget(VecDeque<Instant>);

impl Budget {
    /// Counts a statement, or says how long there is no room for one.
    fn spend(&mut self, now: Instant) -> Option<Duration> {
        while self
            .0
            .front()
            .is_some_and(|first| now.duration_since(*first) >= WINDOW)
        {
            self.0.pop_front();
        }
        if self.0.len() < STATEMENTS {
            self.0.push_back(now);
            return None;
        }
        let first = self.0.front().copied().unwrap_or(now);
        Some((first + WINDOW).duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_has_more_than_the_table_takes() {
        let start = Instant::now();
        let mut budget = Budget::default();
        let mut sent = Vec::new();
        // Every 100 ms somebody wants to.
        for step in 0..600 {
            let now = start + step * Duration::from_millis(100);
            match budget.spend(now) {
                None => sent.push(now),
                Some(wait) => assert!(wait > Duration::ZERO && wait <= WINDOW),
            }
        }
        assert_eq!(sent.len(), 6 * STATEMENTS, "what there is is used");
        for (place, first) in sent.iter().enumerate() {
            let within = sent[place..]
                .iter()
                .filter(|other| **other - *first < WINDOW);
            assert!(within.count() <= STATEMENTS);
        }
    }

    #[tokio::test]
    async fn sinks_on_one_table_take_turns() {
        let names = |table: &str| Names {
            project: "acme".to_owned(),
            dataset: "inventory".to_owned(),
            table: table.to_owned(),
        };
        let [one, two, other] = [("t", "a"), ("t", "b"), ("u", "a")]
            .map(|(table, user)| Share::of("turns", &names(table), &user.into()));
        assert!(Arc::ptr_eq(&one.budget, &two.budget));
        let turn = one.turns.place().await;
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, two.turns.place()).await.is_err());
        let _elsewhere = other.turns.place().await;
        drop(turn);
        let _turn = two.turns.place().await;
    }
}
