//! Which target.

use std::fmt;
use std::sync::Arc;

use kollect_inventory::TargetKind;

/// Identifies a target. The kind of its owner is part of the key: a namespaced and a cluster
/// target of the same name never meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    /// Which kind of target.
    pub owner: TargetKind,
    /// The target's namespace, empty for cluster targets.
    pub namespace: Arc<str>,
    /// The target's name.
    pub name: Arc<str>,
}

impl TargetKey {
    /// The key of a `KollectTarget`.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        TargetKey {
            owner: TargetKind::Target,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of a `KollectClusterTarget`.
    pub fn cluster(name: &str) -> Self {
        TargetKey {
            owner: TargetKind::ClusterTarget,
            namespace: "".into(),
            name: name.into(),
        }
    }

    /// What rows of this target say as their target namespace: the target's own one or, for a
    /// cluster target, the one the object was found in.
    pub fn row_namespace<'a>(&'a self, object_namespace: &'a str) -> &'a str {
        match self.owner {
            TargetKind::Target => &self.namespace,
            TargetKind::ClusterTarget => object_namespace,
        }
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner {
            TargetKind::Target => write!(f, "KollectTarget {}/{}", self.namespace, self.name),
            TargetKind::ClusterTarget => write!(f, "KollectClusterTarget {}", self.name),
        }
    }
}
