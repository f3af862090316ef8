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
    /// Views that show attributes as typed columns, for readers who write plain SQL. Created in
    /// the schema of the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub views: Vec<PostgresView>,
    /// Keep every change in a second table. Absent means that only current rows are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<PostgresHistory>,
}

/// The longest name of a database object that Postgres keeps whole.
const POSTGRES_NAME: usize = 63;

/// A view of the rows of one target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresView {
    /// Name of the view.
    #[schemars(length(max = POSTGRES_NAME), regex(pattern = schema::NOT_BLANK))]
    pub name: String,
    /// Name of the target whose rows it shows.
    #[schemars(length(max = 253), regex(pattern = schema::NOT_BLANK))]
    pub target: String,
    /// Attributes as columns, after `inventory_namespace`, `inventory_name`, `cluster`,
    /// `namespace`, `name`, `uid` and `exported_at`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub columns: Vec<PostgresColumn>,
}

/// Columns that every view has.
pub const POSTGRES_VIEW_COLUMNS: [&str; 7] = [
    "inventory_namespace",
    "inventory_name",
    "cluster",
    "namespace",
    "name",
    "uid",
    "exported_at",
];

/// One attribute as a column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresColumn {
    /// Name of the column.
    #[schemars(
        length(max = POSTGRES_NAME),
        regex(pattern = schema::NOT_BLANK),
        extend("x-kubernetes-validations" = schema::rules(&[(
            "!(self in ['inventory_namespace', 'inventory_name', 'cluster', 'namespace', 'name', 'uid', 'exported_at'])",
            "every view has a column of this name",
        )]))
    )]
    pub name: String,
    /// Name of the attribute. Defaults to the name of the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = schema::NOT_BLANK))]
    pub attribute: Option<String>,
    /// Type of the column. Defaults to `text`. A value that is not of the type is shown as NULL.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<PostgresColumnType>,
}

/// Types of columns of views.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PostgresColumnType {
    /// Any text; other values as JSON text.
    #[default]
    #[serde(rename = "text")]
    Text,
    /// A whole number.
    #[serde(rename = "bigint")]
    Bigint,
    /// A number.
    #[serde(rename = "double precision")]
    DoublePrecision,
    /// True or false.
    #[serde(rename = "boolean")]
    Boolean,
    /// A moment, written as Kubernetes does.
    #[serde(rename = "timestamptz")]
    Timestamptz,
    /// The value as it is.
    #[serde(rename = "jsonb")]
    Jsonb,
}

/// Where changes are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresHistory {
    /// Table for the changes, in the schema of the rows.
    #[schemars(length(max = POSTGRES_NAME), regex(pattern = schema::NOT_BLANK))]
    pub table: String,
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
    /// Secret with a service account key under `credentials.json`. Absent means the identity of the
    /// operator, where its administrator lends it to sinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}
