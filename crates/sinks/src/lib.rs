//! Where rows go.
//!
//! A [`Sink`] takes the rows of inventories and makes its backend hold exactly them: all rows at
//! first contact, changes afterwards if it can. Everything that backends have in common is here
//! once: what a delivery is, which credentials feed which backend, the guarded way to a server,
//! trust in certificates, and what may appear in an error text.
//!
//! ```text
//! KollectDatabaseSink … ─> spec ──┐
//! Secrets ──> credentials ────────┼─> backend ─> Sink ─> deliver / retire / probe
//! address policy ─> dial, tls ────┘
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`sink`] | the trait, deliveries and receipts |
//! | [`error`] | what can go wrong, with its class |
//! | [`secret`], [`credentials`] | secret values that cannot be printed; which Secret feeds which backend |
//! | [`identity`] | who a sink, or this process itself, is to a cloud |
//! | [`redact`] | what may leave in an error text |
//! | [`dial`], [`tls`], [`http`] | the only way to a server |
//! | `pool` | connections that sinks on one backend share |
//! | [`backend`] | the registry of backends; from a description and credentials to a sink |
//! | [`events`] | rows as messages: keys, bodies, headers, differences |
//! | [`layout`] | rows as files: formats, paths, indexes |
//! | [`memory`] | a sink without a backend, the reference for all others |
//! | [`postgres`], [`mongo`], [`bigquery`], [`git`], [`kafka`], [`nats`], [`objects`] | the backends |

pub mod backend;
#[cfg(feature = "bigquery")]
pub mod bigquery;
mod census;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod credentials;
#[cfg(any(feature = "bigquery", feature = "mongodb", feature = "postgres"))]
mod database;
pub mod dial;
pub mod error;
#[cfg(any(feature = "kafka", feature = "nats"))]
pub mod events;
#[cfg(feature = "git")]
pub mod git;
pub mod http;
pub mod identity;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod layout;
pub mod memory;
#[cfg(feature = "mongodb")]
pub mod mongo;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "object-store")]
pub mod objects;
#[cfg(any(feature = "git", feature = "postgres"))]
mod percent;
#[cfg(any(feature = "bigquery", feature = "postgres"))]
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
mod pool;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod redact;
pub mod secret;
mod share;
pub mod sink;
pub mod tls;

pub use census::Census;
pub use error::SinkError;
pub use sink::{
    AttributeTypes, Delivery, DeliveryRows, Demand, DocumentOptions, Place, ReadBack, Receipt,
    Sink, Skipped, Why,
};
