//! From messages to what is published, and from what was published to a receipt.

use jiff::Timestamp;
use kollect_inventory::Row;

use super::producer::{Entry, Tally};
use crate::{
    events::{Event, HeaderNames, Item, Message, Sizes, Source, snapshots::SnapshotMessage},
    sink::{Receipt, Skipped},
};

pub(super) fn upsert(source: &Source, row: &Row, at: Timestamp) -> Entry {
    entry(source.upsert(row, at))
}

pub(super) fn delete(source: &Source, item: &Item<'_>, at: Timestamp) -> Entry {
    entry(source.delete(item, at))
}

pub(super) fn entry(message: Message) -> Entry {
    Entry {
        headers: message.headers(&HeaderNames::KAFKA),
        tombstone: message.event == Event::Delete,
        key: message.key,
        value: message.body,
    }
}

pub(super) fn document(message: SnapshotMessage) -> Entry {
    Entry {
        key: message.key,
        value: message.body,
        headers: message.headers.into(),
        tombstone: false,
    }
}

/// What a delivery found out about the sizes of its messages.
pub(super) fn sizes(source: &Source, tally: &Tally, published: &[String]) -> Sizes {
    let mut sizes = Sizes::default();
    for key in published {
        sizes.fits(key);
    }
    for key in &tally.too_large {
        if let Some(item) = source.item_of_key(key) {
            sizes.too_large(key, &item);
        }
    }
    sizes
}

pub(super) fn receipt(tally: &Tally, skipped: Option<Skipped>) -> Receipt {
    Receipt {
        written: tally.written,
        removed: tally.removed,
        bytes: tally.bytes,
        skipped,
        ..Receipt::default()
    }
}
