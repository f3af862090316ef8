//! Archives in the ustar format, which everything reads. Everybody's files belong to root and have
//! the same time.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use crate::Moment;

const BLOCK: usize = 512;

/// Something with a place in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A directory and its mode.
    Directory(u32),
    /// A file, its mode and its content.
    File(u32, Vec<u8>),
}

/// A tree of files by path, relative and without `.` or `..`. Directories that are not named have
/// mode 755.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Entry>);

impl Tree {
    /// Puts a file in.
    pub fn file(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Result<()> {
        self.put(path, Entry::File(mode, content.into()))
    }

    /// Puts a directory in.
    pub fn directory(&mut self, path: &str, mode: u32) -> Result<()> {
        self.put(path, Entry::Directory(mode))
    }

    /// Everything by path.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    fn put(&mut self, path: &str, entry: Entry) -> Result<()> {
        let path = path.trim_matches('/');
        let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        ensure!(plain, "{path:?} is no path inside an archive");
        let above = path.match_indices('/').map(|(end, _)| &path[..end]);
        for parent in above {
            let known = self.0.get(parent);
            ensure!(
                !matches!(known, Some(Entry::File(..))),
                "{parent} is a file, so {path} cannot be in it"
            );
            if known.is_none() {
                self.0.insert(parent.to_owned(), Entry::Directory(0o755));
            }
        }
        // A directory may be named after files in it; nothing else may be said twice.
        let both = (self.0.get(path), &entry);
        let may_be = matches!(
            both,
            (None, _) | (Some(Entry::Directory(_)), Entry::Directory(_))
        );
        ensure!(may_be, "{path} is there twice");
        self.0.insert(path.to_owned(), entry);
        Ok(())
    }

    /// The archive.
    pub fn archive(&self, moment: Moment) -> Result<Vec<u8>> {
        let mut archive = Vec::new();
        for (path, entry) in &self.0 {
            let (name, mode, kind, content) = match entry {
                Entry::Directory(mode) => (format!("{path}/"), *mode, b'5', &[][..]),
                Entry::File(mode, content) => (path.clone(), *mode, b'0', content.as_slice()),
            };
            archive.extend(header(&name, mode, content.len(), kind, moment)?);
            archive.extend_from_slice(content);
            archive.resize(archive.len().next_multiple_of(BLOCK), 0);
        }
        // The end is two empty blocks.
        archive.resize(archive.len() + 2 * BLOCK, 0);
        Ok(archive)
    }
}

fn header(name: &str, mode: u32, size: usize, kind: u8, moment: Moment) -> Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let (prefix, base) = split(name).with_context(|| format!("{name} is too long"))?;
    put(&mut header, 0, base.as_bytes());
    put(&mut header, 345, prefix.as_bytes());
    octal(&mut header, 100, 8, u64::from(mode))?;
    // Owner and group: root.
    octal(&mut header, 108, 8, 0)?;
    octal(&mut header, 116, 8, 0)?;
    octal(&mut header, 124, 12, size as u64)?;
    octal(&mut header, 136, 12, moment.0)?;
    header[156] = kind;
    put(&mut header, 257, b"ustar\x0000");
    // The checksum is taken with blanks in its own place.
    put(&mut header, 148, b"        ");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// A name in two parts, of which the first may be empty: at most 155 and 100 bytes.
fn split(name: &str) -> Option<(&str, &str)> {
    if name.len() <= 100 {
        return Some(("", name));
    }
    let mut places = name.match_indices('/').map(|(at, _)| at);
    places
        .find(|at| *at <= 155 && !name[at + 1..].is_empty() && name.len() - at - 1 <= 100)
        .map(|at| (&name[..at], &name[at + 1..]))
}

fn put(header: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    header[at..at + bytes.len()].copy_from_slice(bytes);
}

fn octal(header: &mut [u8; BLOCK], at: usize, width: usize, number: u64) -> Result<()> {
    let digits = format!("{number:0>width$o}\0", width = width - 1);
    ensure!(
        digits.len() == width,
        "{number} is too large for an archive"
    );
    put(header, at, digits.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Entry, Tree, split};
    use crate::Moment;

    #[test]
    fn an_archive_is_what_was_put_in_sorted() {
        let mut tree = Tree::default();
        tree.file("/b/c", 0o755, "text").unwrap();
        tree.file("a", 0o644, vec![7; 513]).unwrap();
        tree.directory("tmp", 0o1777).unwrap();
        let names: Vec<&str> = tree.entries().map(|(path, _)| path).collect();
        assert_eq!(names, ["a", "b", "b/c", "tmp"]);
        let archive = tree.archive(Moment(1)).unwrap();
        // a: 1 + 2 blocks, b: 1, b/c: 1 + 1, tmp: 1, the end: 2.
        assert_eq!(archive.len(), 9 * 512);
        assert_eq!(&archive[257..263], b"ustar\0");
        assert_eq!(archive, tree.archive(Moment(1)).unwrap());
        assert_ne!(archive, tree.archive(Moment(2)).unwrap());
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let mut tree = Tree::default();
        tree.file("a", 0o644, "").unwrap();
        for path in ["../x", "a/b", "a", "b//c", "", "./x"] {
            assert!(tree.file(path, 0o644, "").is_err(), "{path}");
        }
        assert_eq!(tree.entries().count(), 1);
        tree.file("d/x", 0o644, "").unwrap();
        tree.directory("d", 0o700).unwrap();
        let mode = tree.entries().find(|(path, _)| *path == "d").unwrap().1;
        assert_eq!(*mode, Entry::Directory(0o700));
    }

    #[test]
    fn long_names_are_split_where_they_may_be() {
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(90));
        let (prefix, base) = split(&long).unwrap();
        assert_eq!((prefix.len(), base.len()), (120, 90));
        assert_eq!(split(&"x".repeat(101)), None);
    }
}
