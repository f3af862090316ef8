//! Random histories: whatever happens in whatever order, the store ends with what a fresh look at
//! the world gives, and readers that follow changes hold the same.

use std::collections::BTreeSet;

use kollect_collect::{
    plan::{Course, TargetKey},
    store::{Limits, RowSelection, Subscription, Taken},
};
use kollect_inventory::Snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shell::Shell;
use crate::support::{add, empty_world, everywhere, key, remove};

const NAMESPACES: [&str; 3] = ["team-a", "team-b", "team-c"];
const NAMES: [&str; 3] = ["web", "api", "db"];
const TARGETS: [&str; 4] = ["home/one", "home/two", "team-a/one", "one"];

/// One step of a history. Numbers choose among what there is at that moment.
#[derive(Debug, Clone)]
enum Step {
    Apply {
        place: usize,
        labels: usize,
        replicas: Option<u64>,
    },
    Delete(usize),
    Recreate(usize),
    Namespace(usize, usize),
    Target(usize, usize),
    RemoveTarget(usize),
    Profile(usize),
    Deny(usize, bool),
    Scope(usize),
    Deliver(usize),
    Write(usize),
    Interrupt(usize),
    Take(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..64_usize;
    prop_oneof![
        6 => (number(), number(), prop::option::weighted(0.8, 0..4_u64)).prop_map(
            |(place, labels, replicas)| Step::Apply { place, labels, replicas }
        ),
        3 => number().prop_map(Step::Delete),
        1 => number().prop_map(Step::Recreate),
        2 => (number(), number()).prop_map(|(name, labels)| Step::Namespace(name, labels)),
        3 => (number(), number()).prop_map(|(name, spec)| Step::Target(name, spec)),
        1 => number().prop_map(Step::RemoveTarget),
        1 => number().prop_map(Step::Profile),
        1 => (number(), any::<bool>()).prop_map(|(place, denied)| Step::Deny(place, denied)),
        1 => number().prop_map(Step::Scope),
        14 => number().prop_map(Step::Deliver),
        14 => number().prop_map(Step::Write),
        1 => number().prop_map(Step::Interrupt),
        3 => number().prop_map(Step::Take),
    ]
}

fn deployment(number: usize) -> (String, String, String) {
    let number = number % (NAMESPACES.len() * NAMES.len());
    let namespace = NAMESPACES[number % NAMESPACES.len()];
    let name = NAMES[number / NAMESPACES.len()];
    ("deployments".into(), namespace.into(), name.into())
}

fn place(number: usize) -> (String, String, String) {
    match number % 12 {
        place @ 0..9 => deployment(place),
        node => ("nodes".into(), String::new(), NAMES[node - 9].into()),
    }
}

fn namespace(name: &str, labels: usize) -> Value {
    let (labels, annotations) = match labels % 5 {
        0 => (json!({}), json!({})),
        1 | 2 => (json!({"tier": "app"}), json!({})),
        3 => (
            json!({"tier": "app", "kollect.dev/watch": "disabled"}),
            json!({}),
        ),
        _ => (json!({}), json!({"kollect.dev/namespace-watch": "enabled"})),
    };
    json!({"kind": "Namespace", "metadata": {"name": name, "labels": labels, "annotations": annotations}})
}

fn profile(variant: usize) -> Value {
    let deployment = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let attribute =
        |name, path, optional| json!({"name": name, "path": path, "optional": optional});
    let (gvk, attributes) = match variant % 5 {
        0 | 1 => (deployment, attribute("replicas", "$.spec.replicas", false)),
        2 => (deployment, attribute("replicas", "$.spec.replicas", true)),
        3 => (deployment, attribute("app", "$.metadata.labels.app", true)),
        _ => (
            json!({"version": "v1", "kind": "Node"}),
            attribute("app", "$.metadata.labels.app", true),
        ),
    };
    json!({"kind": "KollectProfile", "metadata": {"namespace": "home", "name": "p"},
        "spec": {"targetGVK": gvk, "attributes": [attributes]}})
}

fn target(name: &str, variant: usize) -> Value {
    let deployment = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let rule = |mut rule: Value| {
        rule["gvk"] = deployment.clone();
        rule
    };
    let mut spec = match variant % 12 {
        0 => json!({}),
        1 => json!({"includedNamespaces": ["team-a"]}),
        2 => json!({"includedNamespaces": ["team-b"]}),
        3 => json!({"includedNamespaces": ["team-a", "team-c"]}),
        4 => json!({"namespaceSelector": {"matchLabels": {"tier": "app"}}}),
        5 => json!({"labelSelector": {"matchLabels": {"app": "shop"}}}),
        6 => json!({"watchMode": "OptIn"}),
        7 => json!({"names": ["web", "db"]}),
        8 => json!({"resourceRules": [
            rule(json!({"matchPolicy": "object.spec.replicas > 1"})),
            rule(json!({"namespaceSelector": {"matchLabels": {"tier": "app"}}})),
        ]}),
        9 => json!({"suspend": true}),
        10 => json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}}),
        _ => json!({"excludedNamespaces": ["team-c"]}),
    };
    match name.split_once('/') {
        Some((namespace, name)) => {
            // A namespaced target has a profile in its own namespace.
            spec["profileRef"] = "p".into();
            json!({"kind": "KollectTarget", "metadata": {"namespace": namespace, "name": name}, "spec": spec})
        }
        None => {
            spec["profileRef"] = json!({"namespace": "home", "name": "p"});
            if spec.get("namespaceSelector").is_none() {
                spec["namespaceSelector"] = everywhere();
            }
            json!({"kind": "KollectClusterTarget", "metadata": {"name": name}, "spec": spec})
        }
    }
}

/// A reader that follows changes.
struct Reader {
    scope: RowSelection,
    subscription: Subscription,
    rows: Option<Snapshot>,
}

impl Reader {
    fn take(&mut self) {
        match self.subscription.take() {
            Taken::Waiting(_) | Taken::Nothing => {}
            Taken::Everything(rows, _) => self.rows = Some(rows),
            Taken::Changes(delta, _) => {
                let rows = self.rows.as_ref().expect("all rows come first");
                for change in delta.changes() {
                    assert_eq!(
                        rows.get(change.identity()),
                        change.before(),
                        "what was before"
                    );
                }
                self.rows = Some(rows.apply(&delta));
            }
        }
    }
}

struct History {
    shell: Shell,
    readers: Vec<Reader>,
}

impl History {
    fn new() -> Self {
        let mut world = empty_world();
        for name in NAMESPACES {
            add(&mut world, namespace(name, 1));
        }
        add(&mut world, profile(0));
        // The profile of targets in team-a never changes.
        let mut fixed = profile(0);
        fixed["metadata"]["namespace"] = "team-a".into();
        add(&mut world, fixed);
        // Few enough changes for readers to fall behind now and then.
        let shell = Shell::with_limits(world, Limits { pending_changes: 3 });
        let scopes = [
            RowSelection::Namespace("home".into()),
            RowSelection::Namespace("team-a".into()),
            RowSelection::Cluster {
                targets: BTreeSet::from(["one".to_owned()]),
                namespaces: BTreeSet::from(["team-a".to_owned(), "team-b".to_owned()]),
            },
        ];
        let readers = scopes.map(|scope| Reader {
            subscription: shell.store.subscribe(scope.clone(), || {}),
            scope,
            rows: None,
        });
        History {
            shell,
            readers: readers.into(),
        }
    }

    fn play(&mut self, step: &Step) {
        let shell = &mut self.shell;
        match *step {
            Step::Apply {
                place: at,
                labels,
                replicas,
            } => {
                let labels = match labels % 4 {
                    0 => json!({}),
                    1 => json!({"app": "shop"}),
                    2 => json!({"app": "shop", "kollect.dev/watch": "enabled"}),
                    _ => json!({"app": "db", "kollect.dev/watch": "disabled"}),
                };
                shell.server.apply(place(at), &labels, replicas);
            }
            Step::Delete(at) => shell.server.delete(&place(at)),
            Step::Recreate(at) => {
                shell.server.delete(&place(at));
                shell
                    .server
                    .apply(place(at), &json!({"app": "shop"}), Some(2));
            }
            Step::Namespace(name, labels) => {
                add(&mut shell.world, namespace(NAMESPACES[name % 3], labels));
                shell.replan();
            }
            Step::Target(name, spec) => {
                add(&mut shell.world, target(TARGETS[name % 4], spec));
                shell.replan();
            }
            Step::RemoveTarget(name) => {
                remove(&mut shell.world, &target(TARGETS[name % 4], 0));
                shell.replan();
            }
            Step::Profile(variant) => {
                add(&mut shell.world, profile(variant));
                shell.replan();
            }
            Step::Deny(at, denied) => {
                let place = ["all", "team-a", "team-b", "team-c", "quiet"][at % 5].to_owned();
                if denied {
                    shell.denied.insert(place);
                } else {
                    shell.denied.remove(&place);
                }
                shell.replan();
            }
            Step::Scope(variant) => {
                let spec = match variant % 3 {
                    0 => json!({}),
                    1 => json!({"deniedNamespaces": ["team-b"]}),
                    _ => json!({"allowedNamespaces": ["team-a", "team-b"]}),
                };
                let scope = json!({"kind": "KollectScope", "metadata": {"namespace": "home", "name": "s"}, "spec": spec});
                add(&mut shell.world, scope);
                shell.replan();
            }
            Step::Deliver(source) => {
                let sources = shell.sources().max(1);
                shell.deliver(source % sources);
            }
            Step::Write(queue) => {
                let queues = shell.queues().max(1);
                shell.write(queue % queues);
            }
            Step::Interrupt(source) => {
                let sources = shell.sources().max(1);
                shell.interrupt(source % sources);
            }
            Step::Take(reader) => {
                let readers = self.readers.len();
                self.readers[reader % readers].take();
            }
        }
    }

    /// Lets everything come to rest and compares.
    fn check(&mut self) -> Result<(), TestCaseError> {
        self.shell.finish_all();
        let mut known = 0;
        for name in TARGETS {
            let key: TargetKey = key(name);
            let plan = self.shell.plan.target(&key);
            let (expected, failing) = self.shell.expected(&key);
            let mut held = self.shell.held(&key);
            let all = held.len();
            // Of what cannot be read something may be known from before; of what nobody wants,
            // nothing is.
            let collection = plan.and_then(|plan| plan.collection());
            let unread = held.extract_if(.., |place, _| {
                let namespace = place.split('/').next().unwrap_or_default();
                collection.is_some_and(|one| !one.reach.contains_key(namespace))
            });
            for (place, _) in unread {
                let namespace = place.split('/').next().unwrap_or_default();
                let wanted = collection.is_some_and(|one| one.wanted.contains_key(namespace));
                prop_assert!(wanted, "{} has {}", name, place);
            }
            prop_assert_eq!(&held, &expected, "{}", name);
            let summary = self.shell.store.summary(&key);
            let course = plan.map(|plan| &plan.course);
            match (course, &summary) {
                (Some(Course::Collect(collection)), Some(summary)) => {
                    let readable = collection.reach.len() == collection.wanted.len();
                    let some = readable || !collection.reach.is_empty();
                    prop_assert!(summary.complete || !some, "{} is not complete", name);
                    prop_assert_eq!(summary.rows, all, "{}", name);
                    if readable {
                        prop_assert_eq!(summary.failing, failing, "{}", name);
                        prop_assert_eq!(summary.last_failure.is_some(), failing > 0, "{}", name);
                    }
                }
                (Some(Course::Wait), Some(summary)) => {
                    prop_assert!(!summary.complete && summary.rows == 0, "{}", name);
                }
                (None | Some(Course::Stop), None) => {}
                (course, summary) => {
                    prop_assert!(false, "{}: {:?} with {:?}", name, course, summary);
                }
            }
            known += summary.map_or(0, |summary| summary.rows);
        }
        prop_assert_eq!(self.shell.store.totals().rows, known);
        for reader in &mut self.readers {
            reader.take();
            let complete = self.shell.store.is_complete(&reader.scope);
            let (rows, _) = self.shell.store.snapshot(&reader.scope);
            if complete && let Some(followed) = &reader.rows {
                prop_assert_eq!(followed, &rows);
            }
            prop_assert_eq!(complete && reader.rows.is_none(), false);
        }
        Ok(())
    }
}

/// So many cases, unless the environment asks for another number.
fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: match std::env::var("PROPTEST_CASES") {
            Ok(_) => default.cases,
            Err(_) => cases,
        },
        ..default
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn the_store_ends_with_what_a_fresh_look_gives(
        first in prop::collection::vec(step(), 0..80),
        second in prop::collection::vec(step(), 0..60),
    ) {
        let mut history = History::new();
        history.shell.replan();
        for step in &first {
            history.play(step);
        }
        history.check()?;
        for step in &second {
            history.play(step);
        }
        history.check()?;
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// What nothing happened to stays visible all the time, whatever happens around it: watches
    /// that are replaced, lists that are repeated, other targets that come and go.
    #[test]
    fn a_row_that_nothing_happened_to_never_vanishes(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let quiet = ("deployments".to_owned(), "quiet".to_owned(), "still".to_owned());
        let mut history = History::new();
        add(&mut history.shell.world, namespace("quiet", 1));
        let mut own = target("team-a/quiet", 0);
        own["spec"]["includedNamespaces"] = json!(["quiet"]);
        add(&mut history.shell.world, own);
        history.shell.server.apply(quiet, &json!({}), Some(1));
        history.shell.replan();
        history.shell.finish_all();
        for step in &steps {
            history.play(step);
            let rows = history.shell.held(&key("team-a/quiet"));
            prop_assert_eq!(rows.len(), 1, "after {:?}", step);
        }
    }
}
