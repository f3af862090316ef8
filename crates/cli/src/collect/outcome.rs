//! What became of targets and contexts, and the exit code that follows. Pure.

use std::{collections::BTreeMap, fmt};

use kollect_api::condition::Reason;
use kollect_collect::{
    gather::{Failure, Gathered},
    plan::{Course, Plan, TargetKey, TargetPlan, TargetState},
};
use kollect_inventory::{Snapshot, TargetKind};

/// What became of one target.
#[derive(Debug, Clone)]
pub(crate) struct TargetOutcome {
    pub(crate) key: TargetKey,
    /// Its rows; nothing if they are not known, so that nothing may be written for it.
    pub(crate) rows: Option<Snapshot>,
    /// What was left out.
    pub(crate) skips: Vec<Skip>,
    /// What went wrong.
    pub(crate) errors: Vec<String>,
    /// Objects that could not be extracted.
    pub(crate) failures: Vec<Failure>,
    /// Nobody wants anything of it.
    pub(crate) suspended: bool,
}

/// Something that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) reason: SkipReason,
    /// The namespace, empty for the whole target.
    pub(crate) namespace: String,
    /// What happened and what to do.
    pub(crate) message: String,
}

/// Why something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The kind is not there.
    KindNotFound,
    /// It may not be listed.
    Forbidden,
    /// It could not be listed.
    Transient,
    /// A scope stands against it.
    Scope,
}

impl SkipReason {
    /// One word for machines.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SkipReason::KindNotFound => "gvk-not-found",
            SkipReason::Forbidden => "forbidden",
            SkipReason::Transient => "transient",
            SkipReason::Scope => "scope",
        }
    }
}

impl TargetOutcome {
    fn unknown(key: &TargetKey) -> Self {
        Self {
            key: key.clone(),
            rows: None,
            skips: Vec::new(),
            errors: Vec::new(),
            failures: Vec::new(),
            suspended: false,
        }
    }

    /// What the plan says of a target before anything is listed.
    fn planned(target: &TargetPlan) -> Self {
        let mut outcome = Self::unknown(&target.key);
        match (&target.course, &target.state) {
            (Course::Stop, TargetState::Degraded(why)) => match why.reason {
                Reason::Suspended => outcome.suspended = true,
                Reason::KindNotInstalled => outcome.skip(
                    SkipReason::KindNotFound,
                    "",
                    format!("{}; check targetGVK of the profile", before(&why.message)),
                ),
                Reason::ScopeGVKDenied | Reason::ScopeNamespaceDenied => {
                    outcome.skip(SkipReason::Scope, "", why.message.clone());
                }
                _ => outcome.errors.push(why.message.clone()),
            },
            (Course::Stop, _) => outcome.errors.push("is not allowed to collect".to_owned()),
            (Course::Wait | Course::Collect(_), TargetState::Degraded(why)) => {
                outcome.errors.push(why.message.clone());
            }
            (Course::Wait, TargetState::Undecided(why)) => outcome.errors.push(why.clone()),
            (Course::Wait | Course::Collect(_), _) => {}
        }
        for namespace in &target.namespaces.forbidden {
            let message = if namespace.is_empty() {
                "may not be listed; grant list on it".to_owned()
            } else {
                format!(
                    "namespace {namespace} may not be listed; grant list there, or leave it out with excludedNamespaces"
                )
            };
            outcome.skip(SkipReason::Forbidden, namespace, message);
        }
        outcome
    }

    /// Notes that something is left out.
    pub(crate) fn skip(&mut self, reason: SkipReason, namespace: &str, message: String) {
        self.skips.push(Skip {
            reason,
            namespace: namespace.to_owned(),
            message,
        });
    }

    /// Whether anything went wrong.
    pub(crate) fn is_degraded(&self) -> bool {
        !self.skips.is_empty() || !self.errors.is_empty() || !self.failures.is_empty()
    }
}

/// Messages of the plan tell an operator's story after the semicolon.
fn before(message: &str) -> &str {
    message.split(';').next().unwrap_or(message)
}

/// A listing that did not come to its end.
#[derive(Debug, Clone)]
pub(crate) struct Unlisted {
    /// The targets it was for.
    pub(crate) targets: Vec<TargetKey>,
    pub(crate) reason: SkipReason,
    /// The namespace; empty if the listing was for all.
    pub(crate) namespace: String,
    pub(crate) message: String,
}

/// Puts plan and listings together: one outcome per target, in the order of `keys`.
pub(crate) fn outcomes(
    keys: &[TargetKey],
    plan: &Plan,
    mut gathered: Gathered,
    unlisted: &[Unlisted],
) -> Vec<TargetOutcome> {
    let of = |key: &TargetKey| {
        let target = plan.target(key)?;
        let mut outcome = TargetOutcome::planned(target);
        let mut known = match &target.course {
            // Nothing of it may be read: that is no answer to the question what is there.
            Course::Collect(collection) => {
                target.awaiting.is_empty()
                    && (target.namespaces.forbidden.is_empty() || !collection.reach.is_empty())
            }
            Course::Stop | Course::Wait => false,
        };
        if !target.awaiting.is_empty() && outcome.errors.is_empty() {
            outcome
                .errors
                .push("it is not known whether it may be listed".to_owned());
        }
        for listing in unlisted.iter().filter(|one| one.targets.contains(key)) {
            outcome.skip(listing.reason, &listing.namespace, listing.message.clone());
            // A namespace that may not be read is left out, as the operator does. Everything else
            // says nothing about what is there.
            known &= listing.reason == SkipReason::Forbidden && !listing.namespace.is_empty();
        }
        let rows = gathered.rows.remove(key).unwrap_or_default();
        outcome.failures = gathered.failures.remove(key).unwrap_or_default();
        outcome.failures.sort();
        outcome.rows = known.then(|| Snapshot::new(rows));
        Some(outcome)
    };
    keys.iter().filter_map(of).collect()
}

/// Adds targets that could not even be planned, in the place that is theirs.
pub(crate) fn add_refused(
    outcomes: &mut Vec<TargetOutcome>,
    keys: &[TargetKey],
    refused: &BTreeMap<TargetKey, String>,
) {
    for (key, why) in refused {
        let mut outcome = TargetOutcome::unknown(key);
        outcome.errors.push(why.clone());
        outcomes.push(outcome);
    }
    let place = |outcome: &TargetOutcome| keys.iter().position(|key| *key == outcome.key);
    outcomes.sort_by_key(place);
}

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Code {
    /// Everything was collected and written.
    Success = 0,
    /// Something was left out or failed, but something was written.
    Partial = 1,
    /// Nothing was written, or nothing could be begun.
    Fatal = 2,
}

/// The code of one context.
pub(crate) fn code(degraded: bool, exported: usize) -> Code {
    match (degraded, exported) {
        (false, _) => Code::Success,
        (true, 0) => Code::Fatal,
        (true, _) => Code::Partial,
    }
}

/// The code of the process: the worst one.
pub(crate) fn worst(codes: impl IntoIterator<Item = Code>) -> Code {
    codes.into_iter().max().unwrap_or(Code::Success)
}

/// Names a target as messages do: `ns/name`, or the name alone for cluster targets.
pub(crate) struct Named<'k>(pub(crate) &'k TargetKey);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.owner {
            TargetKind::Target => write!(f, "{}/{}", self.0.namespace, self.0.name),
            TargetKind::ClusterTarget => f.write_str(&self.0.name),
        }
    }
}

/// Names an object as messages do.
pub(crate) fn named_object(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Counts skips by reason, for summaries.
pub(crate) fn skip_counts(outcome: &TargetOutcome) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for skip in &outcome.skips {
        *counts.entry(skip.reason.as_str()).or_default() += 1;
    }
    counts
}

/// An outcome with these rows, or without any.
#[cfg(test)]
pub(crate) fn outcome_of(key: &TargetKey, rows: Option<Snapshot>) -> TargetOutcome {
    TargetOutcome {
        rows,
        ..TargetOutcome::unknown(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes() {
        for (degraded, exported, expected) in [
            (false, 3, Code::Success),
            (true, 3, Code::Partial),
            (true, 2, Code::Partial),
            (true, 0, Code::Fatal),
            (false, 0, Code::Success),
        ] {
            assert_eq!(code(degraded, exported), expected, "{degraded} {exported}");
        }
        assert_eq!(worst([Code::Success, Code::Fatal]), Code::Fatal);
        assert_eq!(worst([Code::Success, Code::Partial]), Code::Partial);
        assert_eq!(worst([]), Code::Success);
    }
}
