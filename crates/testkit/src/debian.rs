//! Servers that Debian packages well.
//!
//! As root, which is how containers run, a missing package is installed; anybody else is told
//! what to install. Nothing is started: a test run must not leave a daemon on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use anyhow::{Context, Result, bail};

use crate::account::Account;
use crate::{cache, progress};

/// Finds something with `find`, installing `package` when it is not there.
pub fn ensure<T>(package: &str, find: impl Fn() -> Option<T>) -> Result<T> {
    if let Some(found) = find() {
        return Ok(found);
    }
    if !Account::current()?.is_root() {
        bail!(
            "{package} is not installed, and only root can install it: \
             run `sudo apt-get install {package}` and try again"
        );
    }
    // dpkg has a lock of its own but fails instead of waiting when two test processes meet.
    let _lock = cache::lock(&cache::dir()?.join("apt.lock"))?;
    if let Some(found) = find() {
        return Ok(found);
    }
    install(package)?;
    find().with_context(|| format!("{package} was installed but its programs were not found"))
}

/// The files of a package, unpacked into the user's cache and not installed: nothing is configured,
/// no daemon is started, and nobody has to be root.
pub fn unpacked(package: &str) -> Result<PathBuf> {
    let target = cache::dir()?.join("debs").join(package);
    cache::build_once(&target, |dir| {
        progress::say(&format!("fetching Debian package {package}"));
        if fetch(package, dir).is_err() && Account::current()?.is_root() {
            // The lists of a fresh machine are empty or old.
            apt(&["update", "-q"])?;
        }
        let archives = || -> Result<Option<PathBuf>> {
            let files = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
            Ok(files
                .into_iter()
                .find(|path| path.extension().is_some_and(|extension| extension == "deb")))
        };
        if archives()?.is_none() {
            fetch(package, dir)?;
        }
        let archive = archives()?.with_context(|| format!("apt-get fetched no {package}"))?;
        let unpacked = Command::new("dpkg")
            .arg("--extract")
            .arg(&archive)
            .arg(dir)
            .stdin(Stdio::null())
            .output()
            .context("cannot run dpkg")?;
        if !unpacked.status.success() {
            let stderr = String::from_utf8_lossy(&unpacked.stderr);
            bail!("dpkg --extract failed: {}", stderr.trim());
        }
        Ok(fs::remove_file(archive)?)
    })?;
    Ok(target)
}

/// Fetches the archive of a package into a directory.
fn fetch(package: &str, dir: &Path) -> Result<()> {
    let output = Command::new("apt-get")
        .args(["download", "-q", package])
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run apt-get to fetch {package}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("apt-get download {package} failed: {}", stderr.trim());
    }
    Ok(())
}

/// The first of these absolute paths that is a file.
pub fn first_file(paths: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    paths.into_iter().find(|path| path.is_file())
}

fn install(package: &str) -> Result<()> {
    static UPDATED: Once = Once::new();
    progress::say(&format!("installing Debian package {package}"));
    let mut updated = Ok(());
    UPDATED.call_once(|| updated = apt(&["update", "-q"]));
    updated?;
    apt(&["install", "-q", "-y", "--no-install-recommends", package])
}

fn apt(args: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Keeps maintainer scripts from starting the service they install.
        .env("SYSTEMD_OFFLINE", "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| {
            format!(
                "cannot run apt-get; install {} by hand",
                args[args.len() - 1]
            )
        })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("apt-get {} failed: {}", args.join(" "), stderr.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ensure, first_file};

    #[test]
    fn what_is_there_is_not_installed() {
        let found = ensure("no-such-package-anywhere", || {
            first_file(["/bin/sh".into()])
        })
        .unwrap();
        assert_eq!(found.to_str(), Some("/bin/sh"));
    }
}
