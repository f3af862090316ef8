//! The status of a sink, from its last probe.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kollect_api::{
    condition::{
        Condition,
        ConditionStatus::{False, True},
        ConditionType::{ConnectionVerified, Degraded, TLSInsecure},
        Reason,
    },
    sink::{SinkSpec, SinkStatus},
};

use crate::{
    preview,
    statements::{self, Statement},
};

/// What a probe said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// The backend can be used.
    Reached(String),
    /// It cannot; it is tried again at this time.
    Failed(String, Timestamp),
    /// It was not asked: the rules stand against the sink.
    Invalid(String),
    /// It was not tried, because the credentials cannot be had.
    NoCredentials(String),
}

/// What stands between what a failed probe said and when the next one is due.
pub const NEXT_ATTEMPT: &str = "; next attempt at ";

/// What is known of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed<'p> {
    /// Nobody wants it probed, or not any more.
    Off,
    /// The first probe is under way.
    NotYet,
    /// This.
    Known(&'p ProbeVerdict),
}

/// The status that says so.
pub fn status(
    previous: &SinkStatus,
    spec: &SinkSpec,
    meta: &ObjectMeta,
    probed: Probed<'_>,
    now: &Time,
) -> SinkStatus {
    let mut next = previous.clone();
    let said = match probed {
        Probed::Off => outdated(&previous.conditions, meta.generation),
        probed => statements(probed, spec),
    };
    statements::apply(&mut next.conditions, said, meta.generation, now);
    let wanted = meta
        .annotations
        .as_ref()
        .and_then(|all| all.get(kollect_api::meta::PREVIEW_ANNOTATION))
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    next.preview = wanted.then(|| {
        let sink = meta.name.as_deref().unwrap_or_default();
        preview::render(spec, sink, next.preview.as_ref(), now)
    });
    next
}

/// What is taken back when nobody wants a sink probed: what was said about another generation. The
/// answer to somebody who asked once stays.
fn outdated(conditions: &[Condition], generation: Option<i64>) -> Vec<Statement> {
    [ConnectionVerified, Degraded, TLSInsecure]
        .into_iter()
        .filter(|type_| {
            let said = statements::find(conditions, *type_);
            said.is_some_and(|said| said.observed_generation != generation)
        })
        .map(Statement::Ends)
        .collect()
}

/// What the conditions say.
fn statements(probed: Probed<'_>, spec: &SinkSpec) -> Vec<Statement> {
    let failed = |reason, text: &str| {
        vec![
            Statement::says(ConnectionVerified, False, reason, text),
            Statement::says(Degraded, True, reason, text),
        ]
    };
    match probed {
        Probed::NotYet | Probed::Off => Vec::new(),
        Probed::Known(ProbeVerdict::Reached(text)) => vec![
            Statement::Ends(Degraded),
            encryption(spec),
            Statement::says(ConnectionVerified, True, Reason::ConnectionOK, text),
        ],
        Probed::Known(ProbeVerdict::Failed(text, next)) => {
            let text = format!(
                "{text}{NEXT_ATTEMPT}{next}; a new value of the annotation kollect.dev/requestedAt tries at once"
            );
            failed(Reason::ConnectionTestFailed, &text)
        }
        Probed::Known(ProbeVerdict::Invalid(text)) => failed(Reason::InvalidSpec, text),
        Probed::Known(ProbeVerdict::NoCredentials(text)) => {
            failed(Reason::SecretResolveFailed, text)
        }
    }
}

fn encryption(spec: &SinkSpec) -> Statement {
    let tls = spec.common().tls.as_ref();
    if tls.is_some_and(|tls| tls.insecure_skip_verify) {
        let text = "TLS certificate verification is disabled; use only for development";
        Statement::says(TLSInsecure, True, Reason::InsecureSkipVerify, text)
    } else {
        Statement::Ends(TLSInsecure)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> SinkSpec {
        let spec = json!({
            "type": "postgres", "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
        });
        SinkSpec::Database(serde_json::from_value(spec).expect("a sink"))
    }

    fn pass(previous: &SinkStatus, generation: i64, probed: Probed<'_>) -> SinkStatus {
        let meta = ObjectMeta {
            generation: Some(generation),
            ..ObjectMeta::default()
        };
        status(
            previous,
            &spec(),
            &meta,
            probed,
            &Time(Timestamp::UNIX_EPOCH),
        )
    }

    fn told(status: &SinkStatus) -> Vec<String> {
        let conditions = status.conditions.iter();
        conditions
            .map(|c| format!("{}={:?}/{}: {}", c.type_, c.status, c.reason, c.message))
            .collect()
    }

    #[test]
    fn c7_the_answer_to_one_question_stays_until_the_sink_changes() {
        let reached = ProbeVerdict::Reached("ping".to_owned());
        let asked = pass(&SinkStatus::default(), 1, Probed::Known(&reached));
        let expected = ["ConnectionVerified=True/ConnectionOK: ping"];
        assert_eq!(told(&asked), expected);
        let later = pass(&asked, 1, Probed::Off);
        assert_eq!(
            told(&later),
            expected,
            "the annotation is gone, the answer is not"
        );
        let changed = pass(&later, 2, Probed::Off);
        assert!(changed.conditions.is_empty(), "it was about something else");
    }

    #[test]
    fn c17_a_failed_probe_says_when_the_next_one_is() {
        let next = Timestamp::from_second(5).expect("a time");
        let failed = ProbeVerdict::Failed("authentication failed".to_owned(), next);
        let status = pass(&SinkStatus::default(), 1, Probed::Known(&failed));
        let text = "False/ConnectionTestFailed: authentication failed; next attempt at \
             1970-01-01T00:00:05Z; a new value of the annotation kollect.dev/requestedAt tries at once";
        assert_eq!(told(&status)[0], format!("ConnectionVerified={text}"));
        let verified = &status.conditions[0];
        assert_eq!(
            crate::sink_usability::cause(verified),
            "authentication failed"
        );
    }
}
