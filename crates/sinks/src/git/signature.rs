//! Signed commits, for branches that accept no others.

use std::{fmt, sync::Arc};

use russh::keys::{HashAlg, PrivateKey, ssh_key::LineEnding};

use super::error::GitError;

/// Signs commits with an SSH key, in the way that `gpg.format=ssh` of git verifies.
#[derive(Clone)]
pub(super) struct Signer(Arc<PrivateKey>);

impl Signer {
    pub(super) fn new(key: Arc<PrivateKey>) -> Self {
        Self(key)
    }

    /// The header that carries the signature over the rest of a commit.
    pub(super) fn header(&self, commit: &str) -> Result<String, GitError> {
        let refused =
            |_| GitError::Configuration("the signing key of the Secret cannot sign".into());
        let signature = self
            .0
            .sign("git", HashAlg::Sha512, commit.as_bytes())
            .map_err(refused)?
            .to_pem(LineEnding::LF)
            .map_err(refused)?;
        // Lines of a header go on with a blank.
        Ok(format!(
            "gpgsig {}\n",
            signature.trim_end().replace('\n', "\n ")
        ))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.0.fingerprint(HashAlg::Sha256))
    }
}
