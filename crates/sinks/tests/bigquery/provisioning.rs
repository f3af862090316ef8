//! What is created, what is checked, and what is left alone.

use kollect_sinks::SinkError;
use serde_json::{Value, json};

use super::{
    gate::Trouble,
    items::deployments,
    stage::{Stage, T1, T2, TABLE, everything, inventory},
};

fn column(name: &str, kind: &str) -> Value {
    json!({"name": name, "type": kind, "mode": "REQUIRED"})
}

/// The eight columns of the original.
pub(crate) fn original() -> Vec<Value> {
    let texts = [
        "inventory_namespace",
        "inventory_name",
        "target_name",
        "source_uid",
        "cluster",
        "resource_namespace",
    ];
    let mut columns: Vec<Value> = texts.iter().map(|name| column(name, "STRING")).collect();
    columns.push(column("payload", "JSON"));
    columns.push(column("exported_at", "TIMESTAMP"));
    columns
}

/// The table has the columns of the contract in their order, days as partitions, and rows of one
/// inventory close together; the ninth column is the last and may be null.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_made_as_the_contract_says() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    everything(&sink, &inventory(), T1, &deployments(1, 1))
        .await
        .expect("rows");
    let seen = stage.gate.seen();
    let made = seen
        .iter()
        .find(|seen| seen.path.ends_with("/tables"))
        .expect("a table");
    let mut fields = original();
    fields.push(json!({"name": "content_hash", "type": "INTEGER", "mode": "NULLABLE"}));
    assert_eq!(made.body["schema"]["fields"], json!(fields));
    assert_eq!(
        made.body["timePartitioning"],
        json!({"type": "DAY", "field": "exported_at"})
    );
    assert_eq!(
        made.body["clustering"]["fields"],
        json!([
            "cluster",
            "inventory_namespace",
            "inventory_name",
            "resource_namespace"
        ])
    );
    // Once is enough.
    stage.gate.forget();
    everything(&sink, &inventory(), T2, &deployments(2, 1))
        .await
        .expect("rows");
    assert!(
        !stage
            .gate
            .seen()
            .iter()
            .any(|seen| seen.path.ends_with("/tables"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_a_choice() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({"options": {"partitioning": "none"}}));
    everything(&sink, &inventory(), T1, &deployments(1, 1))
        .await
        .expect("rows");
    let seen = stage.gate.seen();
    let made = seen
        .iter()
        .find(|seen| seen.path.ends_with("/tables"))
        .expect("a table");
    assert_eq!(made.body.get("timePartitioning"), None);
}

/// D43: whoever was faster made the table; any other conflict is a failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d43_a_table_that_somebody_else_made_is_as_good() {
    let stage = Stage::new().await;
    // Two who find nothing and create at the same time.
    let sinks = [
        stage.sink(json!({})),
        stage.sink(json!({"cluster": "east"})),
    ];
    let (inventory, rows) = (inventory(), deployments(2, 1));
    let (one, two) = tokio::join!(
        everything(&sinks[0], &inventory, T1, &rows),
        everything(&sinks[1], &inventory, T1, &rows)
    );
    one.expect("rows");
    two.expect("rows");
    assert_eq!(stage.rows().await.len(), 4);

    for (reason, accepted) in [("duplicate", true), ("conflict", false)] {
        let stage = Stage::new().await;
        let sink = stage.sink(json!({}));
        let dataset = stage.dataset.clone();
        let mut once = true;
        stage.gate.rule(move |seen| {
            let creates = seen.path.ends_with("/tables") && std::mem::take(&mut once);
            if creates {
                let table = seen.body.clone();
                dataset.create_table(TABLE, &table).expect("a table");
            }
            creates.then(|| Trouble::refusal(409, reason))
        });
        let delivered = everything(&sink, &inventory, T1, &rows).await;
        assert_eq!(delivered.is_ok(), accepted, "{reason}: {delivered:?}");
    }
}

/// A dataset is never created.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_dataset_is_told() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({"bigquery": {"dataset": "nobody_has_it"}}));
    let error = everything(&sink, &inventory(), T1, &deployments(1, 1)).await;
    let error = error.expect_err("no dataset");
    assert!(
        matches!(&error, SinkError::Terminal(text)
            if text.contains(".nobody_has_it is not there")),
        "{error:?}"
    );
}

/// A table of the original is used, and gets the column that saves work; in `existing` mode it stays
/// as it is, and nothing is rewritten that is the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_the_original_is_used() {
    for mode in ["ensure", "existing"] {
        let stage = Stage::new().await;
        let description = json!({"schema": {"fields": original()}});
        stage
            .dataset
            .create_table(TABLE, &description)
            .expect("a table");
        let patched = mode == "existing";
        // The emulator describes a changed table, and has none: the request is what counts.
        stage
            .gate
            .rule(|seen| (seen.method == "PATCH").then(|| Trouble::refusal(403, "accessDenied")));
        let sink = stage.sink(json!({"provisioning": {"mode": mode}}));
        let receipt = everything(&sink, &inventory(), T1, &deployments(2, 1)).await;
        let note = receipt.expect("rows").note.expect("a warning");
        assert!(note.contains("has no column content_hash"), "{note}");
        let seen = stage.gate.seen();
        let patch = seen.iter().find(|seen| seen.method == "PATCH");
        assert_eq!(patch.is_none(), patched);
        if let Some(patch) = patch {
            let fields = patch.body["schema"]["fields"].as_array().expect("fields");
            assert_eq!(fields.len(), 9);
            assert_eq!(fields[8]["name"], "content_hash");
        }
        let table = stage.dataset.quoted(TABLE);
        let count = stage.query(&format!("SELECT COUNT(*) FROM {table}")).await;
        assert_eq!(count, [[Some("2".to_owned())]]);
    }
}

/// Something else of the same name is not touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_with_other_columns_is_refused() {
    let stage = Stage::new().await;
    let mut fields = original();
    fields[6] = column("payload", "STRING");
    let description = json!({"schema": {"fields": fields}});
    stage
        .dataset
        .create_table(TABLE, &description)
        .expect("a table");
    for mode in ["ensure", "existing"] {
        let sink = stage.sink(json!({"provisioning": {"mode": mode}}));
        let error = everything(&sink, &inventory(), T1, &deployments(2, 1)).await;
        let error = error.expect_err("another table");
        assert!(
            matches!(&error, SinkError::Terminal(text) if text.contains("payload JSON")),
            "{error:?}"
        );
    }
    assert_eq!(stage.gate.changes(), Vec::<String>::new());
}
