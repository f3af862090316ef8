//! Editing the files of a commit without checking them out.
//!
//! Directories are read when somebody looks into them and written when something below them
//! changed, so one changed file costs one file and the directories above it, however many others
//! there are.

use std::{
    cell::Cell,
    collections::{BTreeMap, btree_map::Entry as MapEntry},
    rc::Rc,
};

use git2::{ObjectType, Oid, Repository};

use super::{error::GitError, limits::LARGEST_FILE, pack::PackWriter};
use crate::layout::path::LONGEST_PATH;

const FILE: i32 = 0o100_644;
const EXECUTABLE: i32 = 0o100_755;
const DIRECTORY: i32 = 0o040_000;

/// Bytes of memory that the directories may take that somebody looked into; a million files or so.
/// A repository whose directories contain each other would otherwise never end.
const MOST_DIRECTORIES: u64 = 192 << 20;
/// Bytes of files that may be read to make one commit.
const MOST_READ: u64 = 1 << 30;
/// What an entry of a directory takes beside its name.
const ENTRY: u64 = 100;

/// The files of a commit, being changed.
pub(super) struct Files<'r> {
    reader: Rc<Reader<'r>>,
    root: Directory,
}

/// Reads objects of whatever size a server made them, up to a point.
struct Reader<'r> {
    repository: &'r Repository,
    /// What may still be spent on directories.
    directories: Cell<u64>,
    /// What may still be read of files.
    files: Cell<u64>,
}

impl<'r> Reader<'r> {
    fn new(repository: &'r Repository) -> Self {
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

    fn directory(&self, id: Oid) -> Result<Directory, GitError> {
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

    fn file(&self, id: Oid) -> Result<Vec<u8>, GitError> {
        let left = self.files.get().checked_sub(self.size(id)?);
        self.files
            .set(left.ok_or_else(|| GitError::excess("what has to be read", MOST_READ))?);
        Ok(self.repository.find_blob(id)?.content().to_vec())
    }
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Stage {
        directory: tempfile::TempDir,
        repository: Repository,
    }

    impl Stage {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let repository = Repository::init_bare(directory.path()).unwrap();
            Self {
                directory,
                repository,
            }
        }

        fn blob(&self, content: &str) -> Oid {
            self.repository.blob(content.as_bytes()).unwrap()
        }

        /// Edits a tree; returns the new one and the number of objects it took.
        fn edit(
            &self,
            tree: Option<Oid>,
            edit: impl FnOnce(&mut Files<'_>) -> Result<(), GitError>,
        ) -> Result<(Oid, u32), GitError> {
            let mut files = Files::open(&self.repository, tree)?;
            edit(&mut files)?;
            let mut pack = PackWriter::create(self.directory.path())?;
            let id = files.write(&mut pack)?;
            let pack = pack.finish()?;
            pack.store(&self.repository.odb()?)?;
            Ok((id, pack.objects()))
        }

        /// The paths of a tree, by libgit2's own walk.
        fn paths(&self, tree: Oid) -> Vec<String> {
            let mut paths = Vec::new();
            let tree = self.repository.find_tree(tree).unwrap();
            tree.walk(git2::TreeWalkMode::PreOrder, |above, entry| {
                if entry.kind() == Some(ObjectType::Blob) {
                    paths.push(format!("{above}{}", entry.name().unwrap()));
                }
                0
            })
            .unwrap();
            paths.sort();
            paths
        }
    }

    #[test]
    fn one_changed_file_costs_its_directories_only() {
        let stage = Stage::new();
        let (one, two) = (stage.blob("one"), stage.blob("two"));
        let (tree, _) = stage
            .edit(None, |files| {
                for n in 0..50 {
                    files.put(&format!("c/ns-{}/kind/{n}.yaml", n % 5), one)?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(stage.paths(tree).len(), 50);
        let (changed, objects) = stage
            .edit(Some(tree), |files| {
                assert!(files.put("c/ns-3/kind/3.yaml", two)?);
                assert!(!files.put("c/ns-4/kind/4.yaml", one)?);
                assert!(!files.remove("c/ns-4/kind/none.yaml")?);
                Ok(())
            })
            .unwrap();
        // kind, ns-3, c and the root.
        assert_eq!(objects, 4);
        assert_eq!(stage.paths(changed).len(), 50);
        let (same, objects) = stage
            .edit(Some(tree), |files| {
                files.put("c/ns-3/kind/3.yaml", one).map(drop)
            })
            .unwrap();
        assert_eq!((same, objects), (tree, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Any sequence of edits, written now and then, leads to the tree that libgit2 sees.
        #[test]
        fn edits_lead_to_the_files_of_a_plain_map(
            steps in prop::collection::vec(
                (0_u8..3, 0_u8..3, 0_u8..4, prop::option::of(0_u8..5), prop::bool::weighted(0.2)),
                1..60,
            )
        ) {
            let stage = Stage::new();
            let mut expected = std::collections::BTreeMap::new();
            let mut tree = None;
            for batch in steps.chunk_by(|_, next| !next.4) {
                let edited = stage.edit(tree, |files| {
                    for (a, b, c, content, _) in batch {
                        let path = format!("d{a}/e{b}/f{c}.yaml");
                        match content {
                            Some(content) => {
                                let id = stage.blob(&content.to_string());
                                let changed = expected.insert(path.clone(), id) != Some(id);
                                assert_eq!(files.put(&path, id)?, changed);
                            }
                            None => {
                                let there = expected.remove(&path).is_some();
                                assert_eq!(files.remove(&path)?, there);
                            }
                        }
                    }
                    Ok(())
                });
                tree = Some(edited.unwrap().0);
            }
            let paths: Vec<String> = expected.keys().cloned().collect();
            prop_assert_eq!(stage.paths(tree.unwrap()), paths);
            let mut files = Files::open(&stage.repository, tree).unwrap();
            for (path, id) in expected {
                prop_assert_eq!(files.get(&path).unwrap(), Some(id));
            }
        }
    }

    #[test]
    fn empty_directories_go_and_order_is_gits() {
        let stage = Stage::new();
        let one = stage.blob("one");
        let (tree, _) = stage
            .edit(None, |files| {
                for path in ["a", "a.b/x", "a0", "b/c/d", "b.c", "b0"] {
                    files.put(path, one)?;
                }
                files.remove("b/c/d")?;
                files.put("b", one)?;
                files.remove("a")?;
                files.put("a/x", one)?;
                Ok(())
            })
            .unwrap();
        // libgit2 refuses look-ups in trees that are out of order.
        let found = stage.repository.find_tree(tree).unwrap();
        for path in ["a.b/x", "a/x", "a0", "b", "b.c", "b0"] {
            assert!(found.get_path(path.as_ref()).is_ok(), "{path}");
        }
        assert_eq!(stage.paths(tree).len(), 6);
        let (empty, _) = stage
            .edit(Some(tree), |files| {
                for path in ["a.b/x", "a/x", "a0", "b", "b.c", "b0"] {
                    assert!(files.remove(path)?);
                }
                Ok(())
            })
            .unwrap();
        assert!(stage.paths(empty).is_empty());
    }

    /// Thirty directories that each contain the next one thirty times: a few kilobytes, and more
    /// files than there are atoms.
    #[test]
    fn a5_directories_that_contain_each_other_have_an_end() {
        let stage = Stage::new();
        let mut inner = stage.blob("leaf");
        let mut mode = FILE;
        for _ in 0..30 {
            let mut builder = stage.repository.treebuilder(None).unwrap();
            for n in 0..30 {
                builder.insert(format!("d{n}"), inner, mode).unwrap();
            }
            (inner, mode) = (builder.write().unwrap(), DIRECTORY);
        }
        let mut files = Files::open(&stage.repository, Some(inner)).unwrap();
        let error = files.below("").unwrap_err();
        assert!(matches!(error, GitError::Excess { .. }), "{error:?}");
    }

    #[test]
    fn links_are_replaced_but_never_followed() {
        let stage = Stage::new();
        let one = stage.blob("one");
        let link = stage.blob("elsewhere");
        let mut builder = stage.repository.treebuilder(None).unwrap();
        builder.insert("link", link, 0o120_000).unwrap();
        builder.insert("file", one, 0o100_644).unwrap();
        let tree = builder.write().unwrap();
        let (changed, _) = stage
            .edit(Some(tree), |files| {
                assert_eq!(files.get("link")?, None);
                assert!(files.put("link", one)?);
                Ok(())
            })
            .unwrap();
        let entry = stage.repository.find_tree(changed).unwrap();
        assert_eq!(entry.get_name("link").unwrap().filemode(), FILE);
        for path in ["link/x", "file/x"] {
            let error = stage.edit(Some(tree), |files| files.put(path, one).map(drop));
            assert!(matches!(error, Err(GitError::Configuration(_))), "{path}");
        }
        let error = stage.edit(Some(tree), |files| {
            files.put("d/x", one)?;
            files.put("d", one).map(drop)
        });
        assert!(error.is_err());
    }

    #[test]
    fn harmful_paths_are_refused() {
        let stage = Stage::new();
        let one = stage.blob("one");
        for path in [
            "",
            "/a",
            "a//b",
            "../a",
            "a/./b",
            ".git/hooks/x",
            "a/.GIT/x",
            "a\\b",
            "a\nb",
            "a.",
            "a /b",
        ] {
            let error = stage.edit(None, |files| files.put(path, one).map(drop));
            assert!(matches!(error, Err(GitError::Configuration(_))), "{path:?}");
        }
    }
}
