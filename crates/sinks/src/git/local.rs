//! Repositories on this machine.

use std::path::Path;

use git2::{Oid, Repository};

use super::error::GitError;

/// A repository on this machine and the full name of the branch. Blocking.
pub(super) fn open_local(path: &Path, branch: &str) -> Result<(Repository, String), GitError> {
    let reference = format!("refs/heads/{branch}");
    let repository = Repository::open(path).map_err(|error| {
        GitError::Configuration(format!(
            "the file:// endpoint is no Git repository that can be used: {}",
            error.message()
        ))
    })?;
    let checked_out = repository
        .find_reference("HEAD")
        .ok()
        .and_then(|head| head.symbolic_target().ok().flatten().map(str::to_owned));
    if !repository.is_bare() && checked_out.as_deref() == Some(&reference) {
        return Err(GitError::Rejected(format!(
            "branch {branch:?} is checked out at the file:// endpoint; use a bare repository"
        )));
    }
    Ok((repository, reference))
}

/// Moves a branch if it still is where it was. Blocking.
pub(super) fn move_reference(
    repository: &Repository,
    reference: &str,
    from: Option<Oid>,
    to: Oid,
) -> Result<(), GitError> {
    let log = "kollect: export";
    match from {
        Some(from) => repository.reference_matching(reference, to, true, from, log),
        None => repository.reference(reference, to, false, log),
    }
    .map_err(|error| match error.code() {
        git2::ErrorCode::Modified | git2::ErrorCode::Exists | git2::ErrorCode::Locked => {
            GitError::Moved("somebody else moved the branch".into())
        }
        _ => error.into(),
    })?;
    // A detached HEAD would leave whoever clones the repository without a branch.
    if let Ok(head) = repository.find_reference("HEAD")
        && head.kind() == Some(git2::ReferenceType::Direct)
    {
        repository.set_head(reference)?;
    }
    Ok(())
}
