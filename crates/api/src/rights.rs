//! What the operator asks of the API server, as one table: for which feature, on which resources,
//! with which verbs, and why.
//!
//! Roles are made from this table and never written by hand, so that what is granted and what is
//! needed cannot drift apart: the chart's roles, the plain manifests, `docs/rbac.md` and
//! `kollect rbac`. What is collected is not in it: that is for whoever writes profiles, see
//! [`collected`]; and what people need to write them is a [`Tier`].

mod resources;
mod rule;
mod table;
mod tier;

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use self::table::{OWN, READ};
pub use self::{
    resources::{COLLECTED, Collected, common, guess_plural, resource_of},
    rule::{merged, yaml},
    table::RIGHTS,
    tier::Tier,
};

/// A part of the operator that can be there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Serving the kinds that live in namespaces.
    Teams,
    /// Serving the kinds of the whole cluster.
    Platform,
    /// Reading the credentials of sinks.
    SinkSecrets,
    /// Following the credentials of sinks, instead of asking for them once a minute.
    FollowedSecrets,
    /// Telling what happened.
    Events,
    /// Leader election.
    Election,
    /// Knowing the labels and annotations of the namespaces that were named at the start.
    NamedNamespaces,
    /// Knowing which namespaces there are, and what they are like.
    AllNamespaces,
    /// Noticing at once that a kind was installed.
    Definitions,
    /// Metrics over HTTPS, for callers whom the cluster allows to read them.
    SecureMetrics,
    /// Asking whether whoever writes a target may read what it collects.
    TargetAuthorization,
    /// Certificates of the webhook, made by the operator itself and shared by its replicas.
    WebhookCertificates,
    /// Telling the API server who signs them.
    WebhookConfiguration,
}

/// Where the rights of a feature have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In every namespace that is served.
    Served,
    /// In the namespace that the operator lives in.
    Home,
    /// In the whole cluster: a Role cannot grant it.
    Cluster,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Teams,
        Self::Platform,
        Self::SinkSecrets,
        Self::FollowedSecrets,
        Self::Events,
        Self::Election,
        Self::NamedNamespaces,
        Self::AllNamespaces,
        Self::Definitions,
        Self::SecureMetrics,
        Self::TargetAuthorization,
        Self::WebhookCertificates,
        Self::WebhookConfiguration,
    ];

    /// Where its rights have to hold.
    pub fn place(self) -> Place {
        match self {
            Self::Teams
            | Self::SinkSecrets
            | Self::FollowedSecrets
            | Self::Events
            | Self::NamedNamespaces => Place::Served,
            Self::Election | Self::WebhookCertificates => Place::Home,
            Self::Platform
            | Self::AllNamespaces
            | Self::Definitions
            | Self::SecureMetrics
            | Self::TargetAuthorization
            | Self::WebhookConfiguration => Place::Cluster,
        }
    }

    /// Whether an operator in tenant mode has it by default. What it can do without and what a Role
    /// cannot grant it has not.
    pub fn is_of_tenants(self) -> bool {
        self.place() != Place::Cluster
            && !matches!(self, Self::FollowedSecrets | Self::WebhookCertificates)
    }

    /// Its name in the chart's templates.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Teams => "teams",
            Self::Platform => "platform",
            Self::SinkSecrets => "sinkSecrets",
            Self::FollowedSecrets => "followedSecrets",
            Self::Events => "events",
            Self::Election => "election",
            Self::NamedNamespaces => "namedNamespaces",
            Self::AllNamespaces => "allNamespaces",
            Self::Definitions => "definitions",
            Self::SecureMetrics => "secureMetrics",
            Self::TargetAuthorization => "targetAuthorization",
            Self::WebhookCertificates => "webhookCertificates",
            Self::WebhookConfiguration => "webhookConfiguration",
        }
    }

    /// When the chart grants it, in words for people.
    pub const fn when(self) -> &'static str {
        match self {
            Self::Teams | Self::Events => "always",
            Self::Platform | Self::AllNamespaces | Self::Definitions => "unless `tenantMode`",
            Self::SinkSecrets => "always; only in `rbac.secrets.namespaces` if it names some",
            Self::FollowedSecrets => "`rbac.secrets.watch`",
            Self::Election => "`leaderElection.enabled`",
            Self::NamedNamespaces => "`tenantMode`",
            Self::SecureMetrics => "`metrics.secure`, unless `tenantMode`",
            Self::TargetAuthorization => {
                "with webhooks, unless `webhooks.targetAuthorization: \"off\"`"
            }
            Self::WebhookCertificates | Self::WebhookConfiguration => {
                "with webhooks whose certificates the operator makes"
            }
        }
    }
}

/// Which objects of a resource are meant, where it is not all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The lease of leader election.
    Lease,
    /// The Secret of the webhook's certificates.
    WebhookSecret,
    /// The configuration of the webhook.
    WebhookConfiguration,
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// Who needs it.
    pub feature: Feature,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural names.
    pub resources: &'static [&'static str],
    /// Which of their objects, if not all.
    pub named: Option<Named>,
    /// What is done with them.
    pub verbs: &'static [&'static str],
    /// What for, for people.
    pub reason: &'static str,
}

impl Right {
    fn rule(&self, name: impl Fn(Named) -> Option<String>) -> PolicyRule {
        PolicyRule {
            resource_names: self.named.and_then(name).map(|name| vec![name]),
            ..rule(self.group, self.resources, self.verbs)
        }
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// The rules of the features that are `wanted`, in the order of the table. Where a rule is about one
/// object, `name` tells what it is called; for everything if it does not say.
pub fn named_rules(
    wanted: impl Fn(Feature) -> bool,
    name: impl Fn(Named) -> Option<String>,
) -> Vec<PolicyRule> {
    let rights = RIGHTS.iter().filter(|right| wanted(right.feature));
    rights.map(|right| right.rule(&name)).collect()
}

/// The rules of the features that are `wanted`, for objects of any name.
pub fn rules(wanted: impl Fn(Feature) -> bool) -> Vec<PolicyRule> {
    named_rules(wanted, |_| None)
}

/// The right to collect some resources of a group.
pub fn collected(group: &str, resources: &[&str]) -> PolicyRule {
    rule(group, resources, READ)
}

/// An account of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account<'a> {
    /// Where it lives.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// The one Role that an operator in tenant mode needs in a namespace that it serves, with what is
/// collected there. Where it lives itself, leader election is part of it.
pub fn tenant_role(
    name: &str,
    namespace: &str,
    account: Account<'_>,
    collected: &[PolicyRule],
) -> Role {
    let home = namespace == account.namespace;
    let wanted =
        |feature: Feature| feature.is_of_tenants() && (home || feature.place() != Place::Home);
    let mut all = rules(wanted);
    all.extend_from_slice(collected);
    Role {
        metadata: metadata(name, namespace),
        rules: Some(all),
    }
}

/// What gives the Role of the same name to an account.
pub fn role_binding(name: &str, namespace: &str, account: Account<'_>) -> RoleBinding {
    RoleBinding {
        metadata: metadata(name, namespace),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "Role".to_owned(),
            name: name.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.name.to_owned(),
            namespace: Some(account.namespace.to_owned()),
            ..Subject::default()
        }]),
    }
}

fn metadata(name: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TEAM: Account<'_> = Account {
        namespace: "team-a",
        name: "kollect",
    };

    /// `group/resource:verb` of rules.
    fn flat(rules: &[PolicyRule]) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for rule in rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    all.extend(rule.verbs.iter().map(|v| format!("{group}/{resource}:{v}")));
                }
            }
        }
        all
    }

    fn role(namespace: &str) -> BTreeSet<String> {
        let maps = [collected("", &["configmaps"])];
        flat(
            &tenant_role("kollect", namespace, TEAM, &maps)
                .rules
                .unwrap(),
        )
    }

    #[test]
    fn a_tenant_has_nothing_that_a_role_cannot_grant() {
        let cluster_wide = flat(&rules(|feature| feature.place() == Place::Cluster));
        let tenant = role("team-a");
        assert!(cluster_wide.is_disjoint(&tenant));
        assert!(tenant.iter().all(|right| !right.contains("kollectcluster")));
        assert!(!tenant.contains("/namespaces:list"));
        assert!(!tenant.contains("/secrets:list"), "{tenant:?}");
        for needed in [
            "/secrets:get",
            "/namespaces:get",
            "/events:create",
            "/configmaps:watch",
            "kollect.dev/kollecttargets:watch",
            "kollect.dev/kollecttargets/status:patch",
        ] {
            assert!(tenant.contains(needed), "{needed}");
        }
    }

    #[test]
    fn no_operator_writes_what_users_configure() {
        let all = flat(&rules(|_| true));
        for right in &all {
            assert!(!right.contains('*'), "{right}");
            let foreign = !right.starts_with("kollect.dev/");
            // Certificates of the webhook are one Secret and one configuration, by name.
            let harmless = [
                "/events:",
                "/leases:",
                "reviews:create",
                ":get",
                ":list",
                ":watch",
                "/secrets:",
                "/validatingwebhookconfigurations:update",
            ];
            assert!(
                !foreign || harmless.iter().any(|word| right.contains(word)),
                "{right}"
            );
            assert!(
                !right.contains("scopes:") || right.ends_with("list") || right.ends_with("watch"),
                "{right}"
            );
        }
        assert!(!all.contains("kollect.dev/kollectprofiles:patch"));
    }

    #[test]
    fn the_lease_is_at_home_alone() {
        assert!(role("team-a").contains("coordination.k8s.io/leases:update"));
        let other = role("team-b");
        assert!(other.iter().all(|right| !right.contains("leases")));
        assert!(other.contains("/secrets:get"));
    }

    #[test]
    fn every_feature_has_rights_and_every_right_a_reason() {
        for feature in Feature::ALL {
            assert!(
                RIGHTS.iter().any(|right| right.feature == feature),
                "{feature:?}"
            );
        }
        for right in RIGHTS {
            assert!(
                !right.reason.is_empty() && !right.verbs.is_empty(),
                "{right:?}"
            );
        }
    }
}
