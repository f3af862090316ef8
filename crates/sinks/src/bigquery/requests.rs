//! Requests and answers of the service, as far as they are used.
//!
//! Field for field as the public description of BigQuery v2 has them; a test compares.

use serde::{Deserialize, Serialize};

use super::fault::ErrorProto;

/// A job to be run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobRequest<'j> {
    pub(super) job_reference: JobReference<'j>,
    pub(super) configuration: JobConfiguration<'j>,
}

/// Which job.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobReference<'j> {
    pub(super) project_id: &'j str,
    /// A dry run has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) job_id: Option<&'j str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) location: Option<&'j str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobConfiguration<'j> {
    pub(super) query: QueryConfiguration<'j>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dry_run: Option<bool>,
    /// Milliseconds as text. Nothing that was given up runs for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) job_timeout_ms: Option<&'j str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) labels: Option<Labels>,
}

/// For the bill of the project.
#[derive(Debug, Serialize)]
pub(super) struct Labels {
    #[serde(rename = "managed-by")]
    pub(super) managed_by: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueryConfiguration<'j> {
    pub(super) query: &'j str,
    pub(super) use_legacy_sql: bool,
    pub(super) use_query_cache: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameter_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) query_parameters: &'j [Parameter<'j>],
}

/// A named parameter.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as the protocol calls them")]
pub(super) struct Parameter<'j> {
    pub(super) name: &'static str,
    pub(super) parameter_type: ParameterType,
    pub(super) parameter_value: ParameterValue<'j>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ParameterType {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) array_type: Option<Box<ParameterType>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) struct_types: Vec<FieldType>,
}

#[derive(Debug, Serialize)]
pub(super) struct FieldType {
    pub(super) name: &'static str,
    #[serde(rename = "type")]
    pub(super) kind: ParameterType,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ParameterValue<'j> {
    Value(&'j str),
    ArrayValues(&'j [Element]),
}

/// A row on its way.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Element {
    pub(super) struct_values: Cells,
}

/// What the statement sees of a row.
#[derive(Debug, Serialize)]
pub(super) struct Cells {
    pub(super) target_name: Cell,
    pub(super) source_uid: Cell,
    pub(super) resource_namespace: Cell,
    pub(super) payload_json: Cell,
    pub(super) content_hash: Cell,
    pub(super) gone: Cell,
}

#[derive(Debug, Serialize)]
pub(super) struct Cell {
    pub(super) value: String,
}

impl ParameterType {
    pub(super) fn plain(kind: &'static str) -> Self {
        Self {
            kind,
            array_type: None,
            struct_types: Vec::new(),
        }
    }

    /// `ARRAY<STRUCT<…>>` of [`Cells`].
    pub(super) fn rows() -> Self {
        let field = |(name, kind)| FieldType {
            name,
            kind: Self::plain(kind),
        };
        let fields = [
            ("target_name", "STRING"),
            ("source_uid", "STRING"),
            ("resource_namespace", "STRING"),
            ("payload_json", "STRING"),
            ("content_hash", "INT64"),
            ("gone", "BOOL"),
        ];
        let row = Self {
            struct_types: fields.map(field).into(),
            ..Self::plain("STRUCT")
        };
        Self {
            array_type: Some(Box::new(row)),
            ..Self::plain("ARRAY")
        }
    }
}

/// A table to be created, or the part of it that changes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TableRequest<'t> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) table_reference: Option<TableReference<'t>>,
    pub(super) schema: TableSchema,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_partitioning: Option<TimePartitioning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clustering: Option<Clustering>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as the protocol calls them")]
pub(super) struct TableReference<'t> {
    pub(super) project_id: &'t str,
    pub(super) dataset_id: &'t str,
    pub(super) table_id: &'t str,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TableSchema {
    #[serde(default)]
    pub(super) fields: Vec<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Debug, Serialize)]
pub(super) struct TimePartitioning {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) field: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Clustering {
    pub(super) fields: &'static [&'static str],
}

/// A table as the service describes it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Table {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) creation_time: Option<String>,
    pub(super) location: Option<String>,
    pub(super) schema: TableSchema,
}

/// A job as the service describes it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Job {
    pub(super) status: Status,
    pub(super) statistics: Statistics,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) state: String,
    pub(super) error_result: Option<ErrorProto>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Statistics {
    pub(super) query: QueryStatistics,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct QueryStatistics {
    pub(super) dml_stats: Option<DmlStats>,
}

/// Whole numbers as text.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "as the protocol calls them")]
pub(super) struct DmlStats {
    pub(super) inserted_row_count: Option<String>,
    pub(super) updated_row_count: Option<String>,
    pub(super) deleted_row_count: Option<String>,
}

/// One page of the results of a query.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Results {
    pub(super) job_complete: bool,
    pub(super) page_token: Option<String>,
    pub(super) rows: Vec<ResultRow>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResultRow {
    pub(super) f: Vec<ResultCell>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResultCell {
    pub(super) v: Option<String>,
}

/// Jobs of the project.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobList {
    pub(super) jobs: Vec<ListedJob>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListedJob {
    pub(super) job_reference: ListedReference,
    pub(super) status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListedReference {
    pub(super) job_id: String,
}
