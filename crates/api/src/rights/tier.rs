//! What people are given who use our kinds: additions to the roles that every cluster has.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::{Feature, OWN, RIGHTS, rule};

/// One of Kubernetes' own roles for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Looks at everything of ours.
    View,
    /// Writes what a team decides about.
    Edit,
    /// Writes the team's ceilings too, and may hand on to an operator what that needs.
    Admin,
}

const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

/// Resources of a feature that are followed: its kinds.
fn kinds(feature: Feature) -> impl Iterator<Item = &'static str> {
    let rights = RIGHTS.iter().filter(move |right| right.feature == feature);
    let read = rights.filter(|right| right.verbs.contains(&"watch"));
    read.flat_map(|right| right.resources).copied()
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::View, Self::Edit, Self::Admin];

    /// The name of the role that this one is added to.
    pub const fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Edit => "edit",
            Self::Admin => "admin",
        }
    }

    /// What is added. Kinds of the whole cluster can be seen by all and are written by whoever
    /// administers the cluster.
    pub fn rules(self) -> Vec<PolicyRule> {
        let ours = |resources: &[&str], verbs: &[&str]| rule(OWN, resources, verbs);
        match self {
            Self::View => {
                let all: Vec<&str> = kinds(Feature::Teams)
                    .chain(kinds(Feature::Platform))
                    .collect();
                vec![ours(&all, &["get", "list", "watch"])]
            }
            Self::Edit => {
                let all = kinds(Feature::Teams).filter(|kind| *kind != "kollectscopes");
                vec![ours(&all.collect::<Vec<_>>(), WRITE)]
            }
            Self::Admin => {
                let rights = RIGHTS
                    .iter()
                    .filter(|right| right.feature == Feature::Teams);
                let all = rights.flat_map(|right| right.resources).copied();
                let statuses: Vec<&str> = all.filter(|name| name.ends_with("/status")).collect();
                vec![
                    ours(&["kollectscopes"], WRITE),
                    // Nobody may grant what they do not hold: without this a team could not let an
                    // operator of its own write statuses.
                    ours(&statuses, &["patch"]),
                ]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(tier: Tier, resource: &str, verb: &str) -> bool {
        tier.rules().iter().any(|rule| {
            let resources = rule.resources.as_deref().unwrap_or_default();
            resources.iter().any(|name| name == resource) && rule.verbs.iter().any(|v| v == verb)
        })
    }

    #[test]
    fn t6_scopes_are_written_by_admins_only() {
        assert!(!has(Tier::View, "kollectscopes", "create"));
        assert!(!has(Tier::Edit, "kollectscopes", "create"));
        assert!(has(Tier::Admin, "kollectscopes", "create"));
        assert!(has(Tier::Edit, "kollecttargets", "create"));
        assert!(has(Tier::View, "kollectscopes", "watch"));
    }

    #[test]
    fn kinds_of_the_cluster_can_be_seen_and_not_written() {
        assert!(has(Tier::View, "kollectclustertargets", "list"));
        for tier in [Tier::Edit, Tier::Admin] {
            for rule in tier.rules() {
                let resources = rule.resources.unwrap_or_default();
                assert!(!resources.iter().any(|name| name.contains("cluster")));
            }
        }
    }

    #[test]
    fn every_kind_of_ours_is_among_those_that_can_be_seen() {
        for crd in crate::crd::all() {
            assert!(has(Tier::View, &crd.spec.names.plural, "get"));
        }
    }
}
