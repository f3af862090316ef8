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

/// Where something is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    File(PathBuf),
    /// `-`.
    Standard,
}

/// Which files of a directory are manifests. Others are none of our business; a file that is named itself is read whatever it
/// is called.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads all manifests behind some paths, in their order; directories with everything below them, in the order of names.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Text>> {
    let mut texts = Vec::new();
    for input in inputs(paths, |name| ends_with(name, &EXTENSIONS))? {
        texts.push(match input {
            Input::File(path) => read(&path)?,
            Input::Standard => read_standard_input()?,
        });
    }
    Ok(texts)
}

/// Whether a file is called like one of these.
pub(crate) fn ends_with(name: &str, extensions: &[&str]) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| extensions.contains(&extension))
}

/// The files behind some paths; of directories those that are wanted by their names. `-` is standard input.
pub(crate) fn inputs(paths: &[PathBuf], wanted: impl Fn(&str) -> bool) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            if inputs.contains(&Input::Standard) {
                bail!("standard input (-) can be read only once");
            }
            inputs.push(Input::Standard);
            continue;
        }
        let metadata =
            fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if metadata.is_dir() {
            let files = files_in(path, &wanted, MAX_DIRECTORIES)?;
            inputs.extend(files.into_iter().map(Input::File));
        } else {
            inputs.push(Input::File(path.clone()));
        }
    }
    Ok(inputs)
}

/// The largest file that is read: some hundred thousand objects.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// How deep directories may lie in each other; links can make them endless.
const MAX_DIRECTORIES: usize = 32;

fn read(path: &Path) -> Result<Text> {
    let cannot = || format!("cannot read {}", path.display());
    let file = open(path)?;
    Ok(Text {
        name: path.display().to_string(),
        content: bounded(file, MAX_FILE_BYTES).with_context(cannot)?,
    })
}

/// Opens a regular file. Pipes and devices may never end, and a link in a directory may lead to one.
pub(crate) fn open(path: &Path) -> Result<fs::File> {
    let cannot = || format!("cannot read {}", path.display());
    if !fs::metadata(path).with_context(cannot)?.is_file() {
        bail!(
            "{}: this is no regular file; what a pipe delivers can be given as -",
            path.display()
        );
    }
    fs::File::open(path).with_context(cannot)
}

/// All of a text that is not larger than `limit`.
fn bounded(source: impl io::Read, limit: u64) -> Result<String> {
    let mut content = String::new();
    source.take(limit + 1).read_to_string(&mut content)?;
    if content.len() as u64 > limit {
        bail!("it is larger than {limit} bytes; split it into several files");
    }
    Ok(content)
}

fn read_standard_input() -> Result<Text> {
    let content = bounded(io::stdin().lock(), MAX_FILE_BYTES);
    Ok(Text {
        name: "standard input".to_owned(),
        content: content.context("cannot read standard input")?,
    })
}

/// What is hidden (`.git`) is not meant.
fn files_in(
    directory: &Path,
    wanted: &impl Fn(&str) -> bool,
    deeper: usize,
) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read directory {}", directory.display());
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).with_context(cannot)? {
        entries.push(entry.with_context(cannot)?.path());
    }
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            if deeper == 0 {
                bail!(
                    "{}: directories are nested too deeply; is there a link to one above?",
                    directory.display()
                );
            }
            files.extend(files_in(&path, wanted, deeper - 1)?);
        } else if wanted(&name) {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a18_only_regular_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        symlink("/dev/zero", directory.path().join("endless.yaml")).unwrap();
        let error = read_all(&[directory.path().into()]).unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
        let error = read_all(&["/dev/zero".into()]).unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
    }

    #[test]
    fn a18_a_pipe_without_a_writer_does_not_hang() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe.json");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()));
        let link = directory.path().join("link.json");
        symlink(&pipe, &link).unwrap();
        for path in [pipe, link, directory.path().to_owned()] {
            let error = read_all(&[path]).unwrap_err();
            assert!(error.to_string().contains("no regular file"), "{error}");
        }
    }

    #[test]
    fn a18_directories_that_hold_themselves_end() {
        let directory = tempfile::tempdir().unwrap();
        symlink(directory.path(), directory.path().join("again")).unwrap();
        let error = read_all(&[directory.path().into()]).unwrap_err();
        assert!(error.to_string().contains("nested too deeply"), "{error}");
    }

    #[test]
    fn a18_texts_are_bounded() {
        assert_eq!(bounded(&b"1234"[..], 4).unwrap(), "1234");
        let error = bounded(io::repeat(b'x'), 1000).unwrap_err();
        assert!(error.to_string().contains("1000 bytes"), "{error}");
    }
}
