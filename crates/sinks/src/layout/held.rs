//! What is there already.

use std::collections::BTreeMap;

use super::path::RepoPath;
use crate::error::SinkError;

/// What a repository holds before it is written to.
pub trait Held {
    /// The bytes of a file, if there is one.
    fn read(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, SinkError>;

    /// Whether there is such a file.
    fn contains(&self, path: &RepoPath) -> Result<bool, SinkError>;

    /// The files below a directory, at any depth; none if there is no such directory. Names that
    /// are no [`RepoPath`] are left out: nobody here wrote them.
    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, SinkError>;
}

/// A place of which nothing is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nothing;

impl Held for Nothing {
    fn read(&self, _: &RepoPath) -> Result<Option<Vec<u8>>, SinkError> {
        Ok(None)
    }

    fn contains(&self, _: &RepoPath) -> Result<bool, SinkError> {
        Ok(false)
    }

    fn below(&self, _: &str) -> Result<Vec<RepoPath>, SinkError> {
        Ok(Vec::new())
    }
}

/// Files in memory.
impl Held for BTreeMap<RepoPath, Vec<u8>> {
    fn read(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, SinkError> {
        Ok(self.get(path).cloned())
    }

    fn contains(&self, path: &RepoPath) -> Result<bool, SinkError> {
        Ok(self.contains_key(path))
    }

    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, SinkError> {
        let inside = |path: &&RepoPath| path.directories().any(|parent| parent == directory);
        Ok(self.keys().filter(inside).cloned().collect())
    }
}
