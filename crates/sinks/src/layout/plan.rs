//! What to write into a repository and what to remove from it, so that it holds an inventory.
//!
//! A plan adds two things to the rendered files: the record of whose files they are
//! ([`ownership`](super::ownership)), and the removal of files that an earlier export of the same
//! owner left. All of it belongs into one commit.

use std::collections::BTreeSet;

use kollect_api::{rules::template::Placeholder, sink::common::LayoutMode};
use kollect_inventory::{Delta, Snapshot};

use super::body::{Body, File};
use super::error::LayoutError;
use super::held::Held;
use super::leftovers;
use super::ownership::{FileOwner, Record, RecordEdit};
use super::path::RepoPath;
use super::pattern::{Pattern, without_part};
use super::places::Places;
use super::render::{Changes, Rendering, render_all, render_changes};
use super::{Header, Layout, extension, template};

/// One commit: first the removals, then the files.
#[derive(Debug)]
pub struct Plan<'a> {
    rendered: Rendered<'a>,
    removals: Vec<RepoPath>,
    record: RecordEdit,
}

#[derive(Debug)]
enum Rendered<'a> {
    All(Box<Rendering<'a>>),
    Changes(Box<Changes<'a>>),
}

impl Plan<'_> {
    /// What is removed. Paths that are not there may be among them.
    pub fn removals(&self) -> impl Iterator<Item = &RepoPath> {
        self.removals.iter().chain(&self.record.removals)
    }

    /// What is written, one file at a time.
    pub fn files(&self) -> impl Iterator<Item = Result<File, LayoutError>> {
        let (all, changes) = match &self.rendered {
            Rendered::All(rendering) => (Some(rendering.files()), None),
            Rendered::Changes(changes) => (None, Some(changes.files().map(Ok))),
        };
        let record = self.record.writes.iter().map(|(path, bytes)| {
            Ok(File {
                path: path.clone(),
                body: Body::of_bytes(bytes.clone()),
            })
        });
        all.into_iter()
            .flatten()
            .chain(changes.into_iter().flatten())
            .chain(record)
    }

    /// The number of rows that have not what the layout asks for, over the whole inventory.
    pub fn skipped(&self) -> usize {
        match &self.rendered {
            Rendered::All(rendering) => rendering.skipped(),
            Rendered::Changes(changes) => changes.places.skipped(),
        }
    }

    /// What has to be kept for the next plan of changes, once this one is committed. Nothing if the
    /// layout needs all rows.
    pub fn into_places(self) -> Option<Places> {
        match self.rendered {
            Rendered::All(rendering) => rendering.into_places(),
            Rendered::Changes(changes) => Some(changes.places),
        }
    }
}

/// Plans to make a repository hold all rows of an inventory, and of this owner nothing else.
pub fn plan_everything<'a>(
    layout: &'a Layout,
    owner: &FileOwner,
    header: &Header<'a>,
    rows: &'a Snapshot,
    held: &dyn Held,
) -> Result<Plan<'a>, LayoutError> {
    let rendering = render_all(layout, header, rows, held)?;
    let paths: BTreeSet<RepoPath> = rendering.paths()?.into_iter().collect();
    let record = Record::of(owner);
    let earlier = record.load(held)?;
    let first_time = earlier.is_none();
    let mut owned = earlier.unwrap_or_default();

    let mode = rendering.mode();
    let mut stale: BTreeSet<RepoPath> = owned.difference(&paths).cloned().collect();
    if mode == LayoutMode::Document && !layout.prunes(mode) {
        stale.retain(|path| !is_earlier_generation(layout, header, path));
    }
    if first_time && layout.prunes(mode) {
        stale.extend(leftovers::find(layout, header, mode, &paths, held)?);
    }
    let added: Vec<&RepoPath> = paths.difference(&owned).collect();
    check_free(held, &record, &added, &stale)?;

    owned.retain(|path| !stale.contains(path));
    owned.extend(paths);
    let record = record.replace(held, &owned)?;
    Ok(Plan {
        rendered: Rendered::All(Box::new(rendering)),
        removals: stale.into_iter().collect(),
        record,
    })
}

/// Plans a change, for layouts that do not need all rows. `places` are those of the plan before.
pub fn plan_changes<'a>(
    layout: &'a Layout,
    owner: &FileOwner,
    header: &Header<'a>,
    places: Places,
    delta: &Delta,
    held: &dyn Held,
) -> Result<Plan<'a>, LayoutError> {
    let changes = render_changes(layout, header, places, delta)?;
    let record = Record::of(owner);
    let stale: BTreeSet<RepoPath> = changes.removed.iter().cloned().collect();
    let added: Vec<&RepoPath> = changes.added.iter().collect();
    check_free(held, &record, &added, &stale)?;
    let record = record.edit(held, &changes.added, &changes.removed)?;
    Ok(Plan {
        removals: changes.removed.clone(),
        rendered: Rendered::Changes(Box::new(changes)),
        record,
    })
}

/// Gives up what an owner has: its files stay, and belong to nobody.
pub fn plan_release(owner: &FileOwner, held: &dyn Held) -> Result<Vec<RepoPath>, LayoutError> {
    Ok(held.below(Record::of(owner).root())?)
}

/// Refuses paths that somebody else has. A file that nobody has may be taken over: it comes from a
/// time without records, or from a person who now hands it to an inventory.
fn check_free(
    held: &dyn Held,
    record: &Record,
    added: &[&RepoPath],
    stale: &BTreeSet<RepoPath>,
) -> Result<(), LayoutError> {
    let mut taken = Vec::new();
    for path in added {
        if held.contains(path)? {
            taken.push(*path);
        }
        // A file may not replace a directory with other people's files in it, nor a directory
        // somebody's file.
        if held.is_directory(path)? && held.below(path)?.iter().any(|inner| !stale.contains(inner))
        {
            return Err(nested(path));
        }
        for directory in path.directories() {
            if held.is_directory(directory)? {
                break;
            }
            if let Ok(file) = RepoPath::clean(directory)
                && !stale.contains(&file)
                && held.contains(&file)?
            {
                return Err(nested(&file));
            }
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    for other in Record::all(held)? {
        if other == *record {
            continue;
        }
        for path in &taken {
            if other.has(held, path)? {
                return Err(LayoutError::Owned {
                    path: (*path).clone(),
                    record: other.root().to_owned(),
                });
            }
        }
    }
    Ok(())
}

fn nested(path: &RepoPath) -> LayoutError {
    LayoutError::Nested {
        path: path.clone(),
        what: "what the repository holds".to_owned(),
    }
}

/// Whether a path is the document of an earlier generation: whoever puts the generation into the
/// path wants to keep them, unless pruning is asked for.
fn is_earlier_generation(layout: &Layout, header: &Header<'_>, path: &RepoPath) -> bool {
    if !layout.documents.contains(Placeholder::Generation) {
        return false;
    }
    let fixed = layout.fixed(header.inventory, header.generation);
    let ending = template::ending(&layout.documents, extension(layout.format));
    let whole = without_part(path, ending);
    let current = fixed.document(&layout.documents);
    Pattern::of_documents(&layout.documents, &fixed).matches(&whole)
        && current.is_ok_and(|current| *current != *whole)
}
