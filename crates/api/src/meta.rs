//! Names shared by all kinds: the API group and every label, annotation and finalizer key.

/// The API group of all eleven kinds.
pub const GROUP: &str = "kollect.dev";
/// The only version, served and stored.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of every object.
pub const API_VERSION: &str = "kollect.dev/v1alpha1";
/// Where platform objects live unless a reference says otherwise.
pub const SYSTEM_NAMESPACE: &str = "kollect-system";

/// Label on a namespace or a collected resource: `enabled` or `disabled`.
pub const WATCH_LABEL: &str = "kollect.dev/watch";
/// Annotation on a namespace with the meaning of [`WATCH_LABEL`] for everything in it.
pub const NAMESPACE_WATCH_ANNOTATION: &str = "kollect.dev/namespace-watch";
/// Annotation on a sink: probe it even though `connectionTest` is false.
pub const TEST_CONNECTION_ANNOTATION: &str = "kollect.dev/test-connection";
/// Annotation on an inventory, a sink or a target: a new value asks for the work to be done again at
/// once (a full export; a probe and full exports; a new listing).
pub const REQUESTED_AT_ANNOTATION: &str = "kollect.dev/requestedAt";
/// Annotation on a sink: render `status.preview`.
pub const PREVIEW_ANNOTATION: &str = "kollect.dev/preview";
/// Annotation on a profile: attribute paths may read Secret data. Only the exact value `true` counts.
pub const ALLOW_SECRET_EXTRACTION_ANNOTATION: &str = "kollect.dev/allow-secret-extraction";
/// Annotation on a profile: Secrets may be exported as whole objects. Only the exact value `true` counts.
pub const ALLOW_FULL_RESOURCE_EXPORT_ANNOTATION: &str = "kollect.dev/allow-full-resource-export";

/// Annotation on a collected Namespace: targets of these namespaces, separated by commas, may collect
/// its sensitive objects.
pub const ALLOW_SENSITIVE_COLLECTION_BY_ANNOTATION: &str =
    "kollect.dev/allow-sensitive-collection-by";

/// Annotations whose change makes an otherwise unchanged object worth validating again.
pub const SECURITY_ANNOTATIONS: [&str; 2] = [
    ALLOW_SECRET_EXTRACTION_ANNOTATION,
    ALLOW_FULL_RESOURCE_EXPORT_ANNOTATION,
];

/// Held by a KollectTarget until its collection has ended.
pub const TARGET_FINALIZER: &str = "kollect.dev/target-cleanup";
/// Held by a KollectClusterTarget until its collection has ended.
pub const CLUSTER_TARGET_FINALIZER: &str = "kollect.dev/cluster-target-cleanup";
/// Held by a KollectInventory until its rows have left all sinks.
pub const INVENTORY_FINALIZER: &str = "kollect.dev/inventory-cleanup";
/// Held by a KollectClusterInventory until its rows have left all sinks.
pub const CLUSTER_INVENTORY_FINALIZER: &str = "kollect.dev/cluster-inventory-cleanup";
