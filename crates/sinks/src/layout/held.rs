//! What is there already.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::path::RepoPath;
use crate::error::SinkError;

/// What a repository holds before it is written to.
pub trait Held {
    /// The bytes of a file, if there is one.
    fn read(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, SinkError>;

    /// How a file begins, for whoever wants to keep the time that stands there. A place that tells
    /// by other means whether a file says the same need not look.
    fn beginning(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, SinkError> {
        self.read(path)
    }

    /// Whether there is such a file.
    fn contains(&self, path: &RepoPath) -> Result<bool, SinkError>;

    /// Whether there is a directory of this name.
    fn is_directory(&self, directory: &str) -> Result<bool, SinkError>;

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

    fn is_directory(&self, _: &str) -> Result<bool, SinkError> {
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

    fn is_directory(&self, directory: &str) -> Result<bool, SinkError> {
        Ok(inside(self, directory).next().is_some())
    }

    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, SinkError> {
        Ok(inside(self, directory).cloned().collect())
    }
}

fn inside<'f>(
    files: &'f BTreeMap<RepoPath, Vec<u8>>,
    directory: &str,
) -> impl Iterator<Item = &'f RepoPath> {
    let prefix = format!("{directory}/");
    files
        .range::<str, _>((Bound::Excluded(prefix.as_str()), Bound::Unbounded))
        .map(|(path, _)| path)
        .take_while(move |path| path.starts_with(&prefix))
}
