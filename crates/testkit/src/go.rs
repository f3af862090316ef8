//! Programs built from pinned Go modules.
//!
//! Each directory under `tools/` is a Go module whose `go.mod` and `go.sum` fix versions and
//! checksums. Programs are built once per pin into the user's cache; the directory name is a hash
//! of everything that decides the result, so a changed pin builds anew and an old checkout still
//! finds its own programs.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use crate::names::hex;
use crate::{cache, progress};

/// A Go module under `tools/` and what to build from it.
#[derive(Debug)]
pub struct GoModule {
    /// Directory under `tools/`.
    pub name: &'static str,
    /// Flags of `go build`.
    pub flags: &'static [&'static str],
    /// What to build.
    pub programs: &'static [GoProgram],
    /// What to tell the person who waits.
    pub patience: &'static str,
}

/// One main package of a module.
#[derive(Debug)]
pub struct GoProgram {
    /// Import path.
    pub package: &'static str,
    /// Name of the program, where it differs from the last element of the import path.
    pub file: &'static str,
    /// Name that `go build` gives it.
    pub built_as: &'static str,
}

impl GoProgram {
    /// A program that `go build` already names well.
    pub const fn new(package: &'static str, file: &'static str) -> Self {
        Self {
            package,
            file,
            built_as: file,
        }
    }
}

/// The programs of the Kubernetes control plane and `kubectl`.
///
/// The server reports the version given by linker flags; without them it is a text that kubectl
/// cannot parse. One module for all four, since they share most of their packages.
pub const KUBERNETES: GoModule = GoModule {
    name: "kubernetes",
    flags: &[
        "-trimpath",
        "-ldflags",
        "-s -w -X k8s.io/component-base/version.gitVersion=v1.34.4 \
         -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34",
    ],
    programs: &[
        GoProgram::new("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
        GoProgram::new(
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kube-controller-manager",
        ),
        GoProgram::new("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
        // `go build` takes the last path element before the version suffix.
        GoProgram {
            package: "go.etcd.io/etcd/server/v3",
            file: "etcd",
            built_as: "server",
        },
    ],
    patience: "about 7 minutes on two cores, once per machine",
};

/// Helm, with the libraries of the same Kubernetes release: what both need is compiled once.
///
/// Without the linker flags it takes every cluster it cannot ask for one of Kubernetes 1.20.
pub const HELM: GoModule = GoModule {
    name: "helm",
    flags: &[
        "-trimpath",
        "-ldflags",
        "-s -w -X helm.sh/helm/v3/internal/version.version=v3.19.4 \
         -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 \
         -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34 \
         -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 \
         -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34",
    ],
    programs: &[GoProgram::new("helm.sh/helm/v3/cmd/helm", "helm")],
    patience: "about 2 minutes on two cores, once per machine",
};

/// The emulator of BigQuery, with Google's own reader of statements in it.
pub const BIGQUERY: GoModule = GoModule {
    name: "bigquery",
    flags: &["-trimpath", "-ldflags", "-s -w"],
    programs: &[GoProgram::new(
        "github.com/goccy/bigquery-emulator/cmd/bigquery-emulator",
        "bigquery-emulator",
    )],
    patience: "about 6 minutes on two cores, once per machine",
};

impl GoModule {
    /// The directory with the built programs; builds them when they are missing.
    pub fn binaries(&self) -> Result<PathBuf> {
        let source = self.source();
        let version = go(&source, &["version"])?;
        let target = cache::dir()?.join("bin").join(self.key(&source, &version)?);
        cache::build_once(&target, |dir| self.build(&source, dir))?;
        Ok(target)
    }

    fn source(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tools")
            .join(self.name)
    }

    fn key(&self, source: &Path, go_version: &str) -> Result<String> {
        let mut hash = Sha256::new();
        for file in ["go.mod", "go.sum"] {
            let path = source.join(file);
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            hash.update(Sha256::digest(bytes));
        }
        for program in self.programs {
            hash.update(format!("{}\n{}\n", program.package, program.file));
        }
        hash.update(self.flags.join("\n"));
        hash.update(go_version);
        Ok(format!("{}-{}", self.name, hex(&hash.finalize()[..8])))
    }

    fn build(&self, source: &Path, dir: &Path) -> Result<()> {
        let names: Vec<&str> = self.programs.iter().map(|program| program.file).collect();
        progress::say(&format!(
            "building {} with Go ({})",
            names.join(", "),
            self.patience
        ));
        let mut args = vec!["build", "-v", "-o"];
        let out = format!("{}/", dir.display());
        args.push(&out);
        args.extend(self.flags);
        args.extend(self.programs.iter().map(|program| program.package));
        retry(|| go_build(source, &args))?;
        for program in self
            .programs
            .iter()
            .filter(|program| program.file != program.built_as)
        {
            fs::rename(dir.join(program.built_as), dir.join(program.file))
                .with_context(|| format!("{} was not built", program.package))?;
        }
        Ok(())
    }
}

/// Why a `go` command failed.
enum Failure {
    /// The module proxy asked us to come back later, or the network hiccuped.
    Busy(String),
    Other(anyhow::Error),
}

/// Repeats a command that downloads while the proxy is busy, with growing pauses.
fn retry(mut attempt: impl FnMut() -> Result<(), Failure>) -> Result<()> {
    const PAUSES: [u64; 6] = [2, 5, 10, 20, 40, 60];
    for pause in PAUSES {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(Failure::Other(error)) => return Err(error),
            Err(Failure::Busy(line)) => {
                progress::say(&format!("download refused ({line}); again in {pause}s"));
                thread::sleep(Duration::from_secs(pause));
            }
        }
    }
    match attempt() {
        Ok(()) => Ok(()),
        Err(Failure::Other(error)) => Err(error),
        Err(Failure::Busy(line)) => bail!("the Go module proxy keeps refusing downloads: {line}"),
    }
}

fn is_busy(line: &str) -> bool {
    [
        "429",
        "Too Many Requests",
        "502 Bad",
        "503 Service",
        "TLS handshake timeout",
        "reset by peer",
    ]
    .iter()
    .any(|sign| line.contains(sign))
}

/// Runs `go build -v`, which names each package as it compiles, and reports how far it is.
fn go_build(source: &Path, args: &[&str]) -> Result<(), Failure> {
    const REPORT_EVERY: Duration = Duration::from_secs(15);
    const KEPT_LINES: usize = 20;

    let mut child = command(source, args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::Other(missing(error)))?;
    let (sender, receiver) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
    }
    let (started, mut reported) = (Instant::now(), Instant::now());
    let mut lines = VecDeque::new();
    let mut done = 0;
    loop {
        match receiver.recv_timeout(REPORT_EVERY) {
            Ok(line) => {
                done += 1;
                lines.push_back(line);
                if lines.len() > KEPT_LINES {
                    lines.pop_front();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The pipe closes when the command ends.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            let elapsed = progress::human(started.elapsed());
            progress::say(&format!(
                "go build: {done} packages fetched or compiled, {elapsed}"
            ));
        }
    }
    let status = child.wait().map_err(|error| Failure::Other(error.into()))?;
    if status.success() {
        return Ok(());
    }
    if let Some(line) = lines.iter().find(|line| is_busy(line)) {
        return Err(Failure::Busy(line.clone()));
    }
    let lines: Vec<String> = lines.into();
    let message = format!("go build failed ({status}):\n{}", lines.join("\n"));
    Err(Failure::Other(anyhow!(message)))
}

fn go(source: &Path, args: &[&str]) -> Result<String> {
    let output = command(source, args).output().map_err(missing)?;
    if !output.status.success() {
        bail!(
            "go {} failed: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn command(source: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("go");
    // One value everywhere: the setting is part of what Go hashes, and changing it recompiles all.
    command
        .args(args)
        .current_dir(source)
        .env("CGO_ENABLED", "1")
        .stdin(Stdio::null());
    command
}

fn missing(error: std::io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(
        "cannot run go: install Go 1.24 or newer (https://go.dev/dl) and put it on PATH; \
         it builds the test servers",
    )
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::{Failure, KUBERNETES, is_busy, retry};

    #[test]
    fn the_key_follows_every_input() {
        let source = KUBERNETES.source();
        let key = KUBERNETES.key(&source, "go version go1.26.8").unwrap();
        assert_eq!(key, KUBERNETES.key(&source, "go version go1.26.8").unwrap());
        assert_ne!(key, KUBERNETES.key(&source, "go version go1.26.9").unwrap());
        let flags = super::GoModule {
            flags: &["-race"],
            ..KUBERNETES
        };
        assert_ne!(key, flags.key(&source, "go version go1.26.8").unwrap());
        let programs = super::GoModule {
            programs: &[],
            ..KUBERNETES
        };
        assert_ne!(key, programs.key(&source, "go version go1.26.8").unwrap());
    }

    #[test]
    fn only_a_busy_proxy_is_asked_again() {
        assert!(is_busy(
            "reading https://proxy/x.zip: 429 Too Many Requests"
        ));
        assert!(!is_busy("main.go:3:1: syntax error"));

        let mut calls = 0;
        let result = retry(|| {
            calls += 1;
            match calls {
                1 => Err(Failure::Busy("429".to_owned())),
                _ => Ok(()),
            }
        });
        assert!(result.is_ok());
        assert_eq!(calls, 2);

        let mut calls = 0;
        let result = retry(|| {
            calls += 1;
            Err(Failure::Other(anyhow!("syntax error")))
        });
        assert!(result.is_err());
        assert_eq!(calls, 1);
    }
}
