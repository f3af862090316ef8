//! A bucket as this backend uses it: thin, one call per request.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, UpdateVersion,
    multipart::{MultipartStore, PartId},
    path::Path,
};

use super::{
    fault::{Refusal, failure, refusal},
    s3::S3Requests,
};
use crate::{error::SinkError, layout::RepoPath};

/// The name under which an object says what it holds. One word: not all stores take hyphens.
const IDENTITY: &str = "kollectcontent";

/// How long giving up an upload may take; what is left is found by the next delivery.
const GIVING_UP: Duration = Duration::from_secs(20);

/// A place in a bucket.
pub(super) struct Bucket {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) uploads: Arc<dyn MultipartStore>,
    /// What S3 can do beyond that.
    pub(super) s3: Option<S3Requests>,
    /// What every key begins with.
    pub(super) prefix: String,
    /// For messages.
    pub(super) shown: String,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Which version of an object is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    /// None: there is no such object.
    Absent,
    /// This one.
    Version(UpdateVersion),
}

/// What is known of an object without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) version: UpdateVersion,
    /// What it says that it holds.
    pub(super) identity: Option<String>,
    pub(super) size: u64,
}

/// What an object is written with.
#[derive(Debug, Clone)]
pub(super) struct Label<'a> {
    pub(super) identity: &'a str,
    pub(super) content_type: &'static str,
}

impl Label<'_> {
    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::ContentType, self.content_type.into());
        let name = Attribute::Metadata(IDENTITY.into());
        attributes.insert(name, self.identity.to_owned().into());
        attributes
    }
}

/// An upload in parts that is neither complete nor given up. Dropping it gives it up.
#[derive(Debug)]
pub(super) struct Upload {
    bucket: Arc<Bucket>,
    path: RepoPath,
    id: Option<String>,
    parts: Vec<PartId>,
}

impl Bucket {
    pub(super) fn key(&self, path: &str) -> Result<Path, SinkError> {
        let key = match &*self.prefix {
            "" => path.to_owned(),
            prefix => format!("{prefix}/{path}"),
        };
        Path::parse(&key).map_err(|_| {
            SinkError::terminal(format!("{}: {path:?} is no key of an object", self.shown))
        })
    }

    fn failure(&self, doing: &str, path: &str, error: &Error) -> SinkError {
        failure(&self.shown, &format!("{doing} {path}"), error)
    }

    /// What is known of an object; nothing if there is none.
    pub(super) async fn find(&self, path: &RepoPath) -> Result<Option<Found>, SinkError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        match self.objects.get_opts(&self.key(path)?, options).await {
            Ok(found) => {
                let identity = found
                    .attributes
                    .get(&Attribute::Metadata(IDENTITY.into()))
                    .map(|value| value.as_ref().to_owned());
                Ok(Some(Found {
                    version: UpdateVersion {
                        e_tag: found.meta.e_tag,
                        version: found.meta.version,
                    },
                    identity,
                    size: found.meta.size,
                }))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failure("looking at", path, &error)),
        }
    }

    /// The bytes of a small object and which version they are; nothing if there is none.
    pub(super) async fn read(
        &self,
        path: &RepoPath,
        limit: usize,
    ) -> Result<Option<(Vec<u8>, UpdateVersion)>, SinkError> {
        let found = match self.objects.get(&self.key(path)?).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.failure("reading", path, &error)),
        };
        let version = UpdateVersion {
            e_tag: found.meta.e_tag.clone(),
            version: found.meta.version.clone(),
        };
        let mut bytes = Vec::new();
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces
            .try_next()
            .await
            .map_err(|error| self.failure("reading", path, &error))?
        {
            if bytes.len() + piece.len() > limit {
                return Err(SinkError::terminal(format!(
                    "{}: {path} is larger than anything that Kollect writes there; remove it",
                    self.shown
                )));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Some((bytes, version)))
    }

    /// The paths below a directory, at most `limit` and one.
    pub(super) async fn list(
        &self,
        directory: &str,
        limit: usize,
    ) -> Result<Vec<RepoPath>, SinkError> {
        let start = self.key(directory)?;
        let mut found = Vec::new();
        let mut entries = self.objects.list(Some(&start));
        let own = match &*self.prefix {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        while let Some(entry) = entries
            .try_next()
            .await
            .map_err(|error| self.failure("listing", directory, &error))?
        {
            let inside = entry.location.as_ref().strip_prefix(&*own);
            if let Some(Ok(path)) = inside.map(RepoPath::clean) {
                found.push(path);
            }
            if found.len() > limit {
                break;
            }
        }
        Ok(found)
    }

    /// Writes a small object as a whole, if it is still what is expected.
    pub(super) async fn put(
        &self,
        path: &RepoPath,
        bytes: Bytes,
        label: &Label<'_>,
        expected: &Expected,
    ) -> Result<UpdateVersion, Refusal> {
        let mode = match expected {
            Expected::Absent => PutMode::Create,
            Expected::Version(version) => PutMode::Update(version.clone()),
        };
        let options = PutOptions {
            mode,
            attributes: label.attributes(),
            ..PutOptions::default()
        };
        let key = self.key(path).map_err(Refusal::Failed)?;
        let payload = PutPayload::from_bytes(bytes);
        match self.objects.put_opts(&key, payload, options).await {
            Ok(done) => Ok(UpdateVersion {
                e_tag: done.e_tag,
                version: done.version,
            }),
            Err(error) => Err(refusal(&self.shown, &format!("writing {path}"), &error)),
        }
    }

    /// Removes an object; one that is not there is gone already.
    pub(super) async fn remove(&self, path: &RepoPath) -> Result<(), SinkError> {
        match self.objects.delete(&self.key(path)?).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failure("removing", path, &error)),
        }
    }

    /// Begins an upload in parts.
    pub(super) async fn begin(
        self: &Arc<Self>,
        path: &RepoPath,
        label: &Label<'_>,
    ) -> Result<Upload, SinkError> {
        let options = PutMultipartOptions {
            attributes: label.attributes(),
            ..PutMultipartOptions::default()
        };
        let begun = self
            .uploads
            .create_multipart_opts(&self.key(path)?, options)
            .await;
        let id = begun.map_err(|error| self.failure("beginning to write", path, &error))?;
        Ok(Upload {
            bucket: Arc::clone(self),
            path: path.clone(),
            id: Some(id),
            parts: Vec::new(),
        })
    }

    /// Gives up uploads that an earlier process, or an earlier delivery, left unfinished. Only those
    /// of the given objects: what others upload is theirs.
    pub(super) async fn give_up_leftovers(
        &self,
        is_ours: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<u64, SinkError> {
        let Some(s3) = &self.s3 else {
            return Ok(0);
        };
        let own = match &*self.prefix {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let mut count = 0;
        for (key, id) in s3.unfinished(&self.shown, &own).await? {
            let Some(path) = key.strip_prefix(&*own).filter(|path| is_ours(path)) else {
                continue;
            };
            let given_up = self.uploads.abort_multipart(&self.key(path)?, &id).await;
            match given_up {
                Ok(()) | Err(Error::NotFound { .. }) => count += 1,
                Err(error) => return Err(self.failure("giving up an upload of", path, &error)),
            }
        }
        Ok(count)
    }
}

impl Upload {
    /// Sends the next part.
    pub(super) async fn part(&mut self, bytes: Bytes) -> Result<(), SinkError> {
        let (bucket, path) = (&self.bucket, &self.path);
        let Some(id) = &self.id else {
            return Err(SinkError::transient("the upload was given up"));
        };
        let payload = PutPayload::from_bytes(bytes);
        let sent = bucket
            .uploads
            .put_part(&bucket.key(path)?, id, self.parts.len(), payload)
            .await;
        let part = sent.map_err(|error| bucket.failure("writing", path, &error))?;
        self.parts.push(part);
        Ok(())
    }

    /// Makes the object visible, if it is still what is expected.
    pub(super) async fn complete(mut self, expected: &Expected) -> Result<(), Refusal> {
        let (bucket, path) = (Arc::clone(&self.bucket), self.path.clone());
        let key = bucket.key(&path).map_err(Refusal::Failed)?;
        let Some(id) = self.id.clone() else {
            return Err(Refusal::Failed(SinkError::transient(
                "the upload was given up",
            )));
        };
        let parts = std::mem::take(&mut self.parts);
        if let Some(s3) = &bucket.s3 {
            let done = s3
                .complete(&bucket.shown, &key, &id, &parts, expected)
                .await;
            if done.is_ok() {
                self.id = None;
            }
            return done;
        }
        // The protocol has no condition here, so what is there is looked at once more.
        let there = bucket.find(&path).await.map_err(Refusal::Failed)?;
        let there = there.map_or(Expected::Absent, |found| Expected::Version(found.version));
        if there != *expected {
            return Err(Refusal::Conflict);
        }
        match bucket.uploads.complete_multipart(&key, &id, parts).await {
            Ok(_) => {
                self.id = None;
                Ok(())
            }
            Err(error) => {
                let what = format!("writing {path}");
                Err(refusal(&bucket.shown, &what, &error))
            }
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        let (bucket, path) = (Arc::clone(&self.bucket), self.path.clone());
        // Nobody waits for it: whoever comes next gives up what is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Ok(key) = bucket.key(&path) {
                    let given_up = bucket.uploads.abort_multipart(&key, &id);
                    let _ = tokio::time::timeout(GIVING_UP, given_up).await;
                }
            });
        }
    }
}
