//! Random histories of one sink, with the laws that must hold in all of them.

use std::{collections::BTreeSet, time::Duration};

use kollect_export::{
    Configuration, ContentVersion, FailureClass, Jitter, Moment, Schedule, Verdict, Wanted,
};
use proptest::{prelude::*, strategy::ValueTree as _};

/// Something that happens at some time.
#[derive(Debug, Clone)]
enum Happening {
    Content(u128),
    Configuration(u128),
    Interval(u64),
    ChangeInterval(u64),
    Barrier(bool),
    /// The process dies and comes back; the status is all that is left.
    Restart,
    /// From now on the backend behaves like this.
    Backend(Backend),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Backend {
    Healthy,
    Failing(FailureClass),
    /// Accepts, but takes this many seconds.
    Slow(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..6_u128).prop_map(Happening::Content),
        1 => (0..3_u128).prop_map(Happening::Configuration),
        1 => prop_oneof![Just(0), Just(1), 2..120_u64].prop_map(Happening::Interval),
        1 => prop_oneof![Just(0), 1..120_u64].prop_map(Happening::ChangeInterval),
        2 => any::<bool>().prop_map(Happening::Barrier),
        1 => Just(Happening::Restart),
        2 => prop_oneof![
            3 => Just(Backend::Healthy),
            1 => Just(Backend::Failing(FailureClass::Transient)),
            1 => Just(Backend::Failing(FailureClass::Terminal)),
            1 => (1..90_u64).prop_map(Backend::Slow),
        ]
        .prop_map(Happening::Backend),
    ]
}

/// What the world remembers of one export that reached the backend.
#[derive(Debug, Clone, Copy)]
struct Call {
    began: Moment,
    content: ContentVersion,
    configuration: Configuration,
    accepted: bool,
}

struct World {
    now: Moment,
    wanted: Wanted,
    schedule: Schedule,
    backend: Backend,
    /// When the export under way ends, and how.
    ends: Option<(Moment, bool)>,
    calls: Vec<Call>,
    /// What the sink holds: content of the last accepted full export or applied delta.
    held: Option<ContentVersion>,
    status: Option<(ContentVersion, Configuration, Moment)>,
    /// When the last export began that brought the sink something new.
    changed: Option<Moment>,
    verdicts_without_progress: u32,
    random: u64,
}

impl World {
    fn new() -> Self {
        Self {
            now: Moment::ZERO,
            wanted: Wanted {
                content: ContentVersion(0),
                configuration: Configuration(0),
                interval: Duration::from_secs(30),
                change_interval: Duration::ZERO,
                open: false,
            },
            schedule: Schedule::default(),
            backend: Backend::Healthy,
            ends: None,
            calls: Vec::new(),
            held: None,
            status: None,
            changed: None,
            verdicts_without_progress: 0,
            random: 7,
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Content(content) => self.wanted.content = ContentVersion(*content),
            Happening::Configuration(configuration) => {
                self.wanted.configuration = Configuration(*configuration);
            }
            Happening::Interval(seconds) => self.wanted.interval = Duration::from_secs(*seconds),
            Happening::ChangeInterval(seconds) => {
                self.wanted.change_interval = Duration::from_secs(*seconds);
            }
            Happening::Barrier(open) => self.wanted.open = *open,
            Happening::Backend(backend) => self.backend = *backend,
            Happening::Restart => {
                // An export under way dies with the process; half of it may have arrived.
                if self.ends.take().is_some() {
                    self.held = None;
                }
                self.schedule = match self.status {
                    Some((content, configuration, at)) if self.held == Some(content) => {
                        Schedule::resume(content, configuration, at)
                    }
                    _ => Schedule::default(),
                };
                // The new process has listed nothing yet.
                self.wanted.open = false;
            }
        }
    }

    /// Lets time pass until `until`, doing what the schedule says whenever it says so.
    fn run(&mut self, until: Moment) {
        loop {
            if let Some((end, accepted)) = self.ends
                && end <= self.now
            {
                self.finish(accepted);
            }
            let wake = match self.schedule.verdict(&self.wanted, self.now) {
                Verdict::Export(attempt) => {
                    self.verdicts_without_progress = 0;
                    assert!(self.wanted.open, "exported before the barrier");
                    assert!(self.ends.is_none(), "two exports at once");
                    if let Some(since) = attempt.since {
                        assert_eq!(Some(since), self.held, "a delta on unknown ground");
                    }
                    self.check_call(attempt.content, attempt.configuration);
                    self.schedule.begin(attempt, self.now);
                    if self.held != Some(attempt.content) {
                        self.changed = Some(self.now);
                    }
                    let (takes, accepted) = match self.backend {
                        Backend::Healthy => (0, true),
                        Backend::Failing(_) => (0, false),
                        Backend::Slow(seconds) => (seconds, true),
                    };
                    self.ends = Some((self.now + Duration::from_secs(takes), accepted));
                    self.calls.push(Call {
                        began: self.now,
                        content: attempt.content,
                        configuration: attempt.configuration,
                        accepted,
                    });
                    continue;
                }
                Verdict::Wait(wake) => wake,
            };
            self.verdicts_without_progress += 1;
            assert!(self.verdicts_without_progress < 1_000, "the schedule spins");
            if let Some(wake) = wake {
                assert!(wake > self.now, "a wake-up that has passed is a spin");
            }
            let next = [wake, self.ends.map(|(end, _)| end)]
                .into_iter()
                .flatten()
                .min();
            match next {
                Some(next) if next <= until => self.now = next.max(self.now),
                _ => break,
            }
        }
        self.now = until;
    }

    fn finish(&mut self, accepted: bool) {
        self.ends = None;
        let call = *self.calls.last().expect("an export was under way");
        if accepted {
            self.schedule.succeeded();
            self.held = Some(call.content);
            self.status = Some((call.content, call.configuration, call.began));
        } else {
            let Backend::Failing(class) = self.backend else {
                // The backend healed while this attempt was failing.
                self.fail(FailureClass::Transient);
                return;
            };
            self.fail(class);
        }
    }

    fn fail(&mut self, class: FailureClass) {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.schedule
            .failed(class, self.now, Jitter::new(self.random >> 33));
        self.held = None;
    }

    /// No identical re-export beyond the interval, changes and retries keep their distance.
    fn check_call(&self, content: ContentVersion, configuration: Configuration) {
        let Some(last) = self.calls.last() else {
            return;
        };
        let apart = self.now.saturating_sub(last.began);
        let same = last.content == content && last.configuration == configuration;
        if last.accepted && same && self.held == Some(content) {
            let least = self.wanted.interval.max(Duration::from_secs(1));
            assert!(
                !self.wanted.interval.is_zero() && apart >= least,
                "identical content again after {apart:?}, interval {:?}",
                self.wanted.interval
            );
        }
        if last.accepted
            && last.configuration == configuration
            && self.held.is_some_and(|held| held != content)
            && let Some(changed) = self.changed
        {
            let apart = self.now.saturating_sub(changed);
            assert!(
                apart >= self.wanted.change_interval,
                "another change after {apart:?}, change interval {:?}",
                self.wanted.change_interval
            );
        }
        if !last.accepted && last.configuration == configuration && self.failures_known() {
            assert!(apart >= Duration::from_secs(4), "retried after {apart:?}");
        }
    }

    /// A restart forgets failures; the schedule cannot be blamed for what it does not know.
    fn failures_known(&self) -> bool {
        self.schedule.failures() > 0
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_history_keeps_the_laws(
        history in prop::collection::vec((0..200_u64, happening()), 0..40)
    ) {
        let mut world = World::new();
        for (pause, happening) in &history {
            let until = world.now + Duration::from_secs(*pause);
            world.run(until);
            world.happen(happening);
        }

        // Left alone with an open barrier and a healthy backend, the sink gets what is wanted.
        // Two hours cover the longest wait after a terminal failure.
        world.wanted.open = true;
        world.backend = Backend::Healthy;
        let until = world.now + Duration::from_hours(2);
        world.run(until);
        prop_assert!(world.schedule.is_in_step(&world.wanted));
        prop_assert_eq!(world.held, Some(world.wanted.content));

        // And then a change arrives at once, as a delta on what is there.
        let calls = world.calls.len();
        world.wanted.content = ContentVersion(99);
        let until = world.now;
        world.run(until);
        prop_assert_eq!(world.calls.len(), calls + 1);
        prop_assert_eq!(world.calls[calls].content, ContentVersion(99));
    }
}

#[test]
fn the_simulator_sees_all_kinds_of_histories() {
    // The generator must produce what the laws talk about, or they would hold vacuously.
    let mut seen = BTreeSet::new();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..500 {
        let tree = happening().new_tree(&mut runner).unwrap();
        seen.insert(match tree.current() {
            Happening::Content(_) => "content",
            Happening::Configuration(_) => "configuration",
            Happening::Interval(0) => "zero interval",
            Happening::Interval(_) => "interval",
            Happening::ChangeInterval(0) => "zero change interval",
            Happening::ChangeInterval(_) => "change interval",
            Happening::Barrier(_) => "barrier",
            Happening::Restart => "restart",
            Happening::Backend(Backend::Healthy) => "healthy",
            Happening::Backend(Backend::Failing(_)) => "failing",
            Happening::Backend(Backend::Slow(_)) => "slow",
        });
    }
    assert_eq!(seen.len(), 11, "{seen:?}");
}
