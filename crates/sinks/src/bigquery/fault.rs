//! What the service says when it says no.
//!
//! The reason decides first: the service answers 403 when it is only overloaded. Its sentence is
//! never repeated, since it may quote a value; the reason is a word that people search for.

use http::StatusCode;
use serde::Deserialize;

use crate::error::SinkError;

/// A failure, and what the service called it.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: SinkError,
    /// Of the answer; none if there was no answer.
    pub(super) status: Option<u16>,
    /// As the service writes it.
    pub(super) reason: Option<String>,
    /// Whether the request may have been carried out all the same: its answer was lost.
    pub(super) unanswered: bool,
    /// Whether a job may go on that nobody waits for.
    pub(super) open: bool,
}

impl From<SinkError> for Fault {
    fn from(error: SinkError) -> Self {
        Self {
            error,
            status: None,
            reason: None,
            unanswered: false,
            open: false,
        }
    }
}

impl Fault {
    /// No answer came.
    pub(super) fn unanswered(error: SinkError) -> Self {
        Self {
            unanswered: true,
            open: true,
            ..Self::from(error)
        }
    }

    /// The same failure, while a job goes on.
    pub(super) fn while_open(self) -> Self {
        Self { open: true, ..self }
    }

    /// The same failure at a stage.
    pub(super) fn at(self, stage: &str) -> Self {
        Self {
            error: self.error.at(stage),
            ..self
        }
    }

    /// Whether the same request may succeed a moment later.
    pub(super) fn again(&self) -> bool {
        matches!(self.error, SinkError::Transient(_))
            && (self.unanswered || self.status.is_some_and(|status| status >= 500))
    }

    /// Whether something is not there.
    pub(super) fn is_missing(&self) -> bool {
        self.status == Some(404)
    }

    /// Whether something is there already.
    pub(super) fn is_duplicate(&self) -> bool {
        let duplicate = |reason: &String| reason.eq_ignore_ascii_case("duplicate");
        self.status == Some(409) && self.reason.as_ref().is_some_and(duplicate)
    }
}

/// An error as answers and jobs carry it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ErrorProto {
    #[serde(default)]
    pub(super) reason: String,
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalError,
}

#[derive(Deserialize)]
struct RefusalError {
    #[serde(default)]
    errors: Vec<ErrorProto>,
}

/// What an answer that is no success means.
pub(super) fn refused(status: StatusCode, body: &[u8]) -> Fault {
    let refusal: Option<Refusal> = serde_json::from_slice(body).ok();
    let first = refusal.and_then(|refusal| refusal.error.errors.into_iter().next());
    let reason = first.and_then(|error| word(&error.reason));
    let status = status.as_u16();
    Fault {
        error: classed(Some(status), reason.as_deref()),
        status: Some(status),
        reason,
        unanswered: false,
        open: status >= 500,
    }
}

/// What the failure of a job means.
pub(super) fn failed(error: &ErrorProto) -> Fault {
    let reason = word(&error.reason);
    Fault {
        error: classed(None, reason.as_deref()),
        status: None,
        reason,
        unanswered: false,
        open: false,
    }
}

/// A reason, if it looks like one.
fn word(reason: &str) -> Option<String> {
    let reason = reason.trim();
    let plain = !reason.is_empty() && reason.len() <= 40;
    (plain
        && reason
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
    .then(|| reason.to_owned())
}

/// The class of a failure, and what to do about it.
fn classed(status: Option<u16>, reason: Option<&str>) -> SinkError {
    let called = match (status, reason) {
        (Some(status), Some(reason)) => format!("{reason} ({status})"),
        (Some(status), None) => format!("the service answered {status}"),
        (None, Some(reason)) => reason.to_owned(),
        (None, None) => "the job failed and says no reason".to_owned(),
    };
    let lower = reason.map(str::to_ascii_lowercase);
    match (lower.as_deref(), status) {
        (Some("accessdenied" | "forbidden" | "iampermissiondenied"), _) => {
            SinkError::Forbidden(format!(
                "{called}: grant the service account roles/bigquery.dataEditor on the dataset and \
                 roles/bigquery.jobUser on the project"
            ))
        }
        (Some("autherror" | "invalidcredentials" | "unauthorized" | "required"), Some(401)) => {
            unauthenticated(&called)
        }
        (Some("notfound"), _) => SinkError::terminal(format!(
            "{called}: project, dataset or table is not there, or is in another location; check \
             spec.bigquery"
        )),
        (Some("invalidquery" | "invalid" | "badrequest" | "required" | "invalidparameter"), _) => {
            SinkError::terminal(format!(
                "{called}: the service does not take the statement; compare the columns of the table \
                 with status.preview"
            ))
        }
        (Some("billingnotenabled" | "billingtierlimitexceeded" | "responsetoolarge"), _) => {
            SinkError::terminal(format!(
                "{called}: see the quotas and billing of the project"
            ))
        }
        (Some("ratelimitexceeded" | "quotaexceeded" | "jobratelimitexceeded"), _) => {
            SinkError::transient(format!(
                "{called}: a quota of the table or project is used up for the moment; a longer \
                 exportMinInterval saves it"
            ))
        }
        (Some("backenderror" | "internalerror" | "tableunavailable"), _) => {
            SinkError::transient(called)
        }
        (_, Some(401)) => unauthenticated(&called),
        (None, Some(400 | 403 | 404)) => SinkError::terminal(called),
        _ => SinkError::transient(called),
    }
}

/// Wrong credentials are not tried again until they change or a probe finds them right.
fn unauthenticated(called: &str) -> SinkError {
    SinkError::terminal(format!(
        "{called}: authentication failed; put a valid service account key into the Secret: exports \
         go on when the Secret changes or a probe succeeds"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(error: &SinkError) -> &'static str {
        match error {
            SinkError::Terminal(_) => "terminal",
            SinkError::Transient(_) => "transient",
            SinkError::Forbidden(_) => "forbidden",
            SinkError::OutOfStep(_) => "out of step",
        }
    }

    /// D41, D42 and what the reason decides against the status (06-W16). `accessDenied` may be
    /// granted any time without a change here, so it has the class for that.
    #[test]
    fn reasons_decide_first() {
        for (status, reason, expected) in [
            (400, "invalidQuery", "terminal"),
            (400, "invalid", "terminal"),
            (403, "accessDenied", "forbidden"),
            (404, "notFound", "terminal"),
            (401, "", "terminal"),
            (401, "authError", "terminal"),
            (429, "quotaExceeded", "transient"),
            (403, "quotaExceeded", "transient"),
            (403, "rateLimitExceeded", "transient"),
            (400, "jobInternalError", "transient"),
            (500, "backendError", "transient"),
            (503, "", "transient"),
            (402, "", "transient"),
            (400, "", "terminal"),
            (403, "", "terminal"),
            (404, "", "terminal"),
            (418, "somethingNew", "transient"),
            (403, "  RateLimitExceeded ", "transient"),
            (403, "a reason; with 'text' in it", "terminal"),
        ] {
            let body = json!({"error": {"code": status, "message": "secret 'value'",
                "errors": [{"reason": reason, "message": "secret 'value'"}]}});
            let status = StatusCode::from_u16(status).unwrap();
            let fault = refused(status, body.to_string().as_bytes());
            assert_eq!(class(&fault.error), expected, "{status} {reason}");
            assert!(!fault.error.message().contains("secret"), "{fault:?}");
        }
        for (reason, expected) in [
            ("notFound", "terminal"),
            ("invalid", "terminal"),
            ("accessDenied", "forbidden"),
            ("rateLimitExceeded", "transient"),
            ("internalError", "transient"),
            ("somethingNew", "transient"),
            ("", "transient"),
        ] {
            let proto = ErrorProto {
                reason: reason.to_owned(),
            };
            assert_eq!(class(&failed(&proto).error), expected, "{reason}");
        }
    }

    /// D43: only `duplicate` means that the thing itself is there.
    #[test]
    fn a_conflict_is_no_duplicate() {
        for (reason, expected) in [("duplicate", true), ("conflict", false), ("", false)] {
            let body = json!({"error": {"errors": [{"reason": reason}]}}).to_string();
            let fault = refused(StatusCode::CONFLICT, body.as_bytes());
            assert_eq!(fault.is_duplicate(), expected, "{reason}");
        }
    }

    #[test]
    fn answers_that_are_no_json_have_a_class_too() {
        let fault = refused(StatusCode::BAD_GATEWAY, b"<html>oops");
        assert!(fault.again());
        assert_eq!(
            fault.error,
            SinkError::transient("the service answered 502")
        );
    }
}
