//! The files of an inventory: of all its rows, or of those that changed.

use kollect_api::sink::common::LayoutMode;
use kollect_inventory::{Delta, Row, Snapshot};

use super::body::{Body, File};
use super::document::{self, keep_time};
use super::error::LayoutError;
use super::held::Held;
use super::index::Index;
use super::path::RepoPath;
use super::places::{Places, Rule};
use super::{Header, Layout};

/// The files of all rows. Nothing is encoded before it is asked for.
#[derive(Debug)]
pub struct Rendering<'a> {
    mode: LayoutMode,
    rule: Rule<'a>,
    rows: &'a Snapshot,
    /// Documents and the index; few.
    singles: Vec<File>,
    places: Option<Places>,
}

/// Renders the files of all rows. Of what is `held` already only the time is looked at: a file that
/// would differ in nothing else keeps it.
pub fn render_all<'a>(
    layout: &'a Layout,
    header: &Header<'a>,
    rows: &'a Snapshot,
    held: &dyn Held,
) -> Result<Rendering<'a>, LayoutError> {
    let mode = layout.mode(&header.documents.embedding, rows);
    render_as(mode, layout, header, rows, held)
}

/// The same where the mode is decided.
pub(super) fn render_as<'a>(
    mode: LayoutMode,
    layout: &'a Layout,
    header: &Header<'a>,
    rows: &'a Snapshot,
    held: &dyn Held,
) -> Result<Rendering<'a>, LayoutError> {
    let rule = layout.rule(header);
    let mut rendering = Rendering {
        mode,
        rule,
        rows,
        singles: Vec::new(),
        places: None,
    };
    if mode == LayoutMode::Document {
        rendering.singles = document::files(layout, header, rows, held)?;
        return Ok(rendering);
    }
    if !layout.has_index(mode) {
        rendering.places = Some(Places::new(&rule, None, rows)?);
        return Ok(rendering);
    }
    let path = rule.fixed.document(&layout.index);
    let path = path.map_err(|fault| LayoutError::Path {
        what: format!("the index of {}", header.inventory),
        fault,
    })?;
    rendering.places = Some(Places::new(&rule, Some(&path), rows)?);
    let mut paths = Vec::with_capacity(rows.len());
    rendering.each_row(|path, _| paths.push(path.as_str().to_owned()))?;
    let index = Index {
        cluster: layout.cluster(),
        rows,
        paths,
    };
    let bytes = keep_time(held, &path, header.at, |at| index.bytes(layout.format, at))?;
    rendering.singles.push(File {
        path,
        body: Body::of_bytes(bytes),
    });
    Ok(rendering)
}

impl<'a> Rendering<'a> {
    /// The mode in force.
    pub fn mode(&self) -> LayoutMode {
        self.mode
    }

    /// The number of rows that were left out because they have not what the layout asks for.
    pub fn skipped(&self) -> usize {
        self.places.as_ref().map_or(0, Places::skipped)
    }

    /// Where rows stand, in a tree.
    pub(super) fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }

    /// The files, index first, rows in their order. Each is made when the iterator gets to it.
    pub fn files(&self) -> impl Iterator<Item = Result<File, LayoutError>> {
        let rows = self.places.iter().flat_map(|places| {
            self.rows.rows().iter().filter_map(|row| {
                let path = places.path_of(&self.rule, row).transpose()?;
                Some(path.map(|path| of_row(&self.rule, path, row)))
            })
        });
        self.singles.iter().cloned().map(Ok).chain(rows)
    }

    /// The paths of the files, in the same order.
    pub fn paths(&self) -> Result<Vec<RepoPath>, LayoutError> {
        let mut paths: Vec<RepoPath> = self.singles.iter().map(|file| file.path.clone()).collect();
        self.each_row(|path, _| paths.push(path))?;
        Ok(paths)
    }

    /// What has to be kept to render changes later; nothing if this layout needs all rows.
    pub fn into_places(self) -> Option<Places> {
        self.places
    }

    /// Visits the rows that have a file, with its path.
    pub(super) fn each_row(
        &self,
        mut visit: impl FnMut(RepoPath, &'a Row),
    ) -> Result<(), LayoutError> {
        if let Some(places) = &self.places {
            for row in self.rows.rows() {
                if let Some(path) = places.path_of(&self.rule, row)? {
                    visit(path, row);
                }
            }
        }
        Ok(())
    }
}

fn of_row(rule: &Rule<'_>, path: RepoPath, row: &Row) -> File {
    // Only rows that have what is asked for have a place.
    let bytes = rule.content.bytes(row).unwrap_or_default();
    File {
        path,
        body: Body::of_bytes(bytes),
    }
}

/// The files that a change touches.
#[derive(Debug)]
pub struct Changes<'a> {
    rule: Rule<'a>,
    writes: Vec<(RepoPath, Row)>,
    /// Paths that hold a file now and did not before.
    pub added: Vec<RepoPath>,
    /// Paths that held a file and do not any more.
    pub removed: Vec<RepoPath>,
    /// Where rows stand after the change; to be kept if the change was written.
    pub places: Places,
}

/// Renders the files that a change touches, for layouts that do not need all rows. `places` are
/// those of the last rendering; they are lost if rows collide now, and the next rendering has to be
/// one of all rows.
pub fn render_changes<'a>(
    layout: &'a Layout,
    header: &Header<'a>,
    places: Places,
    delta: &Delta,
) -> Result<Changes<'a>, LayoutError> {
    let rule = layout.rule(header);
    let (places, moves) = places.change(&rule, delta)?;
    Ok(Changes {
        rule,
        writes: moves.writes,
        added: moves.added,
        removed: moves.removed,
        places,
    })
}

impl Changes<'_> {
    /// The files to write, in path order. Each is made when the iterator gets to it.
    pub fn files(&self) -> impl ExactSizeIterator<Item = File> {
        let writes = self.writes.iter();
        writes.map(|(path, row)| of_row(&self.rule, path.clone(), row))
    }
}
