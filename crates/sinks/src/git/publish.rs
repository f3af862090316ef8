//! From a proposal to a commit on the branch.
//!
//! A proposal says what to change in the files of a commit, whichever commit that is. If somebody
//! else moves the branch meanwhile, the same proposal is applied to the new commit and pushed
//! again, so nothing of theirs is lost and nothing is ever forced.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use git2::{ObjectType, Oid, Repository};
use jiff::Timestamp;

use super::{
    error::GitError,
    limits::{LARGEST_FILE, Limits},
    local::{move_reference, open_local},
    message::Author,
    mirror::Mirror,
    pack::{Pack, PackWriter, name_of_large},
    protocol::{Fetched, Move, Service, Want},
    root,
    settings::Remote,
    signature::Signer,
    spool,
    transport::{Server, Transport},
    tree::Files,
    workers::{blocking, in_background},
};
use crate::{
    error::SinkError,
    layout::{Body, Held, LayoutError, RepoPath, path::RESERVED},
};

/// How often somebody else may be faster before a delivery gives up for now.
const MOST_MOVES: u32 = 12;
/// How often a broken connection is tried again.
const MOST_BREAKS: u32 = 2;
/// Files above this size are never held in memory as a whole.
const LARGE: usize = 1 << 20;

/// A change of files.
pub(super) trait Proposal: Send + Sync {
    /// Changes the files of a commit. Called again for another commit if the first was outrun.
    fn apply(&self, tree: &mut Tree<'_>) -> Result<(), GitError>;

    /// Called with the files as they were written.
    fn wrote(&self, _files: &mut Files<'_>) -> Result<(), GitError> {
        Ok(())
    }

    /// What the commit says.
    fn message(&self) -> String;

    /// When it is made.
    fn at(&self) -> Timestamp;
}

/// The files of a commit while a proposal changes them.
pub(super) struct Tree<'r> {
    /// Looking may read further directories.
    pub(super) files: RefCell<Files<'r>>,
    pack: PackWriter,
    tally: Tally,
    /// What went wrong while somebody only looked.
    broken: RefCell<Option<GitError>>,
}

/// What a proposal changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) written: u64,
    pub(super) removed: u64,
    pub(super) bytes: u64,
}

impl Tally {
    fn wrote(&mut self, path: &str, bytes: u64) {
        if !is_record(path) {
            self.written += 1;
            self.bytes += bytes;
        }
    }
}

/// Kollect's own records are no rows and do not count.
fn is_record(path: &str) -> bool {
    path.split('/').next() == Some(RESERVED)
}

/// What became of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Published {
    /// The commit; none if the branch held everything already.
    pub(super) commit: Option<Oid>,
    pub(super) tally: Tally,
}

impl Tree<'_> {
    /// Puts a file of moderate size.
    pub(super) fn put(&mut self, path: &str, content: &[u8]) -> Result<(), GitError> {
        let id = Oid::hash_object(ObjectType::Blob, content)?;
        if self.files.get_mut().put(path, id)? {
            self.pack.add_named(id, ObjectType::Blob, content, None)?;
            self.tally.wrote(path, content.len() as u64);
        }
        Ok(())
    }

    /// Puts a file of any size.
    pub(super) fn put_body(&mut self, path: &str, body: &Body) -> Result<(), GitError> {
        let mut start = Vec::new();
        for piece in body.pieces() {
            start.extend(piece);
            if start.len() >= LARGE {
                break;
            }
        }
        if start.is_empty() {
            return Err(GitError::Configuration(format!(
                "{path:?} would be an empty file"
            )));
        }
        if start.len() < LARGE {
            return self.put(path, &start);
        }
        drop(start);
        let (id, length) = name_of_large(|| body.pieces())?;
        if length > LARGEST_FILE {
            return Err(GitError::Configuration(format!(
                "{path:?} would be a file of more than {} MiB, which many hosts refuse; set \
                 maxExportBytes, or layout.mode perResource",
                LARGEST_FILE >> 20,
            )));
        }
        if self.files.get_mut().put(path, id)? {
            self.pack.add_large(id, length, body.pieces())?;
            self.tally.wrote(path, length);
        }
        Ok(())
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&mut self, path: &str) -> Result<(), GitError> {
        if self.files.get_mut().remove(path)? {
            self.tally.removed += u64::from(!is_record(path));
        }
        Ok(())
    }

    /// Why a layout did not work out; if looking at this tree was the reason, that reason.
    pub(super) fn failure(&self, error: LayoutError) -> GitError {
        let broken = self.broken.borrow_mut().take();
        broken.unwrap_or_else(|| GitError::Sink(error.into()))
    }

    fn look<T>(
        &self,
        look: impl FnOnce(&mut Files<'_>) -> Result<T, GitError>,
    ) -> Result<T, SinkError> {
        look(&mut self.files.borrow_mut()).map_err(|error| {
            let text = error.to_string();
            *self.broken.borrow_mut() = Some(error);
            SinkError::transient(text)
        })
    }
}

/// What a layout may see of the branch.
impl Held for Tree<'_> {
    fn read(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, SinkError> {
        self.look(|files| files.content(path.as_str()))
    }

    fn contains(&self, path: &RepoPath) -> Result<bool, SinkError> {
        self.look(|files| Ok(files.get(path.as_str())?.is_some()))
    }

    fn is_directory(&self, directory: &str) -> Result<bool, SinkError> {
        self.look(|files| files.is_directory(directory))
    }

    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, SinkError> {
        self.look(|files| {
            let found = files.below(directory)?;
            let paths = found.iter().filter_map(|path| RepoPath::clean(path).ok());
            Ok(paths.collect())
        })
    }
}

/// Brings proposals to a branch.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) remote: Remote,
    pub(super) url: String,
    pub(super) branch: String,
    pub(super) depth: u32,
    pub(super) author: Author,
    pub(super) signer: Option<Signer>,
    pub(super) work_dir: PathBuf,
    pub(super) limits: Limits,
}

impl Publisher {
    /// Applies a proposal and pushes the result, unless the branch holds it already.
    pub(super) async fn publish(
        self: &Arc<Self>,
        proposal: Arc<dyn Proposal>,
    ) -> Result<Published, GitError> {
        let mirror = match &self.remote {
            Remote::Server(_) => {
                Some(Mirror::acquire(&self.work_dir, &self.url, &self.branch).await?)
            }
            Remote::Local(_) => None,
        };
        let (mut moves, mut breaks, mut rebuilt) = (0, 0, false);
        loop {
            let outcome = match (&self.remote, &mirror) {
                (Remote::Server(transport), Some(mirror)) => {
                    self.attempt(transport, mirror, &proposal).await
                }
                (Remote::Local(path), _) => self.locally(path, &proposal).await,
                (Remote::Server(_), None) => unreachable!("a server has a mirror"),
            };
            match outcome {
                Err(GitError::Moved(_)) if moves < MOST_MOVES => {
                    // At random, so that those who lost do not meet again.
                    let most = 25 << moves.min(6);
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=most))).await;
                    moves += 1;
                }
                Err(error) if error.is_transient() && breaks < MOST_BREAKS => {
                    tokio::time::sleep(Duration::from_secs(1 << breaks)).await;
                    breaks += 1;
                }
                Err(GitError::Mirror(problem)) if !rebuilt && mirror.is_some() => {
                    tracing::warn!(repository = %self.url, %problem, "fetching the repository anew");
                    rebuilt = true;
                    if let Some(mirror) = &mirror {
                        blocking(mirror, Mirror::discard).await?;
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Looks whether the repository can be reached and pushed to, as far as one can tell without
    /// pushing.
    pub(super) async fn probe(&self) -> Result<(), GitError> {
        match &self.remote {
            Remote::Server(transport) => {
                let server = transport.connect(self.limits).await?;
                let session = server.open(Service::ReceivePack, &self.branch).await?;
                session.leave().await;
                Ok(())
            }
            Remote::Local(path) => {
                let (path, branch) = (path.clone(), self.branch.clone());
                in_background((), move |()| open_local(&path, &branch).map(drop)).await
            }
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        transport: &Transport,
        mirror: &Mirror,
        proposal: &Arc<dyn Proposal>,
    ) -> Result<Published, GitError> {
        let server = transport.connect(self.limits).await?;
        let push = server.open(Service::ReceivePack, &self.branch).await?;
        let tip = self
            .up_to_date(&server, mirror, push.advertisement.tip)
            .await?;
        let (publisher, proposed) = (Arc::clone(self), Arc::clone(proposal));
        let composed = blocking(mirror, move |mirror| {
            let repository = mirror.open()?;
            publisher.compose(&repository, mirror.path(), tip, proposed.as_ref())
        })
        .await?;
        let Composed { commit, tally } = composed;
        let Some((id, pack)) = commit else {
            push.leave().await;
            return Ok(Published {
                commit: None,
                tally,
            });
        };
        let update = Move {
            branch: &self.branch,
            from: tip,
            to: id,
        };
        let advertisement = push.advertisement.clone();
        let head = update.encode(&advertisement)?;
        let answer = push.ask(head, Some(pack.clone())).await?;
        update.outcome(answer, &advertisement).await?;
        // The branch has the commit now, whatever becomes of the mirror.
        let kept = blocking(mirror, move |mirror| {
            let repository = mirror.open()?;
            pack.store(&repository.odb()?)?;
            mirror.advance(&repository, id)
        });
        if let Err(problem) = kept.await {
            tracing::warn!(repository = %self.url, %problem, "the mirror will be fetched anew");
            blocking(mirror, Mirror::discard).await?;
        }
        Ok(Published {
            commit: Some(id),
            tally,
        })
    }

    /// Makes the mirror hold what the server has now, and returns that.
    async fn up_to_date(
        &self,
        server: &Server,
        mirror: &Mirror,
        tip: Option<Oid>,
    ) -> Result<Option<Oid>, GitError> {
        let most = self.limits.mirror;
        let (Some(tip), held, shallow) = blocking(mirror, move |mirror| {
            if mirror.is_worn(most) {
                mirror.discard()?;
            }
            let repository = mirror.open()?;
            let held = mirror.tip(&repository);
            // The branch may have been put back to a commit that was here before.
            if let Some(tip) = tip
                && held != Some(tip)
                && repository.odb()?.exists(tip)
            {
                mirror.advance(&repository, tip)?;
                return Ok((Some(tip), Some(tip), Vec::new()));
            }
            Ok((tip, held, mirror.shallow()?))
        })
        .await?
        else {
            return Ok(None);
        };
        if held == Some(tip) {
            return Ok(held);
        }
        let session = server.open(Service::UploadPack, &self.branch).await?;
        let advertisement = session.advertisement.clone();
        let Some(tip) = advertisement.tip else {
            session.leave().await;
            return Ok(None);
        };
        if held == Some(tip) {
            session.leave().await;
            return Ok(held);
        }
        let want = Want {
            tip,
            depth: self.depth,
            have: held,
            shallow: &shallow,
        };
        let answer = session.ask(want.encode(&advertisement), None).await?;
        let most = self.limits.shallow;
        let fetched = Fetched::begin(answer, &advertisement, most).await?;
        spool::receive(mirror, fetched, tip, shallow, self.limits.fetch).await?;
        Ok(Some(tip))
    }

    async fn locally(
        self: &Arc<Self>,
        path: &Path,
        proposal: &Arc<dyn Proposal>,
    ) -> Result<Published, GitError> {
        let (publisher, proposed, path) = (Arc::clone(self), Arc::clone(proposal), path.to_owned());
        in_background((), move |()| {
            root::secure(&publisher.work_dir)?;
            let (repository, reference) = open_local(&path, &publisher.branch)?;
            let tip = match repository.refname_to_id(&reference) {
                Ok(tip) => Some(tip),
                Err(error) if error.code() == git2::ErrorCode::NotFound => None,
                Err(error) => return Err(error.into()),
            };
            let directory = &publisher.work_dir;
            let Composed { commit, tally } =
                publisher.compose(&repository, directory, tip, proposed.as_ref())?;
            if let Some((id, pack)) = &commit {
                pack.store(&repository.odb()?)?;
                move_reference(&repository, &reference, tip, *id)?;
            }
            Ok(Published {
                commit: commit.map(|(id, _)| id),
                tally,
            })
        })
        .await
    }

    /// Makes the commit of a proposal, unless nothing changes. Blocking.
    fn compose(
        &self,
        repository: &Repository,
        directory: &Path,
        tip: Option<Oid>,
        proposal: &dyn Proposal,
    ) -> Result<Composed, GitError> {
        let before = match tip {
            Some(tip) => Some(repository.find_commit(tip)?.tree_id()),
            None => None,
        };
        let mut tree = Tree {
            files: RefCell::new(Files::open(repository, before)?),
            pack: PackWriter::create(directory)?,
            tally: Tally::default(),
            broken: RefCell::new(None),
        };
        proposal.apply(&mut tree)?;
        let Tree {
            files,
            mut pack,
            tally,
            ..
        } = tree;
        let mut files = files.into_inner();
        let empty = before.is_none() && files.is_empty();
        let after = files.write(&mut pack)?;
        proposal.wrote(&mut files)?;
        if empty || Some(after) == before {
            return Ok(Composed {
                commit: None,
                tally,
            });
        }
        let author = self.author.line(proposal.at());
        let parent = tip.map(|tip| format!("parent {tip}\n")).unwrap_or_default();
        let head = format!("tree {after}\n{parent}author {author}\ncommitter {author}\n");
        let message = proposal.message();
        let commit = match &self.signer {
            None => format!("{head}\n{message}"),
            Some(signer) => {
                let signature = signer.header(&format!("{head}\n{message}"))?;
                format!("{head}{signature}\n{message}")
            }
        };
        let id = pack.add(ObjectType::Commit, commit.as_bytes())?;
        Ok(Composed {
            commit: Some((id, pack.finish()?)),
            tally,
        })
    }
}

struct Composed {
    commit: Option<(Oid, Pack)>,
    tally: Tally,
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
