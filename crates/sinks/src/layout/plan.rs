//! What to write into a repository and what to remove from it, so that it holds an inventory.
//!
//! A plan adds two things to the rendered files: the record of whose files they are
//! ([`ownership`](super::ownership)), and the removal of files that an earlier export of the same
//! owner left. All of it belongs into one commit.

use std::collections::BTreeSet;

use kollect_api::{rules::template::Placeholder, sink::common::LayoutMode};
use kollect_inventory::{Delta, Snapshot};

use super::area;
use super::body::{Body, File};
use super::error::LayoutError;
use super::held::Held;
use super::leftovers;
use super::owner::FileOwner;
use super::ownership::{Record, RecordEdit};
use super::path::RepoPath;
use super::pattern::{Pattern, without_part};
use super::places::Places;
use super::render::{Changes, Rendering, render_as, render_changes};
use super::{Embedding, Header, Layout, extension, template};
use crate::sink::{Skipped, Why};

/// Up to this many paths are looked up in records one by one.
const FEW: usize = 64;

/// One commit: first the removals, then the files.
#[derive(Debug)]
pub struct Plan<'a> {
    rendered: Rendered<'a>,
    removals: Vec<RepoPath>,
    record: RecordEdit,
    takes_over: bool,
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

    /// The rows that have not what the layout asks for, over the whole inventory.
    pub fn skipped(&self) -> Option<Skipped> {
        match &self.rendered {
            Rendered::All(rendering) => rendering.places().and_then(skipped),
            Rendered::Changes(changes) => skipped(&changes.places),
        }
    }

    /// Whether it changes records of others. Such a plan is good for the commit that it was made for
    /// and for no other.
    pub fn takes_over(&self) -> bool {
        self.takes_over
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

/// The rows that have no place because they have not what the layout asks for.
pub(crate) fn skipped(places: &Places) -> Option<Skipped> {
    let first = places.first_skipped()?.to_owned();
    Some(Skipped {
        rows: places.skipped() as u64,
        first,
        why: Why::NoObject,
    })
}

/// Plans to make a repository hold all rows of an inventory, and of this owner nothing else.
pub fn plan_everything<'a>(
    layout: &'a Layout,
    owner: &FileOwner,
    header: &Header<'a>,
    rows: &'a Snapshot,
    held: &dyn Held,
) -> Result<Plan<'a>, LayoutError> {
    let record = Record::of(owner);
    let earlier = record.load(held)?;
    let mode = mode(layout, header, rows, earlier.as_ref());
    area::check(layout, header, mode)?;
    let rendering = render_as(mode, layout, header, rows, held)?;
    let paths: BTreeSet<RepoPath> = rendering.paths()?.into_iter().collect();
    let first_time = earlier.is_none();
    let mut owned = earlier.unwrap_or_default();

    let mut stale: BTreeSet<RepoPath> = owned.difference(&paths).cloned().collect();
    if mode == LayoutMode::Document && !layout.prunes(mode) {
        stale.retain(|path| !is_earlier_generation(layout, header, path));
    }
    if first_time && layout.prunes(mode) {
        stale.extend(leftovers::find(layout, header, mode, &paths, held)?);
    }
    let added: Vec<&RepoPath> = paths.difference(&owned).collect();
    let mut taken = check_free(held, owner, &added, &stale)?;

    owned.retain(|path| !stale.contains(path));
    owned.extend(paths);
    let mut record = record.replace(held, &owned)?;
    stale.append(&mut taken.files);
    let takes_over = !taken.records.is_empty();
    taken.edit(held, &mut record)?;
    Ok(Plan {
        rendered: Rendered::All(Box::new(rendering)),
        removals: stale.into_iter().collect(),
        record,
        takes_over,
    })
}

/// The mode of a layout. Where neither the sink nor the profiles decide it, what stands stays: what
/// is in some row never turns a tree into a document, or the other way round.
fn mode(
    layout: &Layout,
    header: &Header<'_>,
    rows: &Snapshot,
    owned: Option<&BTreeSet<RepoPath>>,
) -> LayoutMode {
    let embedding = &header.documents.embedding;
    let undecided = layout.mode.is_none() && *embedding == Embedding::Unknown;
    if let (true, Some(owned)) = (undecided, owned) {
        let fixed = layout.fixed(header.inventory, header.generation);
        let ending = template::ending(&layout.documents, extension(layout.format));
        let documents = Pattern::of_documents(&layout.documents, &fixed);
        let rows = Pattern::of_rows(&layout.rows, &fixed);
        if (owned.iter()).any(|path| documents.matches(&without_part(path, ending))) {
            return LayoutMode::Document;
        }
        if owned.iter().any(|path| rows.matches(path)) {
            return LayoutMode::PerResource;
        }
    }
    layout.mode(embedding, rows)
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
    let mut taken = check_free(held, owner, &added, &stale)?;
    let mut record = record.edit(held, &changes.added, &changes.removed)?;
    let mut removals = changes.removed.clone();
    removals.extend(std::mem::take(&mut taken.files));
    let takes_over = !taken.records.is_empty();
    taken.edit(held, &mut record)?;
    Ok(Plan {
        removals,
        rendered: Rendered::Changes(Box::new(changes)),
        record,
        takes_over,
    })
}

/// Gives up what an owner has: its files stay, and belong to nobody.
pub fn plan_release(owner: &FileOwner, held: &dyn Held) -> Result<Vec<RepoPath>, LayoutError> {
    Ok(held.below(Record::of(owner).root())?)
}

/// What others have to give up for a plan.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Their files that are in the way.
    pub(super) files: BTreeSet<RepoPath>,
    /// What is taken out of their records.
    records: Vec<(Record, Vec<RepoPath>)>,
}

impl Taken {
    pub(super) fn edit(self, held: &dyn Held, edit: &mut RecordEdit) -> Result<(), LayoutError> {
        for (record, paths) in self.records {
            let theirs = record.take_away(held, &paths)?;
            edit.writes.extend(theirs.writes);
            edit.removals.extend(theirs.removals);
        }
        Ok(())
    }
}

/// A file that is where another is wanted.
struct Conflict<'p> {
    wanted: &'p RepoPath,
    file: RepoPath,
}

impl Conflict<'_> {
    /// Whether the file itself is wanted, rather than its place for a directory or in one.
    fn is_same(&self) -> bool {
        *self.wanted == self.file
    }
}

/// Refuses paths that somebody else has and may keep. A file that nobody has may be taken over: it
/// comes from a time without records, or from a person who now hands it to an inventory.
pub(super) fn check_free(
    held: &dyn Held,
    owner: &FileOwner,
    added: &[&RepoPath],
    stale: &BTreeSet<RepoPath>,
) -> Result<Taken, LayoutError> {
    let mut taken = Taken::default();
    let conflicts = conflicts(held, added, stale)?;
    if conflicts.is_empty() {
        return Ok(taken);
    }
    let own = Record::of(owner);
    let mut given_up: Vec<bool> = conflicts.iter().map(Conflict::is_same).collect();
    for other in Record::all(held)? {
        if other == own {
            continue;
        }
        let mut theirs = Vec::new();
        for at in recorded(held, &other, &conflicts)? {
            let Conflict { wanted, file } = &conflicts[at];
            if !owner.may_take(wanted, &other) {
                return Err(if conflicts[at].is_same() {
                    LayoutError::Owned {
                        path: file.clone(),
                        record: other.root().to_owned(),
                    }
                } else {
                    nested(file)
                });
            }
            given_up[at] = true;
            theirs.push(file.clone());
        }
        if !theirs.is_empty() {
            taken.records.push((other, theirs));
        }
    }
    for (conflict, given_up) in conflicts.into_iter().zip(given_up) {
        // A file may not replace a directory with other people's files in it, nor a directory
        // somebody's file.
        if !given_up {
            return Err(nested(&conflict.file));
        }
        if !conflict.is_same() {
            taken.files.insert(conflict.file);
        }
    }
    Ok(taken)
}

/// Which conflicts are about files in a record.
fn recorded(
    held: &dyn Held,
    record: &Record,
    conflicts: &[Conflict<'_>],
) -> Result<Vec<usize>, LayoutError> {
    let mut found = Vec::new();
    if conflicts.len() > FEW {
        // One look at all of it costs less than many looks at parts.
        let all = record.load(held)?.unwrap_or_default();
        let theirs = |at: &usize| all.contains(&conflicts[*at].file);
        found.extend((0..conflicts.len()).filter(theirs));
        return Ok(found);
    }
    for (at, conflict) in conflicts.iter().enumerate() {
        if record.has(held, &conflict.file)? {
            found.push(at);
        }
    }
    Ok(found)
}

/// The files that are where others are wanted.
fn conflicts<'p>(
    held: &dyn Held,
    added: &[&'p RepoPath],
    stale: &BTreeSet<RepoPath>,
) -> Result<Vec<Conflict<'p>>, LayoutError> {
    let mut found = Vec::new();
    // Many files may be wanted where there is one.
    let mut seen = BTreeSet::new();
    for wanted in added {
        if held.contains(wanted)? {
            let file = (*wanted).clone();
            found.push(Conflict { wanted, file });
        }
        let mut in_the_way = Vec::new();
        if held.is_directory(wanted)? {
            in_the_way = held.below(wanted)?;
        }
        for directory in wanted.directories() {
            if held.is_directory(directory)? {
                break;
            }
            if let Ok(file) = RepoPath::clean(directory)
                && held.contains(&file)?
            {
                in_the_way.push(file);
            }
        }
        for file in in_the_way {
            if !stale.contains(&file) && seen.insert(file.clone()) {
                found.push(Conflict { wanted, file });
            }
        }
    }
    Ok(found)
}

fn nested(path: &RepoPath) -> LayoutError {
    LayoutError::Nested {
        path: path.clone(),
        what: "what the repository holds".to_owned(),
    }
}

/// Whether a path is the document of an earlier generation: whoever puts the generation into the
/// path wants to keep them, unless pruning is asked for.
pub(super) fn is_earlier_generation(layout: &Layout, header: &Header<'_>, path: &RepoPath) -> bool {
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
