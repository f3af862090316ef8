//! Azure Blob Storage.
//!
//! The library completes uploads without a condition and removes objects only in batches, which not
//! every key may do. What is needed are seven requests.
//!
//! Blocks that were sent and never became a blob are seen by nobody. They go when the blob is written
//! the next time, or after a week.

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::Method;
use object_store::UpdateVersion;

use super::{
    fault::{Refusal, answered, xml_code},
    keys::AzureKeys,
    rest::{Call, Reply, Rest},
    store::{Completion, Expected, Found, IDENTITY, Label, Part, Store},
};
use crate::{
    error::SinkError,
    http::text::{element, encoded},
};

/// The protocol's version: the newest that emulators know as well.
const VERSION: &str = "2021-12-02";
/// Most bytes of a page of a list: a thousand blobs with all that is said of each.
const PAGE_BYTES: usize = 16 << 20;
const PAGE: usize = 1000;
const PAGES: usize = 1000;

/// A container of Azure Blob Storage.
pub(super) struct AzureStore {
    /// The server, with the account where it stands in the path; no slash at its end.
    pub(super) server: String,
    pub(super) container: String,
    pub(super) keys: AzureKeys,
    pub(super) rest: Rest,
    /// For messages.
    pub(super) shown: String,
}

#[async_trait]
impl Store for AzureStore {
    async fn find(&self, key: &str) -> Result<Option<Found>, SinkError> {
        let what = format!("looking at {key}");
        let reply = self.send(&what, self.call(Method::HEAD, key, &[])).await?;
        if reply.status.as_u16() == 404 {
            return Ok(None);
        }
        self.accepted(&what, &reply).map_err(plain)?;
        let identity = reply.header(&format!("x-ms-meta-{IDENTITY}"));
        Ok(Some(Found {
            version: version(&reply),
            identity: identity.map(str::to_owned),
            size: reply
                .header("content-length")
                .and_then(|length| length.parse().ok())
                .unwrap_or_default(),
        }))
    }

    async fn read(
        &self,
        key: &str,
        limit: usize,
    ) -> Result<Option<(Vec<u8>, UpdateVersion)>, SinkError> {
        let what = format!("reading {key}");
        let call = self.call(Method::GET, key, &[]).limit(limit);
        let reply = self.send(&what, call).await?;
        if reply.status.as_u16() == 404 {
            return Ok(None);
        }
        self.accepted(&what, &reply).map_err(plain)?;
        Ok(Some((reply.body.to_vec(), version(&reply))))
    }

    async fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, SinkError> {
        let what = format!("listing {directory}");
        let (prefix, most) = (
            format!("{directory}/"),
            PAGE.min(limit.saturating_add(1)).to_string(),
        );
        let mut found = Vec::new();
        let mut after = String::new();
        for _ in 0..PAGES {
            let mut query = vec![
                ("restype", "container"),
                ("comp", "list"),
                ("prefix", prefix.as_str()),
                ("maxresults", most.as_str()),
            ];
            if !after.is_empty() {
                query.push(("marker", after.as_str()));
            }
            let call = self.call(Method::GET, "", &query).limit(PAGE_BYTES);
            let reply = self.send(&what, call).await?;
            self.accepted(&what, &reply).map_err(plain)?;
            let text = reply.text();
            if !text.contains("<EnumerationResults") {
                return Err(SinkError::transient(format!(
                    "{}: {what}: the server's answer could not be read",
                    self.shown
                )));
            }
            found.extend(names(&text));
            let next = element(&text, "NextMarker").unwrap_or_default();
            if found.len() > limit || next.is_empty() {
                found.truncate(limit.saturating_add(1));
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
        let call = self
            .call(Method::PUT, key, &[])
            .header("x-ms-blob-type", "BlockBlob")
            .body(bytes);
        // Under a condition it does no harm twice: the second time it finds itself.
        let call = conditional(labelled(call, label), expected).again();
        let reply = self.send(&what, call).await.map_err(Refusal::Failed)?;
        self.accepted(&what, &reply)?;
        Ok(version(&reply))
    }

    async fn remove(&self, key: &str) -> Result<(), SinkError> {
        let what = format!("removing {key}");
        let call = self.call(Method::DELETE, key, &[]);
        let reply = self.send(&what, call).await?;
        if reply.status.as_u16() == 404 {
            return Ok(());
        }
        self.accepted(&what, &reply).map_err(plain)
    }

    /// There is nothing to begin; blocks of different uploads have different names.
    async fn begin(&self, _: &str, _: &Label, _: &Expected) -> Result<String, Refusal> {
        Ok(format!("{:016x}", fastrand::u64(..)))
    }

    async fn part(&self, part: Part<'_>) -> Result<String, SinkError> {
        let what = format!("writing {}", part.key);
        let block = BASE64_STANDARD.encode(format!("{}-{:06}", part.id, part.number));
        let query = [("comp", "block"), ("blockid", block.as_str())];
        let call = self
            .call(Method::PUT, part.key, &query)
            .body(part.bytes)
            .again();
        let reply = self.send(&what, call).await?;
        self.accepted(&what, &reply).map_err(plain)?;
        Ok(block)
    }

    async fn complete(&self, completion: Completion<'_>) -> Result<Option<UpdateVersion>, Refusal> {
        let what = format!("writing {}", completion.key);
        let mut list = "<BlockList>".to_owned();
        for block in completion.parts {
            list.push_str(&format!("<Uncommitted>{block}</Uncommitted>"));
        }
        list.push_str("</BlockList>");
        let call = self
            .call(Method::PUT, completion.key, &[("comp", "blocklist")])
            .body(list.into());
        let call = conditional(labelled(call, completion.label), completion.expected);
        let reply = self.send(&what, call).await.map_err(Refusal::Failed)?;
        self.accepted(&what, &reply)?;
        Ok(Some(version(&reply)))
    }

    async fn give_up(&self, _: &str, _: &str) -> Result<(), SinkError> {
        Ok(())
    }

    fn no_version(&self) -> UpdateVersion {
        UpdateVersion {
            e_tag: Some("\"0x8D00000000000000\"".to_owned()),
            version: None,
        }
    }
}

impl AzureStore {
    fn call(&self, method: Method, key: &str, query: &[(&str, &str)]) -> Call {
        let mut url = format!("{}/{}", self.server, encoded(&self.container));
        for segment in key.split('/').filter(|segment| !segment.is_empty()) {
            url.push('/');
            url.push_str(&encoded(segment));
        }
        for (at, (name, value)) in query.iter().enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            url.push_str(&format!("{name}={}", encoded(value)));
        }
        Call::new(method, url).header("x-ms-version", VERSION)
    }

    async fn send(&self, what: &str, call: Call) -> Result<Reply, SinkError> {
        let at = |error: SinkError| error.at(&format!("{}: {what}", self.shown));
        let signed = self.keys.sign(call.clone()).await.map_err(at)?;
        let reply = self.rest.send(&signed).await.map_err(at)?;
        // A token that is no longer taken is replaced once.
        if reply.status.as_u16() != 401 || !self.keys.renew().await {
            return Ok(reply);
        }
        let signed = self.keys.sign(call).await.map_err(at)?;
        self.rest.send(&signed).await.map_err(at)
    }

    fn accepted(&self, what: &str, reply: &Reply) -> Result<(), Refusal> {
        let text = reply.text();
        let code = reply.header("x-ms-error-code").or_else(|| xml_code(&text));
        let code = match code {
            // Azurite has one word for a wrong key and for a missing right.
            Some("AuthorizationFailure") if text.contains("failed to authenticate") => {
                Some("AuthenticationFailed")
            }
            code => code,
        };
        match (reply.status.as_u16(), code) {
            (200..300, _) => Ok(()),
            // Blocks that somebody else's write made obsolete are no longer there.
            (412, _) | (409, Some("BlobAlreadyExists")) | (_, Some("InvalidBlockList")) => {
                Err(Refusal::Conflict)
            }
            (status, code) => Err(Refusal::Failed(answered(&self.shown, what, status, code))),
        }
    }
}

/// A refusal where nothing was written.
fn plain(refusal: Refusal) -> SinkError {
    match refusal {
        Refusal::Conflict => SinkError::transient("the object was changed meanwhile"),
        Refusal::Failed(error) => error,
    }
}

fn labelled(call: Call, label: &Label) -> Call {
    call.header("x-ms-blob-content-type", label.content_type)
        .header("x-ms-meta-kollectcontent", &label.identity)
}

fn conditional(call: Call, expected: &Expected) -> Call {
    match expected {
        Expected::Absent => call.header("if-none-match", "*"),
        Expected::Version(version) => {
            let tag = version.e_tag.as_deref().unwrap_or("\"unknown\"");
            call.header("if-match", tag)
        }
    }
}

fn version(reply: &Reply) -> UpdateVersion {
    UpdateVersion {
        e_tag: reply.header("etag").map(str::to_owned),
        version: None,
    }
}

/// The names on a page of a list.
fn names(page: &str) -> Vec<String> {
    page.split("<Blob>")
        .skip(1)
        .filter_map(|blob| element(blob.split("</Blob>").next()?, "Name"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let page = "<EnumerationResults><Prefix>a/</Prefix><Blobs>\
            <Blob><Name>a/b&amp;c.json</Name><Properties><Etag>0x1</Etag></Properties></Blob>\
            <Blob><Name Encoded=\"true\">a%2F%FF</Name></Blob>\
            <Blob><Name>a/d</Name></Blob></Blobs><NextMarker>x</NextMarker></EnumerationResults>";
        assert_eq!(names(page), ["a/b&c.json", "a/d"]);
        assert_eq!(element(page, "NextMarker").as_deref(), Some("x"));
    }
}
