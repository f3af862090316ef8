//! Editing the files of a commit without checking them out.
//!
//! Directories are read when somebody looks into them and written when something below them
//! changed, so one changed file costs one file and the directories above it, however many others
//! there are.

mod reader;

use std::{
    collections::{BTreeMap, btree_map::Entry as MapEntry},
    rc::Rc,
};

use git2::{ObjectType, Oid, Repository};

use self::reader::Reader;
use super::{error::GitError, pack::PackWriter};
use crate::layout::path::LONGEST_PATH;

const FILE: i32 = 0o100_644;
const EXECUTABLE: i32 = 0o100_755;
const DIRECTORY: i32 = 0o040_000;

/// The files of a commit, being changed.
pub(super) struct Files<'r> {
    reader: Rc<Reader<'r>>,
    root: Directory,
}

struct Directory {
    /// What is stored of it.
    stored: Option<Oid>,
    entries: BTreeMap<Box<[u8]>, Node>,
    changed: bool,
}

enum Node {
    /// A file, a symbolic link or a submodule.
    Leaf { mode: i32, id: Oid },
    /// A directory nobody has looked into yet.
    Unread(Oid),
    /// A directory that somebody has.
    Read(Directory),
}

impl<'r> Files<'r> {
    /// The files of a tree, or none.
    pub(super) fn open(repository: &'r Repository, tree: Option<Oid>) -> Result<Self, GitError> {
        let reader = Rc::new(Reader::new(repository));
        let root = match tree {
            Some(id) => reader.directory(id)?,
            None => Directory::new(),
        };
        Ok(Self { reader, root })
    }

    /// Whether there is nothing at all, looking only at what was read.
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// The file at a path.
    pub(super) fn get(&mut self, path: &str) -> Result<Option<Oid>, GitError> {
        Ok(self
            .leaf(path)?
            .and_then(|(mode, id)| is_file(mode).then_some(id)))
    }

    /// The content of a file.
    pub(super) fn content(&mut self, path: &str) -> Result<Option<Vec<u8>>, GitError> {
        let Some(id) = self.get(path)? else {
            return Ok(None);
        };
        self.reader.file(id).map(Some)
    }

    /// The names in a directory, files and directories apart; empty if it is not there.
    pub(super) fn list(&mut self, path: &str) -> Result<(Vec<String>, Vec<String>), GitError> {
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        let directory = if path.is_empty() {
            Some(&mut self.root)
        } else {
            let reader = Rc::clone(&self.reader);
            match self.find(path)? {
                Some((above, name)) => above.inner(&reader, name)?,
                None => None,
            }
        };
        for (name, node) in directory.iter().flat_map(|directory| &directory.entries) {
            // Nothing of ours has a name that is no text.
            let Ok(name) = std::str::from_utf8(name) else {
                continue;
            };
            match node {
                Node::Leaf { mode, .. } if is_file(*mode) => files.push(name.to_owned()),
                Node::Leaf { .. } => {}
                Node::Unread(_) | Node::Read(_) => directories.push(name.to_owned()),
            }
        }
        Ok((files, directories))
    }

    /// The paths of all files below a directory. Longer ones than anybody may write are left out.
    pub(super) fn below(&mut self, directory: &str) -> Result<Vec<String>, GitError> {
        let mut found = Vec::new();
        let mut waiting = vec![directory.to_owned()];
        while let Some(directory) = waiting.pop() {
            let (here, deeper) = self.list(&directory)?;
            let full = |name: &String| match directory.as_str() {
                "" => name.clone(),
                above => format!("{above}/{name}"),
            };
            found.extend(here.iter().map(full));
            waiting.extend(
                deeper
                    .iter()
                    .map(full)
                    .filter(|path| path.len() <= LONGEST_PATH),
            );
        }
        Ok(found)
    }

    /// The name of a directory as it is stored; nothing if it is not there, or was changed and not
    /// written yet.
    pub(super) fn directory(&mut self, path: &str) -> Result<Option<Oid>, GitError> {
        let Some((above, name)) = self.find(path)? else {
            return Ok(None);
        };
        Ok(match above.entries.get(name) {
            Some(Node::Unread(id)) => Some(*id),
            Some(Node::Read(inner)) if !inner.changed => inner.stored,
            _ => None,
        })
    }

    /// Whether there is a directory with something in it.
    pub(super) fn is_directory(&mut self, path: &str) -> Result<bool, GitError> {
        let Some((above, name)) = self.find(path)? else {
            return Ok(false);
        };
        Ok(match above.entries.get(name) {
            Some(Node::Unread(_)) => true,
            Some(Node::Read(inner)) => !inner.is_empty(),
            _ => false,
        })
    }

    /// Puts a file at a path; says whether that changed anything.
    pub(super) fn put(&mut self, path: &str, id: Oid) -> Result<bool, GitError> {
        // First only looked at: a file that is there as it should be changes no directory.
        if self.leaf(path)? == Some((FILE, id)) {
            return Ok(false);
        }
        let (directory, name) = self.enter(path)?;
        match directory.entries.entry(name.into()) {
            MapEntry::Vacant(place) => {
                place.insert(Node::Leaf { mode: FILE, id });
            }
            MapEntry::Occupied(mut place) => match place.get() {
                // A symbolic link is replaced like a file, never followed.
                Node::Leaf { .. } => {
                    place.insert(Node::Leaf { mode: FILE, id });
                }
                Node::Read(inner) if inner.is_empty() => {
                    place.insert(Node::Leaf { mode: FILE, id });
                }
                Node::Read(_) | Node::Unread(_) => return Err(in_the_way(path, "a directory")),
            },
        }
        Ok(true)
    }

    /// Removes a file; says whether it was there. Directories that become empty go with it.
    pub(super) fn remove(&mut self, path: &str) -> Result<bool, GitError> {
        if self.leaf(path)?.is_none() {
            return Ok(false);
        }
        let (directory, name) = self.enter(path)?;
        directory.entries.remove(name);
        Ok(true)
    }

    /// What is at a path, if it is no directory.
    fn leaf(&mut self, path: &str) -> Result<Option<(i32, Oid)>, GitError> {
        let Some((above, name)) = self.find(path)? else {
            return Ok(None);
        };
        Ok(match above.entries.get(name) {
            Some(Node::Leaf { mode, id }) => Some((*mode, *id)),
            _ => None,
        })
    }

    /// The directory of a path, made if need be and marked as changed, and the last part of the
    /// path.
    fn enter<'p>(&mut self, path: &'p str) -> Result<(&mut Directory, &'p [u8]), GitError> {
        let mut parts = parts(path)?;
        let name = parts.pop().unwrap_or_default();
        let mut directory = &mut self.root;
        directory.changed = true;
        for part in parts {
            directory = directory.enter(&self.reader, part, path)?;
            directory.changed = true;
        }
        Ok((directory, name.as_bytes()))
    }

    /// Writes what changed and returns the tree.
    pub(super) fn write(&mut self, pack: &mut PackWriter) -> Result<Oid, GitError> {
        match self.root.write(self.reader.repository, pack)? {
            Some(id) => Ok(id),
            // Only a root may be empty.
            None => pack.add(ObjectType::Tree, b""),
        }
    }

    /// The directory that holds a path, if it is there, and the last part of the path.
    fn find<'p>(&mut self, path: &'p str) -> Result<Option<(&mut Directory, &'p [u8])>, GitError> {
        let mut parts = parts(path)?;
        let name = parts.pop().unwrap_or_default();
        let mut directory = &mut self.root;
        for part in parts {
            match directory.inner(&self.reader, part.as_bytes())? {
                Some(inner) => directory = inner,
                None => return Ok(None),
            }
        }
        Ok(Some((directory, name.as_bytes())))
    }
}

impl Directory {
    fn new() -> Self {
        Self {
            stored: None,
            entries: BTreeMap::new(),
            changed: false,
        }
    }

    fn of(id: Oid, tree: &git2::Tree<'_>) -> Self {
        let entries = tree
            .iter()
            .map(|entry| {
                let node = match entry.filemode_raw() {
                    DIRECTORY => Node::Unread(entry.id()),
                    mode => Node::Leaf {
                        mode,
                        id: entry.id(),
                    },
                };
                (entry.name_bytes().into(), node)
            })
            .collect();
        Self {
            stored: Some(id),
            entries,
            changed: false,
        }
    }

    /// Whether nothing is left in it, looking only at what was read.
    fn is_empty(&self) -> bool {
        self.entries
            .values()
            .all(|node| matches!(node, Node::Read(inner) if inner.is_empty()))
    }

    /// A directory in this one, if it is there.
    fn inner(&mut self, reader: &Reader<'_>, name: &[u8]) -> Result<Option<&mut Self>, GitError> {
        let Some(node) = self.entries.get_mut(name) else {
            return Ok(None);
        };
        if let Node::Unread(id) = node {
            *node = Node::Read(reader.directory(*id)?);
        }
        Ok(match node {
            Node::Read(inner) => Some(inner),
            Node::Leaf { .. } | Node::Unread(_) => None,
        })
    }

    /// A directory in this one, made if it is not there.
    fn enter(
        &mut self,
        reader: &Reader<'_>,
        name: &str,
        path: &str,
    ) -> Result<&mut Self, GitError> {
        let node = self
            .entries
            .entry(name.as_bytes().into())
            .or_insert_with(|| Node::Read(Directory::new()));
        if let Node::Unread(id) = node {
            *node = Node::Read(reader.directory(*id)?);
        }
        match node {
            Node::Read(inner) => Ok(inner),
            // Following a link would write somewhere else, replacing a file would lose it.
            Node::Leaf { .. } | Node::Unread(_) => Err(in_the_way(path, "a file or link")),
        }
    }

    /// Writes what changed; nothing if nothing is left.
    fn write(
        &mut self,
        repository: &Repository,
        pack: &mut PackWriter,
    ) -> Result<Option<Oid>, GitError> {
        if let (Some(id), false) = (self.stored, self.changed) {
            return Ok(Some(id));
        }
        let mut entries = Vec::with_capacity(self.entries.len());
        let mut empty = Vec::new();
        for (name, node) in &mut self.entries {
            match node {
                Node::Leaf { mode, id } => entries.push((name, *mode, *id)),
                Node::Unread(id) => entries.push((name, DIRECTORY, *id)),
                Node::Read(inner) => match inner.write(repository, pack)? {
                    Some(id) => entries.push((name, DIRECTORY, id)),
                    None => empty.push(name.clone()),
                },
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        entries.sort_by(|a, b| sort_key(a.0, a.1).cmp(sort_key(b.0, b.1)));
        let mut content = Vec::with_capacity(entries.len() * 48);
        for (name, mode, id) in &entries {
            content.extend_from_slice(format!("{mode:o} ").as_bytes());
            content.extend_from_slice(name);
            content.push(0);
            content.extend_from_slice(id.as_bytes());
        }
        let before = match self.stored {
            Some(id) => Some((id, repository.odb()?.read(id)?.data().to_vec())),
            None => None,
        };
        let before = before
            .as_ref()
            .map(|(id, content)| (*id, content.as_slice()));
        let id = pack.add_after(ObjectType::Tree, &content, before)?;
        for name in empty {
            self.entries.remove(&name);
        }
        self.stored = Some(id);
        self.changed = false;
        Ok(Some(id))
    }
}

/// Git sorts a directory as if its name ended in a slash.
fn sort_key(name: &[u8], mode: i32) -> impl Iterator<Item = u8> {
    let slash = (mode == DIRECTORY).then_some(b'/');
    name.iter().copied().chain(slash)
}

fn is_file(mode: i32) -> bool {
    matches!(mode, FILE | EXECUTABLE)
}

fn in_the_way(path: &str, what: &str) -> GitError {
    GitError::Configuration(format!(
        "cannot write {path:?}: {what} that is not Kollect's is in the way; remove it from the \
         branch or change the path template"
    ))
}

/// The parts of a path. Whoever made the path has seen to it that it is harmless; this is the last
/// gate, because a tree with such a name could harm whoever checks it out.
fn parts(path: &str) -> Result<Vec<&str>, GitError> {
    let parts: Vec<&str> = path.split('/').collect();
    let harmless = |part: &&str| {
        !matches!(*part, "" | "." | "..")
            && !part.eq_ignore_ascii_case(".git")
            && !part.contains(|c: char| c.is_control() || c == '\\')
            && !part.ends_with(['.', ' '])
    };
    if parts.iter().all(harmless) {
        Ok(parts)
    } else {
        Err(GitError::Configuration(format!(
            "{path:?} is no path for a file in a repository"
        )))
    }
}

#[cfg(test)]
mod tests;
