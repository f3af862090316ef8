//! Status of sinks, the same for all three kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// What is known of a sink.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SinkStatus {
    /// State of the sink: `ConnectionVerified`, `Degraded`, `TLSInsecure`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What an export would look like; present while the annotation `kollect.dev/preview` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
}

/// A rendering of made-up rows with the settings of a sink.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// When this was rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered_at: Option<Time>,
    /// Where the rows came from: `synthetic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_sample_source: Option<String>,
    /// Provisioning mode in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_mode: Option<String>,
    /// Format in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serialization_format: Option<String>,
    /// Path of the document of inventory `api` in namespace `team-a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_path: Option<String>,
    /// What commits would say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitPreview>,
    /// Which files would be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutPreview>,
    /// Which table would be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<PostgresPreview>,
    /// Which index would be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mongodb: Option<MongodbPreview>,
    /// Which table would be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bigquery: Option<BigqueryPreview>,
    /// Which topic would be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaPreview>,
    /// Which stream and subject would be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<NatsPreview>,
    /// What deserves attention.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub warnings: Vec<String>,
}

/// Preview of commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitPreview {
    /// Subject of a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_commit_subject: Option<String>,
    /// Body of a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_commit_body: Option<String>,
}

/// Preview of a layout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayoutPreview {
    /// Layout mode in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Content of files in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Whether stale files are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// Up to three paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub sample_paths: Vec<String>,
}

/// Preview of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresPreview {
    /// Statement that creates the table.
    #[serde(
        rename = "expectedDDL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub expected_ddl: Option<String>,
}

/// Preview of a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MongodbPreview {
    /// Fields of the unique index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub expected_index_keys: Vec<String>,
}

/// Preview of a table of BigQuery.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BigqueryPreview {
    /// Statement that creates the table.
    #[serde(
        rename = "expectedDDL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub expected_ddl: Option<String>,
}

/// Preview of a subject.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatsPreview {
    /// The stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The subject of a row, or of the whole inventory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// Preview of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaPreview {
    /// The topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}
