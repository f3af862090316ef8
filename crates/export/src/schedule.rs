//! The schedule of one sink of one inventory.
//!
//! The rules, in the order in which they apply:
//!
//! 1. **Barrier.** Nothing is exported while the content is not known completely, or while the
//!    inventory is suspended or the sink is not allowed.
//! 2. **One at a time.** While an export is under way changes pile up; they are one delta for the
//!    next export.
//! 3. **Retry.** After a failure the sink waits: 5 s, doubled up to 5 min. Changed content does not
//!    shorten the wait (the backend is what is broken); a changed configuration ends it, and so
//!    does anything that shows that the sink works again: a good probe, or somebody who says so.
//!    An export that was refused without asking the backend waits too, but it is no failure: what
//!    the sink holds is known as before.
//! 4. **Change.** Content that the sink has not accepted is exported at once, but not sooner after
//!    the last export of changed content than the change interval says. A configuration that it has
//!    not accepted never waits.
//! 5. **Refresh.** Accepted content is exported again when the interval has passed; an interval of
//!    zero never refreshes. Refreshes are at least a second apart.
//!
//! What counts as accepted survives a restart: the caller seeds it from the inventory's status, so
//! that unchanged content is not delivered again.

use std::time::Duration;

use crate::{
    Moment,
    retry::{self, FailureClass, Jitter},
};

/// Identifies content: equal values mean equal rows. A fingerprint or a revision will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentVersion(pub u128);

/// Identifies everything else that an export depends on: generations of inventory and sink,
/// revisions of the Secrets, identity of both objects. A change means a full export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Configuration(pub u128);

/// What should be at the sink, as of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The current content.
    pub content: ContentVersion,
    /// The current configuration.
    pub configuration: Configuration,
    /// How often accepted content is delivered again; zero for never.
    pub interval: Duration,
    /// The least time between two exports of changed content.
    pub change_interval: Duration,
    /// Whether the content is complete and the export is allowed.
    pub open: bool,
}

/// An export that should begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The content to deliver.
    pub content: ContentVersion,
    /// The configuration to deliver it with.
    pub configuration: Configuration,
    /// What the sink is known to hold, if it is known for certain; only then is a delta enough.
    pub since: Option<ContentVersion>,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Begin this export.
    Export(Attempt),
    /// Nothing; ask again at this moment, or when something happens.
    Wait(Option<Moment>),
}

/// Refreshes are never closer than this, whatever the interval says.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Accepted {
    content: ContentVersion,
    configuration: Configuration,
    /// When the export that delivered it began.
    at: Moment,
    /// When the last export began that delivered something new.
    changed_at: Moment,
    /// Whether this process saw it happen. What only a status says is good enough to skip an
    /// export, not to build a delta on.
    seen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failed {
    in_a_row: u32,
    not_before: Moment,
    configuration: Configuration,
}

/// The state of one sink of one inventory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    accepted: Option<Accepted>,
    failed: Option<Failed>,
    /// An export with this configuration was refused, and is not to be tried before this moment.
    refused: Option<(Configuration, Moment)>,
    under_way: Option<(Attempt, Moment)>,
}

impl Schedule {
    /// A schedule that takes over from an earlier process: the sink accepted this content with this
    /// configuration at this moment.
    pub fn resume(content: ContentVersion, configuration: Configuration, at: Moment) -> Self {
        let accepted = Accepted {
            content,
            configuration,
            at,
            changed_at: at,
            seen: false,
        };
        Self {
            accepted: Some(accepted),
            ..Self::default()
        }
    }

    /// What to do now.
    pub fn verdict(&self, wanted: &Wanted, now: Moment) -> Verdict {
        if !wanted.open || self.under_way.is_some() {
            return Verdict::Wait(None);
        }
        if let Some(not_before) = self.held_back(wanted)
            && now < not_before
        {
            return Verdict::Wait(Some(not_before));
        }
        if let Some(accepted) = &self.accepted
            && self.failed.is_none()
            && accepted.configuration == wanted.configuration
        {
            let due = if accepted.content != wanted.content {
                accepted.changed_at.saturating_add(wanted.change_interval)
            } else if wanted.interval.is_zero() {
                return Verdict::Wait(None);
            } else {
                let interval = wanted.interval.max(SHORTEST_REFRESH);
                accepted.at.saturating_add(interval)
            };
            if now < due {
                return Verdict::Wait(Some(due));
            }
        }
        Verdict::Export(self.attempt(wanted))
    }

    /// The export has begun.
    pub fn begin(&mut self, attempt: Attempt, now: Moment) {
        self.under_way = Some((attempt, now));
        self.refused = None;
    }

    /// An export was refused before it began: nobody asked the backend.
    pub fn refused(&mut self, configuration: Configuration, until: Moment) {
        self.refused = Some((configuration, until));
    }

    /// The sink works again, as far as anybody knows: there is no reason to wait.
    pub fn reopen(&mut self) {
        self.refused = None;
        if let Some(failed) = &mut self.failed {
            failed.not_before = Moment::ZERO;
        }
    }

    /// The export under way was accepted.
    pub fn succeeded(&mut self) {
        if let Some((attempt, at)) = self.under_way.take() {
            let refreshed = self.accepted.filter(|accepted| {
                accepted.content == attempt.content
                    && accepted.configuration == attempt.configuration
            });
            self.accepted = Some(Accepted {
                content: attempt.content,
                configuration: attempt.configuration,
                at,
                changed_at: refreshed.map_or(at, |accepted| accepted.changed_at),
                seen: true,
            });
            self.failed = None;
        }
    }

    /// The export under way failed. What the sink holds now is not known, so the next export is a
    /// full one.
    pub fn failed(&mut self, class: FailureClass, now: Moment, jitter: Jitter) {
        if let Some((attempt, _)) = self.under_way.take() {
            let before = self
                .failed
                .filter(|f| f.configuration == attempt.configuration);
            let in_a_row = before.map_or(1, |failed| failed.in_a_row.saturating_add(1));
            self.failed = Some(Failed {
                in_a_row,
                not_before: now + retry::wait(class, in_a_row, jitter),
                configuration: attempt.configuration,
            });
            self.accepted = None;
        }
    }

    /// The export under way found that the sink has lost its place (its table was dropped, its
    /// repository replaced): the next one is a full one and happens at once.
    pub fn lost(&mut self) {
        self.under_way = None;
        self.accepted = None;
    }

    /// There was nothing to deliver: this content equals what the sink accepted last, under another
    /// name. The time of the last delivery stays.
    pub fn unchanged(&mut self, attempt: Attempt, now: Moment) {
        let before = self.accepted;
        self.begin(attempt, before.map_or(now, |accepted| accepted.at));
        self.succeeded();
        if let (Some(before), Some(accepted)) = (before, &mut self.accepted) {
            accepted.changed_at = before.changed_at;
        }
    }

    /// Whether an export is under way.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether the sink accepted this content with this configuration, in this process.
    pub fn has_accepted(&self, content: ContentVersion, configuration: Configuration) -> bool {
        self.failed.is_none()
            && self.accepted.as_ref().is_some_and(|accepted| {
                accepted.seen
                    && accepted.content == content
                    && accepted.configuration == configuration
            })
    }

    /// Whether the sink holds what is wanted.
    pub fn is_in_step(&self, wanted: &Wanted) -> bool {
        self.failed.is_none()
            && self.accepted.as_ref().is_some_and(|accepted| {
                accepted.content == wanted.content && accepted.configuration == wanted.configuration
            })
    }

    /// Whether the sink holds what it may hold by now: newer content waits for the change interval.
    pub fn is_gathering(&self, wanted: &Wanted, now: Moment) -> bool {
        self.failed.is_none()
            && self.under_way.is_none()
            && self.accepted.as_ref().is_some_and(|accepted| {
                accepted.configuration == wanted.configuration
                    && now < accepted.changed_at.saturating_add(wanted.change_interval)
            })
    }

    /// How many attempts in a row have failed.
    pub fn failures(&self) -> u32 {
        self.failed.map_or(0, |failed| failed.in_a_row)
    }

    /// When an export that failed or was refused is tried again, if only time has to pass. Stays
    /// the same while it is being tried.
    pub fn next_attempt(&self, wanted: &Wanted) -> Option<Moment> {
        // At the beginning of all times: at once.
        self.held_back(wanted)
            .filter(|at| wanted.open && !at.is_zero())
    }

    /// Until when failures and refusals hold the sink back; a new configuration may well be the
    /// remedy.
    fn held_back(&self, wanted: &Wanted) -> Option<Moment> {
        let failed = self
            .failed
            .filter(|failed| failed.configuration == wanted.configuration)
            .map(|failed| failed.not_before);
        let refused = self
            .refused
            .filter(|(configuration, _)| *configuration == wanted.configuration)
            .map(|(_, until)| until);
        failed.max(refused)
    }

    fn attempt(&self, wanted: &Wanted) -> Attempt {
        let known = self
            .accepted
            .filter(|accepted| accepted.seen && accepted.configuration == wanted.configuration);
        Attempt {
            content: wanted.content,
            configuration: wanted.configuration,
            since: known
                .map(|accepted| accepted.content)
                // A refresh repairs what somebody else may have damaged: it is always full.
                .filter(|since| *since != wanted.content),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment::from_secs(second)
    }

    fn wanted(content: u128, interval: u64) -> Wanted {
        Wanted {
            content: ContentVersion(content),
            configuration: Configuration(1),
            interval: Duration::from_secs(interval),
            change_interval: Duration::ZERO,
            open: true,
        }
    }

    fn deliver(schedule: &mut Schedule, wanted: &Wanted, second: u64) -> Attempt {
        let Verdict::Export(attempt) = schedule.verdict(wanted, at(second)) else {
            panic!("no export at {second}: {schedule:?}");
        };
        schedule.begin(attempt, at(second));
        schedule.succeeded();
        attempt
    }

    #[test]
    fn unchanged_content_is_refreshed_by_the_interval_and_changes_go_at_once() {
        let mut schedule = Schedule::default();
        deliver(&mut schedule, &wanted(1, 30), 0);
        assert_eq!(
            schedule.verdict(&wanted(1, 30), at(5)),
            Verdict::Wait(Some(at(30)))
        );
        let changed = deliver(&mut schedule, &wanted(2, 30), 5);
        assert_eq!(
            changed.since,
            Some(ContentVersion(1)),
            "a change is a delta"
        );
        assert_eq!(
            schedule.verdict(&wanted(2, 30), at(30)),
            Verdict::Wait(Some(at(35)))
        );
        let refresh = deliver(&mut schedule, &wanted(2, 30), 35);
        assert_eq!(refresh.since, None, "a refresh is full");
    }

    #[test]
    fn a_flip_flop_is_delivered_both_ways() {
        let mut schedule = Schedule::default();
        deliver(&mut schedule, &wanted(1, 30), 0);
        deliver(&mut schedule, &wanted(2, 30), 5);
        deliver(&mut schedule, &wanted(1, 30), 6);
    }

    #[test]
    fn changes_are_gathered_for_as_long_as_the_change_interval_says() {
        let gathered = |content| Wanted {
            change_interval: Duration::from_secs(20),
            ..wanted(content, 30)
        };
        let mut schedule = Schedule::default();
        deliver(&mut schedule, &gathered(1), 0);
        deliver(&mut schedule, &gathered(2), 25);
        let due = Verdict::Wait(Some(at(45)));
        assert_eq!(schedule.verdict(&gathered(3), at(26)), due);
        assert!(schedule.is_gathering(&gathered(3), at(44)));
        assert!(
            !schedule.is_gathering(&gathered(3), at(45)),
            "now it is due"
        );
        assert_eq!(schedule.verdict(&gathered(4), at(44)), due);
        let last = deliver(&mut schedule, &gathered(4), 45);
        assert_eq!(last.since, Some(ContentVersion(2)), "still a delta");

        deliver(&mut schedule, &gathered(4), 75);
        let after_refresh = deliver(&mut schedule, &gathered(5), 76);
        assert_eq!(
            after_refresh.since,
            Some(ContentVersion(4)),
            "a refresh brings nothing new, so nothing waits for it"
        );
        let edited = Wanted {
            configuration: Configuration(2),
            ..gathered(6)
        };
        deliver(&mut schedule, &edited, 77);
    }

    #[test]
    fn the_change_interval_outlives_a_restart_and_a_pass_without_news() {
        let gathered = |content| Wanted {
            change_interval: Duration::from_secs(20),
            ..wanted(content, 30)
        };
        let mut schedule = Schedule::resume(ContentVersion(1), Configuration(1), at(0));
        assert_eq!(
            schedule.verdict(&gathered(2), at(5)),
            Verdict::Wait(Some(at(20)))
        );
        let Verdict::Export(attempt) = schedule.verdict(&gathered(2), at(20)) else {
            panic!("{schedule:?}");
        };
        schedule.unchanged(attempt, at(20));
        deliver(&mut schedule, &gathered(3), 21);
    }

    #[test]
    fn zero_exports_on_change_only() {
        let mut schedule = Schedule::default();
        deliver(&mut schedule, &wanted(1, 0), 0);
        assert_eq!(
            schedule.verdict(&wanted(1, 0), at(86_400)),
            Verdict::Wait(None)
        );
        deliver(&mut schedule, &wanted(2, 0), 86_400);
    }

    #[test]
    fn intervals_below_a_second_refresh_once_a_second() {
        let mut schedule = Schedule::default();
        let often = Wanted {
            interval: Duration::from_millis(500),
            ..wanted(1, 0)
        };
        deliver(&mut schedule, &often, 0);
        assert_eq!(schedule.verdict(&often, at(0)), Verdict::Wait(Some(at(1))));
    }

    #[test]
    fn nothing_leaves_before_the_barrier() {
        let schedule = Schedule::default();
        let closed = Wanted {
            open: false,
            ..wanted(1, 30)
        };
        assert_eq!(schedule.verdict(&closed, at(100)), Verdict::Wait(None));
    }

    #[test]
    fn a_restart_does_not_deliver_unchanged_content_again() {
        let schedule = Schedule::resume(ContentVersion(1), Configuration(1), at(0));
        assert_eq!(
            schedule.verdict(&wanted(1, 30), at(8)),
            Verdict::Wait(Some(at(30)))
        );
        let Verdict::Export(attempt) = schedule.verdict(&wanted(2, 30), at(8)) else {
            panic!()
        };
        assert_eq!(
            attempt.since, None,
            "what an earlier process delivered is no base for a delta"
        );
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_new_configuration_ends_the_wait() {
        let middle = Jitter::new(500);
        let mut schedule = Schedule::default();
        for (second, next) in [(0, 5), (5, 15), (15, 35)] {
            let Verdict::Export(attempt) = schedule.verdict(&wanted(1, 30), at(second)) else {
                panic!("no attempt at {second}");
            };
            assert_eq!(attempt.since, None);
            schedule.begin(attempt, at(second));
            schedule.failed(FailureClass::Transient, at(second), middle);
            let changed = wanted(u128::from(second) + 2, 30);
            assert_eq!(
                schedule.verdict(&changed, at(second)),
                Verdict::Wait(Some(at(next)))
            );
        }
        assert_eq!(schedule.failures(), 3);
        let repaired = Wanted {
            configuration: Configuration(2),
            ..wanted(1, 30)
        };
        deliver(&mut schedule, &repaired, 16);
        assert_eq!(schedule.failures(), 0);
    }

    #[test]
    fn b7_what_shows_that_the_sink_works_ends_the_wait() {
        let mut schedule = Schedule::default();
        for round in 0..3 {
            let now = at(round * 10);
            let Verdict::Export(attempt) = schedule.verdict(&wanted(1, 30), now) else {
                panic!("round {round}: {schedule:?}");
            };
            schedule.begin(attempt, now);
            schedule.failed(FailureClass::Terminal, now, Jitter::new(500));
            let hour = Verdict::Wait(Some(now + Duration::from_hours(1)));
            assert_eq!(schedule.verdict(&wanted(1, 30), now), hour);
            schedule.reopen();
            assert!(!schedule.is_in_step(&wanted(1, 30)));
        }
        assert_eq!(schedule.failures(), 3, "it has not succeeded yet");
        assert_eq!(deliver(&mut schedule, &wanted(1, 30), 31).since, None);
        let before = schedule.clone();
        schedule.reopen();
        assert_eq!(schedule, before, "a sink that works needs nothing");
    }

    #[test]
    fn a_refusal_waits_and_is_no_failure() {
        let mut schedule = Schedule::default();
        deliver(&mut schedule, &wanted(1, 30), 0);
        schedule.refused(Configuration(1), at(20));
        let changed = wanted(2, 30);
        assert_eq!(
            schedule.verdict(&changed, at(5)),
            Verdict::Wait(Some(at(20)))
        );
        assert_eq!(schedule.failures(), 0);
        let other = Wanted {
            configuration: Configuration(2),
            ..changed
        };
        assert!(matches!(
            schedule.verdict(&other, at(5)),
            Verdict::Export(_)
        ));
        let since = deliver(&mut schedule, &changed, 20).since;
        assert_eq!(since, Some(ContentVersion(1)), "still a delta");
        schedule.refused(Configuration(1), at(100));
        schedule.reopen();
        deliver(&mut schedule, &wanted(3, 30), 21);
    }

    /// S25: a set of parts that was torn is begun again from its first, even if the rows return to
    /// what was accepted before.
    #[test]
    fn s25_a_failure_makes_even_the_last_accepted_content_dirty() {
        let mut schedule = Schedule::default();
        deliver(&mut schedule, &wanted(1, 30), 0);
        let Verdict::Export(attempt) = schedule.verdict(&wanted(2, 30), at(1)) else {
            panic!()
        };
        schedule.begin(attempt, at(1));
        schedule.failed(FailureClass::Transient, at(1), Jitter::new(500));
        assert!(
            !schedule.is_in_step(&wanted(1, 30)),
            "half of 2 may have arrived"
        );
        let Verdict::Export(other) = schedule.verdict(&wanted(3, 30), at(6)) else {
            panic!()
        };
        assert_eq!(other.since, None, "nor is it a base for a delta");
        assert_eq!(deliver(&mut schedule, &wanted(1, 30), 6).since, None);
    }

    #[test]
    fn changes_pile_up_while_an_export_is_under_way() {
        let mut schedule = Schedule::default();
        deliver(&mut schedule, &wanted(1, 30), 0);
        let Verdict::Export(attempt) = schedule.verdict(&wanted(2, 30), at(1)) else {
            panic!()
        };
        schedule.begin(attempt, at(1));
        assert_eq!(schedule.verdict(&wanted(3, 30), at(2)), Verdict::Wait(None));
        assert_eq!(schedule.verdict(&wanted(4, 30), at(3)), Verdict::Wait(None));
        schedule.succeeded();
        assert_eq!(
            deliver(&mut schedule, &wanted(4, 30), 4).since,
            Some(ContentVersion(2))
        );
    }
}
