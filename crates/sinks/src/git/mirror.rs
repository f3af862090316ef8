//! The local copy of a branch: its newest commit with all directories, and as little history as the
//! settings ask for.
//!
//! A mirror is a cache. It holds nothing that the server does not have, so whenever something is
//! wrong with it, it is thrown away and fetched again. It is used by one delivery at a time, in this
//! process and beyond.

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    io::ErrorKind,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
    time::{Duration, Instant, SystemTime},
};

use git2::{Oid, Repository, RepositoryInitOptions};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::{error::GitError, root};

/// Mirrors that nobody used for so long are removed.
const UNUSED: Duration = Duration::from_hours(48);
/// A mirror with more packs than this is fetched again: every look-up asks all of them.
const MOST_PACKS: usize = 200;
/// Single objects in one of the 256 directories of a mirror that make it worth fetching again; git
/// itself looks at one of them, too.
const MOST_SINGLE: usize = 80;

/// Bytes of all mirrors together. Above it, those that were not used for longest are removed.
const MOST_TOGETHER: u64 = 4 << 30;
/// How often that is looked at.
const MEASURED: Duration = Duration::from_mins(1);

/// A mirror and the right to use it, which ends with the last clone of the handle. Work that cannot
/// be cancelled keeps a clone, so that nobody else begins before it has ended.
#[derive(Debug, Clone)]
pub(super) struct Mirror(Arc<Held>);

#[derive(Debug)]
struct Held {
    path: PathBuf,
    branch: String,
    // In this order: other processes may come as soon as this one is done.
    _machine: File,
    _process: OwnedMutexGuard<()>,
}

impl Mirror {
    /// Waits for the mirror of a branch. Waiting ends with the future.
    pub(super) async fn acquire(root: &Path, url: &str, branch: &str) -> Result<Self, GitError> {
        let path = root.join(key(url, branch));
        let process = turn(&path).lock_owned().await;
        let (prepared, place) = (root.to_owned(), path.clone());
        let lock = tokio::task::spawn_blocking(move || prepare(&prepared, &place))
            .await
            .map_err(std::io::Error::other)??;
        let mut pause = Duration::from_millis(20);
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(500));
                }
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        // The time of last use, for whoever looks for unused mirrors.
        lock.set_modified(SystemTime::now())?;
        Ok(Self(Arc::new(Held {
            path,
            branch: branch.to_owned(),
            _machine: lock,
            _process: process,
        })))
    }

    /// The directory, in which temporary files may be made.
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Opens the repository, made if it is not there. Blocking.
    pub(super) fn open(&self) -> Result<Repository, GitError> {
        match Repository::open_bare(self.path()) {
            Ok(repository) => Ok(repository),
            Err(_) => {
                self.discard()?;
                fs::DirBuilder::new().mode(0o750).create(self.path())?;
                let mut options = RepositoryInitOptions::new();
                // Nothing of the machine's templates and hooks gets in.
                options
                    .bare(true)
                    .external_template(false)
                    .initial_head(&self.0.branch);
                let repository = Repository::init_opts(self.path(), &options)?;
                // Objects here live for hours; the time to compress them well is never earned back.
                repository.config()?.set_i32("core.compression", 1)?;
                Ok(repository)
            }
        }
    }

    /// The commit that the mirror holds. Blocking.
    pub(super) fn tip(&self, repository: &Repository) -> Option<Oid> {
        repository.refname_to_id(&self.reference()).ok()
    }

    /// Notes which commit the mirror holds now. Blocking.
    pub(super) fn advance(&self, repository: &Repository, tip: Oid) -> Result<(), GitError> {
        repository.reference(&self.reference(), tip, true, "kollect")?;
        Ok(())
    }

    /// The commits that are here without their parents. Blocking.
    pub(super) fn shallow(&self) -> Result<Vec<Oid>, GitError> {
        match fs::read_to_string(self.path().join("shallow")) {
            Ok(text) => Ok(text.lines().map(str::parse).collect::<Result<_, _>>()?),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes which commits are here without their parents. Blocking.
    pub(super) fn set_shallow(&self, commits: &[Oid]) -> Result<(), GitError> {
        let lines: Vec<String> = commits.iter().map(|id| format!("{id}\n")).collect();
        Ok(fs::write(self.path().join("shallow"), lines.concat())?)
    }

    /// Whether so many single objects and packs have gathered that fetching again is cheaper than
    /// looking through them, or than keeping them. Blocking.
    pub(super) fn is_worn(&self, most_bytes: u64) -> bool {
        let (single, packs) = contents(self.path());
        // Each pack has an index beside it.
        single.files > MOST_SINGLE
            || packs.files / 2 > MOST_PACKS
            || size(single, packs) > most_bytes
    }

    /// Throws the mirror away; the next one to open it begins anew. Blocking.
    pub(super) fn discard(&self) -> Result<(), GitError> {
        match fs::remove_dir_all(self.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.0.branch)
    }
}

/// The bytes that the mirror of a branch takes. Blocking.
pub(super) fn bytes(root: &Path, url: &str, branch: &str) -> u64 {
    let (single, packs) = contents(&root.join(key(url, branch)));
    size(single, packs)
}

/// Files of a directory.
#[derive(Debug, Clone, Copy, Default)]
struct Gathered {
    files: usize,
    bytes: u64,
}

/// The single objects in one of the directories of a mirror, and its packs.
fn contents(mirror: &Path) -> (Gathered, Gathered) {
    let of = |directory: &str| {
        let mut gathered = Gathered::default();
        let entries = fs::read_dir(mirror.join("objects").join(directory));
        for entry in entries.into_iter().flatten().flatten() {
            gathered.files += 1;
            gathered.bytes += entry.metadata().map_or(0, |found| found.len());
        }
        gathered
    };
    (of("17"), of("pack"))
}

/// The bytes of a mirror, as far as one can tell from one of the directories of single objects.
fn size(single: Gathered, packs: Gathered) -> u64 {
    packs.bytes.saturating_add(single.bytes.saturating_mul(256))
}

/// The name of a mirror: the same for the same repository and branch, however often its host
/// changes its address.
fn key(url: &str, branch: &str) -> String {
    let digest = Sha256::new()
        .chain_update(url)
        .chain_update([0])
        .chain_update(branch)
        .finalize();
    let number = digest[..16]
        .iter()
        .fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    format!("{number:032x}")
}

/// Whose turn it is with a mirror, within this process. The queue of a mutex is fair, so nobody
/// waits for ever.
fn turn(path: &Path) -> Arc<AsyncMutex<()>> {
    static TURNS: LazyLock<Mutex<HashMap<PathBuf, Weak<AsyncMutex<()>>>>> =
        LazyLock::new(Mutex::default);
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    turns.retain(|_, turn| turn.strong_count() > 0);
    if let Some(turn) = turns.get(path).and_then(Weak::upgrade) {
        return turn;
    }
    let turn = Arc::new(AsyncMutex::new(()));
    turns.insert(path.to_owned(), Arc::downgrade(&turn));
    turn
}

/// Sees to the directory of the mirrors and opens the lock of one. The lock lies beside the mirror,
/// so that throwing the mirror away does not give up the right to it.
fn prepare(root: &Path, path: &Path) -> Result<File, GitError> {
    root::secure(root)?;
    sweep(root, path);
    Ok(File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.with_extension("lock"))?)
}

/// Removes mirrors that nobody uses any more, and those that were not used for longest if all of
/// them together have grown too large. What cannot be removed now can be removed later.
fn sweep(root: &Path, ours: &Path) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let measure = {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= MEASURED);
        if due {
            *last = Some(Instant::now());
        }
        due
    };
    sweep_to(root, ours, measure.then_some(MOST_TOGETHER));
}

fn sweep_to(root: &Path, ours: &Path, most: Option<u64>) {
    let now = SystemTime::now();
    let mut mirrors = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let mirror = entry.path();
        let lock = mirror.with_extension("lock");
        let age = fs::metadata(&lock)
            .and_then(|found| found.modified())
            .ok()
            .and_then(|used| now.duration_since(used).ok());
        if mirror.extension().is_none()
            && let Some(age) = age
            && mirror.is_dir()
        {
            mirrors.push((age, mirror));
        }
    }
    mirrors.sort();
    let mut total = 0_u64;
    // The youngest first: who is left over when there is no room has not been used for longest.
    for (age, mirror) in mirrors {
        let unused = age >= UNUSED;
        let crowded = !unused
            && most.is_some_and(|most| {
                let (single, packs) = contents(&mirror);
                total = total.saturating_add(size(single, packs));
                total > most
            });
        if mirror == ours || !(unused || crowded) {
            continue;
        }
        if let Ok(lock) = File::open(mirror.with_extension("lock"))
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(&mirror);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_on_repository_and_branch() {
        let name = key("https://git.example/r.git", "main");
        assert_eq!(name.len(), 32);
        assert_eq!(name, key("https://git.example/r.git", "main"));
        assert_ne!(name, key("https://git.example/r.git", "other"));
        assert_ne!(name, key("https://git.example/r.gitm", "ain"));
    }

    #[tokio::test]
    async fn one_at_a_time_and_waiting_can_be_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("mirrors");
        let first = Mirror::acquire(&root, "u", "main").await.unwrap();
        let kept = first.clone();
        drop(first);
        let second = Mirror::acquire(&root, "u", "main");
        let waited = tokio::time::timeout(Duration::from_millis(100), second).await;
        assert!(waited.is_err(), "a clone keeps the right");
        Mirror::acquire(&root, "u", "other").await.unwrap();
        drop(kept);
        Mirror::acquire(&root, "u", "main").await.unwrap();
    }

    #[tokio::test]
    async fn another_process_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("mirrors");
        drop(Mirror::acquire(&root, "u", "main").await.unwrap());
        let lock = root.join(key("u", "main")).with_extension("lock");
        // A lock of another open file is like one of another process.
        let other = File::options().write(true).open(lock).unwrap();
        other.try_lock().unwrap();
        let waiting = Mirror::acquire(&root, "u", "main");
        assert!(
            tokio::time::timeout(Duration::from_millis(200), waiting)
                .await
                .is_err()
        );
        drop(other);
        Mirror::acquire(&root, "u", "main").await.unwrap();
    }

    #[tokio::test]
    async fn a5_mirrors_have_a_size_alone_and_together() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("mirrors");
        let mut paths = Vec::new();
        for (url, seconds_ago) in [("old", 300), ("busy", 200), ("middle", 100), ("new", 0)] {
            let mirror = Mirror::acquire(&root, url, "main").await.unwrap();
            mirror.open().unwrap();
            assert!(!mirror.is_worn(1000));
            let pack = mirror.path().join("objects/pack");
            fs::create_dir_all(&pack).unwrap();
            fs::write(pack.join("large.pack"), vec![0; 1500]).unwrap();
            assert!(mirror.is_worn(1000));
            let path = mirror.path().to_owned();
            drop(mirror);
            let lock = File::options()
                .write(true)
                .open(path.with_extension("lock"))
                .unwrap();
            let used = SystemTime::now() - Duration::from_secs(seconds_ago);
            lock.set_modified(used).unwrap();
            paths.push((path, lock));
        }
        paths[1].1.try_lock().unwrap();
        sweep_to(&root, Path::new(""), Some(3500));
        let left: Vec<bool> = paths.iter().map(|(path, _)| path.exists()).collect();
        assert_eq!(left, [false, true, true, true]);
    }

    #[tokio::test]
    async fn a_broken_mirror_is_made_anew_and_an_unused_one_goes() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("mirrors");
        let mirror = Mirror::acquire(&root, "u", "main").await.unwrap();
        mirror.open().unwrap();
        fs::remove_file(mirror.path().join("HEAD")).unwrap();
        fs::write(mirror.path().join("rubbish"), "x").unwrap();
        mirror.open().unwrap();
        assert!(!mirror.path().join("rubbish").exists());
        let path = mirror.path().to_owned();
        drop(mirror);

        let long_ago = SystemTime::now() - UNUSED - Duration::from_secs(1);
        let lock = File::options()
            .write(true)
            .open(path.with_extension("lock"))
            .unwrap();
        lock.set_modified(long_ago).unwrap();
        drop(Mirror::acquire(&root, "v", "main").await.unwrap());
        assert!(!path.exists());
    }
}
