//! Inventories on a Kafka topic: the newest record of every key is what the cluster holds, and nothing
//! is published that says nothing new. The reader is the consumer of the documentation.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{Kafka, python};
use serde_json::json;

use crate::stage::Stage;

const TOPIC: &str = "inventory.changes";

/// How many records a topic has had.
const COUNT: &str = r#"
import sys
from confluent_kafka import Consumer, TopicPartition
broker, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": broker, "group.id": "count"})
partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
print(sum(consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1] for n in partitions))
"#;

struct Topic {
    python: PathBuf,
    broker: String,
}

impl Topic {
    fn run(&self, program: &str) -> Result<String> {
        let output = Command::new(&self.python)
            .args(["-c", program, &self.broker, TOPIC])
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{stderr}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Names and numbers of the ConfigMaps, as the documented consumer finds them.
    fn table(&self) -> Result<BTreeMap<String, String>> {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sinks/kafka.md");
        let page = std::fs::read_to_string(page)?;
        let (_, rest) = page.split_once("```python\n").context("an example")?;
        let (program, _) = rest.split_once("```").context("its end")?;
        let text = self.run(program)?;
        text.lines()
            .map(|line| {
                let mut words = line.splitn(4, ' ').skip(2);
                let name = words.next().context("a name")?.to_owned();
                let attributes: serde_json::Value =
                    serde_json::from_str(words.next().context("attributes")?)?;
                Ok((name, attributes["number"].to_string()))
            })
            .collect()
    }

    fn count(&self) -> Result<u64> {
        Ok(self.run(COUNT)?.trim().parse()?)
    }

    fn expect_in_step(&self, stage: &Stage) -> Result<()> {
        let expected = stage.listed()?;
        stage.eventually("the topic in step", || {
            let table = self.table()?;
            ensure!(table == expected, "{table:?} instead of {expected:?}");
            Ok(())
        })
    }
}

fn remove(stage: &Stage, name: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/configmaps/{name}", stage.namespace);
    ensure!(stage.api()?.request("DELETE", &path, None)?.is_success());
    Ok(())
}

#[test]
fn the_newest_record_of_every_key_is_the_cluster() -> Result<()> {
    let kafka = Kafka::start()?;
    let topic = Topic {
        python: python::environment(&["confluent-kafka==2.16.1"])?,
        broker: kafka.plain(),
    };
    let mut stage = Stage::new()?;
    let sink = json!({
        "type": "kafka", "cluster": "east", "serialization": {"compression": "zstd"},
        "kafka": {"brokers": [kafka.plain()], "topic": TOPIC},
    });
    stage.apply("KollectEventSink", "bus", &sink)?;
    let inventory = json!({"eventSinkRefs": [{"name": "bus"}]});
    stage.apply("KollectInventory", "inv", &inventory)?;
    for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
        stage.put(name, number)?;
    }
    stage.start()?;
    topic.expect_in_step(&stage)?;
    stage.expect_conditions(&[
        "Ready=True/Exported",
        "SinkReachable=True/ExportSucceeded",
        "Synced=True/UpToDate",
    ])?;
    let first = topic.count()?;
    assert_eq!(first, stage.listed()?.len() as u64, "one record per row");

    // A restart says nothing, and what happened meanwhile is told once.
    stage.kill()?;
    stage.start()?;
    stage.put("d", 4)?;
    topic.expect_in_step(&stage)?;
    assert_eq!(topic.count()?, first + 1, "only what is new");
    stage.kill()?;
    stage.put("a", 10)?;
    stage.put("e", 5)?;
    remove(&stage, "b")?;
    stage.start()?;
    topic.expect_in_step(&stage)?;
    assert_eq!(
        topic.count()?,
        first + 1 + 4,
        "two rows, a delete, a tombstone"
    );

    // Killed at any moment under churn.
    for round in 0..6_u64 {
        for number in 0..8 {
            stage.put(&format!("churn-{number}"), 100 * round + number)?;
            if number == round {
                stage.kill()?;
                stage.start()?;
            }
        }
        remove(&stage, &format!("churn-{round}"))?;
        thread::sleep(Duration::from_millis(100 * round));
        if round % 3 == 2 {
            topic.expect_in_step(&stage)?;
        }
    }

    // An inventory that is no more leaves nothing.
    stage.delete("kollectinventories", "inv")?;
    stage.expect_gone("kollectinventories", "inv")?;
    let left = topic.table()?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}
