//! Whose files these are.
//!
//! Inventories, clusters and sinks share repositories, and directories in them. So each of them
//! keeps a record of its own files next to them, and removes nothing that is not in there.
//!
//! ```text
//! .kollect/owners/<cluster>/<sink>/namespaces/<namespace>/<name>/all.paths
//! .kollect/owners/<cluster>/<sink>/cluster/<name>/all.paths
//! ```
//!
//! A record is a sorted list of paths, one per line. It is cut into leaves of at most
//! [`CAPACITY`] paths by the digits of the paths' SHA-256 (`all.paths`, or `0.paths` … `f.paths`,
//! or `0/0.paths` …), so one file more or less rewrites one small leaf, and a changed file none.
//! How a set of paths is cut depends on nothing but the set.

use std::collections::{BTreeMap, BTreeSet};

use kollect_api::{InventoryId, InventoryScope};

use super::area::Areas;
use super::error::LayoutError;
use super::held::Held;
use super::owner::FileOwner;
use super::path::{LONGEST_PATH, RESERVED, RepoPath};
use super::segment::{self, GREATEST_LENGTH, sanitise};
use crate::error::SinkError;

/// Most paths in one leaf.
pub const CAPACITY: usize = 256;

/// Most bytes of a leaf: as many of the longest paths, and some room.
const LARGEST_LEAF: usize = 2 * CAPACITY * LONGEST_PATH;
/// Most bytes of a record; millions of paths.
const LARGEST_RECORD: usize = 256 << 20;

/// The files of one owner, as the repository says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The directory of the record.
    root: String,
}

/// What has to happen to the files of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordEdit {
    /// Leaves with new content.
    pub writes: BTreeMap<RepoPath, Vec<u8>>,
    /// Leaves that are no more.
    pub removals: BTreeSet<RepoPath>,
}

impl Record {
    /// The record of an owner.
    pub fn of(owner: &FileOwner) -> Self {
        let piece = |text: &str| sanitise(text, GREATEST_LENGTH).into_owned();
        let cluster = piece(&owner.cluster);
        let sink = piece(&owner.sink);
        let name = piece(&owner.inventory.name);
        let root = match &owner.inventory.scope {
            InventoryScope::Namespace(namespace) => {
                format!(
                    "{}/{cluster}/{sink}/namespaces/{}/{name}",
                    owners(),
                    piece(namespace)
                )
            }
            InventoryScope::Cluster => format!("{}/{cluster}/{sink}/cluster/{name}", owners()),
        };
        Record { root }
    }

    /// The records of all owners, found by their leaves.
    pub fn all(held: &dyn Held) -> Result<Vec<Record>, LayoutError> {
        let owners = owners();
        let mut roots = BTreeSet::new();
        for path in held.below(&owners)? {
            let inner = path.strip_prefix(&*owners).unwrap_or_default();
            let mut segments = inner.split('/').skip(1);
            let length = match segments.nth(2) {
                Some("namespaces") => 5,
                Some("cluster") => 4,
                _ => continue,
            };
            let root: Vec<&str> = inner.split('/').skip(1).take(length).collect();
            roots.insert(format!("{owners}/{}", root.join("/")));
        }
        Ok(roots.into_iter().map(|root| Record { root }).collect())
    }

    /// Cluster, sink and inventory, as the record's directory shows them.
    pub(super) fn parts(&self) -> Option<(&str, &str, InventoryId)> {
        let inner = self.root.strip_prefix(&*owners())?.strip_prefix('/')?;
        let parts: Vec<&str> = inner.split('/').collect();
        match parts[..] {
            [cluster, sink, "namespaces", namespace, name] => {
                Some((cluster, sink, InventoryId::namespaced(namespace, name)))
            }
            [cluster, sink, "cluster", name] => Some((cluster, sink, InventoryId::cluster(name))),
            _ => None,
        }
    }

    /// The areas of whoever has the record.
    pub(super) fn areas(&self) -> Option<Areas> {
        let (cluster, _, inventory) = self.parts()?;
        Some(Areas::of(cluster, &inventory))
    }

    /// Takes paths out of the record of somebody who is no more, or had no right to them. A record
    /// of nothing goes as well.
    pub fn take_away(
        &self,
        held: &dyn Held,
        paths: &[RepoPath],
    ) -> Result<RecordEdit, LayoutError> {
        let mut edit = self.edit(held, &[], paths)?;
        let empty = self.leaf("")?;
        if edit.writes.get(&empty).is_some_and(|bytes| *bytes == b"\n") {
            edit.writes.remove(&empty);
            edit.removals.insert(empty);
        }
        Ok(edit)
    }

    /// The directory of the record.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The leaf of a prefix of digits.
    fn leaf(&self, prefix: &str) -> Result<RepoPath, LayoutError> {
        let name = match prefix {
            "" => "all".to_owned(),
            prefix => nested(prefix),
        };
        let path = RepoPath::clean(&format!("{}/{name}.paths", self.root));
        path.map_err(|fault| LayoutError::Path {
            what: "an ownership record".to_owned(),
            fault,
        })
    }

    /// All paths of the record; nothing if there is no record.
    pub fn load(&self, held: &dyn Held) -> Result<Option<BTreeSet<RepoPath>>, LayoutError> {
        let leaves = held.below(&self.root)?;
        if leaves.is_empty() {
            return Ok(None);
        }
        let mut paths = BTreeSet::new();
        let mut total = 0;
        for leaf in leaves {
            let bytes = leaf_of(held, &leaf)?.unwrap_or_default();
            total += bytes.len();
            if total > LARGEST_RECORD {
                return Err(no_record(&leaf));
            }
            paths.extend(read(&bytes));
        }
        Ok(Some(paths))
    }

    /// Whether the record has a path.
    pub fn has(&self, held: &dyn Held, path: &RepoPath) -> Result<bool, LayoutError> {
        let digits = digits(path);
        for depth in 0..=digits.len() {
            if let Some(leaf) = leaf_of(held, &self.leaf(&digits[..depth])?)? {
                return Ok(read(&leaf).any(|other| other == *path));
            }
            if !held.is_directory(&self.directory(&digits[..depth]))? {
                break;
            }
        }
        Ok(false)
    }

    fn directory(&self, prefix: &str) -> String {
        match prefix {
            "" => self.root.clone(),
            prefix => format!("{}/{}", self.root, nested(prefix)),
        }
    }

    /// Makes the record hold exactly these paths.
    pub fn replace(
        &self,
        held: &dyn Held,
        paths: &BTreeSet<RepoPath>,
    ) -> Result<RecordEdit, LayoutError> {
        let mut loaded = BTreeMap::new();
        for leaf in held.below(&self.root)? {
            let bytes = leaf_of(held, &leaf)?.unwrap_or_default();
            loaded.insert(leaf, bytes);
        }
        let whole = Node::of(paths.iter().map(|path| (digits(path), path.clone())), 0);
        self.difference(&loaded, &whole)
    }

    /// Adds and removes paths, looking at no more leaves than it has to.
    pub fn edit(
        &self,
        held: &dyn Held,
        added: &[RepoPath],
        removed: &[RepoPath],
    ) -> Result<RecordEdit, LayoutError> {
        if added.is_empty() && removed.is_empty() {
            return Ok(RecordEdit::default());
        }
        let mut editor = Editor {
            record: self,
            held,
            loaded: BTreeMap::new(),
        };
        let mut root = editor.load("")?;
        for path in removed {
            editor.remove(&mut root, &digits(path), 0, path)?;
        }
        for path in added {
            editor.insert(&mut root, &digits(path), 0, path)?;
        }
        self.difference(&editor.loaded, &root)
    }

    /// What leads from the leaves that were loaded to those of a tree.
    fn difference(
        &self,
        loaded: &BTreeMap<RepoPath, Vec<u8>>,
        root: &Node,
    ) -> Result<RecordEdit, LayoutError> {
        let mut leaves = BTreeMap::new();
        self.collect(root, &mut String::new(), &mut leaves)?;
        let removals = loaded.keys().filter(|path| !leaves.contains_key(*path));
        Ok(RecordEdit {
            removals: removals.cloned().collect(),
            writes: leaves
                .into_iter()
                .filter(|(path, bytes)| loaded.get(path) != Some(bytes))
                .collect(),
        })
    }

    fn collect(
        &self,
        node: &Node,
        prefix: &mut String,
        leaves: &mut BTreeMap<RepoPath, Vec<u8>>,
    ) -> Result<(), LayoutError> {
        match node {
            Node::Unknown => {}
            Node::Leaf(paths) if paths.is_empty() && !prefix.is_empty() => {}
            Node::Leaf(paths) => {
                let mut bytes = Vec::new();
                for path in paths {
                    bytes.extend_from_slice(path.as_bytes());
                    bytes.push(b'\n');
                }
                if bytes.is_empty() {
                    // An empty record is still a record, and files without bytes are refused.
                    bytes.push(b'\n');
                }
                leaves.insert(self.leaf(prefix)?, bytes);
            }
            Node::Inner(children) => {
                for (digit, child) in ('0'..='9').chain('a'..='f').zip(children.iter()) {
                    prefix.push(digit);
                    self.collect(child, prefix, leaves)?;
                    prefix.pop();
                }
            }
        }
        Ok(())
    }
}

/// The content of a leaf. What is larger than any leaf of ours was put there by somebody else.
fn leaf_of(held: &dyn Held, leaf: &RepoPath) -> Result<Option<Vec<u8>>, LayoutError> {
    match held.read(leaf)? {
        Some(bytes) if bytes.len() > LARGEST_LEAF => Err(no_record(leaf)),
        other => Ok(other),
    }
}

fn no_record(leaf: &RepoPath) -> LayoutError {
    LayoutError::Repository(SinkError::terminal(format!(
        "{leaf} is larger than any record that Kollect writes; remove it from the branch"
    )))
}

fn owners() -> String {
    format!("{RESERVED}/owners")
}

/// One directory per digit, so that no directory gets long.
fn nested(prefix: &str) -> String {
    let digits: Vec<String> = prefix.chars().map(String::from).collect();
    digits.join("/")
}

/// The digits that decide where a path is recorded.
fn digits(path: &RepoPath) -> String {
    segment::digits(path.as_bytes())
}

/// The paths of a leaf. Lines that are no safe path, or lead to records, were not written by us.
fn read(leaf: &[u8]) -> impl Iterator<Item = RepoPath> {
    let text = String::from_utf8_lossy(leaf).into_owned();
    let paths: Vec<RepoPath> = text
        .lines()
        .filter_map(|line| RepoPath::expanded(line).ok())
        .collect();
    paths.into_iter()
}

/// A set of paths, cut by digits. What lies below an unknown node is as it was.
#[derive(Debug)]
enum Node {
    Unknown,
    Leaf(BTreeSet<RepoPath>),
    Inner(Box<[Node; 16]>),
}

impl Node {
    /// Paths with their digits, of which `depth` are used up.
    fn of(paths: impl Iterator<Item = (String, RepoPath)>, depth: usize) -> Node {
        let paths: Vec<(String, RepoPath)> = paths.collect();
        if paths.len() <= CAPACITY || paths.iter().any(|(digits, _)| digits.len() == depth) {
            return Node::Leaf(paths.into_iter().map(|(_, path)| path).collect());
        }
        let mut parts: [Vec<(String, RepoPath)>; 16] = Default::default();
        for (digits, path) in paths {
            parts[digit(&digits, depth)].push((digits, path));
        }
        Node::Inner(Box::new(
            parts.map(|part| Node::of(part.into_iter(), depth + 1)),
        ))
    }
}

fn digit(digits: &str, depth: usize) -> usize {
    let digit = digits[depth..].chars().next().and_then(|c| c.to_digit(16));
    digit.unwrap_or(0) as usize
}

/// Loads the parts of a record that an edit needs.
struct Editor<'a> {
    record: &'a Record,
    held: &'a dyn Held,
    loaded: BTreeMap<RepoPath, Vec<u8>>,
}

impl Editor<'_> {
    fn load(&mut self, prefix: &str) -> Result<Node, LayoutError> {
        let leaf = self.record.leaf(prefix)?;
        if let Some(bytes) = leaf_of(self.held, &leaf)? {
            let paths = read(&bytes).collect();
            self.loaded.insert(leaf, bytes);
            return Ok(Node::Leaf(paths));
        }
        if self.held.is_directory(&self.record.directory(prefix))? {
            let unknown = [const { Node::Unknown }; 16];
            return Ok(Node::Inner(Box::new(unknown)));
        }
        Ok(Node::Leaf(BTreeSet::new()))
    }

    fn child<'n>(
        &mut self,
        children: &'n mut [Node; 16],
        digits: &str,
        depth: usize,
    ) -> Result<&'n mut Node, LayoutError> {
        let child = &mut children[digit(digits, depth)];
        if matches!(child, Node::Unknown) {
            *child = self.load(&digits[..=depth])?;
        }
        Ok(child)
    }

    fn insert(
        &mut self,
        node: &mut Node,
        digits: &str,
        depth: usize,
        path: &RepoPath,
    ) -> Result<(), LayoutError> {
        match node {
            Node::Inner(children) => {
                let child = self.child(children, digits, depth)?;
                self.insert(child, digits, depth + 1, path)?;
            }
            Node::Leaf(paths) => {
                paths.insert(path.clone());
                if paths.len() > CAPACITY {
                    let paths = std::mem::take(paths);
                    let paths = paths.into_iter().map(|path| (self::digits(&path), path));
                    *node = Node::of(paths, depth);
                }
            }
            Node::Unknown => {}
        }
        Ok(())
    }

    fn remove(
        &mut self,
        node: &mut Node,
        digits: &str,
        depth: usize,
        path: &RepoPath,
    ) -> Result<(), LayoutError> {
        let children = match node {
            Node::Inner(children) => children,
            Node::Leaf(paths) => {
                paths.remove(path);
                return Ok(());
            }
            Node::Unknown => return Ok(()),
        };
        let child = self.child(children, digits, depth)?;
        self.remove(child, digits, depth + 1, path)?;
        // As soon as everything below fits into one leaf again, it is one.
        let mut total = 0;
        for at in 0..16_u32 {
            let other = char::from_digit(at, 16).unwrap_or('0');
            let sibling = format!("{}{other}", &digits[..depth]);
            match self.child(children, &sibling, depth)? {
                Node::Leaf(paths) => total += paths.len(),
                _ => total = usize::MAX,
            }
            if total > CAPACITY {
                return Ok(());
            }
        }
        let mut merged = BTreeSet::new();
        for child in children.iter_mut() {
            if let Node::Leaf(paths) = child {
                merged.append(paths);
            }
        }
        *node = Node::Leaf(merged);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
