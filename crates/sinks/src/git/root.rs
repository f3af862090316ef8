//! The directory of the mirrors, which nobody else may tamper with.

use std::{
    ffi::OsString,
    fs,
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use super::error::GitError;

/// Names the directory of the mirrors, exactly; no other is tried.
pub const VARIABLE: &str = "KOLLECT_GIT_MIRROR_DIR";

/// Where mirrors are kept: where [`VARIABLE`] says, else in the user's cache directory, else among
/// temporary files.
pub fn default_root(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let directory = |name: &str| {
        variable(name)
            .filter(|value| !value.to_string_lossy().trim().is_empty())
            .map(PathBuf::from)
    };
    if let Some(exactly) = directory(VARIABLE) {
        return exactly;
    }
    let cache = directory("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| directory("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("kollect").join("git-mirrors"));
    match cache {
        Some(cache) if secure(&cache).is_ok() => cache,
        _ => directory("TMPDIR")
            .unwrap_or_else(|| PathBuf::from("/tmp"))
            .join("kollect-git-mirrors"),
    }
}

/// Makes the directory, or makes sure that it is ours alone: whoever could write into it could make
/// us push what they like.
pub(super) fn secure(root: &Path) -> Result<(), GitError> {
    let unsafe_root = |why: &str| {
        GitError::Configuration(format!(
            "the directory for Git mirrors is not safe to reuse: {why}; choose another with \
             {VARIABLE}"
        ))
    };
    if let Some(parent) = root.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(root) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.into()),
    }
    let found = fs::symlink_metadata(root)?;
    if !found.is_dir() {
        Err(unsafe_root("it is a link or a file"))
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        Err(unsafe_root("it belongs to another user"))
    } else if found.mode() & 0o022 != 0 {
        Err(unsafe_root("others may write to it"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn s26_a_directory_that_others_could_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let link = directory.path().join("link");
        symlink(directory.path(), &link).unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        for root in [&open, &link, &file] {
            let error = secure(root).expect_err("unsafe");
            assert!(matches!(error, GitError::Configuration(_)), "{error:?}");
        }
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    }

    #[test]
    fn a_new_directory_is_private_and_can_be_reused() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("deep").join("mirrors");
        secure(&root).unwrap();
        assert_eq!(fs::metadata(&root).unwrap().mode() & 0o777, 0o700);
        secure(&root).unwrap();
    }

    #[test]
    fn the_variable_wins_over_the_cache_over_temporary_files() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().as_os_str().to_owned();
        let lookup = |pairs: &[(&str, OsString)]| {
            let pairs = pairs.to_vec();
            let pairs: Vec<(String, OsString)> = pairs
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            default_root(move |name| {
                pairs
                    .iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, value)| value.clone())
            })
        };
        assert_eq!(
            lookup(&[(VARIABLE, "/srv/mirrors".into()), ("HOME", home.clone())]),
            Path::new("/srv/mirrors")
        );
        assert_eq!(
            lookup(&[(VARIABLE, " ".into()), ("HOME", home.clone())]),
            directory.path().join(".cache/kollect/git-mirrors")
        );
        let mirrors = directory.path().join(".cache/kollect/git-mirrors");
        fs::set_permissions(&mirrors, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(
            lookup(&[("HOME", home), ("TMPDIR", "/var/tmp".into())]),
            Path::new("/var/tmp/kollect-git-mirrors")
        );
    }
}
