//! A disk that is soon full.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::run_dir::RunDir;

/// A file system in memory with a limit. Gone when it is dropped, with everything on it.
pub struct SmallDisk {
    run: RunDir,
}

impl SmallDisk {
    /// Makes one of so many mebibytes. None where this account may not mount anything.
    pub fn new(mebibytes: u32) -> Result<Option<Self>> {
        let run = RunDir::new("small-disk")?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={mebibytes}m,mode=0755"))
            .arg("kollect-small-disk")
            .arg(run.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status();
        Ok(mounted
            .is_ok_and(|status| status.success())
            .then(|| Self { run }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.run.path()
    }

    /// Leaves so few kibibytes free.
    pub fn fill(&self, free: u64) -> Result<()> {
        let output = Command::new("df")
            .args(["--output=avail", "-k"])
            .arg(self.path())
            .output()
            .context("cannot run df")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let available: u64 = text
            .lines()
            .last()
            .and_then(|line| line.trim().parse().ok())
            .context("df gives no number")?;
        let ballast = available.saturating_sub(free);
        let filled = Command::new("fallocate")
            .args(["-l", &format!("{ballast}KiB")])
            .arg(self.path().join("ballast"))
            .status()?;
        anyhow::ensure!(filled.success(), "the disk could not be filled");
        Ok(())
    }

    /// Makes room again.
    pub fn clear(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.path().join("ballast"))?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open there keeps nothing but that.
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}
