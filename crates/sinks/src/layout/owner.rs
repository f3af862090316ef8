//! Who writes files, and what they may take from others.

use std::collections::BTreeSet;

use kollect_api::InventoryId;

use super::area::Areas;
use super::ownership::Record;
use crate::census::Census;

/// Who writes files: one inventory, through one sink, from one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOwner {
    /// The sink, as `<namespace>.<name>`; a namespace has no dot, so there is no other reading.
    pub sink: String,
    /// The cluster's name.
    pub cluster: String,
    /// The inventory.
    pub inventory: InventoryId,
    /// The records of all inventories of the same namespace and the sinks they use, this one
    /// included; nothing if they are not known. Other records of this namespace and cluster belong
    /// to nobody any more.
    pub living: Option<BTreeSet<String>>,
}

impl FileOwner {
    /// An inventory behind a sink.
    pub fn new(
        sink_namespace: &str,
        sink_name: &str,
        cluster: &str,
        inventory: &InventoryId,
    ) -> Self {
        FileOwner {
            sink: format!("{sink_namespace}.{sink_name}"),
            cluster: cluster.to_owned(),
            inventory: inventory.clone(),
            living: None,
        }
    }

    /// The same owner, who knows who else is there.
    #[must_use]
    pub fn among(mut self, census: &Census) -> Self {
        self.living = census.look(|all| {
            all.iter()
                .filter(|(inventory, _)| inventory.scope == self.inventory.scope)
                .map(|(inventory, sink)| {
                    let FileOwner { cluster, .. } = &self;
                    let owner = FileOwner::new(&sink.namespace, &sink.name, cluster, inventory);
                    Record::of(&owner).root().to_owned()
                })
                .collect()
        });
        self
    }

    /// Whether this owner may have a path that is in another's record: because the other is no more,
    /// or because it is in a place of this one's namespace and the other has no business there.
    pub(super) fn may_take(&self, path: &str, other: &Record) -> bool {
        let theirs = other.areas();
        self.is_gone(other)
            || Areas::of(&self.cluster, &self.inventory).contain(path)
                && !theirs.is_some_and(|theirs| theirs.contain(path))
    }

    /// Whether a record belongs to nobody any more. Only records of the same namespace and cluster
    /// can be judged: this process need not see others.
    fn is_gone(&self, other: &Record) -> bool {
        let own = Record::of(self);
        let (Some((ours, _, our_scope)), Some((theirs, _, their_scope))) =
            (own.parts(), other.parts())
        else {
            return false;
        };
        let known = self.living.as_ref();
        ours == theirs
            && our_scope.scope == their_scope.scope
            && known.is_some_and(|living| !living.contains(other.root()))
    }
}
