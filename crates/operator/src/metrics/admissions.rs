//! What webhooks count, and whether they can be asked.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kollect_collect::engine::Durations;

use super::{catalogue as names, page::Page, passes::BOUNDS};

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The object is stored.
    Allowed,
    /// It is, and something about it deserves attention.
    Warned,
    /// The rules, or the rights of its author, stand against it.
    Denied,
    /// It could not be understood.
    Malformed,
    /// It was not known what to say.
    NotKnown,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Warned => "warned",
            Self::Denied => "denied",
            Self::Malformed => "malformed",
            Self::NotKnown => "not_known",
        }
    }
}

/// Whether webhooks can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum State {
    /// Nobody wants them to be.
    #[default]
    Off,
    /// They wait for this.
    Waiting(String),
    /// They can be, with a certificate that ends then.
    Serving(Option<Timestamp>),
}

/// What webhooks count.
#[derive(Debug)]
pub struct Admissions {
    counts: Mutex<BTreeMap<(&'static str, Outcome), u64>>,
    durations: Durations<11>,
    state: Mutex<State>,
}

impl Default for Admissions {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            durations: Durations::new(BOUNDS),
            state: Mutex::default(),
        }
    }
}

impl Admissions {
    /// A request about an object of this kind was answered.
    pub fn answered(&self, kind: &'static str, outcome: Outcome, took: Duration) {
        *lock(&self.counts).entry((kind, outcome)).or_default() += 1;
        self.durations.observe(took);
    }

    /// There are no webhooks.
    pub fn off(&self) {
        *lock(&self.state) = State::Off;
    }

    /// Webhooks wait for something, unless they serve already.
    pub fn waiting(&self, what: String) {
        *lock(&self.state) = State::Waiting(what);
    }

    /// Webhooks can be asked, with a certificate that ends at this time.
    pub fn serving(&self, until: Option<Timestamp>) {
        *lock(&self.state) = State::Serving(until);
    }

    /// What webhooks wait for, if they do.
    pub fn missing(&self) -> Option<String> {
        match &*lock(&self.state) {
            State::Waiting(what) => Some(what.clone()),
            State::Off | State::Serving(_) => None,
        }
    }

    pub(super) fn write(&self, page: &mut Page) {
        let state = lock(&self.state).clone();
        let enabled = u64::from(state != State::Off);
        page.family(&names::WEBHOOKS_ENABLED).gauge(&[], enabled);
        let ends = page.family(&names::WEBHOOK_CERTIFICATE_END);
        if let State::Serving(Some(until)) = state {
            ends.gauge(&[], u64::try_from(until.as_second()).unwrap_or_default());
        }
        let reviews = page.family(&names::ADMISSION_REVIEWS);
        for ((kind, outcome), count) in &*lock(&self.counts) {
            reviews.counter(&[kind, outcome.as_str()], *count);
        }
        let durations = page.family(&names::ADMISSION_DURATION);
        durations.histogram(&[], &self.durations);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
