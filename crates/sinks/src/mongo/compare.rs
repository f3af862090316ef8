//! What a collection holds of an inventory, beside what it should hold.
//!
//! Only keys and hashes are read, as the primary has them at this moment: a primary that was just
//! elected has everything that was ever confirmed, but does not show all of it yet to whoever asks
//! for confirmed data only. What was read that is not confirmed becomes so with the next write
//! (`Writer::confirm`), or the primary changes, and everything is compared again. Memory stays in proportion to the rows that are to be there,
//! whatever the server sends.

use kollect_inventory::Row;
use mongodb::{
    bson::{RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc},
    options::ReadConcern,
};

use super::{
    connection::Connection,
    fault::Fault,
    names::{Names, Partition},
};
use crate::database::wanted::{Found, Wanted};

const STAGE: &str = "mongodb compare";
/// Documents of one answer.
const ANSWER: u32 = 5_000;
/// How many bytes of filters for documents that have to go are kept at once.
const STALE: usize = 8 << 20;

/// What differs.
pub(super) struct Difference<'r> {
    /// Rows that are not there, or are there with another content.
    pub(super) write: Vec<&'r Row>,
    /// Filters of documents that have to go.
    pub(super) stale: Vec<RawDocumentBuf>,
    /// There are more of them.
    pub(super) more: bool,
}

fn judge(wanted: &Wanted<'_>, document: &RawDocument) -> Found {
    let target_name = document.get_str("target_name");
    let (Ok(target_name), Ok(uid)) = (target_name, document.get_str("source_uid")) else {
        return Found::Stale;
    };
    let namespace = document.get_str("resource_namespace").unwrap_or_default();
    let hash = document.get_i64("content_hash").ok();
    wanted.judge(target_name, uid, namespace, hash)
}

/// Reads what is there.
pub(super) async fn compare<'r>(
    wanted: &Wanted<'r>,
    connection: &Connection,
    names: &Names,
    partition: &Partition<'_>,
) -> Result<Difference<'r>, Fault> {
    let fault = |error: mongodb::error::Error| connection.fault(STAGE, &error);
    let filter = doc! {
        "inventory_namespace": partition.namespace,
        "inventory_name": partition.name,
        "cluster": partition.cluster,
    };
    let mut fields = doc! {"target_name": 1, "source_uid": 1, "content_hash": 1};
    if wanted.holds() {
        fields.insert("resource_namespace", 1);
    }
    let collection = connection.collection(names);
    let mut documents = collection
        .find(filter)
        .projection(fields)
        .batch_size(ANSWER)
        .read_concern(ReadConcern::local())
        .await
        .map_err(fault)?;
    let mut sightings = wanted.sightings();
    let (mut stale, mut bytes, mut more) = (Vec::new(), 0, false);
    while documents.advance().await.map_err(fault)? {
        let document = documents.current();
        if !sightings.is_surplus(judge(wanted, document)) {
            continue;
        }
        if bytes > STALE {
            more = true;
            continue;
        }
        let filter = filter_of(partition, document);
        bytes += filter.as_bytes().len();
        stale.push(filter);
    }
    let write = wanted.missing(&sightings);
    Ok(Difference { write, stale, more })
}

/// A filter for one document that was read, inside its partition.
fn filter_of(partition: &Partition<'_>, document: &RawDocument) -> RawDocumentBuf {
    let mut filter = partition.filter();
    let id = document.get("_id").ok().flatten();
    filter.append(cstr!("_id"), id.unwrap_or(RawBsonRef::Null));
    filter
}

#[cfg(test)]
mod tests {
    use kollect_inventory::{AttributesBuffer, HeldRows, Interner, OriginParts, TargetKind};
    use mongodb::bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::mongo::encode::content_hash;

    fn row(interner: &mut Interner, uid: &str) -> Row {
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: "nodes",
            namespace: "",
            group: "",
            version: "v1",
            kind: "Node",
        });
        let mut attributes = AttributesBuffer::new();
        attributes.set_null();
        interner.row(&origin, uid, uid, attributes.view())
    }

    #[test]
    fn documents_are_told_apart() {
        let mut interner = Interner::default();
        let rows = [row(&mut interner, "a"), row(&mut interner, "b")];
        let held = [
            HeldRows::of_target("pods"),
            HeldRows::in_namespace("nodes", "dark"),
        ];
        let wanted = Wanted::new(rows.iter(), &held, content_hash);
        let hash = content_hash(&rows[1]);
        let judge = |document: RawDocumentBuf| judge(&wanted, &document);
        for (document, expected) in [
            (
                rawdoc! {"target_name": "nodes", "source_uid": "b", "content_hash": hash},
                Found::Same(1),
            ),
            (
                rawdoc! {"target_name": "nodes", "source_uid": "b", "content_hash": hash ^ 1},
                Found::Other(1),
            ),
            (
                rawdoc! {"target_name": "nodes", "source_uid": "b"},
                Found::Other(1),
            ),
            (
                rawdoc! {"target_name": "nodes", "source_uid": "b", "content_hash": "x"},
                Found::Other(1),
            ),
            (
                rawdoc! {"target_name": "nodes", "source_uid": "c", "content_hash": hash},
                Found::Stale,
            ),
            (
                rawdoc! {"target_name": "nodes", "source_uid": "c", "resource_namespace": "dark"},
                Found::Held,
            ),
            (
                rawdoc! {"target_name": "nodes", "source_uid": "b", "content_hash": hash, "resource_namespace": "dark"},
                Found::Same(1),
            ),
            (
                rawdoc! {"target_name": "nodes", "source_uid": "c", "resource_namespace": "lit"},
                Found::Stale,
            ),
            (
                rawdoc! {"target_name": "pods", "source_uid": "c"},
                Found::Held,
            ),
            (rawdoc! {"target_name": 1, "source_uid": "b"}, Found::Stale),
            (rawdoc! {}, Found::Stale),
        ] {
            assert_eq!(judge(document.clone()), expected, "{document:?}");
        }
    }
}
