//! Paths that are safe to write, wherever the tree is checked out.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// Longest segment that file systems take.
const LONGEST_SEGMENT: usize = 255;
/// Longest path that checkouts take.
pub(crate) const LONGEST_PATH: usize = 4096;
/// Where Kollect keeps its own records; no row and no document may stand there.
pub const RESERVED: &str = ".kollect";

/// A relative path of a file inside a repository or bucket: `/` between segments, no empty, `.` or
/// `..` segment, no control characters, nothing that any file system takes for the repository's
/// own metadata.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Box<str>);

/// Why a text is no safe path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsafePath {
    /// Nothing is left of it.
    #[error("is empty")]
    Empty,
    /// It starts at a root.
    #[error("is absolute")]
    Absolute,
    /// It walks out of where it starts, or has a segment that does.
    #[error("has a traversal segment ('.' or '..')")]
    Traversal,
    /// It has characters that no file name should have.
    #[error("has a control character or a backslash")]
    Character,
    /// It is the metadata of the repository, in one of the spellings that file systems know.
    #[error("has a segment that is or may be taken for .git")]
    Metadata,
    /// Windows drops these silently, so two names would become one.
    #[error("has a segment that ends in a dot or a space")]
    Ending,
    /// Kollect's own records are there.
    #[error("is below {RESERVED}, where Kollect keeps its own records")]
    Reserved,
    /// File systems refuse it.
    #[error("has a segment of more than {LONGEST_SEGMENT} bytes or is longer than {LONGEST_PATH}")]
    Length,
}

impl RepoPath {
    /// Takes a path as a person may have written it: blanks around it, `.`, `..` and double slashes
    /// are cleaned away first, as long as that does not lead out.
    pub fn clean(text: &str) -> Result<Self, UnsafePath> {
        let text = text.trim();
        if text.starts_with('/') {
            return Err(UnsafePath::Absolute);
        }
        let mut segments = Vec::new();
        for segment in text.split('/') {
            match segment {
                "" | "." => {}
                ".." => {
                    segments.pop().ok_or(UnsafePath::Traversal)?;
                }
                segment => segments.push(segment),
            }
        }
        Self::checked(segments.join("/"))
    }

    /// Takes what a template became: segments lose blanks around them, empty ones are dropped (so
    /// an absent value leaves no trace), and `.` and `..` are refused.
    pub fn expanded(text: &str) -> Result<Self, UnsafePath> {
        let mut path = String::with_capacity(text.len());
        for segment in text.split(['/', '\\']).map(str::trim) {
            if segment.is_empty() {
                continue;
            }
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(segment);
        }
        let path = Self::checked(path)?;
        if path.segments().next().is_some_and(is_reserved) {
            return Err(UnsafePath::Reserved);
        }
        Ok(path)
    }

    /// The only way in.
    fn checked(path: String) -> Result<Self, UnsafePath> {
        if path.is_empty() {
            return Err(UnsafePath::Empty);
        }
        if path.contains(|c: char| c.is_control() || c == '\\') {
            return Err(UnsafePath::Character);
        }
        if path.len() > LONGEST_PATH {
            return Err(UnsafePath::Length);
        }
        for segment in path.split('/') {
            match segment {
                "." | ".." => return Err(UnsafePath::Traversal),
                segment if is_metadata(segment) => return Err(UnsafePath::Metadata),
                segment if segment.ends_with(['.', ' ']) => return Err(UnsafePath::Ending),
                segment if segment.len() > LONGEST_SEGMENT => return Err(UnsafePath::Length),
                _ => {}
            }
        }
        Ok(RepoPath(path.into_boxed_str()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names from the root down.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The directory that the file is in; nothing for a file at the root.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// The directories that the file is in, innermost first.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(self.parent(), |path| {
            path.rsplit_once('/').map(|(parent, _)| parent)
        })
    }

    /// The same file one directory further down.
    pub fn below(&self, directory: &str) -> Result<Self, UnsafePath> {
        Self::checked(match self.0.rsplit_once('/') {
            Some((parent, name)) => format!("{parent}/{directory}/{name}"),
            None => format!("{directory}/{}", self.0),
        })
    }

    /// The same place under a name with `text` in front of its extension.
    pub fn marked(&self, text: &str, extension: &str) -> Result<Self, UnsafePath> {
        let stem = self.0.strip_suffix(extension).unwrap_or(&self.0);
        Self::checked(format!("{stem}{text}{}", &self.0[stem.len()..]))
    }
}

impl Deref for RepoPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for RepoPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_reserved(segment: &str) -> bool {
    let visible: String = segment.chars().filter(|c| !is_ignorable(*c)).collect();
    visible.eq_ignore_ascii_case(RESERVED)
}

/// Whether some file system takes a name for `.git`: any case, the short name that NTFS gives it,
/// trailing dots and spaces and stream names that NTFS ignores, characters that HFS+ ignores.
pub(super) fn is_metadata(segment: &str) -> bool {
    let visible: String = segment.chars().filter(|c| !is_ignorable(*c)).collect();
    let name = visible.split(':').next().unwrap_or_default();
    let name = name.trim_end_matches(['.', ' ']);
    name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case("git~1")
}

/// Characters that HFS+ leaves out when it compares names.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_paths_are_cleaned_or_refused() {
        for (text, expected) in [
            (
                "inventory/team-a/deployments.json",
                Ok("inventory/team-a/deployments.json"),
            ),
            ("a/../b.json", Ok("b.json")),
            (" a//b/./c ", Ok("a/b/c")),
            ("../../../etc/passwd", Err(UnsafePath::Traversal)),
            ("inventory/../../outside.json", Err(UnsafePath::Traversal)),
            ("/etc/passwd", Err(UnsafePath::Absolute)),
            ("a/\0/b", Err(UnsafePath::Character)),
            ("a\\b", Err(UnsafePath::Character)),
            ("", Err(UnsafePath::Empty)),
            ("a/..", Err(UnsafePath::Empty)),
            (".git/hooks/x", Err(UnsafePath::Metadata)),
            ("a/.GIT", Err(UnsafePath::Metadata)),
            ("a/.Git /x", Err(UnsafePath::Metadata)),
            ("a/.git./x", Err(UnsafePath::Metadata)),
            ("a/.git::$INDEX_ALLOCATION/x", Err(UnsafePath::Metadata)),
            ("a/GIT~1/x", Err(UnsafePath::Metadata)),
            ("a/.g\u{200c}it/x", Err(UnsafePath::Metadata)),
            ("\u{feff}.git", Err(UnsafePath::Metadata)),
            (".gitignore", Ok(".gitignore")),
            ("git/x", Ok("git/x")),
            ("a./x", Err(UnsafePath::Ending)),
            ("a/x ./y", Err(UnsafePath::Ending)),
            (".kollect/owners/x", Ok(".kollect/owners/x")),
        ] {
            let path = RepoPath::clean(text);
            assert_eq!(path.as_deref(), expected.as_deref(), "{text:?}");
        }
        let long = "x".repeat(256);
        assert_eq!(RepoPath::clean(&long), Err(UnsafePath::Length));
        assert_eq!(RepoPath::clean(&"x/".repeat(2050)), Err(UnsafePath::Length));
    }

    #[test]
    fn expanded_templates_drop_what_is_empty_and_refuse_the_rest() {
        for (text, expected) in [
            ("a//{}/".replace("{}", "cfg"), Ok("a/cfg")),
            ("a/ b /c".to_owned(), Ok("a/b/c")),
            ("a\\b".to_owned(), Ok("a/b")),
            ("a//./x".to_owned(), Err(UnsafePath::Traversal)),
            ("a/../x".to_owned(), Err(UnsafePath::Traversal)),
            ("/a".to_owned(), Ok("a")),
            ("//".to_owned(), Err(UnsafePath::Empty)),
            (".kollect/x".to_owned(), Err(UnsafePath::Reserved)),
            (".KOLLECT/x".to_owned(), Err(UnsafePath::Reserved)),
            ("a/.kollect/x".to_owned(), Ok("a/.kollect/x")),
        ] {
            let path = RepoPath::expanded(&text);
            assert_eq!(path.as_deref(), expected.as_deref(), "{text:?}");
        }
    }

    #[test]
    fn relatives_of_a_path() {
        let path = RepoPath::clean("a/b/api.yaml").unwrap();
        assert_eq!(path.directories().collect::<Vec<_>>(), ["a/b", "a"]);
        assert_eq!(&*path.below("apps").unwrap(), "a/b/apps/api.yaml");
        assert_eq!(&*path.marked("-1", ".yaml").unwrap(), "a/b/api-1.yaml");
        assert_eq!(&*path.marked("-1", "").unwrap(), "a/b/api.yaml-1");
        let root = RepoPath::clean("api").unwrap();
        assert_eq!(root.parent(), None);
        assert_eq!(&*root.below("apps").unwrap(), "apps/api");
    }
}
