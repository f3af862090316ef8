//! `kollect crds`: the definitions of all kinds, on standard output or as files.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use clap::Args;
use kollect_api::crd;

/// Options of `kollect crds`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write one file per definition into this directory instead of printing them.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints or writes the definitions.
pub(crate) fn run(options: &Options) -> Result<()> {
    let files = crd::all_yaml();
    let Some(directory) = &options.output else {
        let text: Vec<_> = files.iter().map(|file| file.yaml.as_str()).collect();
        let printed = io::stdout().lock().write_all(text.join("---\n").as_bytes());
        return match printed {
            // Whoever reads may stop early, as `head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.context("cannot write to standard output"),
        };
    };
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create directory {}", directory.display()))?;
    for file in files {
        let path = directory.join(&file.file_name);
        fs::write(&path, file.yaml).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
