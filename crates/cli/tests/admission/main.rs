//! Admission through a real API server that calls the built program over TLS.
//!
//! One API server for all cases. Each case has webhooks of its own, which are asked about objects
//! that carry its label, so cases do not meet although cluster kinds have no namespaces.

mod authors;
mod certificates;
mod requests;
mod stage;
mod stored;
mod validate;
mod vectors;

/// The vectors of the API, read where they are.
#[path = "../../../api/tests/it/vectors.rs"]
#[allow(dead_code, reason = "other programs use the rest")]
mod data;
