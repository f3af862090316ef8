//! Inventories and clusters share a backend and never touch each other.

use futures::future::join_all;
use kollect_api::InventoryId;
use kollect_inventory::Snapshot;

use super::{
    exporter::{CLUSTER, Exporter},
    rows::Rows,
    subject::{Retirement, Subject},
};
use crate::sink::Demand;

/// Names that are easily taken for each other: prefixes, the same words cut elsewhere, the same
/// name in another scope.
fn lookalikes() -> Vec<InventoryId> {
    vec![
        InventoryId::namespaced("team", "a-inventory"),
        InventoryId::namespaced("team-a", "inventory"),
        InventoryId::namespaced("team-a", "inventory-2"),
        InventoryId::namespaced("team-a", "inventory.v2"),
        InventoryId::namespaced("team-b", "inventory"),
        InventoryId::cluster("inventory"),
        InventoryId::cluster("team-a"),
        // B12: the word that cluster inventories stand under.
        InventoryId::namespaced("cluster", "inventory"),
    ]
}

/// An exporter for each inventory, all holding the same rows.
async fn everybody<'s>(
    subject: &'s dyn Subject,
    cluster: &str,
    rows: &Snapshot,
) -> Vec<Exporter<'s>> {
    let mut all = Vec::new();
    for inventory in lookalikes() {
        let mut exporter = Exporter::of(subject, cluster, inventory).await;
        exporter.everything(rows).await;
        all.push(exporter);
    }
    all
}

async fn check_all(exporters: &[Exporter<'_>], when: &str) {
    for exporter in exporters {
        exporter.check(when).await;
    }
}

/// Each inventory in turn changes and is emptied; the others keep what they have.
pub(super) async fn inventories_do_not_touch_each_other(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut all = everybody(subject, CLUSTER, &rows.deployments(3, 1)).await;
    for turn in 0..all.len() {
        let replicas = 2 + turn as u64;
        all[turn].everything(&rows.deployments(2, replicas)).await;
        all[turn].changes(&rows.deployments(4, replicas)).await;
        check_all(&all, "after a neighbour changed").await;
    }
    for turn in 0..all.len() {
        all[turn].everything(&Snapshot::default()).await;
        check_all(&all, "after a neighbour was emptied").await;
    }
}

/// Two clusters with the same inventories and the very same objects, as after a restored control
/// plane, hold their rows side by side.
pub(super) async fn clusters_do_not_touch_each_other(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let inventory = || InventoryId::namespaced("team-a", "team-inventory");
    let mut east = Exporter::of(subject, "east", inventory()).await;
    let mut west = Exporter::of(subject, "west", inventory()).await;
    east.everything(&rows.deployments(3, 1)).await;
    west.everything(&rows.deployments(4, 2)).await;
    east.check("after the other cluster delivered").await;
    east.changes(&rows.deployments(2, 3)).await;
    west.check("after the other cluster changed").await;
    east.restart().await;
    east.everything(&rows.deployments(1, 3)).await;
    west.check("after the other cluster started anew").await;
    east.everything(&Snapshot::default()).await;
    west.check("after the other cluster was emptied").await;
    west.retire()
        .await
        .expect("retiring the other cluster's inventory");
    east.everything(&rows.deployments(5, 1)).await;
}

/// Deliveries for different inventories and clusters run at the same time.
pub(super) async fn deliveries_run_side_by_side(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let (first, second) = (rows.deployments(200, 1), rows.deployments(150, 2));
    let mut all = Vec::new();
    for cluster in ["east", "west"] {
        let shared = subject.sink(cluster).await;
        for inventory in lookalikes().into_iter().take(4) {
            let mut exporter = Exporter::of(subject, cluster, inventory).await;
            // One process has one sink object for all inventories.
            exporter.sink = shared.clone();
            all.push(exporter);
        }
    }
    join_all(all.iter_mut().map(|exporter| exporter.everything(&first))).await;
    join_all(all.iter_mut().map(|exporter| exporter.changes(&second))).await;
    check_all(&all, "after all deliveries").await;
}

/// An inventory that is no more takes its own rows with it, if that is the backend's nature, and
/// nobody else's.
pub(super) async fn retiring_concerns_one_inventory(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let some = rows.deployments(3, 1);
    let mut all = everybody(subject, CLUSTER, &some).await;
    let mut elsewhere = Exporter::of(subject, "elsewhere", lookalikes().remove(1)).await;
    elsewhere.everything(&some).await;
    for turn in 0..all.len() {
        let receipt = all[turn].retire().await.expect("retiring");
        if subject.retirement() == Retirement::Removes {
            all[turn].expected = Snapshot::default();
            // Whoever holds documents removes documents, and does not count what is in them.
            let documents = all[turn].sink.demand() == Demand::Documents;
            assert!(
                receipt.removed == 3 || documents && receipt.removed > 0,
                "removed: {}",
                receipt.removed
            );
        }
        check_all(&all, "after an inventory was retired").await;
    }
    elsewhere
        .check("after inventories of another cluster were retired")
        .await;
}

/// Retiring twice, also by a new process, is no error and finds nothing more to do.
pub(super) async fn retiring_twice_is_fine(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(3, 1)).await;
    exporter.retire().await.expect("retiring");
    if subject.retirement() == Retirement::Removes {
        exporter.expected = Snapshot::default();
    }
    let again = exporter.retire().await.expect("retiring again");
    assert_eq!(again.removed, 0, "rows removed the second time");
    exporter.restart().await;
    exporter.retire().await.expect("retiring after a restart");
    exporter.check("after retiring three times").await;
}

/// Retiring works for what this process has never delivered, and for what nobody has.
pub(super) async fn retiring_the_unknown_is_fine(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut nobody = Exporter::of(subject, CLUSTER, InventoryId::namespaced("no", "body")).await;
    nobody
        .retire()
        .await
        .expect("retiring at an untouched backend");
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(3, 1)).await;
    nobody
        .retire()
        .await
        .expect("retiring what nobody delivered");
    exporter
        .check("after an unknown inventory was retired")
        .await;
    exporter.restart().await;
    exporter
        .retire()
        .await
        .expect("retiring what an earlier process delivered");
    if subject.retirement() == Retirement::Removes {
        exporter.expected = Snapshot::default();
    }
    exporter.check("after retiring").await;
}

/// An inventory that returns under its old name starts from nothing.
pub(super) async fn an_inventory_may_return(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(5, 1)).await;
    exporter.retire().await.expect("retiring");
    exporter.everything(&rows.deployments(2, 2)).await;
    exporter.changes(&rows.deployments(3, 2)).await;
}
