//! Rules of roles: putting them together, and writing them down.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;

/// Rules that differ in one respect only become one: verbs of the same resources first, then
/// resources of the same verbs.
pub fn merged(rules: impl IntoIterator<Item = PolicyRule>) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for rule in rules {
        let names = rule.resource_names.unwrap_or_default();
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let key = (group.clone(), names.clone(), resource.clone());
                let known = verbs.entry(key).or_default();
                known.extend(rule.verbs.iter().cloned());
                known.sort();
                known.dedup();
            }
        }
    }
    let mut resources: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for ((group, names, resource), verbs) in verbs {
        let same = resources.entry((group, names, verbs)).or_default();
        same.push(resource);
    }
    let rules = resources
        .into_iter()
        .map(|((group, names, verbs), resources)| PolicyRule {
            api_groups: Some(vec![group]),
            resources: Some(resources),
            resource_names: (!names.is_empty()).then_some(names),
            verbs,
            ..PolicyRule::default()
        });
    rules.collect()
}

/// Rules in YAML, each an item of a list; flow style, so that a role is read line by line.
pub fn yaml(rules: &[PolicyRule]) -> String {
    let mut text = String::new();
    for rule in rules {
        let lists = [
            ("apiGroups", rule.api_groups.as_deref()),
            ("resources", rule.resources.as_deref()),
            ("resourceNames", rule.resource_names.as_deref()),
            ("nonResourceURLs", rule.non_resource_urls.as_deref()),
            ("verbs", Some(rule.verbs.as_slice())),
        ];
        let mut dash = "- ";
        for (key, items) in lists {
            let Some(items) = items.filter(|items| !items.is_empty()) else {
                continue;
            };
            let items: Vec<String> = items.iter().map(|item| quote(item)).collect();
            text.push_str(&format!("{dash}{key}: [{}]\n", items.join(", ")));
            dash = "  ";
        }
    }
    text
}

fn quote(text: &str) -> String {
    // Actions of the chart's templates have quotes of their own.
    if text.starts_with("{{") {
        text.to_owned()
    } else {
        format!("\"{text}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::rule;

    fn named(rule: PolicyRule, name: &str) -> PolicyRule {
        PolicyRule {
            resource_names: Some(vec![name.to_owned()]),
            ..rule
        }
    }

    #[test]
    fn what_differs_in_one_respect_becomes_one() {
        let rules = [
            rule("apps", &["b"], &["list"]),
            rule("apps", &["a"], &["list", "get"]),
            rule("apps", &["b"], &["get"]),
            named(rule("", &["a"], &["get"]), "x"),
            rule("", &["a"], &["get"]),
        ];
        let expected = [
            rule("", &["a"], &["get"]),
            named(rule("", &["a"], &["get"]), "x"),
            rule("apps", &["a", "b"], &["get", "list"]),
        ];
        assert_eq!(merged(rules), expected);
    }

    #[test]
    fn yaml_is_read_line_by_line() {
        let rules = [
            named(rule("", &["pods", "services"], &["list"]), "{{ x }}"),
            rule("apps", &["deployments"], &["list", "watch"]),
        ];
        let expected = "\
- apiGroups: [\"\"]
  resources: [\"pods\", \"services\"]
  resourceNames: [{{ x }}]
  verbs: [\"list\"]
- apiGroups: [\"apps\"]
  resources: [\"deployments\"]
  verbs: [\"list\", \"watch\"]
";
        assert_eq!(yaml(&rules), expected);
    }
}
