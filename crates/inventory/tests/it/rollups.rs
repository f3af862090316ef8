//! Rollups of several namespaces: vectors, and that no order of input matters.

use kollect_api::inventory::Dedupe;
use kollect_inventory::{Rollup, Row, Shard, TargetKind, rollup::merge};
use proptest::prelude::*;
use serde_json::Value;

use crate::any;
use crate::items::rows_of;

fn shown(row: &Row) -> String {
    let target = row.origin().target_name();
    format!("{target} {} {:?}", row.uid(), row.attributes())
}

#[test]
fn vectors() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../data/rollups.json")).expect("the data file");
    for case in cases {
        let id = case["id"].as_str().expect("an id");
        let dedupe = match case["dedupe"].as_str() {
            Some("byResourceUID") => Dedupe::ByResourceUid,
            _ => Dedupe::KeepAll,
        };
        let rows = rows_of(&case["rows"], TargetKind::ClusterTarget);
        let rollup = Rollup::new(rows, dedupe);
        let expected = case["shards"].as_array().expect("shards");
        assert_eq!(rollup.shards().len(), expected.len(), "{id}");
        for (shard, expected) in rollup.shards().iter().zip(expected) {
            assert_eq!(shard.namespace(), expected["namespace"], "{id}");
            assert_eq!(shard.item_count(), expected["itemCount"], "{id}");
            assert_eq!(shard.target_count(), expected["targetCount"], "{id}");
            if let Some(fingerprint) = expected["fingerprint"].as_str() {
                assert_eq!(shard.fingerprint().to_string(), fingerprint, "{id}");
            }
        }
        if let Some(digest) = case["digest"].as_str() {
            assert_eq!(rollup.digest().to_string(), digest, "{id}");
        }
        let found: Vec<_> = rollup.rows().rows().iter().map(shown).collect();
        assert_eq!(Value::from(found), case["result"], "{id}");
    }
}

#[test]
fn the_kept_row_takes_the_place_of_the_first() {
    let rows = rows_of(
        &serde_json::json!([
            {"targetName": "a", "namespace": "n", "name": "x", "uid": "1", "attributes": {"from": "R1"}},
            {"targetName": "a", "namespace": "n", "name": "y", "uid": "2"},
            {"targetName": "b", "namespace": "n", "name": "x", "uid": "1", "attributes": {"from": "R2"}},
        ]),
        TargetKind::ClusterTarget,
    );
    let merged = merge(rows.clone(), Dedupe::ByResourceUid);
    assert_eq!(merged, [rows[2].clone(), rows[1].clone()]);
    assert_eq!(merge(rows.clone(), Dedupe::KeepAll), rows);
}

proptest! {
    #[test]
    fn neither_the_order_of_rows_nor_of_shards_matters(
        rows in any::rows(),
        keep_all in any::<bool>(),
    ) {
        let dedupe = if keep_all { Dedupe::KeepAll } else { Dedupe::ByResourceUid };
        // One row per identity, as from the store.
        let rows = kollect_inventory::Snapshot::new(rows).rows().to_vec();
        let forward = Rollup::new(rows.clone(), dedupe);
        let backward = Rollup::new(rows.iter().rev().cloned(), dedupe);
        prop_assert_eq!(&forward, &backward);
        prop_assert_eq!(forward.digest(), backward.digest());
        let shards: Vec<Shard> = forward.shards().iter().rev().cloned().collect();
        prop_assert_eq!(&Rollup::of_shards(shards, dedupe), &forward);
        if keep_all {
            prop_assert_eq!(forward.rows().len(), rows.len());
        } else {
            let object = |row: &Row| (row.origin().namespace().to_owned(), row.uid().to_string());
            let found: Vec<_> = forward.rows().rows().iter().map(object).collect();
            let expected: std::collections::BTreeSet<_> = rows.iter().map(object).collect();
            prop_assert_eq!(found.len(), expected.len());
            for row in &rows {
                prop_assert!(found.contains(&object(row)));
            }
        }
    }
}
