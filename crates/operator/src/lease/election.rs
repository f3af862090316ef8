//! Who leads, decided from what is known and what time it is. Nothing here does I/O.
//!
//! The rules, and why no two replicas lead at once:
//!
//! - A holder counts from the moment it *sent* the write that the API server accepted, and stops
//!   leading when the renew deadline has passed since then.
//! - A candidate counts from the moment it *saw* a record, which is later, and takes over when the
//!   record has not changed for the whole lease duration, which is longer.
//! - Every write names the version it replaces, so of two replicas that decide at the same time
//!   one is refused.
//!
//! Clocks are never compared: the times in a record are for people. Only the speed of clocks
//! matters, and it may differ by the ratio of lease duration to renew deadline.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{record::Record, timings::Timings};

/// A time on this process's own steady clock, from an arbitrary start.
pub(super) type Moment = Duration;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing before this moment.
    Wait(Moment),
    /// Read the lease.
    Read,
    /// Create the lease.
    Create(Record),
    /// Replace the version of the lease that was seen last.
    Replace(Record),
}

/// The state of one replica.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    timings: Timings,
    known: Known,
    /// The record that was seen last, and since when it has been the same.
    seen: Option<(Record, Moment)>,
    reign: Option<Reign>,
    /// A write of ours may have been accepted without our knowing.
    unsure: bool,
    /// Refusals since the last success.
    refusals: u32,
    /// When the next request is due.
    due: Moment,
}

/// What can be acted upon without reading first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Read first.
    Outdated,
    /// There is no lease.
    Absent,
    /// The record seen last is the current one.
    Current,
}

/// A time of leading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reign {
    /// When it began.
    pub(super) since: Moment,
    /// When it ends unless it is renewed.
    pub(super) until: Moment,
}

impl Election {
    pub(super) fn new(identity: String, timings: Timings) -> Self {
        Election {
            identity,
            timings,
            known: Known::Outdated,
            seen: None,
            reign: None,
            unsure: false,
            refusals: 0,
            due: Moment::ZERO,
        }
    }

    /// The reign, if there is one at this moment.
    pub(super) fn reign(&self, now: Moment) -> Option<Reign> {
        self.reign.filter(|reign| now < reign.until)
    }

    /// Whether others should be told that the lease is free when this replica stops.
    pub(super) fn may_hold(&self, now: Moment) -> bool {
        self.unsure || self.reign(now).is_some()
    }

    /// Whether a record is ours.
    pub(super) fn is_ours(&self, record: &Record) -> bool {
        record.holder == self.identity
    }

    /// What to do next. The wall clock is only written into records.
    pub(super) fn next(&mut self, now: Moment, wall: Timestamp) -> Step {
        if self.reign.is_some() && self.reign(now).is_none() {
            self.reign = None;
            self.known = Known::Outdated;
        }
        if now < self.due {
            let end = self.reign.map_or(self.due, |reign| reign.until);
            return Step::Wait(self.due.min(end));
        }
        match (self.known, &self.seen) {
            (Known::Absent, _) => Step::Create(self.claim(None, wall)),
            (Known::Current, Some((record, _))) => Step::Replace(self.claim(Some(record), wall)),
            (Known::Outdated, _) | (Known::Current, None) => Step::Read,
        }
    }

    /// The lease was read, or found missing when it was to be replaced.
    pub(super) fn observed(&mut self, record: Option<Record>, now: Moment) {
        self.unsure = false;
        let Some(record) = record else {
            // A holder that has not noticed the deletion yet still leads.
            let free = self.reign(now).is_some() || !self.held_by_another(now);
            self.act_or_wait(free, Known::Absent, now);
            return;
        };
        if !self.is_ours(&record) {
            self.reign = None;
        }
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != record) {
            self.seen = Some((record, now));
        }
        let free = !self.held_by_another(now);
        self.act_or_wait(free, Known::Current, now);
    }

    fn act_or_wait(&mut self, act: bool, known: Known, now: Moment) {
        if act {
            self.known = known;
            self.due = now;
        } else {
            self.known = Known::Outdated;
            self.due = now + self.timings.retry_period();
        }
    }

    /// A write that was sent at `sent` was accepted and left this record.
    pub(super) fn accepted(&mut self, record: Record, sent: Moment, now: Moment) {
        self.reign = Some(Reign {
            since: self.reign(now).map_or(now, |reign| reign.since),
            until: sent + self.timings.renew_deadline(),
        });
        self.seen = Some((record, now));
        self.known = Known::Current;
        self.unsure = false;
        self.refusals = 0;
        self.due = now.max(sent + self.timings.retry_period());
    }

    /// A write was refused: the lease is not what we took it for.
    pub(super) fn refused(&mut self, now: Moment) {
        self.known = Known::Outdated;
        self.refusals += 1;
        // Somebody may write all the time; looking at once is right only at first.
        self.due = if self.refusals == 1 {
            now
        } else {
            now + self.timings.retry_period()
        };
    }

    /// A request failed or took too long; whether it had an effect is not known.
    pub(super) fn failed(&mut self, was_write: bool, now: Moment) {
        self.unsure |= was_write;
        self.known = Known::Outdated;
        self.due = now + self.timings.retry_period();
    }

    /// The record that hands the lease over at once.
    pub(super) fn release(held: &Record, wall: Timestamp) -> Record {
        Record {
            holder: String::new(),
            duration_seconds: 1,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: held.transitions,
        }
    }

    /// Whether the record seen last still keeps others from leading, us among them.
    fn held_by_another(&self, now: Moment) -> bool {
        self.seen.as_ref().is_some_and(|(record, since)| {
            let seconds = u64::try_from(record.duration_seconds).unwrap_or_default();
            let duration = match seconds {
                0 => self.timings.duration(),
                seconds => Duration::from_secs(seconds),
            };
            !record.holder.is_empty() && !self.is_ours(record) && now < *since + duration
        })
    }

    /// The record with which we take or keep the lease.
    fn claim(&self, held: Option<&Record>, wall: Timestamp) -> Record {
        let ours = held.filter(|record| self.is_ours(record));
        Record {
            holder: self.identity.clone(),
            duration_seconds: self.timings.whole_seconds(),
            acquired: ours.and_then(|record| record.acquired).or(Some(wall)),
            renewed: Some(wall),
            transitions: match (ours, held) {
                (Some(record), _) => record.transitions,
                (None, Some(record)) => record.transitions.saturating_add(1),
                (None, None) => 0,
            },
        }
    }
}
