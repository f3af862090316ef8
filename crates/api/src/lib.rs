//! The eleven kinds of `kollect.dev/v1alpha1`: types, schemas, defaults and the rule library.
//!
//! Everything that Kollect promises about its API is here and nowhere else:
//!
//! * the types, one module per kind, whose schemas become the CRDs ([`crd`]);
//! * the shared words: [`condition`], [`mod@reference`], [`selector`], [`duration`], [`meta`];
//! * [`identity`]: which inventory and which sink is meant;
//! * [`effective`]: which value is in force when several places may set it;
//! * [`rules`]: what makes an object valid, alone and under the scopes around it. Webhook, command
//!   line and reconcilers call the same functions;
//! * [`address`]: which network addresses a sink may be reached at, for admission and dialling.
//!
//! The crate is pure: no I/O, no clock, no async, no client.

pub mod address;
pub mod condition;
pub mod connection_test;
pub mod crd;
pub mod duration;
pub mod effective;
pub mod gvk;
pub mod identity;
pub mod inventory;
pub mod meta;
pub mod names;
pub mod profile;
pub mod reference;
pub mod rights;
pub mod rules;
pub mod schema;
pub mod scope;
pub mod selector;
pub mod sink;
pub mod target;
pub mod visible;

pub use connection_test::{KollectConnectionTest, KollectConnectionTestSpec};
pub use duration::Duration;
pub use gvk::GroupVersionKind;
pub use identity::{InventoryId, InventoryScope, SinkKey};
pub use inventory::{
    KollectClusterInventory, KollectClusterInventorySpec, KollectInventory, KollectInventorySpec,
};
pub use profile::{KollectProfile, KollectProfileSpec};
pub use scope::{KollectClusterScope, KollectClusterScopeSpec, KollectScope, KollectScopeSpec};
pub use sink::{
    KollectDatabaseSink, KollectDatabaseSinkSpec, KollectEventSink, KollectEventSinkSpec,
    KollectSnapshotSink, KollectSnapshotSinkSpec,
};
pub use target::{
    KollectClusterTarget, KollectClusterTargetSpec, KollectTarget, KollectTargetSpec,
};
