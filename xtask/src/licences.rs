//! Licences, banned crates and sources of all dependencies, by cargo-deny and `deny.toml`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use kollect_testkit::{cache, progress};

use crate::workspace;

const VERSION: &str = "0.20.2";

/// Fails on a licence that is not allowed, a banned crate, a foreign source, or an advisory.
pub(crate) fn check() -> Result<()> {
    let deny = cargo_deny()?;
    workspace::execute(command(&deny).args(["check", "licenses", "bans", "sources"]))?;
    // Advisories live in a repository of their own, which not every network reaches. The other
    // checks need nothing but Cargo.lock, so they decide everywhere.
    let fetched = command(&deny)
        .args(["fetch", "db"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !fetched.success() {
        progress::say("advisories NOT checked: the advisory database could not be fetched");
        return Ok(());
    }
    workspace::execute(command(&deny).args(["check", "advisories"]))
}

fn command(deny: &Path) -> Command {
    let mut command = Command::new(deny);
    command.args(["--locked"]).current_dir(workspace::root());
    command
}

/// The pinned cargo-deny, built once per machine.
fn cargo_deny() -> Result<PathBuf> {
    let target = cache::dir()?
        .join("bin")
        .join(format!("cargo-deny-{VERSION}"));
    cache::build_once(&target, |dir| {
        progress::say("building cargo-deny (about 3 minutes on two cores, once per machine)");
        let build = dir.join("build");
        workspace::execute(
            workspace::cargo(&["install", "cargo-deny", "--version", VERSION, "--locked"])?
                .arg("--root")
                .arg(dir)
                // Not into the shared directory, where its release build would stay forever.
                .arg("--target-dir")
                .arg(&build),
        )?;
        fs::remove_dir_all(&build)?;
        Ok(())
    })?;
    Ok(target.join("bin/cargo-deny"))
}
