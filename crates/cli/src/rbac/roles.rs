//! Rules as roles and bindings, ready to be applied.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kollect_api::rights::{Named, yaml as rules_yaml};
use kollect_operator::lease;

use super::needs::Needs;

/// The account that an operator runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// How things are called.
#[derive(Debug)]
pub(super) struct Names {
    release: String,
}

impl Names {
    /// As the chart calls them in a release of this name.
    pub(super) fn of_release(release: &str) -> Self {
        Self {
            release: release.to_owned(),
        }
    }

    /// The one object that a rule is about.
    pub(super) fn of(&self, named: Named) -> String {
        match named {
            Named::Lease => lease::NAME.to_owned(),
            Named::WebhookSecret => self.with("webhook-cert"),
            Named::WebhookConfiguration => self.with("validating-webhook-configuration"),
        }
    }

    fn with(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.release)
    }
}

/// Roles, and bindings to the account if there is one.
pub(super) fn yaml(needs: &Needs, names: &Names, account: Option<&Account>) -> String {
    let mut text = String::new();
    let mut add = |suffix: &str, namespace: Option<&str>, rules: &[PolicyRule]| {
        if !rules.is_empty() {
            text.push_str(&role(&names.with(suffix), namespace, rules, account));
        }
    };
    add("manager", None, &needs.cluster);
    for (namespace, rules) in &needs.namespaced {
        add("manager", Some(namespace), rules);
    }
    add("leader-election", Some(&needs.home.0), &needs.home.1);
    add("collect", None, &needs.collected);
    for (namespace, rules) in &needs.collected_in {
        add("collect", Some(namespace), rules);
    }
    text
}

fn role(
    name: &str,
    namespace: Option<&str>,
    rules: &[PolicyRule],
    account: Option<&Account>,
) -> String {
    let kind = if namespace.is_some() {
        "Role"
    } else {
        "ClusterRole"
    };
    let head = |kind: &str| {
        let place = match namespace {
            Some(namespace) => format!("  namespace: {namespace}\n"),
            None => String::new(),
        };
        format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{place}"
        )
    };
    let mut text = format!("{}rules:\n{}", head(kind), rules_yaml(rules));
    if let Some(account) = account {
        text.push_str(&head(&format!("{kind}Binding")));
        text.push_str(&format!(
            "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name}\n\
             subjects:\n- kind: ServiceAccount\n  name: {}\n  namespace: {}\n",
            account.name, account.namespace
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use kollect_api::rights::collected;
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_role_has_its_binding() {
        let mut needs = Needs {
            collected: vec![collected("", &["nodes"])],
            ..Needs::default()
        };
        needs.collected_in.insert(
            "team-a".to_owned(),
            vec![collected("apps", &["deployments"])],
        );
        let account = Account {
            namespace: "home".to_owned(),
            name: "kollect".to_owned(),
        };
        let text = yaml(&needs, &Names::of_release("kollect"), Some(&account));
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        let told: Vec<String> = documents
            .iter()
            .map(|one| {
                let text = |pointer: &str| {
                    let value = one.pointer(pointer).and_then(Value::as_str);
                    value.unwrap_or("-").to_owned()
                };
                format!(
                    "{} {} {}",
                    text("/kind"),
                    text("/metadata/namespace"),
                    text("/roleRef/name")
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "ClusterRole - -",
                "ClusterRoleBinding - kollect-collect",
                "Role team-a -",
                "RoleBinding team-a kollect-collect",
            ]
        );
        let roles = yaml(&needs, &Names::of_release("kollect"), None);
        assert!(!roles.contains("Binding"), "{roles}");
    }
}
