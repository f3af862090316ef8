//! One object of a target, and what may happen to it.

use kollect_inventory::{Attributes, Row};

use crate::gates::Version;
use crate::plan::Epoch;

/// What a write was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The plan with which it was decided.
    pub epoch: Epoch,
    /// The version of the object.
    pub version: Version,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The rows are different now.
    Changed,
    /// The rows are as they were.
    Unchanged,
    /// Something newer is known about the object.
    Stale,
    /// The decision was made with a plan that is no longer valid for the target. A list that
    /// follows the new plan covers the object.
    Superseded,
    /// The feed or the target is closed.
    Closed,
}

/// What is to be known about an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    /// It is collected, with these attributes.
    Row(Attributes<'a>),
    /// It should be collected, but extraction fails.
    Failed,
    /// It exists and is not collected.
    Skipped,
    /// It does not exist.
    Deleted,
}

impl<'a> Content<'a> {
    /// What will be known about the object, and the attributes of its row.
    pub(super) fn parts(self) -> (State, Attributes<'a>) {
        match self {
            Content::Row(attributes) => (State::Collected, attributes),
            Content::Failed => (State::Failed, Attributes::NULL),
            Content::Skipped | Content::Deleted => (State::Gone, Attributes::NULL),
        }
    }
}

/// One object of a target.
#[derive(Debug)]
pub(super) struct Entry {
    /// The row; without attributes unless the object is collected.
    pub(super) row: Row,
    /// The version of the object this is about.
    pub(super) version: Version,
    /// The last listing that showed the object.
    pub(super) mark: u32,
    pub(super) state: State,
}

/// What is known about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It has a row.
    Collected,
    /// It has none, because extraction fails.
    Failed,
    /// It has none. Remembered while a listing is under way, which may still show an older state
    /// of the object.
    Gone,
}

impl Entry {
    /// The row, if the object has one.
    pub(super) fn visible(&self) -> Option<&Row> {
        (self.state == State::Collected).then_some(&self.row)
    }
}
