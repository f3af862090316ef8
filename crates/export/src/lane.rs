//! One sink of one inventory: its schedule, and what it has not been given yet.
//!
//! Every lane follows the rows on its own, so a slow sink piles up one bounded change set and
//! nobody waits for it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kollect_collect::store::{Revision, Subscription};
use kollect_sinks::{Demand, ReadBack, Receipt, SinkError, Skipped};

use crate::{
    Moment,
    churn::Churn,
    order::{SinkOrder, SinkSource, Source},
    report::{Export, LaneReport, LaneState},
    retry::{FailureClass, Jitter},
    schedule::{Attempt, ContentVersion, Schedule, Verdict, Wanted},
    survey::Survey,
};

/// One sink of one inventory.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) order: SinkOrder,
    pub(crate) subscription: Subscription,
    schedule: Schedule,
    /// Whether what an earlier process delivered has been looked at.
    resumed: bool,
    failure: Option<SinkError>,
    /// Why the last delivery was refused before it began.
    refusal: Option<SinkError>,
    last_export: Option<Export>,
    confirmed_at: Option<Timestamp>,
    /// Rows that the sink leaves out.
    skipped: Option<Skipped>,
    /// How the last delivery of all rows to a stream found out what the stream held.
    read_back: Option<ReadBack>,
    /// How often changes are written.
    churn: Churn,
    /// The rows that the sink holds, if it is known for certain.
    holds: Option<RowsVersion>,
    /// How long the sink may be left alone while nothing changes, as it said itself.
    pub(crate) silence: Option<Duration>,
    /// A delivery is under way that began with this.
    under_way: Option<UnderWay>,
    /// Deliveries that a sink refused because it had lost its place, one after the other.
    lost: u32,
    /// The last reopening of the sink that this lane has followed.
    reopened: u64,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    attempt: Attempt,
    rows_version: RowsVersion,
    at: Timestamp,
    /// The last reopening of the sink that was known when it began.
    reopened: u64,
}

/// Which rows: at a revision of the store, seen through one selection of targets and namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowsVersion {
    /// Grows when other rows are selected.
    pub(crate) selection: u64,
    pub(crate) revision: Revision,
}

impl RowsVersion {
    fn content(self) -> ContentVersion {
        ContentVersion(u128::from(self.selection) << 64 | u128::from(self.revision.number()))
    }
}

impl Lane {
    pub(crate) fn new(order: SinkOrder, subscription: Subscription) -> Self {
        Self {
            // Nothing to look at is as good as having looked.
            resumed: order.resume.is_none(),
            order,
            subscription,
            schedule: Schedule::default(),
            failure: None,
            refusal: None,
            last_export: None,
            confirmed_at: None,
            skipped: None,
            read_back: None,
            churn: Churn::default(),
            holds: None,
            silence: None,
            under_way: None,
            lost: 0,
            reopened: 0,
        }
    }

    /// Follows a newer order.
    pub(crate) fn follow(&mut self, order: SinkOrder) {
        // Only the first order knows what an earlier process did; later ones repeat what this
        // process wrote itself.
        let resume = self.order.resume.take();
        self.order = SinkOrder { resume, ..order };
    }

    /// Looks at what an earlier process delivered: if it is what there is now, nothing has to be
    /// delivered before the interval has passed.
    ///
    /// A status is written after a delivery, so a process that died in between says less than it
    /// did. That heals with the next refresh; where no refresh comes soon, nothing is taken on
    /// trust.
    pub(crate) fn resume(
        &mut self,
        survey: &Survey,
        rows_version: RowsVersion,
        now: Moment,
        wall: Timestamp,
    ) {
        // What the sink wants decides which checksum counts; that is known once it can be used.
        if self.demand().is_none() || std::mem::replace(&mut self.resumed, true) {
            return;
        }
        let Some(resume) = self.order.resume.take() else {
            return;
        };
        let interval = self.order.interval;
        let trusted = !interval.is_zero()
            && interval <= LONGEST_TRUST
            && self.demand() != Some(Demand::Stream);
        let same = self.checksum_in(survey) == Some(&*resume.checksum);
        if trusted && same {
            let age = wall.duration_since(resume.at);
            let age = Duration::try_from(age).unwrap_or_default();
            let at = now.saturating_sub(age);
            self.schedule = Schedule::resume(rows_version.content(), self.order.configuration, at);
            self.last_export = Some(Export {
                at: resume.at,
                checksum: Some(resume.checksum),
            });
        }
    }

    fn wanted(&self, rows_version: RowsVersion, open: bool) -> Wanted {
        Wanted {
            content: rows_version.content(),
            configuration: self.order.configuration,
            interval: self.interval(),
            change_interval: self.order.change_interval,
            open: open && self.resumed && matches!(self.order.source, Source::Ready(_)),
        }
    }

    /// The time between two refreshes. A backend that shows when it was last looked after is not
    /// left alone for longer than it says.
    fn interval(&self) -> Duration {
        let interval = self.order.interval;
        match self.silence {
            // Not for a delivery: only a sink that knows what it holds can be asked about it.
            Some(silence) if self.holds.is_some() && (interval.is_zero() || interval > silence) => {
                silence
            }
            _ => interval,
        }
    }

    /// What to do now.
    pub(crate) fn verdict(&self, rows_version: RowsVersion, open: bool, now: Moment) -> Verdict {
        self.schedule.verdict(&self.wanted(rows_version, open), now)
    }

    /// A delivery of these rows has begun.
    pub(crate) fn begin(
        &mut self,
        attempt: Attempt,
        rows_version: RowsVersion,
        reopened: u64,
        now: Moment,
        wall: Timestamp,
    ) {
        let attempt = Attempt {
            content: rows_version.content(),
            ..attempt
        };
        self.schedule.begin(attempt, now);
        self.refusal = None;
        self.under_way = Some(UnderWay {
            attempt,
            rows_version,
            at: wall,
            reopened,
        });
    }

    /// A delivery was refused before it began. Nothing was asked of the sink: what it holds is
    /// known as before.
    pub(crate) fn refused(&mut self, attempt: Attempt, error: SinkError, until: Moment) {
        self.schedule.refused(attempt.configuration, until);
        self.refusal = Some(error);
    }

    /// A delivery failed before it began.
    pub(crate) fn unsent(
        &mut self,
        attempt: Attempt,
        error: SinkError,
        now: Moment,
        jitter: Jitter,
    ) {
        self.schedule.begin(attempt, now);
        self.schedule.failed(class(&error), now, jitter);
        self.failure = Some(error);
        self.forget();
    }

    /// The sink was found to work, for this reopening of it.
    pub(crate) fn reopen(&mut self, reopened: u64) {
        if std::mem::replace(&mut self.reopened, reopened) != reopened {
            self.schedule.reopen();
            self.refusal = None;
        }
    }

    /// Whether a delivery of all rows would only repeat what the sink was given: nothing has changed
    /// since, and nobody asked for it.
    pub(crate) fn is_at_rest(&self, attempt: Attempt, rows_version: RowsVersion) -> bool {
        attempt.since.is_none()
            && self.holds == Some(rows_version)
            && self
                .schedule
                .has_accepted(rows_version.content(), attempt.configuration)
            && self.subscription.backlog() == Some(0)
    }

    /// The sink does not hold what it was given, or cannot say: it gets all rows, at once.
    pub(crate) fn unconfirmed(&mut self) {
        if self.under_way.take().is_some() {
            self.schedule.lost();
            self.forget();
        }
    }

    /// There was nothing to deliver after all: the rows are what they were.
    pub(crate) fn unchanged(&mut self, attempt: Attempt, rows_version: RowsVersion, now: Moment) {
        self.schedule.unchanged(
            Attempt {
                content: rows_version.content(),
                ..attempt
            },
            now,
        );
        self.refusal = None;
        self.holds = Some(rows_version);
    }

    /// The delivery under way has ended; this is the last reopening of the sink.
    pub(crate) fn end(
        &mut self,
        result: Result<Receipt, SinkError>,
        reopened: u64,
        now: Moment,
        jitter: Jitter,
    ) {
        let Some(under_way) = self.under_way.take() else {
            return;
        };
        match result {
            Ok(receipt) => {
                self.skipped = receipt.skipped;
                if receipt.read_back.is_some() {
                    self.read_back = receipt.read_back;
                }
                if under_way.attempt.since.is_some() {
                    self.churn.note(receipt.bytes, now);
                }
                let news = self.holds != Some(under_way.rows_version) || self.failure.is_some();
                self.schedule.succeeded();
                self.failure = None;
                self.lost = 0;
                self.holds = Some(under_way.rows_version);
                self.confirmed_at = Some(under_way.at);
                if news || self.last_export.is_none() {
                    self.last_export = Some(Export {
                        at: under_way.at,
                        checksum: None,
                    });
                }
            }
            Err(SinkError::OutOfStep(text))
                if self.lost == 0 && under_way.attempt.since.is_some() =>
            {
                // All rows put it right, and there is no reason to wait.
                tracing::info!(sink = %self.order.key, reason = text, "all rows are sent again");
                self.lost += 1;
                self.schedule.lost();
                self.forget();
            }
            Err(error) => {
                self.schedule.failed(class(&error), now, jitter);
                self.failure = Some(error);
                self.forget();
                if under_way.reopened != reopened {
                    // Somebody was luckier in the meantime.
                    self.schedule.reopen();
                }
            }
        }
    }

    /// What the sink holds is not known any more.
    fn forget(&mut self) {
        self.holds = None;
        self.subscription.start_over();
    }

    /// Learns the checksum of what the sink holds, if the survey is about just that.
    pub(crate) fn learn(&mut self, survey: &Survey, rows_version: RowsVersion) {
        if self.demand().is_none() {
            return;
        }
        let checksum = self.checksum_in(survey).map(str::to_owned);
        if self.holds == Some(rows_version)
            && let Some(export) = &mut self.last_export
        {
            export.checksum = checksum;
        }
    }

    /// What identifies the content of a survey for this sink.
    fn checksum_in<'s>(&self, survey: &'s Survey) -> Option<&'s str> {
        let documents = self.demand() == Some(Demand::Documents);
        survey.checksum_of(documents, self.order.documents.max_bytes)
    }

    /// What the sink wants to be given, if it is known which sink it is.
    pub(crate) fn demand(&self) -> Option<Demand> {
        self.source().map(|source| source.demand)
    }

    /// How the lane stands. `wall` says which time a moment is.
    pub(crate) fn report(
        &mut self,
        rows_version: RowsVersion,
        open: bool,
        now: Moment,
        wall: impl Fn(Moment) -> Timestamp,
    ) -> LaneReport {
        let often = self.churn.look(now);
        let wanted = self.wanted(rows_version, open);
        let state = match &self.order.source {
            Source::Held(error) => LaneState::Held(Some(error.clone())),
            Source::Reading => LaneState::Held(None),
            // A failure tells more than that the sink is left alone because of it.
            Source::Ready(_) => match self.failure.as_ref().or(self.refusal.as_ref()) {
                Some(error) => LaneState::Failed {
                    error: error.clone(),
                    in_a_row: self.schedule.failures(),
                    next: self.schedule.next_attempt(&wanted).map(wall),
                },
                None if self.schedule.is_in_step(&wanted) => LaneState::InStep,
                None if self.schedule.is_gathering(&wanted, now) => LaneState::Gathering,
                None => LaneState::Behind,
            },
        };
        LaneReport {
            key: self.order.key.clone(),
            state,
            last_export: self.last_export.clone(),
            confirmed_at: self.confirmed_at,
            skipped: self.skipped.clone(),
            read_back: self.read_back.clone(),
            often,
        }
    }

    pub(crate) fn source(&self) -> Option<&Arc<SinkSource>> {
        match &self.order.source {
            Source::Ready(source) => Some(source),
            _ => None,
        }
    }
}

/// The longest interval for which the word of a status is taken.
const LONGEST_TRUST: Duration = Duration::from_mins(10);

/// The class of a failure, as the schedule sees it.
pub(crate) fn class(error: &SinkError) -> FailureClass {
    match error {
        SinkError::Transient(_) | SinkError::OutOfStep(_) => FailureClass::Transient,
        SinkError::Terminal(_) => FailureClass::Terminal,
        SinkError::Forbidden(_) => FailureClass::Forbidden,
    }
}
