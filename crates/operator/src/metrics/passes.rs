//! What the control loop counts: its passes, the trouble of targets, the profiles they refer to.
//!
//! A pass looks at every target, so things that last are counted when they begin, not each time
//! they are seen again: a counter that grows says that something happens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use kollect_api::condition::Reason;
use kollect_collect::{
    engine::Durations,
    plan::{Plan, TargetKey, TargetPlan, TargetState},
};
use kollect_inventory::TargetKind;

/// The buckets of the time one pass or one export takes.
pub(super) const BOUNDS: [Duration; 11] = {
    let millis = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];
    let mut bounds = [Duration::ZERO; 11];
    let mut at = 0;
    while at < millis.len() {
        bounds[at] = Duration::from_millis(millis[at]);
        at += 1;
    }
    bounds
};

/// How a pass went for one kind of target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Everything could be decided.
    Success,
    /// Something could not be read or written, so that a target is left as it was.
    Failure,
}

impl Outcome {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

/// What sort of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// May pass by itself.
    Transient,
    /// Stays until somebody changes something.
    Terminal,
    /// A right is missing.
    Forbidden,
}

impl ErrorClass {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Transient, Self::Terminal, Self::Forbidden];

    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Terminal => "terminal",
            Self::Forbidden => "forbidden",
        }
    }
}

/// What became of a reference to a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// The profile was read.
    Found,
    /// There is none.
    NotFound,
    /// It may not be read.
    Forbidden,
}

impl Resolution {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "ok",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
        }
    }
}

/// Counts so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passes, by kind of target.
    pub passes: BTreeMap<(TargetKind, Outcome), u64>,
    /// Troubles that began.
    pub errors: BTreeMap<(TargetKind, ErrorClass), u64>,
    /// Profiles of cluster targets.
    pub references: BTreeMap<Resolution, u64>,
}

/// What the control loop counts.
#[derive(Debug)]
pub struct Passes {
    durations: Durations<11>,
    under_way: AtomicBool,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    counts: Counts,
    known: BTreeMap<TargetKey, Known>,
}

/// What the pass before said about a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    trouble: Option<ErrorClass>,
    forbidden: BTreeSet<String>,
    reference: Option<Resolution>,
}

impl Default for Passes {
    fn default() -> Self {
        Self {
            durations: Durations::new(BOUNDS),
            under_way: AtomicBool::new(false),
            record: Mutex::default(),
        }
    }
}

impl Passes {
    /// A pass begins.
    pub fn begin(&self) -> Instant {
        self.under_way.store(true, Ordering::Relaxed);
        Instant::now()
    }

    /// The pass that began then ends with this plan.
    pub fn end(&self, begun: Instant, plan: &Plan) {
        self.record().note(plan);
        self.durations.observe(begun.elapsed());
        self.under_way.store(false, Ordering::Relaxed);
    }

    /// Writes of what a pass found failed.
    pub fn writes_failed(&self, failures: &BTreeMap<TargetKind, u64>) {
        let counts = &mut self.record().counts;
        for (owner, failed) in failures {
            *counts.passes.entry((*owner, Outcome::Failure)).or_default() += failed;
        }
    }

    /// Whether a pass is under way.
    pub fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed)
    }

    /// How long passes took.
    pub fn durations(&self) -> &Durations<11> {
        &self.durations
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.record().counts.clone()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn note(&mut self, plan: &Plan) {
        let Self { counts, known } = self;
        let mut outcomes = BTreeMap::from([
            (TargetKind::Target, Outcome::Success),
            (TargetKind::ClusterTarget, Outcome::Success),
        ]);
        let mut seen = BTreeMap::new();
        for target in plan.targets() {
            let owner = target.key.owner;
            let before = known.remove(&target.key).unwrap_or_default();
            let now = Known::of(target);
            if now.trouble == Some(ErrorClass::Transient) {
                outcomes.insert(owner, Outcome::Failure);
            }
            if let Some(class) = now.trouble.filter(|_| now.trouble != before.trouble) {
                *counts.errors.entry((owner, class)).or_default() += 1;
            }
            let lost = now.forbidden.difference(&before.forbidden).count() as u64;
            if lost > 0 {
                let class = (owner, ErrorClass::Forbidden);
                *counts.errors.entry(class).or_default() += lost;
            }
            if let Some(result) = now.reference.filter(|_| now.reference != before.reference) {
                *counts.references.entry(result).or_default() += 1;
            }
            seen.insert(target.key.clone(), now);
        }
        *known = seen;
        for outcome in outcomes {
            *counts.passes.entry(outcome).or_default() += 1;
        }
    }
}

impl Known {
    fn of(target: &TargetPlan) -> Self {
        let reason = target.degradation().map(|degradation| degradation.reason);
        let trouble = match &target.state {
            TargetState::Collecting => None,
            TargetState::Undecided(_) => Some(ErrorClass::Transient),
            TargetState::Degraded(degradation) => class(degradation.reason),
        };
        let reference = match reason {
            _ if target.key.owner == TargetKind::Target => None,
            Some(Reason::ProfileNotFound) => Some(Resolution::NotFound),
            Some(Reason::ProfileForbidden) => Some(Resolution::Forbidden),
            // Before the profile is looked at, or nobody knows.
            Some(Reason::Suspended | Reason::MissingProfileRef | Reason::ProfileLookupFailed) => {
                None
            }
            Some(_) => Some(Resolution::Found),
            None => target.collection().map(|_| Resolution::Found),
        };
        let forbidden = target.namespaces.forbidden.iter();
        Self {
            trouble,
            forbidden: forbidden.map(ToString::to_string).collect(),
            reference,
        }
    }
}

fn class(reason: Reason) -> Option<ErrorClass> {
    match reason {
        // Somebody wants it so.
        Reason::Suspended => None,
        Reason::ProfileForbidden => Some(ErrorClass::Forbidden),
        Reason::ScopeLookupFailed
        | Reason::ProfileLookupFailed
        | Reason::NamespaceLookupFailed
        | Reason::AccessCheckFailed
        | Reason::InformerRegistrationFailed => Some(ErrorClass::Transient),
        _ => Some(ErrorClass::Terminal),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kollect_collect::plan::{NamespaceListing, ProfileFact, World};
    use serde_json::json;

    use super::*;

    /// What is counted of a cluster target whose profile is known like this.
    fn counted(known: Option<ProfileFact>) -> (Option<Resolution>, Option<ErrorClass>) {
        let target = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectClusterTarget",
            "metadata": {"name": "t"},
            "spec": {
                "profileRef": {"name": "p", "namespace": "platform"},
                "namespaceSelector": {"matchLabels": {"a": "b"}},
            },
        });
        let key = ("platform".to_owned(), "p".to_owned());
        let world = World {
            cluster_targets: vec![std::sync::Arc::new(
                serde_json::from_value(target).expect("a target"),
            )],
            namespaces: NamespaceListing::Complete(BTreeMap::new()),
            profiles: known.into_iter().map(|fact| (key.clone(), fact)).collect(),
            ..World::default()
        };
        let plan = Plan::new().next(&world);
        let target = plan.targets().next().expect("a target");
        let known = Known::of(target);
        (known.reference, known.trouble)
    }

    #[test]
    fn references_to_profiles_have_three_ends_and_not_knowing_is_none_of_them() {
        let failed = ProfileFact::Failed("time-out".to_owned());
        for (known, reference, class) in [
            (None, Some(Resolution::NotFound), Some(ErrorClass::Terminal)),
            (
                Some(ProfileFact::Forbidden),
                Some(Resolution::Forbidden),
                Some(ErrorClass::Forbidden),
            ),
            (Some(failed), None, Some(ErrorClass::Transient)),
        ] {
            let text = format!("{known:?}");
            assert_eq!(counted(known), (reference, class), "{text}");
        }
    }
}
