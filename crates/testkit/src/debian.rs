//! Servers that Debian packages well.
//!
//! As root, which is how containers run, a missing package is installed; anybody else is told
//! what to install. Nothing is started: a test run must not leave a daemon on the machine.

use std::path::PathBuf;
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
