//! Bytes on their way into an object: in one piece if they are few, in parts if they are many.
//!
//! While one part is sent the next one is made, so two of them are in memory and never more. An
//! object changes when its last byte has arrived, or not at all.

use std::sync::Arc;

use bytes::Bytes;
use object_store::UpdateVersion;
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::{
    bucket::Bucket,
    fault::Refusal,
    store::{Expected, Label},
};
use crate::{
    error::SinkError,
    layout::{Body, RepoPath, body::hex},
};

/// Bytes of a part; what is shorter is sent in one piece.
pub(super) const PART: usize = 8 << 20;

/// An object that was written.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) version: UpdateVersion,
    pub(super) bytes: u64,
    /// Of its bytes, in hex.
    pub(super) sha256: String,
}

/// Writes an object, if it is still what is expected.
pub(super) async fn upload(
    bucket: &Arc<Bucket>,
    path: &RepoPath,
    body: &Body,
    label: &Label,
    expected: &Expected,
) -> Result<Written, SinkError> {
    let parts = Parts::new(body.pieces());
    let (mut parts, first) = next(parts).await?;
    let first = first.unwrap_or_default();
    if parts.is_done() {
        let (bytes, sha256) = (first.len() as u64, parts.digest());
        let written = bucket.put(path, first, label, expected).await;
        let version = settle(bucket, path, label, written).await?;
        return Ok(Written {
            version,
            bytes,
            sha256,
        });
    }
    let mut upload = match bucket.begin(path, label, expected).await {
        Ok(upload) => upload,
        Err(Refusal::Conflict) => return Err(changed(bucket, path)),
        Err(Refusal::Failed(error)) => return Err(error),
    };
    let mut bytes = first.len() as u64;
    let mut part = Some(first);
    while let Some(current) = part {
        let is_last = parts.is_done();
        let (sent, made) = tokio::join!(upload.part(current, is_last), next(parts));
        sent?;
        (parts, part) = made?;
        bytes += part.as_ref().map_or(0, Bytes::len) as u64;
    }
    let sha256 = parts.digest();
    let completed = upload.complete(label, expected).await;
    let version = match completed {
        Ok(Some(version)) => version,
        Ok(None) => there(bucket, path, label).await?,
        Err(refusal) => settle(bucket, path, label, Err(refusal)).await?,
    };
    Ok(Written {
        version,
        bytes,
        sha256,
    })
}

/// What became of a write. An answer that was lost, or wrong, does not mean that nothing was
/// written: if the object holds what it should, it was.
async fn settle(
    bucket: &Bucket,
    path: &RepoPath,
    label: &Label,
    written: Result<UpdateVersion, Refusal>,
) -> Result<UpdateVersion, SinkError> {
    let failed = match written {
        Ok(version) if version.e_tag.is_some() => return Ok(version),
        Ok(_) => return there(bucket, path, label).await,
        Err(Refusal::Conflict) => changed(bucket, path),
        Err(Refusal::Failed(error @ SinkError::Transient(_))) => error,
        Err(Refusal::Failed(error)) => return Err(error),
    };
    match bucket.find(path).await {
        Ok(Some(found)) if found.identity.as_ref() == Some(&label.identity) => Ok(found.version),
        _ => Err(failed),
    }
}

/// The version that was just written.
async fn there(
    bucket: &Bucket,
    path: &RepoPath,
    label: &Label,
) -> Result<UpdateVersion, SinkError> {
    match bucket.find(path).await? {
        Some(found) if found.identity.as_ref() == Some(&label.identity) => Ok(found.version),
        _ => Err(changed(bucket, path)),
    }
}

pub(super) fn changed(bucket: &Bucket, path: &RepoPath) -> SinkError {
    SinkError::transient(format!(
        "{bucket:?}: {path} was changed by somebody else meanwhile; everything is compared again \
         with the next attempt"
    ))
}

/// Makes the next part where that holds up nobody else.
async fn next(mut parts: Parts) -> Result<(Parts, Option<Bytes>), SinkError> {
    let made = spawn_blocking(move || {
        let part = parts.next();
        (parts, part)
    });
    made.await.map_err(|_| {
        SinkError::transient("the rows could not be encoded (a panic; the log has it)")
    })
}

/// Pieces put together into parts of equal size; the last one may be shorter.
struct Parts {
    pieces: Option<Box<dyn Iterator<Item = Vec<u8>> + Send>>,
    /// What was made and not handed out yet.
    rest: Bytes,
    digest: Sha256,
}

impl Parts {
    fn new(pieces: Box<dyn Iterator<Item = Vec<u8>> + Send>) -> Self {
        Self {
            pieces: Some(pieces),
            rest: Bytes::new(),
            digest: Sha256::new(),
        }
    }

    fn next(&mut self) -> Option<Bytes> {
        let mut part = Vec::new();
        loop {
            let room = PART - part.len();
            let taken = self.rest.split_to(room.min(self.rest.len()));
            part.extend_from_slice(&taken);
            if part.len() == PART && !(self.rest.is_empty() && self.is_last()) {
                return Some(part.into());
            }
            if part.len() == PART {
                break;
            }
            match self.pieces.as_mut().and_then(Iterator::next) {
                Some(piece) => {
                    self.digest.update(&piece);
                    self.rest = piece.into();
                }
                None => {
                    self.pieces = None;
                    break;
                }
            }
        }
        (!part.is_empty()).then(|| part.into())
    }

    /// Whether nothing comes any more. Looks ahead.
    fn is_last(&mut self) -> bool {
        while self.rest.is_empty() {
            let Some(piece) = self.pieces.as_mut().and_then(Iterator::next) else {
                self.pieces = None;
                return true;
            };
            self.digest.update(&piece);
            self.rest = piece.into();
        }
        false
    }

    /// Whether everything was handed out.
    fn is_done(&self) -> bool {
        self.pieces.is_none() && self.rest.is_empty()
    }

    fn digest(&self) -> String {
        hex(&self.digest.clone().finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_equal_size_and_lose_nothing() {
        for sizes in [
            vec![],
            vec![0],
            vec![1],
            vec![PART - 1],
            vec![PART],
            vec![PART, 0, 0],
            vec![PART + 1],
            vec![3 * PART],
            vec![5, 3 * PART + 7, 0, PART - 12],
        ] {
            let pieces: Vec<Vec<u8>> = sizes
                .iter()
                .zip(1_u8..)
                .map(|(size, value)| vec![value; *size])
                .collect();
            let whole: Vec<u8> = pieces.concat();
            let mut parts = Parts::new(Box::new(pieces.into_iter()));
            let mut found = Vec::new();
            let mut lengths = Vec::new();
            while let Some(part) = parts.next() {
                lengths.push(part.len());
                found.extend_from_slice(&part);
                assert_eq!(parts.is_done(), found.len() == whole.len(), "{sizes:?}");
            }
            assert!(found == whole, "{sizes:?}");
            let full = lengths.len().saturating_sub(1);
            assert!(
                lengths[..full].iter().all(|length| *length == PART),
                "{lengths:?}"
            );
            assert_eq!(parts.digest(), hex(&Sha256::digest(&whole)));
        }
    }
}
