//! Running the program in a directory of its own.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// A directory to run in.
pub(crate) struct Place {
    directory: TempDir,
}

/// What a run left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Starts the program here; its input stays open.
    pub(crate) fn start(&self, args: &[&str]) -> std::process::Child {
        Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(args)
            .current_dir(self.directory.path())
            .env_clear()
            .env("HOME", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the program here, with nothing in its environment but what is given.
    pub(crate) fn run(&self, args: &[&str], environment: &[(&str, &str)], stdin: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(args)
            .current_dir(self.directory.path())
            .env_clear()
            .env("HOME", self.directory.path())
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // A program that does not read its input closes it early.
        let _ = pipe.write_all(stdin.as_bytes());
        drop(pipe);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The root of the repository, for the examples that are kept there.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
