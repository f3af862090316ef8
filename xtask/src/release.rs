//! `cargo xtask release`: everything that is released, in one directory.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use kollect_packaging::release::{self, CHECKSUMS, Parts};
use kollect_packaging::root_fs::{Ingredients, LARGEST};
use kollect_packaging::signing;
use serde_json::Value;

use crate::{image, workspace};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program: image::Program,

    /// Where the files go; emptied first.
    #[arg(long, default_value = "dist/release")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let description = image::description()?;
    let program = arguments.program.build(&description)?;
    let metadata = metadata()?;
    let files = release::files(&Parts {
        description,
        ingredients: Ingredients::of(&program, workspace::root()),
        metadata: &metadata,
        root: workspace::root().to_owned(),
        largest: LARGEST,
    })?;
    let output = workspace::root().join(&arguments.output);
    if output.exists() {
        fs::remove_dir_all(&output)?;
    }
    fs::create_dir_all(&output)?;
    for (name, content) in &files {
        let path = output.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{:>10} {}", content.len(), path.display());
    }
    let checksums = output.join(CHECKSUMS);
    match signing::command(&checksums, |name| std::env::var(name).ok()) {
        None => println!(
            "not signed: set KOLLECT_SIGNING_KEY, COSIGN_KEY or SIGSTORE_ID_TOKEN to sign {CHECKSUMS}"
        ),
        Some(sign) => {
            workspace::execute(Command::new(sign.program).args(&sign.arguments))?;
            println!("signed: {CHECKSUMS}.{}", sign.makes);
        }
    }
    Ok(())
}

/// What cargo knows of all packages, for the platform that is built.
fn metadata() -> Result<Value> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let args = ["metadata", "--format-version", "1", "--locked"];
    let output = workspace::cargo(&args)?
        .args(["--filter-platform", &platform])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}
