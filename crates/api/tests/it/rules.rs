//! The rule library against the vectors, without a cluster.

use crate::vectors::{self, RefusedBy, Vector};
use kollect_api::rules::{
    self, Denial, Object, Settings, Surroundings, Verdict, review, review_update,
};
use serde_json::json;

fn verdict(vector: &Vector) -> Verdict {
    let object = Object::from_value(vector.manifest("team-a"))
        .unwrap_or_else(|error| panic!("{}: {error}", vector.id));
    let settings = Settings {
        deny_cluster_kinds: vector.context.as_deref() == Some("tenant"),
        ..Settings::default()
    };
    let world = vectors::context(vector.context.as_deref());
    review(&object, &settings, &vectors::surroundings(&world, &object))
}

#[test]
fn what_the_schema_cannot_refuse_the_rules_refuse() {
    let mut seen = 0;
    for vector in vectors::refused() {
        let Some(RefusedBy::Rules) = vector.refused_by else {
            continue;
        };
        seen += 1;
        let expected = vector
            .says
            .as_deref()
            .expect("a refusal by rules says something");
        match verdict(&vector) {
            Verdict::Denied(denial) => assert!(
                denial.to_string().contains(expected),
                "{} ({}): {denial} does not say {expected}",
                vector.id,
                vector.rule
            ),
            Verdict::Allowed { .. } => panic!("{} ({}) is allowed", vector.id, vector.rule),
        }
    }
    assert!(seen > 50, "only {seen} vectors");
}

#[test]
fn what_must_be_accepted_is_accepted_with_its_warning() {
    let tolerated = vectors::refused()
        .into_iter()
        .filter(|vector| vector.refused_by == Some(RefusedBy::Nobody))
        .inspect(|vector| assert!(!vector.because.is_empty(), "{} needs a reason", vector.id));
    for vector in vectors::edge().into_iter().chain(tolerated) {
        match verdict(&vector) {
            Verdict::Allowed { warnings } => match &vector.warns {
                Some(expected) => assert!(
                    warnings.iter().any(|warning| warning.contains(expected)),
                    "{}: {warnings:?} does not warn of {expected}",
                    vector.id
                ),
                None => {
                    let endpoint = "spec.endpoint is not set";
                    let rest: Vec<_> = warnings
                        .iter()
                        .filter(|text| !text.contains(endpoint))
                        .collect();
                    assert!(rest.is_empty(), "{}: {rest:?}", vector.id);
                }
            },
            Verdict::Denied(denial) => panic!("{}: {denial}", vector.id),
        }
    }
}

#[test]
fn the_manifests_of_the_contract_are_accepted() {
    for manifest in vectors::accepted() {
        let object = Object::from_value(manifest).expect("one of our kinds");
        let verdict = review(&object, &Settings::default(), &Surroundings::default());
        assert!(
            matches!(verdict, Verdict::Allowed { .. }),
            "{} {}: {verdict:?}",
            object.kind(),
            object.name()
        );
    }
}

#[test]
fn all_violations_are_reported_in_one_message() {
    let object = Object::from_value(json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": "KollectProfile",
        "metadata": {"name": "p", "namespace": "team-a"},
        "spec": {
            "targetGVK": {"version": "", "kind": "Pod"},
            "attributes": [
                {"name": "a", "path": "$.a"},
                {"name": "a", "path": "$.b"},
                {"name": "c", "path": "cel:1 +"},
            ],
            "metrics": [{"name": "m", "path": "a", "labels": ["a", "a", "a", "a", "a", "a"]}],
        },
    }))
    .unwrap();
    let Verdict::Denied(denial) = review(&object, &Settings::default(), &Surroundings::default())
    else {
        panic!("allowed");
    };
    let message = denial.to_string();
    for part in [
        "KollectProfile \"p\" is invalid: ",
        "spec.targetGVK.version: Required value: ",
        "spec.attributes[1].name: Duplicate value: \"a\"",
        "spec.attributes[2].path: Invalid value: \"cel:1 +\": compile CEL: ",
        "spec.metrics[0].labels: Too many: 6: must have at most 5 items",
    ] {
        assert!(message.contains(part), "{message}\ndoes not contain {part}");
    }
    assert!(!message.contains('\n'));
}

#[test]
fn deletion_and_unrelated_updates_are_never_blocked() {
    let manifest = |labels: &str, deleting: bool, branch: &str| {
        let mut metadata = json!({"name": "x", "namespace": "team-a", "labels": {"a": labels}});
        if deleting {
            metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        }
        Object::from_value(json!({
            "apiVersion": "kollect.dev/v1alpha1",
            "kind": "KollectSnapshotSink",
            "metadata": metadata,
            "spec": {"type": "git", "git": {"branch": branch}},
        }))
        .unwrap()
    };
    let (settings, around) = (Settings::default(), Surroundings::default());
    let old = manifest("1", false, "-bad");
    assert!(matches!(
        review(&old, &settings, &around),
        Verdict::Denied(_)
    ));
    assert!(matches!(
        review(&manifest("1", true, "-bad"), &settings, &around),
        Verdict::Allowed { .. }
    ));

    let relabelled = manifest("2", false, "-bad");
    let Verdict::Allowed { warnings } = review_update(&old, &relabelled, &settings, &around) else {
        panic!("a label could not be changed");
    };
    assert!(warnings[0].contains("spec.git.branch"), "{warnings:?}");

    let changed = manifest("1", false, "-worse");
    assert!(matches!(
        review_update(&old, &changed, &settings, &around),
        Verdict::Denied(Denial::Invalid { .. })
    ));
}

#[test]
fn a_security_annotation_counts_as_a_change() {
    let profile = |allow: &str| {
        Object::from_value(json!({
            "apiVersion": "kollect.dev/v1alpha1",
            "kind": "KollectProfile",
            "metadata": {
                "name": "x", "namespace": "team-a",
                "annotations": {"kollect.dev/allow-secret-extraction": allow},
            },
            "spec": {
                "targetGVK": {"version": "v1", "kind": "Secret"},
                "attributes": [{"name": "a", "path": "$.data.token"}],
            },
        }))
        .unwrap()
    };
    let (settings, around) = (Settings::default(), Surroundings::default());
    assert!(matches!(
        review_update(&profile("true"), &profile("false"), &settings, &around),
        Verdict::Denied(_)
    ));
}

#[test]
fn secrets_of_other_namespaces_need_the_operators_consent() {
    let sink = Object::from_value(json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": "KollectDatabaseSink",
        "metadata": {"name": "x", "namespace": "team-a"},
        "spec": {
            "type": "postgres",
            "postgres": {"databaseRef": {"name": "pg", "namespace": "shared"}, "table": "t"},
        },
    }))
    .unwrap();
    assert!(!rules::check(&sink, &Settings::default()).is_clean());
    let open = Settings {
        secret_namespaces: vec!["shared".to_owned()],
        ..Settings::default()
    };
    assert!(rules::check(&sink, &open).is_clean());
}

#[test]
fn unknown_kinds_and_shapes_are_named() {
    let unknown = Object::from_value(json!({"apiVersion": "v1", "kind": "Pod"})).unwrap_err();
    assert!(unknown.to_string().contains("\"Pod\""), "{unknown}");
    let malformed = Object::from_value(json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
        "metadata": {"name": "t"}, "spec": {"profileRef": 3},
    }))
    .unwrap_err();
    assert!(
        malformed.to_string().contains("KollectTarget \"t\""),
        "{malformed}"
    );
}

fn denial(object: &Object, surroundings: &Surroundings) -> Option<String> {
    match review(object, &Settings::default(), surroundings) {
        Verdict::Denied(denial) => Some(denial.to_string()),
        Verdict::Allowed { .. } => None,
    }
}

fn object(kind: &str, annotations: &serde_json::Value, spec: &serde_json::Value) -> Object {
    Object::from_value(json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "team-a", "annotations": annotations},
        "spec": spec,
    }))
    .expect("one of our kinds")
}

/// A2: no expression about Secrets reads what they keep without permission.
#[test]
fn a2_policies_and_rules_that_remove_need_the_permission_too() {
    let secret = json!({"version": "v1", "kind": "Secret"});
    let whole = "kollect.dev/allow-full-resource-export";
    let extraction = "kollect.dev/allow-secret-extraction";
    let pruning = json!({"targetGVK": secret, "export": {"mode": "Resource", "prune": {
        "cel": ["object.data.k == 'x' ? ['/metadata/labels'] : []"],
    }}});
    let none = Surroundings::default();
    let refused = denial(
        &object("KollectProfile", &json!({whole: "true"}), &pruning),
        &none,
    );
    let refused = refused.expect("refused");
    assert!(refused.contains("spec.export.prune.cel[0]"), "{refused}");
    assert!(refused.contains(extraction), "{refused}");
    let permitted = json!({whole: "true", extraction: "true"});
    assert_eq!(
        denial(&object("KollectProfile", &permitted, &pruning), &none),
        None
    );

    let target = object(
        "KollectTarget",
        &json!({}),
        &json!({"profileRef": "p", "resourceRules": [
            {"gvk": secret, "matchPolicy": "object.type == 'Opaque'"},
            {"gvk": secret, "matchPolicy": "object.data.password == 'x'"},
        ]}),
    );
    let with_profile = |annotations: serde_json::Value| {
        let spec = json!({"targetGVK": secret, "attributes": [{"name": "a", "path": "$.type"}]});
        match object("KollectProfile", &annotations, &spec) {
            Object::Profile(profile) => Surroundings {
                profile: Some(profile),
                ..Surroundings::default()
            },
            _ => unreachable!("a profile"),
        }
    };
    let refused = denial(&target, &with_profile(json!({}))).expect("refused");
    assert!(
        refused.contains("spec.resourceRules[1].matchPolicy"),
        "{refused}"
    );
    assert!(!refused.contains("resourceRules[0]"), "{refused}");
    assert_eq!(
        denial(&target, &with_profile(json!({extraction: "true"}))),
        None
    );
}

/// A3: what a profile holds is bounded as a whole.
#[test]
fn a3_profiles_and_targets_are_bounded() {
    let kind = json!({"version": "v1", "kind": "ConfigMap"});
    let profile = |count: usize, path: fn(usize) -> String| {
        let attribute = |at| json!({"name": format!("a{at}"), "path": path(at)});
        let attributes: Vec<_> = (0..count).map(attribute).collect();
        let spec = json!({"targetGVK": kind, "attributes": attributes});
        denial(
            &object("KollectProfile", &json!({}), &spec),
            &Surroundings::default(),
        )
    };
    let plain = |at: usize| format!("$.data.k{at}");
    let pattern = |at: usize| {
        format!(
            "cel:object.metadata.name.matches('^(a{{{}}}|b)*$')",
            500 + at
        )
    };
    assert_eq!(profile(256, plain), None);
    let refused = profile(257, plain).expect("refused");
    assert!(
        refused.contains("spec.attributes") && refused.contains("256"),
        "{refused}"
    );
    let refused = profile(256, pattern).expect("refused");
    assert!(refused.contains("simpler regular expressions"), "{refused}");
    assert!(refused.len() < 2000, "one finding is enough: {refused}");

    let rule = json!({"gvk": kind});
    let spec = json!({"profileRef": "p", "resourceRules": vec![rule; 257]});
    let refused = denial(
        &object("KollectTarget", &json!({}), &spec),
        &Surroundings::default(),
    );
    assert!(refused.expect("refused").contains("spec.resourceRules"));
}

fn target(included: &[&str]) -> Object {
    Object::from_value(json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": "KollectTarget",
        "metadata": {"name": "x", "namespace": "team-a"},
        "spec": {"profileRef": "p", "includedNamespaces": included},
    }))
    .unwrap()
}

#[test]
fn where_scopes_are_demanded_a_namespace_without_one_has_itself() {
    let demanding = Settings {
        require_scope: true,
        ..Settings::default()
    };
    let none = Surroundings::default();
    let scope = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectScope",
        "metadata": {"name": "s", "namespace": "team-a"}, "spec": {},
    });
    let scoped = Surroundings {
        scopes: vec![serde_json::from_value(scope).unwrap()],
        ..Surroundings::default()
    };
    for (included, around, refused) in [
        (&["team-a"][..], &none, false),
        (&[], &none, false),
        (&["team-a", "team-b"], &none, true),
        (&["team-a", "team-b"], &scoped, false),
    ] {
        let verdict = review(&target(included), &demanding, around);
        match &verdict {
            Verdict::Denied(denial) => {
                assert!(refused, "{included:?}: {denial}");
                let text = denial.to_string();
                assert!(
                    text.contains("have a KollectScope created in \"team-a\""),
                    "{text}"
                );
            }
            Verdict::Allowed { .. } => assert!(!refused, "{included:?}"),
        }
        let lenient = review(&target(included), &Settings::default(), around);
        assert!(matches!(lenient, Verdict::Allowed { .. }), "{included:?}");
    }
}

#[test]
fn a_namespace_can_allow_its_secrets_to_be_collected_and_the_old_rule_can_be_had() {
    let object = target(&["team-c"]);
    let profile = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
        "metadata": {
            "name": "p", "namespace": "team-a",
            "annotations": {"kollect.dev/allow-full-resource-export": "true"},
        },
        "spec": {"targetGVK": {"version": "v1", "kind": "Secret"}, "export": {"mode": "Resource"}},
    });
    let around = |said: &str| Surroundings {
        profile: serde_json::from_value(profile.clone()).unwrap(),
        namespaces: [(
            "team-c".to_owned(),
            [(
                "kollect.dev/allow-sensitive-collection-by".to_owned(),
                said.to_owned(),
            )]
            .into(),
        )]
        .into(),
        ..Surroundings::default()
    };
    let annotation = Settings {
        secret_extraction: rules::SecretExtraction::Annotation,
        ..Settings::default()
    };
    for (said, settings, warned) in [
        ("", Settings::default(), true),
        ("team-b,team-ab", Settings::default(), true),
        ("*", Settings::default(), true),
        ("team-b, team-a", Settings::default(), false),
        ("", annotation, false),
    ] {
        let Verdict::Allowed { warnings } = review(&object, &settings, &around(said)) else {
            panic!("{said:?} is refused");
        };
        assert_eq!(!warnings.is_empty(), warned, "{said:?}: {warnings:?}");
    }
}
