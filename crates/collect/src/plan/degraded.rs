//! Why a target does not do all it was asked to.

use std::fmt;

use kollect_api::condition::Reason;

/// The reasons the plan gives, as they appear in the `Degraded` condition and in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DegradedReason {
    /// `spec.suspend` is set.
    Suspended,
    /// The target names no profile.
    MissingProfileRef,
    /// The profile does not exist.
    ProfileNotFound,
    /// The operator may not read the profile.
    ProfileForbidden,
    /// Scopes could not be read.
    ScopeLookupFailed,
    /// A kind outside a scope.
    ScopeGVKDenied,
    /// A namespace outside a scope.
    ScopeNamespaceDenied,
    /// A rule names another kind than the profile.
    ResourceRuleGVKMismatch,
    /// The kind is not installed.
    KindNotInstalled,
    /// The target cannot be turned into a collection: a selector or policy means nothing, or
    /// discovery fails.
    InformerRegistrationFailed,
    /// An access review could not be made.
    AccessCheckFailed,
}

impl DegradedReason {
    /// The word as it appears in `status` and events.
    pub fn as_str(self) -> &'static str {
        Reason::from(self).as_str()
    }
}

impl From<DegradedReason> for Reason {
    fn from(reason: DegradedReason) -> Self {
        match reason {
            DegradedReason::Suspended => Reason::Suspended,
            DegradedReason::MissingProfileRef => Reason::MissingProfileRef,
            DegradedReason::ProfileNotFound => Reason::ProfileNotFound,
            DegradedReason::ProfileForbidden => Reason::ProfileForbidden,
            DegradedReason::ScopeLookupFailed => Reason::ScopeLookupFailed,
            DegradedReason::ScopeGVKDenied => Reason::ScopeGVKDenied,
            DegradedReason::ScopeNamespaceDenied => Reason::ScopeNamespaceDenied,
            DegradedReason::ResourceRuleGVKMismatch => Reason::ResourceRuleGVKMismatch,
            DegradedReason::KindNotInstalled => Reason::KindNotInstalled,
            DegradedReason::InformerRegistrationFailed => Reason::InformerRegistrationFailed,
            DegradedReason::AccessCheckFailed => Reason::AccessCheckFailed,
        }
    }
}

impl fmt::Display for DegradedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degradation {
    /// One word for machines.
    pub reason: DegradedReason,
    /// What happened and what to do.
    pub message: String,
}

impl Degradation {
    /// Puts the two together.
    pub fn new(reason: DegradedReason, message: impl Into<String>) -> Self {
        Degradation {
            reason,
            message: message.into(),
        }
    }
}
