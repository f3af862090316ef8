//! KollectConnectionTest: a one-shot, audited probe of one sink.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{condition::Condition, reference::SinkFamily, schema};

/// Probe one sink of this namespace once.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectConnectionTest",
    plural = "kollectconnectiontests",
    singular = "kollectconnectiontest",
    shortname = "kconntest",
    category = "kollect",
    namespaced,
    status = "KollectConnectionTestStatus",
    derive = "PartialEq",
    doc = "Probes one sink once and keeps the result for a while.",
    printcolumn(
        name = "Sink",
        type_ = "string",
        json_path = ".spec.sinkRef.*",
        description = "Name of the sink"
    ),
    printcolumn(
        name = "Verified",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ConnectionVerified\")].status",
        description = "Whether the probe succeeded"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ConnectionVerified\")].reason",
        description = "Why it did or did not"
    ),
    printcolumn(
        name = "Latency",
        type_ = "integer",
        json_path = ".status.latencyMs",
        description = "Duration of the probe in milliseconds"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KollectConnectionTestSpec {
    /// The sink to probe.
    pub sink_ref: ConnectionTestSinkRef,
    /// Has no effect; reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::NO_SLASH))]
    pub profile_ref: Option<String>,
    /// Make the sink the owner of this object, so that it goes when the sink goes. Defaults to
    /// true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_sink: Option<bool>,
    /// Delete this object that many seconds after the probe; 0 deletes it on the next pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 300))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Exactly one sink.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "[has(self.snapshotSinkRef) && self.snapshotSinkRef != '', has(self.databaseSinkRef) && self.databaseSinkRef != '', has(self.eventSinkRef) && self.eventSinkRef != ''].exists_one(set, set)",
    "exactly one of snapshotSinkRef, databaseSinkRef and eventSinkRef must be set",
)])))]
pub struct ConnectionTestSinkRef {
    /// Name of a KollectSnapshotSink in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::NO_SLASH))]
    pub snapshot_sink_ref: Option<String>,
    /// Name of a KollectDatabaseSink in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::NO_SLASH))]
    pub database_sink_ref: Option<String>,
    /// Name of a KollectEventSink in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::NO_SLASH))]
    pub event_sink_ref: Option<String>,
}

impl ConnectionTestSinkRef {
    /// The members that are set, with their family and field name.
    pub fn given(&self) -> impl Iterator<Item = (SinkFamily, &'static str, &str)> {
        [
            (
                SinkFamily::Snapshot,
                "snapshotSinkRef",
                &self.snapshot_sink_ref,
            ),
            (
                SinkFamily::Database,
                "databaseSinkRef",
                &self.database_sink_ref,
            ),
            (SinkFamily::Event, "eventSinkRef", &self.event_sink_ref),
        ]
        .into_iter()
        .filter_map(|(family, field, name)| Some((family, field, name.as_deref()?)))
        .filter(|(_, _, name)| !name.is_empty())
    }
}

/// The result of the probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KollectConnectionTestStatus {
    /// The result: `ConnectionVerified` and `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that was probed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Duration of the probe in milliseconds; absent when it could not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<i64>,
    /// Whether the probe is over, successful or not.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub completed: bool,
    /// When the probe ended; the time to live counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
}
