//! Who is there to own something at a sink.
//!
//! Files in a shared repository belong to an inventory and the sink that it uses. That ends when
//! either is no more, and nobody may be there to say so at the time: a sink that was deleted cannot
//! be cleaned up. So those who come later ask here.

use std::{
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

use kollect_api::{InventoryId, SinkKey};

/// Which inventories use which sinks, as far as this process knows. At first it knows nothing, and
/// then nobody is taken to be gone.
#[derive(Debug, Default)]
pub struct Census(RwLock<Option<BTreeSet<(InventoryId, SinkKey)>>>);

impl Census {
    /// Learns all inventories and the sinks that they refer to; nothing if not all of them are
    /// known.
    pub fn learn(&self, all: Option<BTreeSet<(InventoryId, SinkKey)>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Looks at everybody, if everybody is known.
    pub fn look<T>(&self, look: impl FnOnce(&BTreeSet<(InventoryId, SinkKey)>) -> T) -> Option<T> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.as_ref().map(look)
    }
}
