//! Temporary directories that do not pile up.
//!
//! Servers that live as long as the test process are never dropped: the process just ends. Their
//! directories (etcd alone preallocates 64 MB) would stay behind. So every directory is locked by
//! its owner, and whoever creates the next one removes those whose owner is gone.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::account::Account;
use crate::names::unique;

const LOCK: &str = ".lock";

/// A directory for the files of one server, removed on drop, or at the latest when the next one
/// is created after its owner died.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    // Held for the life of the directory; the kernel releases it however we die.
    _lock: File,
}

impl RunDir {
    /// Creates a directory whose name starts with `name`.
    pub fn new(name: &str) -> Result<Self> {
        let base = base()?;
        // Creation and sweeping exclude each other, else a sweeper could meet a directory that is
        // created but not locked yet.
        let guard = File::create(base.join(LOCK)).context("cannot create the run lock")?;
        guard.lock().context("cannot lock the run directories")?;
        sweep(&base);

        let path = base.join(unique(name));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        // Others may pass through (a server may run as another user) but not look around.
        fs::set_permissions(&path, Permissions::from_mode(0o711))?;
        let lock = File::create(path.join(LOCK))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a file inside.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that only the owner may read, and returns its path.
    pub fn write_private(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        use std::io::Write as _;
        let path = self.join(name);
        File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(content.as_ref()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next sweep.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The directory of all of them, and of what processes of this user agree upon (names with a dot).
pub(crate) fn base() -> Result<PathBuf> {
    let uid = Account::current()?.uid;
    let base = std::env::temp_dir().join(format!("kollect-{uid}"));
    match fs::create_dir(&base) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot create {}", base.display()));
        }
        _ => {}
    }
    // The name can be guessed, so somebody else could have made it first.
    let found = fs::symlink_metadata(&base)?;
    ensure!(
        found.is_dir() && found.uid() == uid,
        "{} is not a directory of ours: remove it or set TMPDIR",
        base.display()
    );
    fs::set_permissions(&base, Permissions::from_mode(0o711))?;
    Ok(base)
}

fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for path in entries
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
    {
        let abandoned = match File::open(path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => true,
        };
        if abandoned {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{RunDir, base};

    #[test]
    fn lives_as_long_as_its_owner() {
        let first = RunDir::new("unit").unwrap();
        let secret = first.write_private("token", "value").unwrap();
        assert_eq!(
            fs::metadata(&secret).unwrap().permissions().mode() & 0o777,
            0o600
        );

        let second = RunDir::new("unit").unwrap();
        assert!(
            secret.exists(),
            "the sweep of the second must spare the first"
        );
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
        assert!(second.path().exists());
    }

    #[test]
    fn what_a_dead_owner_left_is_swept() {
        let left = base().unwrap().join("unit-left-behind");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join(super::LOCK), "").unwrap();
        let _next = RunDir::new("unit").unwrap();
        assert!(!left.exists());
    }
}
