//! What to do when the API server pushes back.
//!
//! A server that has too much to do answers 429 or 504. Whoever asks has a back-off of its own, but
//! a thousand of them together are still a crowd. So when such answers come one after the other,
//! with nothing else in between, no more is sent for a while; then one request goes ahead, and the
//! others follow if it is answered.
//!
//! Answers are counted for each API group, and for reading apart from writing: a server behind the
//! server that is overloaded concerns nobody else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderValue, Response, StatusCode, header};
use tokio::time::Instant;

use super::{
    body::CountedBody,
    kind::{self, Kind},
};

/// So many such answers in a row, and the server is believed to mean it.
const IN_A_ROW: u32 = 4;
/// For how long nothing is sent then, at first.
const FIRST: Duration = Duration::from_secs(1);
/// No longer than this, unless the server asks for it.
const LONGEST: Duration = Duration::from_secs(8);
/// No longer than this, whatever the server asks for.
const LONGEST_ASKED: Duration = Duration::from_secs(30);
/// What those are told who come while one request goes ahead.
const WHILE_TRYING: Duration = Duration::from_secs(1);
/// A request that went ahead and was never heard of again is given up after this.
const TRYING: Duration = Duration::from_secs(30);
/// Clusters have some dozens of groups; a path that names more is no real one.
const MOST_GROUPS: usize = 512;

/// The state of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct State {
    /// Such answers, with nothing else in between.
    in_a_row: u32,
    /// When the next request may go.
    closed_until: Option<Instant>,
    /// Since when one request is ahead of the others.
    trying_since: Option<Instant>,
}

impl State {
    /// For how much longer nothing is sent. Says whether the request goes ahead alone.
    fn admit(&mut self, now: Instant) -> Result<bool, Duration> {
        let Some(until) = self.closed_until else {
            return Ok(false);
        };
        if now < until {
            return Err(until - now);
        }
        match self.trying_since {
            Some(since) if now < since + TRYING => Err(WHILE_TRYING),
            Some(_) | None => {
                self.trying_since = Some(now);
                Ok(true)
            }
        }
    }

    fn look(&self, now: Instant) -> Option<Duration> {
        self.clone().admit(now).err()
    }

    fn answered(&mut self, pushed_back: bool, asked: Option<Duration>, ahead: bool, now: Instant) {
        if !pushed_back {
            *self = Self::default();
            return;
        }
        // Those that were under way when it was decided say nothing new.
        if self.closed_until.is_some() && !ahead {
            return;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row < IN_A_ROW {
            return;
        }
        let doubled = FIRST.saturating_mul(1 << (self.in_a_row - IN_A_ROW).min(8));
        let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
        self.closed_until = Some(now + doubled.min(LONGEST).max(asked));
        self.trying_since = None;
    }

    /// A request that went ahead ended without an answer.
    fn unanswered(&mut self) {
        self.trying_since = None;
    }
}

/// The states of all groups.
#[derive(Default)]
pub(super) struct Pressures(Mutex<BTreeMap<(bool, String), Pressure>>);

/// The state of one group. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Pressure {
    /// What it is about, for people.
    what: Arc<str>,
    state: Arc<Mutex<State>>,
}

/// Whether a request may be sent.
pub(super) enum Verdict {
    Passed(Attempt),
    /// Not for this long.
    Refused(Duration),
}

/// A request on its way.
pub(super) struct Attempt {
    pressure: Pressure,
    ahead: bool,
}

impl Pressures {
    /// The group of a request.
    pub(super) fn of(&self, kind: Kind, path: &str) -> Pressure {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind.reads(), kind::group(path).to_owned());
        if !groups.contains_key(&key) && groups.len() >= MOST_GROUPS {
            groups.clear();
        }
        let group = groups.entry(key).or_insert_with_key(|(reads, group)| {
            let verb = if *reads { "reading" } else { "writing" };
            let group = if group.is_empty() {
                "the core group"
            } else {
                group
            };
            Pressure {
                what: format!("{verb} of {group}").into(),
                state: Arc::default(),
            }
        });
        group.clone()
    }
}

impl Pressure {
    /// For how long nothing is sent, if so.
    pub(super) fn closed_for(&self) -> Option<Duration> {
        self.state().look(Instant::now())
    }

    /// A request is about to be sent.
    pub(super) fn begin(&self) -> Verdict {
        match self.state().admit(Instant::now()) {
            Ok(ahead) => Verdict::Passed(Attempt {
                pressure: self.clone(),
                ahead,
            }),
            Err(wait) => Verdict::Refused(wait),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// The server has answered.
    pub(super) fn answered(&self, status: StatusCode, retry_after: Option<u64>) {
        let pushed_back = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT
        );
        let asked = retry_after.map(Duration::from_secs);
        let (before, after) = {
            let mut state = self.pressure.state();
            let before = state.closed_until.is_some();
            state.answered(pushed_back, asked, self.ahead, Instant::now());
            (before, state.closed_until.is_some())
        };
        let what = &self.pressure.what;
        match (before, after) {
            (false, true) => tracing::warn!(
                "the API server has too much to do ({status}); {what} waits and is tried now and then"
            ),
            (true, false) => tracing::info!("the API server answers again; {what} goes on"),
            (true, true) | (false, false) => {}
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.ahead {
            self.pressure.state().unanswered();
        }
    }
}

/// The answer to a request that is not sent, worded as the server words it.
pub(super) fn refusal(wait: Duration) -> Response<CountedBody> {
    let seconds = wait.as_secs() + 1;
    let text = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"the API server is overloaded (it answered 429 or 504 again and again); this was not sent, and may be after {seconds} s","reason":"TooManyRequests","details":{{"retryAfterSeconds":{seconds}}},"code":429}}"#
    );
    let mut response = Response::new(CountedBody::text(text));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What is sent in ten minutes to a server that pushes back all the time, if somebody asks every
    /// tenth of a second.
    fn sent(asked: Option<Duration>) -> usize {
        let begun = Instant::now();
        let (mut state, mut sent) = (State::default(), 0);
        for tenth in 0..6_000 {
            let now = begun + tenth * SECOND / 10;
            if let Ok(ahead) = state.admit(now) {
                sent += 1;
                state.answered(true, asked, ahead, now);
            }
        }
        sent
    }

    #[tokio::test(start_paused = true)]
    async fn f3_a_server_that_pushes_back_gets_a_trickle() {
        // Three that are let through, then a second, two, four and eight of silence.
        assert!((70..=85).contains(&sent(None)), "{}", sent(None));
        let slow = sent(Some(20 * SECOND));
        assert!((30..=40).contains(&slow), "{slow}");
        let capped = sent(Some(Duration::from_hours(1)));
        assert!((20..=30).contains(&capped), "{capped}");
    }

    #[tokio::test(start_paused = true)]
    async fn f3_single_refusals_change_nothing_and_one_answer_opens_everything() {
        let now = Instant::now();
        let mut state = State::default();
        for _ in 0..50 {
            for _ in 0..IN_A_ROW - 1 {
                assert_eq!(state.admit(now), Ok(false));
                state.answered(true, None, false, now);
            }
            state.answered(false, None, false, now);
        }
        for _ in 0..IN_A_ROW {
            state.answered(true, None, false, now);
        }
        assert_eq!(state.admit(now), Err(FIRST));
        // What was under way is not counted again.
        state.answered(true, None, false, now);
        assert_eq!(state.admit(now), Err(FIRST));
        let later = now + FIRST;
        assert_eq!(state.admit(later), Ok(true), "one goes ahead");
        assert_eq!(state.admit(later), Err(WHILE_TRYING));
        state.unanswered();
        assert_eq!(state.admit(later), Ok(true), "the next one");
        state.answered(true, None, true, later);
        assert_eq!(state.admit(later), Err(2 * FIRST));
        assert_eq!(state.admit(later + 2 * FIRST), Ok(true));
        state.answered(false, None, true, later);
        assert_eq!(state, State::default());
        assert_eq!(state.admit(later), Ok(false));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_ends_does_not_stop_the_others_for_ever() {
        let now = Instant::now();
        let mut state = State::default();
        for _ in 0..IN_A_ROW {
            state.answered(true, None, false, now);
        }
        assert_eq!(state.admit(now + FIRST), Ok(true));
        assert!(state.admit(now + FIRST + TRYING / 2).is_err());
        assert_eq!(state.admit(now + FIRST + TRYING), Ok(true));
    }

    #[test]
    fn groups_are_counted_apart() {
        let pressures = Pressures::default();
        let broken = pressures.of(Kind::Read, "/apis/metrics.k8s.io/v1beta1/pods");
        for _ in 0..IN_A_ROW {
            let Verdict::Passed(attempt) = broken.begin() else {
                panic!("refused");
            };
            attempt.answered(StatusCode::GATEWAY_TIMEOUT, None);
        }
        assert!(broken.closed_for().is_some());
        let watch = pressures.of(Kind::Watch, "/apis/metrics.k8s.io/v1beta1/nodes");
        assert!(watch.closed_for().is_some());
        for (kind, path) in [
            (Kind::Read, "/apis/apps/v1/deployments"),
            (Kind::Read, "/api/v1/secrets"),
            (Kind::Write, "/apis/metrics.k8s.io/v1beta1/pods"),
        ] {
            assert!(pressures.of(kind, path).closed_for().is_none(), "{path}");
        }
    }
}
