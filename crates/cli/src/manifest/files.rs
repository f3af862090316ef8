//! From paths to texts.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

/// A file, or what came through standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// How messages name it.
    pub(crate) name: String,
    /// What it says.
    pub(crate) content: String,
}

/// How far a directory goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The files in it.
    Flat,
    /// Also those in directories below it.
    Deep,
}

/// Which files of a directory are read. Others are none of our business; a file that is named
/// itself is read whatever it is called.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads all texts behind some paths, in their order; files of a directory in the order of their
/// names. `-` is standard input.
pub(crate) fn read_all(paths: &[PathBuf], extent: Extent) -> Result<Vec<Text>> {
    let mut texts = Vec::new();
    let mut standard_input = false;
    for path in paths {
        if path.as_os_str() == "-" {
            if std::mem::replace(&mut standard_input, true) {
                bail!("standard input (-) can be read only once");
            }
            texts.push(read_standard_input()?);
            continue;
        }
        let metadata =
            fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if metadata.is_dir() {
            for file in files_in(path, extent)? {
                texts.push(read(&file)?);
            }
        } else {
            texts.push(read(path)?);
        }
    }
    Ok(texts)
}

fn read(path: &Path) -> Result<Text> {
    let content =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Text {
        name: path.display().to_string(),
        content,
    })
}

fn read_standard_input() -> Result<Text> {
    let mut content = String::new();
    io::stdin()
        .lock()
        .read_to_string(&mut content)
        .context("cannot read standard input")?;
    Ok(Text {
        name: "standard input".to_owned(),
        content,
    })
}

fn files_in(directory: &Path, extent: Extent) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read directory {}", directory.display());
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).with_context(cannot)? {
        entries.push(entry.with_context(cannot)?.path());
    }
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() {
            if extent == Extent::Deep {
                files.extend(files_in(&path, extent)?);
            }
        } else if path
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    Ok(files)
}
