//! The lists of pointers that go together under a name. `docs/profiles.md` shows them to users;
//! a test compares the two.

use kollect_api::profile::PrunePreset;

/// What a row says about the object anyway: removed unless `dedupeIdentity` is `false`.
pub const IDENTITY: &[&str] = &["/metadata/name", "/metadata/namespace", "/metadata/uid"];

/// Noise of the API server and of the tools that apply objects: removed unless `prune.defaults` is
/// `false`.
pub const DEFAULTS: &[&str] = &[
    "/metadata/managedFields",
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
    "/metadata/annotations/argocd.argoproj.io~1tracking-id",
];

const GIT_OPS: &[&str] = &[
    "/status",
    "/metadata/creationTimestamp",
    "/metadata/deletionGracePeriodSeconds",
    "/metadata/deletionTimestamp",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/resourceVersion",
    "/metadata/selfLink",
    "/metadata/uid",
    "/metadata/annotations/deployment.kubernetes.io~1revision",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
];

const ARGO_CD: &[&str] = &[
    "/operation",
    "/status/history",
    "/status/observedAt",
    "/status/operationState",
    "/status/reconciledAt",
    "/metadata/annotations/argocd.argoproj.io~1installation-id",
    "/metadata/annotations/argocd.argoproj.io~1refresh",
    "/metadata/annotations/argocd.argoproj.io~1tracking-id",
    "/metadata/labels/argocd.argoproj.io~1instance",
];

const FLUX: &[&str] = &[
    "/status/lastHandledForceAt",
    "/status/lastHandledReconcileAt",
    "/status/lastHandledResetAt",
    "/status/observedGeneration",
    "/metadata/annotations/reconcile.fluxcd.io~1forceAt",
    "/metadata/annotations/reconcile.fluxcd.io~1requestedAt",
    "/metadata/annotations/reconcile.fluxcd.io~1resetAt",
];

/// The pointers of a preset.
pub fn preset(name: PrunePreset) -> &'static [&'static str] {
    match name {
        PrunePreset::GitOps => GIT_OPS,
        PrunePreset::ArgoCD => ARGO_CD,
        PrunePreset::Flux => FLUX,
    }
}
