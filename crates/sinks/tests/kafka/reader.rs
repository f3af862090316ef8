//! The independent reader: a client of other makers in another language, kept running because its
//! start takes longer than its work.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
};

use kollect_testkit::{Kafka, python};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) const CLIENT: &str = "confluent-kafka==2.16.1";
const SCRIPT: &str = include_str!("reader.py");

/// Readers that nobody uses at the moment, by the broker they read from.
static IDLE: Mutex<Vec<(String, Reader)>> = Mutex::new(Vec::new());

struct Reader {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reader {
    fn start(broker: &str) -> Self {
        let python = python::environment(&[CLIENT]).expect("the client");
        // The end of this process closes the script's input, which ends it.
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, broker])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a reader");
        let questions = child.stdin.take().expect("its input");
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        Self {
            child,
            questions,
            answers,
        }
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").expect("a reader that listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        let mut answer: Value = serde_json::from_str(&line).expect("an answer");
        assert!(answer.get("error").is_none(), "{question}: {answer}");
        answer["ok"].take()
    }
}

/// Asks a reader of this broker.
pub(crate) async fn ask_at(broker: &str, question: Value) -> Value {
    let broker = broker.to_owned();
    let work = move || {
        let idle = {
            let mut idle = IDLE.lock().unwrap();
            let at = idle.iter().position(|(known, _)| *known == broker);
            at.map(|at| idle.swap_remove(at).1)
        };
        let mut reader = idle.unwrap_or_else(|| Reader::start(&broker));
        let answer = reader.ask(&question);
        IDLE.lock().unwrap().push((broker, reader));
        answer
    };
    tokio::task::spawn_blocking(work).await.expect("an answer")
}

/// Asks a reader of the shared broker.
pub(crate) async fn ask(question: Value) -> Value {
    let broker = tokio::task::spawn_blocking(|| Kafka::shared().expect("a broker").plain());
    ask_at(&broker.await.expect("a broker"), question).await
}

/// A record as the reader found it.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: String,
    pub(crate) value: Option<Value>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Record {
    /// `upsert`, `delete` or `synced`; a tombstone is `tombstone`.
    pub(crate) fn event(&self) -> &str {
        match &self.value {
            None => "tombstone",
            Some(body) => body["event"].as_str().unwrap_or_default(),
        }
    }

    /// The last segment of the key.
    pub(crate) fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }
}

/// All records of a topic.
pub(crate) async fn records(topic: &str) -> Vec<Record> {
    let found = ask(json!({"do": "records", "topic": topic})).await;
    serde_json::from_value(found).expect("records")
}

/// The newest body of every key that has one.
pub(crate) async fn newest(topic: &str) -> Vec<Value> {
    match ask(json!({"do": "newest", "topic": topic})).await {
        Value::Array(bodies) => bodies,
        other => panic!("no list: {other}"),
    }
}

/// Where the partitions of a topic end; none if there is no such topic.
pub(crate) async fn ends(topic: &str) -> Option<Vec<i64>> {
    let ends = ask(json!({"do": "ends", "topic": topic})).await;
    serde_json::from_value(ends).expect("offsets")
}
