//! Azure Blob Storage: Azurite, which checks keys and signatures.
//!
//! One server per test process ([`Azure::shared`]), one [`Container`] per test. What a container
//! holds is read with a signature of our own, past whoever wrote it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::http::Client;
use crate::names::{secret, unique};
use crate::process::Program;
use crate::run_dir::RunDir;
use crate::service::Service;
use crate::{npm, ports};

/// The storage account.
pub const ACCOUNT: &str = "kollecttests";

/// An Azure Blob server that this process owns.
pub struct Azure {
    // Before the directory, so that the server is gone when its data is removed.
    server: Service,
    port: u16,
    key: Vec<u8>,
    _run: RunDir,
}

/// A container for one test.
#[derive(Clone)]
pub struct Container {
    /// Its name.
    pub name: String,
    client: Client,
    signature: String,
}

/// One blob as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Different after every write.
    pub mark: String,
    /// Bytes.
    pub size: u64,
}

impl Azure {
    /// The server of this test process.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: LazyLock<Result<Azure, String>> =
            LazyLock::new(|| Azure::start().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Starts a server of its own.
    pub fn start() -> Result<Self> {
        let (node, modules) = (npm::node()?, npm::modules("azurite")?);
        let run = RunDir::new("azure")?;
        let port = ports::free()?;
        let key = secret()?.into_bytes();
        let server = Program::new("azurite", node)
            .arg(modules.join("azurite/dist/src/blob/main.js"))
            .args_of(&["--blobHost", "127.0.0.1", "--blobPort"])
            .arg(port.to_string())
            .args_of(&["--inMemoryPersistence", "--disableTelemetry", "--silent"])
            .env(
                "AZURITE_ACCOUNTS",
                format!("{ACCOUNT}:{}", STANDARD.encode(&key)),
            );
        let client = Client::plain(port);
        let server = Service::start(server, run.path(), move || {
            client.request("GET", &format!("/{ACCOUNT}?comp=list"), None)?;
            Ok(())
        })?;
        Ok(Self {
            server,
            port,
            key,
            _run: run,
        })
    }

    /// Creates a container whose name starts with `prefix`.
    pub fn create_container(&self, prefix: &str) -> Result<Container> {
        let container = Container {
            name: unique(prefix),
            client: Client::plain(self.port),
            signature: self.signature("racwdl"),
        };
        let path = format!("/{ACCOUNT}/{}?restype=container", container.name);
        let path = format!("{path}&{}", container.signature);
        let made = container.client.request("PUT", &path, None)?;
        if !made.is_success() {
            let text = String::from_utf8_lossy(&made.body).into_owned();
            bail!(
                "container {} cannot be made: status {} {text}",
                container.name,
                made.status
            );
        }
        Ok(container)
    }

    /// The port, without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The key of the account.
    pub fn key(&self) -> String {
        STANDARD.encode(&self.key)
    }

    /// A shared access signature for the whole account with these permissions, such as `rl`.
    pub fn signature(&self, permissions: &str) -> String {
        let (version, end) = ("2020-08-04", "2099-01-01T00:00:00Z");
        let text = format!("{ACCOUNT}\n{permissions}\nb\nsco\n\n{end}\n\n\n{version}\n");
        let signature = encoded(&STANDARD.encode(hmac(&self.key, text.as_bytes())));
        let end = encoded(end);
        format!("sv={version}&ss=b&srt=sco&sp={permissions}&se={end}&sig={signature}")
    }

    /// The server process, to take away and bring back.
    pub fn server(&mut self) -> &mut Service {
        &mut self.server
    }
}

impl Container {
    /// All blobs by name.
    pub fn blobs(&self) -> Result<BTreeMap<String, Blob>> {
        self.list("")
    }

    /// Names of blobs of which there are blocks only.
    pub fn unfinished(&self) -> Result<Vec<String>> {
        let complete = self.list("")?;
        let all = self.list("&include=uncommittedblobs")?;
        Ok(all
            .into_keys()
            .filter(|name| !complete.contains_key(name))
            .collect())
    }

    fn list(&self, more: &str) -> Result<BTreeMap<String, Blob>> {
        let mut found = BTreeMap::new();
        let mut marker = String::new();
        loop {
            let path = format!(
                "/{ACCOUNT}/{}?restype=container&comp=list{more}&marker={marker}&{}",
                self.name, self.signature
            );
            let answer = self.client.request("GET", &path, None)?;
            if !answer.is_success() {
                bail!("{} cannot be listed: status {}", self.name, answer.status);
            }
            let text = String::from_utf8(answer.body).context("a list is text")?;
            for blob in text.split("<Blob>").skip(1) {
                let name = between(blob, "<Name>", "</Name>").context("a name")?;
                let tag = between(blob, "<Etag>", "</Etag>").unwrap_or_default();
                let size = between(blob, "<Content-Length>", "</Content-Length>");
                found.insert(
                    name.replace("&amp;", "&"),
                    Blob {
                        mark: tag.to_owned(),
                        size: size.and_then(|size| size.parse().ok()).unwrap_or_default(),
                    },
                );
            }
            marker =
                between(&text, "<NextMarker>", "</NextMarker>").map_or_else(String::new, encoded);
            if marker.is_empty() {
                return Ok(found);
            }
        }
    }

    /// The bytes of a blob; nothing if there is none.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let answer = self.client.request("GET", &self.path(name), None)?;
        match answer.status {
            404 => Ok(None),
            _ if answer.is_success() => Ok(Some(answer.body)),
            status => bail!("{name} cannot be read: status {status}"),
        }
    }

    /// Writes a blob of a person.
    pub fn write(&self, name: &str, content: &Value) -> Result<()> {
        let client = self.client.clone().header("x-ms-blob-type", "BlockBlob");
        let answer = client.request("PUT", &self.path(name), Some(content))?;
        if !answer.is_success() {
            bail!("{name} cannot be written: status {}", answer.status);
        }
        Ok(())
    }

    /// Removes everything in it.
    pub fn clear(&self) -> Result<()> {
        for name in self.blobs()?.into_keys() {
            self.client
                .request("DELETE", &self.path(&name), Some(&json!({})))?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        let name: Vec<String> = name.split('/').map(encoded).collect();
        format!(
            "/{ACCOUNT}/{}/{}?{}",
            self.name,
            name.join("/"),
            self.signature
        )
    }
}

fn between<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(open)?;
    Some(rest.split_once(close)?.0)
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

/// HMAC with SHA-256.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text);
    let outer = Sha256::new()
        .chain_update(padded(0x5c))
        .chain_update(inner.finalize());
    outer.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::hex;

    /// The second case of RFC 4231.
    #[test]
    fn codes_are_right() {
        assert_eq!(
            hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
