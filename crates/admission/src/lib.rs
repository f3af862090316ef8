//! Admission: what the API server is answered when somebody writes one of our objects.
//!
//! ```text
//! body ─ review ─> request ─ judge ─> judgement ─ review ─> answer
//!                               ^
//!            settings, knowledge┘
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`hooks`] | which webhooks there are: kinds, paths, names; the configuration that registers them |
//! | [`review`] | `AdmissionReview` v1: read a request, write an answer |
//! | [`mod@judge`] | whether an object may be stored, and what deserves attention |
//! | [`knowledge`] | what a judgement may ask about the cluster, and that it may not be known |
//! | [`authorship`] | what the author of a target must be allowed to read |
//! | [`certificates`] | authority and serving certificate: when to make which anew |
//!
//! Everything here is pure but for the making of keys: no network, no clock. Rules are those of
//! [`kollect_api::rules`]; nothing is decided here that `kollect validate` would decide otherwise.

pub mod authorship;
pub mod certificates;
pub mod hooks;
pub mod judge;
pub mod knowledge;
pub mod review;

pub use self::{
    judge::{Denied, Judgement, judge},
    knowledge::{Found, Knowledge, NotKnown},
    review::{Request, ReviewError},
};
