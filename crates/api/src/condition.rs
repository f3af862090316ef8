//! Conditions: how objects say what state they are in, and why.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, visible::visible};

/// One aspect of an object's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect this is about, for example `Ready`.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), regex(pattern = schema::CONDITION_TYPE))]
    pub type_: String,
    /// Whether the aspect holds: `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// Why, as one word for machines.
    #[schemars(length(min = 1, max = 1024), regex(pattern = schema::CONDITION_REASON))]
    pub reason: String,
    /// Why, as a sentence for people: which object, what happened, what to do.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// The `metadata.generation` this statement is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows yet.
    Unknown,
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[doc = $doc])+ $word,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$($name::$word),*];

            /// What it means, for people who read about it.
            pub fn meaning(self) -> &'static str {
                match self { $($name::$word => concat!($($doc),+).trim_start(),)* }
            }

            /// The word as it appears in `status` and events.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$word => stringify!($word),)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The aspects Kollect reports.
    ConditionType {
        /// The object does its work.
        Ready,
        /// What the object describes is what the outside world holds.
        Synced,
        /// Something is wrong; present only while it is.
        Degraded,
        /// The sinks an object depends on can be used.
        SinkReachable,
        /// A probe of the sink succeeded.
        ConnectionVerified,
        /// Server certificates are not verified.
        TLSInsecure,
        /// At least one export of a cluster inventory has succeeded.
        ExportSucceeded,
        /// The number of rows nears what one export document should hold.
        ExportShardWarning,
        /// What a stream holds can be read, so that only the difference is published; present only
        /// while it cannot.
        ReadBack,
        /// Changes are exported to a snapshot sink very often.
        ExportChurnWarning,
    }
}

words! {
    /// The reasons Kollect gives.
    Reason {
        /// `spec.suspend` is set.
        Suspended,
        /// A target names no profile.
        MissingProfileRef,
        /// The referenced profile does not exist.
        ProfileNotFound,
        /// The operator may not read the referenced profile.
        ProfileForbidden,
        /// The referenced profile could not be read.
        ProfileLookupFailed,
        /// Namespaces could not be read.
        NamespaceLookupFailed,
        /// Targets could not be read.
        TargetLookupFailed,
        /// Scopes could not be read.
        ScopeLookupFailed,
        /// A kind outside `allowedGVKs`.
        ScopeGVKDenied,
        /// A namespace outside the scope.
        ScopeNamespaceDenied,
        /// A sink outside the scope's lists.
        ScopeSinkDenied,
        /// The scope forbids the export of whole objects.
        ScopeResourceExportDenied,
        /// The operator demands a scope, the namespace has none, and more than the namespace itself
        /// is asked for.
        ScopeMissing,
        /// No administrator allowed to collect sensitive objects of other namespaces.
        SensitiveCollectionDenied,
        /// The namespace uses as much as it may.
        QuotaExceeded,
        /// Access to some namespaces is denied; the rest is collected.
        ScopeForbidden,
        /// A rule names another kind than the profile.
        ResourceRuleGVKMismatch,
        /// The kind of the profile is not installed in the cluster.
        KindNotInstalled,
        /// The watch could not be set up.
        InformerRegistrationFailed,
        /// The access review could not be made.
        AccessCheckFailed,
        /// Some objects could not be extracted.
        ExtractionFailed,
        /// Our finalizer could not be put on the object.
        FinalizerNotAdded,
        /// Inventories could not be listed.
        InventoryListFailed,
        /// A referenced sink does not exist.
        SinkNotFound,
        /// A referenced sink may not be read.
        SinkForbidden,
        /// A referenced sink could not be read.
        SinkLookupFailed,
        /// The probe of a referenced sink fails.
        SinkUnreachable,
        /// The namespace of a sink reference is outside the cluster scope.
        SinkNamespaceDenied,
        /// Objects are being collected.
        Collecting,
        /// Nothing in the namespace refers to a sink.
        NoSinksInNamespace,
        /// The inventory refers to no sink.
        NoSinksConfigured,
        /// All sinks can be used.
        SinksReachable,
        /// An export went through.
        ExportSucceeded,
        /// Everything was exported.
        Exported,
        /// Every sink holds the current rows.
        UpToDate,
        /// Targets have not been listed completely, so nothing is exported yet.
        WaitingForCollection,
        /// Some sinks were served, some not.
        PartiallySynced,
        /// There is no sink to export to.
        NoExport,
        /// Nothing changed since the last export.
        Debounced,
        /// Work is under way and will be tried again.
        Progressing,
        /// An export failed.
        ExportFailed,
        /// An export failed for good; only a change of configuration helps.
        ExportTerminal,
        /// Rows were left out because they have not what the sink's layout asks for, or because they
        /// are too large for its server.
        RowsSkipped,
        /// All rows were published again, because what the stream holds could not be read.
        Replayed,
        /// The outside world could not be cleaned up after a deletion.
        CleanupTerminal,
        /// Many rows for one document.
        ApproachingExportCap,
        /// Every change is exported, and there are many.
        ChangesExportedOften,
        /// No cluster target is selected.
        NoTargets,
        /// A selected target is not ready.
        TargetDegraded,
        /// Exports cannot run at all.
        ExportUnavailable,
        /// The rollup is complete; there is no sink.
        RolledUp,
        /// The probe succeeded.
        ConnectionOK,
        /// Credentials could not be read.
        SecretResolveFailed,
        /// The probe failed.
        ConnectionTestFailed,
        /// Certificates are not verified, as asked for.
        InsecureSkipVerify,
        /// The one-shot probe succeeded.
        ProbeSucceeded,
        /// The reference of a connection test is not usable.
        InvalidSinkRef,
        /// The object itself is not valid.
        InvalidSpec,
    }
}

impl Condition {
    /// A statement about `generation`, as of `now`. A message that is too long is cut, and what a
    /// terminal would obey is shown as escapes.
    pub fn new(
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
        generation: Option<i64>,
        now: Time,
    ) -> Self {
        // What several sinks say stands in lines.
        let message = message.into();
        let lines: Vec<_> = message.split('\n').map(visible).collect();
        let mut message = lines.join("\n");
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        Self {
            type_: type_.as_str().to_owned(),
            status,
            reason: reason.as_str().to_owned(),
            message,
            last_transition_time: now,
            observed_generation: generation,
        }
    }
}

/// The longest message that is written. Longer ones help nobody, and the API server refuses a status
/// with a far longer one as a whole.
pub const LONGEST_MESSAGE: usize = 1_024;

/// The conditions that say something new: another status or another reason. Messages alone are no
/// news; they count and name things that change all the time.
pub fn transitions<'c>(
    before: &'c [Condition],
    after: &'c [Condition],
) -> impl Iterator<Item = &'c Condition> {
    after.iter().filter(|condition| {
        !before.iter().any(|old| {
            old.type_ == condition.type_
                && old.status == condition.status
                && old.reason == condition.reason
        })
    })
}

/// Puts a condition into a list. The transition time of an existing condition moves only when its
/// status changes; a new reason or message keeps it. Returns whether the list changed.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(existing) = conditions.iter_mut().find(|c| c.type_ == condition.type_) else {
        conditions.push(condition);
        return true;
    };
    if existing.status == condition.status {
        condition.last_transition_time = existing.last_transition_time.clone();
    }
    let changed = *existing != condition;
    *existing = condition;
    changed
}

/// Takes a condition out of a list. Returns whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: ConditionType) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_.as_str());
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn ready(status: ConditionStatus, message: &str, second: i64) -> Condition {
        Condition::new(
            ConditionType::Ready,
            status,
            Reason::Collecting,
            message,
            Some(1),
            at(second),
        )
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ready(ConditionStatus::True, "one", 1)));
        assert!(set(&mut conditions, ready(ConditionStatus::True, "two", 2)));
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert!(!set(
            &mut conditions,
            ready(ConditionStatus::True, "two", 3)
        ));
        assert!(set(
            &mut conditions,
            ready(ConditionStatus::False, "two", 4)
        ));
        assert_eq!(conditions[0].last_transition_time, at(4));
        assert_eq!(conditions.len(), 1);
        assert!(remove(&mut conditions, ConditionType::Ready));
        assert!(!remove(&mut conditions, ConditionType::Ready));
    }
}
