//! What was asked of an API server, by its own audit log.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::run_dir::RunDir;

/// Who asked for what and how it ended is enough; bodies are not written.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
";

/// The audit log of a [`ControlPlane`](crate::ControlPlane) that was started with one.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
}

/// One request, as far as tests care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who asked.
    pub user: String,
    /// `get`, `list`, `watch`, `patch`, …
    pub verb: String,
    /// The path with its query.
    pub uri: String,
    /// The status of the answer.
    pub code: u16,
}

/// A moment in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position(u64);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: Who,
    response_status: Option<Status>,
}

#[derive(Deserialize)]
struct Who {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

impl AuditLog {
    /// Writes the policy. The log begins with the API server.
    pub(crate) fn prepare(run: &RunDir) -> Result<(Self, PathBuf)> {
        let policy = run.write_private("audit-policy.yaml", POLICY)?;
        let path = run.join("audit.log");
        Ok((Self { path }, policy))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The end of the log as it is now.
    pub fn now(&self) -> Result<Position> {
        let size = std::fs::metadata(&self.path).map_or(0, |meta| meta.len());
        Ok(Position(size))
    }

    /// The requests that ended since, in that order. Watches are written when they end, refused
    /// ones at once.
    pub fn since(&self, position: Position) -> Result<Vec<Request>> {
        let mut file = File::open(&self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        file.seek(SeekFrom::Start(position.0))?;
        let mut requests = Vec::new();
        for line in BufReader::new(file).lines() {
            // The last line may be under way.
            let Ok(line) = serde_json::from_str::<Line>(&line?) else {
                continue;
            };
            requests.push(Request {
                user: line.user.username,
                verb: line.verb,
                uri: line.request_uri,
                code: line.response_status.map_or(0, |status| status.code),
            });
        }
        Ok(requests)
    }

    /// Those of one user.
    pub fn of(&self, user: &str, since: Position) -> Result<Vec<Request>> {
        let mut requests = self.since(since)?;
        requests.retain(|request| request.user == user);
        Ok(requests)
    }
}
