//! Who has a place at a listener, and who loses it when there is none left.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::task::{AbortHandle, Id};

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    next: u64,
    taken: HashMap<Id, Place>,
}

#[derive(Debug)]
struct Place {
    caller: Caller,
    busy: Arc<AtomicBool>,
    task: AbortHandle,
}

/// What is known of a connection when somebody has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caller {
    from: IpAddr,
    /// Its number; older ones have lower ones.
    number: u64,
    /// A request of it is being answered.
    busy: bool,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            next: 0,
            taken: HashMap::new(),
        }
    }

    /// A connection begins. If there was no place left, another one ends.
    pub(super) fn take(&mut self, id: Id, from: IpAddr, busy: Arc<AtomicBool>, task: AbortHandle) {
        if self.taken.len() >= self.most {
            let callers: Vec<Caller> = self.taken.values().map(Place::now).collect();
            let victim = victim(&callers).map(|caller| caller.number);
            let leaves = |place: &Place| Some(place.caller.number) == victim;
            for place in self.taken.values().filter(|place| leaves(place)) {
                place.task.abort();
            }
            self.taken.retain(|_, place| !leaves(place));
        }
        self.next += 1;
        let caller = Caller {
            from,
            number: self.next,
            busy: false,
        };
        self.taken.insert(id, Place { caller, busy, task });
    }

    /// A connection has ended.
    pub(super) fn leave(&mut self, id: Id) {
        self.taken.remove(&id);
    }
}

impl Place {
    fn now(&self) -> Caller {
        Caller {
            busy: self.busy.load(Ordering::Relaxed),
            ..self.caller
        }
    }
}

/// Who has to go: of those who wait, whoever holds the most places loses the oldest one. Only if
/// everybody is being answered, somebody is interrupted.
fn victim(callers: &[Caller]) -> Option<Caller> {
    let idle = callers.iter().filter(|caller| !caller.busy).copied();
    let idle: Vec<Caller> = idle.collect();
    let callers = if idle.is_empty() { callers } else { &idle };
    let mut held: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for caller in callers {
        *held.entry(caller.from).or_default() += 1;
    }
    let most = held.values().copied().max()?;
    let greedy = callers.iter().filter(|caller| held[&caller.from] == most);
    greedy.min_by_key(|caller| caller.number).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a8_the_one_who_goes_is_the_oldest_idle_one_of_the_greediest() {
        // Each caller is the last part of its address; a star means that it is being answered.
        for (callers, goes) in [
            ("", None),
            ("1", Some(0)),
            ("1 2 3", Some(0)),
            ("2 1 1", Some(1)),
            ("2 1* 1 1", Some(2)),
            ("1* 1* 2", Some(2)),
            ("1* 1* 2*", Some(0)),
            ("2* 1* 1*", Some(1)),
        ] {
            let all: Vec<Caller> = callers
                .split_whitespace()
                .zip(0..)
                .map(|(text, number)| {
                    let host: u8 = text.trim_end_matches('*').parse().expect("a number");
                    Caller {
                        from: IpAddr::from([10, 0, 0, host]),
                        number,
                        busy: text.ends_with('*'),
                    }
                })
                .collect();
            let victim = victim(&all).map(|caller| caller.number);
            assert_eq!(victim, goes, "{callers:?}");
        }
    }
}
