//! What became of targets and contexts, and the exit code that follows. Pure.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kollect_api::{
    condition::Reason,
    profile::{ExportMode, KollectProfileSpec},
};
use kollect_collect::{
    gates::{PolicyFailures, Skip},
    gather::{Failure, Gathered},
    plan::{Course, Plan, TargetKey, TargetPlan, TargetState},
};
use kollect_inventory::{HeldRows, Snapshot, TargetKind};

/// What became of one target.
#[derive(Debug, Clone)]
pub(crate) struct TargetOutcome {
    pub(crate) key: TargetKey,
    /// Its rows; nothing if they are not known, so that nothing may be written for it.
    pub(crate) rows: Option<Snapshot>,
    /// What was left out.
    pub(crate) skips: Vec<Unread>,
    /// What went wrong.
    pub(crate) errors: Vec<String>,
    /// Objects that could not be extracted.
    pub(crate) failures: Vec<Failure>,
    /// Nobody wants anything of it.
    pub(crate) suspended: bool,
    /// Every object of it failed, so that no rows would be a wrong answer.
    pub(crate) all_failed: bool,
    /// Objects that gates left out.
    pub(crate) left_out: BTreeMap<Skip, u64>,
    /// Policies of its rules that failed, which counts as "no match".
    pub(crate) policy_failures: PolicyFailures,
    /// What was planned for it, if it could be.
    pub(crate) plan: Option<Arc<TargetPlan>>,
}

/// Something that was left out because it could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unread {
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
            all_failed: false,
            left_out: BTreeMap::new(),
            policy_failures: PolicyFailures::default(),
            plan: None,
        }
    }

    /// The attributes of its profile, in their order, with the one that holds whole objects.
    pub(crate) fn attributes(&self) -> Vec<String> {
        let collection = self.plan.as_ref().and_then(|plan| plan.collection());
        collection.map_or_else(Vec::new, |collection| {
            attributes(&collection.extraction.profile.spec)
        })
    }

    /// Why its rows are not written.
    pub(crate) fn held_back(&self) -> &'static str {
        if self.all_failed {
            "none of its objects could be extracted; give --allow-empty to write that there are none"
        } else {
            "it was not collected"
        }
    }

    /// How many objects of its kind were looked at.
    pub(crate) fn seen(&self) -> u64 {
        let rows = self.rows.as_ref().map_or(0, Snapshot::len) + self.failures.len();
        rows as u64 + self.left_out.values().sum::<u64>()
    }

    /// Attributes that no row has a value for.
    pub(crate) fn always_null(&self) -> Vec<String> {
        let Some(rows) = self.rows.as_ref().filter(|rows| !rows.is_empty()) else {
            return Vec::new();
        };
        let mut names = self.attributes();
        for row in rows.rows() {
            names.retain(|name| {
                row.attributes()
                    .get(name)
                    .is_none_or(kollect_inventory::CanonicalRef::is_null)
            });
        }
        names
    }

    /// What the plan says of a target before anything is listed.
    fn planned(target: &Arc<TargetPlan>) -> Self {
        let mut outcome = Self::unknown(&target.key);
        outcome.plan = Some(Arc::clone(target));
        match (&target.course, &target.state) {
            (Course::Stop, TargetState::Degraded(why)) => match why.reason {
                Reason::Suspended => outcome.suspended = true,
                Reason::KindNotInstalled => outcome.skip(
                    SkipReason::KindNotFound,
                    "",
                    format!("{}; check targetGVK of the profile", before(&why.message)),
                ),
                Reason::ScopeGVKDenied
                | Reason::ScopeNamespaceDenied
                | Reason::ScopeResourceExportDenied => {
                    outcome.skip(SkipReason::Scope, "", why.message.clone());
                }
                _ => outcome.errors.push(why.message.clone()),
            },
            (Course::Stop, _) => outcome.errors.push("is not allowed to collect".to_owned()),
            // What may not be listed is told below.
            (Course::Collect(_), TargetState::Degraded(why))
                if why.reason == Reason::ScopeForbidden => {}
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
        self.skips.push(Unread {
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
    allow_empty: bool,
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
            // A namespace that may not be read is left out, and sinks keep what they hold of it.
            // Everything else says nothing about what is there.
            known &= listing.reason == SkipReason::Forbidden && !listing.namespace.is_empty();
        }
        let rows = gathered.rows.remove(key).unwrap_or_default();
        outcome.failures = gathered.failures.remove(key).unwrap_or_default();
        outcome.failures.sort();
        outcome.left_out = gathered.left_out.remove(key).unwrap_or_default();
        outcome.policy_failures = gathered.policy_failures.remove(key).unwrap_or_default();
        // A mistake in an expression says nothing about what is there.
        outcome.all_failed = rows.is_empty() && !outcome.failures.is_empty() && !allow_empty;
        known &= !outcome.all_failed;
        let refused = outcome.skips.iter();
        let refused = refused.filter(|skip| skip.reason == SkipReason::Forbidden);
        let held = refused.map(|skip| HeldRows::in_namespace(&key.name, &skip.namespace));
        let held = held.collect();
        outcome.rows = known.then(|| Snapshot::new(rows).holding(held));
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

/// The attributes of a profile in their order, with the one that holds whole objects.
pub(crate) fn attributes(profile: &KollectProfileSpec) -> Vec<String> {
    let mut names: Vec<String> = profile
        .attributes
        .iter()
        .map(|attribute| attribute.name.clone())
        .collect();
    if let Some(export) = &profile.export
        && export.mode == ExportMode::Resource
    {
        names.push(export.as_.clone());
    }
    names
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

impl Code {
    pub(crate) fn exit(self) -> std::process::ExitCode {
        std::process::ExitCode::from(self as u8)
    }
}

/// The code of one context.
pub(crate) fn code(degraded: bool, exported: usize) -> Code {
    match (degraded, exported) {
        (false, _) => Code::Success,
        (true, 0) => Code::Fatal,
        (true, _) => Code::Partial,
    }
}

/// The code of the process: nothing was written only if that is so everywhere.
pub(crate) fn all(codes: &[Code]) -> Code {
    match codes.iter().max() {
        Some(Code::Fatal) if codes.iter().any(|code| *code != Code::Fatal) => Code::Partial,
        worst => worst.copied().unwrap_or(Code::Success),
    }
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

/// Failures with the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause<'f> {
    pub(crate) reason: &'f str,
    pub(crate) count: usize,
    /// The first few objects.
    pub(crate) examples: Vec<String>,
}

/// How many objects, causes or namespaces messages name.
pub(crate) const NAMED: usize = 3;

/// Failures by their cause, the most frequent first.
pub(crate) fn causes(failures: &[Failure]) -> Vec<Cause<'_>> {
    let mut by_reason: BTreeMap<&str, Cause<'_>> = BTreeMap::new();
    for failure in failures {
        let cause = by_reason.entry(&failure.reason).or_insert_with(|| Cause {
            reason: &failure.reason,
            count: 0,
            examples: Vec::new(),
        });
        cause.count += 1;
        if cause.examples.len() < NAMED {
            let object = named_object(&failure.namespace, &failure.name);
            cause.examples.push(object);
        }
    }
    let mut causes: Vec<Cause<'_>> = by_reason.into_values().collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
    causes
}

/// Some of many names: the first few, and how many more there are.
pub(crate) fn some<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let count = names.len();
    let first: Vec<&str> = names.take(NAMED).collect();
    match count.saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
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
    fn e7_failures_are_summed_up() {
        let failure = |number: usize, reason: &str| Failure {
            namespace: "n".to_owned(),
            name: format!("o{number}"),
            uid: String::new(),
            reason: reason.to_owned(),
        };
        let mut failures: Vec<Failure> = (0..299).map(|n| failure(n, "no such key")).collect();
        failures.insert(0, failure(300, "other"));
        let causes = causes(&failures);
        assert_eq!((causes[0].count, causes[0].reason), (299, "no such key"));
        assert_eq!(causes[0].examples, ["n/o0", "n/o1", "n/o2"]);
        assert_eq!(causes[1].count, 1);
        let names = ["a", "b", "c", "d", "e"];
        assert_eq!(some(names.into_iter()), "a, b, c and 2 more");
        assert_eq!(some(names[..2].iter().copied()), "a, b");
    }

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
        assert_eq!(all(&[Code::Success, Code::Fatal]), Code::Partial, "E19");
        assert_eq!(all(&[Code::Fatal, Code::Fatal]), Code::Fatal);
        assert_eq!(all(&[Code::Success, Code::Partial]), Code::Partial);
        assert_eq!(all(&[]), Code::Success);
    }
}
