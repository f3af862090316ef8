//! The user's cache directory: what is expensive to obtain is obtained once per machine.
//!
//! Several test processes may want the same thing at the same moment. [`build_once`] lets one of
//! them do the work while the others wait, and a half-made result is never visible.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::progress;

/// `$XDG_CACHE_HOME/kollect`, or `~/.cache/kollect`.
pub fn dir() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => std::env::home_dir()
            .context("no home directory: set HOME or XDG_CACHE_HOME")?
            .join(".cache"),
    };
    Ok(base.join("kollect"))
}

/// Makes directory `target` with `build` unless it exists already.
///
/// `build` fills a temporary sibling, which is renamed into place only on success. A file lock
/// makes parallel processes build once; it goes away with its holder, so a killed build leaves
/// nothing to clean up by hand.
pub fn build_once(target: &Path, build: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if target.is_dir() {
        return Ok(());
    }
    let lock = lock(&sibling(target, ".lock"))?;
    if target.is_dir() {
        return Ok(());
    }
    let partial = sibling(target, ".partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)
            .with_context(|| format!("cannot remove the unfinished {}", partial.display()))?;
    }
    fs::create_dir(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    build(&partial)?;
    fs::rename(&partial, target)
        .with_context(|| format!("cannot move {} into place", partial.display()))?;
    drop(lock);
    Ok(())
}

/// Takes a lock file, telling the person when somebody else holds it. Dropping it releases it.
pub fn lock(path: &Path) -> Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        progress::say(&format!(
            "waiting for another process that holds {}",
            path.display()
        ));
        file.lock()
            .with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::build_once;

    #[test]
    fn parallel_builders_build_once() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("made");
        let builds = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    build_once(&target, |dir| {
                        builds.fetch_add(1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(50));
                        fs::write(dir.join("program"), "done")?;
                        Ok(())
                    })
                    .unwrap();
                    assert_eq!(fs::read_to_string(target.join("program")).unwrap(), "done");
                });
            }
        });
        assert_eq!(builds.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_failed_build_leaves_nothing_and_can_be_repeated() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("made");
        let failed = build_once(&target, |dir| {
            fs::write(dir.join("half"), "")?;
            anyhow::bail!("compiler says no")
        });
        assert!(failed.is_err());
        assert!(!target.exists());
        build_once(&target, |dir| Ok(fs::write(dir.join("whole"), "")?)).unwrap();
        assert!(target.join("whole").exists());
        assert!(!target.join("half").exists());
    }
}
