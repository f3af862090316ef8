//! `cargo xtask codegen`: files that are derived from code but checked in, because people and
//! tools read them without building anything.

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
    let drift = everything()?;
    for change in &drift {
        println!("{}", change.describe());
        change.apply()?;
    }
    if drift.is_empty() {
        println!("all generated files are current");
    }
    Ok(())
}

/// Fails when a generated file is not current.
pub(crate) fn check() -> Result<()> {
    let drift = everything()?;
    if drift.is_empty() {
        return Ok(());
    }
    let files: Vec<String> = drift.iter().map(Change::describe).collect();
    bail!(
        "generated files are not current:\n  {}\nrun `cargo xtask codegen` and commit the result",
        files.join("\n  ")
    )
}

/// What has to happen so that all generated files are current.
fn everything() -> Result<Vec<Change>> {
    let pages = workspace::root().join("docs/crds");
    let mut changes = drift(&crds_dir(), &crds())?;
    changes.extend(drift(&pages, &crd_pages::pages())?);
    Ok(changes)
}

/// Where the CRDs are kept.
pub(crate) fn crds_dir() -> PathBuf {
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

/// The changes that make `dir` hold exactly `wanted`.
fn drift(dir: &Path, wanted: &BTreeMap<String, String>) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for (name, text) in wanted {
        let path = dir.join(name);
        match fs::read_to_string(&path) {
            Ok(found) if found == *text => {}
            Ok(_) => changes.push(Change::Update(path, text.clone())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                changes.push(Change::Create(path, text.clone()));
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        }
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
