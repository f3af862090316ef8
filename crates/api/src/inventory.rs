//! KollectInventory and KollectClusterInventory: where the collected rows are delivered.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    condition::Condition,
    duration::Duration,
    reference::{NamespacedReference, SinkFamily, SinkRef, sink_refs},
    schema,
    selector::LabelSelector,
    target::is_zero,
};

/// Twenty references over all families; more would be an export nobody can follow.
const AT_MOST_TWENTY_SINKS: (&str, &str) = (
    "(has(self.snapshotSinkRefs) ? size(self.snapshotSinkRefs) : 0) + (has(self.databaseSinkRefs) ? size(self.databaseSinkRefs) : 0) + (has(self.eventSinkRefs) ? size(self.eventSinkRefs) : 0) <= 20",
    "at most 20 sink references over all families",
);

/// A namespaced inventory uses sinks of its own namespace only.
const NO_REF_NAMESPACE: (&str, &str) = (
    "(!has(self.snapshotSinkRefs) || self.snapshotSinkRefs.all(r, !has(r.namespace) || r.namespace == '')) && (!has(self.databaseSinkRefs) || self.databaseSinkRefs.all(r, !has(r.namespace) || r.namespace == '')) && (!has(self.eventSinkRefs) || self.eventSinkRefs.all(r, !has(r.namespace) || r.namespace == ''))",
    "sink references of a namespaced inventory must not name a namespace",
);

/// One sink is delivered to once.
const NO_REPEATED_REF: (&str, &str) = (
    "(!has(self.snapshotSinkRefs) || self.snapshotSinkRefs.all(a, self.snapshotSinkRefs.exists_one(b, b.name == a.name))) && (!has(self.databaseSinkRefs) || self.databaseSinkRefs.all(a, self.databaseSinkRefs.exists_one(b, b.name == a.name))) && (!has(self.eventSinkRefs) || self.eventSinkRefs.all(a, self.eventSinkRefs.exists_one(b, b.name == a.name)))",
    "a sink must not be referenced twice in one list",
);

/// Deliver all rows of a namespace's targets to sinks of that namespace.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectInventory",
    plural = "kollectinventories",
    singular = "kollectinventory",
    shortname = "kinv",
    category = "kollect",
    namespaced,
    status = "KollectInventoryStatus",
    derive = "PartialEq",
    doc = "Delivers the rows of all targets in its namespace to sinks, in parallel.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the inventory is being delivered"
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        description = "Whether all sinks hold the current rows"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].reason",
        description = "Why it is or is not in step"
    ),
    printcolumn(
        name = "Items",
        type_ = "integer",
        json_path = ".status.itemCount",
        description = "Rows in the inventory"
    ),
    printcolumn(
        name = "LastExport",
        type_ = "date",
        json_path = ".status.lastExportTime",
        description = "Newest successful export"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].message",
        priority = 1,
        description = "Which sink is behind, and why"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[AT_MOST_TWENTY_SINKS, NO_REF_NAMESPACE, NO_REPEATED_REF])))]
pub struct KollectInventorySpec {
    /// KollectSnapshotSinks of this namespace to deliver to.
    #[serde(
        default,
        deserialize_with = "sink_refs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 20))]
    pub snapshot_sink_refs: Vec<SinkRef>,
    /// KollectDatabaseSinks of this namespace to deliver to.
    #[serde(
        default,
        deserialize_with = "sink_refs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 20))]
    pub database_sink_refs: Vec<SinkRef>,
    /// KollectEventSinks of this namespace to deliver to.
    #[serde(
        default,
        deserialize_with = "sink_refs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 20))]
    pub event_sink_refs: Vec<SinkRef>,
    /// Minimum time between exports of unchanged content; changes are exported at once. `0s`
    /// exports on change only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30s"))]
    pub export_min_interval: Option<Duration>,
    /// Least time between two exports of changed rows: the first change goes out at once, those
    /// that follow are gathered. The default `0s` exports every change at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_interval: Option<Duration>,
    /// Stop exporting.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub suspend: bool,
    /// Size above which documents are split into parts. Defaults to the operator's ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_export_bytes: Option<i64>,
    /// Has no effect: the HTTP API is switched on by operator flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_endpoint: Option<HttpEndpoint>,
}

/// Declared for compatibility; the HTTP API is configured on the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpEndpoint {
    /// Has no effect.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub enabled: bool,
    /// Has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// Roll up the rows of cluster targets and deliver them.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectClusterInventory",
    plural = "kollectclusterinventories",
    singular = "kollectclusterinventory",
    shortname = "kcinv",
    category = "kollect",
    status = "KollectClusterInventoryStatus",
    derive = "PartialEq",
    doc = "Rolls up the rows of cluster targets over namespaces and delivers them to sinks.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the rollup is being delivered"
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        description = "Whether all sinks hold the current rows"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].reason",
        description = "Why it is or is not in step"
    ),
    printcolumn(
        name = "Targets",
        type_ = "integer",
        json_path = ".status.targetCount",
        description = "Cluster targets included"
    ),
    printcolumn(
        name = "Items",
        type_ = "integer",
        json_path = ".status.itemCount",
        description = "Rows in the rollup"
    ),
    printcolumn(
        name = "LastExport",
        type_ = "date",
        json_path = ".status.lastExportTime",
        description = "Newest successful export"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].message",
        priority = 1,
        description = "Which sink is behind, and why"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[AT_MOST_TWENTY_SINKS, NAMESPACES_REQUIRED])))]
pub struct KollectClusterInventorySpec {
    /// KollectSnapshotSinks to deliver to.
    #[serde(
        default,
        deserialize_with = "sink_refs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 20))]
    pub snapshot_sink_refs: Vec<SinkRef>,
    /// KollectDatabaseSinks to deliver to.
    #[serde(
        default,
        deserialize_with = "sink_refs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 20))]
    pub database_sink_refs: Vec<SinkRef>,
    /// KollectEventSinks to deliver to.
    #[serde(
        default,
        deserialize_with = "sink_refs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 20))]
    pub event_sink_refs: Vec<SinkRef>,
    /// Minimum time between exports of unchanged content; changes are exported at once. `0s`
    /// exports on change only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30s"))]
    pub export_min_interval: Option<Duration>,
    /// Least time between two exports of changed rows: the first change goes out at once, those
    /// that follow are gathered. The default `0s` exports every change at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_interval: Option<Duration>,
    /// Stop exporting.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub suspend: bool,
    /// Has no effect; reserved for a schema of the rollup itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_ref: Option<NamespacedReference>,
    /// Names of the cluster targets to include. Empty means those that `targetSelector` selects,
    /// and all when that is empty too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = schema::PLAIN_NAME)))]
    pub target_refs: Vec<String>,
    /// Cluster targets to include, by their labels. Used only without `targetRefs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_selector: Option<LabelSelector>,
    /// Namespaces that contribute rows, by their labels. Required and not empty unless `namespaces`
    /// names some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces that contribute rows, by name; with a selector, those of them that it selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespace_names")]
    pub namespaces: Vec<String>,
    /// Namespace of sinks whose reference names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "kollect-system"), regex(pattern = schema::NO_SLASH))]
    pub sink_namespace: Option<String>,
    /// What happens to an object that several targets collect: `keepAll` keeps a row per target,
    /// `byResourceUID` keeps the row of the target with the greatest name.
    #[serde(default)]
    pub dedupe: Dedupe,
}

/// A rollup reaches across namespaces, so which ones is never left open.
const NAMESPACES_REQUIRED: (&str, &str) = (
    "(has(self.namespaces) && size(self.namespaces) > 0) || (has(self.namespaceSelector) && ((has(self.namespaceSelector.matchLabels) && size(self.namespaceSelector.matchLabels) > 0) || (has(self.namespaceSelector.matchExpressions) && size(self.namespaceSelector.matchExpressions) > 0)))",
    "namespaces must name at least one, or namespaceSelector must select by at least one label",
);

/// How rows of overlapping targets collapse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Dedupe {
    /// One row per target and object.
    #[default]
    #[serde(rename = "keepAll")]
    KeepAll,
    /// One row per object.
    #[serde(rename = "byResourceUID")]
    ByResourceUid,
}

macro_rules! sink_ref_lists {
    ($($spec:ty),*) => {$(
        impl $spec {
            /// The references of one family.
            pub fn sink_refs(&self, family: SinkFamily) -> &[SinkRef] {
                match family {
                    SinkFamily::Snapshot => &self.snapshot_sink_refs,
                    SinkFamily::Database => &self.database_sink_refs,
                    SinkFamily::Event => &self.event_sink_refs,
                }
            }

            /// All references in the order snapshot, database, event.
            pub fn all_sink_refs(&self) -> impl Iterator<Item = (SinkFamily, &SinkRef)> {
                SinkFamily::ALL
                    .into_iter()
                    .flat_map(|family| self.sink_refs(family).iter().map(move |sink| (family, sink)))
            }
        }
    )*};
}
sink_ref_lists!(KollectInventorySpec, KollectClusterInventorySpec);

/// What was delivered to one sink.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SinkExportStatus {
    /// Sink key `<family>/<name>`, for example `database/warehouse`.
    pub name: String,
    /// Namespace of the sink, on cluster inventories. Together with the name it tells sinks apart.
    // A key of a list needs a default; what has it says nothing.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "nothing_if_empty"
    )]
    #[schemars(extend("default" = ""))]
    pub namespace: Option<String>,
    /// Last successful export to this sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_export_time: Option<Time>,
    /// Fingerprint of what that export delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checksum: Option<String>,
    /// Whether the sink is in step (`Synced`), and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

fn nothing_if_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// What a KollectInventory last delivered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KollectInventoryStatus {
    /// State of the inventory: `Ready`, `Synced`, `SinkReachable`, `Degraded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Rows in the inventory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub item_count: i64,
    /// Newest successful export over all sinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_export_time: Option<Time>,
    /// What was delivered to each sink.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub sink_exports: Vec<SinkExportStatus>,
}

/// The most namespaces `status.namespaceShards` lists.
pub const MAX_NAMESPACE_SHARDS: usize = 500;

/// What a KollectClusterInventory last delivered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KollectClusterInventoryStatus {
    /// State of the rollup: `Ready`, `Synced`, `SinkReachable`, `ExportSucceeded`, `Degraded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Rows in the rollup, after dedupe.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub item_count: i64,
    /// Newest successful export over all sinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_export_time: Option<Time>,
    /// What was delivered to each sink.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "namespace"]))]
    pub sink_exports: Vec<SinkExportStatus>,
    /// Cluster targets included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub target_count: i64,
    /// Namespaces that contribute rows; may exceed the length of `namespaceShards`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub namespace_shard_count: i64,
    /// Rows per namespace, sorted by namespace; at most 500 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace"]))]
    pub namespace_shards: Vec<NamespaceShard>,
}

/// One namespace's share of a rollup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceShard {
    /// The namespace.
    pub namespace: String,
    /// Rows from it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub item_count: i64,
    /// Targets that contributed at least one row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub target_count: i64,
    /// Fingerprint of those rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}
