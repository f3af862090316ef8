//! Objects of whatever size a server made them, up to a point.

use std::cell::Cell;

use git2::{Oid, Repository};

use super::Directory;
use crate::git::{error::GitError, limits::LARGEST_FILE};

/// Bytes of memory that the directories may take that somebody looked into; a million files or so.
/// A repository whose directories contain each other would otherwise never end.
const MOST_DIRECTORIES: u64 = 192 << 20;
/// Bytes of files that may be read to make one commit.
const MOST_READ: u64 = 1 << 30;
/// What an entry of a directory takes beside its name.
const ENTRY: u64 = 100;

/// Reads objects of whatever size a server made them, up to a point.
pub(super) struct Reader<'r> {
    pub(super) repository: &'r Repository,
    /// What may still be spent on directories.
    directories: Cell<u64>,
    /// What may still be read of files.
    files: Cell<u64>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(repository: &'r Repository) -> Self {
        Self {
            repository,
            directories: Cell::new(MOST_DIRECTORIES),
            files: Cell::new(MOST_READ),
        }
    }

    fn size(&self, id: Oid) -> Result<u64, GitError> {
        let (size, _) = self.repository.odb()?.read_header(id)?;
        if size as u64 > LARGEST_FILE {
            return Err(GitError::excess(
                "an object of the repository",
                LARGEST_FILE,
            ));
        }
        Ok(size as u64)
    }

    pub(super) fn directory(&self, id: Oid) -> Result<Directory, GitError> {
        let spend = |cost: u64| {
            let left = self.directories.get().checked_sub(cost);
            self.directories.set(left.ok_or_else(|| {
                GitError::excess("the directories of the repository", MOST_DIRECTORIES)
            })?);
            Ok::<(), GitError>(())
        };
        spend(self.size(id)?)?;
        let tree = self.repository.find_tree(id)?;
        spend(tree.len() as u64 * ENTRY)?;
        Ok(Directory::of(id, &tree))
    }

    pub(super) fn file(&self, id: Oid) -> Result<Vec<u8>, GitError> {
        let left = self.files.get().checked_sub(self.size(id)?);
        self.files
            .set(left.ok_or_else(|| GitError::excess("what has to be read", MOST_READ))?);
        Ok(self.repository.find_blob(id)?.content().to_vec())
    }
}
