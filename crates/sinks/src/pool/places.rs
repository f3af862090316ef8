//! Who may use a backend next: few places, shared out fairly.
//!
//! 1. Next is who waits for the user (a namespace) with the fewest places, then for the one that was
//!    served longest ago, then who came first.
//! 2. Where several users share the places, none of them has more than half of them: one whose
//!    deliveries hang leaves the others some.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

/// The number of a request; later ones are greater.
type Ticket = u64;

/// A fair queue. Clones share everything.
#[derive(Clone)]
pub(crate) struct Places(Arc<Mutex<State>>);

struct State {
    queue: Queue,
    /// Who is to be told that it is their turn.
    waiting: BTreeMap<Ticket, oneshot::Sender<()>>,
}

/// A place, or a place in the line; given back when it is dropped.
pub(crate) struct Held {
    places: Places,
    ticket: Ticket,
}

impl Places {
    pub(super) fn new(size: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            queue: Queue::new(size),
            waiting: BTreeMap::new(),
        })))
    }

    /// Somebody may want places from now on.
    pub(super) fn join(&self, user: &Arc<str>) {
        self.with(|state| state.queue.join(user));
    }

    /// The opposite of [`join`](Self::join), as often.
    pub(super) fn leave(&self, user: &Arc<str>) {
        self.with(|state| state.queue.leave(user));
    }

    /// Waits for a place.
    pub(super) async fn acquire(&self, user: &Arc<str>) -> Held {
        let (tell, told) = oneshot::channel();
        let ticket = self.with(|state| {
            let ticket = state.queue.ask(user);
            state.waiting.insert(ticket, tell);
            ticket
        });
        let held = Held {
            places: self.clone(),
            ticket,
        };
        // Whoever holds a ticket is told, unless it goes before.
        let _ = told.await;
        held
    }

    /// How many places are taken.
    pub(super) fn held(&self) -> usize {
        self.with(|state| state.queue.held.len())
    }

    /// Changes something, and lets those in who may come now.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut state);
        while let Some(ticket) = state.queue.admit() {
            if let Some(tell) = state.waiting.remove(&ticket) {
                let _ = tell.send(());
            }
        }
        outcome
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.places.with(|state| {
            state.waiting.remove(&self.ticket);
            state.queue.end(self.ticket);
        });
    }
}

/// The rules.
struct Queue {
    size: usize,
    users: BTreeMap<Arc<str>, User>,
    waiting: BTreeMap<Ticket, Arc<str>>,
    held: BTreeMap<Ticket, Arc<str>>,
    next: Ticket,
    turns: u64,
}

#[derive(Default)]
struct User {
    /// How often it joined.
    members: usize,
    held: usize,
    /// Which turn was its last.
    served: u64,
}

impl Queue {
    fn new(size: usize) -> Self {
        Self {
            size: size.max(1),
            users: BTreeMap::new(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            next: 0,
            turns: 0,
        }
    }

    fn join(&mut self, user: &Arc<str>) {
        self.users.entry(Arc::clone(user)).or_default().members += 1;
    }

    fn leave(&mut self, user: &Arc<str>) {
        if let Some(known) = self.users.get_mut(user) {
            known.members = known.members.saturating_sub(1);
        }
        self.forget(user);
    }

    fn forget(&mut self, user: &Arc<str>) {
        let idle = |known: &User| known.members == 0 && known.held == 0;
        if self.users.get(user).is_some_and(idle) {
            self.users.remove(user);
        }
    }

    fn ask(&mut self, user: &Arc<str>) -> Ticket {
        self.next += 1;
        self.waiting.insert(self.next, Arc::clone(user));
        self.next
    }

    /// Lets one in.
    fn admit(&mut self) -> Option<Ticket> {
        if self.held.len() >= self.size {
            return None;
        }
        let most = if self.users.len() > 1 {
            self.size.div_ceil(2)
        } else {
            self.size
        };
        let of = |user: &Arc<str>| {
            let known = self.users.get(user);
            known.map_or((0, 0), |known| (known.held, known.served))
        };
        let candidates = self.waiting.iter().map(|(ticket, user)| {
            let (held, served) = of(user);
            (held, served, *ticket)
        });
        let (_, _, ticket) = candidates.filter(|(held, ..)| *held < most).min()?;
        let user = self.waiting.remove(&ticket)?;
        self.turns += 1;
        let known = self.users.entry(Arc::clone(&user)).or_default();
        known.held += 1;
        known.served = self.turns;
        self.held.insert(ticket, user);
        Some(ticket)
    }

    fn end(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        let Some(user) = self.held.remove(&ticket) else {
            return;
        };
        if let Some(known) = self.users.get_mut(&user) {
            known.held = known.held.saturating_sub(1);
        }
        self.forget(&user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is let in, in order, after requests of these users and whenever one of them ends.
    fn order(size: usize, users: &[&str], requests: &[&str]) -> Vec<String> {
        let mut queue = Queue::new(size);
        for user in users {
            queue.join(&Arc::from(*user));
        }
        let mut by_ticket = BTreeMap::new();
        for user in requests {
            by_ticket.insert(queue.ask(&Arc::from(*user)), *user);
        }
        let mut order = Vec::new();
        let mut inside: Vec<Ticket> = Vec::new();
        loop {
            while let Some(ticket) = queue.admit() {
                order.push(by_ticket[&ticket].to_owned());
                inside.push(ticket);
            }
            assert!(inside.len() <= size);
            if inside.is_empty() {
                return order;
            }
            queue.end(inside.remove(0));
        }
    }

    #[test]
    fn f1_places_go_round_between_namespaces() {
        for (size, users, requests, expected) in [
            (1, &["a"][..], &["a", "a", "a"][..], "a a a"),
            (1, &["a", "b"], &["a", "a", "a", "b"], "a b a a"),
            (2, &["a", "b"], &["a", "a", "a", "b"], "a b a a"),
            (4, &["a"], &["a", "a", "a", "a", "a"], "a a a a a"),
            (1, &["a", "b", "c"], &["a", "a", "b", "b", "c"], "a b c a b"),
            // Whoever never joined is served all the same.
            (1, &[], &["x", "x", "y"], "x x y"),
        ] {
            assert_eq!(order(size, users, requests).join(" "), expected);
        }
    }

    #[test]
    fn f1_one_namespace_never_has_more_than_half_of_what_several_share() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut queue = Queue::new(4);
        queue.join(&a);
        for _ in 0..6 {
            queue.ask(&a);
        }
        let alone: Vec<Ticket> = std::iter::from_fn(|| queue.admit()).collect();
        assert_eq!(alone.len(), 4, "alone it may have all");
        queue.join(&b);
        let hers = queue.ask(&b);
        queue.end(alone[0]);
        assert_eq!(queue.admit(), Some(hers));
        queue.end(alone[1]);
        assert_eq!(queue.admit(), None, "a has two of four");
        queue.end(hers);
        queue.leave(&b);
        assert!(queue.admit().is_some(), "alone again");
    }

    #[test]
    fn nothing_is_remembered_of_who_is_gone() {
        let mut queue = Queue::new(2);
        for at in 0..100 {
            let user: Arc<str> = at.to_string().into();
            queue.join(&user);
            let ticket = queue.ask(&user);
            assert_eq!(queue.admit(), Some(ticket));
            queue.leave(&user);
            queue.end(ticket);
        }
        assert!(queue.users.is_empty() && queue.held.is_empty() && queue.waiting.is_empty());
    }
}
