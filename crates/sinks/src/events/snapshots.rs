//! The messages of mode `snapshots`: the whole inventory with every export.

use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use kollect_api::InventoryId;
use kollect_inventory::{
    Document, Fingerprint, Pass, Snapshot, Splitter, canonical::Out, split::RowTooLarge,
};

use super::{header_text, sha256_hex, source::Source};

/// What stands around a document in a message, at most; so much smaller than the limit of the server
/// a document has to be.
pub const FRAME: u64 = 4 * 1024;

/// One message, ready to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotMessage {
    /// The key: that of the inventory.
    pub key: String,
    /// The body: one JSON object.
    pub body: Vec<u8>,
    /// The same for every attempt to publish this document of this export.
    pub id: String,
    /// Header names and values; values are visible ASCII.
    pub headers: [(&'static str, String); 4],
}

/// What happened to the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Snapshot,
    Deleted,
}

/// The documents of an export. `ceiling` is what the export asks for, `limit` the largest message of
/// the server.
pub fn documents(
    rows: &Snapshot,
    generation: i64,
    exported_at: Timestamp,
    ceiling: Option<NonZeroU64>,
    limit: Option<u64>,
) -> Result<Vec<Document>, RowTooLarge> {
    let limit = limit.and_then(|limit| NonZeroU64::new(limit.saturating_sub(FRAME).max(1)));
    let ceiling = [ceiling, limit].into_iter().flatten().min();
    let pass = pass(generation, exported_at);
    Splitter::new(rows.clone()).split(&Arc::new(pass), ceiling)
}

fn pass(generation: i64, exported_at: Timestamp) -> Pass {
    Pass {
        generation,
        ..Pass::at(exported_at)
    }
}

impl Source {
    /// The message of one document.
    pub fn snapshot(&self, document: &Document, at: Timestamp) -> SnapshotMessage {
        self.document(Event::Snapshot, document, at)
    }

    /// The message that says that the inventory is no more.
    pub fn deleted(&self, generation: i64, at: Timestamp) -> SnapshotMessage {
        let document = Document::whole(Arc::new(pass(generation, at)), Snapshot::default());
        self.document(Event::Deleted, &document, at)
    }

    fn document(&self, event: Event, document: &Document, at: Timestamp) -> SnapshotMessage {
        let word = match event {
            Event::Snapshot => "snapshot",
            Event::Deleted => "deleted",
        };
        let length = usize::try_from(document.byte_len()).unwrap_or_default();
        let mut body = Vec::with_capacity(length + 512);
        self.write_head(word, at, &mut body);
        body.put(",\"payload\":");
        document.write(&mut body);
        body.put("}");
        let checksum = document.checksum();
        let (index, total) = document
            .part()
            .map_or((1, 1), |part| (part.index(), part.total()));
        let Pass {
            generation,
            exported_at,
            ..
        } = document.pass();
        let key = self.prefix().to_owned();
        let id = format!("{key}/{generation}/{index}-of-{total}/{exported_at}/{checksum}");
        SnapshotMessage {
            id: sha256_hex(id.as_bytes()),
            key,
            body,
            headers: [
                ("Kollect-Cluster", header_text(self.cluster())),
                ("Kollect-Namespace", header_text(self.namespace())),
                ("Kollect-Inventory", header_text(&self.inventory().name)),
                ("Kollect-Checksum", checksum.to_string()),
            ],
        }
    }
}

/// When the first attempt at an export began. Its repeats say the same time, so that a server that
/// stored a message without being able to say so knows the repeat.
#[derive(Debug, Default)]
pub struct FirstAttempts(Mutex<BTreeMap<InventoryId, Attempt>>);

#[derive(Debug)]
struct Attempt {
    generation: i64,
    checksum: Fingerprint,
    at: Timestamp,
    succeeded: bool,
}

impl FirstAttempts {
    /// An attempt begins: the time that its documents say.
    pub fn begin(
        &self,
        inventory: &InventoryId,
        generation: i64,
        checksum: Fingerprint,
        at: Timestamp,
    ) -> Timestamp {
        let mut all = self.all();
        let same = all.get(inventory).filter(|attempt| {
            !attempt.succeeded && attempt.generation == generation && attempt.checksum == checksum
        });
        let at = same.map_or(at, |attempt| attempt.at);
        let attempt = Attempt {
            generation,
            checksum,
            at,
            succeeded: false,
        };
        all.insert(inventory.clone(), attempt);
        at
    }

    /// The attempt under way went well.
    pub fn succeeded(&self, inventory: &InventoryId) {
        if let Some(attempt) = self.all().get_mut(inventory) {
            attempt.succeeded = true;
        }
    }

    /// The last generation that is known of an inventory; 0 if none is.
    pub fn generation(&self, inventory: &InventoryId) -> i64 {
        let all = self.all();
        all.get(inventory).map_or(0, |attempt| attempt.generation)
    }

    /// The inventory is no more.
    pub fn forget(&self, inventory: &InventoryId) {
        self.all().remove(inventory);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<InventoryId, Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
