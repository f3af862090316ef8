//! Who may call a backend next: a fair queue, as a pure state machine.
//!
//! What is shared out are places, not processors: a call that waits for its backend costs next to
//! nothing, and a backend that never answers may be waited for until the deadline. So a hung call
//! must be able to lose its place without being ended. There are three kinds of calls:
//!
//! * **quick** calls, of which there may be so many at a time ([`Limits::quick`]);
//! * **slow** calls: under way for longer than [`Limits::slow_after`], or moved aside. They take
//!   no place from anybody; only a namespace's own limit and the ceiling count them;
//! * **doubtful** calls, to sinks that did not answer the last time. They begin as slow ones, and a
//!   namespace may have only some of them, so that its other sinks find a place too.
//!
//! The rules:
//!
//! 1. Next is who waits in the namespace with the fewest quick calls, then for the backend with the
//!    fewest, then in the namespace that was served longest ago, then who came first.
//! 2. When all quick places are taken, whoever holds two more than the one who waits gives way: the
//!    oldest quick call of that namespace (or of that backend) becomes a slow one. So places that
//!    nobody else wants may all be used by one namespace, and are given back in no time.
//! 3. A namespace has at most [`Limits::per_namespace`] calls under way, and all together have at
//!    most [`Limits::ceiling`]; only a namespace that has none does not wait for the ceiling.
//!
//! Caps alone (a namespace may have a quarter of the places) would leave three quarters idle where
//! there is one namespace, and four namespaces with hung sinks would still take all places. A place
//! that is given up by the passing of time alone would let others wait for that time.
//!
//! Nobody starves: a namespace that waits and is not served has no quick calls after `slow_after`,
//! and is then first in line but for those that were served even longer ago.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use kollect_api::sink::SinkType;

use crate::Moment;

/// How much there is to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Quick calls at a time.
    pub quick: usize,
    /// A call that takes longer is slow.
    pub slow_after: Duration,
    /// Calls of one namespace at a time, of all kinds.
    pub per_namespace: usize,
    /// Calls of one namespace at a time to sinks that did not answer the last time.
    pub doubtful: usize,
    /// Calls at a time, of all kinds.
    pub ceiling: usize,
}

/// A call that takes longer than this is slow.
pub const SLOW_AFTER: Duration = Duration::from_secs(2);

impl Limits {
    /// Limits for so many quick calls at a time.
    pub fn of(quick: usize) -> Self {
        let quick = quick.max(1);
        Self {
            quick,
            slow_after: SLOW_AFTER,
            per_namespace: quick.saturating_mul(3),
            doubtful: quick,
            ceiling: quick.saturating_mul(12),
        }
    }
}

/// Somebody who wants to call a backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The namespace of the sink.
    pub namespace: Arc<str>,
    /// What kind of backend it is.
    pub backend: SinkType,
    /// Whether the sink did not answer the last time.
    pub doubtful: bool,
}

/// The number of a claim; later ones are greater.
pub type Ticket = u64;

#[derive(Debug)]
struct Running {
    claim: Claim,
    /// When it began, while it is a quick one.
    quick_since: Option<Moment>,
}

/// What a namespace has.
#[derive(Debug, Default)]
struct Held {
    quick: usize,
    doubtful: usize,
    all: usize,
    /// Which turn was its last.
    served: u64,
    waiting: usize,
}

/// Who waits and who is under way.
#[derive(Debug)]
pub struct Shares {
    limits: Limits,
    last_ticket: Ticket,
    turns: u64,
    /// By claim, in the order of arrival: equal claims differ in nothing else.
    waiting: BTreeMap<Claim, VecDeque<Ticket>>,
    running: BTreeMap<Ticket, Running>,
    /// Namespaces that wait or have something under way.
    namespaces: BTreeMap<Arc<str>, Held>,
    /// Quick calls by backend.
    backends: BTreeMap<SinkType, usize>,
    quick: usize,
}

impl Shares {
    /// Nobody is there yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            last_ticket: 0,
            turns: 0,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            backends: BTreeMap::new(),
            quick: 0,
        }
    }

    /// Somebody gets in line.
    pub fn ask(&mut self, claim: Claim) -> Ticket {
        self.last_ticket += 1;
        let held = self
            .namespaces
            .entry(Arc::clone(&claim.namespace))
            // Behind everybody who waits: coming and going is no way to the front.
            .or_insert_with(|| Held {
                served: self.turns,
                ..Held::default()
            });
        held.waiting += 1;
        let line = self.waiting.entry(claim).or_default();
        line.push_back(self.last_ticket);
        self.last_ticket
    }

    /// Somebody is done, or waits no longer.
    pub fn leave(&mut self, ticket: Ticket) {
        let namespace = if self.running.contains_key(&ticket) {
            self.make_slow(ticket);
            let Running { claim, .. } = self.running.remove(&ticket).expect("it was there");
            if let Some(held) = self.namespaces.get_mut(&claim.namespace) {
                held.all -= 1;
                held.doubtful -= usize::from(claim.doubtful);
            }
            claim.namespace
        } else {
            let mut lines = self.waiting.iter_mut();
            let Some((claim, line)) = lines.find(|(_, line)| line.contains(&ticket)) else {
                return;
            };
            line.retain(|waiting| *waiting != ticket);
            let (claim, gone) = (claim.clone(), line.is_empty());
            if gone {
                self.waiting.remove(&claim);
            }
            if let Some(held) = self.namespaces.get_mut(&claim.namespace) {
                held.waiting -= 1;
            }
            claim.namespace
        };
        self.namespaces
            .retain(|name, held| *name != namespace || held.all + held.waiting > 0);
    }

    /// Everybody who may begin now; they are under way from now on.
    pub fn admit(&mut self, now: Moment) -> Vec<Ticket> {
        self.age(now);
        let mut admitted = Vec::new();
        while let Some(ticket) = self.admit_one(now) {
            admitted.push(ticket);
        }
        admitted
    }

    /// When the next quick call becomes a slow one, which may make room for somebody.
    pub fn next_slow(&self) -> Option<Moment> {
        let quick = self.running.values().filter_map(|call| call.quick_since);
        quick.min().map(|since| since + self.limits.slow_after)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.running.len()
    }

    fn age(&mut self, now: Moment) {
        let limit = self.limits.slow_after;
        let old = self.running.iter().filter(|(_, call)| {
            let since = call.quick_since;
            since.is_some_and(|since| now.saturating_sub(since) >= limit)
        });
        let old: Vec<Ticket> = old.map(|(ticket, _)| *ticket).collect();
        for ticket in old {
            self.make_slow(ticket);
        }
    }

    fn make_slow(&mut self, ticket: Ticket) {
        let Some(call) = self.running.get_mut(&ticket) else {
            return;
        };
        if call.quick_since.take().is_none() {
            return;
        }
        self.quick -= 1;
        if let Some(held) = self.namespaces.get_mut(&call.claim.namespace) {
            held.quick -= 1;
        }
        if let Some(quick) = self.backends.get_mut(&call.claim.backend) {
            *quick -= 1;
        }
    }

    fn admit_one(&mut self, now: Moment) -> Option<Ticket> {
        let mut line: Vec<_> = self
            .waiting
            .iter()
            .filter(|(claim, _)| self.has_room(claim))
            .filter_map(|(claim, line)| {
                let (held, ticket) = (self.namespaces.get(&claim.namespace)?, *line.front()?);
                let rank = (
                    held.quick,
                    self.of_backend(claim.backend),
                    held.served,
                    ticket,
                );
                Some((rank, claim))
            })
            .collect();
        line.sort_unstable_by_key(|(rank, _)| *rank);
        let (claim, gives_way) = line.into_iter().find_map(|(_, claim)| {
            if claim.doubtful || self.quick < self.limits.quick {
                return Some((claim.clone(), None));
            }
            let victim = self.gives_way(claim)?;
            Some((claim.clone(), Some(victim)))
        })?;
        if let Some(victim) = gives_way {
            self.make_slow(victim);
        }
        self.begin(&claim, now)
    }

    /// Whether the limits leave room for it, apart from quick places.
    fn has_room(&self, claim: &Claim) -> bool {
        let Some(held) = self.namespaces.get(&claim.namespace) else {
            return false;
        };
        held.all < self.limits.per_namespace
            && (held.all == 0 || self.running.len() < self.limits.ceiling)
            && (!claim.doubtful || held.doubtful < self.limits.doubtful)
    }

    /// The quick call that makes room for this claim, if somebody holds two more than it.
    fn gives_way(&self, claim: &Claim) -> Option<Ticket> {
        let own = self.namespaces.get(&claim.namespace)?.quick;
        let most = self.namespaces.iter().max_by_key(|(_, held)| held.quick);
        if let Some((namespace, held)) = most
            && held.quick >= own + 2
        {
            return self.oldest_quick(|other| other.namespace == *namespace);
        }
        let backend = self.of_backend(claim.backend);
        let (most, held) = self.backends.iter().max_by_key(|(_, quick)| **quick)?;
        if *held < backend + 2 {
            return None;
        }
        // But never one of somebody who has less.
        self.oldest_quick(|other| {
            let held = self.namespaces.get(&other.namespace);
            other.backend == *most && held.is_some_and(|held| held.quick > own)
        })
    }

    fn oldest_quick(&self, of: impl Fn(&Claim) -> bool) -> Option<Ticket> {
        let quick = self.running.iter().filter(|(_, call)| of(&call.claim));
        let quick = quick.filter_map(|(ticket, call)| Some((call.quick_since?, *ticket)));
        quick.min().map(|(_, ticket)| ticket)
    }

    fn of_backend(&self, backend: SinkType) -> usize {
        self.backends.get(&backend).copied().unwrap_or_default()
    }

    fn begin(&mut self, claim: &Claim, now: Moment) -> Option<Ticket> {
        let line = self.waiting.get_mut(claim)?;
        let ticket = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(claim);
        }
        self.turns += 1;
        let held = self.namespaces.get_mut(&claim.namespace)?;
        held.waiting -= 1;
        held.served = self.turns;
        held.all += 1;
        let quick_since = if claim.doubtful {
            held.doubtful += 1;
            None
        } else {
            held.quick += 1;
            self.quick += 1;
            *self.backends.entry(claim.backend).or_default() += 1;
            Some(now)
        };
        let claim = claim.clone();
        self.running.insert(ticket, Running { claim, quick_since });
        Some(ticket)
    }
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
