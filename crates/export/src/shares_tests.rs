//! Tables and random histories of the fair queue.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const FOUR: Limits = Limits {
    quick: 4,
    slow_after: Duration::from_secs(2),
    per_namespace: 4,
    doubtful: 2,
    ceiling: 12,
};

fn at(second: u64) -> Moment {
    Moment::from_secs(second)
}

fn claim(namespace: &str, backend: SinkType) -> Claim {
    Claim {
        namespace: namespace.into(),
        backend,
        doubtful: false,
    }
}

/// `a` wants Git, `A` wants Postgres, `?a` wants Git at a sink that did not answer.
fn read(text: &str) -> Claim {
    let (text, doubtful) = match text.strip_prefix('?') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let backend = if text.chars().all(char::is_uppercase) {
        SinkType::Postgres
    } else {
        SinkType::Git
    };
    Claim {
        doubtful,
        ..claim(&text.to_lowercase(), backend)
    }
}

/// Runs a story: a claim asks, `-n` is the end of the n-th claim, `+n` lets n seconds pass. Returns
/// who began, in order.
fn story(limits: Limits, text: &str) -> String {
    let mut shares = Shares::new(limits);
    let (mut now, mut begun) = (0, Vec::new());
    for word in text.split_whitespace() {
        if let Some(ticket) = word.strip_prefix('-') {
            shares.leave(ticket.parse().expect("a ticket"));
        } else if let Some(seconds) = word.strip_prefix('+') {
            now += seconds.parse::<u64>().expect("seconds");
        } else {
            shares.ask(read(word));
        }
        begun.extend(shares.admit(at(now)).iter().map(Ticket::to_string));
    }
    begun.join(" ")
}

#[test]
fn a7_who_is_next() {
    let cases = [
        (
            "places that nobody else wants are used",
            "a a a a",
            "1 2 3 4",
        ),
        ("and no more than there are", "a a a a a", "1 2 3 4"),
        (
            "whoever holds two more gives way at once",
            "a a a a b",
            "1 2 3 4 5",
        ),
        ("until both have the same", "a a a a b b b", "1 2 3 4 5 6"),
        ("what ends makes room", "a a b b c -1", "1 2 3 4 5"),
        (
            "the namespace with the fewest calls is next, whoever came first",
            "a b c d a e -2",
            "1 2 3 4 6",
        ),
        (
            "then the one that was served longest ago",
            "a b c d b a -1 -2",
            "1 2 3 4 6 5",
        ),
        (
            "a slow call takes no place from anybody",
            "a b c d e +2",
            "1 2 3 4 5",
        ),
        (
            "a backend that holds all places gives way",
            "a b c d E",
            "1 2 3 4 5",
        ),
        (
            "but not for somebody who has as much",
            "a a b b A",
            "1 2 3 4",
        ),
        (
            "a namespace has a limit of its own",
            "a a a a +2 a a",
            "1 2 3 4",
        ),
        ("which costs others nothing", "a a a a +2 a b", "1 2 3 4 6"),
        (
            "doubtful calls take no place",
            "?a ?b ?c ?d ?e f",
            "1 2 3 4 5 6",
        ),
        ("and a namespace has only some", "?a ?a ?a a a", "1 2 4 5"),
        (
            "whoever waits no longer is not served",
            "a b c d e f -5 -1",
            "1 2 3 4 6",
        ),
        (
            "the ceiling",
            "a a a a +2 b b b b +2 c c c c +2 d d e",
            "1 2 3 4 5 6 7 8 9 10 11 12 13 15",
        ),
    ];
    for (what, text, begun) in cases {
        assert_eq!(story(FOUR, text), begun, "{what}: {text}");
    }
}

#[test]
fn a7_coming_and_going_is_no_way_to_the_front() {
    let one = Limits { quick: 1, ..FOUR };
    // `b` waits while `a` comes back again and again.
    assert_eq!(story(one, "b -1 a b a -2 a -3 a -4"), "1 2 3 4 5");
}

#[derive(Debug, Clone)]
enum Happening {
    Ask(u8, u8, bool),
    /// The oldest call under way ends, counted from the one that began first.
    End(u8),
    GiveUp(u8),
    Pass(u16),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..6_u8, 0..3_u8, prop::bool::weighted(0.2))
            .prop_map(|(n, b, d)| Happening::Ask(n, b, d)),
        3 => any::<u8>().prop_map(Happening::End),
        1 => any::<u8>().prop_map(Happening::GiveUp),
        2 => (0..1_500_u16).prop_map(Happening::Pass),
    ]
}

const BACKENDS: [SinkType; 3] = [SinkType::Git, SinkType::Postgres, SinkType::S3];

/// The laws that hold after every step.
fn check(shares: &Shares, limits: Limits) -> Result<(), TestCaseError> {
    prop_assert!(shares.quick <= limits.quick);
    let quick = shares
        .running
        .values()
        .filter(|call| call.quick_since.is_some());
    prop_assert_eq!(quick.count(), shares.quick);
    prop_assert_eq!(shares.backends.values().sum::<usize>(), shares.quick);
    prop_assert!(shares.under_way() <= limits.ceiling + shares.namespaces.len());
    for held in shares.namespaces.values() {
        prop_assert!(held.all <= limits.per_namespace);
        prop_assert!(held.doubtful <= limits.doubtful);
        prop_assert!(held.all + held.waiting > 0, "namespaces are forgotten");
    }
    for claim in shares.waiting.keys().filter(|claim| shares.has_room(claim)) {
        prop_assert!(!claim.doubtful, "a doubtful call waits without a reason");
        prop_assert_eq!(
            shares.quick,
            limits.quick,
            "a place is free and somebody waits"
        );
        let own = shares.namespaces[&claim.namespace].quick;
        for (name, held) in &shares.namespaces {
            prop_assert!(
                held.quick <= own + 1,
                "{} holds {} while {} waits with {}",
                name,
                held.quick,
                claim.namespace,
                own
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn a7_every_history_is_fair(
        history in prop::collection::vec(happening(), 0..120),
        quick in 1..6_usize,
    ) {
        let limits = Limits { quick, per_namespace: quick + 2, ..FOUR };
        let mut shares = Shares::new(limits);
        let mut now = Moment::ZERO;
        let (mut waiting, mut running) = (BTreeSet::new(), Vec::new());
        for happening in history {
            match happening {
                Happening::Ask(namespace, backend, doubtful) => {
                    let backend = BACKENDS[usize::from(backend)];
                    let name = format!("n{namespace}");
                    waiting.insert(shares.ask(Claim { doubtful, ..claim(&name, backend) }));
                }
                Happening::End(which) if !running.is_empty() => {
                    shares.leave(running.remove(usize::from(which) % running.len()));
                }
                Happening::GiveUp(which) if !waiting.is_empty() => {
                    let nth = usize::from(which) % waiting.len();
                    let ticket = *waiting.iter().nth(nth).expect("within");
                    waiting.remove(&ticket);
                    shares.leave(ticket);
                }
                Happening::End(_) | Happening::GiveUp(_) => {}
                Happening::Pass(millis) => now += Duration::from_millis(u64::from(millis)),
            }
            for ticket in shares.admit(now) {
                prop_assert!(waiting.remove(&ticket), "began twice, or without asking");
                running.push(ticket);
            }
            prop_assert_eq!(shares.waiting(), waiting.len());
            check(&shares, limits)?;
        }
        // Nobody starves: with every call ended in turn, everybody gets theirs.
        let mut turns = 0;
        while !waiting.is_empty() {
            turns += 1;
            prop_assert!(turns < 500, "{waiting:?} wait for ever");
            if !running.is_empty() {
                shares.leave(running.remove(0));
            }
            for ticket in shares.admit(now) {
                waiting.remove(&ticket);
                running.push(ticket);
            }
        }
    }

    /// Others that ask again as soon as they are served do not delay anybody: whoever waits is
    /// served before any namespace has had more than a few turns.
    #[test]
    fn a7_waiting_is_bounded_whatever_others_do(
        quick in 1..5_usize,
        others in 1..8_usize,
        long in prop::collection::vec(0..4_u64, 8),
    ) {
        let limits = Limits { quick, per_namespace: 8, ..FOUR };
        let mut shares = Shares::new(limits);
        let names: Vec<String> = (0..others).map(|n| format!("n{n}")).collect();
        for name in names.iter().chain(&names) {
            shares.ask(claim(name, SinkType::Git));
        }
        // The one who waits has a call that never ends, which must not count against it for ever.
        let hung = shares.ask(claim("z", SinkType::Git));
        let mut ours = None;
        let mut ends: BTreeMap<Ticket, (u64, usize)> = BTreeMap::new();
        let mut owner: BTreeMap<Ticket, usize> = BTreeMap::new();
        for second in 0..200 {
            let over = ends.iter().filter(|(_, (end, _))| *end <= second);
            let over: Vec<_> = over.map(|(ticket, (_, which))| (*ticket, *which)).collect();
            for (ticket, which) in over {
                ends.remove(&ticket);
                shares.leave(ticket);
                let again = shares.ask(claim(&names[which], SinkType::Git));
                owner.insert(again, which);
            }
            for ticket in shares.admit(at(second)) {
                if Some(ticket) == ours {
                    return Ok(());
                }
                if ticket == hung {
                    ours = Some(shares.ask(claim("z", SinkType::Git)));
                    continue;
                }
                let first = usize::try_from(ticket - 1).expect("small") % others;
                let which = owner.get(&ticket).copied().unwrap_or(first);
                ends.insert(ticket, (second + 1 + long[which], which));
            }
        }
        prop_assert!(false, "never served");
    }
}
