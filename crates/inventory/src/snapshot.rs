//! The rows of an inventory at one moment, in canonical order.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::delta::Delta;
use crate::fingerprint::{Fingerprint, ItemsDigest};
use crate::identity::Identity;
use crate::row::Row;

/// An immutable set of rows, one per identity, in canonical order.
///
/// Rows are shared, never copied, and a snapshot itself is a counted pointer, so handing one to
/// every sink costs nothing. Digest and length are computed at most once, when somebody asks.
#[derive(Clone)]
pub struct Snapshot(Arc<Content>);

struct Content {
    rows: Box<[Row]>,
    held: Box<[HeldRows]>,
    measured: OnceLock<(Fingerprint, u64)>,
}

/// Rows of which nothing is known: those of a target, or of a target in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldRows {
    /// The name of the target.
    pub target: Box<str>,
    /// The namespace of the objects; none if nothing is known of any.
    pub namespace: Option<Box<str>>,
}

impl HeldRows {
    /// All rows of a target.
    pub fn of_target(target: &str) -> Self {
        Self {
            target: target.into(),
            namespace: None,
        }
    }

    /// The rows of a target in one namespace.
    pub fn in_namespace(target: &str, namespace: &str) -> Self {
        Self {
            target: target.into(),
            namespace: Some(namespace.into()),
        }
    }

    /// Whether the rows of this target in this namespace are among them.
    pub fn covers(&self, target: &str, namespace: &str) -> bool {
        *self.target == *target
            && self
                .namespace
                .as_deref()
                .is_none_or(|held| held == namespace)
    }
}

impl Snapshot {
    /// The rows in canonical order, whatever order they come in. Of several rows with one identity
    /// the last stays, as it does in the store.
    pub fn new(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut rows: Vec<Row> = rows.into_iter().collect();
        rows.sort_by(|a, b| a.identity().cmp(&b.identity()));
        rows.dedup_by(|later, kept| {
            let same = later.identity() == kept.identity();
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        Self::sorted(rows)
    }

    /// Rows that are in canonical order and unique already.
    pub(crate) fn sorted(rows: Vec<Row>) -> Self {
        debug_assert!(rows.is_sorted_by(|a, b| a.identity() < b.identity()));
        Snapshot(Arc::new(Content {
            rows: rows.into_boxed_slice(),
            held: Box::default(),
            measured: OnceLock::new(),
        }))
    }

    /// The same rows, and which rows are not known: they are not in here, or only some of them, and
    /// whoever keeps rows must keep those as they are that are not in here.
    #[must_use]
    pub fn holding(self, held: Vec<HeldRows>) -> Self {
        if held.is_empty() {
            return self;
        }
        let mut content = Arc::try_unwrap(self.0).unwrap_or_else(|shared| Content {
            rows: shared.rows.clone(),
            held: Box::default(),
            measured: OnceLock::new(),
        });
        content.held = held.into_boxed_slice();
        Snapshot(Arc::new(content))
    }

    /// Which rows are not known. Nothing may be concluded from one of them not being in here: it
    /// stays. One that is in here is written like any other.
    pub fn held(&self) -> &[HeldRows] {
        &self.0.held
    }

    /// The rows in canonical order.
    pub fn rows(&self) -> &[Row] {
        &self.0.rows
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.0.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.0.rows.is_empty()
    }

    /// The row with this identity.
    pub fn get(&self, identity: Identity<'_>) -> Option<&Row> {
        let rows = &self.0.rows;
        rows.binary_search_by(|row| row.identity().cmp(&identity))
            .ok()
            .map(|at| &rows[at])
    }

    /// The content fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        self.measured().0
    }

    /// The length in bytes of the rows as one JSON array, brackets included.
    pub fn items_len(&self) -> u64 {
        self.measured().1
    }

    /// One pass over the rows gives both, and only the first caller pays for it.
    fn measured(&self) -> (Fingerprint, u64) {
        *self.0.measured.get_or_init(|| {
            let mut items = ItemsDigest::new();
            for row in self.rows() {
                items.row(row);
            }
            items.finish()
        })
    }

    /// This snapshot with a change applied: what is upserted is there, what is deleted is not.
    #[must_use]
    pub fn apply(&self, delta: &Delta) -> Snapshot {
        let mut result = Vec::with_capacity(self.len() + delta.len());
        let mut rest = self.rows();
        for change in delta.changes() {
            let identity = change.identity();
            let before = rest.partition_point(|row| row.identity() < identity);
            result.extend_from_slice(&rest[..before]);
            rest = &rest[before..];
            if let [first, others @ ..] = rest
                && first.identity() == identity
            {
                rest = others;
            }
            result.extend(change.after().cloned());
        }
        result.extend_from_slice(rest);
        Snapshot::sorted(result)
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Snapshot::sorted(Vec::new())
    }
}

impl FromIterator<Row> for Snapshot {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Self {
        Snapshot::new(rows)
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.rows() == other.rows()
    }
}

impl Eq for Snapshot {}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rows()).finish()
    }
}
