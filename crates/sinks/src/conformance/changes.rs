//! Changes lead to the same contents as a delivery of all rows would.
//!
//! Sinks that want all rows every time are given all rows here, too: the histories are worth
//! having for them as well.

use std::{collections::BTreeMap, sync::Arc};

use kollect_api::InventoryId;
use kollect_inventory::{Delta, Snapshot};

use super::{
    exporter::{CLUSTER, Exporter},
    rows::{Random, Rows},
    subject::{Subject, not_applicable},
};
use crate::{
    error::SinkError,
    sink::{DeliveryRows, Demand},
};

/// New and changed rows.
pub(super) async fn changes_add_and_update(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(10, 1)).await;
    let updated = rows.deployment("app-00003", 5);
    let next = exporter.expected.rows().iter().cloned().chain([updated]);
    let receipt = exporter.changes(&Snapshot::new(next)).await;
    if let Some(receipt) = receipt {
        assert_eq!((receipt.written, receipt.removed), (1, 0), "one row's work");
    }
    let added = rows.deployment("new", 1);
    let next = exporter.expected.rows().iter().cloned().chain([added]);
    let receipt = exporter.changes(&Snapshot::new(next)).await;
    if let Some(receipt) = receipt {
        assert_eq!((receipt.written, receipt.removed), (1, 0), "one row's work");
    }
}

/// Rows that are gone.
pub(super) async fn changes_remove(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(10, 1)).await;
    let receipt = exporter.changes(&rows.deployments(9, 1)).await;
    if let Some(receipt) = receipt {
        assert_eq!((receipt.written, receipt.removed), (0, 1), "one row's work");
    }
    exporter.changes(&Snapshot::default()).await;
    exporter.changes(&rows.deployments(2, 1)).await;
}

/// New, changed and gone rows in one delivery.
pub(super) async fn changes_of_all_kinds_at_once(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let first = ["stays", "changes", "goes", "goes-too"].map(|name| rows.deployment(name, 1));
    exporter.everything(&Snapshot::new(first)).await;
    let second = [("stays", 1), ("changes", 2), ("comes", 1)];
    let second = second.map(|(name, replicas)| rows.deployment(name, replicas));
    exporter.changes(&Snapshot::new(second)).await;
}

/// A profile now names another version of the kind: the old row is deleted, the new one inserted,
/// and both may have the same key at the backend.
pub(super) async fn a_row_may_return_under_another_identity(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    for versions in [["v1", "v1beta1"], ["v1beta1", "v1"]] {
        let [old, new] = versions.map(|version| rows.deployment_at(version, "api", 1));
        let other = rows.deployment("other", 1);
        let old = Snapshot::new([old, other.clone()]);
        let new = Snapshot::new([new, other]);
        exporter.everything(&old).await;
        exporter.changes(&new).await;
        exporter.everything(&old).await;
        exporter.everything(&new).await;
    }
}

/// The same changes twice: the engine repeats a delivery whose answer was lost on the way.
pub(super) async fn repeated_changes_change_nothing(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    if exporter.sink.demand() == Demand::Documents {
        not_applicable("takes no changes");
        return;
    }
    let before = Snapshot::new(["a", "b", "c"].map(|name| rows.deployment(name, 1)));
    let after = [("a", 1), ("b", 2), ("d", 1)];
    let after = Snapshot::new(after.map(|(name, replicas)| rows.deployment(name, replicas)));
    exporter.everything(&before).await;
    exporter.changes(&after).await;
    let again = Arc::new(Delta::between(&before, &after));
    let receipt = exporter.attempt(DeliveryRows::Changes(again)).await;
    receipt.expect("the same changes once more");
    exporter.check("after the same changes once more").await;
}

/// No change at all is accepted and does nothing.
pub(super) async fn no_changes_are_accepted(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let some = rows.deployments(3, 1);
    exporter.everything(&some).await;
    let before = subject.mark().await;
    exporter.changes(&some).await;
    assert_eq!(subject.mark().await, before, "writes without a change");
}

/// All rows after changes find nothing left to do.
pub(super) async fn all_rows_after_changes_agree(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(30, 1)).await;
    let next = rows.deployments(25, 2);
    exporter.changes(&next).await;
    let before = subject.mark().await;
    exporter.everything(&next).await;
    exporter.restart().await;
    exporter.everything(&next).await;
    assert_eq!(subject.mark().await, before, "the changes left work to do");
}

/// The backend lost what it held: changes are refused with the reason, all rows put it right.
pub(super) async fn changes_notice_a_backend_that_lost_its_rows(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(5, 1)).await;
    if !subject.lose().await {
        not_applicable("cannot be made to lose its rows");
        return;
    }
    let next = rows.deployments(6, 1);
    if exporter.sink.demand() != Demand::Documents {
        let delta = Arc::new(Delta::between(&exporter.expected, &next));
        let refused = exporter.attempt(DeliveryRows::Changes(delta)).await;
        assert!(
            matches!(refused, Err(SinkError::OutOfStep(_))),
            "changes for a backend that lost its rows: {refused:?}"
        );
    }
    exporter.everything(&next).await;
}

/// Long lives of an inventory, all different and the same in every run.
pub(super) async fn random_histories(subject: &dyn Subject) {
    for seed in 1..=3_u64.div_ceil(subject.scale() as u64) {
        random_history(subject, seed).await;
    }
}

async fn random_history(subject: &dyn Subject, seed: u64) {
    let mut random = Random::new(seed);
    let mut rows = Rows::new();
    let mut state: BTreeMap<u64, (&str, u64)> = BTreeMap::new();
    let inventory = InventoryId::namespaced("team-a", format!("history-{seed}"));
    let mut exporter = Exporter::of(subject, CLUSTER, inventory).await;
    exporter.everything(&Snapshot::default()).await;
    for _ in 0..30 {
        for _ in 0..=random.below(6) {
            let object = random.below(15);
            match random.below(4) {
                0 => drop(state.remove(&object)),
                // The same object through another version: another identity, the same object.
                1 => drop(state.insert(object, ("v1beta1", random.below(3)))),
                _ => drop(state.insert(object, ("v1", random.below(3)))),
            }
        }
        if random.below(20) == 0 {
            state.clear();
        }
        let next: Snapshot = state
            .iter()
            .map(|(object, (version, replicas))| {
                rows.deployment_at(version, &format!("app-{object}"), *replicas)
            })
            .collect();
        match random.below(8) {
            0 => {
                exporter.restart().await;
                exporter.everything(&next).await;
            }
            1 => drop(exporter.everything(&next).await),
            _ => drop(exporter.changes(&next).await),
        }
    }
}
