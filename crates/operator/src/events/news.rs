//! Which changes of a status a person would want to be told of. Pure.

use kollect_api::condition::{
    Condition, ConditionStatus,
    ConditionType::{
        self, ConnectionVerified, Degraded, ExportChurnWarning, ExportShardWarning, Ready,
        SinkReachable,
    },
    Reason,
};

use crate::statements::find;

/// What tells of trouble, the most telling first: of several that change together, one is told.
const TROUBLE: [ConditionType; 4] = [Degraded, SinkReachable, ConnectionVerified, Ready];

/// The conditions of a new status that are worth an event: trouble that is new, its end, the first
/// export, and what an administrator should know although everything works. That something is under
/// way, and that it works as it did, is not.
pub fn worth_telling<'c>(before: &[Condition], after: &'c [Condition]) -> Vec<&'c Condition> {
    let is_new = |condition: &Condition| {
        !before.iter().any(|old| {
            old.type_ == condition.type_
                && old.status == condition.status
                && old.reason == condition.reason
        })
    };
    let troubles = |conditions: &'c [Condition]| {
        let known = TROUBLE.into_iter();
        known.filter_map(move |type_| find(conditions, type_).filter(|said| is_trouble(said)))
    };
    let mut told: Vec<&Condition> = troubles(after)
        .find(|said| is_new(said))
        .into_iter()
        .collect();
    let was_in_trouble = TROUBLE
        .into_iter()
        .filter_map(|type_| find(before, type_))
        .any(is_trouble);
    if troubles(after).next().is_none() && !is_under_way(after) {
        let good = [SinkReachable, ConnectionVerified, Ready]
            .into_iter()
            .filter_map(|type_| find(after, type_))
            .filter(|said| said.status == ConditionStatus::True);
        let good: Vec<&Condition> = good.collect();
        if was_in_trouble {
            // What was in trouble says that it is not any more, in the word that changed.
            let changed = good.iter().find(|said| is_new(said));
            told.extend(changed.or(good.last()));
        } else {
            let exported = Reason::ExportSucceeded.as_str();
            let first = good.iter().find(|said| said.reason == exported);
            told.extend(first.filter(|said| is_new(said)));
        }
    }
    told.extend(after.iter().filter(|said| is_advice(said) && is_new(said)));
    told
}

/// What is wrong with an object, in the most telling of its conditions.
pub fn trouble(conditions: &[Condition]) -> Option<&Condition> {
    let mut known = TROUBLE.into_iter();
    known.find_map(|type_| find(conditions, type_).filter(|said| is_trouble(said)))
}

/// Whether an object is not ready, whatever the reason.
pub fn is_under_way(conditions: &[Condition]) -> bool {
    find(conditions, Ready).is_some_and(|ready| ready.status != ConditionStatus::True)
}

/// Whether a condition says that something is wrong, rather than under way.
fn is_trouble(condition: &Condition) -> bool {
    let under_way = [Reason::Progressing, Reason::WaitingForCollection]
        .iter()
        .any(|reason| condition.reason == reason.as_str());
    if condition.type_ == Degraded.as_str() {
        condition.status == ConditionStatus::True
    } else {
        condition.status == ConditionStatus::False && !under_way
    }
}

/// Whether a condition is a warning although everything works.
pub fn is_advice(condition: &Condition) -> bool {
    condition.status == ConditionStatus::True
        && (condition.type_ == ExportShardWarning.as_str()
            || condition.type_ == ExportChurnWarning.as_str()
            || condition.type_ == ConditionType::TLSInsecure.as_str())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    /// `Type=True/Reason`, separated by blanks.
    fn conditions(text: &str) -> Vec<Condition> {
        text.split_whitespace()
            .map(|condition| {
                let (type_, said) = condition.split_once('=').expect("a type");
                let (status, reason) = said.split_once('/').expect("a status");
                Condition {
                    type_: type_.to_owned(),
                    status: if status == "True" {
                        ConditionStatus::True
                    } else {
                        ConditionStatus::False
                    },
                    reason: reason.to_owned(),
                    message: String::new(),
                    last_transition_time: Time(Timestamp::UNIX_EPOCH),
                    observed_generation: None,
                }
            })
            .collect()
    }

    #[test]
    fn f5_an_event_is_for_what_a_person_wants_to_know() {
        let collecting =
            "SinkReachable=True/SinksReachable Synced=True/Collecting Ready=True/Collecting";
        let listing =
            "SinkReachable=True/SinksReachable Synced=False/Progressing Ready=False/Progressing";
        let exported =
            "Ready=True/Exported SinkReachable=True/ExportSucceeded Synced=True/Exported";
        let rests = "Ready=True/Exported SinkReachable=True/ExportSucceeded Synced=True/UpToDate";
        let failing = "Degraded=True/Progressing Ready=False/Progressing SinkReachable=False/ExportFailed Synced=False/Progressing";
        let suspended = "Degraded=True/Suspended Ready=False/Suspended Synced=False/Suspended SinkReachable=True/SinksReachable";
        let partly = "Ready=True/PartiallySynced SinkReachable=False/ExportFailed Synced=False/PartiallySynced";
        let verified = "ConnectionVerified=True/ConnectionOK";
        let unverified =
            "ConnectionVerified=False/ConnectionTestFailed Degraded=True/ConnectionTestFailed";
        for (case, before, after, expected) in [
            ("a new target", "", listing, ""),
            ("its rows are there", listing, collecting, ""),
            ("a first probe", "", verified, ""),
            ("the first export", "", exported, "ExportSucceeded"),
            ("an inventory comes to rest", exported, rests, ""),
            ("and exports again", rests, exported, ""),
            ("an outage is told once", rests, failing, "Progressing"),
            ("and goes on", failing, failing, ""),
            ("it heals", failing, exported, "ExportSucceeded"),
            ("one sink of two", rests, partly, "ExportFailed"),
            ("the other one too", partly, failing, "Progressing"),
            ("suspended", collecting, suspended, "Suspended"),
            ("and back", suspended, collecting, "Collecting"),
            ("back to work", suspended, listing, ""),
            (
                "a probe fails",
                verified,
                unverified,
                "ConnectionTestFailed",
            ),
            ("and succeeds", unverified, verified, "ConnectionOK"),
            (
                "objects that cannot be extracted",
                collecting,
                "Degraded=True/ExtractionFailed Ready=True/Collecting",
                "ExtractionFailed",
            ),
            (
                "advice beside an export",
                "",
                "Ready=True/Exported SinkReachable=True/ExportSucceeded ExportShardWarning=True/ApproachingExportCap",
                "ExportSucceeded ApproachingExportCap",
            ),
            (
                "advice is given once",
                "ExportShardWarning=True/ApproachingExportCap",
                "ExportShardWarning=True/ApproachingExportCap",
                "",
            ),
            (
                "denied namespaces",
                collecting,
                "Degraded=True/ScopeForbidden Synced=True/ScopeForbidden Ready=True/Collecting",
                "ScopeForbidden",
            ),
        ] {
            let (before, after) = (conditions(before), conditions(after));
            let told: Vec<&str> = worth_telling(&before, &after)
                .iter()
                .map(|condition| &*condition.reason)
                .collect();
            assert_eq!(told.join(" "), expected, "{case}");
        }
    }
}
