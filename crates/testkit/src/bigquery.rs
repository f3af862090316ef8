//! An emulator of BigQuery: the REST interface of version 2, with Google's own reader of statements.
//!
//! A server for a few tests ([`Bigquery::dataset`]), one [`Dataset`] per test: the emulator forgets nothing,
//! and its reader of statements ends for good when it has filled two gigabytes. It knows nobody and
//! takes every token; its MERGE takes nothing but tables; and it answers a job whose name is taken
//! with its own word instead of `duplicate`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::go::BIGQUERY;
use crate::http::Client;
use crate::names::unique;
use crate::ports;
use crate::process::Program;
use crate::run_dir::RunDir;
use crate::service::Service;

/// What projects are called, with a number behind. The emulator reads everything that a project
/// ever did at every request, so every dataset has a project of its own.
const PROJECT: &str = "kollect-tests-";
/// How many there are.
const PROJECTS: usize = 10;

/// An emulator that this process owns.
pub struct Bigquery {
    // Before the directory, so that the server is gone when its data is removed.
    _server: Service,
    port: u16,
    client: Client,
    /// Projects that are taken.
    taken: AtomicUsize,
    _run: RunDir,
}

/// A dataset for one test, and a reader who shares no code with a sink.
#[derive(Clone)]
pub struct Dataset {
    /// Its project, which has no other dataset.
    pub project: String,
    /// Its name.
    pub name: String,
    client: Client,
    /// It lives for as long as somebody needs it.
    pub server: Arc<Bigquery>,
}

impl Bigquery {
    /// A dataset on a server that has room for one, or on a new server.
    pub fn dataset(prefix: &str) -> Result<Dataset> {
        static CURRENT: Mutex<Option<Arc<Bigquery>>> = Mutex::new(None);
        let server = {
            let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
            let room = |server: &&Arc<Bigquery>| server.taken.load(Ordering::Relaxed) < PROJECTS;
            match current.as_ref().filter(room) {
                Some(server) => Arc::clone(server),
                None => Arc::clone(current.insert(Arc::new(Self::start()?))),
            }
        };
        server.create_dataset(prefix)
    }

    /// Starts a server of its own.
    pub fn start() -> Result<Self> {
        let program = BIGQUERY.binaries()?.join("bigquery-emulator");
        let run = RunDir::new("bigquery")?;
        let port = ports::free()?;
        let projects: Vec<Value> = (0..PROJECTS)
            .map(|number| json!({"id": format!("{PROJECT}{number}"), "datasets": []}))
            .collect();
        // What is JSON is YAML too.
        let projects = run.write_private("data.yaml", json!({"projects": projects}).to_string())?;
        let server = Program::new("bigquery-emulator", program)
            .arg(format!("--project={PROJECT}0"))
            .arg(format!("--data-from-yaml={}", projects.display()))
            .arg("--host=127.0.0.1")
            .arg(format!("--port={port}"))
            .arg(format!("--grpc-port={}", ports::free()?))
            .arg("--log-level=error");
        let client = Client::plain(port);
        let asked = client.clone();
        let server = Service::start(server, run.path(), move || {
            let last = PROJECTS - 1;
            asked.get(&format!("/bigquery/v2/projects/{PROJECT}{last}/datasets"))?;
            Ok(())
        })?;
        Ok(Self {
            _server: server,
            port,
            client,
            taken: AtomicUsize::new(0),
            _run: run,
        })
    }

    /// The port of the REST interface, without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates a dataset whose name starts with `prefix`.
    fn create_dataset(self: &Arc<Self>, prefix: &str) -> Result<Dataset> {
        let name = unique(prefix).replace('-', "_");
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        ensure!(number < PROJECTS, "all projects are taken");
        let project = format!("{PROJECT}{number}");
        let path = format!("/bigquery/v2/projects/{project}/datasets");
        let reference = json!({"projectId": project, "datasetId": name});
        self.client
            .post(&path, &json!({"datasetReference": reference}))?;
        Ok(Dataset {
            project,
            name,
            client: self.client.clone(),
            server: Arc::clone(self),
        })
    }
}

impl Dataset {
    /// Runs a statement and returns the rows of its result, every cell as text or null.
    pub fn query(&self, text: &str) -> Result<Vec<Vec<Option<String>>>> {
        let path = format!("/bigquery/v2/projects/{}/queries", self.project);
        let answer = self
            .client
            .post(&path, &json!({"query": text, "useLegacySql": false}))?;
        let rows = answer["rows"].as_array().cloned().unwrap_or_default();
        let cell = |cell: &Value| cell["v"].as_str().map(str::to_owned);
        let row = |row: &Value| {
            let cells = row["f"].as_array().cloned().unwrap_or_default();
            cells.iter().map(cell).collect()
        };
        Ok(rows.iter().map(row).collect())
    }

    /// A table as the server describes it; nothing if there is none.
    pub fn table(&self, table: &str) -> Result<Option<Value>> {
        let answer = self.client.request("GET", &self.path(table), None)?;
        match answer.status {
            404 => Ok(None),
            _ => answer.json().map(Some),
        }
    }

    /// Creates a table as somebody else would.
    pub fn create_table(&self, table: &str, description: &Value) -> Result<()> {
        let mut description = description.clone();
        description["tableReference"] =
            json!({"projectId": self.project, "datasetId": self.name, "tableId": table});
        let path = format!(
            "/bigquery/v2/projects/{}/datasets/{}/tables",
            self.project, self.name
        );
        self.client.post(&path, &description).map(drop)
    }

    /// Removes a table behind everybody's back.
    pub fn drop_table(&self, table: &str) -> Result<()> {
        let answer = self.client.request("DELETE", &self.path(table), None)?;
        ensure!(answer.is_success(), "it cannot be dropped: {answer:?}");
        Ok(())
    }

    /// A table as statements name it.
    pub fn quoted(&self, table: &str) -> String {
        format!("`{}.{}.{table}`", self.project, self.name)
    }

    fn path(&self, table: &str) -> String {
        format!(
            "/bigquery/v2/projects/{}/datasets/{}/tables/{table}",
            self.project, self.name
        )
    }
}

/// The public description of BigQuery v2 (a discovery document), as Google's Go client carries it.
pub fn discovery() -> Result<Value> {
    let module = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/bigquery");
    let found = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "google.golang.org/api"])
        .current_dir(module)
        .output()
        .context("cannot run go")?;
    let directory = String::from_utf8(found.stdout)?;
    let path = PathBuf::from(directory.trim()).join("bigquery/v2/bigquery-api.json");
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}
