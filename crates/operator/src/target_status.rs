//! The status of a target, from what the plan says of it and what its collection has achieved.
//!
//! Pure: the previous status, the facts and the time go in, the new status comes out. Writing it,
//! and telling the world about transitions, is somebody else's job.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kollect_api::{
    condition::{
        ConditionStatus::{False, True},
        ConditionType::{Degraded, Ready, SinkReachable, Synced},
        Reason,
    },
    target::TargetStatus,
};
use kollect_collect::plan::Names;

use crate::statements::{self, Statement};

/// What is wrong with a target, in one word and one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The word.
    pub reason: Reason,
    /// The sentence: which object, what happened, what to do.
    pub message: String,
}

/// Whether the sinks that the target's rows go to can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sinks {
    /// No inventory of the namespace refers to a sink.
    None,
    /// All of them can be used.
    Reachable(usize),
    /// At least one cannot.
    Unreachable(Trouble),
}

/// What is known of a target at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct TargetFacts {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// How the profile is referred to in messages: `"p"` or `"p" in namespace "ns"`.
    pub profile: String,
    /// Whether this is a cluster target, whose message counts namespaces.
    pub cluster: bool,
    /// Why the target does not collect, or not as asked.
    pub trouble: Option<Trouble>,
    /// Something could not be read: nothing definite is known, and conditions stay as they are.
    pub undecided: bool,
    /// Namespaces asked for.
    pub matched_namespaces: Names,
    /// Namespaces collected from.
    pub effective_namespaces: Names,
    /// Namespaces asked for that a scope took away.
    pub outside_scope: Names,
    /// What is said about namespaces whose sensitive objects nobody allowed to collect.
    pub unpermitted: Option<String>,
    /// Namespace and name of the profile that a cluster target uses, once it was found.
    pub found_profile: Option<(String, String)>,
    /// Namespaces that are named although this operator does not serve them.
    pub unserved: Names,
    /// The message about namespaces that may not be read, if there are any.
    pub forbidden: Option<String>,
    /// Rules in force.
    pub active_rules: usize,
    /// Whether every object of the first listing has been processed.
    pub complete: bool,
    /// The first listing began a moment ago: what the status says of this generation is taken to be
    /// true still, see [`PATIENCE`].
    pub catching_up: bool,
    /// The kind that is collected is cluster-scoped: namespaces mean nothing.
    pub cluster_scoped: bool,
    /// Why our finalizer could not be put on the object.
    pub finalizer: Option<String>,
    /// Why nothing arrives at present, if so.
    pub interruption: Option<String>,
    /// Rows held.
    pub rows: usize,
    /// Objects whose extraction fails.
    pub failures: usize,
    /// The most recent failure.
    pub last_failure: Option<String>,
    /// The last policy that could not be evaluated.
    pub policy_failure: Option<String>,
    /// The sinks behind the target; `None` for cluster targets, which do not report them.
    pub sinks: Option<Sinks>,
}

/// For how long a first listing is not worth telling where the status says something about this
/// generation already: a restart changes nothing that anybody outside could see.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a target is up to, in one word.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TargetSituation {
    /// It does not collect, for this reason.
    Stopped(Trouble),
    /// The first listing is not through; what was listed may have failed already.
    Listing(Option<Trouble>),
    /// Its rows are there; some objects may have failed.
    Collecting(Option<Trouble>),
    /// Every object failed: good rows are good rows, and only a target without any is of no use.
    Fruitless(Trouble),
}

impl TargetSituation {
    fn of(facts: &TargetFacts) -> Self {
        if let Some(trouble) = facts.trouble.clone().or_else(|| nothing_left(facts)) {
            return Self::Stopped(trouble);
        }
        let trouble = extraction_trouble(facts)
            .or_else(|| unfinalized(facts))
            .or_else(|| partly_forbidden(facts));
        match trouble {
            extraction if !facts.complete => Self::Listing(extraction),
            Some(trouble) if facts.rows == 0 && facts.failures > 0 => Self::Fruitless(trouble),
            extraction => Self::Collecting(extraction),
        }
    }

    fn degradation(&self) -> Option<&Trouble> {
        match self {
            Self::Listing(trouble) | Self::Collecting(trouble) => trouble.as_ref(),
            Self::Stopped(trouble) | Self::Fruitless(trouble) => Some(trouble),
        }
    }
}

/// The complaint of a target whose scope takes away every namespace that it asks for.
fn nothing_left(facts: &TargetFacts) -> Option<Trouble> {
    let nothing_left = !facts.cluster_scoped
        && facts.effective_namespaces.is_empty()
        && !facts.outside_scope.is_empty();
    nothing_left.then(|| Trouble {
        reason: Reason::ScopeNamespaceDenied,
        message: format!(
            "every namespace that the target asks for is outside the scope: {}; select others, or have the scope changed",
            named(&facts.outside_scope)
        ),
    })
}

/// The complaint about a finalizer that is not there: rows of a deleted target might stay behind.
fn unfinalized(facts: &TargetFacts) -> Option<Trouble> {
    facts.finalizer.as_ref().map(|error| Trouble {
        reason: Reason::FinalizerNotAdded,
        message: format!(
            "the finalizer cannot be added and is tried again with growing pauses; the operator needs the right to patch this kind: {error}"
        ),
    })
}

/// The complaint about namespaces that may not be read, while others are.
fn partly_forbidden(facts: &TargetFacts) -> Option<Trouble> {
    facts.forbidden.as_ref().map(|message| Trouble {
        reason: Reason::ScopeForbidden,
        message: message.clone(),
    })
}

/// The status that says so.
pub fn status(previous: &TargetStatus, facts: &TargetFacts, now: &Time) -> TargetStatus {
    let mut next = previous.clone();
    if facts.undecided || is_catching_up(previous, facts) {
        return next;
    }
    numbers(&mut next, facts, now);
    let situation = TargetSituation::of(facts);
    let said = facts
        .sinks
        .as_ref()
        .map(reachability)
        .into_iter()
        .chain(conditions(&situation, facts));
    statements::apply(&mut next.conditions, said, facts.generation, now);
    next
}

/// Whether collection is about to arrive at what the status says already.
fn is_catching_up(previous: &TargetStatus, facts: &TargetFacts) -> bool {
    facts.catching_up
        && !facts.complete
        && facts.trouble.is_none()
        && previous.observed_generation == facts.generation
        && statements::find(&previous.conditions, Ready).is_some()
}

/// Everything but the conditions.
fn numbers(next: &mut TargetStatus, facts: &TargetFacts, now: &Time) {
    next.observed_generation = facts.generation;
    let names =
        |list: &[Arc<str>]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
    next.matched_namespaces = names(&facts.matched_namespaces);
    next.effective_namespaces = names(&facts.effective_namespaces);
    let (namespace, name) = facts.found_profile.clone().unzip();
    next.profile_namespace = namespace;
    next.profile_name = name;
    next.active_resource_rules = count(facts.active_rules);
    next.extraction_failures = count(facts.failures);
    next.last_extraction_error = facts.last_failure.clone().filter(|_| facts.failures > 0);

    // While the first listing runs the number would only confuse; a stopped target keeps its last.
    let counted = count(facts.rows);
    if facts.complete && facts.trouble.is_none() && next.collected_count != Some(counted) {
        next.collected_count = Some(counted);
        next.collected_count_updated_at = Some(now.clone());
    }
}

/// What is said about the sinks.
fn reachability(sinks: &Sinks) -> Statement {
    match sinks {
        Sinks::None => Statement::says(
            SinkReachable,
            True,
            Reason::NoSinksInNamespace,
            "no inventory of this namespace refers to a sink",
        ),
        Sinks::Reachable(number) => {
            let message = format!("{number} sink(s) resolved");
            Statement::says(SinkReachable, True, Reason::SinksReachable, message)
        }
        Sinks::Unreachable(Trouble { reason, message }) => {
            Statement::says(SinkReachable, False, *reason, message)
        }
    }
}

/// What is said about the target itself.
fn conditions(situation: &TargetSituation, facts: &TargetFacts) -> Vec<Statement> {
    let degraded = match situation.degradation() {
        Some(Trouble { reason, message }) => Statement::says(Degraded, True, *reason, message),
        None => Statement::Ends(Degraded),
    };
    let synced = || match &facts.forbidden {
        Some(forbidden) => Statement::says(Synced, True, Reason::ScopeForbidden, forbidden),
        None => Statement::says(Synced, True, Reason::Collecting, collecting(facts)),
    };
    let (synced, ready) = match situation {
        TargetSituation::Stopped(Trouble { reason, message }) => (
            Statement::says(Synced, False, *reason, message),
            Statement::says(Ready, False, *reason, message),
        ),
        TargetSituation::Listing(_) => (
            Statement::says(Synced, False, Reason::Progressing, waiting(facts)),
            Statement::says(Ready, False, Reason::Progressing, waiting(facts)),
        ),
        TargetSituation::Fruitless(Trouble { reason, message }) => {
            (synced(), Statement::says(Ready, False, *reason, message))
        }
        TargetSituation::Collecting(_) => (
            synced(),
            Statement::says(Ready, True, Reason::Collecting, collecting(facts)),
        ),
    };
    vec![degraded, synced, ready]
}

fn extraction_trouble(facts: &TargetFacts) -> Option<Trouble> {
    (facts.failures > 0 && facts.trouble.is_none()).then(|| Trouble {
        reason: Reason::ExtractionFailed,
        message: format!(
            "{} resource(s) failed attribute extraction: {}",
            facts.failures,
            facts.last_failure.as_deref().unwrap_or_default()
        ),
    })
}

fn waiting(facts: &TargetFacts) -> String {
    match &facts.interruption {
        Some(cause) => format!("waiting for the first listing: {cause}"),
        None => "waiting for the first listing to finish".to_owned(),
    }
}

fn collecting(facts: &TargetFacts) -> String {
    let profile = &facts.profile;
    let mut message = format!("profileRef {profile} resolved; ");
    if facts.cluster && !facts.cluster_scoped {
        message += &format!(
            "{} namespace(s) matched; ",
            facts.effective_namespaces.len()
        );
    }
    // How many there are says `collectedCount`, together with when they were counted.
    message += "collecting";
    if facts.effective_namespaces.is_empty() && !facts.cluster_scoped {
        message += "; no namespace is selected, so nothing is collected";
    } else if facts.rows == 0 {
        message += "; no object matches";
    }
    if !facts.outside_scope.is_empty() && !facts.cluster_scoped {
        message += &format!("; outside the scope: {}", named(&facts.outside_scope));
    }
    if let Some(advice) = &facts.unpermitted {
        message += &format!("; {advice}");
    }
    if !facts.unserved.is_empty() && !facts.cluster_scoped {
        message += &format!(
            "; this operator does not serve the namespaces {} (--watch-namespaces)",
            named(&facts.unserved)
        );
    }
    if let Some(error) = &facts.policy_failure {
        message += &format!("; objects do not match because of {error}");
    }
    if let Some(cause) = &facts.interruption {
        message += &format!("; updates are delayed: {cause}");
    }
    message
}

/// Some of these names, for a message.
fn named(names: &[Arc<str>]) -> String {
    let some: Vec<&str> = names.iter().take(10).map(AsRef::as_ref).collect();
    let more = match names.len().saturating_sub(some.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("[{}]{more}", some.join(" "))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "target_status_tests.rs"]
mod tests;
