//! Rows and what is done with them: the pure core of an inventory.
//!
//! A **row** is what one target knows about one object: an identity and some attributes. Rows are
//! gathered into **snapshots**, compared into **deltas**, fingerprinted, merged across namespaces
//! and written into **documents**. Nothing here does I/O, looks at a clock or waits; time comes in
//! as a value and text goes out through [`canonical::Out`].
//!
//! ```text
//!  origin, uid ──────> identity ┐     ┌─> delta ──> sinks that take changes
//!  canonical ─> attributes ─────┴> row ─> snapshot ─> envelope ─> sinks that take documents
//!                                  │      ^  │         ^
//!                                  └─> rollup└> split ─┘       read ─> set (consumers)
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`canonical`] | one JSON text per value: writing, scanning, lengths |
//! | [`origin`], [`uid`], [`identity`] | which row a row is, and the order of rows |
//! | [`attributes`] | what is known about an object; names kept apart from values |
//! | [`row`], [`intern`] | one row in one small allocation; what rows share |
//! | [`snapshot`] | all rows at one moment, sorted |
//! | [`delta`] | what changed; how changes pile up |
//! | [`fingerprint`] | digests of content, of part sets and of rollups |
//! | [`rollup`] | rows of many namespaces; one row per object if asked for |
//! | [`envelope`], [`part`], [`split`] | the export document, and several of bounded size |
//! | [`read`], [`set`] | reading documents back; whether a set of parts is complete |
//!
//! Invariants:
//! - A row's attributes are canonical JSON, written once; comparing, hashing and exporting use
//!   those bytes.
//! - Rows are ordered the same way everywhere, and no result depends on the order of its input.
//! - A target and a cluster target never share a row, whatever their names are.
//! - `split` is the only thing that looks at the size of a document, and only if asked to.

pub mod attributes;
pub mod canonical;
pub mod delta;
pub mod envelope;
pub mod fingerprint;
pub mod identity;
pub mod intern;
pub mod origin;
pub mod part;
pub mod read;
pub mod rollup;
pub mod row;
pub mod set;
pub mod snapshot;
pub mod split;
pub mod uid;

pub use attributes::{Attributes, AttributesBuffer};
pub use canonical::{CanonicalJson, CanonicalRef};
pub use delta::{Change, Delta};
pub use envelope::{Document, Pass, SCHEMA_VERSION};
pub use fingerprint::Fingerprint;
pub use identity::Identity;
pub use intern::Interner;
pub use origin::{Origin, OriginParts, Owner};
pub use part::Part;
pub use read::read;
pub use rollup::{Dedupe, Rollup, Shard};
pub use row::{ContentHash, Row};
pub use set::join;
pub use snapshot::Snapshot;
pub use split::{Splitter, parts_digest};
pub use uid::Uid;
