//! Helm: rendering charts, and installing them into a cluster.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cluster::{Cluster, User};
use crate::go;
use crate::run_dir::RunDir;

/// Helm with a home of its own: what it remembers goes with it.
#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
    home: RunDir,
}

impl Helm {
    /// Helm, built unless it is in the cache already.
    pub fn new() -> Result<Self> {
        Ok(Self {
            program: go::HELM.binaries()?.join("helm"),
            home: RunDir::new("helm")?,
        })
    }

    /// Where the program is, for those who put it on a path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A command, to be completed and run.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.stdin(Stdio::null()).env_remove("KUBECONFIG");
        for (variable, directory) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
        ] {
            command.env(variable, self.home.join(directory));
        }
        // Nobody is asked: not even a cluster that the user of this machine may have.
        command.env("HELM_KUBEAPISERVER", "http://127.0.0.1:1");
        command
    }

    /// Runs Helm without a cluster and returns what it prints.
    pub fn run(&self, args: &[impl AsRef<OsStr>]) -> Result<String> {
        output(self.command().args(args))
    }

    /// Runs Helm against a cluster.
    pub fn run_in(&self, cluster: &Cluster, args: &[impl AsRef<OsStr>]) -> Result<String> {
        let mut command = self.command();
        command
            .env_remove("HELM_KUBEAPISERVER")
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig());
        output(command.args(args))
    }

    /// Runs Helm against a cluster as somebody.
    pub fn run_as(
        &self,
        cluster: &Cluster,
        user: &User,
        args: &[impl AsRef<OsStr>],
    ) -> Result<String> {
        let name = format!("{}.kubeconfig", user.name.replace([':', '/'], "-"));
        let kubeconfig = self
            .home
            .write_private(&name, cluster.kubeconfig_of(user))?;
        let mut command = self.command();
        command
            .env_remove("HELM_KUBEAPISERVER")
            .arg("--kubeconfig")
            .arg(kubeconfig);
        output(command.args(args))
    }

    /// The manifests of a chart.
    pub fn template(
        &self,
        chart: &Path,
        (namespace, release): (&str, &str),
        args: &[impl AsRef<OsStr>],
    ) -> Result<String> {
        let mut command = self.command();
        command
            .args(["template", release])
            .arg(chart)
            .args(["--namespace", namespace])
            .args(args);
        output(&mut command)
    }
}

fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        bail!("helm failed: {}\n{}", stderr.trim(), stdout.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
