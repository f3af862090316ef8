//! Which rows belong to an inventory.

use std::collections::BTreeSet;

use kollect_inventory::{Row, TargetKind};

use crate::plan::TargetKey;

/// The rows of an inventory, by the targets and namespaces they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowSelection {
    /// A `KollectInventory`: the rows of all `KollectTarget`s in its namespace, and of nothing
    /// else. What cluster targets collect there is none of its business.
    Namespace(String),
    /// A `KollectClusterInventory`: the rows of some `KollectClusterTarget`s.
    Cluster {
        /// Names of the targets.
        targets: BTreeSet<String>,
        /// Namespaces whose objects are included. Objects without a namespace always are: no
        /// selection of namespaces says anything about them.
        namespaces: BTreeSet<String>,
    },
}

impl RowSelection {
    /// Whether rows of this target may belong to the inventory.
    pub fn includes_target(&self, key: &TargetKey) -> bool {
        match self {
            RowSelection::Namespace(namespace) => {
                key.owner == TargetKind::Target && *key.namespace == **namespace
            }
            RowSelection::Cluster { targets, .. } => {
                key.owner == TargetKind::ClusterTarget && targets.contains(&*key.name)
            }
        }
    }

    /// Whether a row of an included target belongs to the inventory.
    pub fn includes_row(&self, row: &Row) -> bool {
        self.includes_namespace(row.origin().namespace())
    }

    /// Whether rows of an included target that come from this namespace do.
    pub fn includes_namespace(&self, namespace: &str) -> bool {
        match self {
            RowSelection::Namespace(_) => true,
            RowSelection::Cluster { namespaces, .. } => {
                namespace.is_empty() || namespaces.contains(namespace)
            }
        }
    }
}
