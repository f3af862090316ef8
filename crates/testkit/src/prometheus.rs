//! Prometheus, which scrapes one endpoint and evaluates rules every second.
//!
//! The programs are taken out of Debian's package without installing it: the package would bring a
//! daemon that starts by itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::Program;
use crate::run_dir::RunDir;
use crate::service::Service;
use crate::{debian, http, ports};

/// A Prometheus server that this process owns.
pub struct Prometheus {
    // Before the directory, so that the server is gone when its data is removed.
    _server: Service,
    client: http::Client,
    _run: RunDir,
}

/// An alerting rule as Prometheus sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// `inactive`, `pending` or `firing`.
    pub state: String,
    /// Why its expression could not be evaluated, if so.
    pub error: Option<String>,
    /// Whether it was evaluated at all.
    pub evaluated: bool,
}

impl Prometheus {
    /// Starts a server that scrapes `/metrics` of this loopback port and evaluates the rules of this
    /// file, as Prometheus reads it.
    pub fn start(scraped: u16, rules: &str) -> Result<Self> {
        let program = programs()?.join("prometheus");
        let run = RunDir::new("prometheus")?;
        let rules = run.write_private("rules.yaml", rules)?;
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n\
             - job_name: kollect\n  static_configs: [{{targets: ['127.0.0.1:{scraped}']}}]\n",
            rules.display()
        );
        let config = run.write_private("prometheus.yaml", config)?;
        let port = ports::free()?;
        let client = http::Client::plain(port);
        let ready = client.clone();
        let server = Program::new("prometheus", program)
            .flag("config.file", &config)
            .flag("storage.tsdb.path", run.join("data"))
            .flag("web.listen-address", format!("127.0.0.1:{port}"))
            .flag("log.level", "warn");
        let server = Service::start(server, run.path(), move || {
            let answer = ready.request("GET", "/-/ready", None)?;
            ensure!(answer.is_success(), "not ready: {}", answer.status);
            Ok(())
        })?;
        Ok(Self {
            _server: server,
            client,
            _run: run,
        })
    }

    /// The series that an expression yields now.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let path = format!("/api/v1/query?query={}", encoded(expression));
        let mut answer = self
            .client
            .get(&path)
            .with_context(|| format!("cannot evaluate {expression}"))?;
        match answer["data"]["result"].take() {
            Value::Array(series) => Ok(series),
            other => bail!("{expression} is no vector: {other}"),
        }
    }

    /// All alerting rules by name.
    pub fn alerts(&self) -> Result<BTreeMap<String, Alert>> {
        let answer = self.client.get("/api/v1/rules?type=alert")?;
        let groups = answer["data"]["groups"].as_array().context("no groups")?;
        let rules = groups
            .iter()
            .filter_map(|group| group["rules"].as_array())
            .flatten();
        rules
            .map(|rule| {
                let text = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
                let alert = Alert {
                    state: text("state"),
                    error: rule["lastError"].as_str().map(str::to_owned),
                    evaluated: rule["health"] != "unknown",
                };
                Ok((text("name"), alert))
            })
            .collect()
    }
}

/// Whether rules are well-formed; what promtool says if they are not.
pub fn check_rules(rules: &str) -> Result<()> {
    let run = RunDir::new("promtool")?;
    let file = run.write_private("rules.yaml", rules)?;
    let output = Command::new(programs()?.join("promtool"))
        .args(["check", "rules"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .context("cannot run promtool")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim());
    Ok(())
}

/// Where the programs are.
fn programs() -> Result<PathBuf> {
    let bin = debian::unpacked("prometheus")?.join("usr/bin");
    for program in ["prometheus", "promtool"] {
        let path = bin.join(program);
        fs::metadata(&path).with_context(|| format!("the package has no {}", path.display()))?;
    }
    Ok(bin)
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn expressions_survive_a_query_string() {
        assert_eq!(
            encoded("sum(a{b=~\"c|d\"}) > 0"),
            "sum%28a%7Bb%3D~%22c%7Cd%22%7D%29%20%3E%200".replace('~', "%7E")
        );
    }
}
