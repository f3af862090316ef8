//! One line of a watch stream.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::refusal::Refusal;

/// The annotation on the bookmark that ends the objects of a streaming list.
const END_OF_LISTING: &str = "k8s.io/initial-events-end";

/// A line with the object still encoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// `ADDED` or `MODIFIED`: which of both it is depends on where the watch began.
    Put(&'a [u8]),
    /// `DELETED`, with the last state of the object.
    Gone(&'a [u8]),
    /// `BOOKMARK`.
    Bookmark {
        resource_version: String,
        end_of_listing: bool,
    },
    /// `ERROR`: the stream is over.
    Error(Refusal),
}

/// The line is no watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream holds something that is no watch event")]
pub(super) struct Garbage;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

impl<'a> Event<'a> {
    /// Reads the envelope. The object of `Put` and `Gone` is not looked at.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Garbage> {
        let (kind, object) = if let Some(parts) = split(line) {
            parts
        } else {
            let envelope: Envelope<'a> = serde_json::from_slice(line).map_err(|_| Garbage)?;
            (envelope.kind, envelope.object.get().as_bytes())
        };
        match kind {
            "ADDED" | "MODIFIED" => Ok(Self::Put(object)),
            "DELETED" => Ok(Self::Gone(object)),
            "BOOKMARK" => {
                let Bookmark { metadata } = serde_json::from_slice(object).map_err(|_| Garbage)?;
                let annotations = metadata.annotations.unwrap_or_default();
                Ok(Self::Bookmark {
                    resource_version: metadata.resource_version,
                    end_of_listing: annotations
                        .get(END_OF_LISTING)
                        .is_some_and(|value| value == "true"),
                })
            }
            "ERROR" => Refusal::from_status(object).map(Self::Error).ok_or(Garbage),
            _ => Err(Garbage),
        }
    }
}

/// Splits a line as the API server writes it, without looking through the object.
///
/// The general way parses the whole line once only to find where the object ends, which costs as
/// much as half of decoding it. Should the rest of the line not be one object after all, the
/// decoder will say so.
fn split(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let quote = memchr::memchr(b'"', rest)?;
    let (kind, rest) = rest.split_at(quote);
    let object = rest.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
    Some((std::str::from_utf8(kind).ok()?, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> Event<'static> {
        Event::Error(Refusal {
            code,
            message: message.to_owned(),
            ..Refusal::default()
        })
    }

    fn bookmark(version: &str, end: bool) -> Event<'static> {
        Event::Bookmark {
            resource_version: version.to_owned(),
            end_of_listing: end,
        }
    }

    #[test]
    fn lines_of_all_kinds() {
        let object: &[u8] = br#"{"metadata":{"name":"a"}}"#;
        let cases = [
            (
                r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
                Event::Put(object),
            ),
            (
                r#"{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}"#,
                Event::Put(object),
            ),
            (
                r#"{"type":"DELETED","object":{"metadata":{"name":"a"}}}"#,
                Event::Gone(object),
            ),
            // Not as the API server writes it, but the same.
            (
                r#" { "object": {"metadata":{"name":"a"}} , "type": "ADDED", "more": [1] }"#,
                Event::Put(object),
            ),
            (
                r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"12","creationTimestamp":null}}}"#,
                bookmark("12", false),
            ),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"13","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
                bookmark("13", true),
            ),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"14","annotations":{"k8s.io/initial-events-end":"false"}}}}"#,
                bookmark("14", false),
            ),
            (
                r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 1 (5)"}}"#,
                refused(410, "too old resource version: 1 (5)"),
            ),
            (
                r#"{"type":"ERROR","object":{"message":"boom"}}"#,
                refused(500, "boom"),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(
                Event::parse(line.as_bytes()).as_ref(),
                Ok(&expected),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_event_is_garbage() {
        let cases: [&[u8]; 10] = [
            b"",
            b"null",
            b"404 page not found",
            b"{}",
            br#"{"type":"ADDED"}"#,
            br#"{"type":"RENAMED","object":{}}"#,
            br#"{"type":"BOOKMARK","object":{}}"#,
            br#"{"type":"ERROR","object":"boom"}"#,
            br#"{"type":"\u0041DDED","object":{}}"#,
            b"{\"type\":\"\xff\",\"object\":{}}",
        ];
        for line in cases {
            let text = String::from_utf8_lossy(line);
            assert_eq!(Event::parse(line), Err(Garbage), "{text}");
        }
    }
}
