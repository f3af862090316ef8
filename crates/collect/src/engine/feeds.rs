//! What one watch may still write.

use kollect_watch::WatchScope;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::plan::TargetKey;
use crate::store::{Feed, Store};

/// All feeds that one dispatcher was given, and what other watches have taken over from it.
#[derive(Debug, Default)]
pub(super) struct Feeds(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    /// A feed lives as long as its dispatcher or a listing uses it.
    feeds: Vec<Weak<Feed>>,
    retired: Vec<WatchScope>,
}

impl Feeds {
    /// A feed for a target, without what has been taken over already.
    pub(super) fn give(&self, store: &Store, target: &TargetKey) -> Option<Arc<Feed>> {
        let feed = store.feed(target)?;
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for scope in &given.retired {
            feed.retire(scope.clone());
        }
        given.feeds.retain(|feed| feed.strong_count() > 0);
        given.feeds.push(Arc::downgrade(&feed));
        Some(feed)
    }

    /// Another watch has taken over a scope: when this returns, the dispatcher writes nothing in it.
    pub(super) fn retire(&self, scope: &WatchScope) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for feed in given.feeds.iter().filter_map(Weak::upgrade) {
            feed.retire(scope.clone());
        }
        given.retired.push(scope.clone());
    }

    /// The watch is closed: when this returns, the dispatcher writes nothing.
    pub(super) fn close(&self) {
        self.retire(&WatchScope::All);
    }
}
