//! A watch that runs, and one that waits for its successor.

use kollect_watch::{Interruption, Resource, View, WatchHandle};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kollect_expr::ReadSet;

use super::WatchState;
use super::feeds::Feeds;
use super::numbered_projection::NumberedProjection;
use crate::plan::Watch;

/// What a dispatcher tells of its watch.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The newest projection through which a whole listing was seen; 0 for none.
    listed_through: AtomicU64,
    interruption: Mutex<Option<Interruption>>,
}

impl Progress {
    pub(super) fn listed(&self, projection: u64) {
        self.listed_through
            .fetch_max(projection.max(1), Ordering::AcqRel);
    }

    /// Remembers why nothing arrives. Returns whether that is news.
    pub(super) fn interrupt(&self, interruption: Option<Interruption>) -> bool {
        let mut known = self
            .interruption
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let class = |known: &Option<Interruption>| known.as_ref().map(|known| known.class);
        let news = class(&known) != class(&interruption);
        *known = interruption;
        news
    }
}

/// A watch that runs.
pub(super) struct Running {
    pub(super) resource: Arc<Resource>,
    pub(super) handle: WatchHandle<NumberedProjection>,
    pub(super) view: View<NumberedProjection>,
    pub(super) progress: Arc<Progress>,
    pub(super) feeds: Arc<Feeds>,
}

impl Running {
    /// Whether everything in `reads` is visible.
    pub(super) fn shows(&self, reads: &ReadSet) -> bool {
        self.view.decoder.shows(reads)
    }

    /// Looks through another projection from now on, beginning with a new listing.
    pub(super) fn show(&mut self, view: View<NumberedProjection>) {
        self.view = view.clone();
        self.handle.show(view);
    }

    /// Whether a listing through the present projection is still under way.
    pub(super) fn lists_with_new_lens(&self) -> bool {
        self.progress.listed_through.load(Ordering::Acquire) < self.view.decoder.number()
    }

    /// Whether a list that runs beside a watch has ended.
    pub(super) fn is_through(&self) -> bool {
        self.handle.is_finished()
    }

    pub(super) fn state(&self, watch: &Watch) -> WatchState {
        let interruption = &self.progress.interruption;
        WatchState {
            watch: watch.clone(),
            listed: self.progress.listed_through.load(Ordering::Acquire) > 0,
            interruption: interruption
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            counters: Arc::clone(self.handle.counters()),
        }
    }
}

/// A watch that others replace.
pub(super) struct Closing {
    pub(super) running: Running,
    pub(super) replaced_by: Vec<Watch>,
}

impl Closing {
    /// Whether all successors have listed, so that this watch is needed no more.
    pub(super) fn is_replaced(&self, running: &BTreeMap<Watch, Running>) -> bool {
        self.replaced_by.iter().all(|watch| {
            running
                .get(watch)
                .is_none_or(|run| !run.lists_with_new_lens())
        })
    }
}
