//! What a message is about: a row, or which row is gone.

use std::{borrow::Cow, fmt, str::FromStr};

use kollect_inventory::{
    HeldRows, Row,
    canonical::{self, Out},
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Which row: its identity as messages show it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item<'a> {
    /// Namespace of the target.
    pub target_namespace: Cow<'a, str>,
    /// Name of the target.
    pub target_name: Cow<'a, str>,
    /// Namespace of the object, empty if it has none.
    pub namespace: Cow<'a, str>,
    /// Name of the object.
    pub name: Cow<'a, str>,
    /// API group of the object, empty for the core group.
    #[serde(default)]
    pub group: Cow<'a, str>,
    /// API version of the object.
    pub version: Cow<'a, str>,
    /// Kind of the object.
    pub kind: Cow<'a, str>,
    /// Uid of the object, if it is known.
    #[serde(default)]
    pub uid: Option<Cow<'a, str>>,
}

impl<'a> Item<'a> {
    /// The identity of a row.
    pub fn of(row: &'a Row) -> Self {
        let origin = row.origin();
        Item {
            target_namespace: origin.target_namespace().into(),
            target_name: origin.target_name().into(),
            namespace: origin.namespace().into(),
            name: row.name().into(),
            group: origin.group().into(),
            version: origin.version().into(),
            kind: origin.kind().into(),
            uid: Some(row.uid().text().to_string().into()),
        }
    }

    /// What a message that somebody published is about; nothing if its body does not tell.
    pub fn of_body(body: &[u8]) -> Option<Item<'static>> {
        #[derive(Deserialize)]
        struct Body {
            item: Item<'static>,
        }
        let body: Body = serde_json::from_slice(body).ok()?;
        Some(body.item)
    }

    /// Whether it is a row of which nothing is known: such rows stay as they are.
    pub fn is_held(&self, held: &[HeldRows]) -> bool {
        held.iter()
            .any(|held| held.covers(&self.target_name, &self.namespace))
    }

    /// The same, on its own.
    pub fn into_owned(self) -> Item<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Item {
            target_namespace: own(self.target_namespace),
            target_name: own(self.target_name),
            namespace: own(self.namespace),
            name: own(self.name),
            group: own(self.group),
            version: own(self.version),
            kind: own(self.kind),
            uid: self.uid.map(own),
        }
    }

    /// Writes the identity as rows write it, without attributes.
    pub(super) fn write_json(&self, out: &mut impl Out) {
        let mut lead = "{\"";
        let mut member = |name: &str, value: &str| {
            out.put(lead);
            out.put(name);
            out.put("\":");
            canonical::string(out, value);
            lead = ",\"";
        };
        member("targetNamespace", &self.target_namespace);
        member("targetName", &self.target_name);
        member("namespace", &self.namespace);
        member("name", &self.name);
        if !self.group.is_empty() {
            member("group", &self.group);
        }
        member("version", &self.version);
        member("kind", &self.kind);
        if let Some(uid) = &self.uid {
            member("uid", uid);
        }
        out.put("}");
    }
}

impl fmt::Display for Item<'_> {
    /// As people find the object: `kind/namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Item {
            kind,
            namespace,
            name,
            ..
        } = self;
        if namespace.is_empty() {
            write!(f, "{kind}/{name}")
        } else {
            write!(f, "{kind}/{namespace}/{name}")
        }
    }
}

/// What the header `Kollect-Hash` says: the first 8 bytes of the SHA-256 of an item's text, uid and
/// attributes included. The same in every process and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItemHash(pub u64);

impl ItemHash {
    /// The hash of an item's text.
    pub fn of_text(item: &[u8]) -> Self {
        let digest = Sha256::digest(item);
        let (first, _) = digest.split_at(8);
        ItemHash(u64::from_be_bytes(first.try_into().expect("8 bytes")))
    }

    /// The hash of a row; `buffer` is scratch space.
    pub fn of_row(row: &Row, buffer: &mut Vec<u8>) -> Self {
        buffer.clear();
        row.write_json(buffer);
        Self::of_text(buffer)
    }
}

impl fmt::Display for ItemHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A header that is no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no hash of 16 hexadecimal digits")]
pub struct NoHash;

impl FromStr for ItemHash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let hash = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        hash.map(ItemHash).ok_or(NoHash)
    }
}
