//! The laws of documents: what a reader finds in them, whole and in parts.

use std::num::NonZeroU64;
use std::sync::Arc;

use jiff::Timestamp;
use kollect_inventory::{Document, Part, Pass, Row, Snapshot, Splitter, TargetKind};
use proptest::prelude::*;
use serde_json::Value;

use crate::any::{close_row, json_of, row, rows, text, with_attributes};
use crate::items::rows_of;

fn bytes_of(document: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.write(&mut bytes);
    bytes
}

/// The rows in the text of a document, after a look at everything else in it.
fn read_back(document: &Document) -> Vec<Row> {
    let json: Value = serde_json::from_slice(&bytes_of(document)).expect("a document is JSON");
    let pass = document.pass();
    let exported_at = json["exportedAt"].as_str().expect("a time");
    let exported_at = exported_at.parse::<Timestamp>().expect("RFC 3339");
    assert_eq!(exported_at, pass.exported_at);
    let generation = json["generation"].as_i64().unwrap_or_default();
    assert_eq!(generation, pass.generation);
    assert_eq!(
        json["cluster"].as_str().unwrap_or_default(),
        pass.cluster.as_str()
    );
    assert_eq!(json["exportId"].as_str(), pass.export_id.as_deref());
    let part = document.part();
    assert_eq!(json["partIndex"].as_u64(), part.map(Part::index));
    assert_eq!(json["partTotal"].as_u64(), part.map(Part::total));
    let rows = rows_of(&json["items"], TargetKind::Target);
    let checksum = Snapshot::new(rows.clone()).fingerprint();
    assert_eq!(json["checksum"], checksum.to_string());
    rows
}

fn pass() -> impl Strategy<Value = Arc<Pass>> {
    let nanos = 0_i128..4_000_000_000_000_000_000;
    (any::<i64>(), nanos, text(), prop::option::of(text())).prop_map(
        |(generation, nanos, cluster, export_id)| {
            Arc::new(Pass {
                generation,
                exported_at: Timestamp::from_nanosecond(nanos).expect("in range"),
                cluster,
                export_id,
            })
        },
    )
}

proptest! {
    #[test]
    fn a_document_reads_back_as_it_was(rows in rows(), pass in pass()) {
        let document = Document::whole(Arc::clone(&pass), Snapshot::new(rows));
        prop_assert_eq!(document.pass(), &*pass);
        prop_assert_eq!(document.part(), None);
        prop_assert_eq!(&read_back(&document), document.rows().rows());
    }

    #[test]
    fn pieces_add_up_to_the_document(rows in rows(), pass in pass(), size in 0_usize..2000) {
        let document = Document::whole(pass, Snapshot::new(rows));
        let whole = bytes_of(&document);
        prop_assert_eq!(document.byte_len(), whole.len() as u64);
        let pieces: Vec<Vec<u8>> = document.chunks(size).collect();
        prop_assert_eq!(pieces.concat(), whole);
        prop_assert!(pieces.iter().rev().skip(1).all(|piece| piece.len() >= size));
    }

    #[test]
    fn the_parts_hold_all_rows_and_none_twice(
        rows in rows(),
        pass in pass(),
        ceiling in 200_u64..6000,
    ) {
        let rows = Snapshot::new(rows);
        let whole = Document::whole(Arc::clone(&pass), rows.clone());
        let splitter = Splitter::new(rows.clone());
        match splitter.split(&pass, NonZeroU64::new(ceiling)) {
            Ok(documents) => {
                for (document, index) in documents.iter().zip(1..) {
                    let bytes = bytes_of(document);
                    prop_assert_eq!(document.byte_len(), bytes.len() as u64);
                    prop_assert!(rows.is_empty() || bytes.len() as u64 <= ceiling);
                    let part = Part::new(index, documents.len() as u64);
                    prop_assert_eq!(document.part(), part.filter(|_| documents.len() > 1));
                }
                let fits = whole.byte_len() <= ceiling || rows.is_empty();
                prop_assert_eq!(documents.len() == 1 && documents[0] == whole, fits);
                let found: Vec<Row> = documents.iter().flat_map(read_back).collect();
                prop_assert_eq!(found.len(), rows.len());
                prop_assert_eq!(Snapshot::new(found), rows);
            }
            Err(error) => {
                prop_assert!(error.needed > ceiling);
                prop_assert!(rows.get(error.row.identity()).is_some());
                // It truly does not fit, even with the shortest possible part numbers.
                let alone = Document::whole(pass, Snapshot::new([error.row]));
                prop_assert!(alone.byte_len() + 30 + 2 * 2 > ceiling);
            }
        }
        prop_assert_eq!(splitter.split(&whole_pass(&whole), None), Ok(vec![whole]));
    }

    #[test]
    fn rows_compare_as_their_texts_do(
        a in row(),
        b in row(),
        c in close_row(),
        d in close_row(),
    ) {
        let e = with_attributes(&c, d.attributes());
        for (a, b) in [(&a, &b), (&b, &c), (&c, &d), (&c, &e)] {
            prop_assert_eq!(a.compare_json(b), json_of(a).cmp(&json_of(b)));
            prop_assert_eq!(a.json_len(), json_of(a).len());
        }
    }

    #[test]
    fn a_row_is_the_same_through_serde(row in row()) {
        let value = serde_json::to_value(&row).expect("serialises");
        prop_assert_eq!(rows_of(&Value::from(vec![value]), TargetKind::Target), vec![row]);
    }
}

fn whole_pass(document: &Document) -> Arc<Pass> {
    Arc::new(document.pass().clone())
}
