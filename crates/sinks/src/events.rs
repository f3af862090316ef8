//! Rows as events: what Kafka and NATS publish, without either of them.
//!
//! A topic or stream is a projection like every other sink: its newest message per key is the
//! inventory. What a message says, which key and headers it has and which messages a delivery needs
//! is decided here, without I/O; a backend adds how its server is spoken to.
//!
//! ```text
//! cluster, inventory ─> Source ─ key, source of a row
//! row, deleted item ──> Source ─> Message ─ body, key, headers, id
//! all rows, what the stream says it holds ─> Comparison ─> upserts, names that are gone
//! delta ─> Changes ─> upserts, deletes; one per key
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`source`] | keys, and what all messages of an inventory have in common |
//! | [`item`] | what a message is about; its hash |
//! | [`message`] | body, headers and id of a message of mode `changes` |
//! | [`difference`] | which messages a delivery needs |
//! | [`oversize`] | rows that are too large for the server, remembered over deliveries |
//! | [`snapshots`] | messages of mode `snapshots` |
//!
//! How a backend uses it:
//!
//! - **All rows** ([`DeliveryRows::All`](crate::sink::DeliveryRows)): a [`Comparison`] of the rows, by
//!   the name each has at the backend (Kafka: [`Source::key`]; NATS: its subject). Read back what the
//!   stream holds, [`Comparison::saw`] for each message of this inventory in the order of the stream,
//!   then [`Comparison::finish`]. Every upsert becomes a [`Source::upsert`]; every name that is gone a
//!   [`Source::delete`] with the [`Item`] that its key ([`Source::item_of_key`]) or last message
//!   ([`Item::of_body`]) tells, unless [`Item::is_held`].
//! - **Reading refused or too much**: all rows as upserts, then [`Source::synced`]; the receipt says
//!   [`ReadBack::Replayed`](crate::sink::ReadBack).
//! - **Changes**: [`Changes::of`].
//! - **Retirement**: a [`Comparison`] of no rows.

pub mod difference;
pub mod item;
pub mod message;
pub mod oversize;
pub mod snapshots;
pub mod source;

#[cfg(test)]
mod tests;

pub use difference::{Changes, Comparison, Difference};
pub use item::{Item, ItemHash};
pub use message::{Event, HeaderNames, KOLLECT_EVENT, KOLLECT_HASH, Message};
pub use oversize::{Oversize, Sizes};
pub use source::Source;

use sha2::{Digest, Sha256};

/// The SHA-256 of a text as lower-case hexadecimal digits.
pub(crate) fn sha256_hex(text: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
        hex.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    hex
}

/// A text as it may stand in a header: visible ASCII, everything else percent-encoded.
///
/// Names of objects may hold nearly any character, line breaks included, and a header that ends early
/// would be somebody else's header. Percent signs stay: the segments of keys escape theirs already.
pub(crate) fn header_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            plain.push(char::from(byte));
        } else {
            plain.push_str(&format!("%{byte:02X}"));
        }
    }
    plain
}
