//! Rows on the wire: arrays of a statement, or the binary form of COPY.

use bytes::{BufMut, Bytes, BytesMut};
use kollect_inventory::{Row, canonical::Out};
use memchr::memmem;

use crate::database::{
    keys::{Key, Write},
    resource_namespace,
};

/// A buffer is handed to the socket when it is this full: large enough for few system calls, and
/// all of a delivery that is ever in memory at once.
const CHUNK: usize = 64 * 1024;

/// JSON escape of the character that `jsonb` cannot hold, and of the one that stands for it.
const NUL: &[u8; 6] = b"\\u0000";
const REPLACEMENT: &[u8; 6] = b"\\ufffd";

/// A row as the table has it.
#[derive(Clone, Copy)]
pub(super) struct Item<'r> {
    pub(super) row: &'r Row,
    pub(super) fresh: bool,
}

impl<'r> Item<'r> {
    /// A row of a full delivery, of which it does not matter whether it is new.
    pub(super) fn of(row: &'r Row) -> Self {
        Self { row, fresh: false }
    }
}

impl<'r> From<&'r Write> for Item<'r> {
    fn from(write: &'r Write) -> Self {
        Self {
            row: &write.row,
            fresh: write.fresh,
        }
    }
}

/// Columns of text cannot hold the character either. No name of Kubernetes has it.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Replaces escaped NUL characters in JSON text. Both escapes have the same length, so nothing
/// moves. Almost no text has one, and finding that out is a search for six bytes.
fn replace_nul(json: &mut [u8]) {
    if memmem::find(json, NUL).is_none() {
        return;
    }
    let mut at = 0;
    while at < json.len() {
        if json[at] != b'\\' {
            at += 1;
        } else if json[at..].starts_with(NUL) {
            json[at..at + NUL.len()].copy_from_slice(REPLACEMENT);
            at += NUL.len();
        } else {
            // The escaped character may be a backslash, which escapes nothing.
            at += 2;
        }
    }
}

/// Rows as parallel arrays.
#[derive(Default)]
pub(super) struct Arrays {
    pub(super) target_names: Vec<String>,
    pub(super) uids: Vec<String>,
    pub(super) resource_namespaces: Vec<String>,
    pub(super) payloads: Vec<String>,
    pub(super) fresh: Vec<bool>,
    /// Bytes of all payloads.
    pub(super) bytes: u64,
}

impl Arrays {
    pub(super) fn of<'r>(items: impl Iterator<Item = Item<'r>>, inventory_namespace: &str) -> Self {
        let mut arrays = Self::default();
        for Item { row, fresh } in items {
            let mut payload = Vec::new();
            row.write_json(&mut payload);
            replace_nul(&mut payload);
            arrays.bytes += payload.len() as u64;
            arrays.target_names.push(clean(row.origin().target_name()));
            arrays.uids.push(clean(&row.uid().text()));
            let namespace = resource_namespace(row, inventory_namespace);
            arrays.resource_namespaces.push(clean(namespace));
            arrays
                .payloads
                .push(String::from_utf8(payload).expect("JSON text is UTF-8"));
            arrays.fresh.push(fresh);
        }
        arrays
    }
}

/// Keys as parallel arrays: target names and uids.
pub(super) fn key_arrays(keys: &[Key]) -> (Vec<String>, Vec<String>) {
    keys.iter()
        .map(|key| (clean(&key.target_name), clean(&key.uid)))
        .unzip()
}

/// Writes the binary form of COPY for the staging table, chunk by chunk.
pub(super) struct CopyEncoder<'n> {
    inventory_namespace: &'n str,
    buffer: BytesMut,
    bytes: u64,
}

/// Fields of a row: target name, uid, resource namespace, payload, fresh.
const FIELDS: i16 = 5;

impl<'n> CopyEncoder<'n> {
    pub(super) fn new(inventory_namespace: &'n str) -> Self {
        let mut buffer = BytesMut::with_capacity(CHUNK + CHUNK / 4);
        buffer.put_slice(b"PGCOPY\n\xff\r\n\0");
        buffer.put_i32(0);
        buffer.put_i32(0);
        Self {
            inventory_namespace,
            buffer,
            bytes: 0,
        }
    }

    /// Adds a row to write.
    pub(super) fn row(&mut self, item: Item<'_>) {
        let Item { row, fresh } = item;
        self.key(row.origin().target_name(), &row.uid().text());
        self.text(resource_namespace(row, self.inventory_namespace));
        let mut length = 0;
        self.field(|buffer| {
            // The version of the binary form of jsonb.
            buffer.put_u8(1);
            let start = buffer.len();
            row.write_json(&mut Text(buffer));
            replace_nul(&mut buffer[start..]);
            length = buffer.len() - start;
        });
        self.bytes += length as u64;
        self.field(|buffer| buffer.put_u8(u8::from(fresh)));
    }

    /// Adds a key to delete.
    pub(super) fn delete(&mut self, key: &Key) {
        self.key(&key.target_name, &key.uid);
        self.text("");
        self.buffer.put_i32(-1);
        self.field(|buffer| buffer.put_u8(0));
    }

    /// A chunk to send, if there is enough for one.
    pub(super) fn chunk(&mut self) -> Option<Bytes> {
        (self.buffer.len() >= CHUNK).then(|| self.buffer.split().freeze())
    }

    /// The last chunk, and the bytes of all payloads.
    pub(super) fn finish(mut self) -> (Bytes, u64) {
        self.buffer.put_i16(-1);
        (self.buffer.freeze(), self.bytes)
    }

    fn key(&mut self, target_name: &str, uid: &str) {
        self.buffer.put_i16(FIELDS);
        self.text(target_name);
        self.text(uid);
    }

    fn text(&mut self, text: &str) {
        self.field(|buffer| {
            if text.contains('\0') {
                buffer.put_slice(clean(text).as_bytes());
            } else {
                buffer.put_slice(text.as_bytes());
            }
        });
    }

    fn field(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let at = self.buffer.len();
        self.buffer.put_i32(0);
        write(&mut self.buffer);
        let length = i32::try_from(self.buffer.len() - at - 4).expect("a row stays below 2 GiB");
        self.buffer[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// A buffer as a destination of JSON text.
struct Text<'b>(&'b mut BytesMut);

impl Out for Text<'_> {
    fn put(&mut self, text: &str) {
        self.0.put_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escaped_nul_characters_are_replaced() {
        for (json, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            (r#"{"a":"x\u0000y\u0000"}"#, r#"{"a":"x\ufffdy\ufffd"}"#),
            (r#"{"a\u0000":1}"#, r#"{"a\ufffd":1}"#),
            (r#"{"a":"\\u0000"}"#, r#"{"a":"\\u0000"}"#),
            (r#"{"a":"\\\u0000"}"#, r#"{"a":"\\\ufffd"}"#),
            (
                r#"{"a":"\\\\u0000\n\u0001"}"#,
                r#"{"a":"\\\\u0000\n\u0001"}"#,
            ),
        ] {
            let mut bytes = json.as_bytes().to_vec();
            replace_nul(&mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }
}
