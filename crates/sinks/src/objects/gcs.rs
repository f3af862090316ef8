//! Google Cloud Storage, through its JSON API.
//!
//! The library speaks the XML API, whose uploads in parts know no condition. Here an upload is a
//! session that the condition was given to at its beginning: its object appears with its last byte,
//! if it is still what was expected. Sessions that nobody ends are seen by nobody, and gone after a
//! week.

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::{BufMut, Bytes, BytesMut};
use http::Method;
use object_store::UpdateVersion;
use serde::Deserialize;
use serde_json::json;

use super::{
    fault::{Refusal, answered},
    keys::GoogleKeys,
    rest::{Call, Reply, Rest},
    store::{Completion, Expected, Found, IDENTITY, Label, Part, Store},
};
use crate::{error::SinkError, http::text::encoded, layout::body::hex};

/// Most bytes of a page of a list: a thousand of the longest names, and some room.
const PAGE_BYTES: usize = 8 << 20;
/// Names per page.
const PAGE: usize = 1000;
/// Most pages of a list.
const PAGES: usize = 1000;

/// What is asked about an object.
const FIELDS: &str = "generation,etag,md5Hash,size,metadata";

/// A bucket of Google Cloud Storage.
pub(super) struct GcsStore {
    /// The server, without a slash at its end.
    pub(super) server: String,
    pub(super) bucket: String,
    pub(super) keys: GoogleKeys,
    pub(super) rest: Rest,
    /// For messages.
    pub(super) shown: String,
}

/// An object as the server describes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    generation: String,
    etag: Option<String>,
    md5_hash: Option<String>,
    #[serde(default)]
    size: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

impl Described {
    /// The tag that readers get to see, who ask with plain HTTP: a digest, where there is one.
    fn version(&self) -> UpdateVersion {
        let digest = self
            .md5_hash
            .as_deref()
            .and_then(|text| BASE64_STANDARD.decode(text).ok());
        let tag = digest.map(|digest| format!("\"{}\"", hex(&digest)));
        UpdateVersion {
            e_tag: tag.or_else(|| self.etag.clone()),
            version: Some(self.generation.clone()),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    items: Vec<Named>,
    next_page_token: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[async_trait]
impl Store for GcsStore {
    async fn find(&self, key: &str) -> Result<Option<Found>, SinkError> {
        let what = format!("looking at {key}");
        let url = format!("{}?fields={}", self.object(key), encoded(FIELDS));
        let reply = self.send(&what, Call::new(Method::GET, url)).await?;
        if reply.status.as_u16() == 404 {
            return Ok(None);
        }
        let found = self.described(&what, &reply)?;
        Ok(Some(Found {
            version: found.version(),
            identity: found.metadata.get(IDENTITY).cloned(),
            size: found.size.parse().unwrap_or_default(),
        }))
    }

    async fn read(
        &self,
        key: &str,
        limit: usize,
    ) -> Result<Option<(Vec<u8>, UpdateVersion)>, SinkError> {
        let what = format!("reading {key}");
        let url = format!("{}?alt=media", self.object(key));
        let call = Call::new(Method::GET, url).limit(limit);
        let reply = self.send(&what, call).await?;
        if reply.status.as_u16() == 404 {
            return Ok(None);
        }
        if !reply.status.is_success() {
            return Err(self.answered(&what, &reply));
        }
        let Some(generation) = reply.header("x-goog-generation") else {
            return Err(SinkError::transient(format!(
                "{}: {what}: the answer does not say which generation it is",
                self.shown
            )));
        };
        let version = UpdateVersion {
            e_tag: reply.header("etag").map(str::to_owned),
            version: Some(generation.to_owned()),
        };
        Ok(Some((reply.body.to_vec(), version)))
    }

    async fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, SinkError> {
        let what = format!("listing {directory}");
        let mut found = Vec::new();
        let mut after: Option<String> = None;
        for _ in 0..PAGES {
            let mut url = format!(
                "{}/storage/v1/b/{}/o?prefix={}&maxResults={}&fields={}",
                self.server,
                encoded(&self.bucket),
                encoded(&format!("{directory}/")),
                PAGE.min(limit + 1),
                encoded("items(name),nextPageToken"),
            );
            if let Some(after) = &after {
                url.push_str(&format!("&pageToken={}", encoded(after)));
            }
            let call = Call::new(Method::GET, url).limit(PAGE_BYTES);
            let reply = self.send(&what, call).await?;
            let page: Page = self.parsed(&what, &reply)?;
            found.extend(page.items.into_iter().map(|item| item.name));
            let next = page.next_page_token.filter(|next| !next.is_empty());
            if found.len() > limit || next.is_none() {
                found.truncate(limit + 1);
                return Ok(found);
            }
            // A server that repeats itself is not asked for ever.
            if next == after {
                break;
            }
            after = next;
        }
        Err(SinkError::transient(format!(
            "{}: {what}: the list does not end",
            self.shown
        )))
    }

    async fn put(
        &self,
        key: &str,
        bytes: Bytes,
        label: &Label,
        expected: &Expected,
    ) -> Result<UpdateVersion, Refusal> {
        let what = format!("writing {key}");
        let url = self.upload("multipart", key, expected, &what)?;
        let boundary = format!("kollect-{:032x}", fastrand::u128(..));
        let description = description(label);
        let content_type = label.content_type;
        let mut body = BytesMut::with_capacity(bytes.len() + 1024);
        body.put_slice(
            format!(
                "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{description}\r\n\
                 --{boundary}\r\nContent-Type: {content_type}\r\n\r\n"
            )
            .as_bytes(),
        );
        body.put_slice(&bytes);
        body.put_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        // Under a condition it does no harm twice: the second time it finds itself.
        let call = Call::new(Method::POST, url)
            .header(
                "content-type",
                &format!("multipart/related; boundary={boundary}"),
            )
            .body(body.freeze())
            .again();
        let reply = self.send(&what, call).await.map_err(Refusal::Failed)?;
        Ok(self.written(&what, &reply)?.version())
    }

    async fn remove(&self, key: &str) -> Result<(), SinkError> {
        let what = format!("removing {key}");
        let call = Call::new(Method::DELETE, self.object(key));
        let reply = self.send(&what, call).await?;
        if reply.status.is_success() || reply.status.as_u16() == 404 {
            return Ok(());
        }
        Err(self.answered(&what, &reply))
    }

    /// The id of an upload is the address of its session.
    async fn begin(
        &self,
        key: &str,
        label: &Label,
        expected: &Expected,
    ) -> Result<String, Refusal> {
        let what = format!("beginning to write {key}");
        let url = self.upload("resumable", key, expected, &what)?;
        let call = Call::new(Method::POST, url)
            .header("content-type", "application/json; charset=UTF-8")
            .header("x-upload-content-type", label.content_type)
            .body(description(label).into());
        let reply = self.send(&what, call).await.map_err(Refusal::Failed)?;
        self.accepted(&what, &reply)?;
        // It is sent a token, so it has to be where everything else is.
        let session = reply
            .header("location")
            .filter(|session| session.starts_with(&format!("{}/", self.server)));
        session.map(str::to_owned).ok_or_else(|| {
            Refusal::Failed(SinkError::transient(format!(
                "{}: {what}: the answer names no session of this server",
                self.shown
            )))
        })
    }

    fn keeps_last(&self) -> bool {
        true
    }

    async fn part(&self, part: Part<'_>) -> Result<String, SinkError> {
        let what = format!("writing {}", part.key);
        let end = part.offset + part.bytes.len() as u64;
        let range = format!("bytes {}-{}/*", part.offset, end.saturating_sub(1));
        let call = Call::new(Method::PUT, part.id.to_owned())
            .header("content-range", &range)
            .body(part.bytes);
        let reply = self.send(&what, call).await?;
        if reply.status.as_u16() != 308 {
            return Err(self.answered(&what, &reply));
        }
        // It may have kept less than it was sent.
        let kept = reply
            .header("range")
            .and_then(|range| range.strip_prefix("bytes=0-")?.parse::<u64>().ok());
        if kept != Some(end - 1) {
            return Err(SinkError::transient(format!(
                "{}: {what}: the server kept a part of what it was sent; it is tried again",
                self.shown
            )));
        }
        Ok(String::new())
    }

    async fn complete(&self, completion: Completion<'_>) -> Result<Option<UpdateVersion>, Refusal> {
        let what = format!("writing {}", completion.key);
        let Completion { offset, last, .. } = completion;
        let total = offset + last.len() as u64;
        let range = if last.is_empty() {
            format!("bytes */{total}")
        } else {
            format!("bytes {offset}-{}/{total}", total - 1)
        };
        let call = Call::new(Method::PUT, completion.id.to_owned())
            .header("content-range", &range)
            .body(last);
        let reply = self.send(&what, call).await.map_err(Refusal::Failed)?;
        Ok(Some(self.written(&what, &reply)?.version()))
    }

    async fn give_up(&self, key: &str, id: &str) -> Result<(), SinkError> {
        let what = format!("giving up an upload of {key}");
        // Whatever it answers: a session that is left is gone after a week.
        self.send(&what, Call::new(Method::DELETE, id.to_owned()))
            .await?;
        Ok(())
    }

    fn no_version(&self) -> UpdateVersion {
        // Generations are times; this one would be of 1970.
        UpdateVersion {
            e_tag: None,
            version: Some("1".to_owned()),
        }
    }
}

impl GcsStore {
    fn object(&self, key: &str) -> String {
        let (bucket, key) = (encoded(&self.bucket), encoded(key));
        format!("{}/storage/v1/b/{bucket}/o/{key}", self.server)
    }

    /// Where an upload of some kind begins.
    fn upload(
        &self,
        kind: &str,
        key: &str,
        expected: &Expected,
        what: &str,
    ) -> Result<String, Refusal> {
        let generation = match expected {
            Expected::Absent => "0",
            Expected::Version(version) => version.version.as_deref().ok_or_else(|| {
                Refusal::Failed(SinkError::transient(format!(
                    "{}: {what}: it is not known which generation would be replaced",
                    self.shown
                )))
            })?,
        };
        Ok(format!(
            "{}/upload/storage/v1/b/{}/o?uploadType={kind}&name={}&ifGenerationMatch={}&fields={}",
            self.server,
            encoded(&self.bucket),
            encoded(key),
            encoded(generation),
            encoded(FIELDS),
        ))
    }

    /// Sends a request with a token. A token that is no longer taken is replaced once.
    async fn send(&self, what: &str, call: Call) -> Result<Reply, SinkError> {
        let at = |error: SinkError| error.at(&format!("{}: {what}", self.shown));
        let token = self.keys.token().await.map_err(at)?;
        let with = |token: &str| {
            call.clone()
                .header("authorization", &format!("Bearer {token}"))
        };
        let reply = self.rest.send(&with(token.expose())).await.map_err(at)?;
        if reply.status.as_u16() != 401 {
            return Ok(reply);
        }
        self.keys.forget(&token).await;
        let token = self.keys.token().await.map_err(at)?;
        self.rest.send(&with(token.expose())).await.map_err(at)
    }

    fn answered(&self, what: &str, reply: &Reply) -> SinkError {
        let reason = reason(&reply.body);
        let code = match reply.status.as_u16() {
            // An object that is not there was answered for already.
            404 => Some("NoSuchBucket"),
            _ => reason.as_deref(),
        };
        answered(&self.shown, what, reply.status.as_u16(), code)
    }

    fn accepted(&self, what: &str, reply: &Reply) -> Result<(), Refusal> {
        match reply.status.as_u16() {
            200..300 => Ok(()),
            409 | 412 => Err(Refusal::Conflict),
            _ => Err(Refusal::Failed(self.answered(what, reply))),
        }
    }

    fn written(&self, what: &str, reply: &Reply) -> Result<Described, Refusal> {
        self.accepted(what, reply)?;
        self.parsed(what, reply).map_err(Refusal::Failed)
    }

    fn described(&self, what: &str, reply: &Reply) -> Result<Described, SinkError> {
        self.parsed(what, reply)
    }

    fn parsed<'r, T: Deserialize<'r>>(&self, what: &str, reply: &'r Reply) -> Result<T, SinkError> {
        if !reply.status.is_success() {
            return Err(self.answered(what, reply));
        }
        serde_json::from_slice(&reply.body).map_err(|_| {
            SinkError::transient(format!(
                "{}: {what}: the server's answer could not be read",
                self.shown
            ))
        })
    }
}

/// What is said of an object that is written.
fn description(label: &Label) -> String {
    json!({
        "contentType": label.content_type,
        "metadata": { IDENTITY: label.identity },
    })
    .to_string()
}

/// The word that the server has for a refusal.
fn reason(body: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let reason = answer["error"]["errors"][0]["reason"].as_str()?;
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read() {
        let found: Described = serde_json::from_value(json!({
            "generation": "1700000000000001", "etag": "CKih", "md5Hash": "1B2M2Y8AsgTpgAmY7PhCfg==",
            "size": "12", "metadata": {"kollectcontent": "x"}, "kind": "storage#object",
        }))
        .unwrap();
        assert_eq!(
            found.version(),
            UpdateVersion {
                e_tag: Some("\"d41d8cd98f00b204e9800998ecf8427e\"".to_owned()),
                version: Some("1700000000000001".to_owned()),
            }
        );
        let found: Described =
            serde_json::from_value(json!({"generation": "2", "etag": "CKih"})).unwrap();
        assert_eq!(found.version().e_tag.as_deref(), Some("CKih"));
        let refused = json!({"error": {"code": 403, "errors": [{"reason": "forbidden"}]}});
        assert_eq!(
            reason(refused.to_string().as_bytes()).as_deref(),
            Some("forbidden")
        );
        assert_eq!(reason(b"<html>"), None);
    }
}
