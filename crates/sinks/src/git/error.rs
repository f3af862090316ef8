//! What can go wrong between rows and a repository.

use crate::error::SinkError;

/// How many characters of what a server says are passed on.
pub(super) const MOST_WORDS: usize = 1_000;

/// Why a repository could not be read or written. The variant decides what happens next.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    /// A setting does not do.
    #[error("{0}")]
    Configuration(String),
    /// The server does not accept the credentials.
    #[error("git auth failed: {0}")]
    Authentication(String),
    /// The server understood the push and does not want it.
    #[error("git push rejected: {0}")]
    Rejected(String),
    /// The connection broke or the server is not well.
    #[error("git transport: {0}")]
    Transport(String),
    /// The server, or the way to it, is too slow. Trying again at once would only take as long.
    #[error("git transport: {0}")]
    Slow(String),
    /// The server sends more than anybody needs.
    #[error("git limit: {what} is larger than {limit}; {advice}")]
    Excess {
        /// What it sends.
        what: String,
        /// How much of it would have been accepted.
        limit: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// Somebody else moved the branch since it was looked at.
    #[error("{0}")]
    Moved(String),
    /// The local copy of the repository cannot be used; it can be thrown away.
    #[error("git mirror: {0}")]
    Mirror(String),
    /// The repository no longer holds what was left there, so changes cannot be applied.
    #[error("{0}")]
    OutOfStep(String),
    /// Something that has a class already.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl GitError {
    /// Whether the same call may well succeed a moment later.
    pub(super) fn is_transient(&self) -> bool {
        matches!(
            self,
            GitError::Transport(_) | GitError::Sink(SinkError::Transient(_))
        )
    }

    /// More of something than a repository for exports has.
    pub(super) fn excess(what: impl Into<String>, limit: u64) -> Self {
        let limit = if limit >= 1 << 20 {
            format!("{} MiB", limit >> 20)
        } else {
            limit.to_string()
        };
        GitError::Excess {
            what: what.into(),
            limit,
            advice: "use a repository of its own for exports, and check that the server is the \
                     one that is meant",
        }
    }

    /// An answer that is not the Git protocol, or not all of it.
    pub(super) fn garbled(what: &str) -> Self {
        GitError::Transport(format!("the server's answer {what}"))
    }
}

/// Every failure of libgit2 concerns the local copy; the wire is not its business.
impl From<git2::Error> for GitError {
    fn from(error: git2::Error) -> Self {
        GitError::Mirror(error.message().to_owned())
    }
}

impl From<std::io::Error> for GitError {
    fn from(error: std::io::Error) -> Self {
        GitError::Mirror(error.to_string())
    }
}

impl From<GitError> for SinkError {
    fn from(error: GitError) -> Self {
        let text = error.to_string();
        match error {
            GitError::Configuration(_)
            | GitError::Authentication(_)
            | GitError::Rejected(_)
            | GitError::Excess { .. } => SinkError::Terminal(text),
            GitError::Transport(_)
            | GitError::Slow(_)
            | GitError::Moved(_)
            | GitError::Mirror(_) => SinkError::Transient(text),
            GitError::OutOfStep(_) => SinkError::OutOfStep(text),
            GitError::Sink(error) => error,
        }
    }
}

/// The beginning of what a server says, on one line: it may say megabytes, and anything.
pub(super) fn words(text: &str) -> String {
    let shown: String = text.chars().take(MOST_WORDS).collect();
    let clean = shown.split(|c: char| c.is_whitespace() || c.is_control());
    let clean: Vec<&str> = clean.filter(|word| !word.is_empty()).collect();
    let cut = if shown.len() < text.len() { " …" } else { "" };
    format!("{}{cut}", clean.join(" "))
}

/// What a server's refusal of a ref update means. `reason` is its word in the report, `remarks`
/// what it told people beside it.
pub(super) fn refusal(reason: &str, remarks: &str) -> GitError {
    let (reason, remarks) = (words(reason), words(remarks));
    let text = if remarks.is_empty() {
        reason.clone()
    } else {
        format!("{reason}: {remarks}")
    };
    let lower = reason.to_ascii_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if any(&[
        "non-fast-forward",
        "non fast forward",
        "fetch first",
        "stale info",
        "incorrect old value",
        "reference already exists",
        "cannot lock ref",
        "unable to resolve reference",
        "failed to update ref",
        "failed to lock",
        "unable to lock",
    ]) {
        GitError::Moved(format!("git push: {text}"))
    } else if any(&[
        "unpack",
        "index-pack",
        "missing necessary objects",
        "internal",
        "timed out",
        "temporar",
    ]) {
        GitError::Transport(text)
    } else {
        // Hooks, protected branches, hidden refs, missing rights: nothing here heals by itself.
        GitError::Rejected(text)
    }
}

/// What a message of the server means that it sends instead of an answer.
pub(super) fn complaint(text: &str) -> GitError {
    let text = words(text);
    let lower = text.to_ascii_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if any(&[
        "access denied",
        "authentication",
        "authorization failed",
        "invalid credentials",
        "permission denied",
        "not authorized",
        "unauthorized",
        "forbidden",
        "read only",
        "read-only",
        "not found",
        "does not exist",
        "does not appear to be a git repository",
        "not a git repository",
        "not allowed",
        "not permitted",
    ]) {
        GitError::Authentication(text)
    } else if any(&["protected branch", "hook declined"]) {
        GitError::Rejected(text)
    } else {
        GitError::Transport(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(error: GitError) -> &'static str {
        match error {
            GitError::Moved(_) => "moved",
            other => match SinkError::from(other) {
                SinkError::Transient(_) => "transient",
                SinkError::Terminal(_) => "terminal",
                SinkError::Forbidden(_) => "forbidden",
                SinkError::OutOfStep(_) => "out of step",
            },
        }
    }

    #[test]
    fn refusals_have_classes() {
        for (reason, expected) in [
            ("non-fast-forward", "moved"),
            ("fetch first", "moved"),
            ("failed to update ref", "moved"),
            ("incorrect old value provided", "moved"),
            ("protected branch hook declined", "terminal"),
            ("pre-receive hook declined", "terminal"),
            ("deny updating a hidden ref", "terminal"),
            ("branch is currently checked out", "terminal"),
            ("unpacker error", "transient"),
            ("missing necessary objects", "transient"),
        ] {
            assert_eq!(class(refusal(reason, "")), expected, "{reason}");
        }
    }

    /// S23 to S25. Digits inside ids, ports and paths mean nothing.
    #[test]
    fn complaints_have_classes() {
        for (text, expected) in [
            ("remote: protected branch hook declined", "terminal"),
            ("ERROR: Repository not found.", "terminal"),
            (
                "fatal: '/r' does not appear to be a git repository",
                "terminal",
            ),
            ("Permission denied (publickey)", "terminal"),
            ("503 service unavailable", "transient"),
            ("something odd", "transient"),
            ("cannot read 40153429 at port 4014", "transient"),
        ] {
            assert_eq!(class(complaint(text)), expected, "{text}");
        }
    }
}
