//! `cargo xtask codegen`: files that are derived from code but checked in, because people and
//! tools read them without building anything.

mod chart;
mod rights;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{crd_pages, workspace};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail if a file is not what would be written.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check {
        return check();
    }
    let mut changed = false;
    // The later ones are made from the earlier ones.
    for stage in STAGES {
        for change in stage()? {
            println!("{}", change.describe());
            change.apply()?;
            changed = true;
        }
    }
    if !changed {
        println!("all generated files are current");
    }
    Ok(())
}

/// What there is to write, in the order in which it builds upon each other.
const STAGES: [fn() -> Result<Vec<Change>>; 3] = [definitions, chart::files, chart::manifests];

fn definitions() -> Result<Vec<Change>> {
    let mut changes = drift(&crds_dir(), &crds())?;
    // A chart has no files but its own.
    changes.extend(drift(&chart::directory().join("files/crds"), &crds())?);
    let pages = workspace::root().join("docs/crds");
    changes.extend(drift(&pages, &crd_pages::pages())?);
    Ok(changes)
}

/// Fails when a generated file is not current.
pub(crate) fn check() -> Result<()> {
    let mut drift = Vec::new();
    for stage in STAGES {
        drift.extend(stage()?);
    }
    if drift.is_empty() {
        return Ok(());
    }
    let files: Vec<String> = drift.iter().map(Change::describe).collect();
    bail!(
        "generated files are not current:\n  {}\nrun `cargo xtask codegen` and commit the result",
        files.join("\n  ")
    )
}

/// Where the chart is.
pub(crate) fn chart_dir() -> PathBuf {
    chart::directory()
}

/// Where the CRDs are kept.
fn crds_dir() -> PathBuf {
    workspace::root().join("deploy/crds")
}

fn crds() -> BTreeMap<String, String> {
    kollect_api::crd::all_yaml()
        .into_iter()
        .map(|file| (file.file_name, file.yaml))
        .collect()
}

/// What has to happen to one file.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Create(PathBuf, String),
    Update(PathBuf, String),
    /// Its kind is gone.
    Remove(PathBuf),
}

impl Change {
    fn describe(&self) -> String {
        let (word, path) = match self {
            Self::Create(path, _) => ("create", path),
            Self::Update(path, _) => ("update", path),
            Self::Remove(path) => ("remove", path),
        };
        let path = path.strip_prefix(workspace::root()).unwrap_or(path);
        format!("{word} {}", path.display())
    }

    fn apply(&self) -> Result<()> {
        match self {
            Self::Create(path, text) | Self::Update(path, text) => {
                if let Some(dir) = path.parent() {
                    fs::create_dir_all(dir)?;
                }
                fs::write(path, text)
            }
            Self::Remove(path) => fs::remove_file(path),
        }
        .with_context(|| format!("cannot {}", self.describe()))
    }
}

/// The change that makes a file hold this text, if one is needed.
fn difference(path: PathBuf, text: String) -> Result<Option<Change>> {
    match fs::read_to_string(&path) {
        Ok(found) if found == text => Ok(None),
        Ok(_) => Ok(Some(Change::Update(path, text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Some(Change::Create(path, text)))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The changes that make `dir` hold exactly `wanted`.
fn drift(dir: &Path, wanted: &BTreeMap<String, String>) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for (name, text) in wanted {
        changes.extend(difference(dir.join(name), text.clone())?);
    }
    let mut stale: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !wanted.contains_key(name.as_ref())
        })
        .collect();
    stale.sort();
    changes.extend(stale.into_iter().map(Change::Remove));
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::{Change, drift};

    #[test]
    fn checked_in_files_are_current() {
        super::check().unwrap();
    }

    #[test]
    fn drift_is_found_and_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let wanted: BTreeMap<String, String> = [("new", "n"), ("changed", "c"), ("same", "s")]
            .map(|(name, text)| (format!("{name}.yaml"), text.to_owned()))
            .into();
        fs::write(dir.path().join("changed.yaml"), "old").unwrap();
        fs::write(dir.path().join("same.yaml"), "s").unwrap();
        fs::write(dir.path().join("gone.yaml"), "g").unwrap();

        let found = drift(dir.path(), &wanted).unwrap();
        let path = |name: &str| dir.path().join(name);
        let expected = [
            Change::Update(path("changed.yaml"), "c".to_owned()),
            Change::Create(path("new.yaml"), "n".to_owned()),
            Change::Remove(path("gone.yaml")),
        ];
        assert_eq!(found, expected);
        for change in &found {
            change.apply().unwrap();
        }
        assert_eq!(drift(dir.path(), &wanted).unwrap(), []);
    }
}
