//! Google Cloud Storage: fake-gcs-server, which speaks the JSON API, and believes everybody.
//!
//! One server per test process ([`Gcs::shared`]), one [`Bucket`] per test. A [`Cloud`](crate::Cloud)
//! in front of it asks for tokens.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};

use crate::go::{GoModule, GoProgram};
use crate::http::Client;
use crate::names::unique;
use crate::ports;
use crate::process::Program;
use crate::run_dir::RunDir;
use crate::service::Service;

const SERVER: GoModule = GoModule {
    name: "gcs",
    flags: &["-trimpath", "-ldflags", "-s -w"],
    programs: &[GoProgram::new(
        "github.com/fsouza/fake-gcs-server",
        "fake-gcs-server",
    )],
    patience: "about 1 minute on two cores, once per machine",
};

/// A GCS server that this process owns.
pub struct Gcs {
    // Before the directory, so that the server is gone when its log is removed.
    server: Service,
    port: u16,
    _run: RunDir,
}

/// A bucket for one test.
#[derive(Clone)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    client: Client,
}

impl Gcs {
    /// The server of this test process.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: LazyLock<Result<Gcs, String>> =
            LazyLock::new(|| Gcs::start().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Starts a server of its own.
    pub fn start() -> Result<Self> {
        let program = SERVER.binaries()?.join("fake-gcs-server");
        let run = RunDir::new("gcs")?;
        let port = ports::free()?;
        let option = |name: &str, value: &dyn std::fmt::Display| format!("-{name}={value}");
        let server = Program::new("fake-gcs-server", program)
            .arg("-scheme=http")
            .arg("-host=127.0.0.1")
            .arg(option("port", &port))
            .arg("-backend=memory")
            .arg(option("public-host", &format!("127.0.0.1:{port}")));
        let client = Client::plain(port);
        let server = Service::start(server, run.path(), move || {
            client.get("/storage/v1/b?project=kollect").map(|_| ())
        })?;
        Ok(Self {
            server,
            port,
            _run: run,
        })
    }

    /// Creates a bucket whose name starts with `prefix`.
    pub fn create_bucket(&self, prefix: &str) -> Result<Bucket> {
        let bucket = Bucket {
            name: unique(prefix),
            client: Client::plain(self.port),
        };
        let wish = json!({ "name": bucket.name });
        bucket.client.post("/storage/v1/b?project=kollect", &wish)?;
        Ok(bucket)
    }

    /// The port, without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server process, to take away and bring back.
    pub fn server(&mut self) -> &mut Service {
        &mut self.server
    }
}

impl Bucket {
    /// The generations of all objects, by name.
    pub fn objects(&self) -> Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        let mut token = String::new();
        loop {
            let path = format!("/storage/v1/b/{}/o?pageToken={token}", self.name);
            let page = self.client.get(&path)?;
            for item in page["items"].as_array().into_iter().flatten() {
                let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
                found.insert(text("name"), text("generation"));
            }
            match page["nextPageToken"].as_str() {
                Some(next) if !next.is_empty() => next.clone_into(&mut token),
                _ => return Ok(found),
            }
        }
    }

    /// The bytes of an object; nothing if there is none.
    pub fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let path = format!("{}?alt=media", self.path(key));
        let answer = self.client.request("GET", &path, None)?;
        match answer.status {
            404 => Ok(None),
            _ if answer.is_success() => Ok(Some(answer.body)),
            status => bail!("{key} cannot be read: status {status}"),
        }
    }

    /// Writes an object of a person.
    pub fn write(&self, key: &str, content: &Value) -> Result<()> {
        let path = format!(
            "/upload/storage/v1/b/{}/o?uploadType=media&name={}",
            self.name,
            encoded(key)
        );
        self.client.post(&path, content).map(|_| ())
    }

    /// Removes everything in it.
    pub fn clear(&self) -> Result<()> {
        for key in self.objects()?.into_keys() {
            self.client.request("DELETE", &self.path(&key), None)?;
        }
        Ok(())
    }

    fn path(&self, key: &str) -> String {
        format!("/storage/v1/b/{}/o/{}", self.name, encoded(key))
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
