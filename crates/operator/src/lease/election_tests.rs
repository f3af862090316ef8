//! The election, told as short stories of one replica.
//!
//! `me` is the replica, times are seconds of its own clock; lease duration 60 s, renew deadline
//! 40 s, retry period 5 s.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{
    LeaseError,
    election::{Election, Step},
    record::Record,
    timings::Timings,
};

/// What happens, or what must be the case.
#[derive(Debug, Clone, Copy)]
enum Line {
    /// The next step is to read.
    Reads,
    /// The next step is to create the lease.
    Creates,
    /// The next step is to replace the lease with this many transitions.
    Replaces(i32),
    /// Nothing is to be done before that second.
    WaitsUntil(u64),
    Leads,
    Follows,
    /// The read shows this holder, with this renewal.
    Sees(&'static str, i64),
    SeesNothing,
    /// The write is accepted; it was sent at that second.
    Accepted(u64),
    Refused,
    ReadFails,
    WriteFails,
}
use Line::*;

const STORIES: &[(&str, &[(u64, Line)])] = &[
    (
        "an absent lease is created and renewed every retry period",
        &[
            (0, Follows),
            (0, Reads),
            (0, SeesNothing),
            (0, Creates),
            (1, Accepted(0)),
            (1, Leads),
            (1, WaitsUntil(5)),
            (5, Replaces(0)),
            (6, Accepted(5)),
            (6, WaitsUntil(10)),
            (10, Replaces(0)),
        ],
    ),
    (
        "a free lease is taken at once",
        &[
            (0, Sees("", 1)),
            (0, Replaces(8)),
            (0, Accepted(0)),
            (0, Leads),
        ],
    ),
    (
        "a held lease is watched and taken when it has not changed for its duration",
        &[
            (0, Sees("other", 1)),
            (0, WaitsUntil(5)),
            (5, Reads),
            (5, Sees("other", 1)),
            (59, Sees("other", 1)),
            (59, WaitsUntil(64)),
            (64, Reads),
            (64, Sees("other", 1)),
            (64, Replaces(8)),
            (65, Accepted(64)),
            (65, Leads),
        ],
    ),
    (
        "every renewal of the holder starts the wait anew",
        &[
            (0, Sees("other", 1)),
            (50, Sees("other", 2)),
            (100, Sees("other", 2)),
            (100, WaitsUntil(105)),
            (109, Sees("other", 2)),
            (109, WaitsUntil(114)),
            (110, Sees("other", 2)),
            (110, Replaces(8)),
        ],
    ),
    (
        "a leader goes on through an outage that is shorter than the renew deadline",
        &[
            (0, Sees("", 1)),
            (0, Accepted(0)),
            (5, Replaces(8)),
            (6, WriteFails),
            (6, Leads),
            (11, Reads),
            (12, ReadFails),
            (38, Reads),
            (39, Sees("me", 2)),
            (39, Leads),
            (39, Replaces(7)),
            (39, Accepted(39)),
            (78, Leads),
        ],
    ),
    (
        "without contact a leader stops at the renew deadline, counted from the sending",
        &[
            (0, Sees("", 1)),
            (3, Accepted(0)),
            (36, ReadFails),
            (39, Leads),
            (39, WaitsUntil(40)),
            (40, Follows),
            (41, Reads),
        ],
    ),
    (
        "a leader that stopped takes up its own lease again if it is still there",
        &[
            (0, Sees("", 1)),
            (0, Accepted(0)),
            (41, Follows),
            (41, Reads),
            (42, Sees("me", 2)),
            (42, Follows),
            (42, Replaces(7)),
            (42, Accepted(42)),
            (42, Leads),
        ],
    ),
    (
        "an acceptance that comes after the deadline is worth nothing",
        &[
            (0, Sees("", 1)),
            (41, Accepted(0)),
            (41, Follows),
            (41, Reads),
        ],
    ),
    (
        "a leader that is refused looks at once, and yields to another holder",
        &[
            (0, Sees("", 1)),
            (0, Accepted(0)),
            (5, Refused),
            (5, Leads),
            (5, Reads),
            (5, Sees("other", 3)),
            (5, Follows),
            (5, WaitsUntil(10)),
        ],
    ),
    (
        "a leader that is refused because somebody added a label goes on, but does not race",
        &[
            (0, Sees("", 1)),
            (0, Accepted(0)),
            (5, Refused),
            (5, Sees("me", 2)),
            (5, Leads),
            (5, Replaces(7)),
            (5, Refused),
            (5, Leads),
            (5, WaitsUntil(10)),
            (10, Reads),
        ],
    ),
    (
        "somebody cleared the holder: the leader stops and asks like everybody else",
        &[
            (0, Sees("", 1)),
            (0, Accepted(0)),
            (5, Refused),
            (5, Sees("", 2)),
            (5, Follows),
            (5, Replaces(8)),
        ],
    ),
    (
        "the leader's lease was deleted: it makes a new one",
        &[
            (0, Sees("", 1)),
            (0, Accepted(0)),
            (5, SeesNothing),
            (5, Leads),
            (5, Creates),
        ],
    ),
    (
        "a candidate waits although the lease was deleted: its holder may not know yet",
        &[
            (0, Sees("other", 1)),
            (10, SeesNothing),
            (10, WaitsUntil(15)),
            (15, Reads),
            (60, SeesNothing),
            (60, Creates),
        ],
    ),
    (
        "a candidate that lost the race looks again",
        &[
            (0, Sees("", 1)),
            (0, Replaces(8)),
            (0, Refused),
            (0, Reads),
            (0, Sees("other", 2)),
            (0, WaitsUntil(5)),
        ],
    ),
    (
        "a server that cannot be reached is asked every retry period",
        &[(0, Reads), (1, ReadFails), (1, WaitsUntil(6)), (6, Reads)],
    ),
];

fn timings() -> Timings {
    let seconds = Duration::from_secs;
    Timings::new(seconds(60), seconds(40), seconds(5)).unwrap()
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn record(holder: &str, renewal: i64) -> Record {
    Record {
        holder: holder.to_owned(),
        duration_seconds: 60,
        acquired: Some(wall(0)),
        renewed: Some(wall(renewal)),
        transitions: 7,
    }
}

#[test]
fn stories() {
    for (title, lines) in STORIES {
        let mut election = Election::new("me".to_owned(), timings());
        for (at, line) in *lines {
            let now = Duration::from_secs(*at);
            let context = format!("{title}, at {at}: {line:?}");
            let next = |election: &mut Election| election.next(now, wall(0));
            match *line {
                Reads => assert_eq!(next(&mut election), Step::Read, "{context}"),
                Creates => {
                    let step = next(&mut election);
                    let Step::Create(claim) = step else {
                        panic!("{context}: {step:?}");
                    };
                    assert_eq!(claim.holder, "me", "{context}");
                    assert_eq!(claim.duration_seconds, 60, "{context}");
                    assert_eq!(claim.transitions, 0, "{context}");
                }
                Replaces(transitions) => {
                    let step = next(&mut election);
                    let Step::Replace(claim) = step else {
                        panic!("{context}: {step:?}");
                    };
                    assert_eq!(claim.holder, "me", "{context}");
                    assert_eq!(claim.transitions, transitions, "{context}");
                }
                WaitsUntil(second) => {
                    let until = Duration::from_secs(second);
                    assert_eq!(next(&mut election), Step::Wait(until), "{context}");
                }
                Leads => assert!(election.reign(now).is_some(), "{context}"),
                Follows => assert!(election.reign(now).is_none(), "{context}"),
                Sees(holder, renewal) => election.observed(Some(record(holder, renewal)), now),
                SeesNothing => election.observed(None, now),
                Accepted(sent) => {
                    let sent = Duration::from_secs(sent);
                    let step = election.next(sent, wall(0));
                    let (Step::Create(claim) | Step::Replace(claim)) = step else {
                        panic!("{context}: nothing was written: {step:?}");
                    };
                    election.accepted(claim, sent, now);
                }
                Refused => election.refused(now),
                ReadFails => election.failed(false, now),
                WriteFails => election.failed(true, now),
            }
        }
    }
}

#[test]
fn keeping_a_lease_keeps_when_it_was_acquired() {
    let mut election = Election::new("me".to_owned(), timings());
    election.observed(Some(record("me", 1)), Duration::ZERO);
    let Step::Replace(claim) = election.next(Duration::ZERO, wall(99)) else {
        panic!("our own lease is renewed");
    };
    assert_eq!(
        (claim.acquired, claim.renewed),
        (Some(wall(0)), Some(wall(99)))
    );

    let mut election = Election::new("me".to_owned(), timings());
    election.observed(Some(record("", 1)), Duration::ZERO);
    let Step::Replace(claim) = election.next(Duration::ZERO, wall(99)) else {
        panic!("a free lease is taken");
    };
    assert_eq!(
        (claim.acquired, claim.renewed),
        (Some(wall(99)), Some(wall(99)))
    );
}

#[test]
fn a_lease_is_handed_over_only_if_it_may_be_ours() {
    let at = Duration::from_secs;
    let mut election = Election::new("me".to_owned(), timings());
    assert!(!election.may_hold(at(0)), "nothing was written yet");
    election.observed(Some(record("", 1)), at(0));
    election.failed(true, at(1));
    assert!(election.may_hold(at(1)), "the write may have arrived");
    election.observed(Some(record("other", 1)), at(2));
    assert!(!election.may_hold(at(2)), "it did not");

    let free = Election::release(&record("me", 1), wall(9));
    assert_eq!((free.holder.as_str(), free.duration_seconds), ("", 1));
    assert_eq!(free.transitions, 7);
}

#[test]
fn every_process_is_somebody_else() {
    let (one, other) = (super::identity("kollect-0"), super::identity("kollect-0"));
    assert_ne!(one, other);
    assert!(one.starts_with("kollect-0_"));
}

#[test]
fn timings_have_to_fit_together() {
    let millis = Duration::from_millis;
    for (duration, renew, retry, fits) in [
        (60_000, 40_000, 5_000, true),
        (15_000, 10_000, 2_000, true),
        (60_000, 40_000, 0, false),
        (60_000, 6_000, 5_000, false),
        (60_000, 6_001, 5_000, true),
        (60_000, 5_000, 5_000, false),
        (40_000, 40_000, 5_000, false),
        (40_001, 40_000, 5_000, true),
        (30_000, 40_000, 5_000, false),
    ] {
        let timings = Timings::new(millis(duration), millis(renew), millis(retry));
        assert_eq!(timings.is_ok(), fits, "{duration} {renew} {retry}");
    }
    let error = Timings::new(millis(30_000), millis(40_000), millis(5_000)).unwrap_err();
    assert!(matches!(error, LeaseError::DurationTooShort { .. }));
    assert_eq!(
        error.to_string(),
        "--leader-elect-lease-duration (30s) must be longer than --leader-elect-renew-deadline (40s)"
    );
    // Others must never wait less than we meant.
    let odd = Timings::new(millis(1_500), millis(1_000), millis(100)).unwrap();
    assert_eq!(odd.whole_seconds(), 2);
}

#[test]
fn c1_a_candidate_without_the_right_asks_less_and_less_often() {
    let seconds = Duration::from_secs;
    let timings = Timings::new(seconds(15), seconds(10), seconds(2)).expect("they fit");
    let pauses: Vec<u64> = (1..=7).map(|n| timings.pause(n).as_secs()).collect();
    assert_eq!(pauses, [2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(timings.pause(u32::MAX), seconds(30));
}
