//! The laws of documents: writing, splitting, reading back, joining.

use std::num::NonZeroU64;
use std::sync::Arc;

use jiff::Timestamp;
use kollect_inventory::read::ReadDocument;
use kollect_inventory::set::Incomplete;
use kollect_inventory::{Document, Part, Pass, Snapshot, Splitter, TargetKind, join, read};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

use crate::any::{close_row, json, json_of, row, rows, text, with_attributes};

fn bytes_of(document: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.write(&mut bytes);
    bytes
}

fn read_back(document: &Document) -> ReadDocument {
    read(&bytes_of(document), TargetKind::Target).expect("our own document")
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

/// JSON with the keys of a document in it, and anything behind them.
fn any_document() -> impl Strategy<Value = Value> {
    let keys = select(
        &[
            "schemaVersion",
            "checksum",
            "generation",
            "partIndex",
            "partTotal",
            "exportedAt",
            "items",
            "name",
            "uid",
            "attributes",
        ][..],
    );
    let leaf = prop_oneof![
        Just(Value::from("kollect.dev/v1alpha1")),
        Just(Value::from("2026-01-15T12:00:00Z")),
        json(),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((keys.clone(), inner), 0..5).prop_map(|members| {
                let members = members.into_iter();
                let mut object: Map<_, _> = members
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect();
                object.insert("schemaVersion".to_owned(), "kollect.dev/v1alpha1".into());
                Value::Object(object)
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_document_reads_back_as_it_was(rows in rows(), pass in pass()) {
        let document = Document::whole(Arc::clone(&pass), Snapshot::new(rows));
        let back = read_back(&document);
        prop_assert!(back.is_intact());
        let header = back.header.clone().expect("a header");
        prop_assert_eq!(header.generation, pass.generation);
        prop_assert_eq!(header.exported_at, Some(pass.exported_at));
        prop_assert_eq!(&header.cluster, &pass.cluster);
        prop_assert_eq!(&header.export_id, &pass.export_id);
        prop_assert_eq!(&header.checksum, &Some(document.checksum().to_string()));
        prop_assert_eq!(header.part, None);
        prop_assert_eq!(&back.rows, document.rows().rows());
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
    fn splitting_and_joining_is_the_identity(
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
                let joined = join(documents.iter().rev().map(read_back));
                prop_assert_eq!(joined, Ok(rows));
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
        let text = serde_json::to_string(&[value]).expect("serialises");
        let back = read(text.as_bytes(), TargetKind::Target).expect("a legacy array");
        prop_assert_eq!(back.rows, vec![row]);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, TargetKind::Target);
    }

    #[test]
    fn documents_of_any_shape_never_panic(value in any_document()) {
        let _ = read(value.to_string().as_bytes(), TargetKind::Target);
    }

    #[test]
    fn damaged_documents_never_panic_and_never_pass_as_intact(
        rows in rows(),
        pass in pass(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let document = Document::whole(pass, Snapshot::new(rows));
        let mut bytes = bytes_of(&document);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(back) = read(&bytes, TargetKind::Target)
            && back.is_intact()
        {
            // Either the damage was outside the rows, or it hit a checksum key that then reads as
            // an unknown one; the rows themselves are always the original ones.
            let original = document.rows().rows();
            let has_checksum = back.header.is_some_and(|header| header.checksum.is_some());
            prop_assert!(back.rows == original || back.rows.is_empty() || !has_checksum);
        }
    }
}

fn whole_pass(document: &Document) -> Arc<Pass> {
    Arc::new(document.pass().clone())
}

fn three_parts(pass: &Arc<Pass>) -> Vec<ReadDocument> {
    let rows = (0..3).map(|index| {
        serde_json::json!({"name": format!("nginx-{index}"), "attributes": {"fill": "x".repeat(300)}})
    });
    let rows = rows.collect::<Value>().to_string();
    let rows = read(rows.as_bytes(), TargetKind::Target)
        .expect("rows")
        .rows;
    let splitter = Splitter::new(Snapshot::new(rows));
    let documents = splitter.split(pass, NonZeroU64::new(800)).expect("fits");
    documents.iter().map(read_back).collect()
}

#[test]
fn a_set_is_complete_only_with_all_parts_of_one_pass() {
    let pass = Arc::new(Pass {
        generation: 1,
        ..Pass::at("2026-01-15T12:00:00Z".parse().expect("a time"))
    });
    let parts = three_parts(&pass);
    assert_eq!(parts.len(), 3);
    assert_eq!(join(parts.clone()).map(|rows| rows.len()), Ok(3));

    let missing = join([parts[2].clone(), parts[0].clone()]);
    assert_eq!(
        missing,
        Err(Incomplete::Missing {
            missing: vec![2],
            total: 3
        })
    );
    assert_eq!(join([]), Err(Incomplete::Nothing));
    let twice = [parts[0].clone(), parts[0].clone(), parts[1].clone()];
    assert_eq!(join(twice), Err(Incomplete::Overlap));

    // The same generation and part count, but another moment: the set is torn.
    let mut later = Pass::clone(&pass);
    later.exported_at = "2026-01-15T12:00:30Z".parse().expect("a time");
    let torn = three_parts(&Arc::new(later));
    let mixed = [parts[0].clone(), torn[1].clone(), torn[2].clone()];
    assert_eq!(join(mixed), Err(Incomplete::Mixed("exportedAt")));

    let mut renamed = Pass::clone(&pass);
    renamed.export_id = Some("second".into());
    let other = three_parts(&Arc::new(renamed));
    let mixed = [parts[0].clone(), other[1].clone(), other[2].clone()];
    assert_eq!(join(mixed), Err(Incomplete::Mixed("exportId")));

    let whole = ReadDocument {
        header: None,
        rows: parts[0].rows.clone(),
    };
    assert_eq!(join([whole.clone()]).map(|rows| rows.len()), Ok(1));
    assert_eq!(join([whole, parts[1].clone()]), Err(Incomplete::Overlap));
}

#[test]
fn a_changed_row_does_not_match_its_checksum() {
    let pass = Arc::new(Pass::at(Timestamp::UNIX_EPOCH));
    let rows = read(
        br#"[{"name":"a","attributes":{"replicas":2}}]"#,
        TargetKind::Target,
    )
    .expect("rows");
    let document = Document::whole(pass, Snapshot::new(rows.rows));
    let text = String::from_utf8(bytes_of(&document)).expect("text");
    let changed = text.replace("\"replicas\":2", "\"replicas\":3");
    assert!(
        read(text.as_bytes(), TargetKind::Target)
            .expect("ours")
            .is_intact()
    );
    assert!(
        !read(changed.as_bytes(), TargetKind::Target)
            .expect("ours")
            .is_intact()
    );
}
