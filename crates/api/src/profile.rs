//! KollectProfile: which kind of resource, which attributes of it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{condition::Condition, gvk::GroupVersionKind, schema};

/// What to extract from every object of one kind.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectProfile",
    plural = "kollectprofiles",
    singular = "kollectprofile",
    shortname = "kprof",
    category = "kollect",
    namespaced,
    status = "KollectProfileStatus",
    derive = "PartialEq",
    doc = "A reusable extraction schema: which kind of resource, which attributes, optionally the whole object, optionally metrics.",
    printcolumn(
        name = "Kind",
        type_ = "string",
        json_path = ".spec.targetGVK.kind",
        description = "Kind of resource this profile reads"
    ),
    printcolumn(
        name = "Group",
        type_ = "string",
        json_path = ".spec.targetGVK.group",
        description = "API group of that kind; empty for the core group"
    ),
    printcolumn(
        name = "Export",
        type_ = "string",
        json_path = ".spec.export.mode",
        description = "Attributes (also when empty) or Resource"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "(has(self.export) && self.export.mode == 'Resource') || (has(self.attributes) && size(self.attributes) > 0)",
    "attributes are required unless export.mode is Resource",
)])))]
pub struct KollectProfileSpec {
    /// Kind of resource this profile reads.
    #[serde(rename = "targetGVK")]
    pub target_gvk: GroupVersionKind,
    /// Values to extract, one per column of the inventory. Required unless `export.mode` is
    /// `Resource`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub attributes: Vec<Attribute>,
    /// Export of whole objects. Absent means attributes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<Export>,
    /// Prometheus series derived from attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub metrics: Vec<Metric>,
}

impl KollectProfile {
    /// Whether the profile carries this permission. Only the exact value `true` counts.
    pub fn permits(&self, annotation: &str) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get(annotation))
            .is_some_and(|value| value == "true")
    }
}

impl KollectProfileSpec {
    /// Whether rows hold whole objects.
    pub fn exports_whole_objects(&self) -> bool {
        let export = self.export.as_ref();
        export.is_some_and(|export| export.mode == ExportMode::Resource)
    }

    /// What the path of a metric means: an attribute, and the members that lead on from there. Names
    /// of attributes may have dots themselves; the longest one that fits is meant. The copy of an
    /// object counts as an attribute for what is in it.
    pub fn metric_source<'p>(&self, path: &'p str) -> Option<(&'p str, Vec<&'p str>)> {
        let copy = self.export.iter().filter(|_| self.exports_whole_objects());
        let copy = copy.map(|export| export.as_.as_str());
        let names = self.attributes.iter().map(|one| one.name.as_str());
        if names.clone().any(|name| name == path) {
            return Some((path, Vec::new()));
        }
        let leads_on = |name: &&str| {
            let rest = path
                .strip_prefix(*name)
                .and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| rest.split('.').all(|member| !member.is_empty()))
        };
        let longest = names.chain(copy).filter(leads_on).map(str::len).max()?;
        let members = path[longest + 1..].split('.').collect();
        Some((&path[..longest], members))
    }
}

/// One value taken out of every object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attribute {
    /// Name of the value in the exported row.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::PRINTABLE))]
    pub name: String,
    /// Where the value comes from: JSONPath (`$.spec.replicas`, `{.spec.replicas}`), CEL
    /// (`cel:size(object.spec.containers)`) or a field of a Helm release
    /// (`helm:release.chartVersion`).
    #[schemars(length(min = 1, max = 4096), regex(pattern = schema::ATTRIBUTE_PATH))]
    pub path: String,
    /// What kind of value this is, for readers: `string`, `int`, `bool`, `list`, `map` or any other
    /// word. Values are not converted; `list` makes paths that can match several times yield a
    /// list whenever they match, also once. Nothing found stays nothing.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Leave the value out of the row when it is missing or cannot be computed, instead of
    /// failing the object.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub optional: bool,
}

/// Whether rows hold extracted attributes or whole objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExportMode {
    /// Rows hold the listed attributes.
    #[default]
    Attributes,
    /// Rows hold a pruned copy of the object beside the attributes.
    Resource,
}

/// Which parts of an object survive in a full export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Include {
    /// `metadata` only.
    MetadataOnly,
    /// `spec` only.
    SpecOnly,
    /// `status` only.
    StatusOnly,
    /// `spec` and `status`.
    #[default]
    SpecAndStatus,
    /// Everything.
    All,
}

/// Export of whole objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    /// `Resource` embeds a pruned copy of the object in the row; `Attributes` does not.
    #[serde(default)]
    pub mode: ExportMode,
    /// Name of the attribute that holds the copy.
    #[serde(rename = "as", default = "default_export_as")]
    #[schemars(length(max = 253))]
    pub as_: String,
    /// Which top-level parts of the object are kept; `apiVersion` and `kind` always are.
    #[serde(default)]
    pub include: Include,
    /// Remove `metadata.name`, `namespace` and `uid`, which the row carries anyway. Defaults to
    /// true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_identity: Option<bool>,
    /// What else is removed from the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<Prune>,
}

fn default_export_as() -> String {
    "resource".to_owned()
}

impl Default for Export {
    fn default() -> Self {
        Self {
            mode: ExportMode::default(),
            as_: default_export_as(),
            include: Include::default(),
            dedupe_identity: None,
            prune: None,
        }
    }
}

/// A named set of paths that only say how an object is run, not what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PrunePreset {
    /// What a Git repository of desired state would not hold: `status` and server-set metadata.
    GitOps,
    /// Argo CD's bookkeeping: operation state, history, reconciliation times, tracking metadata.
    ArgoCD,
    /// Flux's bookkeeping: handled requests, observed generations, reconcile requests.
    Flux,
}

/// What is removed from the copy of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prune {
    /// Remove the noise of the API server: managed fields, resource version, generation, the
    /// last-applied and Argo CD tracking annotations. Defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<bool>,
    /// Remove a named set of paths as well: `GitOps`, `ArgoCD` or `Flux`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<PrunePreset>,
    /// JSON Pointers (RFC 6901) to remove, for example `/status/conditions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 4096), regex(pattern = schema::JSON_POINTER)))]
    pub json_pointers: Vec<String>,
    /// JSONPaths to remove; every match goes, for example `$.spec.containers[*].env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub json_paths: Vec<String>,
    /// The same in the notation of jq, as `ignoreDifferences` of Argo CD has it: every match goes,
    /// for example `.spec.containers[] | select(.name == "proxy")`. Paths and `select` with a
    /// comparison, nothing else of jq.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub jq_path_expressions: Vec<String>,
    /// Key names whose values are redacted at any depth, in addition to the operator's list.
    /// Letter case is ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub scrub_keys: Vec<String>,
    /// CEL expressions over `object` that yield a JSON Pointer or a list of them to remove, for
    /// paths that depend on the object, for example
    /// `has(object.status) ? ['/status'] : []`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub cel: Vec<String>,
}

/// One Prometheus series of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// Name of the series.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::METRIC_NAME))]
    pub name: String,
    /// Name of the attribute whose numeric values are summed. Members of an attribute that is a map
    /// follow with dots, for example `resource.spec.replicas`.
    #[schemars(length(min = 1))]
    pub path: String,
    /// Names of attributes whose values become labels; at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 5),
        inner(length(min = 1), regex(pattern = schema::METRIC_NAME)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub labels: Vec<String>,
}

/// Profiles have no controller; the field exists for tools that expect one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KollectProfileStatus {
    /// Never written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
