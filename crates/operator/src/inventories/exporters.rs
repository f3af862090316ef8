//! The exporters of all inventories: one for each, never two.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kollect_api::InventoryId;
use kollect_collect::store::Store;
use kollect_export::Calls;
use tokio::{runtime::Handle, sync::Notify, task::JoinSet};

use super::running::{Planned, Running};

/// The exporters of all inventories.
pub(super) struct Exporters {
    /// Where they run, whoever drives the loop.
    runtime: Handle,
    pub(super) store: Store,
    calls: Arc<Calls>,
    /// Told when one of them has something to report.
    pub(super) news: Arc<Notify>,
    pub(super) running: BTreeMap<InventoryId, Running>,
    /// Those that were told to stop and have a call under way.
    ending: JoinSet<InventoryId>,
    still_ending: BTreeSet<InventoryId>,
}

impl Exporters {
    pub(super) fn new(runtime: Handle, store: Store, calls: Arc<Calls>) -> Self {
        Self {
            runtime,
            store,
            calls,
            news: Arc::default(),
            running: BTreeMap::new(),
            ending: JoinSet::new(),
            still_ending: BTreeSet::new(),
        }
    }

    /// The exporter of an inventory gets its newest order, if there may be one: while an earlier one
    /// of the same name has a call under way, two could undo each other's work.
    pub(super) fn ensure(&mut self, planned: &Arc<Planned>) {
        let id = &planned.subject.id;
        if let Some(running) = self.running.get_mut(id) {
            running.instruct(planned);
        } else if !self.still_ending.contains(id) {
            let running = Running::start(
                planned,
                &self.runtime,
                self.store.clone(),
                Arc::clone(&self.calls),
                Arc::clone(&self.news),
            );
            self.running.insert(id.clone(), running);
        }
    }

    /// Stops the exporter of an inventory. What it has under way may end.
    pub(super) fn end(&mut self, id: &InventoryId) {
        if let Some(running) = self.running.remove(id) {
            running.stop.cancel();
            self.still_ending.insert(id.clone());
            let id = id.clone();
            let ended = async move {
                // Each exporter ends in a bounded time.
                let _ = running.task.await;
                id
            };
            self.ending.spawn_on(ended, &self.runtime);
        }
    }

    /// Waits for an exporter that was told to stop. May be given up at any time.
    pub(super) async fn ended(&mut self) -> InventoryId {
        loop {
            match self.ending.join_next().await {
                Some(Ok(id)) => {
                    self.still_ending.remove(&id);
                    return id;
                }
                // Nothing in there panics.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Stops all and waits for them.
    pub(super) async fn finish(&mut self) {
        let all: Vec<InventoryId> = self.running.keys().cloned().collect();
        for id in all {
            self.end(&id);
        }
        while self.ending.join_next().await.is_some() {}
        self.still_ending.clear();
    }
}

#[cfg(test)]
#[path = "exporters_tests.rs"]
mod tests;
