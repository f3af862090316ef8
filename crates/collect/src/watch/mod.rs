//! One list and watch of one resource, decoded straight from the byte stream.
//!
//! A [`Source`] reads all objects of a [`Subject`] and then their changes, hands each one decoded
//! to its [`Consumer`], and keeps nothing: no cache, no copy, at most one line of the stream. It
//! owns every reconnection, so that its consumer sees one endless sequence of [`Delivery`] values
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
//! * [`Server`] remembers what the API server can do, for all sources together.
//! * [`Settings`] are sizes and deadlines, [`Counters`] what happened.

mod backoff;
mod counters;
mod course;
mod decode;
mod delivery;
mod event;
mod handle;
mod lines;
mod page;
mod refusal;
mod request;
mod server;
mod settings;
mod source;

pub use backoff::Backoff;
pub use counters::{Cause, Counters};
pub use decode::{Decode, DecodeError, Decoded, Identity};
pub use delivery::{Class, Consumer, Delivery, Interruption, Unreadable};
pub use handle::{Ended, Handle};
pub use request::{Content, Scope, Subject};
pub use server::Server;
pub use settings::{Listing, Settings};
pub use source::{Source, View};

pub(crate) use server::chain;
