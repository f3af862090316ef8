//! What is not known of targets, or not any more, and what a rollup makes of names that lead nowhere.

use super::*;

fn told(name: &str, why: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), why.to_owned())]
}

#[test]
fn d11_what_may_not_be_read_any_more_is_exported_as_it_was_and_told() {
    let held = || Held {
        stale: told("maps", "RBAC denied"),
        others: true,
        ..Held::default()
    };
    for subject in [
        inventory(json!({})),
        rollup("2026-01-15T11:50:00Z", json!({})),
    ] {
        let world = Small {
            held: held(),
            ..Small::default()
        };
        let plan = world.target("alpha", true).plan(&subject);
        assert_eq!(gate(&plan), None);
        assert!(plan.order.open);
        let doubt = plan.doubt.expect("a doubt");
        assert_eq!(doubt.reason, Reason::TargetDegraded);
        assert_eq!(
            doubt.message,
            "1 target(s) cannot be read, what was read before stays: [maps: RBAC denied]"
        );
    }
}

#[test]
fn d11_a_rollup_tells_which_namespaces_are_held() {
    let world = Small {
        held: Held {
            targets: told("alpha", "RBAC denied"),
            ..Held::default()
        },
        ..Small::default()
    };
    let rollup = rollup("2026-01-15T11:50:00Z", json!({}));
    let plan = world.target("alpha", true).plan(&rollup);
    assert!(plan.order.open, "what can be read is exported");
    let doubt = plan.doubt.expect("a doubt");
    assert!(doubt.message.contains("alpha: RBAC denied"), "{doubt:?}");
}

#[test]
fn a_name_that_leads_nowhere_empties_nothing() {
    let old = "2026-01-15T11:50:00Z";
    for (refs, expected) in [
        (
            json!(["gamma"]),
            "KollectClusterTarget \"gamma\" of spec.targetRefs does not exist",
        ),
        (
            json!(["alpha", "gamma"]),
            "KollectClusterTarget \"gamma\" of spec.targetRefs does not exist",
        ),
        (
            json!(["gamma", "delta"]),
            "KollectClusterTarget \"delta\" and 1 more of spec.targetRefs do not exist",
        ),
        (json!([" "]), "spec.targetRefs names no target"),
    ] {
        let world = || Small::default().target("alpha", true);
        let plan = world().plan(&rollup(old, json!({"targetRefs": refs})));
        let (reason, message) = gate(&plan).expect("a gate");
        assert_eq!(reason, Reason::NoTargets);
        assert!(message.starts_with(expected), "{message}");
        assert!(message.ends_with("rows stay as they are"), "{message}");
        assert!(!plan.order.open);
        // Objects of one manifest arrive one after the other.
        let young = rollup("2026-01-15T11:58:00Z", json!({"targetRefs": refs}));
        let plan = world().plan(&young);
        assert!(plan.undecided && plan.gate.is_none() && !plan.order.open);
    }
    // Its target is there: the rows are known.
    let plan = Small::default()
        .target("alpha", true)
        .plan(&rollup(old, json!({"targetRefs": ["alpha"]})));
    assert_eq!(gate(&plan), None);
    assert!(plan.order.open);
}
