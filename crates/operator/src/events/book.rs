//! When which event is sent. Pure: events and moments go in, what is to be sent comes out.
//!
//! Events about the same object for the same reason are one event that counts, as the API server's
//! own clients do it: it is created once, and then brought up to date at most once a minute. All
//! events together are sent no faster than a bound, whatever happens in the cluster; what is held
//! back is counted meanwhile and told later.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Event;
use tokio::time::Instant;

/// An event is written at most this often.
pub const PAUSE: Duration = Duration::from_mins(1);
/// As many may be sent at once,
pub const BURST: u32 = 50;
/// and then one each time this has passed.
pub const REFILL: Duration = Duration::from_millis(200);
/// How many events are remembered.
const MOST: usize = 4_096;
/// How long an event is remembered that does not repeat: the API server forgets it then, too.
const MEMORY: Duration = Duration::from_hours(1);

/// Which events are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    object: String,
    reason: String,
    type_: String,
}

impl EventKey {
    fn of(event: &Event) -> Self {
        let object = &event.involved_object;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        Self {
            // One that has no uid is told apart by its name.
            object: [&object.uid, &object.kind, &object.namespace, &object.name]
                .map(part)
                .join("/"),
            reason: part(&event.reason),
            type_: part(&event.type_),
        }
    }
}

/// An event that is to be sent now.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Which event.
    pub key: EventKey,
    /// What is to be there afterwards.
    pub event: Event,
    /// It has been created before, so that only its count, time and message change.
    pub repeated: bool,
}

/// What is known of one event.
#[derive(Debug)]
struct Entry {
    /// As it was told last.
    event: Event,
    count: i32,
    created: bool,
    /// Something was told that has not been sent.
    unsent: bool,
    /// When it was last tried to be sent.
    tried: Option<Instant>,
    told: Instant,
}

/// All events of a process.
#[derive(Debug, Default)]
pub struct EventBook {
    entries: BTreeMap<EventKey, Entry>,
    /// How many may be sent, as of the moment.
    budget: Option<(u32, Instant)>,
}

impl EventBook {
    /// Takes note of an event.
    pub fn note(&mut self, mut event: Event, now: Instant) {
        let key = EventKey::of(&event);
        if let Some(known) = self.entries.get_mut(&key) {
            known.count = known.count.saturating_add(1);
            known.unsent = true;
            known.told = now;
            event.metadata.name.clone_from(&known.event.metadata.name);
            event
                .first_timestamp
                .clone_from(&known.event.first_timestamp);
            event.event_time.clone_from(&known.event.event_time);
            known.event = event;
            return;
        }
        self.forget(now);
        if self.entries.len() >= MOST {
            tracing::debug!(reason = key.reason, "too many events; this one is not told");
            return;
        }
        let object = event.involved_object.name.as_deref().unwrap_or("object");
        // As other clients call theirs; a name must not be longer than 253 characters.
        let object = &object[..object.floor_char_boundary(200)];
        event.metadata.name = Some(format!("{object}.{:016x}", fastrand::u64(..)));
        let entry = Entry {
            event,
            count: 1,
            created: false,
            unsent: true,
            tried: None,
            told: now,
        };
        self.entries.insert(key, entry);
    }

    /// The events to send now.
    pub fn take_due(&mut self, now: Instant) -> Vec<Outgoing> {
        let mut left = self.budget(now);
        let mut due = Vec::new();
        // Those that nobody has heard of yet come first, then those that waited longest.
        let mut waiting: Vec<_> = self
            .entries
            .iter_mut()
            .filter(|(_, entry)| entry.due(now).is_some_and(|at| at <= now))
            .collect();
        waiting.sort_by_key(|(_, entry)| entry.tried);
        for (key, entry) in waiting.into_iter().take(left as usize) {
            left -= 1;
            entry.tried = Some(now);
            entry.unsent = false;
            let mut event = entry.event.clone();
            event.count = Some(entry.count);
            due.push(Outgoing {
                key: key.clone(),
                event,
                repeated: entry.created,
            });
        }
        if let Some(budget) = &mut self.budget {
            budget.0 = left;
        }
        due
    }

    /// An event has been sent, or could not be.
    pub fn sent(&mut self, key: &EventKey, success: bool) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.created |= success;
            entry.unsent |= !success;
        }
    }

    /// When there is something to send, if not now.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let first = self.entries.values().filter_map(|entry| entry.due(now));
        let first = first.min()?;
        match self.budget {
            Some((0, since)) => Some(first.max(since + REFILL)),
            _ => Some(first),
        }
    }

    /// How many may be sent now.
    fn budget(&mut self, now: Instant) -> u32 {
        let (left, since) = self.budget.unwrap_or((BURST, now));
        let passed = now.saturating_duration_since(since);
        let grown = u32::try_from(passed.as_millis() / REFILL.as_millis()).unwrap_or(BURST);
        let full = left.saturating_add(grown).min(BURST);
        // The rest of a step counts for the next one.
        let since = if full == BURST {
            now
        } else {
            since + REFILL * grown
        };
        self.budget = Some((full, since));
        full
    }

    /// Makes room: what has been told and does not repeat is forgotten after a while.
    fn forget(&mut self, now: Instant) {
        if self.entries.len() >= MOST / 2 {
            self.entries.retain(|_, entry| {
                entry.unsent || now.saturating_duration_since(entry.told) < MEMORY
            });
        }
    }
}

impl Entry {
    fn due(&self, now: Instant) -> Option<Instant> {
        self.unsent
            .then(|| self.tried.map_or(now, |tried| (tried + PAUSE).max(now)))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn event(object: &str, reason: &str, message: &str) -> Event {
        Event {
            involved_object: ObjectReference {
                uid: Some(object.to_owned()),
                name: Some(object.to_owned()),
                ..ObjectReference::default()
            },
            reason: Some(reason.to_owned()),
            type_: Some("Warning".to_owned()),
            message: Some(message.to_owned()),
            ..Event::default()
        }
    }

    /// `object reason xCount message`, with `+` for what is created.
    fn told(due: &[Outgoing]) -> Vec<String> {
        let text = |outgoing: &Outgoing| {
            let event = &outgoing.event;
            let new = if outgoing.repeated { "" } else { "+" };
            let count = event.count.unwrap_or_default();
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            let (reason, message) = (part(&event.reason), part(&event.message));
            format!(
                "{new}{} {reason} x{count} {message}",
                outgoing.key.object.split('/').next().unwrap_or_default()
            )
        };
        let mut told: Vec<_> = due.iter().map(text).collect();
        told.sort();
        told
    }

    fn send(book: &mut EventBook, now: Instant) -> Vec<String> {
        let due = book.take_due(now);
        for outgoing in &due {
            book.sent(&outgoing.key, true);
        }
        told(&due)
    }

    #[tokio::test(start_paused = true)]
    async fn c5_repetitions_are_one_event_that_counts() {
        let mut book = EventBook::default();
        let start = Instant::now();
        book.note(event("a", "Failed", "one"), start);
        book.note(event("a", "Healed", "fine"), start);
        book.note(event("b", "Failed", "other"), start);
        assert_eq!(
            send(&mut book, start),
            [
                "+a Failed x1 one",
                "+a Healed x1 fine",
                "+b Failed x1 other"
            ]
        );
        let names: Vec<_> = book
            .entries
            .values()
            .map(|e| e.event.metadata.name.clone())
            .collect();
        for second in 1..=90 {
            let now = start + Duration::from_secs(second);
            book.note(event("a", "Failed", &format!("at {second}")), now);
            let sent = send(&mut book, now);
            if second == 60 {
                assert_eq!(
                    sent,
                    ["a Failed x61 at 60"],
                    "once a minute, with all that happened"
                );
            } else {
                assert!(sent.is_empty(), "{second}: {sent:?}");
            }
        }
        let next = start + Duration::from_mins(2);
        assert_eq!(book.next_due(start + Duration::from_secs(90)), Some(next));
        assert_eq!(send(&mut book, next), ["a Failed x91 at 90"]);
        assert_eq!(book.next_due(next), None);
        let after: Vec<_> = book
            .entries
            .values()
            .map(|e| e.event.metadata.name.clone())
            .collect();
        assert_eq!(names, after, "it stays the same event");
    }

    #[tokio::test(start_paused = true)]
    async fn f5_a_burst_is_bounded_and_nothing_of_it_is_lost() {
        let mut book = EventBook::default();
        let start = Instant::now();
        for number in 0..1_000 {
            book.note(event(&format!("o-{number}"), "Failed", ""), start);
        }
        assert_eq!(send(&mut book, start).len(), BURST as usize);
        assert!(send(&mut book, start).is_empty());
        let next = book.next_due(start).expect("more is due");
        assert_eq!(next, start + REFILL);
        let second = start + Duration::from_secs(1);
        assert_eq!(send(&mut book, second).len(), 5);
        let mut sent = BURST as usize + 5;
        let mut now = second;
        while let Some(next) = book.next_due(now) {
            now = next.max(now + REFILL);
            sent += send(&mut book, now).len();
        }
        assert_eq!(sent, 1_000);
        assert!(now - start >= Duration::from_mins(3), "{:?}", now - start);
    }

    #[tokio::test(start_paused = true)]
    async fn c1_an_event_that_cannot_be_sent_is_tried_once_a_minute() {
        let mut book = EventBook::default();
        let mut now = Instant::now();
        let end = now + Duration::from_mins(10);
        book.note(event("a", "Failed", ""), now);
        let mut tried = 0;
        while now < end {
            for outgoing in book.take_due(now) {
                assert!(!outgoing.repeated, "it was never created");
                book.sent(&outgoing.key, false);
                tried += 1;
            }
            now += Duration::from_secs(1);
        }
        assert_eq!(tried, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let mut book = EventBook::default();
        let start = Instant::now();
        for number in 0..2 * MOST {
            book.note(event(&format!("o-{number}"), "Failed", ""), start);
        }
        assert_eq!(book.entries.len(), MOST);
        let mut now = start;
        while book.next_due(now).is_some() {
            now += Duration::from_secs(10);
            send(&mut book, now);
        }
        now += MEMORY;
        book.note(event("late", "Failed", ""), now);
        assert_eq!(book.entries.len(), 1, "what is over makes room");
    }
}
