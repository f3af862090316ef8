//! `cargo xtask image`: the container image as an archive in the OCI layout. What the Containerfile
//! builds with an engine, this builds without one: the same files, the same settings.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use kollect_packaging::oci::{self, Description};
use kollect_packaging::root_fs::{self, Ingredients};
use kollect_packaging::{Moment, sha256};

use crate::workspace;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) program: Program,

    /// Where the archive goes.
    #[arg(long, default_value = "dist/kollect.oci.tar")]
    output: PathBuf,
}

#[derive(Args)]
pub(crate) struct Program {
    /// A program that is built already, stripped; otherwise a release build is made.
    #[arg(long = "program", value_name = "FILE")]
    given: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let description = description()?;
    let program = arguments.program.build(&description)?;
    let files = root_fs::assemble(&Ingredients::of(&program, workspace::root()))?;
    let archive = oci::archive(&files, &description)?;
    let output = workspace::root().join(&arguments.output);
    if let Some(directory) = output.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(&output, &archive).with_context(|| format!("cannot write {}", output.display()))?;
    let (size, digest) = (archive.len() / 1024 / 1024, sha256(&archive));
    println!("{} ({size} MiB, sha256:{digest})", output.display());
    println!(
        "load it with: podman load --input {}",
        arguments.output.display()
    );
    Ok(())
}

impl Program {
    /// The program to release.
    pub(crate) fn build(&self, description: &Description) -> Result<PathBuf> {
        if let Some(given) = &self.given {
            ensure!(given.is_file(), "{} is no file", given.display());
            return Ok(given.clone());
        }
        // Where this was compiled is nobody's business, and would make another program of it.
        let mut remapped = vec![format!(
            "--remap-path-prefix={}=/kollect",
            workspace::root().display()
        )];
        let home = std::env::var("CARGO_HOME")
            .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
        if let Ok(home) = home {
            remapped.push(format!("--remap-path-prefix={home}=/cargo"));
        }
        let build = ["build", "--release", "--locked", "--package", "kollect-cli"];
        workspace::execute(
            workspace::cargo(&build)?
                .env("CARGO_ENCODED_RUSTFLAGS", remapped.join("\u{1f}"))
                .env("KOLLECT_COMMIT", &description.commit)
                .env("KOLLECT_BUILT", description.moment.text()?),
        )?;
        Ok(workspace::target_dir()?.join("release/kollect"))
    }
}

/// What is released: the version of the workspace, at the commit that is checked out.
pub(crate) fn description() -> Result<Description> {
    // A moment that belongs to the content: two builds of one commit are the same.
    let moment = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text
            .parse()
            .context("SOURCE_DATE_EPOCH is no number of seconds")?,
        Err(_) => git(&["log", "-1", "--format=%ct"])?
            .parse()
            .context("git names no time")?,
    };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("no image is made for {other}"),
    };
    Ok(Description {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: git(&["rev-parse", "HEAD"])?,
        architecture: architecture.to_owned(),
        moment: Moment(moment),
    })
}

fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(args)
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .output()
        .context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git {} failed: {}; outside of a checkout set SOURCE_DATE_EPOCH",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
