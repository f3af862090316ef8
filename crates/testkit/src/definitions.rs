//! Definitions of other projects' kinds, as those projects ship them: from their Go modules, which the
//! module proxy serves whole and whose checksums are pinned.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::progress;

/// A file of a Go module.
#[derive(Debug)]
pub struct Definition {
    /// The module with its version.
    pub module: &'static str,
    /// Its checksum as in `go.sum`.
    pub sum: &'static str,
    /// The file in it.
    pub file: &'static str,
}

/// Applications of Argo CD.
pub const ARGO_CD: Definition = Definition {
    module: "github.com/argoproj/argo-cd/v2@v2.14.2",
    sum: "h1:5kHd4lEkN679r/6VFlYoLMZ5Pl5wL4tHnOdEgQTgQKk=",
    file: "manifests/crds/application-crd.yaml",
};

/// Certificates of cert-manager.
pub const CERT_MANAGER: Definition = Definition {
    module: "github.com/cert-manager/cert-manager@v1.16.3",
    sum: "h1:seEF5eidFaeduaCuM85PFEuzH/1X/HOV5Y8zDQrHgpc=",
    file: "deploy/crds/crd-certificates.yaml",
};

/// Issuers of cert-manager.
pub const CERT_MANAGER_ISSUERS: Definition = Definition {
    file: "deploy/crds/crd-issuers.yaml",
    ..CERT_MANAGER
};

/// Helm releases of Flux.
pub const FLUX: Definition = Definition {
    module: "github.com/fluxcd/helm-controller@v1.4.0",
    sum: "h1:rkm8rmB6Na7eNc4pJOnvtXEaJ19iKluRtayHKjBxcUM=",
    file: "config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml",
};

/// Vulnerability reports of the Trivy operator.
pub const TRIVY: Definition = Definition {
    module: "github.com/aquasecurity/trivy-operator@v0.29.0",
    sum: "h1:6/7DI97Kpz8ZGIzhPLC1KkQvl2Gu86uRYWKdUEhjFB0=",
    file: "deploy/helm/crds/aquasecurity.github.io_vulnerabilityreports.yaml",
};

/// What Prometheus is told to scrape and to watch for, by the Prometheus operator.
pub const MONITORING: [Definition; 3] = [
    monitoring("example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"),
    monitoring("example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"),
    monitoring("example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
];

const fn monitoring(file: &'static str) -> Definition {
    Definition {
        module: "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        file,
    }
}

impl Definition {
    /// The text of the file. Some projects keep their definitions as templates of Helm: lines of the
    /// metadata that are templates are left out, the definition itself never is one.
    pub fn yaml(&self) -> Result<String> {
        let path = self.source()?.join(self.file);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{} has no {}", self.module, self.file))?;
        let lines = text.lines().filter(|line| !line.contains("{{"));
        Ok(lines.fold(String::new(), |text, line| text + line + "\n"))
    }

    /// Where the module lies, fetched unless it is there.
    fn source(&self) -> Result<PathBuf> {
        const PAUSES: [u64; 4] = [2, 10, 30, 60];
        let mut pauses = PAUSES.into_iter();
        let answer = loop {
            let output = Command::new("go")
                .args(["mod", "download", "-json", self.module])
                .current_dir("/")
                .stdin(Stdio::null())
                .output()
                .context("cannot run go, which fetches the definitions")?;
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            match answer["Error"].as_str() {
                None if output.status.success() => break answer,
                error => {
                    let error = error.unwrap_or("go mod download failed").to_owned();
                    let Some(pause) = pauses.next() else {
                        bail!("cannot fetch {}: {error}", self.module);
                    };
                    progress::say(&format!("{}: {error}; again in {pause}s", self.module));
                    thread::sleep(Duration::from_secs(pause));
                }
            }
        };
        ensure!(
            answer["Sum"] == self.sum,
            "{} has another checksum than the pinned one: {}",
            self.module,
            answer["Sum"]
        );
        let dir = answer["Dir"].as_str().context("go names no directory")?;
        Ok(PathBuf::from(dir))
    }
}
