//! The API server as Kollect reads it: watches, discovery and access reviews.
//!
//! Everything that reads from a cluster goes through here: the collection of rows, the operator's
//! own configuration, the one look of the command line.
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`discovery`] | which resource serves a kind |
//! | [`access`] | where a resource may be read |
//! | [`connection`] | the way to the API server: few connections, few requests at a time |
//! | the rest | one list and watch of one resource, decoded straight from the byte stream |
//!
//! A [`WatchSource`] reads all objects of a [`WatchSubject`] and then their changes, hands each one decoded
//! to its [`Consumer`], and keeps nothing: no cache, no copy, at most one line of the stream. It
//! owns every reconnection, so that its consumer sees one endless sequence of [`WatchDelivery`] values
//! and has to know only their contract.
//!
//! ```text
//! bytes ─ lines / page ─ event ─ Decode ─ Consumer
//!            source: opens requests, reads, waits
//!            course: decides what to ask next and how long to wait (pure)
//! ```
//!
//! * [`Decode`] is what a consumer makes of an object's bytes. It can be exchanged while the
//!   source runs, which reads all objects again.
//! * [`ApiServer`] remembers what the API server can do, for all sources together.
//! * [`WatchSettings`] are sizes and deadlines, [`WatchCounters`] what happened.

pub mod access;
mod backoff;
pub mod connection;
mod counters;
mod course;
mod decode;
mod delivery;
pub mod discovery;
mod event;
mod handle;
mod identity;
mod lines;
mod page;
mod refusal;
mod request;
mod resource;
mod scope;
mod server;
mod settings;
mod source;

pub use backoff::Backoff;
pub use counters::{ListingCause, WatchCounters};
pub use decode::{Decode, DecodeError, Decoded};
pub use delivery::{Consumer, Interruption, InterruptionClass, Unreadable, WatchDelivery};
pub use handle::{WatchEnded, WatchHandle};
pub use identity::ObjectIdentity;
pub use request::{ObjectContent, WatchSubject};
pub use resource::Resource;
pub use scope::WatchScope;
pub use server::ApiServer;
pub use settings::{ListingMode, WatchSettings};
pub use source::{View, WatchSource};
