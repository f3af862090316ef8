//! Writing rows: what differs, and nothing else.
//!
//! Documents are replaced and deleted by commands with many statements, each of which names one
//! document by its key. A majority of the replica set has each of them in its journal before it
//! counts. On a replica set every command has a number of its own in the session of the inventory:
//! a server carries out a command once, however often it is sent, and refuses what comes after a
//! later one. So nothing of a delivery that was given up arrives after the next one has begun.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kollect_inventory::Row;
use mongodb::{
    ClientSession,
    bson::{Document, RawArrayBuf, RawDocumentBuf, cstr, doc, oid::ObjectId, rawdoc},
};
use tokio::time::sleep;

use super::{
    connection::Connection,
    encode::{self, Encoded},
    fault::{DUPLICATE_KEY, Fault, TOO_LARGE, classed, sentence},
    names::{Names, Partition},
    reply::{errors, number, unconfirmed},
};
use crate::database::keys::Key;

/// Statements of one command.
const STATEMENTS: usize = 1_000;
/// Bytes of one command. A single larger document goes alone.
const BYTES: usize = 8 << 20;
/// Up to this size a document is compared by the server before it is replaced.
const COMPARED: usize = 1 << 20;
/// How often a command is sent, and the first pause in between.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) const UPSERT: &str = "mongodb upsert";
pub(super) const DELETE_STALE: &str = "mongodb delete stale";
pub(super) const DELETE_ALL: &str = "mongodb delete all";

/// The session of one inventory, in which one command follows the other.
pub(super) struct Order {
    session: ClientSession,
    number: i64,
    /// A delivery was begun and not ended: something of it may still be on its way.
    pub(super) open: bool,
    /// The session before this one, if it ended like that.
    earlier: Option<Document>,
}

impl Order {
    /// A new session, after another one of a client that was given up.
    pub(super) async fn new(connection: &Connection, before: Option<Self>) -> Result<Self, Fault> {
        let earlier = before.filter(|before| before.open);
        Ok(Self {
            session: connection.session("mongodb connect").await?,
            number: 0,
            open: earlier.is_some(),
            earlier: earlier.map(|before| before.session.id().clone()),
        })
    }
}

/// What is known of the documents before they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing, or it does not matter.
    Anything,
    /// There is none.
    Nothing,
    /// There is one.
    Something,
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) written: u64,
    pub(super) removed: u64,
    pub(super) bytes: u64,
    /// Rows that no server stores, with the object's name.
    pub(super) unstorable: BTreeMap<Key, String>,
    /// The collection did not hold what it was left with.
    pub(super) surprised: bool,
    refused: Option<Refused>,
}

/// Rows that the server refuses.
#[derive(Debug)]
struct Refused {
    rows: u64,
    first: String,
    code: i32,
}

impl Tally {
    /// Fails if the server refused a row: then nothing is deleted.
    pub(super) fn accepted(&self) -> Result<(), Fault> {
        let Some(Refused { rows, first, code }) = &self.refused else {
            return Ok(());
        };
        let stage = format!("{UPSERT}: {rows} row(s) were not written, the first is {first}");
        Err(classed(*code, sentence(&stage, *code, "")).into())
    }
}

/// An update that leaves a document alone which has the content already: the same changes may come
/// twice, and a row has changed when its content did.
fn unless_same(row: &Row, document: RawDocumentBuf) -> RawArrayBuf {
    let same = rawdoc! {"$eq": ["$content_hash", encode::content_hash(row)]};
    let mut literal = RawDocumentBuf::new();
    literal.append(cstr!("$literal"), document);
    let mut cases = RawArrayBuf::new();
    cases.push(same);
    cases.push("$$ROOT");
    cases.push(literal);
    let mut choice = RawDocumentBuf::new();
    choice.append(cstr!("$cond"), cases);
    let mut replace = RawDocumentBuf::new();
    replace.append(cstr!("$replaceWith"), choice);
    let mut pipeline = RawArrayBuf::new();
    pipeline.push(replace);
    pipeline
}

/// An object as people call it.
pub(super) fn name_of(row: &Row) -> String {
    let origin = row.origin();
    match origin.namespace() {
        "" => format!("{}/{}", origin.kind(), row.name()),
        namespace => format!("{}/{namespace}/{}", origin.kind(), row.name()),
    }
}

/// Statements that make one command.
struct Batch<'r> {
    statements: RawArrayBuf,
    rows: Vec<&'r Row>,
    count: usize,
    bytes: usize,
}

impl Batch<'_> {
    fn new() -> Self {
        Self {
            statements: RawArrayBuf::new(),
            rows: Vec::new(),
            count: 0,
            bytes: 0,
        }
    }

    fn takes(&self, bytes: usize) -> bool {
        self.count == 0 || (self.count < STATEMENTS && self.bytes + bytes <= BYTES)
    }

    fn push(&mut self, statement: RawDocumentBuf) {
        self.count += 1;
        self.bytes += statement.as_bytes().len();
        self.statements.push(statement);
    }
}

/// One delivery to one partition.
pub(super) struct Writer<'w> {
    pub(super) connection: &'w Connection,
    pub(super) names: &'w Names,
    pub(super) partition: Partition<'w>,
    /// When the delivery began.
    pub(super) at: Timestamp,
    pub(super) order: &'w mut Order,
}

impl Writer<'_> {
    /// Lets nothing of an earlier delivery arrive any more.
    pub(super) async fn settle(&mut self) -> Result<(), Fault> {
        if !self.order.open {
            return Ok(());
        }
        if let Some(earlier) = self.order.earlier.take() {
            self.kill(earlier).await?;
        }
        let session = self.order.session.id().clone();
        self.kill(session).await?;
        // Waits for the command that is being carried out, and outdates all before it.
        self.confirm().await
    }

    /// Writes nothing, and returns when a majority has everything that was there before.
    pub(super) async fn confirm(&mut self) -> Result<(), Fault> {
        if !self.connection.numbered {
            return Ok(());
        }
        let mut nothing = RawArrayBuf::new();
        nothing.push(rawdoc! {"q": {"_id": ObjectId::new()}, "limit": 1});
        self.send_deletes(UPSERT, nothing).await.map(drop)
    }

    /// Ends what is being done in a session.
    async fn kill(&self, session: Document) -> Result<(), Fault> {
        let kill = doc! {"killSessions": [session]};
        self.connection.admin(UPSERT, kill).await.map(drop)
    }

    /// Puts the documents of these rows in the place of what is there.
    pub(super) async fn upsert<'r>(
        &mut self,
        rows: impl Iterator<Item = &'r Row>,
        before: Before,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        let mut batch = Batch::new();
        for row in rows {
            let Ok(Encoded { document, bytes }) = encode::document(row, &self.partition, self.at)
            else {
                tally.unstorable.insert(Key::of(row), name_of(row));
                continue;
            };
            let statement = self.replacement(row, document, before);
            if !batch.takes(statement.as_bytes().len()) {
                let full = std::mem::replace(&mut batch, Batch::new());
                self.write(full, before, tally).await?;
            }
            tally.bytes += bytes;
            batch.rows.push(row);
            batch.push(statement);
        }
        self.write(batch, before, tally).await
    }

    fn replacement(&self, row: &Row, document: RawDocumentBuf, before: Before) -> RawDocumentBuf {
        let (target_name, uid) = (row.origin().target_name(), row.uid().text());
        let mut statement = RawDocumentBuf::new();
        statement.append(cstr!("q"), self.partition.filter_key(target_name, &uid));
        if before == Before::Anything || document.as_bytes().len() > COMPARED {
            statement.append(cstr!("u"), document);
        } else {
            statement.append(cstr!("u"), unless_same(row, document));
        }
        statement.append(cstr!("upsert"), true);
        statement
    }

    async fn write(
        &mut self,
        batch: Batch<'_>,
        before: Before,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        if batch.count == 0 {
            return Ok(());
        }
        let answer = self.send_updates(batch.statements).await?;
        let changed = number(&answer, "nModified", batch.count);
        let new = answer
            .get_array("upserted")
            .map_or(0, Vec::len)
            .min(batch.count) as u64;
        tally.written += changed + new;
        tally.surprised |= match before {
            Before::Anything => false,
            Before::Nothing => changed > 0,
            Before::Something => new > 0,
        };
        let mut collided = Vec::new();
        for (place, code) in errors(&answer) {
            let Some(row) = batch.rows.get(place) else {
                continue;
            };
            if code == DUPLICATE_KEY {
                collided.push(*row);
            } else {
                tally.refuse(row, code);
            }
        }
        // Somebody else may have written the same row at the same moment: then it is there now.
        let mut again = Batch::new();
        for row in collided {
            if let Ok(Encoded { document, .. }) = encode::document(row, &self.partition, self.at) {
                again.rows.push(row);
                again.push(self.replacement(row, document, Before::Anything));
            }
        }
        if again.count == 0 {
            return Ok(());
        }
        let answer = self.send_updates(again.statements).await?;
        tally.written += number(&answer, "n", again.count);
        for (place, code) in errors(&answer) {
            if let Some(row) = again.rows.get(place) {
                tally.refuse(row, code);
            }
        }
        Ok(())
    }

    /// Deletes the documents with these keys.
    pub(super) async fn delete_keys<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k Key>,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        let partition = self.partition;
        let filters = keys.map(|key| partition.filter_key(&key.target_name, &key.uid));
        self.delete(filters, tally).await
    }

    /// Deletes the documents that these filters name, one each.
    pub(super) async fn delete(
        &mut self,
        filters: impl Iterator<Item = RawDocumentBuf>,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        let mut batch = Batch::new();
        for filter in filters {
            let mut statement = RawDocumentBuf::new();
            statement.append(cstr!("q"), filter);
            statement.append(cstr!("limit"), 1_i32);
            if !batch.takes(statement.as_bytes().len()) {
                let full = std::mem::replace(&mut batch, Batch::new());
                self.remove(full, tally).await?;
            }
            batch.push(statement);
        }
        self.remove(batch, tally).await
    }

    async fn remove(&mut self, batch: Batch<'_>, tally: &mut Tally) -> Result<(), Fault> {
        if batch.count == 0 {
            return Ok(());
        }
        let answer = self.send_deletes(DELETE_STALE, batch.statements).await?;
        if let Some((_, code)) = errors(&answer).next() {
            return Err(classed(code, sentence(DELETE_STALE, code, "")).into());
        }
        // Fewer than statements is no surprise: the same deletes may come twice.
        tally.removed += number(&answer, "n", batch.count);
        Ok(())
    }

    /// Deletes every document of the partition, and says how many there were.
    pub(super) async fn clear(&mut self) -> Result<u64, Fault> {
        let mut statements = RawArrayBuf::new();
        let mut all = RawDocumentBuf::new();
        all.append(cstr!("q"), self.partition.filter());
        all.append(cstr!("limit"), 0_i32);
        statements.push(all);
        let mut command = RawDocumentBuf::new();
        command.append(cstr!("delete"), self.names.collection.as_str());
        command.append(cstr!("deletes"), statements);
        // Many documents at once cannot be numbered; doing it twice does no harm.
        let answer = self.send(DELETE_ALL, command, false).await?;
        if let Some((_, code)) = errors(&answer).next() {
            return Err(classed(code, sentence(DELETE_ALL, code, "")).into());
        }
        Ok(number(&answer, "n", usize::MAX))
    }

    async fn send_updates(&mut self, statements: RawArrayBuf) -> Result<Document, Fault> {
        let mut command = RawDocumentBuf::new();
        command.append(cstr!("update"), self.names.collection.as_str());
        command.append(cstr!("updates"), statements);
        command.append(cstr!("ordered"), false);
        self.send(UPSERT, command, true).await
    }

    async fn send_deletes(
        &mut self,
        stage: &str,
        statements: RawArrayBuf,
    ) -> Result<Document, Fault> {
        let mut command = RawDocumentBuf::new();
        command.append(cstr!("delete"), self.names.collection.as_str());
        command.append(cstr!("deletes"), statements);
        command.append(cstr!("ordered"), false);
        self.send(stage, command, true).await
    }

    /// Sends a command until a majority has confirmed it, a few times.
    async fn send(
        &mut self,
        stage: &str,
        mut command: RawDocumentBuf,
        numbered: bool,
    ) -> Result<Document, Fault> {
        command.append(
            cstr!("writeConcern"),
            rawdoc! {"w": "majority", "j": true, "wtimeout": 60_000},
        );
        command.append(cstr!("maxTimeMS"), 100_000_i32);
        self.order.open = true;
        if numbered && self.connection.numbered {
            self.order.number += 1;
            command.append(cstr!("txnNumber"), self.order.number);
        }
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let session = &mut self.order.session;
            let sent = self
                .connection
                .command_in(self.names, stage, command.clone(), session);
            let fault = match sent.await {
                Ok(answer) => match unconfirmed(stage, &answer) {
                    None => return Ok(answer),
                    Some(fault) => fault,
                },
                Err(fault) => fault,
            };
            if !fault.again || attempt == ATTEMPTS {
                return Err(fault);
            }
            attempt += 1;
            sleep(pause).await;
            pause *= 2;
            if !(numbered && self.connection.numbered) {
                // It may be under way still, and would go on beside the next one.
                let session = self.order.session.id().clone();
                self.kill(session).await?;
            }
        }
    }
}

impl Tally {
    fn refuse(&mut self, row: &Row, code: i32) {
        if TOO_LARGE.contains(&code) {
            self.unstorable.insert(Key::of(row), name_of(row));
            return;
        }
        let refused = self.refused.get_or_insert_with(|| Refused {
            rows: 0,
            first: name_of(row),
            code,
        });
        refused.rows += 1;
    }
}

/// Rows that were left out, for people.
pub(super) fn left_out(unstorable: &BTreeMap<Key, String>) -> Option<(u64, &str)> {
    let first = unstorable.values().next()?;
    Some((unstorable.len() as u64, first))
}
