//! Any one of the eleven kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::{
    KollectClusterInventory, KollectClusterScope, KollectClusterTarget, KollectConnectionTest,
    KollectDatabaseSink, KollectEventSink, KollectInventory, KollectProfile, KollectScope,
    KollectSnapshotSink, KollectTarget, meta,
};

/// Why a document is not one of our objects.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The document belongs to another API.
    #[error(
        "apiVersion {api_version:?}, kind {kind:?} is not a kind of {}",
        meta::API_VERSION
    )]
    UnknownKind {
        /// What it says of its API.
        api_version: String,
        /// What it says of its kind.
        kind: String,
    },
    /// The document does not have the shape of its kind.
    #[error("{kind} {name:?} cannot be read: {source}")]
    Malformed {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What does not fit.
        source: serde_json::Error,
    },
}

macro_rules! objects {
    ($($variant:ident($kind:ident),)*) => {
        /// An object of one of the eleven kinds.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Object {
            $(#[doc = concat!("A ", stringify!($kind), ".")] $variant($kind),)*
        }

        impl Object {
            /// Reads an object of any of the kinds.
            pub fn from_value(value: Value) -> Result<Self, DecodeError> {
                let text = |pointer: &str| {
                    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                let (api_version, kind, name) =
                    (text("/apiVersion"), text("/kind"), text("/metadata/name"));
                match (api_version.as_str(), kind.as_str()) {
                    $((meta::API_VERSION, stringify!($kind)) => serde_json::from_value(value)
                        .map(Object::$variant)
                        .map_err(|source| DecodeError::Malformed {
                            kind: stringify!($kind), name, source,
                        }),)*
                    _ => Err(DecodeError::UnknownKind { api_version, kind }),
                }
            }

            /// The kind, as in `kind:`.
            pub fn kind(&self) -> &'static str {
                match self { $(Object::$variant(_) => stringify!($kind),)* }
            }

            /// The metadata.
            pub fn metadata(&self) -> &ObjectMeta {
                match self { $(Object::$variant(object) => &object.metadata,)* }
            }

            /// Whether both are of one kind with equal specs.
            pub fn same_spec(&self, other: &Self) -> bool {
                match (self, other) {
                    $((Object::$variant(a), Object::$variant(b)) => a.spec == b.spec,)*
                    _ => false,
                }
            }
        }
    };
}

objects! {
    Profile(KollectProfile),
    Target(KollectTarget),
    ClusterTarget(KollectClusterTarget),
    Inventory(KollectInventory),
    ClusterInventory(KollectClusterInventory),
    SnapshotSink(KollectSnapshotSink),
    DatabaseSink(KollectDatabaseSink),
    EventSink(KollectEventSink),
    Scope(KollectScope),
    ClusterScope(KollectClusterScope),
    ConnectionTest(KollectConnectionTest),
}

impl Object {
    /// The name, empty when there is none yet.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// The namespace, empty for cluster kinds.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }
}
