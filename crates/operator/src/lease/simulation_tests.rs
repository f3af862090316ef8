//! Replicas, an API server and a bad network in one loop, with time made up.
//!
//! Clocks run at different speeds, messages are lost or late in either direction, the server is
//! away for a while, replicas are killed and come back under another identity. Whatever happens,
//! there is never more than one leader; and when the availability clears, there is one.

use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::jiff::Timestamp;

use super::{
    election::{Election, Moment, Step},
    record::Record,
    timings::Timings,
};

const TICK: Duration = Duration::from_millis(100);

/// The API server: one lease and its version.
#[derive(Default)]
struct Server {
    lease: Option<(Record, u64)>,
    version: u64,
}

impl Server {
    fn serve(&mut self, request: Request) -> Answer {
        match request {
            Request::Read => Answer::Read(self.lease.clone()),
            Request::Write { record, replaces } => {
                let current = self.lease.as_ref().map(|(_, version)| *version);
                if current != replaces {
                    return Answer::Refused;
                }
                self.version += 1;
                self.lease = Some((record.clone(), self.version));
                Answer::Accepted(record, self.version)
            }
        }
    }
}

#[derive(Clone)]
enum Request {
    Read,
    Write {
        record: Record,
        replaces: Option<u64>,
    },
}

enum Answer {
    Read(Option<(Record, u64)>),
    Accepted(Record, u64),
    Refused,
}

/// A request under way. Times are those of the world; none means never.
struct Flight {
    was_write: bool,
    sent: Moment,
    /// Not yet at the server, and when it gets there.
    request: Option<(Request, Option<Duration>)>,
    answer: Option<(Answer, Duration)>,
    /// When the replica gives up, on its own clock.
    limit: Moment,
}

struct Replica {
    election: Election,
    timings: Timings,
    /// How fast its clock runs, and what it showed in the beginning.
    speed: f64,
    offset: Duration,
    version: Option<u64>,
    /// At most one is waited for; those given up may still arrive.
    flight: Option<Flight>,
    given_up: Vec<Flight>,
    /// Cut off from the server until then.
    alone_until: Duration,
    asleep_until: Moment,
}

impl Replica {
    fn new(identity: String, timings: Timings, speed: f64, rng: &mut Rng) -> Self {
        Replica {
            election: Election::new(identity, timings),
            timings,
            speed,
            offset: Duration::from_secs(rng.u64(0..1_000)),
            version: None,
            flight: None,
            given_up: Vec::new(),
            alone_until: Duration::ZERO,
            asleep_until: Moment::ZERO,
        }
    }

    fn local(&self, world: Duration) -> Moment {
        self.offset + world.mul_f64(self.speed)
    }

    fn leads(&self, world: Duration) -> bool {
        self.election.reign(self.local(world)).is_some()
    }

    fn tick(&mut self, world: Duration, server: &mut Server, up: bool, rng: &mut Rng) {
        let now = self.local(world);
        let connected = up && world >= self.alone_until;
        for flight in self.flight.iter_mut().chain(&mut self.given_up) {
            if flight
                .request
                .as_ref()
                .is_some_and(|(_, arrives)| arrives.is_some_and(|at| at <= world))
                && let Some((request, _)) = flight.request.take()
                && connected
            {
                let answer = server.serve(request);
                let back = delay(rng).map(|delay| world + delay);
                flight.answer = back.map(|at| (answer, at));
            }
        }
        self.given_up.retain(|flight| flight.request.is_some());
        if let Some(flight) = &mut self.flight {
            let sent = flight.sent;
            if connected && flight.answer.as_ref().is_some_and(|(_, at)| *at <= world) {
                let (answer, _) = flight.answer.take().expect("an answer is there");
                self.flight = None;
                match answer {
                    Answer::Read(lease) => {
                        self.version = lease.as_ref().map(|(_, version)| *version);
                        self.election.observed(lease.map(|(record, _)| record), now);
                    }
                    Answer::Accepted(record, version) => {
                        self.version = Some(version);
                        self.election.accepted(record, sent, now);
                    }
                    Answer::Refused => self.election.refused(now),
                }
            } else if now >= flight.limit {
                self.election.failed(flight.was_write, now);
                self.given_up.extend(self.flight.take());
            }
            return;
        }
        if now < self.asleep_until {
            return;
        }
        let request = match self.election.next(now, Timestamp::UNIX_EPOCH) {
            Step::Wait(until) => {
                let jitter = self.timings.retry_period().mul_f64(0.2 * rng.f64());
                self.asleep_until = if self.leads(world) {
                    until
                } else {
                    until + jitter
                };
                return;
            }
            Step::Read => Request::Read,
            Step::Create(record) => Request::Write {
                record: stamped(record, world),
                replaces: None,
            },
            Step::Replace(record) => Request::Write {
                record: stamped(record, world),
                replaces: self.version,
            },
        };
        let limit = now + self.timings.request_limit();
        let reign = self.election.reign(now);
        self.flight = Some(Flight {
            was_write: !matches!(request, Request::Read),
            sent: now,
            request: Some((request, delay(rng).map(|delay| world + delay))),
            answer: None,
            limit: reign.map_or(limit, |reign| limit.min(reign.until)),
        });
    }
}

/// Every renewal is another record.
fn stamped(mut record: Record, world: Duration) -> Record {
    let millis = i64::try_from(world.as_millis()).expect("a short life");
    record.renewed = Timestamp::from_millisecond(millis).ok();
    record
}

/// How long a message takes: mostly short, sometimes very long, sometimes for ever.
fn delay(rng: &mut Rng) -> Option<Duration> {
    match rng.u32(0..100) {
        0..3 => None,
        3..8 => Some(Duration::from_secs(rng.u64(1..90))),
        _ => Some(Duration::from_millis(rng.u64(1..300))),
    }
}

/// What a run was like.
struct Outcome {
    most_leaders: usize,
    reigns: usize,
    leaders_at_the_end: usize,
}

/// How a world is run.
#[derive(Clone, Copy)]
struct World {
    timings: Timings,
    /// By how much the speeds of clocks differ from true time, at most.
    skew: f64,
    trouble: Duration,
}

fn simulate(seed: u64, setting: World) -> Outcome {
    let World {
        timings,
        skew,
        trouble,
    } = setting;
    let mut rng = Rng::with_seed(seed);
    let mut server = Server::default();
    let mut up_again = Duration::ZERO;
    let count = rng.usize(2..=3);
    let mut replicas: Vec<Replica> = (0..count)
        .map(|number| {
            let speed = 1.0 - skew + 2.0 * skew * rng.f64();
            Replica::new(format!("replica-{number}"), timings, speed, &mut rng)
        })
        .collect();
    let mut outcome = Outcome {
        most_leaders: 0,
        reigns: 0,
        leaders_at_the_end: 0,
    };
    // After the trouble, long enough for a lease to run out even for the slowest clock, and for
    // messages of the past to arrive.
    let calm = 4 * timings.duration() + Duration::from_secs(90);
    let mut world = Duration::ZERO;
    let mut last = None;
    while world < trouble + calm {
        world += TICK;
        let troubled = world < trouble;
        if troubled && rng.u32(0..3_000) == 0 {
            up_again = world + Duration::from_secs(rng.u64(1..120));
        }
        for (number, replica) in replicas.iter_mut().enumerate() {
            if troubled && rng.u32(0..3_000) == 0 {
                replica.alone_until = world + Duration::from_secs(rng.u64(1..120));
            }
            if troubled && rng.u32(0..6_000) == 0 {
                let given_up = std::mem::take(&mut replica.given_up);
                let flight = replica.flight.take();
                let identity = format!("replica-{number}-born-{}", world.as_millis());
                *replica = Replica::new(identity, timings, replica.speed, &mut rng);
                // What the dead process sent may still arrive.
                replica.given_up = given_up.into_iter().chain(flight).collect();
            }
            let up = !troubled || world >= up_again;
            if !troubled {
                replica.alone_until = Duration::ZERO;
            }
            replica.tick(world, &mut server, up, &mut rng);
        }
        let leaders: Vec<usize> = (0..replicas.len())
            .filter(|&number| replicas[number].leads(world))
            .collect();
        outcome.most_leaders = outcome.most_leaders.max(leaders.len());
        outcome.leaders_at_the_end = leaders.len();
        if let [leader] = leaders[..] {
            outcome.reigns += usize::from(last != Some(leader));
            last = Some(leader);
        }
    }
    outcome
}

fn production() -> Timings {
    let seconds = Duration::from_secs;
    Timings::new(seconds(60), seconds(40), seconds(5)).unwrap()
}

#[test]
fn there_is_never_more_than_one_leader() {
    let setting = World {
        timings: production(),
        // 1.19 / 0.81 is just below 60 / 40.
        skew: 0.19,
        trouble: Duration::from_mins(30),
    };
    let mut reigns = 0;
    for seed in 0..150 {
        let outcome = simulate(seed, setting);
        assert!(outcome.most_leaders <= 1, "two leaders with seed {seed}");
        reigns += outcome.reigns;
    }
    // Otherwise nothing was put to the test.
    assert!(reigns > 300, "the lease changed hands only {reigns} times");
}

#[test]
fn there_is_a_leader_when_the_weather_clears() {
    let setting = World {
        timings: production(),
        skew: 0.01,
        trouble: Duration::from_mins(5),
    };
    // Messages stay unreliable, so at the last tick of some runs the leader may just have lapsed.
    let led = (0..100)
        .filter(|&seed| simulate(seed, setting).leaders_at_the_end == 1)
        .count();
    assert!(led >= 97, "only {led} of 100 runs ended with a leader");
}

/// The simulation finds what it is there to find.
#[test]
fn timings_that_do_not_fit_give_two_leaders() {
    let seconds = Duration::from_secs;
    let deadline_after_expiry = Timings::unchecked(seconds(20), seconds(40), seconds(5));
    let found = |timings, skew| {
        let setting = World {
            timings,
            skew,
            trouble: Duration::from_mins(30),
        };
        (0..20).any(|seed| simulate(seed, setting).most_leaders > 1)
    };
    assert!(
        found(deadline_after_expiry, 0.0),
        "a deadline after the expiry"
    );
    assert!(
        found(production(), 0.6),
        "clocks that differ more than the margin"
    );
}
