//! The vectors: deliveries in, rows out. They are the ones of PostgreSQL: a consumer can move from
//! one to the other.

use std::collections::BTreeMap;

use kollect_api::InventoryId;
use kollect_inventory::{HeldRows, Snapshot};
use kollect_sinks::{Sink, SinkError, Why};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    items::{Items, deployment, deployments},
    stage::{Stage, T1, T2, T3, changes, everything, inventory},
};

#[derive(Deserialize)]
struct File {
    items: BTreeMap<String, Value>,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    id: String,
    /// Settings of PostgreSQL: such a vector is not for us.
    spec: Option<Value>,
    steps: Vec<Step>,
    table: Vec<String>,
}

#[derive(Deserialize)]
struct Step {
    deliver: Option<Vec<String>>,
    #[serde(default)]
    retire: bool,
    cluster: Option<String>,
    inventory: Option<String>,
    at: Option<String>,
}

const TIMES: [(&str, &str); 3] = [("t1", T1), ("t2", T2), ("t3", T3)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors() {
    let file = include_str!("../postgres/vectors.yaml");
    let file: File = serde_saphyr::from_str(file).expect("vectors");
    let mut run = 0;
    for vector in file.vectors.iter().filter(|vector| vector.spec.is_none()) {
        run += 1;
        let stage = Stage::new().await;
        let mut items = Items::default();
        let mut sinks: BTreeMap<String, _> = BTreeMap::new();
        for step in &vector.steps {
            let cluster = step.cluster.as_deref().unwrap_or("prod-west");
            let sink = sinks
                .entry(cluster.to_owned())
                .or_insert_with(|| stage.sink(json!({"cluster": cluster})));
            let inventory = step.inventory.as_deref().unwrap_or("team-a/team-inventory");
            let inventory = match inventory.split_once('/') {
                Some((namespace, name)) => InventoryId::namespaced(namespace, name),
                None => InventoryId::cluster(inventory),
            };
            if step.retire {
                sink.retire(&inventory).await.expect("retired");
            }
            if let Some(names) = &step.deliver {
                let rows = items.snapshot(names.iter().map(|name| &file.items[name]));
                let at = step.at.as_deref().unwrap_or("t1");
                let at = TIMES.iter().find(|(name, _)| *name == at).expect("a time");
                let done = everything(sink, &inventory, at.1, &rows).await;
                done.unwrap_or_else(|error| panic!("{}: {error}", vector.id));
            }
        }
        // D7: a blank namespace is none here.
        let mut expected: Vec<String> = vector
            .table
            .iter()
            .map(|line| line.replace("| |", "|team-a|"))
            .collect();
        expected.sort();
        assert_eq!(table(&stage, &file).await, expected, "{}", vector.id);
    }
    assert!(run >= 15, "only {run} vectors were for us");
}

/// The table with payloads and times by their names.
async fn table(stage: &Stage, file: &File) -> Vec<String> {
    let mut lines: Vec<String> = stage
        .rows()
        .await
        .iter()
        .map(|row| {
            let item = file.items.iter().find(|(_, item)| **item == row.item);
            let item = item.map_or_else(|| row.item.to_string(), |(name, _)| name.clone());
            let time = TIMES.iter().find(|(_, text)| *text == row.at);
            let time = time.map_or(row.at.as_str(), |(name, _)| name);
            let columns = [
                row.inventory.0.as_str(),
                &row.inventory.1,
                &row.target,
                &row.uid,
                &row.cluster,
                &row.namespace,
            ];
            format!("{}|{item}|{time}", columns.join("|"))
        })
        .collect();
    lines.sort();
    lines
}

/// D37: nothing at all is one statement, in the location of the spec.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d37_no_rows_are_one_statement_in_the_location() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({"bigquery": {"location": "EU"}}));
    everything(&sink, &inventory(), T1, &Snapshot::default())
        .await
        .expect("nothing");
    let jobs: Vec<_> = stage
        .gate
        .seen()
        .into_iter()
        .filter(|seen| seen.body["jobReference"]["jobId"].is_string())
        .collect();
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    assert!(
        jobs[0]
            .change()
            .expect("a change")
            .starts_with("DELETE FROM")
    );
    assert_eq!(jobs[0].body["jobReference"]["location"], "EU");
}

/// D38 and D39: a delivery that changes something is one MERGE; an emulator gets DELETE and INSERT.
/// Nothing is written for a delivery that changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d39_an_emulator_deletes_and_inserts_what_differs() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let rows = deployments(3, 1);
    everything(&sink, &inventory(), T1, &rows)
        .await
        .expect("rows");
    let statements = stage.gate.changes();
    assert_eq!(statements.len(), 2, "{statements:?}");
    assert!(statements[0].starts_with("DELETE") && statements[1].starts_with("INSERT"));
    stage.gate.forget();
    everything(&sink, &inventory(), T2, &rows)
        .await
        .expect("rows");
    assert_eq!(stage.gate.changes(), Vec::<String>::new());
    assert!(stage.rows().await.iter().all(|row| row.at == T1), "M1");
}

/// D38, as far as an emulator can tell: what the service is given is one MERGE with everything in
/// parameters, and Google's own reader of statements understands it. The emulator says so by failing
/// only at what it cannot do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d38_the_service_is_given_one_merge_that_its_reader_understands() {
    let stage = Stage::new().await;
    let spec = super::stage::spec(&stage.dataset, json!({}));
    let file = super::stage::key_file(super::gate::KEY, stage.port);
    let service = stage.service().with_merge();
    let sink = Stage::sink_of(&spec, &[("credentials.json", &file)], service);
    let sink = sink.expect("a sink");
    let delivered = everything(&sink, &inventory(), T1, &deployments(3, 1)).await;
    let error = delivered.expect_err("an emulator merges tables only");
    assert!(
        error.message().starts_with("bigquery merge upsert: "),
        "{error}"
    );
    let merges = stage.gate.changes();
    assert_eq!(merges.len(), 1, "{merges:?}");
    assert!(merges[0].starts_with("MERGE"), "{merges:?}");
    assert!(!merges[0].contains("uid-000001"), "values are parameters");
    // Once more past the sink, to read why. The emulator knows no parameters of records, so the
    // type of the rows is written out.
    let seen = stage.gate.seen();
    let job = seen.iter().find(|seen| seen.change().is_some());
    let mut body = job.expect("the job").body.clone();
    let query = &mut body["configuration"]["query"];
    let kind = &query["queryParameters"][3]["parameterType"]["arrayType"];
    let fields: Vec<String> = kind["structTypes"]
        .as_array()
        .expect("fields")
        .iter()
        .map(|field| {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            format!("{} {}", text(&field["name"]), text(&field["type"]["type"]))
        })
        .collect();
    let typed = format!("UNNEST(ARRAY<STRUCT<{}>>[])", fields.join(", "));
    query["query"] = json!(merges[0].replace("UNNEST(@rows)", &typed));
    query["queryParameters"]
        .as_array_mut()
        .expect("parameters")
        .remove(3);
    body["jobReference"]["jobId"] = json!(format!("again-{}", stage.dataset.name));
    let said = stage.post("jobs", body).await;
    let said = said["status"]["errorResult"]["message"].as_str();
    let said = said.unwrap_or_default();
    assert!(
        said.contains("MERGE: source must be a single-table reference"),
        "the statement is not understood: {said}"
    );
}

/// D45: values are carried as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d45_texts_are_stored_unchanged() {
    let stage = Stage::new().await;
    let cluster = "a\\' OR 1=1 -- \"";
    let sink = stage.sink(json!({"cluster": cluster}));
    let texts = [
        "it's",
        "a \"quoted\" word",
        "two\nlines",
        "back\\slash",
        "`; DROP TABLE items",
    ];
    let items: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| deployment(&format!("uid-{number}"), &json!({"text": text})))
        .collect();
    let rows = Items::default().snapshot(&items);
    everything(&sink, &inventory(), T1, &rows)
        .await
        .expect("rows");
    let found = stage.rows().await;
    let stored: Vec<&str> = found
        .iter()
        .map(|row| row.item["attributes"]["text"].as_str().expect("a text"))
        .collect();
    assert_eq!(stored, texts);
    assert!(found.iter().all(|row| row.cluster == cluster));
}

/// What is not known stays as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_targets_of_which_nothing_is_known_stay() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let rows = deployments(3, 1);
    everything(&sink, &inventory(), T1, &rows)
        .await
        .expect("rows");
    let nothing = Snapshot::default().holding(vec![HeldRows::of_target("deployments")]);
    everything(&sink, &inventory(), T2, &nothing)
        .await
        .expect("held");
    assert_eq!(stage.rows().await.len(), 3);
    let elsewhere = Snapshot::default().holding(vec![HeldRows::of_target("pods")]);
    everything(&sink, &inventory(), T3, &elsewhere)
        .await
        .expect("held");
    assert_eq!(stage.rows().await.len(), 0);
}

/// Two rows of one key, which nothing in a table forbids, become one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_there_twice_becomes_one() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let rows = deployments(3, 1);
    everything(&sink, &inventory(), T1, &rows)
        .await
        .expect("rows");
    let table = stage.dataset.quoted(super::stage::TABLE);
    stage
        .query(&format!(
            "INSERT INTO {table} SELECT * FROM {table} WHERE source_uid = 'uid-000001'"
        ))
        .await;
    assert_eq!(stage.rows().await.len(), 4);
    everything(&sink, &inventory(), T2, &rows)
        .await
        .expect("rows");
    let found = stage.rows().await;
    let uids: Vec<&str> = found.iter().map(|row| row.uid.as_str()).collect();
    assert_eq!(uids, ["uid-000000", "uid-000001", "uid-000002"]);
}

/// A row that no request carries is told, and does not stay with what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_too_large_is_left_out_and_told() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let item = |text: String| deployment("uid-1", &json!({"text": text}));
    let mut items = Items::default();
    let small = items.snapshot(&[item("small".to_owned()), deployment("uid-2", &json!({}))]);
    let large = items.snapshot(&[item("x".repeat(9_500_000)), deployment("uid-2", &json!({}))]);
    everything(&sink, &inventory(), T1, &small)
        .await
        .expect("rows");
    let receipt = changes(&sink, &inventory(), T2, &small, &large).await;
    let skipped = receipt
        .expect("changes")
        .skipped
        .expect("a row is left out");
    assert_eq!(
        (skipped.rows, skipped.first.as_str()),
        (1, "Deployment/team-a/uid-1")
    );
    assert!(matches!(skipped.why, Why::TooLarge { .. }));
    assert_eq!(stage.rows().await.len(), 1);
    let receipt = everything(&sink, &inventory(), T2, &large)
        .await
        .expect("rows");
    assert_eq!(receipt.skipped.map(|skipped| skipped.rows), Some(1));
    let receipt = changes(&sink, &inventory(), T3, &large, &small).await;
    assert_eq!(receipt.expect("changes").skipped, None);
    assert_eq!(stage.rows().await.len(), 2);
}

/// D44: a table that was dropped is noticed. In `ensure` mode the next full delivery makes it anew,
/// in `existing` mode somebody has to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d44_a_dropped_table_is_noticed() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let (one, two) = (deployments(1, 1), deployments(2, 1));
    everything(&sink, &inventory(), T1, &one)
        .await
        .expect("rows");
    let existing = stage.sink(json!({"provisioning": {"mode": "existing"}}));
    everything(&existing, &inventory(), T1, &one)
        .await
        .expect("rows");
    stage.drop_table().await;
    let refused = changes(&sink, &inventory(), T2, &one, &two).await;
    assert!(
        matches!(&refused, Err(SinkError::OutOfStep(text)) if text.starts_with("bigquery ")),
        "{refused:?}"
    );
    let refused = everything(&existing, &inventory(), T2, &two).await;
    assert!(
        matches!(&refused, Err(SinkError::Terminal(text)) if text.starts_with("bigquery verify table: ")
            && text.contains("does not exist (provisioning.mode=existing)")),
        "{refused:?}"
    );
    everything(&sink, &inventory(), T3, &two)
        .await
        .expect("rows");
    assert_eq!(stage.rows().await.len(), 2);
}
