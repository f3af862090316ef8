//! What the API server says when it does not do what it was asked.

use std::time::Duration;

use serde::Deserialize;

/// Longer texts of proxies and panicking servers are cut.
const MESSAGE_LIMIT: usize = 512;
/// A server that asks for more patience than this is asked again earlier.
const RETRY_AFTER_LIMIT: Duration = Duration::from_mins(5);

/// An answer other than success, or an `ERROR` event in a stream: both carry the same status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The HTTP status code.
    pub(super) code: u16,
    /// What the server says; it names the resource and the user, never content.
    pub(super) message: String,
    /// How long the server wants to be left alone.
    pub(super) retry_after: Option<Duration>,
    /// The version that was asked for lies in the future of this server: its data was restored
    /// from a backup, or the server is another one.
    pub(super) version_unknown: bool,
}

/// The kinds of refusal that lead to different behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Unauthenticated,
    Forbidden,
    NotInstalled,
    Expired,
    Throttled,
    Unavailable,
    /// The request itself is not understood, as by a server that has no streaming lists.
    Invalid,
    Rejected,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    code: Option<u16>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    retry_after_seconds: Option<u64>,
    causes: Option<Vec<ListingCause>>,
}

#[derive(Deserialize)]
struct ListingCause {
    reason: Option<String>,
}

impl Refusal {
    /// From an HTTP answer. The body is a status object, or any text that a proxy writes.
    pub(super) fn from_answer(code: u16, retry_after: Option<&str>, body: &[u8]) -> Self {
        let mut refusal = Self::from_status(body).unwrap_or_else(|| Self {
            message: shorten(String::from_utf8_lossy(body).trim()),
            ..Self::default()
        });
        refusal.code = code;
        let header = retry_after.and_then(|text| text.trim().parse().ok());
        if let Some(seconds) = header {
            refusal.retry_after = Some(patience(seconds));
        }
        refusal
    }

    /// From the status object of an `ERROR` event.
    pub(super) fn from_status(json: &[u8]) -> Option<Self> {
        let status: Status = serde_json::from_slice(json).ok()?;
        let details = status.details.unwrap_or_default();
        let mut causes = details.causes.iter().flatten();
        Some(Self {
            // A status without code is a failure of the server.
            code: status.code.unwrap_or(500),
            message: shorten(&status.message.unwrap_or_default()),
            retry_after: details.retry_after_seconds.map(patience),
            version_unknown: causes
                .any(|cause| cause.reason.as_deref() == Some("ResourceVersionTooLarge")),
        })
    }

    pub(super) fn kind(&self) -> Kind {
        match self.code {
            _ if self.version_unknown => Kind::Expired,
            401 => Kind::Unauthenticated,
            403 => Kind::Forbidden,
            404 => Kind::NotInstalled,
            410 => Kind::Expired,
            429 => Kind::Throttled,
            400 | 422 => Kind::Invalid,
            402..500 => Kind::Rejected,
            _ => Kind::Unavailable,
        }
    }
}

fn patience(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(RETRY_AFTER_LIMIT)
}

fn shorten(text: &str) -> String {
    if text.len() <= MESSAGE_LIMIT {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MESSAGE_LIMIT)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code, `Retry-After` and body of an answer; its kind and how many seconds to wait.
    type Case = (u16, Option<&'static str>, &'static str, Kind, Option<u64>);

    #[test]
    fn answers_are_understood() {
        let too_large = r#"{"kind":"Status","code":504,"message":"Too large resource version",
            "details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}}"#;
        let cases: &[Case] = &[
            (401, None, "", Kind::Unauthenticated, None),
            (
                403,
                None,
                r#"{"code":403,"message":"no"}"#,
                Kind::Forbidden,
                None,
            ),
            (404, None, "404 page not found", Kind::NotInstalled, None),
            (
                410,
                None,
                r#"{"code":410,"reason":"Expired"}"#,
                Kind::Expired,
                None,
            ),
            (429, Some("7"), "too many", Kind::Throttled, Some(7)),
            (429, Some("soon"), "", Kind::Throttled, None),
            (429, Some("86400"), "", Kind::Throttled, Some(300)),
            (400, None, "", Kind::Invalid, None),
            (422, None, r#"{"code":422}"#, Kind::Invalid, None),
            (405, None, "", Kind::Rejected, None),
            (500, None, "", Kind::Unavailable, None),
            (
                503,
                None,
                r#"{"details":{"retryAfterSeconds":3}}"#,
                Kind::Unavailable,
                Some(3),
            ),
            (504, None, too_large, Kind::Expired, Some(1)),
            // A redirect is nothing that a client of the API server is sent.
            (302, None, "", Kind::Unavailable, None),
        ];
        for (code, header, body, kind, retry) in cases {
            let refusal = Refusal::from_answer(*code, *header, body.as_bytes());
            assert_eq!(refusal.code, *code);
            assert_eq!(refusal.kind(), *kind, "{code} {body}");
            assert_eq!(
                refusal.retry_after,
                retry.map(Duration::from_secs),
                "{code} {body}"
            );
        }
    }

    #[test]
    fn the_message_is_the_status_message_or_the_text() {
        let message = |body: &str| Refusal::from_answer(500, None, body.as_bytes()).message;
        assert_eq!(message(r#"{"message":"etcd is away"}"#), "etcd is away");
        assert_eq!(message("  bad gateway\n"), "bad gateway");
        let long = message(&"ä".repeat(1000));
        assert!(long.len() < 520 && long.ends_with("ä…"), "{long}");
    }
}
