//! One inventory at one stream.

use jiff::Timestamp;
use kollect_inventory::Row;

use super::{connection::Connection, publish::Outgoing, stream::Stream, subject::Subjects};
use crate::events::{Item, Source};

/// One inventory at one stream.
pub(super) struct Place<'s> {
    pub(super) connection: &'s Connection,
    pub(super) stream: &'s Stream,
    pub(super) source: Source,
    pub(super) subjects: Subjects,
    pub(super) at: Timestamp,
    /// The largest message.
    pub(super) limit: u64,
}

impl Place<'_> {
    pub(super) fn upsert(&self, row: &Row) -> Outgoing {
        let subject = self.subjects.row(&self.source, &Item::of(row));
        Outgoing::of(self.source.upsert(row, self.at), subject, self.stream)
    }

    pub(super) fn delete(&self, item: &Item<'_>) -> Outgoing {
        let subject = self.subjects.row(&self.source, item);
        Outgoing::of(self.source.delete(item, self.at), subject, self.stream)
    }
}
