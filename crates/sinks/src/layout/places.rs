//! Which row stands where.
//!
//! A row's path is made of its own identity and depends on no other row, as long as no other row
//! wants the same path. Where several do, they move aside: with their API group as a directory,
//! then with a piece of their uid in the file name. So one row more or less moves at most the rows
//! that want the same path, and [`Places`] knows those without looking at any others. It keeps one
//! pointer per row.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use kollect_api::rules::template::Template;
use kollect_inventory::{Delta, Row, Snapshot};

use super::content::Content;
use super::error::LayoutError;
use super::path::{RepoPath, UnsafePath};
use super::segment::mark;
use super::template::Fixed;

/// How rows find their paths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule<'a> {
    pub(super) fixed: Fixed<'a>,
    pub(super) template: &'a Template,
    /// What paths end in, so that marks go in front of it.
    pub(super) ending: &'a str,
    pub(super) content: Content<'a>,
}

impl Rule<'_> {
    /// The path that a row wants.
    fn wanted(&self, row: &Row) -> Result<RepoPath, LayoutError> {
        let path = self.fixed.row(self.template, row);
        path.map_err(|fault| unsafe_row(row, fault))
    }

    /// The paths of rows that all want one path, in the order of the rows. Copies of one object
    /// (two targets may select it) count once.
    fn settle(&self, wanted: &RepoPath, rows: &[Row]) -> Result<Vec<(RepoPath, Row)>, LayoutError> {
        let mut originals: Vec<&Row> = Vec::with_capacity(rows.len());
        let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
        for row in rows {
            let object = (
                object_key(row),
                row.attributes().to_json().as_str().to_owned(),
            );
            if seen.insert(object) {
                originals.push(row);
            }
        }
        if let [only] = originals[..] {
            return Ok(vec![(wanted.clone(), only.clone())]);
        }
        let count = |key: &dyn Fn(&Row) -> String| {
            let mut counts: HashMap<String, usize> = HashMap::new();
            for row in &originals {
                *counts.entry(key(row)).or_default() += 1;
            }
            counts
        };
        let group = |row: &Row| self.fixed.naming.group_segment(row).into_owned();
        let uid = |row: &Row| short(&row.uid().to_string());
        let group_and_uid = |row: &Row| format!("{}/{}", group(row), uid(row));
        let (by_group, by_uid) = (count(&group), count(&group_and_uid));
        let place = |row: &Row| -> Result<RepoPath, UnsafePath> {
            let mut path = wanted.clone();
            if by_group.len() > 1 {
                path = path.below(&group(row))?;
            }
            if by_group[&group(row)] > 1 {
                path = path.marked(&format!("-{}", uid(row)), self.ending)?;
            }
            if by_uid[&group_and_uid(row)] > 1 {
                let origin = row.origin();
                let identity = format!("{:?}{}", origin.owner(), row.identity());
                path = path.marked(&format!("-{}", mark(identity.as_bytes())), self.ending)?;
            }
            Ok(path)
        };
        let places = originals.iter().map(|row| {
            let path = place(row).map_err(|fault| unsafe_row(row, fault))?;
            Ok((path, (*row).clone()))
        });
        places.collect()
    }
}

/// The beginning of a uid, or of what stands for a uid that would not do in a file name.
fn short(uid: &str) -> String {
    let head: String = uid.chars().take(8).collect();
    let plain = head.chars().all(|c| c.is_ascii_alphanumeric());
    if plain && head.len() == 8 {
        head
    } else {
        mark(uid.as_bytes())
    }
}

/// What tells objects apart: the uid, or everything else for rows that have none.
fn object_key(row: &Row) -> String {
    let uid = row.uid().to_string();
    if uid.is_empty() {
        let origin = row.origin();
        let name = (
            origin.group(),
            origin.kind(),
            origin.namespace(),
            row.name(),
        );
        format!("{name:?}")
    } else {
        uid
    }
}

fn unsafe_row(row: &Row, fault: UnsafePath) -> LayoutError {
    LayoutError::Path {
        what: described(row),
        fault,
    }
}

/// A row as errors name it.
pub(super) fn described(row: &Row) -> String {
    let origin = row.origin();
    format!("{}/{}/{}", origin.kind(), origin.namespace(), row.name())
}

/// Several rows that want one path.
#[derive(Debug, Default)]
struct Contest {
    /// Those rows, in canonical order.
    rows: Vec<Row>,
    /// The paths they were given, in the same order.
    settled: Vec<(RepoPath, Row)>,
}

/// Which row of an inventory stands where in a tree of files.
#[derive(Debug, Default)]
pub struct Places {
    /// Rows that have the path they want for themselves, found by that path.
    alone: HashTable<(u64, Row)>,
    hasher: DefaultHashBuilder,
    contests: BTreeMap<RepoPath, Contest>,
    /// Paths that somebody has without wanting them: rows that moved aside, and the index.
    given: HashMap<RepoPath, Option<Row>>,
    /// How many files and directories each directory holds.
    directories: HashMap<Box<str>, u32>,
    /// Rows that have not what the layout asks for, as errors name them.
    skipped: BTreeMap<String, usize>,
}

/// What has to happen to the files of rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// Paths and the rows that are there now.
    pub(super) writes: Vec<(RepoPath, Row)>,
    /// Paths that were not there before.
    pub(super) added: Vec<RepoPath>,
    /// Paths that no row has any more.
    pub(super) removed: Vec<RepoPath>,
}

impl Places {
    /// Finds a place for every row. `reserved` is a path that no row may have.
    pub(super) fn new(
        rule: &Rule<'_>,
        reserved: Option<&RepoPath>,
        rows: &Snapshot,
    ) -> Result<Self, LayoutError> {
        let mut places = Places {
            alone: HashTable::with_capacity(rows.len()),
            ..Places::default()
        };
        if let Some(path) = reserved {
            places.count(path);
            places.given.insert(path.clone(), None);
        }
        let mut contested = BTreeSet::new();
        for row in rows.rows() {
            contested.extend(places.claim(rule, row)?);
        }
        for path in contested {
            places.settle(rule, &path)?;
        }
        Ok(places)
    }

    /// The number of rows that were left out because they have not what the layout asks for.
    pub fn skipped(&self) -> usize {
        self.skipped.values().sum()
    }

    /// The first of them by name.
    pub fn first_skipped(&self) -> Option<&str> {
        self.skipped.keys().next().map(String::as_str)
    }

    /// Where a row stands; nothing if it was left out or is a copy of another.
    pub(super) fn path_of(
        &self,
        rule: &Rule<'_>,
        row: &Row,
    ) -> Result<Option<RepoPath>, LayoutError> {
        if !rule.content.has(row) {
            return Ok(None);
        }
        let wanted = rule.wanted(row)?;
        Ok(match self.contests.get(&wanted) {
            None => Some(wanted),
            Some(contest) => {
                let settled = &contest.settled;
                let at =
                    settled.binary_search_by(|(_, other)| other.identity().cmp(&row.identity()));
                at.ok().map(|at| settled[at].0.clone())
            }
        })
    }

    /// Applies a change. The places are gone if rows collide: nothing would be left to go on from.
    pub(super) fn change(
        mut self,
        rule: &Rule<'_>,
        delta: &Delta,
    ) -> Result<(Self, Moves), LayoutError> {
        let mut touched = BTreeSet::new();
        for change in delta.changes() {
            for row in [change.before(), change.after()].into_iter().flatten() {
                if rule.content.has(row) {
                    touched.insert(rule.wanted(row)?);
                }
            }
        }
        let before = self.files(rule, &touched)?;
        for path in &touched {
            self.unsettle(path);
        }
        for row in delta.changes().filter_map(|change| change.before()) {
            self.release(rule, row)?;
        }
        for path in &touched {
            // A path that nobody wants any more may be inside another now, or around it.
            let deserted = |contest: &Contest| contest.rows.is_empty();
            if self.contests.get(path).is_some_and(deserted) {
                self.contests.remove(path);
                self.vacate(path);
            }
        }
        for row in delta.upserts() {
            self.claim(rule, row)?;
        }
        for path in &touched {
            self.settle(rule, path)?;
        }
        let after = self.files(rule, &touched)?;
        let mut moves = Moves::default();
        for path in before.keys().filter(|path| !after.contains_key(*path)) {
            moves.removed.push(path.clone());
        }
        for (path, row) in after {
            let old = before.get(&path);
            if old.is_none() {
                moves.added.push(path.clone());
            }
            if old != Some(&row) {
                moves.writes.push((path, row));
            }
        }
        Ok((self, moves))
    }

    /// The files of those who want some paths.
    fn files(
        &self,
        rule: &Rule<'_>,
        wanted: &BTreeSet<RepoPath>,
    ) -> Result<BTreeMap<RepoPath, Row>, LayoutError> {
        let mut files = BTreeMap::new();
        for path in wanted {
            if let Some(contest) = self.contests.get(path) {
                files.extend(contest.settled.iter().cloned());
            } else if let Some(row) = self.find(rule, path)? {
                files.insert(path.clone(), row.clone());
            }
        }
        Ok(files)
    }

    /// The row that has a path for itself.
    fn find(&self, rule: &Rule<'_>, path: &RepoPath) -> Result<Option<&Row>, LayoutError> {
        let hash = self.hasher.hash_one(path);
        for (other, row) in self.alone.iter_hash(hash) {
            if *other == hash && rule.wanted(row)? == *path {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Lets a row want its path. Returns the path if others want it too.
    fn claim(&mut self, rule: &Rule<'_>, row: &Row) -> Result<Option<RepoPath>, LayoutError> {
        if !rule.content.has(row) {
            *self.skipped.entry(described(row)).or_default() += 1;
            return Ok(None);
        }
        let wanted = rule.wanted(row)?;
        if let Some(contest) = self.contests.get_mut(&wanted) {
            let rows = &mut contest.rows;
            let at = rows.partition_point(|other| other.identity() < row.identity());
            rows.insert(at, row.clone());
            return Ok(Some(wanted));
        }
        if let Some(other) = self.take(rule, &wanted)? {
            let mut rows = vec![other, row.clone()];
            rows.sort_by(|a, b| a.identity().cmp(&b.identity()));
            let settled = Vec::new();
            self.contests
                .insert(wanted.clone(), Contest { rows, settled });
            return Ok(Some(wanted));
        }
        if let Some(holder) = self.given.get(&wanted) {
            return Err(collision(&wanted, holder.as_ref(), row));
        }
        self.occupy(rule, &wanted, row)?;
        self.put(&wanted, row.clone());
        Ok(None)
    }

    /// Gives a path to the only row that wants it.
    fn put(&mut self, wanted: &RepoPath, row: Row) {
        let hash = self.hasher.hash_one(wanted);
        self.alone
            .insert_unique(hash, (hash, row), |(hash, _)| *hash);
    }

    /// Takes back what a row wanted.
    fn release(&mut self, rule: &Rule<'_>, row: &Row) -> Result<(), LayoutError> {
        if !rule.content.has(row) {
            if let Entry::Occupied(mut entry) = self.skipped.entry(described(row)) {
                *entry.get_mut() -= 1;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
            return Ok(());
        }
        let wanted = rule.wanted(row)?;
        if let Some(contest) = self.contests.get_mut(&wanted) {
            contest
                .rows
                .retain(|other| other.identity() != row.identity());
        } else if let Some(holder) = self.find(rule, &wanted)?
            && holder.identity() == row.identity()
        {
            self.take(rule, &wanted)?;
            self.vacate(&wanted);
        }
        Ok(())
    }

    /// Takes out the row that has a path for itself.
    fn take(&mut self, rule: &Rule<'_>, path: &RepoPath) -> Result<Option<Row>, LayoutError> {
        let Some(row) = self.find(rule, path)?.cloned() else {
            return Ok(None);
        };
        let hash = self.hasher.hash_one(path);
        let entry = self
            .alone
            .find_entry(hash, |(_, other)| other.is_same(&row));
        Ok(entry.ok().map(|entry| entry.remove().0.1))
    }

    /// Takes back the paths that rows of a contest were given.
    fn unsettle(&mut self, wanted: &RepoPath) {
        let Some(contest) = self.contests.get_mut(wanted) else {
            return;
        };
        for (path, _) in std::mem::take(&mut contest.settled) {
            if path != *wanted {
                self.given.remove(&path);
                self.vacate(&path);
            }
        }
    }

    /// Decides a contest, if there is one.
    fn settle(&mut self, rule: &Rule<'_>, wanted: &RepoPath) -> Result<(), LayoutError> {
        let Some(mut contest) = self.contests.remove(wanted) else {
            return Ok(());
        };
        match &contest.rows[..] {
            [] => {}
            [row] => self.put(wanted, row.clone()),
            rows => {
                contest.settled = rule.settle(wanted, rows)?;
                for (path, row) in &contest.settled {
                    if path != wanted {
                        self.give(rule, path, row)?;
                    }
                }
                self.contests.insert(wanted.clone(), contest);
            }
        }
        Ok(())
    }

    /// Gives a row a path that it moves aside to.
    fn give(&mut self, rule: &Rule<'_>, path: &RepoPath, row: &Row) -> Result<(), LayoutError> {
        if let Some(holder) = self.given.get(path) {
            return Err(collision(path, holder.as_ref(), row));
        }
        let contest = self.contests.get(path);
        if let Some(holder) = contest.and_then(|contest| contest.rows.first()) {
            return Err(collision(path, Some(holder), row));
        }
        if let Some(holder) = self.find(rule, path)? {
            return Err(collision(path, Some(holder), row));
        }
        self.occupy(rule, path, row)?;
        self.given.insert(path.clone(), Some(row.clone()));
        Ok(())
    }

    /// Makes a file of a path, unless it is a directory or would have to be inside a file.
    fn occupy(&mut self, rule: &Rule<'_>, path: &RepoPath, row: &Row) -> Result<(), LayoutError> {
        let nested = |path: &RepoPath| LayoutError::Nested {
            path: path.clone(),
            what: described(row),
        };
        if self.directories.contains_key(path.as_str()) {
            return Err(nested(path));
        }
        for directory in path.directories() {
            if self.directories.contains_key(directory) {
                // Whoever is in there already has asked for everything above it.
                break;
            }
            let Ok(file) = RepoPath::clean(directory) else {
                continue;
            };
            if self.given.contains_key(&file)
                || self.contests.contains_key(&file)
                || self.find(rule, &file)?.is_some()
            {
                return Err(nested(&file));
            }
        }
        self.count(path);
        Ok(())
    }

    fn count(&mut self, path: &RepoPath) {
        for directory in path.directories() {
            let count = self.directories.entry(directory.into()).or_default();
            *count += 1;
            if *count > 1 {
                break;
            }
        }
    }

    fn vacate(&mut self, path: &RepoPath) {
        for directory in path.directories() {
            if let Some(count) = self.directories.get_mut(directory) {
                *count -= 1;
                if *count > 0 {
                    break;
                }
                self.directories.remove(directory);
            }
        }
    }
}

/// `first` is nothing for the index.
fn collision(path: &RepoPath, first: Option<&Row>, second: &Row) -> LayoutError {
    LayoutError::Collision {
        path: path.clone(),
        first: first.map_or_else(|| "the index".to_owned(), described),
        second: described(second),
    }
}
