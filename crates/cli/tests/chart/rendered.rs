//! What the chart makes of values, by `tests/data/chart.yaml`.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{Helm, RunDir};
use serde::Deserialize;
use serde_json::Value;

use crate::stage::{chart, find, objects};

/// One line of the data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(rename = "case")]
    pub(crate) title: String,
    #[serde(default)]
    file: Option<String>,
    values: Value,
    #[serde(default)]
    release: Option<String>,
    #[serde(default)]
    pub(crate) refused: Option<String>,
    #[serde(default = "yes")]
    pub(crate) dryrun: bool,
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    with: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    at: BTreeMap<String, Value>,
    #[serde(default)]
    count: BTreeMap<String, usize>,
    #[serde(default)]
    roles: Rights,
}

/// Rights that are granted somewhere, as `verb group/resource`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rights {
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
}

fn yes() -> bool {
    true
}

/// The cases of the data file.
pub(crate) fn cases() -> Result<Vec<Case>> {
    let text = include_str!("../data/chart.yaml");
    serde_saphyr::from_str(text).context("tests/data/chart.yaml")
}

impl Case {
    /// What Helm says to it.
    pub(crate) fn render(&self, helm: &Helm, directory: &RunDir) -> Result<String> {
        let name: String = self
            .title
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let values = directory.write_private(&format!("{name}.json"), self.values.to_string())?;
        let mut args: Vec<PathBuf> = Vec::new();
        if let Some(file) = &self.file {
            args.extend(["--values".into(), chart().join(file)]);
        }
        args.extend(["--values".into(), values]);
        let release = self.release.as_deref().unwrap_or("kollect");
        helm.template(&chart(), ("kollect-system", release), &args)
    }

    fn check(&self, objects: &[Value]) -> Result<()> {
        for name in &self.has {
            ensure!(find(objects, name).is_some(), "{name} is missing");
        }
        for name in &self.lacks {
            ensure!(find(objects, name).is_none(), "{name} is there");
        }
        for (kind, count) in &self.count {
            let found = objects.iter().filter(|one| one["kind"] == *kind).count();
            ensure!(found == *count, "{found} of {kind}, not {count}");
        }
        let args = arguments(objects)?;
        if let Some(expected) = &self.args {
            ensure!(args == *expected, "{args:#?}");
        }
        for arg in &self.with {
            ensure!(args.contains(arg), "{arg} is missing in {args:#?}");
        }
        for arg in &self.without {
            ensure!(!args.contains(arg), "{arg} is there");
        }
        for (place, expected) in &self.at {
            let (name, pointer) = place.split_once(' ').context("Kind/name /pointer")?;
            let object = find(objects, name).with_context(|| format!("{name} is missing"))?;
            let found = object.pointer(pointer).unwrap_or(&Value::Null);
            ensure!(found == expected, "{place} is {found}");
        }
        let granted = granted(objects);
        for right in &self.roles.has {
            ensure!(
                granted.contains(right),
                "{right:?} is not granted: {granted:#?}"
            );
        }
        for right in &self.roles.lacks {
            ensure!(!granted.contains(right), "{right:?} is granted");
        }
        Ok(())
    }
}

/// The arguments of the operator.
pub(crate) fn arguments(objects: &[Value]) -> Result<Vec<String>> {
    let deployment = objects.iter().find(|one| one["kind"] == "Deployment");
    let deployment = deployment.context("no Deployment")?;
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    Ok(serde_json::from_value(args.clone())?)
}

/// `verb group/resource` of every rule that the operator's account is bound to.
fn granted(objects: &[Value]) -> Vec<String> {
    let roles = objects
        .iter()
        .filter(|one| one["kind"] == "Role" || one["kind"] == "ClusterRole")
        // Those are for people.
        .filter(|one| {
            let labels = one["metadata"]["labels"].to_string();
            !labels.contains("aggregate-to-")
        });
    let mut all = Vec::new();
    for rule in roles.filter_map(|role| role["rules"].as_array()).flatten() {
        let list = |field: &str| -> Vec<String> {
            serde_json::from_value(rule[field].clone()).unwrap_or_default()
        };
        for group in list("apiGroups") {
            for resource in list("resources") {
                for verb in list("verbs") {
                    all.push(format!("{verb} {group}/{resource}"));
                }
            }
        }
    }
    all
}

#[test]
fn every_set_of_values_becomes_what_it_should_or_is_refused() -> Result<()> {
    let (helm, directory) = (Helm::new()?, RunDir::new("chart-values")?);
    let cases = cases()?;
    ensure!(cases.len() >= 25, "{} cases", cases.len());
    let mut failures = Vec::new();
    for case in &cases {
        let rendered = case.render(&helm, &directory);
        let outcome = match (&case.refused, rendered) {
            (None, Ok(text)) => objects(&text).and_then(|objects| case.check(&objects)),
            (None, Err(error)) => Err(error),
            (Some(why), Err(error)) if error.to_string().contains(why.as_str()) => Ok(()),
            (Some(_), Err(error)) => Err(error.context("refused, but not for the right reason")),
            (Some(_), Ok(_)) => Err(anyhow::anyhow!("it is not refused")),
        };
        if let Err(error) = outcome {
            failures.push(format!("{}: {error:#}", case.title));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

#[test]
fn lint_has_nothing_to_say() -> Result<()> {
    let helm = Helm::new()?;
    let chart = chart();
    let files = [
        "values.yaml",
        "values-minimal-rbac.yaml",
        "values-platform.yaml",
    ];
    for file in files {
        let args = ["lint".into(), "--strict".into(), chart.clone()];
        let values = ["--values".into(), chart.join(file)];
        helm.run(&[&args[..], &values[..]].concat())?;
    }
    Ok(())
}

#[test]
fn the_chart_can_be_switched_off_as_part_of_another() -> Result<()> {
    let (helm, parent) = (Helm::new()?, RunDir::new("parent-chart")?);
    let metadata = "apiVersion: v2\nname: parent\nversion: 1.0.0\n\
                    dependencies: [{name: kollect, version: 0.1.0, condition: kollect.enabled}]\n";
    parent.write_private("Chart.yaml", metadata)?;
    std::fs::create_dir(parent.join("charts"))?;
    std::os::unix::fs::symlink(
        std::fs::canonicalize(chart())?,
        parent.join("charts/kollect"),
    )?;
    for (enabled, expected) in [("true", true), ("false", false)] {
        let set = [
            format!("--set=kollect.enabled={enabled}"),
            "--set=global.any=x".to_owned(),
        ];
        let text = helm.template(parent.path(), ("kollect-system", "all"), &set)?;
        let there = text.contains("all-kollect-controller-manager");
        ensure!(there == expected, "enabled={enabled}");
    }
    Ok(())
}

#[test]
fn plain_manifests_hold_everything_that_runs_without_helm() -> Result<()> {
    let root = chart().join("../../deploy");
    let read = |name: &str| objects(&std::fs::read_to_string(root.join(name))?);
    let (definitions, everything) = (read("install-crds.yaml")?, read("install.yaml")?);
    let count =
        |objects: &[Value], kind: &str| objects.iter().filter(|one| one["kind"] == kind).count();
    ensure!(count(&definitions, "CustomResourceDefinition") == 11);
    ensure!(count(&everything, "CustomResourceDefinition") == 11);
    ensure!(
        everything
            .first()
            .is_some_and(|one| one["kind"] == "Namespace")
    );
    let args = arguments(&everything)?;
    ensure!(args.contains(&"--validating-webhooks-enabled=true".to_owned()));
    ensure!(count(&everything, "ValidatingWebhookConfiguration") == 1);
    for object in definitions.iter().chain(&everything) {
        let text = object["metadata"].to_string();
        ensure!(
            !text.contains("helm.sh") && !text.contains("Helm"),
            "{text}"
        );
    }
    Ok(())
}
