//! Which replica works: leader election by a Lease.
//!
//! Replicas agree through one `coordination.k8s.io` Lease, with the fields and the meaning that all
//! Kubernetes components use, so replicas of other releases and `kubectl get lease` understand it.
//! [`Lease::run`] keeps trying to hold it and tells through a watch channel whether this replica
//! leads.
//!
//! An outage of the API server is no reason to stop: a leader goes on until its renew deadline
//! has passed without contact. Then somebody else may take over, so it stops leading, and becomes a
//! candidate again in the same process. Between that moment and the earliest take-over lies the
//! difference between lease duration and renew deadline: the time that work has to end in.
//!
//! ```text
//!             accepted write                 write accepted every retry period
//! Candidate ────────────────────> Leader ──┐
//!     ^                            │  ^────┘
//!     └────────────────────────────┘
//!       renew deadline passed, or the lease is somebody else's
//! ```

mod election;
#[cfg(test)]
mod election_tests;
mod record;
#[cfg(test)]
mod simulation_tests;
mod timings;

use std::{future::Future, time::Duration};

use k8s_openapi::{api::coordination::v1::Lease as LeaseObject, jiff::Timestamp};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::{
    election::{Election, Moment, Step},
    record::Record,
    timings::Timings,
};
use crate::api_error::Sentence;

/// The name of the operator's Lease.
pub const NAME: &str = "3274ac8a.kollect.dev";

/// How long handing over may take when this replica stops.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// Which Lease, who asks for it, and how patiently.
#[derive(Debug, Clone)]
pub struct LeaseSettings {
    /// The operator's namespace.
    pub namespace: String,
    /// The Lease's name; [`NAME`] in production.
    pub name: String,
    /// Who this is, different in every process; see [`identity`].
    pub identity: String,
    /// How long others wait before they take over.
    pub duration: Duration,
    /// How long a leader goes on without contact.
    pub renew_deadline: Duration,
    /// The interval of attempts.
    pub retry_period: Duration,
}

/// An identity for this process: the pod's name, for people, and a random part, since two processes
/// with one identity would both take the lease for theirs.
pub fn identity(pod: &str) -> String {
    format!("{pod}_{:032x}", fastrand::u128(..))
}

/// Why leader election cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Something has no name.
    #[error("leader election has no {0}; set it, or switch leader election off")]
    Missing(&'static str),
    /// Attempts would follow each other without a pause.
    #[error("--leader-elect-retry-period must be longer than zero")]
    NoRetryPeriod,
    /// A leader would give up before it could try twice.
    #[error(
        "--leader-elect-renew-deadline ({renew_deadline:?}) must be longer than 1.2 times \
         --leader-elect-retry-period ({retry_period:?})"
    )]
    RenewDeadlineTooShort {
        /// As given.
        renew_deadline: Duration,
        /// As given.
        retry_period: Duration,
    },
    /// Others would take over while a leader still leads.
    #[error(
        "--leader-elect-lease-duration ({duration:?}) must be longer than \
         --leader-elect-renew-deadline ({renew_deadline:?})"
    )]
    DurationTooShort {
        /// As given.
        duration: Duration,
        /// As given.
        renew_deadline: Duration,
    },
}

/// Whether this replica leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// It does not, and must not write anything that a leader writes.
    Candidate,
    /// It does.
    Leader {
        /// When that began.
        since: Instant,
        /// When it ends unless it is renewed. Renewals move it without waking those who wait for a
        /// change.
        until: Instant,
    },
}

impl Leadership {
    /// The leadership of a process that has no rivals: it never ends.
    pub fn sole() -> Self {
        let since = Instant::now();
        Leadership::Leader {
            since,
            until: since + Duration::from_hours(24 * 365 * 100),
        }
    }

    /// Whether this replica leads right now. To be asked before every write that matters: a
    /// process that was stopped for a while may read "leader" before it is told otherwise.
    pub fn leads(&self) -> bool {
        matches!(self, Leadership::Leader { until, .. } if Instant::now() < *until)
    }
}

/// One replica's part in the election.
#[derive(Debug)]
pub struct Lease {
    api: Api<LeaseObject>,
    settings: LeaseSettings,
    timings: Timings,
    election: Election,
    /// The object that was read or written last, with its version.
    object: Option<LeaseObject>,
    /// Where the election's clock begins.
    start: Instant,
    /// Requests that failed in a row.
    failures: u32,
    /// Requests that were forbidden since the last write that was accepted.
    forbidden: u32,
}

impl Lease {
    /// Checks the settings; nothing is read or written before [`run`](Self::run).
    pub fn new(client: Client, settings: LeaseSettings) -> Result<Self, LeaseError> {
        for (what, value) in [
            ("namespace", &settings.namespace),
            ("Lease name", &settings.name),
            ("identity", &settings.identity),
        ] {
            if value.trim().is_empty() {
                return Err(LeaseError::Missing(what));
            }
        }
        let timings = Timings::new(
            settings.duration,
            settings.renew_deadline,
            settings.retry_period,
        )?;
        Ok(Lease {
            api: Api::namespaced(client, &settings.namespace),
            election: Election::new(settings.identity.clone(), timings),
            settings,
            timings,
            object: None,
            start: Instant::now(),
            failures: 0,
            forbidden: 0,
        })
    }

    /// Takes part in the election until `stop`, then hands the lease over if it is held.
    ///
    /// Cancel `stop` after the work that needs leadership has ended: another replica may begin at
    /// once.
    pub async fn run(mut self, stop: CancellationToken, leadership: watch::Sender<Leadership>) {
        while !stop.is_cancelled() {
            self.publish(&leadership);
            let step = self.election.next(self.now(), Timestamp::now());
            if let Step::Wait(until) = step {
                let until = self.start + until + self.jitter();
                tokio::select! {
                    () = sleep_until(until) => {}
                    () = stop.cancelled() => {}
                }
                continue;
            }
            let sent = self.now();
            let was_write = step != Step::Read;
            let answer = tokio::select! {
                answer = self.ask(step, sent) => Some(answer),
                () = stop.cancelled() => None,
            };
            let now = self.now();
            match answer {
                Some(Ok(answer)) => {
                    self.failures = 0;
                    self.learn(answer, sent, now);
                }
                Some(Err(problem)) => {
                    self.complain(&problem, now);
                    self.election.failed(was_write, now);
                    if problem.is_forbidden() {
                        self.forbidden = self.forbidden.saturating_add(1);
                        self.pause(&stop).await;
                    }
                }
                None => self.election.failed(was_write, now),
            }
        }
        leadership.send_replace(Leadership::Candidate);
        if self.election.may_hold(self.now()) {
            self.hand_over().await;
        }
    }

    /// Waits before the next attempt of a candidate that lacks a right. A leader has no time to.
    async fn pause(&self, stop: &CancellationToken) {
        if self.election.reign(self.now()).is_none() {
            let pause = self.timings.pause(self.forbidden);
            tokio::select! {
                () = sleep_until(Instant::now() + pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    fn now(&self) -> Moment {
        self.start.elapsed()
    }

    /// Candidates spread their attempts; a leader is punctual.
    fn jitter(&self) -> Duration {
        if self.election.reign(self.now()).is_some() {
            return Duration::ZERO;
        }
        self.timings.retry_period().mul_f64(0.2 * fastrand::f64())
    }

    /// Tells the process what it is now.
    fn publish(&self, leadership: &watch::Sender<Leadership>) {
        let next = match self.election.reign(self.now()) {
            None => Leadership::Candidate,
            Some(reign) => Leadership::Leader {
                since: self.start + reign.since,
                until: self.start + reign.until,
            },
        };
        leadership.send_if_modified(|current| {
            let renewed = match (&current, &next) {
                (Leadership::Candidate, Leadership::Candidate) => true,
                (Leadership::Leader { since, .. }, Leadership::Leader { since: now, .. }) => {
                    since == now
                }
                _ => false,
            };
            let lease = &self.settings.name;
            match (renewed, &next) {
                (true, _) => {}
                (false, Leadership::Candidate) => {
                    warn!(
                        lease,
                        "no longer the leader; trying to become the leader again"
                    );
                }
                (false, Leadership::Leader { .. }) => info!(lease, "this replica leads"),
            }
            *current = next;
            !renewed
        });
    }

    /// One request, ended by its own limit and by the end of the reign.
    async fn ask(&self, step: Step, sent: Moment) -> Result<Answer, Problem> {
        let limit = sent + self.timings.request_limit();
        let limit = self
            .election
            .reign(sent)
            .map_or(limit, |reign| limit.min(reign.until));
        let answer = async {
            let name = &self.settings.name;
            match (step, &self.object) {
                (Step::Create(record), _) => {
                    let lease = record.into_lease(&self.settings.namespace, name);
                    Answer::of_create(self.api.create(&PostParams::default(), &lease).await)
                }
                (Step::Replace(record), Some(object)) => {
                    let lease = record.put_into(object.clone());
                    let params = PostParams::default();
                    Answer::of_replace(self.api.replace(name, &params, &lease).await)
                }
                _ => Ok(Answer::Read(self.api.get_opt(name).await?)),
            }
        };
        within(self.start + limit, answer).await
    }

    fn learn(&mut self, answer: Answer, sent: Moment, now: Moment) {
        match answer {
            Answer::Read(lease) => {
                self.election.observed(lease.as_ref().map(Record::of), now);
                self.object = lease;
            }
            Answer::Accepted(lease) => {
                self.forbidden = 0;
                self.election.accepted(Record::of(&lease), sent, now);
                self.object = Some(lease);
            }
            Answer::Refused => self.election.refused(now),
            Answer::Gone => self.election.observed(None, now),
        }
    }

    /// Says once what is wrong, and again when it has been long.
    fn complain(&mut self, problem: &Problem, now: Moment) {
        self.failures += 1;
        let (lease, failures) = (&self.settings.name, self.failures);
        let left = self
            .election
            .reign(now)
            .map(|reign| reign.until.saturating_sub(now));
        if failures.is_power_of_two() {
            warn!(lease, failures, leading_for = ?left, %problem, "cannot reach the Lease");
        } else {
            debug!(lease, failures, leading_for = ?left, %problem, "cannot reach the Lease");
        }
    }

    /// Frees the lease, so that nobody has to wait for it to run out.
    async fn hand_over(&self) {
        let name = &self.settings.name;
        let release = async {
            // The object may have changed since it was seen last, with or without our doing.
            while let Some(object) = self.api.get_opt(name).await? {
                let record = Record::of(&object);
                if !self.election.is_ours(&record) {
                    break;
                }
                let free = Election::release(&record, Timestamp::now()).put_into(object);
                let params = PostParams::default();
                match Answer::of_replace(self.api.replace(name, &params, &free).await)? {
                    Answer::Refused => {}
                    _ => break,
                }
            }
            Ok(())
        };
        match within(Instant::now() + RELEASE_LIMIT, release).await {
            Ok(()) => info!(lease = name, "the lease has been released"),
            Err(problem) => {
                warn!(lease = name, %problem, "cannot release the lease; it will expire");
            }
        }
    }
}

/// What came back.
enum Answer {
    Read(Option<LeaseObject>),
    Accepted(LeaseObject),
    /// Somebody else was faster.
    Refused,
    /// There is nothing to replace.
    Gone,
}

impl Answer {
    /// "Not found" is a failure here: it is the namespace that is missing.
    fn of_create(result: kube::Result<LeaseObject>) -> Result<Self, Problem> {
        match result {
            Ok(lease) => Ok(Answer::Accepted(lease)),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Answer::Refused),
            Err(error) => Err(error.into()),
        }
    }

    fn of_replace(result: kube::Result<LeaseObject>) -> Result<Self, Problem> {
        match result {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Answer::Gone),
            other => Self::of_create(other),
        }
    }
}

/// Why nothing came back.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{}", Sentence(.0))]
    Request(#[from] kube::Error),
    #[error("no answer in time")]
    Late,
}

impl Problem {
    /// Whether a right is missing.
    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Request(kube::Error::Api(status)) if status.code == 403)
    }
}

async fn within<T>(
    limit: Instant,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    timeout_at(limit, work).await.unwrap_or(Err(Problem::Late))
}
