//! The engine scenarios, with an API server in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use kollect_api::inventory::Dedupe;
use kollect_collect::store::{RowSelection, Subscription, Taken};
use kollect_inventory::{HeldRows, Rollup};
use serde_json::json;

use crate::shell::Shell;
use crate::support::{add, everywhere, key, remove, world, yaml};

const MANIFESTS: &str = "
- {kind: Namespace, metadata: {name: team-a, labels: {tier: app}}}
- {kind: Namespace, metadata: {name: team-b, labels: {tier: app}}}
- {kind: Namespace, metadata: {name: team-c}}
- kind: KollectProfile
  metadata: {namespace: home, name: p}
  spec:
    targetGVK: {group: apps, version: v1, kind: Deployment}
    attributes: [{name: replicas, path: $.spec.replicas}]
";

fn deployment(namespace: &str, name: &str) -> (String, String, String) {
    ("deployments".into(), namespace.into(), name.into())
}

/// Two namespaces with one Deployment each.
fn shell() -> Shell {
    let mut shell = Shell::new(world(MANIFESTS));
    shell
        .server
        .apply(deployment("team-a", "web"), &json!({}), Some(1));
    shell
        .server
        .apply(deployment("team-b", "web"), &json!({}), Some(2));
    shell
}

impl Shell {
    fn target(&mut self, name: &str, namespaces: &[&str]) {
        let metadata = json!({"namespace": "home", "name": name});
        let spec = json!({"profileRef": "p", "includedNamespaces": namespaces});
        let manifest = json!({"kind": "KollectTarget", "metadata": metadata, "spec": spec});
        add(&mut self.world, manifest);
        self.replan();
    }

    fn cluster_target(&mut self, name: &str, namespaces: &[&str]) {
        let spec = json!({
            "profileRef": {"namespace": "home", "name": "p"},
            "namespaceSelector": everywhere(), "includedNamespaces": namespaces,
        });
        let manifest =
            json!({"kind": "KollectClusterTarget", "metadata": {"name": name}, "spec": spec});
        add(&mut self.world, manifest);
        self.replan();
    }

    fn count(&self, target: &str) -> usize {
        self.held(&key(target)).len()
    }

    fn complete(&self, target: &str) -> bool {
        self.store
            .summary(&key(target))
            .is_some_and(|summary| summary.complete)
    }
}

fn home() -> RowSelection {
    RowSelection::Namespace("home".into())
}

#[test]
fn en_01_a_watch_widens_and_rows_stay() {
    let mut shell = shell();
    shell.target("one", &["team-a"]);
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 1);

    shell.target("two", &["team-b"]);
    // The old watch runs until the new one has listed, and rows are there all the time.
    assert_eq!(shell.sources(), 2);
    while shell.sources() == 2 {
        assert_eq!(shell.count("home/one"), 1);
        shell.deliver(1);
        shell.write(0);
    }
    assert_eq!((shell.count("home/one"), shell.count("home/two")), (1, 1));
}

#[test]
fn en_02_two_targets_at_once_end_the_same_way() {
    let mut shell = shell();
    shell.target("one", &["team-a"]);
    shell.target("two", &["team-b"]);
    shell.finish_all();
    assert_eq!((shell.count("home/one"), shell.count("home/two")), (1, 1));
    assert_eq!(shell.sources(), 1);
}

#[test]
fn en_03_a_target_widens_without_any_change_of_objects() {
    let mut shell = shell();
    shell.target("one", &["team-a"]);
    shell.finish_all();
    shell.target("one", &["team-a", "team-b"]);
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 2);
}

#[test]
fn en_04_en_05_en_06_a_target_joins_a_wide_watch_and_leaves_it() {
    let mut shell = shell();
    shell.target("one", &["team-a", "team-b"]);
    shell.finish_all();
    shell.target("two", &["team-c"]);
    shell.finish_all();
    assert_eq!(
        (shell.count("home/two"), shell.complete("home/two")),
        (0, true)
    );
    shell.target("two", &["team-b"]);
    shell.finish_all();
    assert_eq!(shell.count("home/two"), 1);

    let revision = shell.store.revision(&home());
    for _ in 0..3 {
        shell.target("two", &["team-b"]);
        assert_eq!(shell.sources(), 1, "no list is made");
    }
    shell.finish_all();
    assert_eq!(shell.store.revision(&home()), revision);

    let two = yaml("{kind: KollectTarget, metadata: {namespace: home, name: two}}");
    remove(&mut shell.world, &two);
    shell.replan();
    assert_eq!(shell.count("home/two"), 0);
    shell
        .server
        .apply(deployment("team-a", "new"), &json!({}), Some(1));
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 3);
}

#[test]
fn en_14_c_28_a_kind_that_is_not_installed_holds_up_nobody() {
    let mut shell = shell();
    let profile = "{kind: KollectProfile, metadata: {namespace: home, name: gone}, spec: {targetGVK: {group: x.io, version: v1, kind: Gone}}}";
    add(&mut shell.world, yaml(profile));
    let gone = kollect_api::GroupVersionKind::new("x.io", "v1", "Gone");
    let fact = kollect_collect::plan::KindFact::NotInstalled;
    shell.world.kinds.set(gone, fact);
    let target =
        "{kind: KollectTarget, metadata: {namespace: home, name: gone}, spec: {profileRef: gone}}";
    add(&mut shell.world, yaml(target));
    shell.target("one", &["team-a"]);
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 1);
    assert!(
        shell.store.is_complete(&home()),
        "a target that cannot collect is not waited for"
    );
}

#[test]
fn c_28_a_kind_that_is_uninstalled_takes_its_rows_and_returns_by_itself() {
    let mut shell = shell();
    shell.target("one", &["team-a"]);
    shell.finish_all();
    let (gvk, resource) = (
        crate::support::gvk("Deployment"),
        crate::support::resource("Deployment"),
    );
    shell
        .world
        .kinds
        .set(gvk.clone(), kollect_collect::plan::KindFact::NotInstalled);
    shell.replan();
    assert_eq!(shell.count("home/one"), 0);
    let served = kollect_collect::plan::KindFact::Served(resource);
    shell.world.kinds.set(gvk, served);
    shell.replan();
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 1);
}

#[test]
fn en_15_the_revision_never_goes_back() {
    let mut shell = shell();
    let mut seen = shell.store.revision(&home());
    for _ in 0..3 {
        shell.target("one", &["team-a"]);
        shell.finish_all();
        assert!(shell.store.revision(&home()) > seen);
        seen = shell.store.revision(&home());
        let one = yaml("{kind: KollectTarget, metadata: {namespace: home, name: one}}");
        remove(&mut shell.world, &one);
        shell.replan();
        assert!(shell.store.revision(&home()) > seen);
        seen = shell.store.revision(&home());
    }
}

#[test]
fn en_16_c_42_of_two_targets_the_greater_name_wins() {
    let mut shell = shell();
    shell.cluster_target("b", &["team-a"]);
    shell.cluster_target("a", &["team-a"]);
    shell.finish_all();
    let scope = RowSelection::Cluster {
        targets: BTreeSet::from(["a".to_owned(), "b".to_owned()]),
        namespaces: BTreeSet::from(["team-a".to_owned()]),
    };
    let (rows, _) = shell.store.snapshot(&scope);
    assert_eq!(rows.len(), 2);
    let rollup = Rollup::new(rows.rows().to_vec(), Dedupe::ByResourceUid);
    let [row] = rollup.rows().rows() else {
        panic!("one row per object")
    };
    assert_eq!(row.origin().target_name(), "b");
}

#[test]
fn c_01_nothing_is_handed_out_before_everything_is_listed() {
    let mut shell = shell();
    let reader = shell.store.subscribe(home(), || {});
    assert_eq!(
        reader.take(),
        Taken::Waiting(vec![]),
        "not even the targets are known"
    );
    shell.target("one", &["team-a"]);
    shell.target("two", &["team-a", "team-b"]);
    loop {
        match reader.take() {
            Taken::Waiting(missing) => {
                assert!(!missing.is_empty() && !shell.store.is_complete(&home()));
                let moved = (0..shell.sources()).any(|source| shell.deliver(source));
                assert!(moved | shell.write(0));
            }
            Taken::Everything(rows, _) => {
                assert_eq!(rows.len(), 3);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn c_01_an_object_of_the_first_list_that_waits_in_a_queue_holds_up_completeness() {
    let mut shell = shell();
    shell.target("one", &["team-a"]);
    while shell.deliver(0) {}
    assert!(!shell.complete("home/one"));
    while shell.write(0) {}
    shell.deliver(0);
    assert!(shell.complete("home/one"));
}

#[test]
fn c_06_c_07_namespaced_and_cluster_targets_have_nothing_to_do_with_each_other() {
    let mut shell = shell();
    let profile = "{kind: KollectProfile, metadata: {namespace: team-a, name: p}, spec: {targetGVK: {group: apps, version: v1, kind: Deployment}}}";
    add(&mut shell.world, yaml(profile));
    let target = "{kind: KollectTarget, metadata: {namespace: team-a, name: web}, spec: {profileRef: p, includedNamespaces: [team-a]}}";
    add(&mut shell.world, yaml(target));
    shell.cluster_target("web", &["team-a", "team-b"]);
    shell.finish_all();
    assert_eq!((shell.count("team-a/web"), shell.count("web")), (1, 2));

    let (own, _) = shell
        .store
        .snapshot(&RowSelection::Namespace("team-a".into()));
    assert_eq!(
        own.len(),
        1,
        "the tenant's inventory shows the tenant's rows only"
    );
    let scope = |namespaces: &[&str]| RowSelection::Cluster {
        targets: BTreeSet::from(["web".to_owned()]),
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
    };
    assert_eq!(
        shell.store.snapshot(&scope(&["team-a", "team-b"])).0.len(),
        2
    );
    assert_eq!(shell.store.snapshot(&scope(&["team-a"])).0.len(), 1);

    // The end of one leaves the other alone.
    let cluster = yaml("{kind: KollectClusterTarget, metadata: {name: web}}");
    remove(&mut shell.world, &cluster);
    shell.replan();
    assert_eq!((shell.count("team-a/web"), shell.count("web")), (1, 0));
}

#[test]
fn c_13_cluster_scoped_objects_are_one_row_in_every_rollup() {
    let mut shell = shell();
    let profile = "{kind: KollectProfile, metadata: {namespace: home, name: p}, spec: {targetGVK: {version: v1, kind: Node}}}";
    add(&mut shell.world, yaml(profile));
    shell.server.apply(
        ("nodes".into(), String::new(), "n1".into()),
        &json!({}),
        None,
    );
    shell.cluster_target("nodes", &["team-a", "team-b"]);
    shell.finish_all();
    assert_eq!(shell.count("nodes"), 1);
    let scope = RowSelection::Cluster {
        targets: BTreeSet::from(["nodes".to_owned()]),
        namespaces: BTreeSet::from(["team-c".to_owned()]),
    };
    let (rows, _) = shell.store.snapshot(&scope);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows.rows()[0].origin().target_namespace(), "");
}

#[test]
fn c_22_a_namespace_that_opts_out_and_in_again() {
    let mut shell = shell();
    shell.target("one", &["team-a", "team-b"]);
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 2);
    let out = "{kind: Namespace, metadata: {name: team-b, labels: {kollect.dev/watch: disabled}}}";
    add(&mut shell.world, yaml(out));
    shell.replan();
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 1);
    add(
        &mut shell.world,
        yaml("{kind: Namespace, metadata: {name: team-b}}"),
    );
    shell.replan();
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 2);
}

#[test]
fn c_26_a_target_that_moves_leaves_nothing_behind() {
    let mut shell = shell();
    shell.target("one", &["team-a"]);
    shell.finish_all();
    shell.target("one", &["team-b"]);
    assert_eq!(
        shell.count("home/one"),
        0,
        "at once, not when somebody lists"
    );
    shell.finish_all();
    let rows = shell.held(&key("home/one"));
    assert!(rows.keys().all(|place| place.starts_with("team-b/")) && rows.len() == 1);
}

/// Spec 03 (C-35) removes the rows; issue and D11 decide otherwise.
#[test]
fn c_35_d11_lost_access_takes_no_rows_and_regained_access_brings_them_up_to_date() {
    let mut shell = shell();
    shell.denied.insert("all".into());
    shell.target("one", &["team-a", "team-b"]);
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 2);
    let reader = shell.store.subscribe(home(), || {});
    let Taken::Everything(rows, _) = reader.take() else {
        panic!("everything is known");
    };
    assert_eq!((rows.len(), rows.held()), (2, &[][..]));

    for denied in [&["team-b"][..], &["team-a", "team-b"]] {
        shell
            .denied
            .extend(denied.iter().map(|name| (*name).to_owned()));
        shell.replan();
        shell.finish_all();
        assert_eq!(shell.count("home/one"), 2);
        assert!(shell.store.is_complete(&home()));
        assert_eq!(
            reader.take(),
            Taken::Nothing,
            "what was known stays known: {denied:?}"
        );
    }
    // What happened meanwhile shows when it can be read again, deletions included.
    shell.server.delete(&deployment("team-b", "web"));
    shell.denied.remove("team-b");
    shell.replan();
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 1);
    let Taken::Changes(delta, _) = reader.take() else {
        panic!("a row is gone");
    };
    assert_eq!((delta.deletes().count(), delta.upserts().count()), (1, 0));
    // Nobody wants it any more: then it goes, whether it can be read or not.
    shell.target("one", &["team-b"]);
    shell.finish_all();
    assert_eq!(shell.count("home/one"), 0);
}

/// Access to a namespace was lost before this process could list it: what a sink holds of it is
/// not known, and everything else goes on.
#[test]
fn d11_what_could_not_be_listed_is_held_and_the_rest_flows() {
    let mut shell = shell();
    shell.denied.extend(["all".to_owned(), "team-b".to_owned()]);
    shell.target("one", &["team-a", "team-b"]);
    shell.cluster_target("all", &["team-a", "team-b"]);
    shell.finish_all();
    let held = |name| vec![HeldRows::in_namespace(name, "team-b")];
    let rollup = |namespaces: &[&str]| RowSelection::Cluster {
        targets: BTreeSet::from(["all".to_owned()]),
        namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
    };
    let reader = shell.store.subscribe(home(), || {});
    let wide = shell.store.subscribe(rollup(&["team-a", "team-b"]), || {});
    let narrow = shell.store.subscribe(rollup(&["team-a"]), || {});
    let everything = |reader: &Subscription| match reader.take() {
        Taken::Everything(rows, _) => (rows.len(), rows.held().to_vec()),
        other => panic!("{other:?}"),
    };
    assert_eq!(everything(&reader), (1, held("one")));
    assert_eq!(everything(&wide), (1, held("all")));
    assert_eq!(everything(&narrow), (1, vec![]), "it does not look there");
    let told = shell.store.held(&home());
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0].namespaces,
        Some(BTreeSet::from([Arc::from("team-b")]))
    );
    assert!(told[0].why.contains("deployments.apps"), "{}", told[0].why);

    // Deletions elsewhere are deletions.
    shell.server.delete(&deployment("team-a", "web"));
    shell.finish_all();
    assert!(matches!(reader.take(), Taken::Changes(delta, _) if delta.deletes().count() == 1));
    // The right returns: all rows, and nothing held.
    shell.denied.remove("team-b");
    shell.replan();
    assert_eq!(shell.store.held(&home()).len(), 1, "not listed yet");
    shell.finish_all();
    assert_eq!(everything(&reader), (1, vec![]));
    assert_eq!(everything(&wide), (1, vec![]));
    assert!(shell.store.held(&home()).is_empty());
}

#[test]
fn c_40_numbers_follow_the_rows_down_as_well() {
    let mut shell = shell();
    shell.target("one", &["team-a", "team-b"]);
    shell.finish_all();
    assert_eq!(shell.store.totals().rows, 2);
    shell.server.delete(&deployment("team-a", "web"));
    shell.finish_all();
    assert_eq!(shell.store.totals().rows, 1);
    let one = yaml("{kind: KollectTarget, metadata: {namespace: home, name: one}}");
    remove(&mut shell.world, &one);
    shell.replan();
    let totals = shell.store.totals();
    assert_eq!((totals.rows, totals.targets, totals.bytes), (0, 0, 0));
    assert!(shell.store.summaries().is_empty());
}

#[test]
fn c_08_c_44_one_bad_object_is_counted_and_the_others_are_collected() {
    let mut shell = shell();
    let profile = "
      kind: KollectProfile
      metadata: {namespace: home, name: p}
      spec:
        targetGVK: {group: apps, version: v1, kind: Deployment}
        attributes: [{name: image, path: 'cel:object.spec.image'}]";
    add(&mut shell.world, yaml(profile));
    shell.cluster_target("all", &["team-a", "team-b"]);
    shell.finish_all();
    let summary = |shell: &Shell| shell.store.summary(&key("all")).expect("it is there");
    assert_eq!((summary(&shell).rows, summary(&shell).failing), (0, 2));
    assert!(summary(&shell).last_failure.is_some() && summary(&shell).complete);

    let profile = profile.replace(
        "cel:object.spec.image",
        "cel:object.spec.replicas > 1 ? \"x\" : object.spec.image",
    );
    add(&mut shell.world, yaml(&profile));
    shell.replan();
    shell.finish_all();
    assert_eq!((summary(&shell).rows, summary(&shell).failing), (1, 1));
    assert!(shell.store.is_complete(&RowSelection::Cluster {
        targets: BTreeSet::from(["all".to_owned()]),
        namespaces: BTreeSet::new(),
    }));
}
