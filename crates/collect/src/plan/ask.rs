//! Both kinds of target, seen alike.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kollect_api::{
    KollectClusterTarget, KollectTarget,
    meta::REQUESTED_AT_ANNOTATION,
    rules::{self, Object},
    selector::LabelSelector,
    target::{ResourceRule, TargetStatus},
};
use kollect_inventory::TargetKind;

use super::key::TargetKey;
use crate::gates::SelectionSpec;

/// What a target of either kind asks for.
#[derive(Debug)]
pub(super) struct Ask<'t> {
    pub(super) key: TargetKey,
    /// The target itself.
    pub(super) object: Asker<'t>,
    /// The target's own namespace; empty for cluster targets.
    pub(super) namespace: &'t str,
    pub(super) suspend: bool,
    pub(super) profile_namespace: &'t str,
    pub(super) profile_name: &'t str,
    pub(super) included: &'t [String],
    pub(super) excluded: &'t [String],
    pub(super) selector: Option<&'t LabelSelector>,
    pub(super) exclude: Option<&'t LabelSelector>,
    pub(super) rules: &'t [ResourceRule],
    pub(super) selection: SelectionSpec,
    /// The value of the annotation that asks for another look at everything.
    pub(super) requested_at: Option<&'t str>,
    /// It has had rows at some time, as far as its status tells.
    pub(super) has_collected: bool,
}

/// A target of either kind.
#[derive(Debug)]
pub(super) enum Asker<'t> {
    Target(&'t KollectTarget),
    ClusterTarget(&'t KollectClusterTarget),
}

impl Asker<'_> {
    /// What the rules say against it: it came in without anybody looking, or a rule is newer.
    pub(super) fn invalid(&self) -> Option<String> {
        let object = match self {
            Self::Target(target) => Object::Target((*target).clone()),
            Self::ClusterTarget(target) => Object::ClusterTarget((*target).clone()),
        };
        let denial = rules::objection(&object, &rules::Settings::default());
        denial.map(|denial| denial.to_string())
    }
}

/// The value of the annotation that asks for another look at everything.
pub(super) fn requested_at(metadata: &ObjectMeta) -> Option<&str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(REQUESTED_AT_ANNOTATION).map(String::as_str)
}

fn has_collected(status: Option<&TargetStatus>) -> bool {
    status.is_some_and(|status| status.collected_count.is_some())
}

impl<'t> Ask<'t> {
    /// What a target asks for.
    pub(super) fn of_target(target: &'t KollectTarget) -> Self {
        let metadata = &target.metadata;
        let spec = &target.spec;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Ask {
            object: Asker::Target(target),
            key: TargetKey::namespaced(namespace, metadata.name.as_deref().unwrap_or_default()),
            namespace,
            suspend: spec.suspend,
            profile_namespace: namespace,
            profile_name: spec.profile_ref.trim(),
            included: &spec.included_namespaces,
            excluded: &spec.excluded_namespaces,
            selector: spec.namespace_selector.as_ref(),
            exclude: spec.namespace_exclude_selector.as_ref(),
            rules: &spec.resource_rules,
            selection: SelectionSpec {
                rules: spec.resource_rules.clone(),
                label_selector: spec.label_selector.clone(),
                names: spec.names.clone(),
                watch_mode: spec.watch_mode,
            },
            requested_at: requested_at(metadata),
            has_collected: has_collected(target.status.as_ref()),
        }
    }

    /// What a cluster target asks for.
    pub(super) fn of_cluster_target(target: &'t KollectClusterTarget) -> Self {
        let metadata = &target.metadata;
        let spec = &target.spec;
        Ask {
            object: Asker::ClusterTarget(target),
            key: TargetKey::cluster(metadata.name.as_deref().unwrap_or_default()),
            namespace: "",
            suspend: spec.suspend,
            profile_namespace: spec.profile_ref.namespace(),
            profile_name: spec.profile_ref.name.trim(),
            included: &spec.included_namespaces,
            excluded: &spec.excluded_namespaces,
            selector: spec.namespace_selector.as_ref(),
            exclude: spec.namespace_exclude_selector.as_ref(),
            rules: &spec.resource_rules,
            selection: SelectionSpec {
                rules: spec.resource_rules.clone(),
                ..SelectionSpec::default()
            },
            requested_at: requested_at(metadata),
            has_collected: has_collected(target.status.as_ref()),
        }
    }

    /// Whether the target says nothing about namespaces.
    pub(super) fn names_no_namespace(&self) -> bool {
        super::namespaces::names(self.included).next().is_none() && self.selector.is_none()
    }

    pub(super) fn is_cluster_target(&self) -> bool {
        self.key.owner == TargetKind::ClusterTarget
    }
}
