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
//!                                  └─> rollup└> split ─┘
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
//!
//! From an object to a document, and from a change to a delta:
//!
//! ```
//! use std::sync::Arc;
//! use kollect_inventory::{
//!     AttributesBuffer, Delta, Document, Interner, OriginParts, TargetKind, Pass, Snapshot,
//! };
//!
//! let mut interner = Interner::new();
//! let origin = interner.origin(OriginParts {
//!     owner: TargetKind::Target,
//!     target_namespace: "team-a",
//!     target_name: "deployments",
//!     namespace: "team-a",
//!     group: "apps",
//!     version: "v1",
//!     kind: "Deployment",
//! });
//!
//! // Extraction writes canonical JSON straight into a buffer that it uses again and again.
//! let mut attributes = AttributesBuffer::new();
//! attributes.start().attribute("replicas").signed(2);
//! let two = interner.row(&origin, "api", "uid-abc", attributes.view());
//! attributes.start().attribute("replicas").signed(3);
//! let three = interner.row(&origin, "api", "uid-abc", attributes.view());
//!
//! let (before, after) = (Snapshot::new([two]), Snapshot::new([three]));
//! let delta = Delta::between(&before, &after);
//! assert_eq!(delta.upserts().count(), 1);
//! assert_eq!(before.apply(&delta), after);
//!
//! let pass = Pass::at("2026-01-15T12:00:00Z".parse()?);
//! let document = Document::whole(Arc::new(pass), before);
//! assert_eq!(
//!     document.checksum().to_string(),
//!     "2f200886f0143234b5ca316d0afe302370a44c34549027d0d5dfe24a9acd7d62"
//! );
//! for piece in document.chunks(64 * 1024) {
//!     // Goes to the network; the document is never in memory as a whole.
//! #   drop(piece);
//! }
//! # Ok::<(), jiff::Error>(())
//! ```
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
pub mod rollup;
pub mod row;
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
pub use origin::{Origin, OriginParts, TargetKind};
pub use part::Part;
pub use rollup::{Rollup, Shard};
pub use row::{ContentHash, Row};
pub use snapshot::{HeldRows, Snapshot};
pub use split::{Splitter, parts_digest};
pub use uid::Uid;
