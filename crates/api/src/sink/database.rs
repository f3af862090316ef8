//! KollectDatabaseSink: Postgres, MongoDB and BigQuery.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{SinkCommon, SinkType};
use super::status::SinkStatus;
use crate::{reference::SecretReference, schema};

/// Layouts are for files.
pub(super) const NO_LAYOUT: (&str, &str) = (
    "!has(self.layout)",
    "layout is only for git and gitlab snapshot sinks",
);
/// Databases and streams have a form of their own.
pub(super) const JSON_ONLY: (&str, &str) = (
    "!has(self.serialization) || !has(self.serialization.format) || self.serialization.format == 'json'",
    "serialization.format must be json",
);

/// Keep the rows of inventories in a database.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectDatabaseSink",
    plural = "kollectdatabasesinks",
    singular = "kollectdatabasesink",
    shortname = "kdb",
    category = "kollect",
    namespaced,
    status = "SinkStatus",
    derive = "PartialEq",
    doc = "A database that holds the current rows of inventories.",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = ".spec.type",
        description = "Backend"
    ),
    printcolumn(
        name = "Verified",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ConnectionVerified\")].status",
        description = "Whether the last probe succeeded"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ConnectionVerified\")].reason",
        description = "Why it did or did not"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.cluster",
        priority = 1,
        description = "Cluster name written into rows"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[
    ("(self.type == 'postgres') == has(self.postgres)", "postgres is required for type postgres and only allowed there"),
    ("(self.type == 'mongodb') == has(self.mongodb)", "mongodb is required for type mongodb and only allowed there"),
    ("(self.type == 'bigquery') == has(self.bigquery)", "bigquery is required for type bigquery and only allowed there"),
    NO_LAYOUT,
    JSON_ONLY,
])))]
pub struct KollectDatabaseSinkSpec {
    /// Backend: `postgres`, `mongodb` or `bigquery`.
    #[serde(rename = "type")]
    pub type_: DatabaseSinkType,
    /// What all sinks have in common.
    #[serde(flatten)]
    pub common: SinkCommon,
    /// Postgres settings, for type `postgres`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<Postgres>,
    /// MongoDB settings, for type `mongodb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mongodb: Option<Mongodb>,
    /// BigQuery settings, for type `bigquery`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bigquery: Option<Bigquery>,
}

/// Backends of database sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseSinkType {
    /// PostgreSQL.
    Postgres,
    /// Google BigQuery.
    Bigquery,
    /// MongoDB.
    Mongodb,
}

impl From<DatabaseSinkType> for SinkType {
    fn from(type_: DatabaseSinkType) -> Self {
        match type_ {
            DatabaseSinkType::Postgres => SinkType::Postgres,
            DatabaseSinkType::Bigquery => SinkType::Bigquery,
            DatabaseSinkType::Mongodb => SinkType::Mongodb,
        }
    }
}

/// Settings of Postgres.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Postgres {
    /// Secret with the connection string, under `dsn` or `url`.
    pub database_ref: SecretReference,
    /// Table for the rows.
    #[schemars(regex(pattern = schema::NOT_BLANK))]
    pub table: String,
    /// Schema of the table. Defaults to `public`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
}

/// Settings of MongoDB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mongodb {
    /// Secret with the connection URI, under `uri`, `url`, `connectionString` or `MONGODB_URI`.
    pub database_ref: SecretReference,
    /// Database.
    #[schemars(regex(pattern = schema::NOT_BLANK))]
    pub database: String,
    /// Collection for the rows.
    #[schemars(regex(pattern = schema::NOT_BLANK))]
    pub collection: String,
}

/// Settings of BigQuery.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bigquery {
    /// Project id.
    #[schemars(regex(pattern = schema::NOT_BLANK))]
    pub project: String,
    /// Dataset id; the dataset must exist.
    #[schemars(regex(pattern = schema::NOT_BLANK))]
    pub dataset: String,
    /// Table for the rows.
    #[schemars(regex(pattern = schema::NOT_BLANK))]
    pub table: String,
    /// Location of jobs. Defaults to the location of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Secret with a service account key under `credentials.json`. Absent means the credentials
    /// of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}
