//! Where things are, and the settings that every cargo command of ours shares.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use kollect_testkit::cache;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    // This crate lies directly below it.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The directory of build results: the caller's choice, or one in the user's cache that all
/// checkouts share.
pub(crate) fn target_dir() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty()) {
        Some(path) => Ok(root().join(path)),
        None => Ok(cache::dir()?.join("target")),
    }
}

/// A cargo command for this workspace.
pub(crate) fn cargo(args: &[&str]) -> Result<Command> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .args(args)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", target_dir()?);
    // `cargo run` describes this package in the environment. Build scripts that watch those
    // variables would run again in every inner command and again in the next outer one, and half
    // the dependencies be rebuilt each time.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    if std::env::var_os("CI").is_some() {
        // Nothing is edited between two runs there; the bookkeeping would only cost time.
        command.env("CARGO_INCREMENTAL", "0");
    }
    Ok(command)
}

/// Runs a command with its output shown; fails when it fails.
pub(crate) fn execute(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    if !status.success() {
        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        bail!("`{name} {}` failed ({status})", args.join(" "));
    }
    Ok(())
}
