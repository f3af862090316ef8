//! KollectTarget and KollectClusterTarget: a profile bound to the objects to collect.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    gvk::GroupVersionKind,
    reference::NamespacedReference,
    schema,
    selector::{LabelRequirement, LabelSelector},
};

/// Collect the objects a team cares about, from its own namespace.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectTarget",
    plural = "kollecttargets",
    singular = "kollecttarget",
    shortname = "ktgt",
    category = "kollect",
    namespaced,
    status = "TargetStatus",
    derive = "PartialEq",
    doc = "Binds a profile to the objects to collect, on behalf of one team.",
    printcolumn(
        name = "Profile",
        type_ = "string",
        json_path = ".spec.profileRef",
        description = "Profile in the same namespace"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether objects are being collected"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "What it does, or why it does not"
    ),
    printcolumn(
        name = "Collected",
        type_ = "integer",
        json_path = ".status.collectedCount",
        description = "Rows held for this target"
    ),
    printcolumn(
        name = "Updated",
        type_ = "date",
        json_path = ".status.collectedCountUpdatedAt",
        description = "When the number of rows last changed"
    ),
    printcolumn(
        name = "Failures",
        type_ = "integer",
        json_path = ".status.extractionFailures",
        priority = 1,
        description = "Objects whose extraction fails"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KollectTargetSpec {
    /// Name of a KollectProfile in this namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::PLAIN_NAME))]
    pub profile_ref: String,
    /// Namespaces to collect from, by their labels. Absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces to collect from, by name; combined with the selector. Empty means no further
    /// restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespace_names")]
    pub included_namespaces: Vec<String>,
    /// Namespaces never to collect from, in addition to the operator's own list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespace_names")]
    pub excluded_namespaces: Vec<String>,
    /// Namespaces never to collect from, by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_exclude_selector: Option<LabelSelector>,
    /// Which objects to collect; an object is taken when any rule takes it. Empty means all
    /// objects of the profile's kind that match `labelSelector` and `names`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub resource_rules: Vec<ResourceRule>,
    /// Objects to collect, by their labels. Used only without `resourceRules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Objects to collect, by name. Used only without `resourceRules`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// `All` collects unless a namespace or object opts out; `OptIn` collects only what opts in
    /// with the label `kollect.dev/watch: enabled`.
    #[serde(default)]
    pub watch_mode: WatchMode,
    /// Stop collecting. The rows leave the inventory.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub suspend: bool,
}

/// Collect objects for the platform, across namespaces.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectClusterTarget",
    plural = "kollectclustertargets",
    singular = "kollectclustertarget",
    shortname = "kctgt",
    category = "kollect",
    status = "TargetStatus",
    derive = "PartialEq",
    doc = "Binds a profile to the objects to collect, on behalf of the platform and across namespaces.",
    printcolumn(
        name = "Profile",
        type_ = "string",
        json_path = ".spec.profileRef.name",
        description = "Profile this target uses"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether objects are being collected"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "What it does, or why it does not"
    ),
    printcolumn(
        name = "Collected",
        type_ = "integer",
        json_path = ".status.collectedCount",
        description = "Rows held for this target"
    ),
    printcolumn(
        name = "Updated",
        type_ = "date",
        json_path = ".status.collectedCountUpdatedAt",
        description = "When the number of rows last changed"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[NAMESPACE_SELECTOR_REQUIRED])))]
pub struct KollectClusterTargetSpec {
    /// The KollectProfile to use, by name and namespace.
    pub profile_ref: NamespacedReference,
    /// Namespaces to collect from, by their labels. Required and not empty, so that collecting
    /// everything is a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces to collect from, by name; combined with the selector. Empty means no further
    /// restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespace_names")]
    pub included_namespaces: Vec<String>,
    /// Namespaces never to collect from, in addition to the operator's own list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespace_names")]
    pub excluded_namespaces: Vec<String>,
    /// Namespaces never to collect from, by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_exclude_selector: Option<LabelSelector>,
    /// Which objects to collect; an object is taken when any rule takes it. Empty means all
    /// objects of the profile's kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub resource_rules: Vec<ResourceRule>,
    /// Stop collecting. The rows leave the inventory.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub suspend: bool,
}

/// A cluster target reaches across namespaces, so which ones is never left open.
const NAMESPACE_SELECTOR_REQUIRED: (&str, &str) = (
    "has(self.namespaceSelector) && ((has(self.namespaceSelector.matchLabels) && size(self.namespaceSelector.matchLabels) > 0) || (has(self.namespaceSelector.matchExpressions) && size(self.namespaceSelector.matchExpressions) > 0))",
    "namespaceSelector is required and must select by at least one label",
);

/// One way for an object to be collected; all its conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    /// Kind the rule applies to; must be the kind of the profile.
    pub gvk: GroupVersionKind,
    /// Further restriction of namespaces, by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Labels the object must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions on the labels of the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
    /// A CEL predicate over `object`, without the `cel:` prefix, for example
    /// `object.spec.replicas > 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<String>,
}

impl ResourceRule {
    /// Both label conditions as one selector.
    pub fn object_selector(&self) -> LabelSelector {
        LabelSelector {
            match_labels: self.match_labels.clone(),
            match_expressions: self.match_expressions.clone(),
        }
    }
}

/// Whether collecting is the default or the exception.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WatchMode {
    /// Collect unless a namespace or object opts out.
    #[default]
    All,
    /// Collect only what opts in.
    OptIn,
}

/// What a target of either kind currently collects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// State of the target: `Ready`, `Synced`, `SinkReachable` (namespaced targets), `Degraded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Namespaces the target asks for, before any scope narrows them; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub matched_namespaces: Vec<String>,
    /// Namespaces collected from, after scopes; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub effective_namespaces: Vec<String>,
    /// Namespace of the profile that a cluster target uses, once it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_namespace: Option<String>,
    /// Name of the profile that a cluster target uses, once it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_name: Option<String>,
    /// Number of `resourceRules` in force; 0 when the profile's kind alone selects.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub active_resource_rules: i64,
    /// Objects whose extraction fails at present.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extraction_failures: i64,
    /// The most recent extraction failure: which object, which attribute, what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_extraction_error: Option<String>,
    /// Rows currently held for this target. Absent until first counted; 0 is a counted zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_count: Option<i64>,
    /// When `collectedCount` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_count_updated_at: Option<Time>,
}

/// Whether a counter has its absent value; such counters are not written.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}
