//! From templates to paths.

use std::borrow::Cow;

use kollect_api::{
    InventoryId,
    rules::template::{Piece, Placeholder, Template},
    sink::common::{GroupInPath, LayoutFilename},
};
use kollect_inventory::Row;

use super::path::{RepoPath, UnsafePath};
use super::segment::{self, sanitise};

/// How names become path segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Naming {
    pub(super) group: GroupInPath,
    pub(super) lowercase_kind: bool,
    pub(super) longest: usize,
}

impl Naming {
    pub(super) fn new(filename: Option<&LayoutFilename>) -> Self {
        let longest = filename.and_then(|filename| filename.max_segment_length);
        Naming {
            group: filename
                .and_then(|filename| filename.group_in_path)
                .unwrap_or_default(),
            lowercase_kind: filename
                .and_then(|filename| filename.lowercase_kind)
                .unwrap_or(true),
            longest: longest
                .and_then(|length| usize::try_from(length).ok())
                .unwrap_or(segment::DEFAULT_LENGTH)
                .clamp(1, segment::GREATEST_LENGTH),
        }
    }

    /// The API group where a path needs one.
    pub(super) fn group_segment<'r>(&self, row: &'r Row) -> Cow<'r, str> {
        match row.origin().group() {
            "" => Cow::Borrowed("core"),
            group => sanitise(group, self.longest),
        }
    }
}

/// What is the same for all files of one delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed<'a> {
    pub(super) cluster: &'a str,
    pub(super) inventory: &'a InventoryId,
    pub(super) generation: i64,
    pub(super) extension: &'a str,
    pub(super) naming: Naming,
}

impl<'a> Fixed<'a> {
    /// The path of a document or an index.
    pub(super) fn document(&self, template: &Template) -> Result<RepoPath, UnsafePath> {
        expand(template, |placeholder| match placeholder {
            Placeholder::Namespace => {
                sanitise(self.inventory.namespace(), segment::GREATEST_LENGTH)
            }
            Placeholder::Name => sanitise(&self.inventory.name, segment::GREATEST_LENGTH),
            other => self.common(other),
        })
    }

    /// The path of a row.
    pub(super) fn row(&self, template: &Template, row: &Row) -> Result<RepoPath, UnsafePath> {
        let origin = row.origin();
        let naming = &self.naming;
        let piece = |value| sanitise(value, naming.longest);
        let owned = |value: String| Cow::Owned(sanitise(&value, naming.longest).into_owned());
        expand(template, |placeholder| match placeholder {
            Placeholder::Namespace => piece(self.inventory.namespace()),
            Placeholder::Name => piece(&self.inventory.name),
            Placeholder::TargetNamespace => piece(origin.target_namespace()),
            Placeholder::TargetName => piece(origin.target_name()),
            Placeholder::SourceNamespace => piece(origin.namespace()),
            Placeholder::SourceName => piece(row.name()),
            Placeholder::Group => match naming.group {
                GroupInPath::Never => Cow::Borrowed(""),
                GroupInPath::Auto => piece(origin.group()),
                GroupInPath::Always => naming.group_segment(row),
            },
            Placeholder::Kind if naming.lowercase_kind => owned(origin.kind().to_lowercase()),
            Placeholder::Kind => piece(origin.kind()),
            Placeholder::Uid => owned(row.uid().to_string()),
            other => self.common(other),
        })
    }

    fn common(&self, placeholder: Placeholder) -> Cow<'a, str> {
        match placeholder {
            Placeholder::Cluster => sanitise(self.cluster, self.naming.longest),
            Placeholder::Generation => Cow::Owned(self.generation.to_string()),
            Placeholder::Extension => Cow::Borrowed(self.extension),
            // Everything else belongs to rows, and templates of documents cannot contain it.
            _ => Cow::Borrowed(""),
        }
    }
}

fn expand<'v>(
    template: &Template,
    value: impl Fn(Placeholder) -> Cow<'v, str>,
) -> Result<RepoPath, UnsafePath> {
    let mut path = String::with_capacity(96);
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => path.push_str(text),
            Piece::Placeholder(placeholder) => path.push_str(&value(*placeholder)),
        }
    }
    RepoPath::expanded(&path)
}

/// The extension that paths of a template end in, as far as the template fixes it.
pub(super) fn ending<'a>(template: &'a Template, extension: &'a str) -> &'a str {
    match template.pieces().last() {
        Some(Piece::Placeholder(Placeholder::Extension)) => extension,
        Some(Piece::Text(text)) => {
            let name = text.rfind('/').map_or(0, |slash| slash + 1);
            text[name..]
                .rfind('.')
                .map_or("", |dot| &text[name + dot..])
        }
        _ => "",
    }
}
