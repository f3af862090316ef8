//! What to do about each reason that a condition gives, and which kinds give it.

use kollect_api::condition::{ConditionType, Reason};

/// Kinds that have their conditions in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Target,
    ClusterTarget,
    Inventory,
    ClusterInventory,
    Sink,
    ConnectionTest,
    /// Kinds without a status that anybody writes.
    Static,
}

use Sort::{ClusterInventory, ClusterTarget, ConnectionTest, Inventory, Sink, Target};

impl Sort {
    pub(super) fn of(kind: &str) -> Self {
        match kind {
            "KollectTarget" => Target,
            "KollectClusterTarget" => ClusterTarget,
            "KollectInventory" => Inventory,
            "KollectClusterInventory" => ClusterInventory,
            "KollectConnectionTest" => ConnectionTest,
            kind if kind.ends_with("Sink") => Sink,
            _ => Self::Static,
        }
    }

    /// The conditions of these kinds.
    pub(super) fn conditions(self) -> &'static [ConditionType] {
        use ConditionType::{
            ConnectionVerified, Degraded, ExportChurnWarning, ExportShardWarning, ExportSucceeded,
            ReadBack, Ready, SinkReachable, Synced, TLSInsecure,
        };
        match self {
            Target => &[Ready, Synced, SinkReachable, Degraded],
            ClusterTarget => &[Ready, Synced, Degraded],
            Inventory => &[
                Ready,
                Synced,
                SinkReachable,
                Degraded,
                ExportShardWarning,
                ExportChurnWarning,
                ReadBack,
            ],
            ClusterInventory => &[
                Ready,
                Synced,
                SinkReachable,
                ExportSucceeded,
                Degraded,
                ExportShardWarning,
                ExportChurnWarning,
                ReadBack,
            ],
            Sink => &[ConnectionVerified, Degraded, TLSInsecure],
            ConnectionTest => &[ConnectionVerified, Ready],
            Self::Static => &[],
        }
    }

    /// Where more is written about these kinds.
    pub(super) fn more(self) -> Option<&'static str> {
        match self {
            Inventory | ClusterInventory => Some("[inventories](../inventories.md)"),
            Sink | ConnectionTest => Some("[sinks](../sinks.md)"),
            Target | ClusterTarget => Some("[profiles and targets](../profiles.md)"),
            Self::Static => None,
        }
    }
}

const TARGETS: &[Sort] = &[Target, ClusterTarget];
const INVENTORIES: &[Sort] = &[Inventory, ClusterInventory];
const COLLECTION: &[Sort] = &[Target, ClusterTarget, Inventory, ClusterInventory];
const SINKS: &[Sort] = &[Sink, ConnectionTest];
const REFERRING: &[Sort] = &[Target, Inventory, ClusterInventory];
const NOTHING: &str = "nothing";

/// What to do about each reason, and who gives it.
pub(super) const REMEDIES: &[(Reason, &[Sort], &str)] = &[
    (
        Reason::Suspended,
        COLLECTION,
        "set `spec.suspend` to false when it shall go on",
    ),
    (Reason::MissingProfileRef, TARGETS, "set `spec.profileRef`"),
    (
        Reason::ProfileNotFound,
        TARGETS,
        "create the profile in the namespace that the message names, or correct the reference",
    ),
    (
        Reason::ProfileForbidden,
        TARGETS,
        "grant the operator get, list and watch on kollectprofiles of that namespace, or have the cluster scope changed",
    ),
    (
        Reason::ProfileLookupFailed,
        TARGETS,
        "look at the API server and at the rights of the operator; it is asked again within a minute",
    ),
    (
        Reason::NamespaceLookupFailed,
        COLLECTION,
        "grant the operator list and watch on namespaces, or name the namespaces in the target",
    ),
    (
        Reason::TargetLookupFailed,
        INVENTORIES,
        "grant the operator list and watch on targets; rows stay as they are until then",
    ),
    (
        Reason::ScopeLookupFailed,
        COLLECTION,
        "grant the operator list and watch on scopes; without knowing them nothing is opened",
    ),
    (
        Reason::ScopeGVKDenied,
        TARGETS,
        "collect another kind, or have `allowedGVKs` of the scope widened",
    ),
    (
        Reason::ScopeNamespaceDenied,
        COLLECTION,
        "select other namespaces, or have the scope changed",
    ),
    (
        Reason::ScopeSinkDenied,
        INVENTORIES,
        "use a sink that the scope lists, or have it widened",
    ),
    (
        Reason::ScopeResourceExportDenied,
        TARGETS,
        "export attributes instead of whole objects, or have `allowResourceExport` of the scope changed; rows stay as they are",
    ),
    (
        Reason::ScopeMissing,
        COLLECTION,
        "have an administrator put a KollectScope into the namespace, or ask for the namespace's own objects only",
    ),
    (
        Reason::SensitiveCollectionDenied,
        TARGETS,
        "have an administrator allow it: `allowSensitiveCollection` of the cluster scope, or an annotation on the namespace collected from",
    ),
    (
        Reason::QuotaExceeded,
        &[
            Target,
            ClusterTarget,
            Inventory,
            ClusterInventory,
            Sink,
            ConnectionTest,
        ],
        "remove what is not needed in the namespace, or have the quota raised; the message says which",
    ),
    (
        Reason::ScopeForbidden,
        TARGETS,
        "grant the operator list and watch on the kind in the namespaces that the message names",
    ),
    (
        Reason::ResourceRuleGVKMismatch,
        TARGETS,
        "name the kind of the profile in the rule",
    ),
    (
        Reason::KindNotInstalled,
        TARGETS,
        "install the CustomResourceDefinition, or correct `targetGVK`; it is seen at once when it is there",
    ),
    (
        Reason::InformerRegistrationFailed,
        TARGETS,
        "the API server refuses the watch: the message says why; it is tried again",
    ),
    (
        Reason::AccessCheckFailed,
        TARGETS,
        "allow the operator to create selfsubjectaccessreviews, and look at the API server",
    ),
    (
        Reason::ExtractionFailed,
        TARGETS,
        "`status.lastExtractionError` names object and attribute: mend the expression or mark the attribute optional",
    ),
    (
        Reason::FinalizerNotAdded,
        COLLECTION,
        "grant the operator patch on the kind",
    ),
    (
        Reason::InventoryListFailed,
        TARGETS,
        "grant the operator list and watch on inventories",
    ),
    (
        Reason::SinkNotFound,
        REFERRING,
        "create the sink in the namespace of the reference, or correct the name",
    ),
    (
        Reason::SinkForbidden,
        REFERRING,
        "grant the operator get, list and watch on the sinks of that namespace",
    ),
    (
        Reason::SinkLookupFailed,
        REFERRING,
        "look at the API server; it is asked again",
    ),
    (
        Reason::SinkUnreachable,
        REFERRING,
        "the condition `ConnectionVerified` of the sink says what is wrong",
    ),
    (
        Reason::SinkNamespaceDenied,
        &[ClusterInventory],
        "use a sink of an allowed namespace, or have the cluster scope widened",
    ),
    (Reason::Collecting, TARGETS, NOTHING),
    (
        Reason::NoSinksInNamespace,
        &[Target],
        "refer to a sink from an inventory of the namespace, if rows shall go somewhere",
    ),
    (
        Reason::NoSinksConfigured,
        INVENTORIES,
        "add a sink reference, if rows shall go somewhere",
    ),
    (Reason::SinksReachable, REFERRING, NOTHING),
    (Reason::ExportSucceeded, INVENTORIES, NOTHING),
    (Reason::Exported, INVENTORIES, NOTHING),
    (Reason::UpToDate, INVENTORIES, NOTHING),
    (
        Reason::WaitingForCollection,
        INVENTORIES,
        "wait; the message names the targets, and those that are degraded first",
    ),
    (
        Reason::PartiallySynced,
        INVENTORIES,
        "`status.sinkExports` says which sink fails and why; the others go on",
    ),
    (
        Reason::NoExport,
        &[Inventory],
        "add a sink reference, if rows shall go somewhere",
    ),
    (Reason::Debounced, INVENTORIES, NOTHING),
    (
        Reason::Progressing,
        COLLECTION,
        "wait; if it lasts, the message says what for",
    ),
    (
        Reason::ExportFailed,
        INVENTORIES,
        "look at the backend; it is tried again with growing pauses and heals by itself",
    ),
    (
        Reason::ExportTerminal,
        INVENTORIES,
        "change the sink, its Secret or the rights at the backend: nothing is tried until something changed",
    ),
    (
        Reason::RowsSkipped,
        INVENTORIES,
        "the message names the first row: give it what the layout asks for, or make it smaller",
    ),
    (
        Reason::Replayed,
        INVENTORIES,
        "let the sink read its stream, so that a restart publishes only what changed",
    ),
    (
        Reason::CleanupTerminal,
        INVENTORIES,
        "remove what is left at the backend by hand; the object goes after `--cleanup-timeout`",
    ),
    (
        Reason::ApproachingExportCap,
        INVENTORIES,
        "split the inventory, or set `maxExportBytes` higher, if one document is wanted",
    ),
    (
        Reason::ChangesExportedOften,
        INVENTORIES,
        "set `changeInterval` for the sink, if fewer commits or files are wanted",
    ),
    (
        Reason::NoTargets,
        &[ClusterInventory],
        "create the cluster targets that `targetRefs` names, or correct the selector",
    ),
    (
        Reason::TargetDegraded,
        INVENTORIES,
        "mend the target that the message names; its rows stay as they are meanwhile",
    ),
    (
        Reason::ExportUnavailable,
        INVENTORIES,
        "look at the log of the operator",
    ),
    (Reason::RolledUp, &[ClusterInventory], NOTHING),
    (Reason::ConnectionOK, SINKS, NOTHING),
    (
        Reason::SecretResolveFailed,
        SINKS,
        "create the Secret with the keys that the message names, and let the operator read it",
    ),
    (
        Reason::ConnectionTestFailed,
        SINKS,
        "the message says how far the probe came: name, address, certificate, login, rights",
    ),
    (
        Reason::InsecureSkipVerify,
        &[Sink],
        "give the sink a `caBundle` or `caSecretRef` and take `insecureSkipVerify` away",
    ),
    (Reason::ProbeSucceeded, &[ConnectionTest], NOTHING),
    (
        Reason::InvalidSinkRef,
        &[ConnectionTest],
        "name exactly one sink of the namespace",
    ),
    (
        Reason::InvalidSpec,
        &[
            Target,
            ClusterTarget,
            Inventory,
            ClusterInventory,
            Sink,
            ConnectionTest,
        ],
        "the message names the field and what is wrong with it",
    ),
];
