//! Requests of S3 that the library does not make: completing an upload under a condition, and
//! finding uploads that were never completed.

use std::{sync::Arc, time::Duration};

use http::{Method, Request, StatusCode, header};
use object_store::{
    aws::AmazonS3,
    multipart::PartId,
    path::Path,
    signer::{SignedUrlOptions, Signer},
};
use tokio::time::timeout;

use super::{
    bucket::Expected,
    fault::{Refusal, answered},
};
use crate::{
    error::SinkError,
    http::{self as client, HttpClient},
};

/// How long a signature is good for.
const SIGNED: Duration = Duration::from_mins(10);
/// Most bytes of an answer: a thousand uploads with the longest keys, and some room.
const ANSWER: usize = 4 << 20;
/// Most pages of unfinished uploads that are looked at.
const PAGES: usize = 20;

/// Signed requests of our own.
#[derive(Clone)]
pub(super) struct S3Requests {
    pub(super) store: Arc<AmazonS3>,
    pub(super) client: HttpClient,
    pub(super) patience: Duration,
}

impl S3Requests {
    /// Makes an upload visible, if the object is still what is expected.
    pub(super) async fn complete(
        &self,
        bucket: &str,
        key: &Path,
        id: &str,
        parts: &[PartId],
        expected: &Expected,
    ) -> Result<(), Refusal> {
        let what = format!("writing {key}");
        let query = [("uploadId", id)];
        let request = self.signed(Method::POST, key, &query).await;
        let mut request = request.map_err(|error| Refusal::Failed(error.at(bucket)))?;
        request = match expected {
            Expected::Absent => request.header(header::IF_NONE_MATCH, "*"),
            Expected::Version(version) => match &version.e_tag {
                Some(tag) => request.header(header::IF_MATCH, tag),
                None => request,
            },
        };
        let (status, text) = self
            .send(request, completion(parts))
            .await
            .map_err(|error| Refusal::Failed(error.at(&format!("{bucket}: {what}"))))?;
        // A failure may come after the status, when the server had already begun to answer.
        if status.is_success() && !text.contains("<Error>") {
            return Ok(());
        }
        match status {
            StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT => Err(Refusal::Conflict),
            status => Err(Refusal::Failed(answered(
                bucket,
                &what,
                status.as_u16(),
                &text,
            ))),
        }
    }

    /// Uploads that were begun and neither completed nor given up, below a prefix: key and id.
    pub(super) async fn unfinished(
        &self,
        bucket: &str,
        prefix: &str,
    ) -> Result<Vec<(String, String)>, SinkError> {
        let what = "looking for unfinished uploads";
        let mut found = Vec::new();
        let mut after: Option<(String, String)> = None;
        for _ in 0..PAGES {
            let mut query = vec![("prefix", prefix), ("uploads", "")];
            if let Some((key, id)) = &after {
                query.extend([("key-marker", key.as_str()), ("upload-id-marker", id)]);
            }
            let request = self.signed(Method::GET, &Path::default(), &query).await?;
            let (status, text) = self
                .send(request, String::new())
                .await
                .map_err(|error| error.at(&format!("{bucket}: {what}")))?;
            if !status.is_success() {
                return Err(answered(bucket, what, status.as_u16(), &text));
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

    async fn signed(
        &self,
        method: Method,
        key: &Path,
        query: &[(&str, &str)],
    ) -> Result<http::request::Builder, SinkError> {
        let options = SignedUrlOptions::default().with_query(
            query
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let signing = self
            .store
            .signed_url_opts(method.clone(), key, SIGNED, &options);
        let url = signing.await.map_err(|error| {
            crate::http::object_store::cause(&error).unwrap_or_else(|| {
                SinkError::transient("the request could not be signed with these credentials")
            })
        })?;
        Ok(Request::builder().method(method).uri(url.as_str()))
    }

    async fn send(
        &self,
        request: http::request::Builder,
        body: String,
    ) -> Result<(StatusCode, String), SinkError> {
        let request = request
            .header(header::CONTENT_LENGTH, body.len())
            .body(client::full(body))
            .map_err(|_| SinkError::terminal("the endpoint makes no valid request"))?;
        let exchange = async {
            let response = self.client.send(request).await?;
            let status = response.status();
            let text = client::read(response.into_body(), ANSWER).await?;
            Ok((status, String::from_utf8_lossy(&text).into_owned()))
        };
        timeout(self.patience, exchange).await.unwrap_or_else(|_| {
            let limit = self.patience.as_secs();
            Err(SinkError::transient(format!("no answer within {limit} s")))
        })
    }
}

/// The list of parts that an upload is made of.
fn completion(parts: &[PartId]) -> String {
    let mut text = "<CompleteMultipartUpload>".to_owned();
    for (at, part) in parts.iter().enumerate() {
        let tag = escaped(&part.content_id);
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

/// The text of the first element of this name.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    let value = value
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&apos;", "'");
    Some(value.replace("&amp;", "&"))
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
        let part = |tag: &str| PartId {
            content_id: tag.to_owned(),
        };
        assert_eq!(
            completion(&[part("\"x\""), part("y")]),
            "<CompleteMultipartUpload>\
             <Part><ETag>&quot;x&quot;</ETag><PartNumber>1</PartNumber></Part>\
             <Part><ETag>y</ETag><PartNumber>2</PartNumber></Part>\
             </CompleteMultipartUpload>"
        );
    }
}
