//! Servers that come as Node packages.
//!
//! A directory under `tools/` holds `package.json`, which names what is wanted, and
//! `package-lock.json`, which pins everything by digest. They are installed once per pin into the
//! user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::names::hex;
use crate::{cache, debian, progress};

/// The directory `node_modules` of `tools/<name>`.
pub fn modules(name: &str) -> Result<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tools")
        .join(name);
    let mut hash = Sha256::new();
    let files = ["package.json", "package-lock.json"];
    for file in files {
        let path = tools.join(file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        hash.update(Sha256::digest(bytes));
    }
    let digest = hex(&hash.finalize()[..8]);
    let home = cache::dir()?.join("npm").join(format!("{name}-{digest}"));
    cache::build_once(&home, |dir| {
        progress::say(&format!("installing the Node packages of {name}"));
        for file in files {
            fs::copy(tools.join(file), dir.join(file))?;
        }
        let output = Command::new(debian::ensure("npm", || on_path("npm"))?)
            // What packages would run while they are installed is not needed.
            .args(["ci", "--ignore-scripts", "--omit=dev"])
            .args(["--no-audit", "--no-fund"])
            .current_dir(dir)
            .stdin(Stdio::null())
            .output()
            .context("cannot run npm")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!(
                "npm could not install the packages of {name}: {}",
                text.trim()
            );
        }
        Ok(())
    })?;
    Ok(home.join("node_modules"))
}

/// The program that runs them.
pub fn node() -> Result<PathBuf> {
    debian::ensure("nodejs", || on_path("node"))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    debian::first_file(std::env::split_paths(&path).map(|dir| dir.join(program)))
}
