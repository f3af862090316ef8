//! Servers that come as jars.
//!
//! A directory under `tools/` holds a `pom.xml`, which names what is wanted, and `SHA256SUMS`, which
//! pins every jar that Maven finds for it. Jars are fetched once per pin into the user's cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::names::hex;
use crate::{cache, debian, progress};

/// What copies the jars; pinned like them.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// The directory with the jars of `tools/<name>`.
pub fn jars(name: &str) -> Result<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tools")
        .join(name);
    let read = |file: &str| {
        let path = tools.join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (pom, sums) = (read("pom.xml")?, read("SHA256SUMS")?);
    let digest = hex(&Sha256::digest([pom.as_str(), &sums].join("\n")));
    let home = cache::dir()?
        .join("maven")
        .join(format!("{name}-{}", &digest[..16]));
    cache::build_once(&home, |dir| {
        progress::say(&format!("fetching the jars of {name} (about 45 MB)"));
        let maven = debian::ensure("maven", || on_path("mvn"))?;
        fs::write(dir.join("pom.xml"), &pom)?;
        let output = Command::new(maven)
            .args(["-q", "-B", COPY])
            // Beside the jars, so that nothing of the person's own repository is touched.
            .arg(format!("-Dmaven.repo.local={}", dir.join("m2").display()))
            .arg(format!("-DoutputDirectory={}", dir.join("jars").display()))
            .current_dir(dir)
            .stdin(Stdio::null())
            .output()
            .context("cannot run mvn")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout);
            bail!("mvn could not fetch the jars of {name}: {}", text.trim());
        }
        fs::remove_dir_all(dir.join("m2"))?;
        check(&dir.join("jars"), &sums)
    })?;
    Ok(home.join("jars"))
}

/// A Java runtime.
pub fn java() -> Result<PathBuf> {
    debian::ensure("default-jre-headless", || on_path("java"))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    debian::first_file(std::env::split_paths(&path).map(|dir| dir.join(program)))
}

/// Every jar is the pinned one, and there are no others.
fn check(dir: &Path, sums: &str) -> Result<()> {
    let mut pinned: BTreeMap<&str, &str> = sums
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, file)| (file, sum))
        .collect();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let file = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let sum = hex(&Sha256::digest(fs::read(&path)?));
        ensure!(
            pinned.remove(file) == Some(sum.as_str()),
            "{file} is not the jar that SHA256SUMS pins"
        );
    }
    ensure!(pinned.is_empty(), "Maven did not find {pinned:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jar_that_is_not_pinned_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.jar"), "a").unwrap();
        let a = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
        check(dir.path(), &format!("{a}  a.jar\n")).unwrap();
        for sums in [
            String::new(),
            format!("{}  a.jar\n", "0".repeat(64)),
            format!("{a}  a.jar\n{a}  b.jar\n"),
        ] {
            assert!(check(dir.path(), &sums).is_err(), "{sums}");
        }
    }
}
