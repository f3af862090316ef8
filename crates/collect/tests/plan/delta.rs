//! What has to be done when the world changes.

use std::collections::{BTreeMap, BTreeSet};

use kollect_collect::plan::{Again, Plan, TargetChange, Watch};
use kollect_watch::{WatchScope, access::Permission};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{add, data, empty_world, key, names, remove, settle};

#[derive(Deserialize)]
struct Table {
    base: Vec<Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    id: String,
    separate_watches: Option<usize>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(default)]
    id: String,
    #[serde(default)]
    with: Vec<Value>,
    #[serde(default)]
    without: Vec<Value>,
    #[serde(default)]
    deny: BTreeSet<String>,
    #[serde(default)]
    targets: BTreeMap<String, Change>,
    #[serde(default)]
    open: BTreeSet<String>,
    #[serde(default)]
    close: BTreeSet<String>,
    #[serde(default)]
    relist: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Change {
    Word(String),
    Revise {
        #[serde(default)]
        left: Vec<String>,
        #[serde(default)]
        lost: Vec<String>,
        #[serde(default)]
        again: Scope,
    },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Scope {
    Everything(String),
    Namespaces(Vec<String>),
}

impl Default for Scope {
    fn default() -> Self {
        Scope::Namespaces(Vec::new())
    }
}

impl From<&TargetChange> for Change {
    fn from(change: &TargetChange) -> Self {
        let word = match change {
            TargetChange::Start => "start",
            TargetChange::Restart => "restart",
            TargetChange::End => "end",
            TargetChange::Wait => "wait",
            TargetChange::Revise(revision) => {
                return Change::Revise {
                    left: names(&revision.left),
                    lost: names(&revision.lost),
                    again: match &revision.again {
                        Again::Nothing => Scope::default(),
                        Again::Everything => Scope::Everything("everything".to_owned()),
                        Again::Namespaces(namespaces) => Scope::Namespaces(names(namespaces)),
                    },
                };
            }
        };
        Change::Word(word.to_owned())
    }
}

fn place(plural: &str, scope: &WatchScope) -> String {
    match scope {
        WatchScope::All => format!("{plural} all"),
        WatchScope::Namespace(name) => format!("{plural} {name}"),
    }
}

fn places(watches: &BTreeSet<Watch>) -> BTreeSet<String> {
    let watches = watches.iter();
    watches
        .map(|watch| place(&watch.resource.plural, &watch.scope))
        .collect()
}

#[test]
fn cases() {
    let table: Table = data("deltas.yaml");
    for case in &table.cases {
        let mut world = empty_world();
        if let Some(limit) = case.separate_watches {
            world.settings.separate_watches = limit;
        }
        for manifest in &table.base {
            add(&mut world, manifest.clone());
        }
        let mut plan = Plan::new();
        for (number, step) in case.steps.iter().enumerate() {
            let context = format!("{}, step {number} {}", case.id, step.id);
            for manifest in &step.without {
                remove(&mut world, manifest);
            }
            for manifest in &step.with {
                add(&mut world, manifest.clone());
            }
            // Ask everything again: access may have changed.
            world.access.retain(|_| false);
            let next = settle(&plan, &mut world, |review| {
                let namespace = review.scope.namespace().unwrap_or("all");
                if step.deny.contains(namespace) {
                    Permission::Denied
                } else {
                    Permission::Allowed
                }
            });
            let delta = next.delta_from(&plan);
            let targets: BTreeMap<_, Change> = delta
                .targets
                .iter()
                .map(|(key, change)| (key.clone(), change.into()))
                .collect();
            let expected = step
                .targets
                .iter()
                .map(|(name, change)| (key(name), change));
            let expected: BTreeMap<_, _> = expected.collect();
            assert_eq!(
                targets
                    .iter()
                    .map(|(k, c)| (k.clone(), c))
                    .collect::<BTreeMap<_, _>>(),
                expected,
                "{context}"
            );
            assert_eq!(places(&delta.open), step.open, "open, {context}");
            assert_eq!(places(&delta.close), step.close, "close, {context}");
            let relist = delta.relist.iter().map(|((resource, scope), keys)| {
                let keys: BTreeSet<_> = keys.iter().cloned().collect();
                (place(&resource.plural, scope), keys)
            });
            let expected = step.relist.iter().map(|(place, names)| {
                let keys: BTreeSet<_> = names.iter().map(|name| key(name)).collect();
                (place.clone(), keys)
            });
            assert_eq!(
                relist.collect::<BTreeMap<_, _>>(),
                expected.collect::<BTreeMap<_, _>>(),
                "relist, {context}"
            );
            let nothing = step.targets.is_empty() && step.open.is_empty() && step.close.is_empty();
            assert_eq!(delta.is_empty(), nothing, "{context}");
            plan = next;
        }
    }
}
