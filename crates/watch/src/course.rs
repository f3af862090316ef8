//! What to ask next, and how to go on after an answer: the decisions of a source, without I/O.

use std::time::Duration;

use super::backoff::about;
use super::counters::ListingCause;
use super::delivery::{Interruption, InterruptionClass};
use super::refusal::{Kind, Refusal};
use super::settings::{ListingMode, WatchSettings};

/// After so many streamed listings that broke off in a row, the next one is paged: a page that
/// arrived need not be read again.
const STREAMED_TRIES: u32 = 2;

/// Where a source is.
#[derive(Debug)]
pub(super) struct Course {
    settings: WatchSettings,
    /// The version up to which everything is delivered. None while a listing is due or running.
    position: Option<String>,
    listing: Running,
    /// Why the next listing is made.
    cause: ListingCause,
    /// Tries that failed in a row.
    failures: u32,
    /// Times in a row that history was gone before any change arrived.
    expiries: u32,
    /// Streamed listings in a row that broke off.
    unfinished: u32,
}

/// The listing that is due or running.
#[derive(Debug, Default)]
struct Running {
    /// Whether the consumer knows of it.
    started: bool,
    /// Whether it was asked for as a stream.
    streamed: bool,
    /// The page to ask for.
    token: Option<String>,
    /// All in one answer, because the listing before was too slow in pages: they expired under way,
    /// or the changes since its first page did.
    whole: bool,
}

/// The next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    StreamedListing,
    Page {
        limit: Option<u32>,
        token: Option<String>,
    },
    Changes {
        version: String,
    },
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// A page arrived completely.
    PageRead,
    /// The server closed the stream in good order.
    Closed,
    /// Nothing arrived for too long.
    Silent,
    /// The connection could not be made or broke.
    Broken(String),
    /// The server said no, at once or in the stream.
    Refused(Refusal),
    /// What arrived makes no sense.
    Garbled(String),
    /// Decoder or consumer panicked.
    Panicked,
    /// Somebody asked for a new listing.
    Recalled,
}

/// How to go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Reaction {
    /// Before the next request.
    pub(super) wait: Duration,
    /// What to tell the consumer.
    pub(super) interruption: Option<Interruption>,
    /// Whether this server has no streamed listings for this resource.
    pub(super) streaming_refused: bool,
}

impl Course {
    pub(super) fn new(settings: WatchSettings) -> Self {
        Self {
            settings,
            position: None,
            listing: Running::default(),
            cause: ListingCause::Initial,
            failures: 0,
            expiries: 0,
            unfinished: 0,
        }
    }

    /// The next request; `streaming` is whether the server may be asked for a streamed listing.
    pub(super) fn next(&mut self, streaming: bool) -> Step {
        self.listing.streamed = false;
        if let Some(version) = &self.position {
            return Step::Changes {
                version: version.clone(),
            };
        }
        // A stream has no gap between its objects and the changes that follow.
        let preferred = self.settings.listing == ListingMode::Streamed || self.listing.whole;
        if preferred && streaming && self.unfinished < STREAMED_TRIES {
            self.listing.streamed = true;
            return Step::StreamedListing;
        }
        Step::Page {
            limit: (!self.listing.whole).then_some(self.settings.page_size),
            token: self.listing.token.clone(),
        }
    }

    /// An answer begins to arrive. If that begins a listing, says why it is made; a further page
    /// of one is no beginning.
    pub(super) fn listing_arrives(&mut self) -> Option<ListingCause> {
        if !self.is_listing() || self.listing.started {
            return None;
        }
        self.listing.started = true;
        Some(self.cause)
    }

    /// Whether a listing is due or running.
    pub(super) fn is_listing(&self) -> bool {
        self.position.is_none()
    }

    /// A page arrived and there is another.
    pub(super) fn page_follows(&mut self, token: String) {
        self.listing.token = Some(token);
    }

    /// All objects have been delivered.
    pub(super) fn listing_finished(&mut self, version: String) {
        self.position = Some(version);
        self.listing = Running::default();
        self.unfinished = 0;
    }

    /// Everything up to this version has been delivered. Objects of a listing come in no order,
    /// so they say nothing; neither does an object without a version.
    pub(super) fn reached(&mut self, version: String) {
        if let Some(position) = self.position.as_mut().filter(|_| !version.is_empty()) {
            *position = version;
            self.expiries = 0;
        }
    }

    /// How to go on. `steady` is whether the request got anywhere before it ended.
    pub(super) fn after(&mut self, ending: Ending, steady: bool, random: f64) -> Reaction {
        if steady {
            self.failures = 0;
        }
        match ending {
            Ending::PageRead => Reaction::default(),
            Ending::Recalled => {
                self.restart(ListingCause::Requested);
                // An answer to a request that nobody wants any more says nothing about this one.
                self.failures = 0;
                Reaction::default()
            }
            // Servers end streams after a while; nothing is wrong then.
            Ending::Closed | Ending::Silent if steady && !self.is_listing() => Reaction::default(),
            Ending::Closed => self.broke("the API server closed the stream early", random),
            Ending::Silent => self.broke("the API server does not answer", random),
            Ending::Broken(problem) => self.broke(&problem, random),
            Ending::Garbled(problem) => {
                self.restart(ListingCause::Garbled);
                self.back_off(InterruptionClass::Garbled, problem, Duration::ZERO, random)
            }
            Ending::Panicked => {
                self.restart(ListingCause::Garbled);
                let problem = "an object could not be taken in (a panic; see the log)".to_owned();
                self.back_off(InterruptionClass::Garbled, problem, Duration::ZERO, random)
            }
            Ending::Refused(refusal) => self.refused(&refusal, random),
        }
    }

    fn refused(&mut self, refusal: &Refusal, random: f64) -> Reaction {
        let kind = refusal.kind();
        if kind == Kind::Invalid && self.listing.streamed {
            let whole = self.listing.whole;
            self.restart(ListingCause::Unfinished);
            self.listing.whole = whole;
            return Reaction {
                streaming_refused: true,
                ..Reaction::default()
            };
        }
        let Refusal { code, message, .. } = refusal;
        let message = format!("{code}: {message}");
        let patience = refusal.retry_after.unwrap_or_default();
        match kind {
            // Who asks is not known, so what was learned before stays true.
            Kind::Unauthenticated => {
                self.note_unfinished();
                self.wait_slowly(InterruptionClass::Unauthenticated, message, random)
            }
            Kind::Forbidden => {
                self.restart(ListingCause::Forbidden);
                self.wait_slowly(InterruptionClass::Forbidden, message, random)
            }
            Kind::NotInstalled => {
                self.restart(ListingCause::NotInstalled);
                self.wait_slowly(InterruptionClass::NotInstalled, message, random)
            }
            Kind::Invalid | Kind::Rejected => {
                self.restart(ListingCause::Rejected);
                self.wait_slowly(InterruptionClass::Rejected, message, random)
            }
            Kind::Expired => self.expired(message, random),
            Kind::Throttled => {
                self.note_unfinished();
                self.back_off(InterruptionClass::Throttled, message, patience, random)
            }
            Kind::Unavailable => {
                self.note_unfinished();
                self.back_off(InterruptionClass::Unavailable, message, patience, random)
            }
        }
    }

    /// History is gone. The first time that is a matter of course; a server that says so again
    /// and again gets time.
    fn expired(&mut self, message: String, random: f64) -> Reaction {
        let mid_listing = self.listing.token.is_some();
        self.restart(ListingCause::Expired);
        self.expiries += 1;
        self.listing.whole = mid_listing || self.expiries > 1;
        self.failures += 1;
        let wait = match self.expiries {
            0 | 1 => Duration::ZERO,
            again => self.settings.backoff.wait(again - 1, random),
        };
        self.interrupt(InterruptionClass::Expired, message, wait)
    }

    fn broke(&mut self, problem: &str, random: f64) -> Reaction {
        self.note_unfinished();
        self.back_off(
            InterruptionClass::Unavailable,
            problem.to_owned(),
            Duration::ZERO,
            random,
        )
    }

    /// A listing that broke off begins again, unless it can go on with the page it was at: pages
    /// after the first show the state of the first. Going on in any other way would mix two
    /// states, and an object that was deleted in between would count as seen.
    fn note_unfinished(&mut self) {
        let running = self.is_listing() && self.listing.started;
        if !running || self.listing.token.is_some() {
            return;
        }
        if self.listing.streamed {
            self.unfinished += 1;
        }
        let whole = self.listing.whole;
        self.restart(ListingCause::Unfinished);
        self.listing.whole = whole;
    }

    fn restart(&mut self, cause: ListingCause) {
        // A listing that never began to arrive is still due for its first cause.
        if self.position.is_some() || self.listing.started {
            self.cause = cause;
        }
        self.position = None;
        self.listing = Running::default();
    }

    fn wait_slowly(&mut self, class: InterruptionClass, message: String, random: f64) -> Reaction {
        self.failures += 1;
        self.interrupt(class, message, about(self.settings.slow_retry, random))
    }

    fn back_off(
        &mut self,
        class: InterruptionClass,
        message: String,
        least: Duration,
        random: f64,
    ) -> Reaction {
        self.failures += 1;
        let wait = self.settings.backoff.wait(self.failures, random);
        self.interrupt(class, message, wait.max(least))
    }

    fn interrupt(&self, class: InterruptionClass, message: String, wait: Duration) -> Reaction {
        Reaction {
            wait,
            interruption: Some(Interruption {
                class,
                retry_in: wait,
                failures: self.failures,
                message,
            }),
            streaming_refused: false,
        }
    }
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
