//! Label selectors, compiled.
//!
//! The meaning is that of [`LabelSelector::matches`]; what is different is that validity is
//! checked once, and that labels are read where they are instead of being copied into a map for
//! every object.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kollect_api::selector::{
    LabelRequirement, LabelSelector, RequirementError, is_label_key, is_label_value,
};

/// Something that has labels.
pub trait Labels {
    /// The value of one label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// A selector that means nothing. It must select nothing and must be shown, never be ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SelectorError {
    /// Where in the selector, for example `matchExpressions[0]`.
    pub place: Box<str>,
    /// What is wrong there.
    #[source]
    pub problem: RequirementError,
}

/// A label selector, ready to be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Box<[Requirement]>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    Is(Box<str>),
    In(Box<[Box<str>]>),
    NotIn(Box<[Box<str>]>),
    Exists,
    Absent,
}

impl Selector {
    /// Compiles a selector; all its requirements must be valid.
    pub fn compile(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            let refuse = |problem| SelectorError {
                place: format!("matchLabels[{key:?}]").into(),
                problem,
            };
            if !is_label_key(key) {
                return Err(refuse(RequirementError::BadKey));
            }
            if !is_label_value(value) {
                return Err(refuse(RequirementError::BadValue));
            }
            requirements.push(Requirement {
                key: key.as_str().into(),
                test: Test::Is(value.as_str().into()),
            });
        }
        for (index, requirement) in selector.match_expressions.iter().enumerate() {
            requirement.check().map_err(|problem| SelectorError {
                place: format!("matchExpressions[{index}]").into(),
                problem,
            })?;
            requirements.push(Requirement::of(requirement));
        }
        // One order and no repetition, so that equal meanings compare as equal more often.
        requirements.sort();
        requirements.dedup();
        Ok(Selector(requirements.into()))
    }

    /// Compiles a selector that may be absent, which selects everything.
    pub fn compile_optional(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        selector.map_or_else(|| Ok(Selector::default()), Selector::compile)
    }

    /// Whether the labels satisfy all requirements.
    pub fn matches(&self, labels: &impl Labels) -> bool {
        self.0
            .iter()
            .all(|requirement| requirement.test.holds(labels.label(&requirement.key)))
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The labels that are looked at.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| &*requirement.key)
    }

    /// The selector as the API server takes it in `labelSelector=`, before escaping.
    pub fn query(&self) -> String {
        let mut query = String::new();
        for Requirement { key, test } in &self.0 {
            if !query.is_empty() {
                query.push(',');
            }
            let written = match test {
                Test::Is(value) => write!(query, "{key}={value}"),
                Test::In(values) => write!(query, "{key} in ({})", values.join(",")),
                Test::NotIn(values) => write!(query, "{key} notin ({})", values.join(",")),
                Test::Exists => write!(query, "{key}"),
                Test::Absent => write!(query, "!{key}"),
            };
            written.expect("writing to a String does not fail");
        }
        query
    }
}

impl Requirement {
    fn of(requirement: &LabelRequirement) -> Self {
        let values = || {
            let mut values: Vec<Box<str>> = requirement
                .values
                .iter()
                .map(|value| value.as_str().into())
                .collect();
            values.sort();
            values.dedup();
            values.into_boxed_slice()
        };
        Requirement {
            key: requirement.key.as_str().into(),
            test: match requirement.operator.as_str() {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                _ => Test::Absent,
            },
        }
    }
}

impl Test {
    fn holds(&self, label: Option<&str>) -> bool {
        let among = |values: &[Box<str>], label: &str| values.iter().any(|value| **value == *label);
        match self {
            Test::Is(value) => label == Some(&**value),
            Test::In(values) => label.is_some_and(|label| among(values, label)),
            Test::NotIn(values) => label.is_none_or(|label| !among(values, label)),
            Test::Exists => label.is_some(),
            Test::Absent => label.is_none(),
        }
    }
}
