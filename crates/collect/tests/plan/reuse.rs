//! A plan that takes over what did not change equals one made from nothing.

use std::sync::Arc;

use kollect_api::condition::Reason;
use kollect_collect::plan::{KindFact, NamespaceListing, Plan, TargetKey, TargetPlan, World};
use kollect_watch::{
    WatchScope,
    access::{Permission, Review},
};
use serde_json::{Value, json};

use crate::support::{add, empty_world, gvk, key, plan, remove, resource, yaml};

const BASE: &str = "
- {kind: Namespace, metadata: {name: team-a, labels: {tier: app}}}
- {kind: Namespace, metadata: {name: team-b, labels: {tier: app}}}
- {kind: Namespace, metadata: {name: infra}}
- kind: KollectProfile
  metadata: {namespace: team-a, name: p}
  spec: {targetGVK: {group: apps, version: v1, kind: Deployment}, attributes: [{name: n, path: $.metadata.name}]}
- kind: KollectProfile
  metadata: {namespace: team-b, name: q}
  spec: {targetGVK: {version: v1, kind: Pod}, attributes: [{name: n, path: $.metadata.name}]}
- {kind: KollectTarget, metadata: {namespace: team-a, name: all}, spec: {profileRef: p}}
- {kind: KollectTarget, metadata: {namespace: team-a, name: same}, spec: {profileRef: p}}
- kind: KollectTarget
  metadata: {namespace: team-a, name: some}
  spec: {profileRef: p, namespaceSelector: {matchLabels: {tier: app}}, excludedNamespaces: [infra]}
- {kind: KollectTarget, metadata: {namespace: team-b, name: pods}, spec: {profileRef: q, watchMode: OptIn}}
- kind: KollectTarget
  metadata: {namespace: team-b, name: ruled}
  spec:
    profileRef: q
    resourceRules: [{gvk: {version: v1, kind: Pod}, namespaceSelector: {matchLabels: {tier: app}}}]
- {kind: KollectTarget, metadata: {namespace: team-b, name: lost}, spec: {profileRef: nowhere}}
- kind: KollectClusterTarget
  metadata: {name: platform}
  spec: {profileRef: {namespace: team-a, name: p}, namespaceSelector: {matchLabels: {tier: app}}}
";

/// One change of the world, and whose plan it may change.
struct Edit {
    what: &'static str,
    make: fn(&mut World),
    concerns: &'static [&'static str],
}

const EVERYBODY: &[&str] = &[
    "team-a/all",
    "team-a/same",
    "team-a/some",
    "team-b/pods",
    "team-b/ruled",
    "team-b/lost",
    "platform",
];

fn put(world: &mut World, manifest: &str) {
    add(world, yaml::<Value>(manifest));
}

const EDITS: &[Edit] = &[
    Edit {
        what: "nothing",
        make: |_| {},
        concerns: &[],
    },
    Edit {
        what: "the status of a target",
        make: |world| {
            let target = &mut world.targets[0];
            let mut written = kollect_api::KollectTarget::clone(target);
            written.metadata.resource_version = Some("7".to_owned());
            written.status = Some(kollect_api::target::TargetStatus::default());
            *target = Arc::new(written);
        },
        concerns: &[],
    },
    Edit {
        what: "the spec of a target",
        make: |world| {
            put(
                world,
                "{kind: KollectTarget, metadata: {namespace: team-a, name: all}, spec: {profileRef: p, names: [x]}}",
            );
        },
        concerns: &["team-a/all"],
    },
    Edit {
        what: "a suspension",
        make: |world| {
            put(
                world,
                "{kind: KollectTarget, metadata: {namespace: team-b, name: pods}, spec: {profileRef: q, suspend: true}}",
            );
        },
        concerns: &["team-b/pods"],
    },
    Edit {
        what: "a profile",
        make: |world| {
            put(
                world,
                "{kind: KollectProfile, metadata: {namespace: team-b, name: q}, spec: {targetGVK: {version: v1, kind: Pod}, attributes: [{name: m, path: $.kind}]}}",
            );
        },
        concerns: &["team-b/pods", "team-b/ruled"],
    },
    Edit {
        what: "a profile that comes",
        make: |world| {
            put(
                world,
                "{kind: KollectProfile, metadata: {namespace: team-b, name: nowhere}, spec: {targetGVK: {version: v1, kind: Pod}, attributes: [{name: m, path: $.kind}]}}",
            );
        },
        concerns: &["team-b/lost"],
    },
    Edit {
        what: "a profile that goes",
        make: |world| {
            let metadata = json!({"namespace": "team-b", "name": "nowhere"});
            remove(
                world,
                &json!({"kind": "KollectProfile", "metadata": metadata}),
            );
        },
        concerns: &["team-b/lost"],
    },
    Edit {
        what: "a kind that goes",
        make: |world| world.kinds.set(gvk("Pod"), KindFact::NotInstalled),
        concerns: &["team-b/pods", "team-b/ruled"],
    },
    Edit {
        what: "a kind that comes",
        make: |world| {
            world
                .kinds
                .set(gvk("Pod"), KindFact::Served(resource("Pod")));
        },
        concerns: &["team-b/pods", "team-b/ruled"],
    },
    Edit {
        what: "labels of a namespace",
        make: |world| {
            put(
                world,
                "{kind: Namespace, metadata: {name: infra, labels: {tier: app, kollect.dev/watch: enabled}}}",
            );
        },
        concerns: EVERYBODY,
    },
    Edit {
        what: "a namespace",
        make: |world| put(world, "{kind: Namespace, metadata: {name: team-c}}"),
        concerns: EVERYBODY,
    },
    Edit {
        what: "a scope",
        make: |world| {
            put(
                world,
                "{kind: KollectScope, metadata: {namespace: team-a, name: s}, spec: {allowedNamespaces: [team-a]}}",
            );
        },
        concerns: EVERYBODY,
    },
    Edit {
        what: "a cluster scope",
        make: |world| {
            put(
                world,
                "{kind: KollectClusterScope, metadata: {name: s}, spec: {deniedNamespaces: [team-b]}}",
            );
        },
        concerns: EVERYBODY,
    },
    Edit {
        what: "a setting",
        make: |world| world.settings.default_excluded_namespaces = vec!["infra".to_owned()],
        concerns: EVERYBODY,
    },
    Edit {
        what: "namespaces that cannot be listed any more",
        make: |world| {
            world.settings.watch_namespaces = vec!["team-a".to_owned()];
            world.namespaces = NamespaceListing::Partial([].into());
        },
        concerns: EVERYBODY,
    },
    Edit {
        what: "a right",
        make: |world| {
            for scope in [WatchScope::All, WatchScope::Namespace("team-a".into())] {
                let resource = resource("Pod");
                let review = Review { resource, scope };
                world.access.set(review, Permission::Denied);
            }
        },
        concerns: &["team-b/pods", "team-b/ruled"],
    },
];

fn base() -> World {
    let mut world = empty_world();
    for manifest in yaml::<Vec<Value>>(BASE) {
        add(&mut world, manifest);
    }
    world
}

/// Whether labels of namespaces decide, and cannot be read.
fn is_held(target: &TargetPlan) -> bool {
    let degradation = target.degradation();
    degradation.is_some_and(|degradation| degradation.reason == Reason::NamespaceLookupFailed)
}

#[test]
fn what_did_not_change_is_kept_and_what_did_is_not() {
    let mut world = base();
    let mut before = plan(&Plan::new(), &mut world);
    for Edit {
        what,
        make,
        concerns,
    } in EDITS
    {
        make(&mut world);
        let after = plan(&before, &mut world);
        let fresh = plan(&Plan::new(), &mut world.clone());
        let all = |plan: &Plan| -> Vec<TargetKey> {
            plan.targets().map(|target| target.key.clone()).collect()
        };
        assert_eq!(all(&after), all(&fresh), "{what}");
        for target in after.targets() {
            let key = &target.key;
            let same = fresh.target(key).expect("the same targets");
            if is_held(target) {
                // It goes on with what it had; whoever comes new has nothing to go on with.
                assert_eq!(target.state, same.state, "{key} after {what}");
            } else {
                assert_eq!(target, same, "{key} after {what}");
            }
            let kept = before
                .target(key)
                .is_some_and(|old| Arc::ptr_eq(old, target));
            let concerned = concerns.iter().any(|name| self::key(name) == *key);
            // What is not known is looked at each time.
            assert!(
                kept || concerned || is_held(target),
                "{key} was planned again after {what}"
            );
        }
        before = after;
    }
}

#[test]
fn targets_that_mean_the_same_namespaces_share_them() {
    let mut world = base();
    let plan = plan(&Plan::new(), &mut world);
    let reach = |name: &str| {
        let collection = plan.target(&key(name)).unwrap().collection();
        Arc::clone(&collection.unwrap().reach)
    };
    assert!(Arc::ptr_eq(&reach("team-a/all"), &reach("team-a/same")));
    assert_ne!(reach("team-a/all"), reach("team-a/some"));
    let ruled = reach("team-b/ruled");
    assert_ne!(ruled, reach("team-b/pods"), "its rules look at namespaces");
    assert_eq!(ruled.len(), reach("team-b/pods").len());
}
