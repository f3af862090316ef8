//! The program that is measured: `kollect operator` against a real API server.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use kollect_testkit::{Cluster, http, ports};

use crate::process::{self, Usage};

/// The program to measure, as the environment names it.
pub fn kollect() -> Result<PathBuf> {
    env::var_os("KOLLECT_BINARY")
        .map(PathBuf::from)
        .context("KOLLECT_BINARY must name the kollect program")
}

/// A running operator; dropping it ends it.
pub struct Operator {
    child: Child,
    metrics: u16,
}

impl Operator {
    /// Starts the operator as the administrator of a cluster, with these flags.
    pub fn start(kollect: &Path, cluster: &Cluster, flags: &[&str]) -> Result<Self> {
        let metrics = ports::free()?;
        let child = Command::new(kollect)
            .args([
                "operator",
                "--metrics-secure=false",
                "--health-probe-bind-address=0",
                "--allow-sink-networks=127.0.0.0/8",
            ])
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .args(flags)
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", kollect.display()))?;
        Ok(Self { child, metrics })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it used so far.
    pub fn usage(&self) -> Result<Usage> {
        Ok(process::usage(self.pid())?)
    }

    /// The sum of all series of a metric.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let answer = http::Client::plain(self.metrics).request("GET", "/metrics", None)?;
        let text = String::from_utf8(answer.body)?;
        let of_name = |line: &&str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']))
        };
        let values = text
            .lines()
            .filter(of_name)
            .filter_map(|line| line.rsplit(' ').next());
        let values: Vec<f64> = values.filter_map(|value| value.parse().ok()).collect();
        if values.is_empty() {
            bail!("the operator publishes no {name}");
        }
        Ok(values.iter().sum())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
