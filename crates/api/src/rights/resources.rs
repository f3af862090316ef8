//! The resources that Kubernetes itself brings, as far as somebody may want them in an inventory.
//!
//! RBAC cannot say "everything but Secrets", so what an installation may collect by default is a
//! list. The same list tells how a kind of a profile is called in a role.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::{collected, merged};

/// A resource that may be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Name in roles and paths.
    pub resource: &'static str,
    /// Name in manifests.
    pub kind: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether `rbac.collect: common` has it.
    pub common: bool,
}

const fn namespaced(group: &'static str, resource: &'static str, kind: &'static str) -> Collected {
    Collected {
        group,
        resource,
        kind,
        namespaced: true,
        common: true,
    }
}

const fn cluster(group: &'static str, resource: &'static str, kind: &'static str) -> Collected {
    Collected {
        namespaced: false,
        ..namespaced(group, resource, kind)
    }
}

const fn rare(one: Collected) -> Collected {
    Collected {
        common: false,
        ..one
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORK: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// All of them.
///
/// Not common are Secrets, because only who asks for them should have them, and what changes all
/// the time and nobody keeps: events and leases. Those are for `rbac.extraRules` or `kollect rbac`.
pub const COLLECTED: &[Collected] = &[
    namespaced("", "configmaps", "ConfigMap"),
    namespaced("", "endpoints", "Endpoints"),
    rare(namespaced("", "events", "Event")),
    namespaced("", "limitranges", "LimitRange"),
    cluster("", "namespaces", "Namespace"),
    cluster("", "nodes", "Node"),
    namespaced("", "persistentvolumeclaims", "PersistentVolumeClaim"),
    cluster("", "persistentvolumes", "PersistentVolume"),
    namespaced("", "pods", "Pod"),
    rare(namespaced("", "podtemplates", "PodTemplate")),
    namespaced("", "replicationcontrollers", "ReplicationController"),
    namespaced("", "resourcequotas", "ResourceQuota"),
    rare(namespaced("", "secrets", "Secret")),
    namespaced("", "serviceaccounts", "ServiceAccount"),
    namespaced("", "services", "Service"),
    cluster(
        ADMISSION,
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    ),
    cluster(
        ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    ),
    cluster(
        ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    ),
    cluster(
        ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ),
    cluster(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    ),
    cluster("apiregistration.k8s.io", "apiservices", "APIService"),
    rare(namespaced(
        "apps",
        "controllerrevisions",
        "ControllerRevision",
    )),
    namespaced("apps", "daemonsets", "DaemonSet"),
    namespaced("apps", "deployments", "Deployment"),
    namespaced("apps", "replicasets", "ReplicaSet"),
    namespaced("apps", "statefulsets", "StatefulSet"),
    namespaced(
        "autoscaling",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    ),
    namespaced("batch", "cronjobs", "CronJob"),
    namespaced("batch", "jobs", "Job"),
    rare(cluster(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "CertificateSigningRequest",
    )),
    rare(namespaced("coordination.k8s.io", "leases", "Lease")),
    namespaced("discovery.k8s.io", "endpointslices", "EndpointSlice"),
    rare(namespaced("events.k8s.io", "events", "Event")),
    cluster(NETWORK, "ingressclasses", "IngressClass"),
    namespaced(NETWORK, "ingresses", "Ingress"),
    namespaced(NETWORK, "networkpolicies", "NetworkPolicy"),
    cluster("node.k8s.io", "runtimeclasses", "RuntimeClass"),
    namespaced("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
    cluster(RBAC, "clusterrolebindings", "ClusterRoleBinding"),
    cluster(RBAC, "clusterroles", "ClusterRole"),
    namespaced(RBAC, "rolebindings", "RoleBinding"),
    namespaced(RBAC, "roles", "Role"),
    cluster("scheduling.k8s.io", "priorityclasses", "PriorityClass"),
    cluster(STORAGE, "csidrivers", "CSIDriver"),
    cluster(STORAGE, "csinodes", "CSINode"),
    cluster(STORAGE, "storageclasses", "StorageClass"),
    cluster(STORAGE, "volumeattachments", "VolumeAttachment"),
];

/// The rules of `rbac.collect: common`, for resources in namespaces or for those in none.
pub fn common(in_namespaces: bool) -> Vec<PolicyRule> {
    let rules = COLLECTED
        .iter()
        .filter(|one| one.common && one.namespaced == in_namespaces)
        .map(|one| collected(one.group, &[one.resource]));
    merged(rules)
}

/// How a kind of Kubernetes is called in a role.
pub fn resource_of(group: &str, kind: &str) -> Option<&'static Collected> {
    // Profiles may call the core group by a name.
    let group = if group == "core" { "" } else { group };
    COLLECTED
        .iter()
        .find(|one| one.group == group && one.kind == kind)
}

/// How a kind is probably called in a role, as English and the usual generators have it.
pub fn guess_plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if word == "endpoints" => word,
        _ if word.ends_with(['s', 'x']) || word.ends_with("ch") => format!("{word}es"),
        _ => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t9_common_has_no_secrets_and_nothing_but_reading() {
        for rule in [common(true), common(false)].concat() {
            let resources = rule.resources.as_deref().unwrap_or_default();
            let open = |name: &String| name == "secrets" || name == "*";
            assert!(!resources.iter().any(open), "{rule:?}");
            assert_eq!(rule.verbs, ["list", "watch"]);
        }
    }

    #[test]
    fn plurals_are_guessed_as_the_table_has_them() {
        for one in COLLECTED {
            assert_eq!(guess_plural(one.kind), one.resource);
        }
        for (kind, plural) in [
            ("Application", "applications"),
            ("HTTPProxy", "httpproxies"),
            ("Gateway", "gateways"),
            ("VulnerabilityReport", "vulnerabilityreports"),
            ("Canary", "canaries"),
        ] {
            assert_eq!(guess_plural(kind), plural);
        }
    }

    #[test]
    fn the_core_group_has_two_names() {
        let secret = resource_of("core", "Secret").expect("a resource");
        assert_eq!((secret.group, secret.resource), ("", "secrets"));
        assert_eq!(resource_of("apps", "Secret"), None);
    }
}
