//! How resources are watched, depending on what is wanted and permitted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kollect_collect::plan::{Plan, TargetPlan, Watch};
use kollect_watch::{
    WatchScope,
    access::{Permission, Review},
};
use serde::Deserialize;
use serde_json::json;

use crate::support::{add, data, empty_world, gvk, names, remove, resource};

#[derive(Deserialize)]
struct Table {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    id: String,
    kind: Option<String>,
    #[serde(default)]
    watch_namespaces: Vec<String>,
    #[serde(default)]
    tenant_mode: bool,
    separate_watches: Option<usize>,
    max_namespace_watches: Option<usize>,
    steps: Vec<Step>,
}

type PerTarget = BTreeMap<String, Vec<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    targets: Option<PerTarget>,
    #[serde(default)]
    access: BTreeMap<String, String>,
    watches: BTreeSet<String>,
    reviews: Option<BTreeSet<String>>,
    #[serde(default)]
    forbidden: PerTarget,
    #[serde(default)]
    awaiting: PerTarget,
    #[serde(default)]
    beyond: PerTarget,
    #[serde(default)]
    reason: BTreeMap<String, String>,
}

fn scope_name(watch: &Watch) -> String {
    match &watch.scope {
        WatchScope::All => "all".to_owned(),
        WatchScope::Namespace(name) => name.to_string(),
    }
}

/// What a function says about each target, where it says anything.
fn per_target<T>(plan: &Plan, of: impl Fn(&TargetPlan) -> Option<T>) -> BTreeMap<String, T> {
    let targets = plan.targets();
    targets
        .filter_map(|target| Some((target.key.name.to_string(), of(target)?)))
        .collect()
}

fn listed<'a>(all: impl IntoIterator<Item = &'a Arc<str>>) -> Option<Vec<String>> {
    Some(names(all)).filter(|names| !names.is_empty())
}

#[test]
fn cases() {
    let table: Table = data("widths.yaml");
    for case in &table.cases {
        let kind = case.kind.as_deref().unwrap_or("Deployment");
        let mut world = empty_world();
        let settings = &mut world.settings;
        settings.watch_namespaces.clone_from(&case.watch_namespaces);
        settings.tenant_mode = case.tenant_mode;
        if let Some(limit) = case.separate_watches {
            settings.separate_watches = limit;
        }
        if let Some(limit) = case.max_namespace_watches {
            settings.max_namespace_watches = limit;
        }
        for name in ["team-a", "team-b", "team-c", "kube-system"] {
            add(
                &mut world,
                json!({"kind": "Namespace", "metadata": {"name": name}}),
            );
        }
        add(
            &mut world,
            json!({"kind": "KollectProfile", "metadata": {"namespace": "home", "name": "p"},
                   "spec": {"targetGVK": gvk(kind)}}),
        );
        let mut plan = Plan::new();
        for (number, step) in case.steps.iter().enumerate() {
            let context = format!("{}, step {number}", case.id);
            if let Some(targets) = &step.targets {
                world.targets.clear();
                for (name, included) in targets {
                    let metadata = json!({"namespace": "home", "name": name});
                    let spec = json!({"profileRef": "p", "includedNamespaces": included});
                    let target =
                        json!({"kind": "KollectTarget", "metadata": metadata, "spec": spec});
                    remove(&mut world, &target);
                    add(&mut world, target);
                }
            }
            for (place, answer) in &step.access {
                let review = Review {
                    resource: resource(kind),
                    scope: match place.as_str() {
                        "all" => WatchScope::All,
                        place => WatchScope::Namespace(place.into()),
                    },
                };
                let permission = match answer.as_str() {
                    "allowed" => Permission::Allowed,
                    "denied" => Permission::Denied,
                    error => Permission::Failed(error.to_owned()),
                };
                world.access.set(review, permission);
            }
            plan = plan.next(&world);

            let watches = plan.resources().flat_map(|resource| &resource.watches);
            let watches: BTreeSet<String> = watches.map(scope_name).collect();
            assert_eq!(watches, step.watches, "{context}");
            if let Some(expected) = &step.reviews {
                let reviews = plan.reviews.iter();
                let reviews = reviews.map(|review| review.scope.namespace().unwrap_or("all"));
                let reviews: BTreeSet<String> = reviews.map(str::to_owned).collect();
                assert_eq!(reviews, *expected, "{context}");
            }
            let forbidden = per_target(&plan, |target| listed(&target.namespaces.forbidden));
            assert_eq!(forbidden, step.forbidden, "{context}");
            let awaiting = per_target(&plan, |target| listed(&target.awaiting));
            assert_eq!(awaiting, step.awaiting, "{context}");
            let beyond = per_target(&plan, |target| listed(&target.namespaces.beyond));
            assert_eq!(beyond, step.beyond, "{context}");
            let reason = per_target(&plan, |target| {
                Some(target.degradation()?.reason.to_string())
            });
            assert_eq!(reason, step.reason, "{context}");
            // Every target says what it is forbidden, and a watch serves all that is collected.
            for target in plan.targets() {
                let message = target.forbidden_message();
                let forbidden = &target.namespaces.forbidden;
                assert_eq!(message.is_some(), !forbidden.is_empty(), "{context}");
                for name in forbidden {
                    assert!(
                        message
                            .as_deref()
                            .is_some_and(|text| text.contains(&**name))
                    );
                }
                let reach = target
                    .collection()
                    .map(|collection| collection.reach.keys());
                for name in reach.into_iter().flatten() {
                    let mut watches = plan.resources().flat_map(|plan| &plan.watches);
                    assert!(watches.any(|watch| watch.scope.contains(name)), "{context}");
                }
            }
        }
    }
}
