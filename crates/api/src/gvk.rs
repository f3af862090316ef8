//! Group, version and kind of a resource, as written in profiles, rules and scopes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names one kind of resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersionKind {
    /// API group, for example `apps`. Absent or empty means the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version, for example `v1`.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Kind, for example `Deployment`.
    #[schemars(length(min = 1))]
    pub kind: String,
}

impl GroupVersionKind {
    /// A kind from its three parts.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// Whether both name the same kind. Letter case is ignored, so that a ceiling cannot be
    /// dodged (or missed) by spelling; an empty group equals only an empty group.
    pub fn same_as(&self, other: &Self) -> bool {
        self.group.eq_ignore_ascii_case(&other.group)
            && self.version.eq_ignore_ascii_case(&other.version)
            && self.kind.eq_ignore_ascii_case(&other.kind)
    }

    /// Whether this is the core Secret, whose data is guarded everywhere.
    pub fn is_core_secret(&self) -> bool {
        self.kind == "Secret" && (self.group.is_empty() || self.group == "core")
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(f, "{}/{}", self.version, self.kind)
        } else {
            write!(f, "{}/{}/{}", self.group, self.version, self.kind)
        }
    }
}
