//! Waiting for one's turn: the [`Shares`] with a clock, and somebody who is told.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

use crate::shares::{Claim, Limits, Shares, Ticket};

/// Fair permission to call backends.
#[derive(Debug, Clone)]
pub struct Permits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    epoch: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    shares: Shares,
    /// Who is to be told that it is their turn.
    waiting: BTreeMap<Ticket, oneshot::Sender<()>>,
}

/// A place in the line, and then permission to call; given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    permits: Permits,
    ticket: Ticket,
}

impl Permits {
    /// So many quick calls at a time, and what follows from that.
    pub fn new(quick: usize) -> Self {
        Self::with(Limits::of(quick))
    }

    /// Within these limits.
    pub fn with(limits: Limits) -> Self {
        Self(Arc::new(Shared {
            epoch: Instant::now(),
            state: Mutex::new(State {
                shares: Shares::new(limits),
                waiting: BTreeMap::new(),
            }),
        }))
    }

    /// Waits for a turn. How long is bounded by the rules of [`Shares`]: whoever is ahead loses its
    /// place in no more than [`Limits::slow_after`], and has a deadline.
    pub async fn acquire(&self, claim: Claim) -> Permit {
        let (tell, mut told) = oneshot::channel();
        let permit = {
            let mut state = self.state();
            let ticket = state.shares.ask(claim);
            state.waiting.insert(ticket, tell);
            self.admit(&mut state);
            Permit {
                permits: self.clone(),
                ticket,
            }
        };
        loop {
            // Whoever waits looks after the passing of time: nobody else has a reason to.
            let wake = self.state().shares.next_slow();
            let wake = wake.map(|moment| self.0.epoch + moment);
            tokio::select! {
                biased;
                _ = &mut told => return permit,
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    self.admit(&mut self.state());
                }
            }
        }
    }

    /// How many calls wait for their turn, and how many are under way.
    pub fn load(&self) -> (usize, usize) {
        let state = self.state();
        (state.shares.waiting(), state.shares.under_way())
    }

    fn admit(&self, state: &mut State) {
        for ticket in state.shares.admit(self.0.epoch.elapsed()) {
            if let Some(tell) = state.waiting.remove(&ticket) {
                // Who has gone meanwhile gives the permit back by going.
                let _ = tell.send(());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.permits.state();
        state.waiting.remove(&self.ticket);
        state.shares.leave(self.ticket);
        self.permits.admit(&mut state);
    }
}
