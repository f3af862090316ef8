//! Documents at a revision of a Git repository, read without a checkout.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use git2::{ObjectType, Repository, TreeWalkMode, TreeWalkResult};

use super::{documents, item::Items};
use crate::interrupt;

/// The largest document that is read.
const LARGEST: usize = 256 * 1024 * 1024;

/// Reads all documents of a revision, below a directory of the repository.
pub(super) fn read(path: &Path, revision: &str, below: &str) -> Result<Items> {
    let repository = Repository::open(path).map_err(|error| {
        anyhow::anyhow!(
            "{} is no Git repository: {}",
            path.display(),
            error.message()
        )
    })?;
    let object = repository.revparse_single(revision);
    let object =
        object.map_err(|_| anyhow::anyhow!("{} has no revision {revision:?}", path.display()))?;
    let tree = object.peel_to_tree().context("the revision is no commit")?;
    let mut items = Items::default();
    let mut failure = None;
    let below = below.trim_matches('/');
    let walked = tree.walk(TreeWalkMode::PreOrder, |directory, entry| {
        let name = entry.name().unwrap_or_default();
        let path = format!("{directory}{name}");
        let inside = below.is_empty() || path.starts_with(&format!("{below}/")) || path == below;
        if entry.kind() != Some(ObjectType::Blob) || !inside || !documents::is_document(name) {
            return TreeWalkResult::Ok;
        }
        let read = || -> Result<()> {
            interrupt::check()?;
            let blob = repository.find_blob(entry.id())?;
            if blob.size() > LARGEST {
                bail!("it is larger than {LARGEST} bytes");
            }
            let text = std::str::from_utf8(blob.content()).context("it is no text")?;
            let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
            documents::add(&mut items, text, &parts)
        };
        let mut read = read;
        match read() {
            Ok(()) => TreeWalkResult::Ok,
            Err(error) => {
                failure = Some(error.context(path));
                TreeWalkResult::Abort
            }
        }
    });
    match failure {
        Some(error) => Err(error),
        None => {
            walked.context("the repository cannot be read")?;
            Ok(items)
        }
    }
}
