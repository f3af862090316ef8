//! What all messages of one inventory have in common, and the keys of its rows.

use std::{borrow::Cow, sync::Arc};

use kollect_api::{InventoryId, identity::InventoryScope};

use super::{header_text, item::Item};

/// The second segment of a cluster inventory's keys. No namespace can look like this: a percent sign
/// in a segment is always followed by the two digits of an escape.
const CLUSTER: &str = "%cluster";

/// One inventory of one cluster, as a stream knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub(super) cluster: String,
    pub(super) inventory: InventoryId,
    /// The first three segments of every key.
    prefix: String,
    /// `source` of CloudEvents.
    uri: Arc<str>,
}

impl Source {
    /// The inventory of a cluster, by the cluster's name as the sink has it.
    pub fn new(cluster: &str, inventory: &InventoryId) -> Self {
        let namespace = match &inventory.scope {
            InventoryScope::Namespace(namespace) => escaped(namespace),
            InventoryScope::Cluster => Cow::Borrowed(CLUSTER),
        };
        let prefix = [escaped(cluster), namespace, escaped(&inventory.name)].join("/");
        Source {
            cluster: cluster.to_owned(),
            inventory: inventory.clone(),
            uri: format!("/kollect/{}", header_text(&prefix)).into(),
            prefix,
        }
    }

    /// The first three segments of every key: the key of what is about the inventory as a whole.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What `source` of CloudEvents says; equal for messages of this inventory and no other.
    pub fn uri(&self) -> &Arc<str> {
        &self.uri
    }

    /// The inventory.
    pub fn inventory(&self) -> &InventoryId {
        &self.inventory
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The namespace as messages show it.
    pub(super) fn namespace(&self) -> &str {
        match &self.inventory.scope {
            InventoryScope::Namespace(namespace) => namespace,
            InventoryScope::Cluster => "cluster",
        }
    }

    /// Whose inventory it is, as messages show it.
    pub(super) fn scope(&self) -> &'static str {
        match &self.inventory.scope {
            InventoryScope::Namespace(_) => "namespace",
            InventoryScope::Cluster => "cluster",
        }
    }

    /// The key of a row: the ten segments that identify it. Without uid, so that an object that is
    /// deleted and created again keeps its key.
    pub fn key(&self, item: &Item<'_>) -> String {
        let mut key = self.prefix.clone();
        for segment in segments(item) {
            key.push('/');
            key.push_str(&escaped(segment));
        }
        key
    }

    /// What a key of this inventory is about; nothing if it is no such key.
    pub fn item_of_key(&self, key: &str) -> Option<Item<'static>> {
        let rest = key.strip_prefix(&*self.prefix)?.strip_prefix('/')?;
        let mut segments = rest.split('/').map(unescaped);
        let mut next = || segments.next().flatten().map(Cow::Owned);
        let item = Item {
            target_namespace: next()?,
            target_name: next()?,
            group: next()?,
            version: next()?,
            kind: next()?,
            namespace: next()?,
            name: next()?,
            uid: None,
        };
        segments.next().is_none().then_some(item)
    }

    /// `subject` of CloudEvents: the last five segments of the key.
    pub(super) fn subject(item: &Item<'_>) -> String {
        let [_, _, about @ ..] = segments(item);
        header_text(&about.map(escaped).join("/"))
    }
}

/// The segments of a key that say which row it is, in order.
fn segments<'i>(item: &'i Item<'_>) -> [&'i str; 7] {
    [
        &item.target_namespace,
        &item.target_name,
        &item.group,
        &item.version,
        &item.kind,
        &item.namespace,
        &item.name,
    ]
}

/// One segment of a key.
fn escaped(segment: &str) -> Cow<'_, str> {
    if segment.contains(['%', '/']) {
        Cow::Owned(segment.replace('%', "%25").replace('/', "%2F"))
    } else {
        Cow::Borrowed(segment)
    }
}

/// What a segment stands for; nothing if no escaping leads to it.
fn unescaped(segment: &str) -> Option<String> {
    let mut pieces = segment.split('%');
    let mut text = pieces.next()?.to_owned();
    for piece in pieces {
        let (sign, rest) = match piece.as_bytes() {
            [b'2', b'5', ..] => ('%', &piece[2..]),
            [b'2', b'F', ..] => ('/', &piece[2..]),
            _ => return None,
        };
        text.push(sign);
        text.push_str(rest);
    }
    Some(text)
}
