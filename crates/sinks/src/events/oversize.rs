//! Rows that are too large for the server.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use kollect_api::InventoryId;

use crate::sink::{Skipped, Why};

use super::item::Item;

/// Which rows of which inventories were not published because of their size. A delivery of changes
/// looks at few rows, and its receipt speaks of all.
#[derive(Debug, Default)]
pub struct Oversize(Mutex<BTreeMap<InventoryId, Rows>>);

/// Keys of rows, and what people call them.
type Rows = BTreeMap<String, String>;

/// What one delivery found out about sizes.
#[derive(Debug, Default)]
pub struct Sizes {
    fitting: Vec<String>,
    too_large: Rows,
}

impl Sizes {
    /// The message with this key fits, or its row is gone.
    pub fn fits(&mut self, key: &str) {
        self.fitting.push(key.to_owned());
    }

    /// The message with this key is too large.
    pub fn too_large(&mut self, key: &str, item: &Item<'_>) {
        self.too_large.insert(key.to_owned(), item.to_string());
    }
}

impl Oversize {
    /// Whether any row of an inventory is remembered: if none is, what fits need not be told.
    pub fn is_empty(&self, inventory: &InventoryId) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !all.contains_key(inventory)
    }

    /// Learns from a delivery of all rows: what it did not find too large is not.
    pub fn all(&self, inventory: &InventoryId, sizes: Sizes, limit: u64) -> Option<Skipped> {
        self.change(inventory, limit, |rows| *rows = sizes.too_large)
    }

    /// Learns from a delivery of changes.
    pub fn changes(&self, inventory: &InventoryId, sizes: Sizes, limit: u64) -> Option<Skipped> {
        self.change(inventory, limit, |rows| {
            for key in &sizes.fitting {
                rows.remove(key);
            }
            rows.extend(sizes.too_large);
        })
    }

    /// The inventory is no more.
    pub fn forget(&self, inventory: &InventoryId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(inventory);
    }

    fn change(
        &self,
        inventory: &InventoryId,
        limit: u64,
        change: impl FnOnce(&mut Rows),
    ) -> Option<Skipped> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = all.entry(inventory.clone()).or_default();
        change(rows);
        let skipped = rows.values().min().map(|first| Skipped {
            rows: rows.len() as u64,
            first: first.clone(),
            why: Why::TooLarge { limit },
        });
        all.retain(|_, rows| !rows.is_empty());
        skipped
    }
}
