//! Rows as parameters of a statement, in portions that a request can carry.

use std::collections::BTreeMap;

use kollect_inventory::Row;

use super::{
    names::Partition,
    requests::{Cell, Cells, Element},
};
use crate::database::{self, keys::Key};

/// Bytes of rows in one statement. A request may have ten million; names, escapes and the statement
/// itself need room too.
pub(super) const PORTION: usize = 6_000_000;
/// The largest row, as text in a request.
pub(super) const LARGEST: usize = 9_000_000;
/// What a row costs beside its values.
const FRAME: usize = 240;

/// How rows are encoded. Changed when the same row would be stored as something else.
const ENCODING: &[u8] = b"kollect bigquery 1";

/// A row that fits into no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Something to be done to a row.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) element: Element,
    /// What it costs in a request.
    pub(super) cost: usize,
    /// Bytes of the row as JSON.
    pub(super) bytes: u64,
}

/// What tells one content of a row from another.
pub(super) fn content_hash(row: &Row) -> i64 {
    database::content_hash(ENCODING, row)
}

/// A row to be written.
pub(super) fn upsert(row: &Row, partition: &Partition<'_>) -> Result<Encoded, TooLarge> {
    let mut json = Vec::new();
    row.write_json(&mut json);
    let bytes = json.len() as u64;
    if json.len() > LARGEST {
        return Err(TooLarge);
    }
    // Rows are written as text.
    let payload = String::from_utf8(json).map_err(|_| TooLarge)?;
    // Blank is as good as none here.
    let namespace = database::resource_namespace(row, partition.namespace);
    let namespace = if namespace.trim().is_empty() {
        partition.namespace
    } else {
        namespace
    };
    let cost = FRAME + escaped(&payload) + row.name().len() + namespace.len();
    if cost > LARGEST {
        return Err(TooLarge);
    }
    Ok(Encoded {
        element: element(
            row.origin().target_name().to_owned(),
            row.uid().to_string(),
            namespace.to_owned(),
            payload,
            content_hash(row),
            false,
        ),
        cost,
        bytes,
    })
}

/// A row to be removed.
pub(super) fn gone(key: &Key) -> Encoded {
    Encoded {
        cost: FRAME + key.target_name.len() + key.uid.len(),
        bytes: 0,
        element: element(
            key.target_name.clone(),
            key.uid.clone(),
            String::new(),
            "null".to_owned(),
            0,
            true,
        ),
    }
}

fn element(
    target_name: String,
    uid: String,
    namespace: String,
    payload: String,
    hash: i64,
    gone: bool,
) -> Element {
    let cell = |value: String| Cell { value };
    Element {
        struct_values: Cells {
            target_name: cell(target_name),
            source_uid: cell(uid),
            resource_namespace: cell(namespace),
            payload_json: cell(payload),
            content_hash: cell(hash.to_string()),
            gone: cell(gone.to_string()),
        },
    }
}

/// How long a text is inside another JSON text.
fn escaped(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' => 2,
            0..=0x1f => 6,
            _ => 1,
        })
        .sum()
}

/// Rows that go into one statement.
#[derive(Debug, Default)]
pub(super) struct Portion {
    pub(super) elements: Vec<Element>,
    cost: usize,
}

impl Portion {
    pub(super) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The rows as one JSON text, for emulators.
    pub(super) fn text(&self) -> String {
        let rows: Vec<_> = self
            .elements
            .iter()
            .map(|element| {
                let cells = &element.struct_values;
                BTreeMap::from([
                    ("target_name", &cells.target_name.value),
                    ("source_uid", &cells.source_uid.value),
                    ("resource_namespace", &cells.resource_namespace.value),
                    ("payload_json", &cells.payload_json.value),
                    ("content_hash", &cells.content_hash.value),
                    ("gone", &cells.gone.value),
                ])
            })
            .collect();
        serde_json::to_string(&rows).unwrap_or_default()
    }

    /// Adds a row, and returns what was there before if both do not fit.
    pub(super) fn add(&mut self, row: Encoded) -> Option<Self> {
        let full = !self.is_empty() && self.cost + row.cost > PORTION;
        let before = full.then(|| std::mem::take(self));
        self.cost += row.cost;
        self.elements.push(row.element);
        before
    }
}

#[cfg(test)]
mod tests {
    use kollect_inventory::{AttributesBuffer, Interner, OriginParts, TargetKind};
    use serde_json::json;

    use super::*;

    const PARTITION: Partition<'static> = Partition {
        namespace: "team-a",
        name: "all",
        cluster: "west",
    };

    fn row(namespace: &str, text: &str) -> Row {
        let mut interner = Interner::default();
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: "things",
            namespace,
            group: "",
            version: "v1",
            kind: "Thing",
        });
        let mut attributes = AttributesBuffer::new();
        attributes.set(json!({"text": text}).as_object().unwrap());
        interner.row(&origin, "one", "uid-1", attributes.view())
    }

    /// D45 and D7: texts are carried as they are; a blank namespace is none.
    #[test]
    fn values_are_carried_unchanged() {
        for text in [
            "it's",
            "\"quoted\"",
            "line\nline",
            "back\\slash",
            "` ; -- @rows",
        ] {
            let encoded = upsert(&row(" ", text), &PARTITION).unwrap();
            let cells = &encoded.element.struct_values;
            let payload: serde_json::Value =
                serde_json::from_str(&cells.payload_json.value).unwrap();
            assert_eq!(payload["attributes"]["text"], text);
            assert_eq!(cells.resource_namespace.value, "team-a");
            let sent = serde_json::to_string(&encoded.element).unwrap();
            assert!(
                sent.len() <= encoded.cost,
                "{} of {}",
                sent.len(),
                encoded.cost
            );
        }
    }

    #[test]
    fn a_row_that_no_request_carries_is_told() {
        let large = row("team-a", &"x".repeat(LARGEST));
        assert_eq!(upsert(&large, &PARTITION).unwrap_err(), TooLarge);
        // It would fit, but not with its escapes.
        let quotes = row("team-a", &"\"".repeat(LARGEST / 3));
        assert_eq!(upsert(&quotes, &PARTITION).unwrap_err(), TooLarge);
    }

    #[test]
    fn portions_are_bounded() {
        let mut portion = Portion::default();
        let mut full = Vec::new();
        for _ in 0..7 {
            let encoded = upsert(&row("team-a", &"x".repeat(PORTION / 3)), &PARTITION).unwrap();
            full.extend(portion.add(encoded));
        }
        full.push(portion);
        let counts: Vec<usize> = full.iter().map(|portion| portion.elements.len()).collect();
        assert_eq!(counts, [2, 2, 2, 1]);
        for portion in full {
            let sent = serde_json::to_vec(&portion.elements).unwrap();
            assert!(sent.len() < 10_000_000, "{}", sent.len());
        }
    }
}
