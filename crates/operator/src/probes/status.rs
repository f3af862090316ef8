//! The status of a sink, from its last probe.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kollect_api::{
    condition::{
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
    /// It cannot.
    Failed(String),
    /// It was not tried, because the credentials cannot be had.
    NoCredentials(String),
}

/// What is known of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed<'p> {
    /// Nobody wants it probed.
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
    let said = statements(probed, spec);
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

/// What the conditions say.
fn statements(probed: Probed<'_>, spec: &SinkSpec) -> Vec<Statement> {
    let failed = |reason, text: &str| {
        vec![
            Statement::says(ConnectionVerified, False, reason, text),
            Statement::says(Degraded, True, reason, text),
        ]
    };
    match probed {
        Probed::NotYet => Vec::new(),
        // What an old probe said must not block anybody.
        Probed::Off => [ConnectionVerified, Degraded, TLSInsecure]
            .map(Statement::Ends)
            .to_vec(),
        Probed::Known(ProbeVerdict::Reached(text)) => vec![
            Statement::Ends(Degraded),
            encryption(spec),
            Statement::says(ConnectionVerified, True, Reason::ConnectionOK, text),
        ],
        Probed::Known(ProbeVerdict::Failed(text)) => failed(Reason::ConnectionTestFailed, text),
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
