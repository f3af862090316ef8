//! What a bucket holds, as the layout asks for it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use object_store::UpdateVersion;
use tokio::runtime::Handle;

use super::{bucket::Bucket, store::Expected};
use crate::{
    error::SinkError,
    layout::{Held, RepoPath},
};

/// Most bytes of an object that is read: records and manifests are small.
pub(super) const LARGEST_READ: usize = 4 << 20;
/// Most objects that a listing is followed for.
const LONGEST_LIST: usize = 100_000;

/// Looks at a bucket from a thread that may wait, and remembers which versions it read.
pub(super) struct View<'b> {
    bucket: &'b Bucket,
    runtime: Handle,
    versions: Mutex<BTreeMap<RepoPath, UpdateVersion>>,
}

impl<'b> View<'b> {
    pub(super) fn new(bucket: &'b Bucket, runtime: Handle) -> Self {
        Self {
            bucket,
            runtime,
            versions: Mutex::default(),
        }
    }

    /// What was there, of everything that was read.
    pub(super) fn into_versions(self) -> Versions {
        Versions(
            self.versions
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// Which versions of objects a plan was made from.
#[derive(Debug, Default)]
pub(super) struct Versions(BTreeMap<RepoPath, UpdateVersion>);

impl Versions {
    /// What has to be there still when an object is written.
    pub(super) fn expected(&self, path: &RepoPath) -> Expected {
        let version = self.0.get(path).cloned();
        version.map_or(Expected::Absent, Expected::Version)
    }

    /// Remembers what was written since.
    pub(super) fn wrote(&mut self, path: &RepoPath, version: UpdateVersion) {
        self.0.insert(path.clone(), version);
    }
}

impl Held for View<'_> {
    fn read(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, SinkError> {
        let read = self
            .runtime
            .block_on(self.bucket.read(path, LARGEST_READ))?;
        let Some((bytes, version)) = read else {
            return Ok(None);
        };
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.insert(path.clone(), version);
        Ok(Some(bytes))
    }

    /// Objects say what they hold in their metadata; the time in them is not looked at.
    fn beginning(&self, _: &RepoPath) -> Result<Option<Vec<u8>>, SinkError> {
        Ok(None)
    }

    fn contains(&self, path: &RepoPath) -> Result<bool, SinkError> {
        Ok(self.runtime.block_on(self.bucket.find(path))?.is_some())
    }

    fn is_directory(&self, directory: &str) -> Result<bool, SinkError> {
        let found = self.runtime.block_on(self.bucket.list(directory, 0))?;
        Ok(!found.is_empty())
    }

    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, SinkError> {
        let list = self.bucket.list(directory, LONGEST_LIST);
        let found = self.runtime.block_on(list)?;
        if found.len() > LONGEST_LIST {
            return Err(SinkError::terminal(format!(
                "{:?}: there are more than {LONGEST_LIST} objects below {directory}; use a bucket or \
                 a prefix that fewer inventories share",
                self.bucket
            )));
        }
        Ok(found)
    }
}
