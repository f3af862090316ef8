//! What lists the files of an inventory's newest complete set.
//!
//! It is written last. A reader that starts here finds files that belong together, and can tell by
//! tag and digest whether one of them has been replaced since.

use jiff::Timestamp;
use kollect_api::{InventoryId, InventoryScope};
use kollect_inventory::SCHEMA_VERSION;
use serde::{Deserialize, Serialize};

use super::types::TypedColumn;

/// The content of `latest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Latest {
    pub(super) schema_version: String,
    pub(super) cluster: String,
    pub(super) inventory: Of,
    pub(super) generation: i64,
    pub(super) exported_at: String,
    pub(super) rows: u64,
    /// Of all rows.
    pub(super) checksum: String,
    pub(super) files: Vec<Listed>,
    /// The typed columns that files have or had: they are never given another type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) columns: Vec<TypedColumn>,
}

/// Which inventory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Of {
    /// `Namespaced` or `Cluster`.
    pub(super) scope: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Of {
    pub(super) fn inventory(inventory: &InventoryId) -> Self {
        let (scope, namespace) = match &inventory.scope {
            InventoryScope::Namespace(namespace) => ("Namespaced", namespace.as_str()),
            InventoryScope::Cluster => ("Cluster", ""),
        };
        Self {
            scope: scope.to_owned(),
            namespace: namespace.to_owned(),
            name: inventory.name.clone(),
        }
    }
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    /// Beside the manifest.
    pub(super) path: String,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) etag: Option<String>,
}

impl Latest {
    /// The manifest of a set.
    pub(super) fn new(
        cluster: &str,
        inventory: &InventoryId,
        generation: i64,
        at: Timestamp,
        checksum: String,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            cluster: cluster.to_owned(),
            inventory: Of::inventory(inventory),
            generation,
            exported_at: at.to_string(),
            rows: 0,
            checksum,
            files: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Reads a manifest. What is none of ours is no manifest, and is replaced.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Its text.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Whether it says the same as another, whenever that was.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let mut same_time = other.clone();
        same_time.exported_at.clone_from(&self.exported_at);
        *self == same_time
    }

    /// What it says of a file.
    pub(super) fn file(&self, name: &str) -> Option<&Listed> {
        self.files.iter().find(|file| file.path == name)
    }
}
