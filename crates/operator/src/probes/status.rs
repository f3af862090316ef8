//! The status of a sink, from its last probe.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kollect_api::{
    condition::{self, Condition, ConditionStatus, ConditionType, Reason},
    sink::SinkStatus,
};
use kollect_sinks::SinkSpec;

use crate::preview;

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
    use ConditionStatus::{False, True};
    use ConditionType::{ConnectionVerified, Degraded, TLSInsecure};

    let mut next = previous.clone();
    let conditions = &mut next.conditions;
    let set = |conditions: &mut Vec<Condition>, type_, status, reason, message: &str| {
        let condition =
            Condition::new(type_, status, reason, message, meta.generation, now.clone());
        condition::set(conditions, condition);
    };
    match probed {
        Probed::NotYet => {}
        // What an old probe said must not block anybody.
        Probed::Off => {
            for type_ in [ConnectionVerified, Degraded, TLSInsecure] {
                condition::remove(conditions, type_);
            }
        }
        Probed::Known(ProbeVerdict::Reached(text)) => {
            condition::remove(conditions, Degraded);
            let insecure = spec.common().tls.as_ref();
            if insecure.is_some_and(|tls| tls.insecure_skip_verify) {
                let text = "TLS certificate verification is disabled; use only for development";
                set(
                    conditions,
                    TLSInsecure,
                    True,
                    Reason::InsecureSkipVerify,
                    text,
                );
            } else {
                condition::remove(conditions, TLSInsecure);
            }
            set(
                conditions,
                ConnectionVerified,
                True,
                Reason::ConnectionOK,
                text,
            );
        }
        Probed::Known(ProbeVerdict::Failed(text)) => {
            let reason = Reason::ConnectionTestFailed;
            set(conditions, ConnectionVerified, False, reason, text);
            set(conditions, Degraded, True, reason, text);
        }
        Probed::Known(ProbeVerdict::NoCredentials(text)) => {
            let reason = Reason::SecretResolveFailed;
            set(conditions, ConnectionVerified, False, reason, text);
            set(conditions, Degraded, True, reason, text);
        }
    }
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
