//! Authority and serving certificate of the webhooks, kept in one Secret that all replicas share.
//!
//! ```text
//!            ┌──────────── 2/3 of its life ─────────────┐
//!            v                                          │
//! Replace ─> Keep ─ 2/3 of the authority's life ─> Announce ─ settled ─> Switch ─ settled ─> Retire ─> Keep
//!            │ ^                                   both trusted        both trusted      one trusted
//!            └─┴─ Renew: 2/3 of the certificate's life
//! ```
//!
//! Whoever comes first writes; the others find that there is nothing left to do. A new authority is
//! trusted by the API server before anything is served from it, and the old one until nothing is
//! served from it any more, so no admission fails on the way.
//!
//! | Module | Its one job |
//! | --- | --- |
//! | `content` | the Secret as values, and whether they belong together |
//! | `decide` | what to do next: a pure function of time, content and names |
//! | `make` | doing it: keys and certificates |
//! | `validity` | from when until when a certificate holds |

mod content;
mod decide;
mod make;
mod validity;

use std::time::Duration;

pub use self::{
    content::{Content, Pair, Unusable},
    decide::{Step, Unfit, decide},
    make::{MakeError, take},
    validity::Validity,
};

/// How far certificates begin in the past: clocks of API servers and replicas may differ by less.
pub const BACKDATED: Duration = Duration::from_hours(3);

/// For how long things hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// A serving certificate.
    pub serving: Duration,
    /// An authority.
    pub authority: Duration,
    /// How long it may take until every API server and every replica has seen a change.
    pub settling: Duration,
}

impl Terms {
    /// The terms for serving certificates that live this long.
    pub fn of(serving: Duration) -> Self {
        Self {
            serving,
            authority: serving * 4,
            settling: (serving / 10).min(Duration::from_hours(1)),
        }
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self::of(Duration::from_hours(90 * 24))
    }
}

#[cfg(test)]
mod tests;
