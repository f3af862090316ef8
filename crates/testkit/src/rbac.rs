//! Roles and access reviews: giving users rights, and asking what they may do.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cluster::{Cluster, User};
use crate::names::unique;
use crate::wait::eventually;

/// Where rights hold.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// In the whole cluster.
    Cluster,
    /// In one namespace.
    Namespace(&'a str),
}

/// What may be done with which resources of one API group.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural resource names.
    pub resources: &'a [&'a str],
    /// Verbs such as `get`, `list` and `watch`.
    pub verbs: &'a [&'a str],
}

/// What an operator needs for its own objects, events and the lease: read, and write what it says
/// about them. Nothing of what it collects, no namespaces, CRDs or Secrets.
pub const OPERATOR: &[Rule<'_>] = &[
    Rule {
        group: "kollect.dev",
        resources: &["*"],
        verbs: &["get", "list", "watch", "patch", "update"],
    },
    Rule {
        group: "kollect.dev",
        resources: &["kollectconnectiontests"],
        verbs: &["delete"],
    },
    Rule {
        group: "",
        resources: &["events"],
        verbs: &["create", "patch"],
    },
    Rule {
        group: "events.k8s.io",
        resources: &["events"],
        verbs: &["create", "patch"],
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["get", "create", "update", "patch"],
    },
];

/// What an operator reads beside its own objects where it may: namespaces and definitions of kinds.
pub const CLUSTER_FACTS: &[Rule<'_>] = &[
    Rule {
        group: "",
        resources: &["namespaces"],
        verbs: &["get", "list", "watch"],
    },
    Rule {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["get", "list", "watch"],
    },
];

/// The right to read something.
pub const fn read<'a>(group: &'a str, resources: &'a [&'a str]) -> Rule<'a> {
    Rule {
        group,
        resources,
        verbs: &["get", "list", "watch"],
    }
}

impl Cluster {
    /// A service account that may do exactly this, everywhere; see [`OPERATOR`] for what a running
    /// operator cannot do without. Rights in single namespaces can be [`grant`](Self::grant)ed to
    /// it in addition.
    pub fn account(&self, namespace: &str, rules: &[&[Rule<'_>]]) -> Result<User> {
        let user = self.create_service_account(namespace, &unique("account"))?;
        self.grant(Scope::Cluster, &user, &rules.concat())?;
        Ok(user)
    }

    /// Gives `user` the rights of `rules` and waits until the API server honours them.
    ///
    /// Rights are served from a cache that follows the stored roles, so a request right after
    /// the binding could still be refused.
    pub fn grant(&self, scope: Scope<'_>, user: &User, rules: &[Rule<'_>]) -> Result<()> {
        let api = self.api(self.admin())?;
        let name = unique("grant");
        let (base, kind, suffix) = match scope {
            Scope::Cluster => (String::new(), "ClusterRole", "cluster"),
            Scope::Namespace(namespace) => (format!("/namespaces/{namespace}"), "Role", ""),
        };
        let base = format!("/apis/rbac.authorization.k8s.io/v1{base}/{suffix}");
        let rules_json: Vec<Value> = rules.iter().map(|rule| rule.to_json()).collect();
        let metadata = json!({ "name": name });
        api.post(
            &format!("{base}roles"),
            &json!({ "metadata": metadata, "rules": rules_json }),
        )?;
        api.post(
            &format!("{base}rolebindings"),
            &json!({
                "metadata": metadata,
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
                "subjects": [
                    // A service account is a user with a long name to the authoriser.
                    { "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name },
                ],
            }),
        )?;
        for rule in rules {
            for (verb, resource) in rule.pairs() {
                eventually("the granted right", || {
                    let allowed = self.allows(scope, user, verb, rule.group, resource)?;
                    ensure!(allowed, "{} may not {verb} {resource} yet", user.name);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Whether `user` may do this, by SubjectAccessReview.
    pub fn allows(
        &self,
        scope: Scope<'_>,
        user: &User,
        verb: &str,
        group: &str,
        resource: &str,
    ) -> Result<bool> {
        let mut attributes = json!({ "verb": verb, "group": group, "resource": resource });
        if let Scope::Namespace(namespace) = scope {
            attributes["namespace"] = json!(namespace);
        }
        let review = json!({ "spec": { "user": user.name, "resourceAttributes": attributes } });
        let answer = self.api(self.admin())?.post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            &review,
        )?;
        Ok(answer["status"]["allowed"] == Value::Bool(true))
    }
}

impl<'a> Rule<'a> {
    fn to_json(self) -> Value {
        json!({ "apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs })
    }

    fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (verbs, resources) = (self.verbs, self.resources);
        verbs
            .iter()
            .flat_map(move |verb| resources.iter().map(move |name| (*verb, *name)))
    }
}
