//! Rules for KollectConnectionTest.

use super::{
    finding::{Findings, Path},
    reference,
};
use crate::connection_test::KollectConnectionTestSpec;

pub(super) fn check(spec: &KollectConnectionTestSpec) -> Findings {
    let mut findings = Findings::default();
    let path = Path::spec().field("sinkRef");
    let given: Vec<_> = spec.sink_ref.given().collect();
    match given.as_slice() {
        [] => findings.required(
            path.clone(),
            "one of snapshotSinkRef, databaseSinkRef and eventSinkRef",
        ),
        [_] => {}
        several => findings.invalid(
            path.clone(),
            several
                .iter()
                .map(|(_, field, _)| *field)
                .collect::<Vec<_>>(),
            "must name exactly one sink",
        ),
    }
    for (_, field, name) in given {
        reference::plain_name(name, path.field(field), "sink", &mut findings);
    }
    if let Some(profile) = &spec.profile_ref {
        let at = Path::spec().field("profileRef");
        reference::plain_name(profile, at, "KollectProfile", &mut findings);
        findings.warn("spec.profileRef has no effect");
    }
    findings
}
