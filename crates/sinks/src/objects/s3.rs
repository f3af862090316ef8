//! S3 and what speaks its protocol, through the library, and with requests of our own where it has
//! none: completing an upload under a condition, and finding uploads that were never completed.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use http::{Method, StatusCode};
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, UpdateVersion,
    aws::AmazonS3,
    multipart::MultipartStore,
    path::Path,
    signer::{SignedUrlOptions, Signer},
};

use super::{
    fault::{Refusal, answered, failure, refusal, xml_code},
    rest::{Call, Rest},
    store::{Completion, Expected, Found, IDENTITY, Label, Part, Store},
};
use crate::{
    error::SinkError,
    http::{object_store::cause, text::element},
};

/// How long a signature is good for.
const SIGNED: Duration = Duration::from_mins(10);
/// Most bytes of an answer: a thousand uploads with the longest keys, and some room.
const ANSWER: usize = 4 << 20;
/// Most pages of unfinished uploads that are looked at.
const PAGES: usize = 20;

/// A bucket of S3.
pub(super) struct S3Store {
    pub(super) store: Arc<AmazonS3>,
    pub(super) rest: Rest,
    /// For messages.
    pub(super) shown: String,
}

#[async_trait]
impl Store for S3Store {
    async fn find(&self, key: &str) -> Result<Option<Found>, SinkError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        match self.store.get_opts(&self.path(key)?, options).await {
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
            Err(error) => Err(self.failure("looking at", key, &error)),
        }
    }

    async fn read(
        &self,
        key: &str,
        limit: usize,
    ) -> Result<Option<(Vec<u8>, UpdateVersion)>, SinkError> {
        let found = match self.store.get(&self.path(key)?).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.failure("reading", key, &error)),
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
            .map_err(|error| self.failure("reading", key, &error))?
        {
            if bytes.len() + piece.len() > limit {
                return Err(SinkError::terminal(format!(
                    "{}: {key} is larger than anything that Kollect writes there; remove it",
                    self.shown
                )));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Some((bytes, version)))
    }

    async fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, SinkError> {
        let start = self.path(directory)?;
        let mut found = Vec::new();
        let mut entries = self.store.list(Some(&start));
        while let Some(entry) = entries
            .try_next()
            .await
            .map_err(|error| self.failure("listing", directory, &error))?
        {
            found.push(entry.location.as_ref().to_owned());
            if found.len() > limit {
                break;
            }
        }
        Ok(found)
    }

    async fn put(
        &self,
        key: &str,
        bytes: Bytes,
        label: &Label,
        expected: &Expected,
    ) -> Result<UpdateVersion, Refusal> {
        let mode = match expected {
            Expected::Absent => PutMode::Create,
            Expected::Version(version) => PutMode::Update(version.clone()),
        };
        let options = PutOptions {
            mode,
            attributes: attributes(label),
            ..PutOptions::default()
        };
        let path = self.path(key).map_err(Refusal::Failed)?;
        let payload = PutPayload::from_bytes(bytes);
        match self.store.put_opts(&path, payload, options).await {
            Ok(done) => Ok(UpdateVersion {
                e_tag: done.e_tag,
                version: done.version,
            }),
            Err(error) => Err(refusal(&self.shown, &format!("writing {key}"), &error)),
        }
    }

    async fn remove(&self, key: &str) -> Result<(), SinkError> {
        match self.store.delete(&self.path(key)?).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failure("removing", key, &error)),
        }
    }

    async fn begin(&self, key: &str, label: &Label, _: &Expected) -> Result<String, Refusal> {
        let options = PutMultipartOptions {
            attributes: attributes(label),
            ..PutMultipartOptions::default()
        };
        let path = self.path(key).map_err(Refusal::Failed)?;
        let begun = self.store.create_multipart_opts(&path, options).await;
        begun.map_err(|error| Refusal::Failed(self.failure("beginning to write", key, &error)))
    }

    async fn part(&self, part: Part<'_>) -> Result<String, SinkError> {
        let payload = PutPayload::from_bytes(part.bytes);
        let (path, id) = (self.path(part.key)?, part.id.to_owned());
        let sent = self.store.put_part(&path, &id, part.number, payload).await;
        let sent = sent.map_err(|error| self.failure("writing", part.key, &error))?;
        Ok(sent.content_id)
    }

    async fn complete(&self, completion: Completion<'_>) -> Result<Option<UpdateVersion>, Refusal> {
        let Completion { key, expected, .. } = completion;
        let failed =
            |error: SinkError| Refusal::Failed(error.at(&format!("{}: writing {key}", self.shown)));
        let path = self.path(key).map_err(Refusal::Failed)?;
        let query = [("uploadId", completion.id)];
        let call = self.signed(Method::POST, &path, &query).await;
        let mut call = call
            .map_err(failed)?
            .body(parts_listed(completion.parts).into());
        call = match expected {
            Expected::Absent => call.header("if-none-match", "*"),
            Expected::Version(version) => match &version.e_tag {
                Some(tag) => call.header("if-match", tag),
                None => call,
            },
        };
        let reply = self.rest.send(&call).await.map_err(failed)?;
        let text = reply.text();
        // A failure may come after the status, when the server had already begun to answer.
        if reply.status.is_success() && !text.contains("<Error>") {
            return Ok(None);
        }
        match reply.status {
            StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT => Err(Refusal::Conflict),
            status => Err(Refusal::Failed(answered(
                &self.shown,
                &format!("writing {key}"),
                status.as_u16(),
                xml_code(&text),
            ))),
        }
    }

    async fn give_up(&self, key: &str, id: &str) -> Result<(), SinkError> {
        let (path, id) = (self.path(key)?, id.to_owned());
        match self.store.abort_multipart(&path, &id).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failure("giving up an upload of", key, &error)),
        }
    }

    async fn unfinished(&self, directory: &str) -> Result<Vec<(String, String)>, SinkError> {
        let what = "looking for unfinished uploads";
        let prefix = match directory {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let mut found = Vec::new();
        let mut after: Option<(String, String)> = None;
        for _ in 0..PAGES {
            let mut query = vec![("prefix", prefix.as_str()), ("uploads", "")];
            if let Some((key, id)) = &after {
                query.extend([("key-marker", key.as_str()), ("upload-id-marker", id)]);
            }
            let call = self.signed(Method::GET, &Path::default(), &query).await?;
            let reply = self
                .rest
                .send(&call)
                .await
                .map_err(|error| error.at(&format!("{}: {what}", self.shown)))?;
            let text = reply.text();
            if !reply.status.is_success() {
                let code = xml_code(&text);
                return Err(answered(&self.shown, what, reply.status.as_u16(), code));
            }
            let page = uploads(&text);
            let last = page.last().cloned();
            found.extend(page);
            // A server that repeats itself is not asked for ever.
            if element(&text, "IsTruncated").as_deref() != Some("true")
                || last.is_none()
                || last == after
            {
                break;
            }
            after = last;
        }
        Ok(found)
    }

    fn no_version(&self) -> UpdateVersion {
        UpdateVersion {
            e_tag: Some("\"kollect-probe-of-no-version\"".to_owned()),
            version: None,
        }
    }
}

impl S3Store {
    fn path(&self, key: &str) -> Result<Path, SinkError> {
        Path::parse(key).map_err(|_| {
            SinkError::terminal(format!("{}: {key:?} is no key of an object", self.shown))
        })
    }

    fn failure(&self, doing: &str, key: &str, error: &Error) -> SinkError {
        failure(&self.shown, &format!("{doing} {key}"), error)
    }

    async fn signed(
        &self,
        method: Method,
        key: &Path,
        query: &[(&str, &str)],
    ) -> Result<Call, SinkError> {
        let options = SignedUrlOptions::default().with_query(
            query
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let signing = self
            .store
            .signed_url_opts(method.clone(), key, SIGNED, &options);
        let url = signing.await.map_err(|error| {
            cause(&error).unwrap_or_else(|| {
                SinkError::transient("the request could not be signed with these credentials")
            })
        })?;
        Ok(Call::new(method, url.to_string()).limit(ANSWER))
    }
}

fn attributes(label: &Label) -> Attributes {
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::ContentType, label.content_type.into());
    let name = Attribute::Metadata(IDENTITY.into());
    attributes.insert(name, label.identity.clone().into());
    attributes
}

/// The list of parts that an upload is made of.
fn parts_listed(parts: &[String]) -> String {
    let mut text = "<CompleteMultipartUpload>".to_owned();
    for (at, part) in parts.iter().enumerate() {
        let tag = escaped(part);
        let number = at + 1;
        text.push_str(&format!(
            "<Part><ETag>{tag}</ETag><PartNumber>{number}</PartNumber></Part>"
        ));
    }
    text.push_str("</CompleteMultipartUpload>");
    text
}

/// Keys and ids of a page of unfinished uploads.
fn uploads(page: &str) -> Vec<(String, String)> {
    page.split("<Upload>")
        .skip(1)
        .filter_map(|upload| {
            let upload = upload.split("</Upload>").next()?;
            Some((element(upload, "Key")?, element(upload, "UploadId")?))
        })
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_uploads_are_read() {
        let page = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>\
            <Upload><Key>a&amp;b/c.json</Key><UploadId>1</UploadId><Owner><ID>x</ID></Owner></Upload>\
            <Upload><UploadId>3</UploadId></Upload>\
            <Upload><Initiated>now</Initiated><Key>d</Key><UploadId>2</UploadId></Upload>\
            </ListMultipartUploadsResult>";
        let expected = [("a&b/c.json", "1"), ("d", "2")];
        let expected = expected.map(|(key, id)| (key.to_owned(), id.to_owned()));
        assert_eq!(uploads(page), expected);
        assert_eq!(element(page, "IsTruncated").as_deref(), Some("false"));
        assert_eq!(uploads("<html>no such thing"), []);
    }

    #[test]
    fn parts_are_listed_with_their_tags() {
        assert_eq!(
            parts_listed(&["\"x\"".to_owned(), "y".to_owned()]),
            "<CompleteMultipartUpload>\
             <Part><ETag>&quot;x&quot;</ETag><PartNumber>1</PartNumber></Part>\
             <Part><ETag>y</ETag><PartNumber>2</PartNumber></Part>\
             </CompleteMultipartUpload>"
        );
    }
}
