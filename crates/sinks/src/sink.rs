//! What a sink is.
//!
//! A sink is a projection of an inventory: after a delivery its backend holds the inventory's rows
//! and, of this inventory, nothing else. It is not a log of calls, so repeating a delivery is
//! always safe.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    fmt,
    num::NonZeroU64,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::InventoryId;
use kollect_inventory::{Delta, Snapshot};

use crate::{error::SinkError, layout::Embedding};

/// What a sink wants to be given, as it is configured. Its own answer: two sinks of one family, or
/// of one backend, may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// All rows, every time: it renders them into documents.
    Documents,
    /// All rows once, then only what changed since the delivery it last accepted.
    Changes,
    /// Like [`Demand::Changes`], for a backend that keeps a history: all rows are the occasion to
    /// compare with what the backend says it holds, and nothing is repeated that it holds already.
    /// No status is taken for the backend's word.
    Stream,
}

/// Rows on their way to a sink.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The inventory.
    pub inventory: InventoryId,
    /// `metadata.generation` of the inventory.
    pub generation: i64,
    /// When the delivery began; one value for everything it writes.
    pub at: Timestamp,
    /// The rows.
    pub rows: DeliveryRows,
    /// How rows become documents, for sinks that write some.
    pub documents: DocumentOptions,
}

/// The rows of a delivery.
#[derive(Debug, Clone)]
pub enum DeliveryRows {
    /// All rows. Whatever else the backend holds of this inventory has to go, but for rows of
    /// targets of which nothing is known ([`Snapshot::held`]; only backends that can keep them are
    /// given such a set); no rows at all means that everything else has to go. Whether all of them are sent, or compared first and only the
    /// difference sent, is the backend's business.
    All(Snapshot),
    /// What changed since the delivery that this sink last accepted. Never given to a sink with
    /// [`Demand::Documents`], and only after it has accepted all rows, in this process and with
    /// this configuration. Deletes apply before upserts.
    Changes(Arc<Delta>),
}

/// How rows become documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentOptions {
    /// The size above which documents are split into parts; none means never.
    pub max_bytes: Option<NonZeroU64>,
    /// What is known of the profiles behind the rows.
    pub embedding: Embedding,
    /// The attributes of these profiles and the words by which they declare their types; an
    /// attribute that nobody declares a type of has none. Empty if the profiles are not known.
    pub types: Arc<AttributeTypes>,
}

/// Declared types by attribute. Two profiles may differ.
pub type AttributeTypes = BTreeMap<String, BTreeSet<String>>;

/// What a delivery did at the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Rows (or messages) written.
    pub written: u64,
    /// Rows removed.
    pub removed: u64,
    /// Bytes of rows handed to the backend.
    pub bytes: u64,
    /// Rows that were left out, over the whole inventory.
    pub skipped: Option<Skipped>,
    /// How a delivery of all rows to a stream found out what the stream held.
    pub read_back: Option<ReadBack>,
    /// What a person may want to know, such as a commit. Goes to logs and to the summary of the
    /// command line, never into a status.
    pub note: Option<String>,
}

/// Rows that a sink leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub rows: u64,
    /// The first of them, as `kind/namespace/name`.
    pub first: String,
    /// Why.
    pub why: Why,
}

/// Why rows are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They carry no object, and manifests are written.
    NoObject,
    /// They are larger than the server takes.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Not the rows but values of them: they are not of the type that their profile declares, so
    /// their columns hold nothing.
    OtherType,
}

impl fmt::Display for Skipped {
    /// A sentence for people: how many, which, why, what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Skipped { rows, first, why } = self;
        match why {
            Why::NoObject => write!(
                f,
                "{rows} row(s) left out that carry no object, the first is {first}; layout.content \
                 manifest needs profiles with export.mode Resource"
            ),
            Why::TooLarge { limit } => write!(
                f,
                "{rows} row(s) left out that are larger than the {limit} bytes that the server \
                 takes, the first is {first}; raise the limit of the server, or let the profile \
                 extract less"
            ),
            Why::OtherType => write!(
                f,
                "{rows} value(s) left out of their columns that are not of the type that their \
                 profile declares, the first is {first}; correct the type in the profile"
            ),
        }
    }
}

/// How a delivery of all rows to a stream found out what the stream held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadBack {
    /// It was read, and only the difference was published.
    Compared,
    /// It could not be read, for this reason: all rows were published.
    Replayed(String),
}

/// A place at a backend that is kept for the next call. Dropped, it is given back, unless a call
/// has taken it.
#[derive(Default)]
pub struct Place(Option<Box<dyn Any + Send + Sync>>);

impl Place {
    /// Kept for as long as this value lives.
    pub fn held(place: impl Any + Send + Sync) -> Self {
        Self(Some(Box::new(place)))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.0.is_some()).finish()
    }
}

/// A backend that can hold rows.
///
/// All methods may be called at the same time for different inventories, and at most one at a time
/// for one inventory. Every call may be cancelled by dropping it: the backend then holds the state
/// before or after, or the next delivery (a full one) puts it right. Deadlines are the caller's.
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// What this sink, as configured, wants to be given.
    fn demand(&self) -> Demand;

    /// Waits for a place where sinks share few, such as the connections to one database. Whoever
    /// delivers or retires waits here first, before it takes rows and beyond the deadline of the
    /// call; the next call of this sink then uses the place. Calls without one wait by themselves.
    async fn place(&self) -> Place {
        Place::default()
    }

    /// Makes the backend hold these rows.
    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError>;

    /// Whether this sink can say, without being given any rows, that its backend holds what the last
    /// delivery left.
    fn confirms(&self) -> bool {
        false
    }

    /// How long it may be left alone at most while nothing changes, if its backend shows when it was
    /// last looked after. Only for sinks that [confirm](Self::confirms).
    fn longest_silence(&self) -> Option<Duration> {
        None
    }

    /// Looks whether the backend still holds just what the last accepted delivery of this inventory
    /// left. The delivery says when the look began; its rows are no changes. No receipt means that
    /// it does not, or that nobody can tell: all rows are to be delivered.
    async fn confirm(&self, _delivery: &Delivery) -> Result<Option<Receipt>, SinkError> {
        Ok(None)
    }

    /// Removes what the backend holds of an inventory that is no more, as far as that is the
    /// backend's nature: rows go, documents and histories stay.
    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError>;

    /// Finds out whether the backend can be used, without changing anything there. Uses a
    /// connection of its own and returns a sentence for people.
    async fn probe(&self) -> Result<String, SinkError>;
}
