//! A place in a bucket: paths of the layout become keys, and uploads end whatever happens.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use object_store::UpdateVersion;

use super::{
    fault::Refusal,
    store::{Completion, Expected, Found, Label, Part, Store},
};
use crate::{error::SinkError, layout::RepoPath};

/// How long giving up an upload may take; what is left is found by the next delivery.
const GIVING_UP: Duration = Duration::from_secs(20);

/// A place in a bucket.
pub(super) struct Bucket {
    pub(super) store: Box<dyn Store>,
    /// What every key begins with.
    pub(super) prefix: String,
    /// For messages.
    pub(super) shown: String,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// An upload in parts that is neither complete nor given up. Dropping it gives it up.
pub(super) struct Upload {
    bucket: Arc<Bucket>,
    key: String,
    id: Option<String>,
    parts: Vec<String>,
    offset: u64,
    last: Bytes,
}

impl Bucket {
    fn key(&self, path: &str) -> String {
        match &*self.prefix {
            "" => path.to_owned(),
            prefix => format!("{prefix}/{path}"),
        }
    }

    /// The path inside this place, of a key that is inside.
    fn path<'k>(&self, key: &'k str) -> Option<&'k str> {
        match &*self.prefix {
            "" => Some(key),
            prefix => key.strip_prefix(prefix)?.strip_prefix('/'),
        }
    }

    /// What is known of an object; nothing if there is none.
    pub(super) async fn find(&self, path: &RepoPath) -> Result<Option<Found>, SinkError> {
        self.store.find(&self.key(path)).await
    }

    /// The bytes of a small object and which version they are; nothing if there is none.
    pub(super) async fn read(
        &self,
        path: &RepoPath,
        limit: usize,
    ) -> Result<Option<(Vec<u8>, UpdateVersion)>, SinkError> {
        self.store.read(&self.key(path), limit).await
    }

    /// The paths below a directory, at most `limit` and one.
    pub(super) async fn list(
        &self,
        directory: &str,
        limit: usize,
    ) -> Result<Vec<RepoPath>, SinkError> {
        let keys = self.store.list(&self.key(directory), limit).await?;
        let paths = keys.iter().filter_map(|key| self.path(key));
        Ok(paths
            .filter_map(|path| RepoPath::clean(path).ok())
            .collect())
    }

    /// Writes a small object as a whole, if it is still what is expected.
    pub(super) async fn put(
        &self,
        path: &RepoPath,
        bytes: Bytes,
        label: &Label,
        expected: &Expected,
    ) -> Result<UpdateVersion, Refusal> {
        let key = self.key(path);
        self.store.put(&key, bytes, label, expected).await
    }

    /// Removes an object; one that is not there is gone already.
    pub(super) async fn remove(&self, path: &RepoPath) -> Result<(), SinkError> {
        self.store.remove(&self.key(path)).await
    }

    /// A version that no object ever has.
    pub(super) fn no_version(&self) -> Expected {
        Expected::Version(self.store.no_version())
    }

    /// Begins an upload in parts.
    pub(super) async fn begin(
        self: &Arc<Self>,
        path: &RepoPath,
        label: &Label,
        expected: &Expected,
    ) -> Result<Upload, Refusal> {
        let key = self.key(path);
        let id = self.store.begin(&key, label, expected).await?;
        Ok(Upload {
            bucket: Arc::clone(self),
            key,
            id: Some(id),
            parts: Vec::new(),
            offset: 0,
            last: Bytes::new(),
        })
    }

    /// Gives up uploads that an earlier process, or an earlier delivery, left unfinished. Only those
    /// of the given objects: what others upload is theirs.
    pub(super) async fn give_up_leftovers(
        &self,
        is_ours: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<u64, SinkError> {
        let mut count = 0;
        for (key, id) in self.store.unfinished(&self.prefix).await? {
            if self.path(&key).is_some_and(is_ours) {
                self.store.give_up(&key, &id).await?;
                count += 1;
            }
        }
        Ok(count)
    }
}

impl Upload {
    /// Sends the next part; `is_last` if no other comes after it.
    pub(super) async fn part(&mut self, bytes: Bytes, is_last: bool) -> Result<(), SinkError> {
        let store = &self.bucket.store;
        if is_last && store.keeps_last() {
            self.last = bytes;
            return Ok(());
        }
        let Some(id) = &self.id else {
            return Err(SinkError::transient("the upload was given up"));
        };
        let length = bytes.len() as u64;
        let part = Part {
            key: &self.key,
            id,
            number: self.parts.len(),
            offset: self.offset,
            bytes,
        };
        let said = store.part(part).await?;
        self.parts.push(said);
        self.offset += length;
        Ok(())
    }

    /// Makes the object visible, if it is still what is expected.
    pub(super) async fn complete(
        mut self,
        label: &Label,
        expected: &Expected,
    ) -> Result<Option<UpdateVersion>, Refusal> {
        let Some(id) = self.id.clone() else {
            let error = SinkError::transient("the upload was given up");
            return Err(Refusal::Failed(error));
        };
        let completion = Completion {
            key: &self.key,
            id: &id,
            parts: &self.parts,
            offset: self.offset,
            last: std::mem::take(&mut self.last),
            label,
            expected,
        };
        let done = self.bucket.store.complete(completion).await;
        if done.is_ok() {
            self.id = None;
        }
        done
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        let (bucket, key) = (Arc::clone(&self.bucket), std::mem::take(&mut self.key));
        // Nobody waits for it: whoever comes next gives up what is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let given_up = bucket.store.give_up(&key, &id);
                let _ = tokio::time::timeout(GIVING_UP, given_up).await;
            });
        }
    }
}
