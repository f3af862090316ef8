//! The status of a target, from what the plan says of it and what its collection has achieved.
//!
//! Pure: the previous status, the facts and the time go in, the new status comes out. Writing it,
//! and telling the world about transitions, is somebody else's job.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kollect_api::{
    condition::{self, Condition, ConditionStatus, ConditionType, Reason},
    target::TargetStatus,
};
use kollect_collect::plan::Names;

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
    /// The message about namespaces that may not be read, if there are any.
    pub forbidden: Option<String>,
    /// Rules in force.
    pub active_rules: usize,
    /// Whether every object of the first listing has been processed.
    pub complete: bool,
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

/// The status that says so.
pub fn status(previous: &TargetStatus, facts: &TargetFacts, now: &Time) -> TargetStatus {
    use ConditionStatus::{False, True};
    use ConditionType::{Degraded, Ready, SinkReachable, Synced};

    let mut next = previous.clone();
    if facts.undecided {
        return next;
    }
    next.observed_generation = facts.generation;
    let names =
        |list: &[Arc<str>]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
    next.matched_namespaces = names(&facts.matched_namespaces);
    next.effective_namespaces = names(&facts.effective_namespaces);
    next.active_resource_rules = count(facts.active_rules);
    next.extraction_failures = count(facts.failures);
    next.last_extraction_error = facts.last_failure.clone().filter(|_| facts.failures > 0);

    // While the first listing runs the number would only confuse; a stopped target keeps its last.
    let counted = count(facts.rows);
    if facts.complete && facts.trouble.is_none() && next.collected_count != Some(counted) {
        next.collected_count = Some(counted);
        next.collected_count_updated_at = Some(now.clone());
    }

    let mut say = |type_, status, reason, message: String| {
        let statement = Condition::new(
            type_,
            status,
            reason,
            message,
            facts.generation,
            now.clone(),
        );
        condition::set(&mut next.conditions, statement);
    };
    match &facts.sinks {
        None => {}
        Some(Sinks::None) => say(
            SinkReachable,
            True,
            Reason::NoSinksInNamespace,
            "no inventory of this namespace refers to a sink".to_owned(),
        ),
        Some(Sinks::Reachable(number)) => {
            say(
                SinkReachable,
                True,
                Reason::SinksReachable,
                format!("{number} sink(s) resolved"),
            );
        }
        Some(Sinks::Unreachable(trouble)) => {
            say(
                SinkReachable,
                False,
                trouble.reason,
                trouble.message.clone(),
            );
        }
    }
    let extraction = extraction_trouble(facts);
    let degraded = facts.trouble.as_ref().or(extraction.as_ref());
    if let Some(trouble) = degraded {
        say(Degraded, True, trouble.reason, trouble.message.clone());
    }
    match &facts.trouble {
        Some(trouble) => {
            say(Synced, False, trouble.reason, trouble.message.clone());
            say(Ready, False, trouble.reason, trouble.message.clone());
        }
        None if !facts.complete => {
            let message = waiting(facts);
            say(Synced, False, Reason::Progressing, message.clone());
            say(Ready, False, Reason::Progressing, message);
        }
        None => {
            let message = collecting(facts);
            match &facts.forbidden {
                Some(forbidden) => say(Synced, True, Reason::ScopeForbidden, forbidden.clone()),
                None => say(Synced, True, Reason::Collecting, message.clone()),
            }
            match &extraction {
                // Good rows are good rows; only a target without any is of no use.
                Some(trouble) if facts.rows == 0 => {
                    say(Ready, False, trouble.reason, trouble.message.clone());
                }
                _ => say(Ready, True, Reason::Collecting, message),
            }
        }
    }
    if degraded.is_none() {
        condition::remove(&mut next.conditions, Degraded);
    }
    next
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
    if facts.cluster {
        message += &format!(
            "{} namespace(s) matched; ",
            facts.effective_namespaces.len()
        );
    }
    message += &format!("collecting {} resource(s)", facts.rows);
    if facts.effective_namespaces.is_empty() {
        message += "; no namespace is selected, so nothing is collected";
    }
    if !facts.outside_scope.is_empty() {
        let named: Vec<_> = facts
            .outside_scope
            .iter()
            .take(10)
            .map(AsRef::as_ref)
            .collect();
        let more = facts.outside_scope.len().saturating_sub(named.len());
        message += &format!("; outside the scope: [{}]", named.join(" "));
        if more > 0 {
            message += &format!(" and {more} more");
        }
    }
    if let Some(error) = &facts.policy_failure {
        message += &format!("; objects do not match because of {error}");
    }
    if let Some(cause) = &facts.interruption {
        message += &format!("; updates are delayed: {cause}");
    }
    message
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn healthy() -> TargetFacts {
        TargetFacts {
            generation: Some(3),
            profile: "\"p\"".to_owned(),
            cluster: false,
            trouble: None,
            undecided: false,
            matched_namespaces: ["team-a".into()].into(),
            effective_namespaces: ["team-a".into()].into(),
            outside_scope: Names::default(),
            forbidden: None,
            active_rules: 0,
            complete: true,
            interruption: None,
            rows: 2,
            failures: 0,
            last_failure: None,
            policy_failure: None,
            sinks: Some(Sinks::None),
        }
    }

    fn states(status: &TargetStatus) -> Vec<(String, ConditionStatus, String)> {
        let mut states: Vec<_> = status
            .conditions
            .iter()
            .map(|c| (c.type_.clone(), c.status, c.reason.clone()))
            .collect();
        states.sort_by(|a, b| a.0.cmp(&b.0));
        states
    }

    fn expect(facts: &TargetFacts, expected: &[(&str, ConditionStatus, &str)]) -> TargetStatus {
        let status = status(&TargetStatus::default(), facts, &at(1));
        let expected: Vec<_> = expected
            .iter()
            .map(|(type_, status, reason)| ((*type_).to_owned(), *status, (*reason).to_owned()))
            .collect();
        assert_eq!(states(&status), expected);
        assert_eq!(
            status.observed_generation,
            Some(3),
            "also a failing generation was seen"
        );
        status
    }

    use ConditionStatus::{False, True};

    #[test]
    fn a_healthy_target_counts_its_rows() {
        let status = expect(
            &healthy(),
            &[
                ("Ready", True, "Collecting"),
                ("SinkReachable", True, "NoSinksInNamespace"),
                ("Synced", True, "Collecting"),
            ],
        );
        assert_eq!(status.collected_count, Some(2));
        let ready = status
            .conditions
            .iter()
            .find(|c| c.type_ == "Ready")
            .unwrap();
        assert_eq!(
            ready.message,
            "profileRef \"p\" resolved; collecting 2 resource(s)"
        );
    }

    #[test]
    fn a_measured_zero_is_kept_and_an_unchanged_count_keeps_its_time() {
        let zero = TargetFacts {
            rows: 0,
            ..healthy()
        };
        let first = status(&TargetStatus::default(), &zero, &at(1));
        assert_eq!(first.collected_count, Some(0));
        assert_eq!(first.collected_count_updated_at, Some(at(1)));
        let second = status(&first, &zero, &at(60));
        assert_eq!(second, first, "nothing changed, nothing is written");
        let third = status(&second, &healthy(), &at(61));
        assert_eq!(third.collected_count_updated_at, Some(at(61)));
    }

    #[test]
    fn a_stopped_target_is_not_ready_and_keeps_its_count() {
        let before = status(&TargetStatus::default(), &healthy(), &at(1));
        let trouble = Trouble {
            reason: Reason::Suspended,
            message: "spec.suspend is true; rows removed from inventories".to_owned(),
        };
        let facts = TargetFacts {
            trouble: Some(trouble),
            rows: 0,
            complete: false,
            ..healthy()
        };
        let after = status(&before, &facts, &at(2));
        assert_eq!(after.collected_count, Some(2));
        assert_eq!(
            states(&after)[..2],
            [
                ("Degraded".to_owned(), True, "Suspended".to_owned()),
                ("Ready".to_owned(), False, "Suspended".to_owned()),
            ]
        );
        let sinks = after
            .conditions
            .iter()
            .find(|c| c.type_ == "SinkReachable")
            .unwrap();
        assert_eq!(
            sinks.reason, "NoSinksInNamespace",
            "sinks have nothing to do with it"
        );
        let back = status(&after, &healthy(), &at(3));
        assert!(back.conditions.iter().all(|c| c.type_ != "Degraded"));
    }

    #[test]
    fn one_bad_object_degrades_but_does_not_stop() {
        let facts = TargetFacts {
            failures: 1,
            last_failure: Some("attribute \"a\": eval CEL: no such key".to_owned()),
            ..healthy()
        };
        let status = expect(
            &facts,
            &[
                ("Degraded", True, "ExtractionFailed"),
                ("Ready", True, "Collecting"),
                ("SinkReachable", True, "NoSinksInNamespace"),
                ("Synced", True, "Collecting"),
            ],
        );
        assert_eq!(status.extraction_failures, 1);
        let none = TargetFacts { rows: 0, ..facts };
        expect(
            &none,
            &[
                ("Degraded", True, "ExtractionFailed"),
                ("Ready", False, "ExtractionFailed"),
                ("SinkReachable", True, "NoSinksInNamespace"),
                ("Synced", True, "Collecting"),
            ],
        );
    }

    #[test]
    fn nothing_is_claimed_before_the_first_listing_is_through() {
        let facts = TargetFacts {
            complete: false,
            rows: 7,
            interruption: Some("the API server answered 503".to_owned()),
            ..healthy()
        };
        let status = expect(
            &facts,
            &[
                ("Ready", False, "Progressing"),
                ("SinkReachable", True, "NoSinksInNamespace"),
                ("Synced", False, "Progressing"),
            ],
        );
        assert_eq!(
            status.collected_count, None,
            "a number that grows would only confuse"
        );
    }

    #[test]
    fn denied_namespaces_and_broken_sinks_do_not_stop_collection() {
        let unreachable = Trouble {
            reason: Reason::SinkNotFound,
            message: "KollectDatabaseSink \"pg\" does not exist".to_owned(),
        };
        let facts = TargetFacts {
            forbidden: Some("denied: [team-b]".to_owned()),
            sinks: Some(Sinks::Unreachable(unreachable)),
            ..healthy()
        };
        expect(
            &facts,
            &[
                ("Ready", True, "Collecting"),
                ("SinkReachable", False, "SinkNotFound"),
                ("Synced", True, "ScopeForbidden"),
            ],
        );
    }

    #[test]
    fn what_could_not_be_read_changes_nothing() {
        let before = status(&TargetStatus::default(), &healthy(), &at(1));
        let facts = TargetFacts {
            undecided: true,
            rows: 0,
            generation: Some(4),
            ..healthy()
        };
        let after = status(&before, &facts, &at(2));
        assert_eq!(after, before, "also the generation was not looked at");
    }

    fn ready(status: &TargetStatus) -> &str {
        let mut conditions = status.conditions.iter();
        let ready = conditions.find(|c| c.type_ == "Ready").unwrap();
        &ready.message
    }

    #[test]
    fn c_08_a_cluster_target_says_as_much_as_any_other() {
        let facts = TargetFacts {
            cluster: true,
            profile: "\"p\" in namespace \"home\"".to_owned(),
            failures: 1,
            last_failure: Some("attribute \"a\": no such key".to_owned()),
            sinks: None,
            ..healthy()
        };
        let status = expect(
            &facts,
            &[
                ("Degraded", True, "ExtractionFailed"),
                ("Ready", True, "Collecting"),
                ("Synced", True, "Collecting"),
            ],
        );
        assert_eq!(
            ready(&status),
            "profileRef \"p\" in namespace \"home\" resolved; 1 namespace(s) matched; \
             collecting 2 resource(s)"
        );
        assert_eq!(status.collected_count, Some(2));
        assert_eq!(status.extraction_failures, 1);
    }

    #[test]
    fn c_20_a_policy_that_cannot_be_evaluated_is_shown() {
        let error = "spec.resourceRules[0].matchPolicy: no such key";
        let facts = TargetFacts {
            policy_failure: Some(error.to_owned()),
            ..healthy()
        };
        let status = status(&TargetStatus::default(), &facts, &at(1));
        assert!(ready(&status).ends_with(&format!("; objects do not match because of {error}")));
    }

    #[test]
    fn c_43_a_field_that_alone_changes_is_a_change() {
        let before = status(&TargetStatus::default(), &healthy(), &at(1));
        let matched = TargetFacts {
            matched_namespaces: ["team-a".into(), "team-b".into()].into(),
            ..healthy()
        };
        let rules = TargetFacts {
            active_rules: 1,
            ..healthy()
        };
        for facts in [matched, rules] {
            let after = status(&before, &facts, &at(2));
            assert_eq!(after.conditions, before.conditions);
            assert_ne!(after, before);
        }
    }

    #[test]
    fn events_are_about_transitions() {
        let before = status(&TargetStatus::default(), &healthy(), &at(1));
        let same = status(
            &before,
            &TargetFacts {
                rows: 9,
                ..healthy()
            },
            &at(2),
        );
        assert_eq!(
            condition::transitions(&before.conditions, &same.conditions).count(),
            0,
            "a new number is no event"
        );
        let forbidden = TargetFacts {
            forbidden: Some("denied: [b]".to_owned()),
            ..healthy()
        };
        let after = status(&before, &forbidden, &at(3));
        let reasons: Vec<_> = condition::transitions(&before.conditions, &after.conditions)
            .map(|c| c.reason.as_str())
            .collect();
        assert_eq!(reasons, ["ScopeForbidden"]);
    }
}
