//! Several writers, one repository.

use std::{collections::BTreeMap, sync::Arc};

use kollect_api::InventoryId;
use kollect_inventory::Row;
use kollect_sinks::{Sink, SinkError};
use serde_json::json;

use crate::stage::{Stage, changes, everything, row_in};

/// One operator with one inventory: its own mirrors, its own namespace.
struct Writer {
    sink: Arc<dyn Sink>,
    inventory: InventoryId,
    namespace: String,
    rows: Vec<Row>,
}

impl Writer {
    fn new(stage: &Stage, number: usize) -> Self {
        let mut sketch = stage.sketch(json!({ "layout": { "mode": "perResource" } }));
        // A directory each, like processes on different machines.
        sketch.work = format!("mirrors-{number}");
        sketch.name = format!("git-{number}");
        Self {
            sink: stage.build(&sketch).unwrap(),
            inventory: InventoryId::namespaced("team-a", format!("web-{number}")),
            namespace: format!("ns-{number}"),
            rows: Vec::new(),
        }
    }

    fn row(&self, name: usize, value: usize) -> Row {
        let name = format!("app-{name:03}");
        row_in(
            &self.namespace,
            "Deployment",
            &name,
            &json!({ "value": value }),
        )
    }

    async fn begin(&mut self) {
        self.rows = (0..5).map(|name| self.row(name, 0)).collect();
        let delivery = everything(&self.inventory, &self.rows);
        self.deliver(&delivery).await;
    }

    /// Updates, adds and removes rows in turn.
    async fn step(&mut self, step: usize) {
        let before = self.rows.clone();
        match step % 5 {
            0 => self.rows.push(self.row(100 + step, step)),
            1 if self.rows.len() > 6 => {
                self.rows.remove(5);
            }
            _ => {
                let at = step % 5;
                self.rows[at] = self.row(at, step);
            }
        }
        let delivery = changes(&self.inventory, &before, &self.rows);
        if let Err(error) = self.sink.deliver(&delivery).await {
            // As the export engine does: what did not arrive comes again, with everything else.
            assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
            let delivery = everything(&self.inventory, &self.rows);
            self.deliver(&delivery).await;
        }
    }

    async fn deliver(&self, delivery: &kollect_sinks::Delivery) {
        for _ in 0..5 {
            match self.sink.deliver(delivery).await {
                Ok(_) => return,
                Err(error) => assert!(matches!(error, SinkError::Transient(_)), "{error:?}"),
            }
        }
        panic!("five deliveries failed");
    }

    /// What a reader has to find.
    fn expected(&self) -> BTreeMap<String, u64> {
        self.rows
            .iter()
            .map(|row| {
                let path = format!(
                    "prod-west/{}/deployment/{}.yaml",
                    self.namespace,
                    row.name()
                );
                let value = row.attributes().get("value").unwrap();
                (path, value.as_str().parse().unwrap())
            })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_writers_with_125_changes_each() {
    let stage = Stage::start();
    let mut writers: Vec<Writer> = (0..4).map(|number| Writer::new(&stage, number)).collect();
    for writer in &mut writers {
        writer.begin().await;
    }
    let running = writers.into_iter().map(|mut writer| {
        tokio::spawn(async move {
            for step in 0..125 {
                writer.step(step).await;
            }
            writer
        })
    });
    let running: Vec<_> = running.collect();
    let mut expected = BTreeMap::new();
    for writer in running {
        expected.extend(writer.await.unwrap().expected());
    }
    let found: BTreeMap<String, u64> = stage
        .visible()
        .into_iter()
        .map(|(path, content)| {
            let value = content
                .lines()
                .find_map(|line| line.trim().strip_prefix("value: "))
                .unwrap()
                .parse()
                .unwrap();
            (path, value)
        })
        .collect();
    assert_eq!(found, expected);
    stage.assert_linear();
    assert_nobody_touched_others(&stage);
    // Every change is a commit of its own: nothing was lost and nothing was done twice.
    assert_eq!(stage.commits(), 4 + 4 * 125);
}

/// Every commit touches files of one writer only.
fn assert_nobody_touched_others(stage: &Stage) {
    let log = stage
        .repository
        .git(&["log", "--name-only", "--format=%x00%s", "main"])
        .unwrap();
    for commit in log.split('\0').filter(|commit| !commit.is_empty()) {
        let (subject, paths) = commit.split_once('\n').unwrap();
        let number = subject
            .split("web-")
            .nth(1)
            .unwrap()
            .chars()
            .next()
            .unwrap();
        for path in paths.lines().filter(|path| !path.is_empty()) {
            let own = path.contains(&format!("/ns-{number}/"))
                || path.starts_with(".kollect/") && path.contains(&format!("web-{number}"));
            assert!(own, "{subject} touched {path}");
        }
    }
}

/// Several inventories of one process take turns at one mirror, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn inventories_of_one_sink_take_turns() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    let deliveries = (0..12).map(|number| {
        let sink = Arc::clone(&sink);
        tokio::spawn(async move {
            let inventory = InventoryId::namespaced("team-a", format!("web-{number}"));
            let namespace = format!("ns-{number}");
            let row = row_in(&namespace, "Deployment", "api", &json!({ "value": number }));
            sink.deliver(&everything(&inventory, &[row])).await.unwrap();
        })
    });
    let deliveries: Vec<_> = deliveries.collect();
    for delivery in deliveries {
        delivery.await.unwrap();
    }
    assert_eq!(stage.paths().len(), 12);
    assert_eq!(stage.commits(), 12);
    stage.assert_linear();
}
