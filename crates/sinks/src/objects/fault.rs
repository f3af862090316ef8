//! What a store's errors mean.

use std::error::Error as _;

use object_store::Error;

use crate::{error::SinkError, http::object_store::cause};

/// Why a write did not happen.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The object is not what it was when it was looked at.
    Conflict,
    /// Anything else.
    Failed(SinkError),
}

/// What a server answered, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer<'t> {
    status: Option<u16>,
    /// The word that the server has for it.
    code: Option<&'t str>,
}

/// Codes for credentials that are not accepted, whoever grants what.
const REJECTED: [&str; 15] = [
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "TokenRefreshRequired",
    "InvalidSecurity",
    "AuthFailure",
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "AuthorizationHeaderMalformed",
    "MissingSecurityHeader",
    "InvalidClientTokenId",
    // Google.
    "authError",
    "required",
    // Azure.
    "NoAuthenticationInformation",
];

/// Codes for a server that has too much to do, or is not ready, whatever the status.
const BUSY: [&str; 12] = [
    "SlowDown",
    "RequestTimeout",
    "ServiceUnavailable",
    "InternalError",
    "ServerBusy",
    "OperationAborted",
    // Google.
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "backendError",
    "internalError",
    // Azure.
    "OperationTimedOut",
    "ContainerBeingDeleted",
];

/// A failed exchange about `what`, such as `reading a/b.json`, with its class.
pub(super) fn failure(bucket: &str, what: &str, error: &Error) -> SinkError {
    // What our own client found out has a class already.
    if let Some(found) = cause(error) {
        return found.at(&format!("{bucket}: {what}"));
    }
    let text = chain(error);
    judged(bucket, what, error, read(&text), &text)
}

/// The same for a request of our own: a status, and the word that the server has for it.
pub(super) fn answered(bucket: &str, what: &str, status: u16, code: Option<&str>) -> SinkError {
    let answer = Answer {
        status: Some(status),
        code: code.filter(|code| is_word(code)),
    };
    let error = Error::Generic {
        store: "ours",
        source: String::new().into(),
    };
    judged(bucket, what, &error, answer, "")
}

fn judged(bucket: &str, what: &str, error: &Error, answer: Answer<'_>, text: &str) -> SinkError {
    let said = match answer {
        Answer {
            code: Some(code),
            status: Some(status),
        } => format!("the server answered {status} ({code})"),
        Answer {
            status: Some(status),
            ..
        } => format!("the server answered {status}"),
        _ => "the server's answer could not be read".to_owned(),
    };
    let say = |advice: &str| format!("{bucket}: {what}: {said}; {advice}");
    let code = answer.code.unwrap_or_default();
    match (error, answer.status) {
        (Error::Unauthenticated { .. }, _) | (_, Some(401)) => SinkError::Terminal(say(
            "the credentials are not accepted; correct the Secret of the sink",
        )),
        _ if REJECTED.contains(&code) => SinkError::Terminal(say(
            "the credentials are not accepted; correct the Secret of the sink",
        )),
        _ if code == "RequestTimeTooSkewed" => SinkError::Transient(say(
            "the clocks of the server and of this machine differ; correct the one that is wrong",
        )),
        _ if BUSY.contains(&code) => SinkError::Transient(say("it is tried again")),
        _ if matches!(code, "NoSuchBucket" | "ContainerNotFound") => {
            SinkError::Terminal(say("create the bucket, or correct spec.endpoint"))
        }
        (_, Some(301 | 302 | 307 | 308)) => SinkError::Terminal(say(
            "the bucket is elsewhere; correct options.region or spec.endpoint",
        )),
        _ if text.contains("redirect without LOCATION") => SinkError::Terminal(format!(
            "{bucket}: {what}: the bucket is in another region; correct options.region"
        )),
        (Error::PermissionDenied { .. }, _) | (_, Some(403)) => {
            SinkError::Forbidden(say("grant list, read, write and delete on this prefix"))
        }
        (
            Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotModified { .. },
            _,
        ) => SinkError::Transient(format!(
            "{bucket}: {what}: somebody else changed it meanwhile; everything is compared again"
        )),
        (_, Some(400 | 405 | 411 | 501)) => {
            SinkError::Terminal(say("the server does not take such a request"))
        }
        _ => SinkError::Transient(say("it is tried again")),
    }
}

/// A failed write.
pub(super) fn refusal(bucket: &str, what: &str, error: &Error) -> Refusal {
    match error {
        Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotModified { .. } => {
            Refusal::Conflict
        }
        error => Refusal::Failed(failure(bucket, what, error)),
    }
}

/// An error with all its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        text.push_str(": ");
        text.push_str(&current.to_string());
        cause = current.source();
    }
    text
}

/// Status and code in the text of an error: the library has them in types that it keeps to itself.
fn read(text: &str) -> Answer<'_> {
    let status = text
        .split_once("status code: ")
        .and_then(|(_, rest)| rest.get(..3)?.parse().ok());
    Answer {
        status,
        code: xml_code(text),
    }
}

/// The word in an answer of S3 or Azure.
pub(super) fn xml_code(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    let (word, _) = rest.split_once("</Code>")?;
    is_word(word).then_some(word)
}

/// A server may say anything; only a word is repeated.
fn is_word(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Class {
        Transient,
        Terminal,
        Forbidden,
    }

    fn class(error: &SinkError) -> Class {
        match error {
            SinkError::Transient(_) | SinkError::OutOfStep(_) => Class::Transient,
            SinkError::Terminal(_) => Class::Terminal,
            SinkError::Forbidden(_) => Class::Forbidden,
        }
    }

    #[test]
    fn answers_have_classes() {
        let generic = |text: String| Error::Generic {
            store: "S3",
            source: text.into(),
        };
        let denied = |text: String| Error::PermissionDenied {
            path: "p".into(),
            source: text.into(),
        };
        let missing = |text: String| Error::NotFound {
            path: "p".into(),
            source: text.into(),
        };
        let answer = |status: &str, code: &str| {
            format!(
                "Server returned non-2xx status code: {status}: <Error><Code>{code}</Code><Message>hunter2</Message></Error>"
            )
        };
        for (error, expected) in [
            (
                generic(answer("503 Service Unavailable", "SlowDown")),
                Class::Transient,
            ),
            (
                generic(answer("500 Internal Server Error", "InternalError")),
                Class::Transient,
            ),
            (
                generic(answer("400 Bad Request", "RequestTimeout")),
                Class::Transient,
            ),
            (
                generic(answer("429 Too Many Requests", "x")),
                Class::Transient,
            ),
            (
                generic(answer("400 Bad Request", "InvalidRequest")),
                Class::Terminal,
            ),
            (
                generic(answer("501 Not Implemented", "NotImplemented")),
                Class::Terminal,
            ),
            (
                generic("Received redirect without LOCATION, this".to_owned()),
                Class::Terminal,
            ),
            (generic("nonsense".to_owned()), Class::Transient),
            (
                denied(answer("403 Forbidden", "AccessDenied")),
                Class::Forbidden,
            ),
            (
                denied(answer("403 Forbidden", "SignatureDoesNotMatch")),
                Class::Terminal,
            ),
            (
                denied(answer("403 Forbidden", "InvalidAccessKeyId")),
                Class::Terminal,
            ),
            (
                denied(answer("403 Forbidden", "RequestTimeTooSkewed")),
                Class::Transient,
            ),
            (
                missing(answer("404 Not Found", "NoSuchBucket")),
                Class::Terminal,
            ),
            (
                Error::Precondition {
                    path: "p".into(),
                    source: "x".into(),
                },
                Class::Transient,
            ),
        ] {
            let failure = failure("bucket \"b\"", "writing p", &error);
            assert_eq!(class(&failure), expected, "{failure}");
            // What else a server says is not repeated.
            assert!(!failure.message().contains("hunter2"), "{failure}");
        }
    }

    #[test]
    fn answers_of_google_and_azure_have_classes() {
        for (status, code, expected) in [
            (401, Some("authError"), Class::Terminal),
            (401, None, Class::Terminal),
            (403, Some("forbidden"), Class::Forbidden),
            (403, Some("rateLimitExceeded"), Class::Transient),
            (403, Some("AuthenticationFailed"), Class::Terminal),
            (
                403,
                Some("AuthorizationPermissionMismatch"),
                Class::Forbidden,
            ),
            (403, Some("AuthorizationFailure"), Class::Forbidden),
            (404, Some("ContainerNotFound"), Class::Terminal),
            (404, Some("NoSuchBucket"), Class::Terminal),
            (409, Some("ContainerBeingDeleted"), Class::Transient),
            (400, Some("InvalidQueryParameterValue"), Class::Terminal),
            (400, Some("InvalidAuthenticationInfo"), Class::Terminal),
            (408, None, Class::Transient),
            (429, None, Class::Transient),
            (500, Some("OperationTimedOut"), Class::Transient),
            (503, Some("ServerBusy"), Class::Transient),
        ] {
            let failure = answered("bucket \"b\"", "writing p", status, code);
            assert_eq!(class(&failure), expected, "{failure}");
        }
        let failure = answered("b", "writing p", 500, Some("secret word"));
        assert!(!failure.message().contains("secret"), "{failure}");
    }

    #[test]
    fn only_words_are_repeated() {
        for text in [
            "status code: 403: <Code>drop table; --</Code>",
            "status code: 403: <Code></Code>",
            "status code: 4é3: <Code>",
        ] {
            assert_eq!(read(text).code, None, "{text}");
        }
        assert_eq!(read("status code: 403: x").status, Some(403));
        assert_eq!(read("status code: abc").status, None);
    }
}
