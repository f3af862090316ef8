//! KollectSnapshotSink: Git, GitLab, S3, GCS and Azure Blob Storage.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{SinkCommon, SinkType};
use super::status::SinkStatus;
use crate::{reference::SecretReference, schema};

/// Deliver inventories as documents.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectSnapshotSink",
    plural = "kollectsnapshotsinks",
    singular = "kollectsnapshotsink",
    shortname = "ksnap",
    category = "kollect",
    namespaced,
    status = "SinkStatus",
    derive = "PartialEq",
    doc = "A repository or object store that holds inventories as documents.",
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
        description = "Cluster name written into exports"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[
    ("self.type in ['git', 'gitlab'] || !has(self.git)", "git is only for type git and gitlab"),
    ("self.type == 'gitlab' || !has(self.gitlab)", "gitlab is only for type gitlab"),
    ("self.type in ['s3', 'gcs', 'azureblob'] || !has(self.objectStore)", "objectStore is only for type s3, gcs and azureblob"),
    ("self.type == 'azureblob' || !has(self.azureBlob)", "azureBlob is only for type azureblob"),
    ("!has(self.http)", "http is reserved and must not be set"),
    ("self.type in ['git', 'gitlab'] || !has(self.layout)", "layout is only for type git and gitlab"),
    (
        "!has(self.serialization) || !has(self.serialization.format) || self.serialization.format == 'json' || self.serialization.format in (self.type in ['git', 'gitlab'] ? ['yaml', 'ndjson'] : ['parquet', 'csv', 'ndjson'])",
        "serialization.format must be json, yaml or ndjson for git and gitlab, and json, parquet, csv or ndjson for s3, gcs and azureblob",
    ),
])))]
pub struct KollectSnapshotSinkSpec {
    /// Backend: `git`, `gitlab`, `s3`, `gcs` or `azureblob`.
    #[serde(rename = "type")]
    pub type_: SnapshotSinkType,
    /// What all sinks have in common.
    #[serde(flatten)]
    pub common: SinkCommon,
    /// Git settings, for type `git` and `gitlab`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Git>,
    /// GitLab settings, for type `gitlab`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitlab: Option<Gitlab>,
    /// Object store settings, for type `s3`, `gcs` and `azureblob`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_store: Option<ObjectStore>,
    /// Settings of Azure Blob Storage, for type `azureblob`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure_blob: Option<AzureBlob>,
    /// Reserved; must not be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
}

/// Backends of snapshot sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotSinkType {
    /// A Git repository.
    Git,
    /// A Git repository on GitLab.
    Gitlab,
    /// S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azureblob,
}

impl From<SnapshotSinkType> for SinkType {
    fn from(type_: SnapshotSinkType) -> Self {
        match type_ {
            SnapshotSinkType::Git => SinkType::Git,
            SnapshotSinkType::Gitlab => SinkType::Gitlab,
            SnapshotSinkType::S3 => SinkType::S3,
            SnapshotSinkType::Gcs => SinkType::Gcs,
            SnapshotSinkType::Azureblob => SinkType::Azureblob,
        }
    }
}

/// How commits reach the branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PushPolicy {
    /// On top of what is there.
    #[default]
    Commit,
    /// Overwriting what is there.
    ForcePush,
}

/// How Git authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GitAuthType {
    /// A token over HTTPS.
    Token,
    /// A key over SSH.
    Ssh,
}

/// Names of Git implementations. Kollect has one; both names are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GitEngine {
    /// The built-in implementation.
    #[serde(rename = "go-git")]
    GoGit,
    /// The built-in implementation as well.
    #[serde(rename = "cli")]
    Cli,
}

/// Settings of Git repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "!has(self.branch) || !(self.branch.contains('..') || self.branch.contains('@{') || self.branch.contains('//') || self.branch.trim().endsWith('.') || self.branch.trim().endsWith('/') || self.branch.trim().endsWith('.lock') || self.branch.trim().startsWith('refs/'))",
    "branch must be a branch name such as main or feature/inventory, without refs/",
)])))]
pub struct Git {
    /// Branch to write to; wins over `#branch=` of the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), regex(pattern = schema::GIT_BRANCH))]
    pub branch: Option<String>,
    /// `Commit` adds to the history; `ForcePush` overwrites it. Defaults to `Commit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_policy: Option<PushPolicy>,
    /// How to authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<GitAuth>,
    /// Subject of commits. Placeholders: `{namespace}`, `{name}`, `{cluster}`, `{generation}`,
    /// `{itemCount}`, `{checksum}`, `{checksumShort}`, `{exportedAt}`, `{sink}`, `{path}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_message: Option<String>,
    /// Body of commits; placeholders as in `commitMessage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_body: Option<String>,
    /// Trailer lines of commits; placeholders as in `commitMessage`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commit_trailers: Vec<String>,
    /// Who commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<GitAuthor>,
    /// How much history is fetched. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub clone_depth: Option<i32>,
    /// Remove files that the inventory no longer produces. Always on for `perResource` and
    /// `split` layouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// Accepted for compatibility; there is one implementation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<GitEngine>,
    /// Send credentials with the first HTTPS request instead of waiting to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_basic_auth: Option<bool>,
}

/// Authentication of Git.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAuth {
    /// `token` over HTTPS or `ssh` with a key.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<GitAuthType>,
    /// Secret with the credentials; overrides `spec.secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

/// Identity of commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAuthor {
    /// Name. Defaults to `kollect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Mail address. Defaults to `kollect@kollect.dev`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

/// Settings of GitLab.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gitlab {
    /// Whether and how changes go through merge requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_request: Option<MergeRequest>,
}

/// Whether changes go through merge requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeRequestMode {
    /// Pushed to the branch.
    #[default]
    Direct,
    /// Pushed to a branch of their own and proposed.
    MergeRequest,
}

/// Merge requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "!has(self.mode) || self.mode != 'merge_request' || (has(self.targetBranch) && self.targetBranch.trim() != '')",
    "targetBranch is required for mode merge_request",
)])))]
pub struct MergeRequest {
    /// `direct` pushes to the branch; `merge_request` proposes changes. Defaults to `direct`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<MergeRequestMode>,
    /// Branch that merge requests aim at; required for mode `merge_request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub target_branch: Option<String>,
    /// Prefix of the branches that are proposed. Defaults to `kollect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_prefix: Option<String>,
    /// Title of merge requests. Placeholders: `{namespace}`, `{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title_template: Option<String>,
    /// Merge by itself once checks pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_merge: Option<bool>,
}

/// Formats that `objectStore.format` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectStoreFormat {
    /// JSON.
    Json,
    /// Apache Parquet.
    Parquet,
}

/// Settings of object stores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "!has(self.keepDays) || (has(self.partitioning) && self.partitioning == 'dated')",
    "keepDays is only for partitioning dated",
)])))]
pub struct ObjectStore {
    /// Older name of `serialization.format`, which wins. Defaults to `json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ObjectStoreFormat>,
    /// Attributes that become columns of text; not for `columns: typed`, where every attribute is
    /// a column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub hot_attributes: Vec<String>,
    /// Where the files of an inventory stand: `current` replaces one set, `dated` keeps one set
    /// per day, `generation` keeps one per generation of the inventory. Defaults to `current` for
    /// parquet; other formats follow `pathTemplate` unless this is set and `pathTemplate` is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioning: Option<Partitioning>,
    /// How many days `dated` sets are kept, today included. Absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 36500))]
    pub keep_days: Option<i32>,
    /// `typed` gives every attribute of every profile a column of its declared type; `hot` gives
    /// only `hotAttributes` a column, as text. Defaults to `typed`, for `generation` to `hot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<ColumnMode>,
}

/// Settings of Azure Blob Storage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureBlob {
    /// The storage account. May be left out where the endpoint names it, as in
    /// `https://<account>.blob.core.windows.net/<container>/<prefix>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z0-9-]+$"))]
    pub account: Option<String>,
    /// Which managed identity the operator takes, where it has several and the administrator
    /// allowed that sinks use them.
    #[serde(default, rename = "clientID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^[A-Za-z0-9-]+$"))]
    pub client_id: Option<String>,
}

/// Where the files of an inventory stand in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Partitioning {
    /// One set, replaced in place.
    Current,
    /// One set per day.
    Dated,
    /// One set per generation of the inventory.
    Generation,
}

/// Which attributes are columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColumnMode {
    /// All of them, with the types that profiles declare.
    Typed,
    /// Those that are named, as text.
    Hot,
}

/// Reserved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Http {
    /// Reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}
