//! How watches and lists write into the store.

use kollect_watch::{ObjectIdentity, WatchScope};
use std::sync::{Arc, RwLock};

use kollect_inventory::Attributes;

use super::entry::{Content, Outcome, Stamp};
use super::locks::{read, write};
use super::target::TargetRows;
use crate::gates::{PolicyFailures, Version};
use crate::plan::{Epoch, TargetKey};

/// The way from one watch to the rows of one target. Any number of workers may write at once;
/// writes about one object must come in the order in which the watch reported them.
#[derive(Debug)]
pub struct Feed {
    target: Arc<TargetRows>,
    /// What another watch has taken over.
    retired: RwLock<Vec<WatchScope>>,
}

impl Feed {
    pub(super) fn new(target: Arc<TargetRows>) -> Self {
        Feed {
            target,
            retired: RwLock::default(),
        }
    }

    /// Which target is fed.
    pub fn key(&self) -> &TargetKey {
        &self.target.key
    }

    /// The object is collected, with these attributes. If they are those it has already, nothing
    /// changes and nothing is allocated.
    pub fn put(
        &self,
        stamp: Stamp,
        object: ObjectIdentity<&str>,
        attributes: Attributes<'_>,
    ) -> Outcome {
        self.write(stamp, object, None, Content::Row(attributes))
    }

    /// The object exists and is not collected; a row it had goes.
    pub fn skip(&self, stamp: Stamp, object: ObjectIdentity<&str>) -> Outcome {
        self.write(stamp, object, None, Content::Skipped)
    }

    /// The object should be collected, but cannot be extracted: a row it had goes, because
    /// exports never show stale values, and the failure is counted until the object recovers.
    /// The message must hold nothing of the object.
    pub fn fail(&self, stamp: Stamp, object: ObjectIdentity<&str>, message: &str) -> Outcome {
        self.write_failure(stamp, object, None, message)
    }

    /// The object does not exist any more. `version` is that of its deletion.
    pub fn delete(&self, version: Version, object: ObjectIdentity<&str>) -> Outcome {
        let stamp = Stamp {
            epoch: Epoch::default(),
            version,
        };
        self.target
            .note_policies(object, &PolicyFailures::default());
        self.write(stamp, object, None, Content::Deleted)
    }

    /// Counts policies that could not be evaluated on an object, or notes that all could be.
    pub fn note_policies(&self, object: ObjectIdentity<&str>, failures: &PolicyFailures) {
        self.target.note_policies(object, failures);
    }

    /// A list of everything in `scope` begins: the first one of a watch, one after it was broken
    /// off, or one beside it. Until it ends the rows stay as they are.
    pub fn begin_listing(self: &Arc<Self>, scope: WatchScope) -> Listing {
        Listing {
            number: self.target.begin_listing(&scope),
            feed: Arc::clone(self),
            scope,
            ended: false,
        }
    }

    /// Nothing in `scope` can be written through this feed any more; when this returns, nothing is
    /// being written. To be called as soon as another watch has finished its first list of that
    /// scope: from then on what this feed's watch reports, which may be behind, could only do harm.
    pub fn retire(&self, scope: WatchScope) {
        write(&self.retired).push(scope);
        self.target.settle();
    }

    /// Nothing at all can be written through this feed any more.
    pub fn close(&self) {
        self.retire(WatchScope::All);
    }

    /// Whether another watch has taken over the namespace.
    pub(super) fn is_retired(&self, namespace: &str) -> bool {
        read(&self.retired)
            .iter()
            .any(|scope| scope.contains(namespace))
    }

    fn write(
        &self,
        stamp: Stamp,
        object: ObjectIdentity<&str>,
        listing: Option<u32>,
        content: Content<'_>,
    ) -> Outcome {
        self.target.write(self, object, stamp, listing, content)
    }

    fn write_failure(
        &self,
        stamp: Stamp,
        object: ObjectIdentity<&str>,
        listing: Option<u32>,
        message: &str,
    ) -> Outcome {
        let outcome = self.write(stamp, object, listing, Content::Failed);
        if matches!(outcome, Outcome::Changed | Outcome::Unchanged) {
            self.target.note_failure(object, message);
        }
        outcome
    }
}

/// A list under way. Dropping it without finishing abandons it: nothing is swept.
#[derive(Debug)]
pub struct Listing {
    feed: Arc<Feed>,
    number: u32,
    scope: WatchScope,
    ended: bool,
}

impl Listing {
    /// The list shows an object that is collected.
    pub fn put(
        &self,
        stamp: Stamp,
        object: ObjectIdentity<&str>,
        attributes: Attributes<'_>,
    ) -> Outcome {
        let content = Content::Row(attributes);
        self.feed.write(stamp, object, Some(self.number), content)
    }

    /// The list shows an object that is not collected.
    pub fn skip(&self, stamp: Stamp, object: ObjectIdentity<&str>) -> Outcome {
        self.feed
            .write(stamp, object, Some(self.number), Content::Skipped)
    }

    /// The list shows an object that cannot be extracted.
    pub fn fail(&self, stamp: Stamp, object: ObjectIdentity<&str>, message: &str) -> Outcome {
        self.feed
            .write_failure(stamp, object, Some(self.number), message)
    }

    /// Every object of the list has been written. Rows in its scope that it did not show go,
    /// unless they are newer than `version`, the version of the list.
    pub fn finish(mut self, version: Version) {
        self.ended = true;
        let Listing { feed, scope, .. } = &self;
        let retired = read(&feed.retired).clone();
        let over = retired.iter().any(|other| other.covers(scope));
        let at = (!over).then_some(version);
        feed.target.end_listing(self.number, scope, at, &retired);
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        if !self.ended {
            self.feed
                .target
                .end_listing(self.number, &self.scope, None, &[]);
        }
    }
}
