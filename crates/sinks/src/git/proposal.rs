//! From a delivery to a change of files.

use std::sync::{Arc, Mutex, PoisonError};

use git2::Oid;
use jiff::Timestamp;
use kollect_api::InventoryId;
use kollect_inventory::{Delta, Snapshot};

use super::{
    error::GitError,
    message::{Context, Templates},
    publish::{Proposal, Tree},
    settings::OnDelete,
    tree::Files,
};
use crate::{
    census::Census,
    layout::{
        Header, Layout, Places, RepoPath,
        owner::FileOwner,
        ownership::Record,
        plan::{plan_changes, plan_everything, plan_release, skipped},
    },
    sink::{Delivery, Skipped},
};

/// What all proposals of a sink have in common: how rows become files and commits.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) layout: Layout,
    pub(super) templates: Templates,
    /// The sink object.
    pub(super) sink: String,
    pub(super) namespace: String,
    /// Who else is there.
    pub(super) census: Arc<Census>,
}

impl Story {
    fn owner(&self, inventory: &InventoryId) -> FileOwner {
        let cluster = self.layout.cluster();
        FileOwner::new(&self.namespace, &self.sink, cluster, inventory).among(&self.census)
    }

    fn message(&self, delivery: &Delivery, items: u64, checksum: &str) -> String {
        let path = self
            .layout
            .document_path(&delivery.inventory, delivery.generation)
            .map(|path| path.as_str().to_owned())
            .unwrap_or_default();
        self.templates.render(&Context {
            cluster: self.layout.cluster(),
            namespace: delivery.inventory.namespace(),
            name: &delivery.inventory.name,
            generation: delivery.generation,
            items,
            checksum,
            at: delivery.at,
            sink: &self.sink,
            path: &path,
        })
    }

    /// The digest of all rows, if a commit is to name it.
    fn checksum(&self, rows: &Snapshot) -> String {
        if self.templates.want_checksum() {
            rows.fingerprint().to_string()
        } else {
            String::new()
        }
    }
}

/// What has to be remembered of an inventory to write its changes.
#[derive(Debug)]
pub(super) struct Kept {
    places: Places,
    /// The record of its files as it was left: whoever replaces the branch replaces the record.
    record: Option<Oid>,
    items: u64,
    /// Its rows, if commits name their checksum.
    rows: Option<Snapshot>,
}

impl Kept {
    /// The rows that are left out.
    pub(super) fn skipped(&self) -> Option<Skipped> {
        skipped(&self.places)
    }
}

/// What a proposal leaves on the branch.
#[derive(Debug, Default)]
struct Left {
    places: Option<Places>,
    record: Option<Oid>,
    skipped: Option<Skipped>,
}

/// All rows of an inventory.
pub(super) struct SnapshotProposal {
    story: Arc<Story>,
    delivery: Delivery,
    rows: Snapshot,
    left: Mutex<Left>,
}

impl SnapshotProposal {
    pub(super) fn new(story: &Arc<Story>, delivery: &Delivery, rows: &Snapshot) -> Self {
        Self {
            story: Arc::clone(story),
            delivery: delivery.clone(),
            rows: rows.clone(),
            left: Mutex::default(),
        }
    }

    /// The rows that were left out.
    pub(super) fn skipped(&self) -> Option<Skipped> {
        locked(&self.left).skipped.clone()
    }

    /// What has to be remembered, once the proposal was published. Nothing if the layout cannot
    /// write changes.
    pub(super) fn kept(&self) -> Option<Kept> {
        let left = std::mem::take(&mut *locked(&self.left));
        Some(Kept {
            places: left.places?,
            record: left.record,
            items: self.rows.len() as u64,
            rows: self
                .story
                .templates
                .want_checksum()
                .then(|| self.rows.clone()),
        })
    }
}

impl Proposal for SnapshotProposal {
    fn apply(&self, tree: &mut Tree<'_>) -> Result<(), GitError> {
        let story = &self.story;
        let owner = story.owner(&self.delivery.inventory);
        let header = Header::of(&self.delivery);
        let plan = plan_everything(&story.layout, &owner, &header, &self.rows, &*tree)
            .map_err(|error| tree.failure(error))?;
        for path in plan.removals() {
            tree.remove(path)?;
        }
        for file in plan.files() {
            let file = file.map_err(|error| tree.failure(error))?;
            tree.put_body(&file.path, &file.body)?;
        }
        let mut left = locked(&self.left);
        left.skipped = plan.skipped();
        left.places = plan.into_places();
        Ok(())
    }

    fn wrote(&self, files: &mut Files<'_>) -> Result<(), GitError> {
        let record = Record::of(&self.story.owner(&self.delivery.inventory));
        locked(&self.left).record = files.directory(record.root())?;
        Ok(())
    }

    fn message(&self) -> String {
        let checksum = self.story.checksum(&self.rows);
        let items = self.rows.len() as u64;
        self.story.message(&self.delivery, items, &checksum)
    }

    fn at(&self) -> Timestamp {
        self.delivery.at
    }
}

/// Some rows of an inventory.
pub(super) struct ChangeProposal {
    story: Arc<Story>,
    delivery: Delivery,
    delta: Arc<Delta>,
    expected: Option<Oid>,
    items: u64,
    rows: Option<Snapshot>,
    stage: Mutex<Stage>,
    left: Mutex<Left>,
}

/// How far a change has come. It is planned on the first commit it meets and applied as planned to
/// every other, since those differ in nothing that is ours.
enum Stage {
    Fresh(Places),
    Planned(Edits),
    /// Planning failed; the places are gone with it.
    Spent,
}

#[derive(Clone, Default)]
struct Edits {
    removals: Vec<RepoPath>,
    files: Vec<(RepoPath, Vec<u8>)>,
}

impl ChangeProposal {
    /// A change to what was remembered, which is used up by it.
    pub(super) fn new(
        story: &Arc<Story>,
        delivery: &Delivery,
        delta: &Arc<Delta>,
        kept: Kept,
    ) -> Self {
        let items = delta.changes().fold(kept.items, |items, change| {
            let grown = items + u64::from(change.before().is_none());
            grown.saturating_sub(u64::from(change.after().is_none()))
        });
        Self {
            story: Arc::clone(story),
            delivery: delivery.clone(),
            delta: Arc::clone(delta),
            expected: kept.record,
            items,
            rows: kept.rows.map(|rows| rows.apply(delta)),
            stage: Mutex::new(Stage::Fresh(kept.places)),
            left: Mutex::default(),
        }
    }

    /// The rows that are left out, over the whole inventory.
    pub(super) fn skipped(&self) -> Option<Skipped> {
        locked(&self.left).skipped.clone()
    }

    /// What has to be remembered, once the proposal was published.
    pub(super) fn kept(&self) -> Option<Kept> {
        let left = std::mem::take(&mut *locked(&self.left));
        Some(Kept {
            places: left.places?,
            record: left.record,
            items: self.items,
            rows: self.rows.clone(),
        })
    }

    /// The files of the change.
    fn edits(&self, tree: &Tree<'_>) -> Result<Edits, GitError> {
        let mut stage = locked(&self.stage);
        let places = match std::mem::replace(&mut *stage, Stage::Spent) {
            Stage::Fresh(places) => places,
            Stage::Planned(edits) => {
                *stage = Stage::Planned(edits.clone());
                return Ok(edits);
            }
            Stage::Spent => return Err(out_of_step()),
        };
        let story = &self.story;
        let owner = story.owner(&self.delivery.inventory);
        let header = Header::of(&self.delivery);
        let plan = plan_changes(&story.layout, &owner, &header, places, &self.delta, tree)
            .map_err(|error| tree.failure(error))?;
        if plan.takes_over() {
            // What others have may be different on the next commit; all rows are planned anew there.
            return Err(out_of_step());
        }
        let mut edits = Edits {
            removals: plan.removals().cloned().collect(),
            files: Vec::new(),
        };
        for file in plan.files() {
            let file = file.map_err(|error| tree.failure(error))?;
            edits.files.push((file.path, file.body.into_bytes()));
        }
        let mut left = locked(&self.left);
        left.skipped = plan.skipped();
        left.places = plan.into_places();
        drop(left);
        *stage = Stage::Planned(edits.clone());
        Ok(edits)
    }
}

impl Proposal for ChangeProposal {
    fn apply(&self, tree: &mut Tree<'_>) -> Result<(), GitError> {
        let record = Record::of(&self.story.owner(&self.delivery.inventory));
        if tree.files.borrow_mut().directory(record.root())? != self.expected {
            return Err(out_of_step());
        }
        let edits = self.edits(tree)?;
        for path in &edits.removals {
            tree.remove(path)?;
        }
        for (path, content) in &edits.files {
            tree.put(path, content)?;
        }
        Ok(())
    }

    fn wrote(&self, files: &mut Files<'_>) -> Result<(), GitError> {
        let record = Record::of(&self.story.owner(&self.delivery.inventory));
        locked(&self.left).record = files.directory(record.root())?;
        Ok(())
    }

    fn message(&self) -> String {
        let checksum = self.rows.as_ref().map(|rows| self.story.checksum(rows));
        self.story
            .message(&self.delivery, self.items, &checksum.unwrap_or_default())
    }

    fn at(&self) -> Timestamp {
        self.delivery.at
    }
}

fn out_of_step() -> GitError {
    GitError::OutOfStep(
        "the branch no longer holds the files that were left there; all rows are written again"
            .into(),
    )
}

/// An inventory that is no more. Its files belong to nobody from now on, or go.
pub(super) struct Retirement {
    story: Arc<Story>,
    inventory: InventoryId,
    on_delete: OnDelete,
    at: Timestamp,
}

impl Retirement {
    pub(super) fn new(
        story: &Arc<Story>,
        inventory: &InventoryId,
        on_delete: OnDelete,
        at: Timestamp,
    ) -> Self {
        Self {
            story: Arc::clone(story),
            inventory: inventory.clone(),
            on_delete,
            at,
        }
    }
}

impl Proposal for Retirement {
    fn apply(&self, tree: &mut Tree<'_>) -> Result<(), GitError> {
        let owner = self.story.owner(&self.inventory);
        let owned = match self.on_delete {
            OnDelete::Retain => None,
            OnDelete::Prune => Record::of(&owner)
                .load(&*tree)
                .map_err(|error| tree.failure(error))?,
        };
        let record = plan_release(&owner, &*tree).map_err(|error| tree.failure(error))?;
        for path in owned.into_iter().flatten().chain(record) {
            tree.remove(&path)?;
        }
        Ok(())
    }

    fn message(&self) -> String {
        let what = match self.on_delete {
            OnDelete::Retain => "release",
            OnDelete::Prune => "remove",
        };
        format!(
            "chore({}/{}/{}): {what} the files of a deleted inventory\n",
            self.story.layout.cluster(),
            self.inventory.namespace(),
            self.inventory.name,
        )
    }

    fn at(&self) -> Timestamp {
        self.at
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
