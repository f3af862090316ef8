//! KollectScope and KollectClusterScope: ceilings that targets and inventories cannot exceed.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{duration::Duration, gvk::GroupVersionKind, reference::SinkFamily, schema};

/// What one namespace may collect and where it may deliver.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectScope",
    plural = "kollectscopes",
    singular = "kollectscope",
    shortname = "kscope",
    category = "kollect",
    namespaced,
    derive = "PartialEq",
    doc = "A ceiling for everything Kollect does on behalf of its namespace. An empty list restricts nothing; several scopes in one namespace all apply.",
    printcolumn(
        name = "MinInterval",
        type_ = "string",
        json_path = ".spec.minExportInterval",
        description = "Shortest export interval allowed"
    ),
    printcolumn(
        name = "Allowed",
        type_ = "string",
        json_path = ".spec.allowedNamespaces",
        description = "Namespaces that may be collected; empty for all"
    ),
    printcolumn(
        name = "Denied",
        type_ = "string",
        json_path = ".spec.deniedNamespaces",
        description = "Namespaces never collected"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KollectScopeSpec {
    /// What both kinds of scope limit.
    #[serde(flatten)]
    pub limits: ScopeLimits,
    /// Whether profiles of this namespace may export whole objects (`export.mode: Resource`).
    /// Absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_resource_export: Option<bool>,
    /// How much the namespace may use, in place of the operator's defaults. Of several scopes the
    /// smallest number counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// How much one namespace may use. What is not given is as the operator's flags say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// Targets that are collected; the oldest come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("format" = "int64"))]
    pub targets: Option<u64>,
    /// Sinks of all families that are used; the oldest come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("format" = "int64"))]
    pub sinks: Option<u64>,
    /// Rows that targets hold together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("format" = "int64"))]
    pub rows: Option<u64>,
    /// Memory that these rows take, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("format" = "int64"))]
    pub row_bytes: Option<u64>,
    /// Disk that mirrors of Git repositories take, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("format" = "int64"))]
    pub mirror_bytes: Option<u64>,
}

/// What cluster targets and cluster inventories may do.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectClusterScope",
    plural = "kollectclusterscopes",
    singular = "kollectclusterscope",
    shortname = "kcscope",
    category = "kollect",
    derive = "PartialEq",
    doc = "A ceiling for cluster targets and cluster inventories. An empty list restricts nothing; several scopes all apply.",
    printcolumn(
        name = "MinInterval",
        type_ = "string",
        json_path = ".spec.minExportInterval",
        description = "Shortest export interval allowed"
    ),
    printcolumn(
        name = "Allowed",
        type_ = "string",
        json_path = ".spec.allowedNamespaces",
        description = "Namespaces that may be collected; empty for all"
    ),
    printcolumn(
        name = "Denied",
        type_ = "string",
        json_path = ".spec.deniedNamespaces",
        description = "Namespaces never collected"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KollectClusterScopeSpec {
    /// What both kinds of scope limit.
    #[serde(flatten)]
    pub limits: ScopeLimits,
    /// Namespaces from which cluster kinds may take profiles and sinks. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::name_set")]
    pub allowed_static_ref_namespaces: Vec<String>,
    /// Which namespaces' targets may collect sensitive objects (Secrets) of which other namespaces,
    /// where their profile is allowed to show what those keep. Targets need no permission for their
    /// own namespace. Several scopes permit together what each of them permits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub allow_sensitive_collection: Vec<SensitiveGrant>,
}

/// A permission to collect sensitive objects across namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SensitiveGrant {
    /// Namespaces whose targets may.
    #[schemars(schema_with = "schema::namespace_names_given")]
    pub by: Vec<String>,
    /// Namespaces whose sensitive objects they may collect.
    #[schemars(schema_with = "schema::namespace_names_given")]
    pub from: Vec<String>,
}

/// What both kinds of scope limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScopeLimits {
    /// Kinds that may be collected. Empty means all.
    #[serde(rename = "allowedGVKs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allowed_gvks: Vec<GroupVersionKind>,
    /// Namespaces that may be collected. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespace_names")]
    pub allowed_namespaces: Vec<String>,
    /// Namespaces never collected, whatever a target says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespace_names")]
    pub denied_namespaces: Vec<String>,
    /// Shortest export interval that inventories and sinks may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_export_interval: Option<Duration>,
    /// Names of the snapshot sinks that may be used. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::name_set")]
    pub snapshot_sink_refs: Vec<String>,
    /// Names of the database sinks that may be used. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::name_set")]
    pub database_sink_refs: Vec<String>,
    /// Names of the event sinks that may be used. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::name_set")]
    pub event_sink_refs: Vec<String>,
}

/// A scope of either kind, as everything that it limits sees it.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling<'s> {
    /// `KollectScope` or `KollectClusterScope`.
    pub kind: &'static str,
    /// Name of the scope object, for messages.
    pub name: &'s str,
    /// Kinds that may be collected; empty for all.
    pub allowed_gvks: &'s [GroupVersionKind],
    /// Namespaces that may be collected; empty for all.
    pub allowed_namespaces: &'s [String],
    /// Namespaces never collected.
    pub denied_namespaces: &'s [String],
    /// Shortest export interval.
    pub min_export_interval: Option<&'s Duration>,
    /// Namespaces for references of cluster kinds; empty for all.
    pub allowed_static_ref_namespaces: &'s [String],
    /// Whether whole objects may be exported.
    pub allows_resource_export: bool,
    /// How much the namespace may use.
    pub quota: Option<&'s Quota>,
    sinks: [&'s [String]; 3],
}

impl<'s> Ceiling<'s> {
    /// Names of the sinks of a family that may be used; empty for all.
    pub fn allowed_sinks(&self, family: SinkFamily) -> &'s [String] {
        self.sinks[family as usize]
    }
}

impl ScopeLimits {
    fn ceiling<'s>(&'s self, kind: &'static str, name: Option<&'s str>) -> Ceiling<'s> {
        Ceiling {
            kind,
            name: name.unwrap_or_default(),
            allowed_gvks: &self.allowed_gvks,
            allowed_namespaces: &self.allowed_namespaces,
            denied_namespaces: &self.denied_namespaces,
            min_export_interval: self.min_export_interval.as_ref(),
            allowed_static_ref_namespaces: &[],
            allows_resource_export: true,
            quota: None,
            sinks: [
                &self.snapshot_sink_refs,
                &self.database_sink_refs,
                &self.event_sink_refs,
            ],
        }
    }
}

impl KollectScope {
    /// This scope as a ceiling.
    pub fn ceiling(&self) -> Ceiling<'_> {
        let name = self.metadata.name.as_deref();
        Ceiling {
            allows_resource_export: self.spec.allow_resource_export != Some(false),
            quota: self.spec.quota.as_ref(),
            ..self.spec.limits.ceiling("KollectScope", name)
        }
    }
}

impl KollectClusterScope {
    /// This scope as a ceiling.
    pub fn ceiling(&self) -> Ceiling<'_> {
        let name = self.metadata.name.as_deref();
        Ceiling {
            allowed_static_ref_namespaces: &self.spec.allowed_static_ref_namespaces,
            ..self.spec.limits.ceiling("KollectClusterScope", name)
        }
    }
}
