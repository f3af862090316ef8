//! What expressions do not get to see.
//!
//! Redaction works on what is written, where every value still stands beside its key. An
//! expression can take a value away from there: `$.spec.env[0].value` is text that nothing tells
//! of being a password, and a condition need not show a value to tell what it is. So everything
//! that an expression could take apart is hidden before it looks:
//!
//! * what a Secret keeps, unless the profile may read it;
//! * the `value` beside a `name` that is sensitive, as in the environment of a container;
//! * the annotations in which tools keep the object as it was applied.
//!
//! Whether an expression can see any of that is known when it is compiled. Most cannot, and get
//! the object as it is.

use kollect_expr::cel::Program;
use kollect_expr::jsonpath::Path;
use kollect_expr::{AttributePath, ReadSet};
use serde_json::{Value, json};

use crate::redact::{ScrubKeys, is_pair_secret};

/// The members of a Secret that hold what it keeps.
pub(crate) const DATA: [&str; 2] = ["data", "stringData"];

/// The member of the data that holds a Helm release, chart sources and rendered Secrets included.
pub(crate) const HELM_RELEASE: &str = "release";

/// Annotations in which tools keep the object as it was applied: with every value that is hidden
/// where it stands.
pub(crate) const APPLIED: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "kapp.k14s.io/original",
    "objectset.rio.cattle.io/applied",
];

/// Members that mean something else, or nothing, without the map they are in.
const TELLING: [&str; 4] = ["value", APPLIED[0], APPLIED[1], APPLIED[2]];

/// What stands for hidden text where an expression expects text.
const PLACEHOLDER: &str = "[redacted]";

/// What becomes of what a Secret keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretData {
    /// It may be seen, or the object is no Secret.
    Shown,
    /// The object looks as if it kept nothing.
    Gone,
    /// Only the keys are there.
    Keys,
}

/// What stands in place of a hidden value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandIn {
    /// What is written in place of it.
    Mark,
    /// Text for text, so that an expression that works with it goes on working.
    Text,
}

/// How an expression is kept from what it must not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guard {
    /// It could see something hidden, and has to be given a guarded object.
    pub(crate) needed: bool,
    /// Among that are members that only their neighbours tell about.
    neighbours: bool,
}

impl Guard {
    /// Nothing to keep from an expression.
    pub(crate) const NONE: Guard = Guard {
        needed: false,
        neighbours: false,
    };

    /// The guard of an attribute. Fields of Helm releases have one of their own.
    pub(crate) fn of_attribute(path: &AttributePath, hides_data: bool) -> Self {
        match path {
            AttributePath::Cel(program) => Self::of_program(program, hides_data),
            AttributePath::JsonPath(path) => Self::of_path(path, hides_data),
            AttributePath::Helm(_) => Guard::NONE,
        }
    }

    /// The guard of a CEL expression.
    pub(crate) fn of_program(program: &Program, hides_data: bool) -> Self {
        Self::new(program.takes_out(&TELLING), program.reads(), hides_data)
    }

    /// The guard of a JSONPath.
    pub(crate) fn of_path(path: &Path, hides_data: bool) -> Self {
        Self::new(path.takes_out(&TELLING), path.reads(), hides_data)
    }

    fn new(neighbours: bool, reads: &ReadSet, hides_data: bool) -> Self {
        let sees_data = || DATA.iter().any(|name| reads.may_read_root_member(name));
        Guard {
            needed: neighbours || (hides_data && sees_data()),
            neighbours,
        }
    }

    /// Adds what an expression with this guard reads, and what is needed to guard it.
    pub(crate) fn add_reads(self, reads: &ReadSet, all: &mut ReadSet) {
        if self.neighbours {
            let mut both = reads.clone();
            both.add_sibling("value", "name");
            all.merge(&both);
        } else {
            all.merge(reads);
        }
    }
}

/// A copy of the object without what must not be seen; nothing if it holds nothing of the kind.
pub(crate) fn guarded(
    object: &Value,
    keys: &ScrubKeys,
    data: SecretData,
    stand_in: StandIn,
) -> Option<Value> {
    let keeps = data != SecretData::Shown && DATA.iter().any(|name| object.get(name).is_some());
    if !keeps && !tells(object, keys) {
        return None;
    }
    let mut copy = object.clone();
    if keeps && let Value::Object(members) = &mut copy {
        for name in DATA {
            match (data, members.get_mut(name)) {
                (SecretData::Keys, Some(Value::Object(kept))) => {
                    kept.values_mut().for_each(|value| *value = Value::Null);
                }
                (SecretData::Keys, Some(other)) => *other = Value::Null,
                (SecretData::Gone, Some(_)) => {
                    members.remove(name);
                }
                _ => {}
            }
        }
    }
    hide(&mut copy, keys, stand_in);
    Some(copy)
}

/// Whether a key names an annotation that holds the object as it was applied.
pub(crate) fn is_applied(key: &str) -> bool {
    APPLIED.contains(&key)
}

/// Whether there is something to hide in a value.
fn tells(value: &Value, keys: &ScrubKeys) -> bool {
    match value {
        Value::Object(members) => {
            let name = || members.get("name").and_then(Value::as_str);
            members.iter().any(|(key, value)| {
                is_applied(key) || is_pair_secret(key, value, name, keys) || tells(value, keys)
            })
        }
        Value::Array(items) => items.iter().any(|item| tells(item, keys)),
        _ => false,
    }
}

fn hide(value: &mut Value, keys: &ScrubKeys, stand_in: StandIn) {
    match value {
        Value::Object(members) => {
            for key in APPLIED {
                members.remove(key);
            }
            let name = || members.get("name").and_then(Value::as_str);
            let secret = members
                .get("value")
                .is_some_and(|value| is_pair_secret("value", value, name, keys));
            if secret && let Some(value) = members.get_mut("value") {
                *value = match (stand_in, &*value) {
                    (StandIn::Text, Value::String(_)) => PLACEHOLDER.into(),
                    _ => json!({"redacted": true, "reason": "sensitive-key"}),
                };
            }
            members
                .values_mut()
                .for_each(|value| hide(value, keys, stand_in));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, keys, stand_in)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(path: &str) -> Guard {
        Guard::of_attribute(&AttributePath::parse(path).expect(path), true)
    }

    #[test]
    fn expressions_that_cannot_take_anything_apart_need_no_guard() {
        for path in [
            "$.metadata.name",
            "$.metadata",
            "$.metadata.annotations",
            "$.spec.containers[*].image",
            "$.spec.containers[*].env",
            "$.spec.containers[?(@.name==\"app\")].env",
            "cel:object.spec.containers.map(c, c.env)",
            "cel:object.spec",
            "cel:size(object.spec.containers)",
            "cel:object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
            "cel:has(object.spec.strategy) ? object.spec.strategy.type : 'x'",
        ] {
            assert!(!guard(path).needed, "{path}");
        }
        for path in [
            "$.spec.env[0].value",
            "$.spec.env[*].*",
            "$..value",
            "$..password",
            "$.spec.env[?(@.value==\"x\")].name",
            "$.metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
            "$.data",
            "cel:object",
            "cel:object.data.a",
            "cel:object.spec.env[0].value",
            "cel:object.spec.env.exists(e, e.value == 'x')",
            "cel:object.spec.env == []",
            "cel:object.metadata.annotations.map(k, object.metadata.annotations[k])",
            "cel:object.spec.env[0].transformList(k, v, v)",
        ] {
            assert!(guard(path).needed, "{path}");
        }
    }

    #[test]
    fn only_what_must_not_be_seen_goes() {
        let keys = ScrubKeys::default();
        let plain = json!({"spec": {"env": [{"name": "A", "value": "x"}]}, "data": {"k": "v"}});
        assert_eq!(
            guarded(&plain, &keys, SecretData::Shown, StandIn::Mark),
            None
        );
        let object = json!({
            "metadata": {"annotations": {APPLIED[0]: "x", "a": "b"}},
            "spec": {"env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "A", "value": "b"}]},
            "data": {"k": "v"},
        });
        let marked = guarded(&object, &keys, SecretData::Gone, StandIn::Mark).expect("guarded");
        assert_eq!(
            marked,
            json!({
                "metadata": {"annotations": {"a": "b"}},
                "spec": {"env": [
                    {"name": "DB_PASSWORD", "value": {"redacted": true, "reason": "sensitive-key"}},
                    {"name": "A", "value": "b"},
                ]},
            })
        );
        let text = guarded(&object, &keys, SecretData::Keys, StandIn::Text).expect("guarded");
        assert_eq!(text["spec"]["env"][0]["value"], PLACEHOLDER);
        assert_eq!(text["data"], json!({"k": null}));
    }
}
