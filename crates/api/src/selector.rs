//! Label selectors: the standard Kubernetes shape, its validity rules and its matching.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects by labels; all entries must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels that must be present with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions on labels, all of which must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelRequirement {
    /// Label key the condition is about.
    pub key: String,
    /// How the label is compared: `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values for `In` and `NotIn`; empty for the other operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// Why a requirement means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// The operator is not one of the four.
    #[error("operator must be In, NotIn, Exists or DoesNotExist")]
    UnknownOperator,
    /// `In` or `NotIn` without values can match nothing or everything; neither is meant.
    #[error("values are required for In and NotIn")]
    ValuesMissing,
    /// `Exists` and `DoesNotExist` take no values.
    #[error("values must be empty for Exists and DoesNotExist")]
    ValuesGiven,
    /// The key is not a label key.
    #[error("must be a label key such as team or example.com/team")]
    BadKey,
    /// A value is not a label value.
    #[error(
        "must be a label value: at most 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit"
    )]
    BadValue,
}

impl LabelSelector {
    /// Whether the selector has no entry at all, which selects everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether labels satisfy the selector. A requirement that is not valid matches nothing.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.matches(labels))
    }
}

impl LabelRequirement {
    /// Whether labels satisfy this one condition.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        if self.check().is_err() {
            return false;
        }
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    }

    /// The standard rules for a requirement.
    pub fn check(&self) -> Result<(), RequirementError> {
        if !is_label_key(&self.key) {
            return Err(RequirementError::BadKey);
        }
        match (self.operator.as_str(), self.values.is_empty()) {
            ("In" | "NotIn", true) => return Err(RequirementError::ValuesMissing),
            ("Exists" | "DoesNotExist", false) => return Err(RequirementError::ValuesGiven),
            ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => {}
            _ => return Err(RequirementError::UnknownOperator),
        }
        if self.values.iter().all(|value| is_label_value(value)) {
            Ok(())
        } else {
            Err(RequirementError::BadValue)
        }
    }
}

/// Whether text is a qualified label key: `name` or `dns.prefix/name`.
pub fn is_label_key(key: &str) -> bool {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if !crate::names::is_dns_subdomain(prefix) {
                return false;
            }
            name
        }
        None => key,
    };
    !name.is_empty() && is_label_value(name)
}

/// Whether text is a label value; the empty text is one.
pub fn is_label_value(value: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric();
    value.is_empty()
        || value.len() <= 63
            && value
                .bytes()
                .all(|byte| word(byte) || matches!(byte, b'-' | b'_' | b'.'))
            && value.bytes().next().is_some_and(word)
            && value.bytes().next_back().is_some_and(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(operator: &str, values: &[&str]) -> LabelRequirement {
        LabelRequirement {
            key: "team".to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        }
    }

    #[test]
    fn operators_mean_what_kubernetes_means() {
        let labelled = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let bare = BTreeMap::new();
        for (operator, values, on_labelled, on_bare) in [
            ("In", &["a", "b"][..], true, false),
            ("In", &["b"], false, false),
            ("NotIn", &["a"], false, true),
            ("NotIn", &["b"], true, true),
            ("Exists", &[], true, false),
            ("DoesNotExist", &[], false, true),
            ("Equals", &["a"], false, false),
            ("In", &[], false, false),
        ] {
            let requirement = requirement(operator, values);
            assert_eq!(
                requirement.matches(&labelled),
                on_labelled,
                "{operator} {values:?}"
            );
            assert_eq!(requirement.matches(&bare), on_bare, "{operator} {values:?}");
        }
    }

    #[test]
    fn invalid_requirements_are_named() {
        assert_eq!(
            requirement("In", &[]).check(),
            Err(RequirementError::ValuesMissing)
        );
        assert_eq!(
            requirement("Exists", &["a"]).check(),
            Err(RequirementError::ValuesGiven)
        );
        assert_eq!(
            requirement("in", &["a"]).check(),
            Err(RequirementError::UnknownOperator)
        );
        assert_eq!(
            requirement("In", &["a b"]).check(),
            Err(RequirementError::BadValue)
        );
    }
}
