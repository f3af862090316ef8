//! From the objects of a cluster to rows.
//!
//! ```text
//!  bytes ─> projection ─> decoded object ─> extract ─> attributes of a row ─> series
//!              ^                              │ helm_release, prune, redact
//!              └────────── reads ─────────────┘
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`projection`], [`decode`] | decode only what is read of an object |
//! | [`extract`] | a compiled profile: object in, attributes of the row out |
//! | [`helm_release`] | the release document inside a Secret of Helm |
//! | [`prune`] | the copy of the object in a row: what is kept and what is removed |
//! | `guard` | what expressions do not get to see of an object |
//! | [`redact`] | nothing under a sensitive key is written |
//! | [`series`] | the metrics of a profile, computed from its rows |
//! | [`plan`] | what to collect: targets, scopes and namespaces become watches and gates |
//! | [`gates`] | whether a target takes an object, and why not |
//! | [`gather`] | what an object is to a target, and the rows of one listing |
//! | [`inventory_rows`] | which targets and namespaces an inventory takes |
//! | [`store`] | all rows, for many writers and readers that miss nothing |
//! | [`engine`] | the running collection: watches that follow a plan and write rows |
//!
//! Reading from the API server is the job of [`kollect_watch`].

pub mod decode;
pub mod engine;
pub mod extract;
pub mod gates;
pub mod gather;
mod guard;
pub mod helm_release;
pub mod inventory_rows;
pub mod plan;
pub mod projection;
pub mod prune;
pub mod redact;
pub mod series;
pub mod store;

pub use decode::{DecodeError, DecodedObject, ObjectType};
pub use extract::{ExtractError, Extractor};
pub use projection::Projection;
pub use redact::ScrubKeys;
pub use series::Series;
