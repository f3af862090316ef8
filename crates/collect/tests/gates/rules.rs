//! Rules, names and labels.

use std::collections::BTreeMap;

use kollect_api::KollectTargetSpec;
use kollect_collect::gates::{
    Decision, NamespaceGate, ObjectView, Selection, SelectionSpec, Sight,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{data, gvk};

#[derive(Deserialize)]
struct Table {
    object: Value,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    spec: Value,
    #[serde(default)]
    namespace: BTreeMap<String, String>,
    skip: Option<String>,
    #[serde(default)]
    failures: u32,
    says: Option<String>,
    refused: Option<String>,
}

/// The selection part of a target's spec; rules without a kind are for Deployments.
fn selection(spec: &Value) -> SelectionSpec {
    let mut spec = spec.clone();
    spec["profileRef"] = "p".into();
    let rules = spec.get_mut("resourceRules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        if rule.get("gvk").is_none() {
            rule["gvk"] = json!(gvk("Deployment"));
        }
    }
    let spec: KollectTargetSpec = serde_json::from_value(spec).expect("a target");
    SelectionSpec {
        rules: spec.resource_rules,
        label_selector: spec.label_selector,
        names: spec.names,
        watch_mode: spec.watch_mode,
    }
}

#[test]
fn vectors() {
    let table: Table = data("rules.yaml");
    let mut numbers = std::collections::BTreeSet::new();
    for vector in &table.vectors {
        let id = &vector.id;
        numbers.extend(id.get(..5).filter(|id| id.starts_with("RR-")));
        let selection = match Selection::compile(selection(&vector.spec), &gvk("Deployment")) {
            Ok(selection) => selection,
            Err(error) => {
                let refused = vector
                    .refused
                    .as_ref()
                    .unwrap_or_else(|| panic!("{id}: {error}"));
                assert!(error.to_string().starts_with(refused), "{id}: {error}");
                continue;
            }
        };
        assert_eq!(vector.refused, None, "{id}");
        let gate = selection.namespace_gate(&vector.namespace, &BTreeMap::new());
        let verdict = selection.decide(&gate, &ObjectView::new(&table.object));
        let skip = match verdict.decision {
            Decision::Collect => None,
            Decision::Skip(reason) => Some(reason.as_str()),
        };
        assert_eq!(skip, vector.skip.as_deref(), "{id}");
        assert_eq!(verdict.policy_failures.count, vector.failures, "{id}");
        if let Some(says) = &vector.says {
            let last = verdict.policy_failures.last.as_deref().unwrap_or_default();
            assert!(last.starts_with(says), "{id}: {last}");
        }
        // What the gates say they read is all they need.
        let projected = selection.reads().project(&table.object);
        assert_eq!(
            selection.decide(&gate, &ObjectView::new(&projected)),
            verdict,
            "{id}"
        );
    }
    assert_eq!(numbers.len(), 15);
}

/// A2: a policy tells a bit about what it reads, so it may not read what attributes may not.
#[test]
fn a2_policies_see_what_a_secret_keeps_only_with_permission() {
    let object = json!({
        "metadata": {"name": "db", "namespace": "n", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "guess",
        }},
        "type": "Opaque",
        "data": {"password": "guess"},
        "spec": {"env": [{"name": "DB_PASSWORD", "value": "guess"}, {"name": "A", "value": "b"}]},
    });
    let takes = |kind: &str, policy: &str, secrets_permitted: bool| {
        let spec = json!({"resourceRules": [{
            "gvk": {"version": "v1", "kind": kind}, "matchPolicy": policy,
        }]});
        let kind = kollect_api::GroupVersionKind::new("", "v1", kind);
        let sight = Sight {
            secrets_permitted,
            ..Sight::default()
        };
        let selection = Selection::compile_with(selection(&spec), &kind, sight).expect(policy);
        let gate = NamespaceGate::CLUSTER_SCOPED;
        let verdict = selection.decide(&gate, &ObjectView::new(&object));
        let projected = selection.reads().project(&object);
        assert_eq!(
            selection.decide(&gate, &ObjectView::new(&projected)),
            verdict
        );
        verdict.collects()
    };
    for policy in [
        "object.data.password == 'guess'",
        "has(object.data)",
        "object.exists(k, k == 'data')",
        "object.map(k, object[k]).exists(v, type(v) == map && 'password' in v)",
    ] {
        assert!(!takes("Secret", policy, false), "{policy}");
        assert!(takes("Secret", policy, true), "{policy}");
        assert!(takes("Other", policy, false), "{policy}");
    }
    assert!(takes("Secret", "object.type == 'Opaque'", false));
    // Permission or not: what was applied and what a name calls a secret is not to be tested.
    for permitted in [false, true] {
        for policy in [
            "object.metadata.annotations.exists(k, object.metadata.annotations[k] == 'guess')",
            "object.spec.env.exists(e, e.value == 'guess')",
            "object.spec.env[0] == {'name': 'DB_PASSWORD', 'value': 'guess'}",
        ] {
            assert!(!takes("Other", policy, permitted), "{policy}");
        }
        assert!(takes(
            "Other",
            "object.spec.env.exists(e, e.value == 'b')",
            permitted
        ));
    }
}
