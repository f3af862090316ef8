//! Who is meant: inventories and sinks as values.
//!
//! Identity travels as these values through every room, never inside a path or a text.

use std::fmt;

use crate::{
    reference::{SinkFamily, SinkRef},
    rules::Object,
};

/// Which inventory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InventoryId {
    /// Whose inventory it is.
    pub scope: InventoryScope,
    /// `metadata.name`.
    pub name: String,
}

/// Whose inventory it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InventoryScope {
    /// A `KollectInventory` in this namespace.
    Namespace(String),
    /// A `KollectClusterInventory`.
    Cluster,
}

impl InventoryId {
    /// A `KollectInventory`.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            scope: InventoryScope::Namespace(namespace.into()),
            name: name.into(),
        }
    }

    /// A `KollectClusterInventory`.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            scope: InventoryScope::Cluster,
            name: name.into(),
        }
    }

    /// The namespace as columns, keys and paths show it. Cluster inventories stand under the word
    /// `cluster`; a namespace that is really called so stands under a word that no namespace can
    /// have, so that neither ever touches the other's rows and files.
    pub fn namespace(&self) -> &str {
        match &self.scope {
            InventoryScope::Namespace(namespace) if namespace == "cluster" => "namespace/cluster",
            InventoryScope::Namespace(namespace) => namespace,
            InventoryScope::Cluster => "cluster",
        }
    }
}

impl fmt::Display for InventoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            InventoryScope::Namespace(namespace) => write!(f, "{namespace}/{}", self.name),
            InventoryScope::Cluster => f.write_str(&self.name),
        }
    }
}

/// Which sink: names are unique within a family and a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SinkKey {
    /// The family, which decides the kind.
    pub family: SinkFamily,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SinkKey {
    /// A sink by its family, namespace and name.
    pub fn new(family: SinkFamily, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            family,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object, if it is a sink.
    pub fn of(object: &Object) -> Option<Self> {
        let family = match object {
            Object::SnapshotSink(_) => SinkFamily::Snapshot,
            Object::DatabaseSink(_) => SinkFamily::Database,
            Object::EventSink(_) => SinkFamily::Event,
            _ => return None,
        };
        Some(Self::new(family, object.namespace(), object.name()))
    }

    /// The key within an inventory, such as `database/warehouse`: what `status.sinkExports` says.
    pub fn within_inventory(&self) -> String {
        format!("{}/{}", self.family, self.name)
    }
}

impl fmt::Display for SinkKey {
    /// As people find it: `KollectDatabaseSink team-a/warehouse`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            namespace,
            name,
        } = self;
        write!(f, "{} {namespace}/{name}", family.kind())
    }
}

/// The sinks an inventory is delivered to, with what it says about them.
pub fn sink_refs(object: &Object) -> Vec<(SinkKey, &SinkRef)> {
    let named =
        |family, namespace: &str, sink: &SinkRef| SinkKey::new(family, namespace, sink.name.trim());
    match object {
        Object::Inventory(inventory) => inventory
            .spec
            .all_sink_refs()
            .map(|(family, sink)| (named(family, object.namespace(), sink), sink))
            .collect(),
        Object::ClusterInventory(inventory) => inventory
            .spec
            .all_sink_refs()
            .map(|(family, sink)| {
                let namespace = inventory.spec.namespace_of(sink);
                (named(family, namespace, sink), sink)
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b12_a_namespace_called_cluster_is_not_the_cluster() {
        let namespaces = [
            InventoryId::cluster("web"),
            InventoryId::namespaced("cluster", "web"),
            InventoryId::namespaced("team-a", "web"),
        ]
        .map(|inventory| inventory.namespace().to_owned());
        assert_eq!(namespaces, ["cluster", "namespace/cluster", "team-a"]);
    }
}
