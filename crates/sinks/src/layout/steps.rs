//! How to change files where not all of them change at once.
//!
//! A repository takes a commit; a bucket takes one object after the other, and the program may end
//! between any two. So a record of whose files these are is written before the first of them, and
//! shortened after the last one is removed: whatever happens in between, every file of ours is in
//! the record, and the next delivery goes on from there.

use std::collections::BTreeSet;

use super::error::LayoutError;
use super::held::Held;
use super::owner::FileOwner;
use super::ownership::{Record, RecordEdit};
use super::path::RepoPath;
use super::plan::check_free;
use crate::error::SinkError;

/// The steps of one delivery, in this order, around the writing of its files.
#[derive(Debug, Default)]
pub struct Steps {
    /// What the record says before the first file is written.
    pub claim: RecordEdit,
    /// Every file that is in the record then.
    pub claimed: BTreeSet<RepoPath>,
    /// What is removed once all files are written. Paths that are not there may be among them.
    pub removals: Vec<RepoPath>,
    /// What the record says in the end.
    pub settle: RecordEdit,
}

/// The steps to make a place hold files at `paths`, and of this owner nothing else but what is
/// `kept`.
pub fn plan_steps(
    owner: &FileOwner,
    paths: &BTreeSet<RepoPath>,
    kept: &dyn Fn(&RepoPath) -> bool,
    held: &dyn Held,
) -> Result<Steps, LayoutError> {
    let record = Record::of(owner);
    let mut claimed = record.load(held)?.unwrap_or_default();
    let mut stale: BTreeSet<RepoPath> = claimed
        .difference(paths)
        .filter(|path| !kept(path))
        .cloned()
        .collect();
    let added: Vec<&RepoPath> = paths.difference(&claimed).collect();
    let mut taken = check_free(held, owner, &added, &stale)?;
    claimed.extend(paths.iter().cloned());
    let mut claim = record.replace(held, &claimed)?;
    stale.append(&mut taken.files);
    taken.edit(held, &mut claim)?;
    let settled = claimed.difference(&stale).cloned().collect();
    let later = After { held, edit: &claim };
    let settle = record.replace(&later, &settled)?;
    Ok(Steps {
        claim,
        claimed,
        removals: stale.into_iter().collect(),
        settle,
    })
}

/// The steps after which nothing of an owner is left: its files, then its record.
pub fn plan_removal(owner: &FileOwner, held: &dyn Held) -> Result<Steps, LayoutError> {
    let record = Record::of(owner);
    let claimed = record.load(held)?.unwrap_or_default();
    Ok(Steps {
        claim: RecordEdit::default(),
        removals: claimed.iter().cloned().collect(),
        claimed,
        settle: RecordEdit {
            removals: held.below(record.root())?.into_iter().collect(),
            ..RecordEdit::default()
        },
    })
}

/// What is there once an edit is done.
struct After<'h> {
    held: &'h dyn Held,
    edit: &'h RecordEdit,
}

impl Held for After<'_> {
    fn read(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, SinkError> {
        match self.edit.writes.get(path) {
            Some(bytes) => Ok(Some(bytes.clone())),
            None if self.edit.removals.contains(path) => Ok(None),
            None => self.held.read(path),
        }
    }

    fn contains(&self, path: &RepoPath) -> Result<bool, SinkError> {
        Ok(self.edit.writes.contains_key(path)
            || !self.edit.removals.contains(path) && self.held.contains(path)?)
    }

    fn is_directory(&self, directory: &str) -> Result<bool, SinkError> {
        Ok(!self.below(directory)?.is_empty())
    }

    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, SinkError> {
        let inside = format!("{directory}/");
        let mut paths: BTreeSet<RepoPath> = self.held.below(directory)?.into_iter().collect();
        paths.retain(|path| !self.edit.removals.contains(path));
        let written = self.edit.writes.keys();
        paths.extend(written.filter(|path| path.starts_with(&inside)).cloned());
        Ok(paths.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kollect_api::InventoryId;

    use super::*;

    type Place = BTreeMap<RepoPath, Vec<u8>>;

    fn path(text: &str) -> RepoPath {
        RepoPath::clean(text).unwrap()
    }

    fn apply(place: &mut Place, edit: &RecordEdit) {
        place.retain(|path, _| !edit.removals.contains(path));
        place.extend(edit.writes.clone());
    }

    /// One delivery that ends after some of its steps.
    fn deliver(place: &mut Place, owner: &FileOwner, files: &[&str], steps: usize) {
        let paths: BTreeSet<RepoPath> = files.iter().map(|file| path(file)).collect();
        let plan = plan_steps(owner, &paths, &|_| false, place).unwrap();
        if steps > 0 {
            apply(place, &plan.claim);
        }
        if steps > 1 {
            place.extend(paths.into_iter().map(|path| (path, b"x".to_vec())));
        }
        if steps > 2 {
            place.retain(|path, _| !plan.removals.contains(path));
        }
        if steps > 3 {
            apply(place, &plan.settle);
        }
    }

    fn files(place: &Place) -> Vec<&str> {
        let paths = place.keys().map(RepoPath::as_str);
        paths
            .filter(|path| !path.starts_with(".kollect/"))
            .collect()
    }

    #[test]
    fn a_delivery_that_ends_anywhere_is_mended_by_the_next() {
        let owner = FileOwner::new(
            "team-a",
            "s3",
            "lab",
            &InventoryId::namespaced("team-a", "web"),
        );
        for steps in 0..=4 {
            let mut place = Place::from([(path("theirs"), b"y".to_vec())]);
            deliver(&mut place, &owner, &["a", "b"], 4);
            deliver(&mut place, &owner, &["b", "c"], steps);
            deliver(&mut place, &owner, &["d"], 4);
            assert_eq!(files(&place), ["d", "theirs"], "after {steps} steps");
            let removal = plan_removal(&owner, &place).unwrap();
            place.retain(|path, _| !removal.removals.contains(path));
            apply(&mut place, &removal.settle);
            assert_eq!(place.len(), 1, "after {steps} steps");
        }
    }

    #[test]
    fn what_is_in_the_record_of_another_is_refused() {
        let of = |cluster: &str| {
            FileOwner::new(
                "team-a",
                "s3",
                cluster,
                &InventoryId::namespaced("team-a", "web"),
            )
        };
        let mut place = Place::new();
        // Claimed, and not even written yet.
        deliver(&mut place, &of("east"), &["inventory/team-a/web.json"], 1);
        place.insert(path("inventory/team-a/web.json"), b"x".to_vec());
        let wanted = BTreeSet::from([path("inventory/team-a/web.json")]);
        let refused = plan_steps(&of("west"), &wanted, &|_| false, &place);
        assert!(
            matches!(refused, Err(LayoutError::Owned { .. })),
            "{refused:?}"
        );
    }
}
