//! The message of mode `changes`: body, key, headers, id.

use std::sync::Arc;

use jiff::Timestamp;
use kollect_inventory::{
    Row, SCHEMA_VERSION,
    canonical::{self, Out},
};

use super::{
    item::{Item, ItemHash},
    sha256_hex,
    source::Source,
};

/// The header that says which event it is.
pub const KOLLECT_EVENT: &str = "Kollect-Event";

/// The header with the hash of the item.
pub const KOLLECT_HASH: &str = "Kollect-Hash";

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A row is there, as the message has it.
    Upsert,
    /// A row is gone.
    Delete,
    /// All rows were repeated.
    Synced,
}

impl Event {
    /// The word in body and header.
    pub fn as_str(self) -> &'static str {
        match self {
            Event::Upsert => "upsert",
            Event::Delete => "delete",
            Event::Synced => "synced",
        }
    }

    /// `type` of CloudEvents.
    pub fn cloud_event(self) -> &'static str {
        match self {
            Event::Upsert => "dev.kollect.row.upsert",
            Event::Delete => "dev.kollect.row.delete",
            Event::Synced => "dev.kollect.inventory.synced",
        }
    }

    /// What a header says, if it says one of the words.
    pub fn of_header(text: &str) -> Option<Self> {
        [Event::Upsert, Event::Delete, Event::Synced]
            .into_iter()
            .find(|event| event.as_str() == text)
    }
}

/// The names of the CloudEvents headers on one kind of server.
#[derive(Debug)]
pub struct HeaderNames {
    /// `specversion`.
    pub spec_version: &'static str,
    /// `id`.
    pub id: &'static str,
    /// `source`.
    pub source: &'static str,
    /// `type`.
    pub type_: &'static str,
    /// `subject`.
    pub subject: &'static str,
    /// `time`.
    pub time: &'static str,
}

impl HeaderNames {
    /// On Kafka.
    pub const KAFKA: HeaderNames = HeaderNames {
        spec_version: "ce_specversion",
        id: "ce_id",
        source: "ce_source",
        type_: "ce_type",
        subject: "ce_subject",
        time: "ce_time",
    };

    /// On NATS.
    pub const NATS: HeaderNames = HeaderNames {
        spec_version: "ce-specversion",
        id: "ce-id",
        source: "ce-source",
        type_: "ce-type",
        subject: "ce-subject",
        time: "ce-time",
    };
}

/// One message, ready to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What happened.
    pub event: Event,
    /// The key.
    pub key: String,
    /// The body: one JSON object.
    pub body: Vec<u8>,
    /// The hash of the item, if there is one.
    pub hash: Option<ItemHash>,
    /// Another one for every message.
    pub id: String,
    source: Arc<str>,
    subject: Option<String>,
    time: String,
}

impl Message {
    /// All headers with their values; values are visible ASCII.
    pub fn headers(&self, names: &HeaderNames) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            (KOLLECT_EVENT, self.event.as_str().to_owned()),
            ("content-type", "application/json".to_owned()),
            (names.spec_version, "1.0".to_owned()),
            (names.id, self.id.clone()),
            (names.source, self.source.to_string()),
            (names.type_, self.event.cloud_event().to_owned()),
            (names.time, self.time.clone()),
        ];
        let hash = self.hash.map(|hash| (KOLLECT_HASH, hash.to_string()));
        let subject = self.subject.clone();
        headers.extend(hash);
        headers.extend(subject.map(|subject| (names.subject, subject)));
        headers
    }
}

impl Source {
    /// The message of a row that is new or different.
    pub fn upsert(&self, row: &Row, at: Timestamp) -> Message {
        let item = Item::of(row);
        self.message(Event::Upsert, &item, at, |body| row.write_json(body))
    }

    /// The message of a row that is gone.
    pub fn delete(&self, item: &Item<'_>, at: Timestamp) -> Message {
        self.message(Event::Delete, item, at, |body| item.write_json(body))
    }

    /// The message after a replay: rows that were not repeated since `since` are gone.
    pub fn synced(&self, count: u64, since: Timestamp, at: Timestamp) -> Message {
        let mut body = self.head(Event::Synced, at);
        body.put(",\"count\":");
        canonical::unsigned(&mut body, count);
        body.put(",\"since\":\"");
        body.put(&since.to_string());
        body.put("\"}");
        let key = self.prefix().to_owned();
        Message {
            event: Event::Synced,
            id: id(&key, "", at),
            key,
            body,
            hash: None,
            source: Arc::clone(self.uri()),
            subject: None,
            time: at.to_string(),
        }
    }

    fn message(
        &self,
        event: Event,
        item: &Item<'_>,
        at: Timestamp,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Message {
        let mut body = self.head(event, at);
        body.put(",\"item\":");
        let start = body.len();
        write(&mut body);
        let hash = ItemHash::of_text(&body[start..]);
        body.put("}");
        let key = self.key(item);
        Message {
            event,
            id: id(&key, &hash.to_string(), at),
            key,
            body,
            hash: Some(hash),
            source: Arc::clone(self.uri()),
            subject: Some(Source::subject(item)),
            time: at.to_string(),
        }
    }

    /// The members that all messages have.
    fn head(&self, event: Event, at: Timestamp) -> Vec<u8> {
        let mut body = Vec::with_capacity(512);
        self.write_head(event.as_str(), at, &mut body);
        body
    }

    pub(super) fn write_head(&self, event: &str, at: Timestamp, body: &mut Vec<u8>) {
        let at = at.to_string();
        let mut lead = "{\"";
        for (name, value) in [
            ("schemaVersion", SCHEMA_VERSION),
            ("timestamp", &at),
            ("cluster", self.cluster()),
            ("namespace", self.namespace()),
            ("inventory", &self.inventory().name),
            ("scope", self.scope()),
            ("event", event),
        ] {
            body.put(lead);
            body.put(name);
            body.put("\":");
            canonical::string(body, value);
            lead = ",\"";
        }
    }
}

/// The id of a message. The time of the delivery is in it: the same state may come again (A, B, A),
/// and a server that drops repeats by their ids must not drop that.
fn id(key: &str, hash: &str, at: Timestamp) -> String {
    sha256_hex(format!("{key}\n{hash}\n{at}").as_bytes())
}
