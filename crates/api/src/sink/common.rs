//! Fields that every sink has.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    duration::Duration,
    reference::{SecretReference, SinkFamily},
    schema,
};

/// Every backend there is, over all families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SinkType {
    /// A Git repository.
    Git,
    /// A Git repository on GitLab, optionally through merge requests.
    Gitlab,
    /// S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azureblob,
    /// PostgreSQL.
    Postgres,
    /// Google BigQuery.
    Bigquery,
    /// MongoDB.
    Mongodb,
    /// NATS JetStream.
    Nats,
    /// Apache Kafka.
    Kafka,
}

impl SinkType {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Git,
        Self::Gitlab,
        Self::S3,
        Self::Gcs,
        Self::Azureblob,
        Self::Postgres,
        Self::Bigquery,
        Self::Mongodb,
        Self::Nats,
        Self::Kafka,
    ];

    /// The word used in `spec.type`.
    pub fn as_str(self) -> &'static str {
        match self {
            SinkType::Git => "git",
            SinkType::Gitlab => "gitlab",
            SinkType::S3 => "s3",
            SinkType::Gcs => "gcs",
            SinkType::Azureblob => "azureblob",
            SinkType::Postgres => "postgres",
            SinkType::Bigquery => "bigquery",
            SinkType::Mongodb => "mongodb",
            SinkType::Nats => "nats",
            SinkType::Kafka => "kafka",
        }
    }

    /// The family the backend belongs to.
    pub fn family(self) -> SinkFamily {
        match self {
            SinkType::Git
            | SinkType::Gitlab
            | SinkType::S3
            | SinkType::Gcs
            | SinkType::Azureblob => SinkFamily::Snapshot,
            SinkType::Postgres | SinkType::Bigquery | SinkType::Mongodb => SinkFamily::Database,
            SinkType::Nats | SinkType::Kafka => SinkFamily::Event,
        }
    }

    /// The formats the backend can write, the default first.
    pub fn formats(self) -> &'static [Format] {
        match self {
            SinkType::Git | SinkType::Gitlab => &[Format::Yaml, Format::Json, Format::Ndjson],
            SinkType::S3 | SinkType::Gcs | SinkType::Azureblob => {
                &[Format::Json, Format::Parquet, Format::Csv, Format::Ndjson]
            }
            _ => &[Format::Json],
        }
    }

    /// Whether the backend is a bucket of objects.
    pub fn is_object_store(self) -> bool {
        matches!(self, SinkType::S3 | SinkType::Gcs | SinkType::Azureblob)
    }

    /// Whether the backend is a Git repository.
    pub fn is_git(self) -> bool {
        matches!(self, SinkType::Git | SinkType::Gitlab)
    }
}

impl fmt::Display for SinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Settings that do not depend on the backend.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SinkCommon {
    /// Where the backend is: URL, repository or bucket. A Git endpoint may end in
    /// `#branch=<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Secret with credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// How the server's certificate is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Probe the connection when the sink is created or changed. Defaults to true; false probes
    /// only on the annotation `kollect.dev/test-connection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_test: Option<bool>,
    /// Name of the cluster, written into exports and paths. Needed when several clusters share a
    /// backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Path of the inventory document in Git and object stores. Placeholders: `{cluster}`,
    /// `{namespace}`, `{name}`, `{generation}`, `{extension}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), extend("x-kubernetes-validations" = schema::rules(&[schema::RELATIVE_PATH, schema::DOCUMENT_PATH])))]
    pub path_template: Option<String>,
    /// Export interval for references that set none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export_min_interval: Option<Duration>,
    /// Least time between two exports of changed rows, for references that set none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_interval: Option<Duration>,
    /// In which format documents are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serialization: Option<Serialization>,
    /// How rows are laid out in files; Git and GitLab only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// Whether missing destinations (buckets, tables, topics) are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<Provisioning>,
    /// Settings of one backend that have no field of their own. Never credentials.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// Verification of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "!has(self.caBundle) || !has(self.caSecretRef)",
    "caBundle and caSecretRef must not both be set",
)])))]
pub struct Tls {
    /// Accept any certificate. The sink shows the condition `TLSInsecure` while this is set.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub insecure_skip_verify: bool,
    /// PEM certificates of the authorities to trust, base64 encoded; at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pem_bytes")]
    pub ca_bundle: Option<k8s_openapi::ByteString>,
    /// Secret with PEM certificates of the authorities to trust, under `tls.crt`, `ca.crt` or
    /// `ca.pem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretReference>,
}

/// Formats of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
    /// One JSON document per line.
    Ndjson,
}

impl Format {
    /// The word used in `serialization.format`.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Yaml => "yaml",
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
        }
    }
}

/// Compression of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not compressed.
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The word used in `serialization.compression`.
    pub fn as_str(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Zstd => "zstd",
        }
    }
}

/// Format of documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Serialization {
    /// `json`, `yaml` and `ndjson` for Git; `json`, `parquet` and `csv` for object stores; `json`
    /// elsewhere. Defaults to `yaml` for Git and `json` elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Compression of the documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
}

/// `document`: one file; `perResource`: one file per row; `split`: an index and one file per
/// row. Without it: `perResource` if every row carries an exported object, else `document`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LayoutMode {
    /// One file for the inventory.
    Document,
    /// One file per row.
    PerResource,
    /// One file per row and an index.
    Split,
}

impl LayoutMode {
    /// The word used in `layout.mode`.
    pub fn as_str(self) -> &'static str {
        match self {
            LayoutMode::Document => "document",
            LayoutMode::PerResource => "perResource",
            LayoutMode::Split => "split",
        }
    }
}

/// What each file holds: the whole row (`item`), its `attributes`, or the exported object as a
/// `manifest`. Without it: `manifest` for rows that carry an exported object, else `item`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LayoutContent {
    /// The row.
    Item,
    /// Its attributes alone.
    Attributes,
    /// The exported object alone, as a manifest.
    Manifest,
}

impl LayoutContent {
    /// The word used in `layout.content`.
    pub fn as_str(self) -> &'static str {
        match self {
            LayoutContent::Item => "item",
            LayoutContent::Attributes => "attributes",
            LayoutContent::Manifest => "manifest",
        }
    }
}

/// Layout of files in a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Layout {
    /// `document`: one file; `perResource`: one file per row; `split`: an index and one file per
    /// row. Without it: `perResource` if every row carries an exported object, else `document`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<LayoutMode>,
    /// What each file holds: the whole row (`item`), its `attributes`, or the exported object as a
    /// `manifest`. Without it: `manifest` for rows that carry an exported object, else `item`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<LayoutContent>,
    /// Path of each row's file. Placeholders: `{cluster}`, `{namespace}`, `{name}`,
    /// `{targetNamespace}`, `{targetName}`, `{sourceNamespace}`, `{sourceName}`, `{group}`,
    /// `{kind}`, `{uid}`, `{generation}`, `{extension}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), extend("x-kubernetes-validations" = schema::rules(&[schema::RELATIVE_PATH, schema::ROW_PATH])))]
    pub path_template: Option<String>,
    /// The index file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<LayoutIndex>,
    /// How names become path segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<LayoutFilename>,
}

/// The index file of a layout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayoutIndex {
    /// Write an index. Defaults to true in `split` mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Path of the index; placeholders as in `spec.pathTemplate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), extend("x-kubernetes-validations" = schema::rules(&[schema::RELATIVE_PATH, schema::DOCUMENT_PATH])))]
    pub path_template: Option<String>,
}

/// When the API group is part of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupInPath {
    /// Left out for core kinds.
    #[default]
    Auto,
    /// Always there.
    Always,
    /// Never there.
    Never,
}

/// How names become path segments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayoutFilename {
    /// Whether `{group}` is a path segment: `auto` leaves it out for core kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_in_path: Option<GroupInPath>,
    /// Write `{kind}` in lower case. Defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowercase_kind: Option<bool>,
    /// Longest path segment. Defaults to 63.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_segment_length: Option<i32>,
}

/// Who creates destinations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProvisioningMode {
    /// Kollect creates what is missing.
    #[default]
    Ensure,
    /// Destinations exist; Kollect checks them and never creates any.
    Existing,
}

/// Creation of destinations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provisioning {
    /// `ensure` creates missing destinations; `existing` never does and checks that they are
    /// there. Defaults to `ensure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ProvisioningMode>,
    /// How destinations are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming: Option<Naming>,
}

/// Naming of destinations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Naming {
    /// Template of the name. Placeholders: `{cluster}`, `{namespace}`, `{name}`, `{generation}`,
    /// `{extension}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), extend("x-kubernetes-validations" = schema::rules(&[schema::RELATIVE_PATH])))]
    pub template: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::CustomResourceExt as _;
    use serde_json::Value;

    use super::SinkType;
    use crate::{KollectDatabaseSink, KollectEventSink, KollectSnapshotSink};

    #[test]
    fn all_backends_are_those_that_the_schemas_name() {
        let definitions = [
            KollectSnapshotSink::crd(),
            KollectDatabaseSink::crd(),
            KollectEventSink::crd(),
        ];
        let mut named = BTreeSet::new();
        for definition in definitions {
            let definition = serde_json::to_value(definition).unwrap();
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let words = &schema["properties"]["spec"]["properties"]["type"]["enum"];
            let words = words.as_array().unwrap().iter();
            named.extend(words.filter_map(Value::as_str).map(str::to_owned));
        }
        let all: BTreeSet<String> = SinkType::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(all, named);
    }
}
