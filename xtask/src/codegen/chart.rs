//! What of the chart is made from code, and the manifests that are made from the chart.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use kollect_testkit::Helm;

use super::{Change, difference, rights, values};
use crate::workspace;

/// Where the chart is.
pub(super) fn directory() -> PathBuf {
    workspace::root().join("charts/kollect")
}

/// The files of the chart and the documents that are made from the table of rights and from the
/// values.
pub(super) fn files() -> Result<Vec<Change>> {
    let chart = directory();
    let read = |name: &str| {
        let path = chart.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    same_version(&read("Chart.yaml")?)?;
    let documents = [
        (chart.join("templates/_rights.tpl"), rights::template()),
        (
            chart.join("README.md"),
            values::readme(&read("values.yaml")?)?,
        ),
        (workspace::root().join("docs/rbac.md"), rights::document()),
    ];
    let changes = documents
        .into_iter()
        .map(|(path, text)| difference(path, text));
    let changes: Result<Vec<_>> = changes.collect();
    Ok(changes?.into_iter().flatten().collect())
}

/// Chart and program are released together.
fn same_version(chart: &str) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    for field in ["version", "appVersion"] {
        if !chart
            .lines()
            .any(|line| line == format!("{field}: {version}"))
        {
            bail!("charts/kollect/Chart.yaml must have `{field}: {version}`, as Cargo.toml has it");
        }
    }
    Ok(())
}

/// The plain manifests, for those who do not use Helm: rendered by it.
pub(super) fn manifests() -> Result<Vec<Change>> {
    const NAMESPACE: &str = "\
---
apiVersion: v1
kind: Namespace
metadata:
  name: kollect-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
";
    let helm = Helm::new()?;
    let chart = directory();
    let render = |release: &str, args: &[&str]| {
        let text = helm.template(&chart, ("kollect-system", release), args)?;
        anyhow::Ok(plain(&text))
    };
    let definitions = render(
        // Another name than that of an installation, so that the roles of both can be there.
        "kollect-definitions",
        &[
            "--set=crds.keep=false",
            "--show-only=templates/crds.yaml",
            "--show-only=templates/user-roles.yaml",
        ],
    )?;
    let everything = render("kollect", &["--set=crds.keep=false"])?;
    let head = "# Made from charts/kollect by `cargo xtask codegen`; not edited by hand.\n";
    let deploy = workspace::root().join("deploy");
    let changes = [
        difference(
            deploy.join("install-crds.yaml"),
            format!("{head}{definitions}"),
        )?,
        difference(
            deploy.join("install.yaml"),
            format!("{head}{NAMESPACE}{everything}"),
        )?,
    ];
    Ok(changes.into_iter().flatten().collect())
}

/// Manifests without what only Helm has a use for.
fn plain(rendered: &str) -> String {
    let ours = rendered.lines().filter(|line| {
        let line = line.trim();
        !line.starts_with("# Source: ")
            && !line.starts_with("helm.sh/chart:")
            && line != "app.kubernetes.io/managed-by: Helm"
    });
    let mut text = String::new();
    for line in ours {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_helms_is_left_out() {
        let rendered = "---\n# Source: kollect/templates/x.yaml\nkind: X\nmetadata:\n  labels:\n    \
                        helm.sh/chart: kollect-0.1.0\n    app.kubernetes.io/managed-by: Helm\n    a: b  \n";
        assert_eq!(
            plain(rendered),
            "---\nkind: X\nmetadata:\n  labels:\n    a: b\n"
        );
    }

    #[test]
    fn chart_and_program_have_one_version() {
        let version = env!("CARGO_PKG_VERSION");
        same_version(&format!("version: {version}\nappVersion: {version}\n")).unwrap();
        let error = same_version(&format!("version: {version}\nappVersion: 9.9.9\n")).unwrap_err();
        assert!(error.to_string().contains("appVersion"), "{error}");
    }
}
