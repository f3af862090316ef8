//! The files of a release, from what was built and what the repository holds.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{
    gzip,
    oci::{self, Description},
    root_fs::{self, Ingredients},
    sbom, sha256,
    tar::Tree,
};

/// Where the checksums of all files are.
pub const CHECKSUMS: &str = "checksums.txt";

/// What a release is made from.
#[derive(Debug, Clone)]
pub struct Parts<'p> {
    /// Version, commit, architecture and time.
    pub description: Description,
    /// What goes into the image.
    pub ingredients: Ingredients,
    /// What `cargo metadata` says.
    pub metadata: &'p Value,
    /// The repository.
    pub root: PathBuf,
    /// The largest program that is accepted, in bytes.
    pub largest: usize,
}

/// All files of the release by name, the list of their checksums last.
pub fn files(parts: &Parts<'_>) -> Result<BTreeMap<String, Vec<u8>>> {
    let Parts {
        description,
        ingredients,
        metadata,
        root,
        largest,
    } = parts;
    let (version, architecture) = (&description.version, &description.architecture);
    let moment = description.moment;
    let program = read(&ingredients.program)?;
    ensure!(
        program.len() <= *largest,
        "the program has {} bytes, and at most {largest} are released: is it stripped?",
        program.len()
    );
    let mut files = BTreeMap::new();
    let name = |what: &str| format!("kollect-v{version}-linux-{architecture}{what}");

    let mut tree = Tree::default();
    let directory = name("");
    tree.file(&format!("{directory}/kollect"), 0o755, program)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
        tree.file(
            &format!("{directory}/{file}"),
            0o644,
            read(&root.join(file))?,
        )?;
    }
    files.insert(name(".tar.gz"), gzip(&tree.archive(moment)?)?);

    let image = oci::archive(&root_fs::assemble(ingredients)?, description)?;
    files.insert(name(".oci.tar"), image);

    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let bom = sbom::bom(metadata, &lock, "kollect-cli", moment)?;
    files.insert(format!("kollect-v{version}.cdx.json"), bom.into_bytes());

    files.insert("install-crds.yaml".to_owned(), definitions(root)?);
    let install = root.join("deploy/install.yaml");
    if install.is_file() {
        files.insert("install.yaml".to_owned(), read(&install)?);
    }
    if let Some(chart) = chart(&root.join("charts/kollect"), version)? {
        let archive = gzip(&chart.archive(moment)?)?;
        files.insert(format!("kollect-{version}.tgz"), archive);
    }
    let mut checksums = String::new();
    for (name, content) in &files {
        checksums += &format!("{}  {name}\n", sha256(content));
    }
    files.insert(CHECKSUMS.to_owned(), checksums.into_bytes());
    Ok(files)
}

/// All definitions in one file.
fn definitions(root: &Path) -> Result<Vec<u8>> {
    let directory = root.join("deploy/crds");
    let mut all = Vec::new();
    for (name, content) in below(&directory)? {
        let yaml = Path::new(&name)
            .extension()
            .is_some_and(|end| end == "yaml");
        ensure!(yaml, "{name} is no definition");
        if !content.starts_with(b"---\n") {
            all.extend(b"---\n");
        }
        all.extend(content);
    }
    ensure!(!all.is_empty(), "{} is empty", directory.display());
    Ok(all)
}

/// The chart as `helm package` would put it: everything in a directory of the chart's name, with the
/// version of the release. Nothing if there is no chart.
fn chart(directory: &Path, version: &str) -> Result<Option<Tree>> {
    if !directory.join("Chart.yaml").is_file() {
        return Ok(None);
    }
    let mut tree = Tree::default();
    for (name, content) in below(directory)? {
        if name == ".helmignore" || name.starts_with("ci/") {
            continue;
        }
        let content = if name == "Chart.yaml" {
            versioned(&String::from_utf8(content)?, version).into_bytes()
        } else {
            content
        };
        tree.file(&format!("kollect/{name}"), 0o644, content)?;
    }
    Ok(Some(tree))
}

/// `Chart.yaml` with this version of chart and program.
fn versioned(chart: &str, version: &str) -> String {
    chart
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("version", _)) => format!("version: {version}\n"),
            Some(("appVersion", _)) => format!("appVersion: \"{version}\"\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}

/// All files below a directory by their path in it.
fn below(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        let entries =
            fs::read_dir(&next).with_context(|| format!("cannot list {}", next.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let name = path
                .strip_prefix(directory)?
                .to_str()
                .context("a strange name")?;
            found.insert(name.to_owned(), read(&path)?);
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::versioned;

    #[test]
    fn the_chart_has_the_version_of_the_release() {
        let chart = "apiVersion: v2\nname: kollect\nversion: 0.0.0\nappVersion: 0.0.0\n";
        let expected = "apiVersion: v2\nname: kollect\nversion: 1.2.3\nappVersion: \"1.2.3\"\n";
        assert_eq!(versioned(chart, "1.2.3"), expected);
    }
}
