//! Whatever is delivered, a reader finds exactly that.

use kollect_inventory::Snapshot;
use serde_json::json;

use super::{
    exporter::{CLUSTER, Exporter},
    rows::Rows,
    subject::Subject,
};
use crate::sink::{DeliveryRows, Demand};

/// Rows arrive at an empty backend.
pub(super) async fn first_delivery(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.check("before anything was delivered").await;
    let both = Snapshot::new([rows.deployment("api", 2), rows.deployment("worker", 1)]);
    let receipt = exporter.everything(&both).await;
    if exporter.sink.demand() != Demand::Documents {
        assert_eq!(receipt.written, 2, "rows written");
        assert!(receipt.bytes > 0, "bytes handed over");
    }
}

/// A row with other attributes takes the place of the old one.
pub(super) async fn an_update_replaces_the_row(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(3, 1)).await;
    exporter.everything(&rows.deployments(3, 2)).await;
}

/// A row that is not delivered any more is gone.
pub(super) async fn a_missing_row_is_removed(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(5, 1)).await;
    exporter.everything(&rows.deployments(2, 1)).await;
}

/// No rows at all means that none stay.
pub(super) async fn an_empty_snapshot_removes_everything(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(5, 1)).await;
    exporter.everything(&Snapshot::default()).await;
    exporter.everything(&rows.deployments(2, 1)).await;
}

/// Nothing to deliver and nothing there is no error.
pub(super) async fn an_empty_snapshot_may_come_first(subject: &dyn Subject) {
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&Snapshot::default()).await;
    exporter.everything(&Snapshot::default()).await;
}

/// Many rows arrive, change a little, and shrink to few.
pub(super) async fn ten_thousand_rows(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let many = rows.deployments(10_000 / subject.scale(), 1);
    exporter.everything(&many).await;
    let changed = rows.deployment("app-00471", 7);
    let changed = Snapshot::new(many.rows().iter().cloned().chain([changed]));
    if let Some(receipt) = exporter.changes(&changed).await {
        assert_eq!(
            receipt.written, 1,
            "the cost of a change follows the change"
        );
    }
    exporter.everything(&rows.deployments(10, 1)).await;
}

/// The same rows once more: nothing changes that a reader sees.
pub(super) async fn a_repeated_delivery_changes_nothing(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let some = rows.deployments(20, 1);
    exporter.everything(&some).await;
    let before = subject.mark().await;
    exporter.everything(&some).await;
    exporter.everything(&some).await;
    assert_eq!(
        subject.mark().await,
        before,
        "writes after the first delivery"
    );
}

/// A process that starts anew delivers all rows; what is there already stays untouched.
pub(super) async fn a_restart_changes_nothing(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let some = rows.deployments(20, 1);
    exporter.everything(&some).await;
    let before = subject.mark().await;
    exporter.restart().await;
    exporter.check("after the restart").await;
    exporter.everything(&some).await;
    assert_eq!(subject.mark().await, before, "writes after the restart");
}

/// What disappeared while no process ran is removed by the first delivery afterwards.
pub(super) async fn a_restart_removes_what_disappeared_meanwhile(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    exporter.everything(&rows.deployments(20, 1)).await;
    exporter.restart().await;
    exporter.everything(&rows.deployments(7, 2)).await;
    exporter.restart().await;
    exporter.everything(&Snapshot::default()).await;
}

/// Text, numbers and shapes that break what is pasted together instead of encoded.
pub(super) async fn awkward_values_come_back_as_they_were(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let attributes = [
        json!(null),
        json!({}),
        json!({ "quotes": "it's \"quoted\" and `ticked`; -- '; DROP TABLE x" }),
        json!({ "escapes": "back\\slash \\n \\u0041 tab\t line\n return\r bell\u{7} %s {x} $1" }),
        json!({ "unicode": "Grüße 你好 🚀 \u{200b}\u{202e}\u{feff}", "ключ": "значение" }),
        json!({ "numbers": [u64::MAX, i64::MIN, 0, -1, 0.1, 1.5e-9, 1e21] }),
        json!({ "nested": { "a": [{ "b": [[], {}, null, true, false, ""] }] } }),
        json!({ "null": null, "": "empty name", "a.b/c": "path", "$type": "x", "_id": 1 }),
        json!({ "long": "x".repeat(200_000) }),
        json!({ "lines": "---\n- yaml: yes\n+++\n" }),
        json!({ "csv": "a,b;c\t\"d\"\r\n" }),
    ];
    let mut all: Vec<_> = attributes
        .iter()
        .enumerate()
        .map(|(number, attributes)| rows.config_map(&format!("case-{number}"), attributes))
        .collect();
    all.push(rows.node("node-1.example.com"));
    all.push(rows.deployment("system:controller:x", 1));
    let all = Snapshot::new(all);
    exporter.everything(&all).await;
    exporter.changes(&Snapshot::default()).await;
    exporter.changes(&all).await;
}

/// Text may contain a zero character, which some databases cannot store. It must not stop the
/// other rows, and not its own row either.
pub(super) async fn a_zero_character_is_no_obstacle(subject: &dyn Subject) {
    let mut rows = Rows::new();
    let mut exporter = Exporter::new(subject).await;
    let odd = rows.config_map("odd", &json!({ "key": "a\u{0}b" }));
    let plain = rows.deployment("api", 1);
    let both = Snapshot::new([odd, plain.clone()]);
    let receipt = exporter.attempt(DeliveryRows::All(both)).await;
    receipt.expect("a delivery with a zero character");
    let found = subject.contents(&exporter.inventory, CLUSTER).await;
    assert_eq!(found.len(), 2, "rows found");
    exporter.everything(&Snapshot::new([plain])).await;
}
