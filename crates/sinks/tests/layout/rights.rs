//! Who may have which path: namespaces and their own places, owners that are no more, layouts that
//! rows cannot turn over.

use std::collections::BTreeSet;

use kollect_api::{InventoryId, SinkKey, reference::SinkFamily};
use kollect_inventory::{Row, Snapshot};
use kollect_sinks::{
    Census, DocumentOptions,
    layout::{Embedding, FileOwner, LayoutError, RepoPath, plan_everything},
};
use serde_json::{Value, json};

use crate::{
    plans::{Files, apply, export, rows, tree, visible},
    rows::{Item, header, layout},
};

fn owner(namespace: &str, sink: &str, name: &str) -> FileOwner {
    let inventory = InventoryId::namespaced(namespace, name);
    FileOwner::new(namespace, sink, "lab", &inventory)
}

fn census(users: &[(&str, &str)]) -> Census {
    let census = Census::default();
    let pair = |(inventory, sink): &(&str, &str)| {
        (
            InventoryId::namespaced("team-a", *inventory),
            SinkKey::new(SinkFamily::Snapshot, "team-a", *sink),
        )
    };
    census.learn(Some(users.iter().map(pair).collect::<BTreeSet<_>>()));
    census
}

/// A template that names another namespace's place is refused, also if nobody is there yet.
#[test]
fn a20_templates_into_the_place_of_another_namespace_are_refused() {
    let squatter = owner("team-b", "s", "web");
    let pods = rows(&[("Deployment", "api")]);
    for (rows_or_document, template, refused) in [
        ("rows", "lab/team-a/{kind}/{sourceName}{extension}", true),
        (
            "rows",
            "{cluster}/team-a/{kind}/{sourceName}{extension}",
            true,
        ),
        ("rows", "{cluster}//team-a /{sourceName}{extension}", true),
        ("rows", "inventory/team-a/{sourceName}{extension}", true),
        (
            "document",
            "inventory/team-a/{namespace}-{name}{extension}",
            true,
        ),
        (
            "document",
            "{cluster}/team-a/{namespace}/{name}{extension}",
            true,
        ),
        (
            "rows",
            "{cluster}/team-b/{kind}/{sourceName}{extension}",
            false,
        ),
        ("rows", "files/team-a/{sourceName}{extension}", false),
        (
            "document",
            "inventory/team-b/{namespace}-{name}{extension}",
            false,
        ),
        (
            "document",
            "reports/team-a/{namespace}-{name}{extension}",
            false,
        ),
    ] {
        let spec = match rows_or_document {
            "rows" => json!({"type": "git", "cluster": "lab", "layout": {
                "mode": "perResource", "pathTemplate": template,
            }}),
            _ => json!({"type": "git", "cluster": "lab", "pathTemplate": template}),
        };
        let mut files = Files::new();
        let result = export(&mut files, &spec, &squatter, &pods);
        let found = matches!(result, Err(LayoutError::ForeignArea { .. }));
        assert_eq!(found, refused, "{template}: {result:?}");
        assert_eq!(files.is_empty(), refused, "{template}");
    }
}

/// Whoever came first: the namespace's own inventory takes what is in its place, and from then on
/// the other one is refused.
#[test]
fn a20_the_rightful_inventory_takes_over() {
    let rightful = owner("team-a", "s", "web");
    let squatter = owner("team-b", "s", "squat");
    // Rows about team-a, in the inventory of somebody else.
    let pods = rows(&[("Deployment", "api"), ("ConfigMap", "cfg")]);
    let mut files = Files::new();
    export(&mut files, &tree(), &squatter, &pods).unwrap();
    export(
        &mut files,
        &tree(),
        &rightful,
        &rows(&[("Deployment", "api")]),
    )
    .unwrap();
    let both = [
        "lab/team-a/configmap/cfg.yaml",
        "lab/team-a/deployment/api.yaml",
    ];
    assert_eq!(
        visible(&files),
        both,
        "what it does not want stays as it is"
    );
    for _ in 0..2 {
        let error = export(&mut files, &tree(), &squatter, &pods).unwrap_err();
        assert!(matches!(error, LayoutError::Owned { .. }), "{error}");
        export(
            &mut files,
            &tree(),
            &rightful,
            &rows(&[("Deployment", "api")]),
        )
        .unwrap();
    }
    // What the squatter still has goes when it no longer wants it, and nothing else does.
    export(&mut files, &tree(), &squatter, &Snapshot::default()).unwrap();
    assert_eq!(visible(&files), ["lab/team-a/deployment/api.yaml"]);
}

/// Also where a file of somebody else is in the place of a directory, or the other way round.
#[test]
fn a20_nothing_of_others_is_in_the_way_of_the_rightful_inventory() {
    let named = |name: &str| rows(&[("Pod", name)]);
    for (template, name) in [
        // A file where the directory of all documents has to be, and of the namespace.
        ("{sourceName}", "inventory"),
        ("{sourceName}", "lab"),
        ("{cluster}/{sourceName}", "team-a"),
        ("inventory/{sourceName}", "team-a"),
        ("{cluster}/{sourceNamespace}/{sourceName}", "deployment"),
        // A directory where a file has to be.
        (
            "{cluster}/{sourceNamespace}/deployment/{sourceName}/x",
            "api.yaml",
        ),
    ] {
        let mut files = Files::new();
        let spec = json!({"type": "git", "cluster": "lab", "layout": {
            "mode": "perResource", "pathTemplate": template,
        }});
        export(
            &mut files,
            &spec,
            &owner("team-b", "s", "squat"),
            &named(name),
        )
        .unwrap();
        let split = json!({"type": "git", "cluster": "lab", "layout": {"mode": "split"}});
        let rightful = owner("team-a", "s", "web");
        export(
            &mut files,
            &split,
            &rightful,
            &rows(&[("Deployment", "api")]),
        )
        .unwrap();
        for path in [
            "inventory/team-a/web.yaml",
            "lab/team-a/deployment/api.yaml",
        ] {
            assert!(visible(&files).contains(&path), "{template}: {files:?}");
        }
    }
    // What is in nobody's record is a person's, and stays.
    let theirs = RepoPath::clean("lab/team-a/deployment").unwrap();
    let mut files = Files::from([(theirs, b"by hand\n".to_vec())]);
    let rightful = owner("team-a", "s", "web");
    let error = export(
        &mut files,
        &tree(),
        &rightful,
        &rows(&[("Deployment", "api")]),
    );
    assert!(matches!(error, Err(LayoutError::Nested { .. })));
}

/// An inventory or a sink that was renamed: the old record belongs to nobody.
#[test]
fn b9_files_of_owners_that_are_gone_can_be_taken_over() {
    let pods = rows(&[("Deployment", "api")]);
    for (new, living, taken) in [
        // Renamed inventory, renamed sink.
        (
            owner("team-a", "s", "new"),
            Some(census(&[("new", "s")])),
            true,
        ),
        (
            owner("team-a", "t", "web"),
            Some(census(&[("web", "t")])),
            true,
        ),
        // Both are there, or nobody knows.
        (
            owner("team-a", "s", "new"),
            Some(census(&[("new", "s"), ("web", "s")])),
            false,
        ),
        (
            owner("team-a", "t", "web"),
            Some(census(&[("web", "s"), ("web", "t")])),
            false,
        ),
        (owner("team-a", "s", "new"), None, false),
        (owner("team-a", "s", "new"), Some(Census::default()), false),
    ] {
        let mut files = Files::new();
        export(&mut files, &tree(), &owner("team-a", "s", "web"), &pods).unwrap();
        let new = match &living {
            Some(census) => new.among(census),
            None => new,
        };
        let result = export(&mut files, &tree(), &new, &pods);
        assert_eq!(result.is_ok(), taken, "{new:?}");
        let records = files.keys().filter(|path| path.starts_with(".kollect/"));
        assert_eq!(records.count(), 1, "one of them has all of it: {files:?}");
        assert_eq!(visible(&files), ["lab/team-a/deployment/api.yaml"]);
    }
    // Another cluster, and another namespace, cannot be judged.
    let mut files = Files::new();
    let elsewhere = InventoryId::namespaced("team-a", "web");
    let elsewhere = FileOwner::new("team-a", "s", "east", &elsewhere);
    let shared = json!({"type": "git", "cluster": "lab", "layout": {
        "mode": "perResource", "pathTemplate": "{sourceName}{extension}",
    }});
    for other in [elsewhere, owner("team-b", "s", "web")] {
        files.clear();
        export(&mut files, &shared, &other, &pods).unwrap();
        let new = owner("team-a", "s", "new").among(&census(&[("new", "s")]));
        let error = export(&mut files, &shared, &new, &pods).unwrap_err();
        assert!(matches!(error, LayoutError::Owned { .. }), "{error}");
    }
}

fn item(name: &str, attributes: &Value) -> Row {
    let item = json!({
        "namespace": "team-a", "name": name, "group": "apps", "kind": "Deployment",
        "uid": format!("uid-{name}"), "attributes": attributes,
    });
    serde_json::from_value::<Item>(item).expect("an item").row()
}

fn whole(name: &str) -> Row {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}});
    item(name, &json!({"resource": object}))
}

fn known(keys: &[&str]) -> Embedding {
    Embedding::Known(keys.iter().map(|key| (*key).to_owned()).collect())
}

/// One row of attributes among manifests turns no tree into a document.
#[test]
fn b10_no_row_turns_a_tree_into_a_document() {
    let manifests = Snapshot::new([whole("a"), whole("b")]);
    let mixed = Snapshot::new([whole("a"), whole("b"), item("c", &json!({"n": 1}))]);
    let parts = Snapshot::new([item("c", &json!({"n": 1}))]);
    let none = Snapshot::default();
    let spec = json!({"type": "git", "cluster": "lab"});
    let layout = layout(&spec).unwrap();
    let one = owner("team-a", "s", "web");
    for (embedding, first, tree) in [
        (known(&["resource"]), &manifests, true),
        (known(&["resource"]), &none, true),
        (known(&[]), &manifests, false),
        (Embedding::Unknown, &manifests, true),
        (Embedding::Unknown, &parts, false),
    ] {
        let mut files = Files::new();
        for (step, rows) in [first, &mixed, &parts, &manifests, &mixed]
            .iter()
            .enumerate()
        {
            // Nobody knows the profiles for a while: what stands stays.
            let embedding = if step == 2 {
                Embedding::Unknown
            } else {
                embedding.clone()
            };
            let documents = DocumentOptions {
                embedding,
                ..DocumentOptions::default()
            };
            let header = header(&one.inventory, &documents);
            let plan = plan_everything(&layout, &one, &header, rows, &files).unwrap();
            apply(&mut files, &plan);
            let document = visible(&files).contains(&"inventory/team-a/web.yaml");
            assert_eq!(document, !tree, "{documents:?} {step}");
            let expected = if tree { rows.len() } else { 1 };
            assert_eq!(visible(&files).len(), expected, "{documents:?} {step}");
        }
    }
}

/// What is left out is counted and named.
#[test]
fn b10_rows_without_a_manifest_are_counted_and_named() {
    let spec = json!({"type": "git", "cluster": "lab", "layout": {
        "mode": "perResource", "content": "manifest",
    }});
    let layout = layout(&spec).unwrap();
    let one = owner("team-a", "s", "web");
    let documents = DocumentOptions::default();
    let header = header(&one.inventory, &documents);
    let mixed = Snapshot::new([
        whole("a"),
        item("z", &json!({"n": 1})),
        item("c", &json!({"n": 1})),
    ]);
    let files = Files::new();
    let plan = plan_everything(&layout, &one, &header, &mixed, &files).unwrap();
    let skipped = plan.skipped().expect("rows are left out");
    assert_eq!((skipped.rows, &*skipped.first), (2, "Deployment/team-a/c"));
    let whole = Snapshot::new([whole("a")]);
    let plan = plan_everything(&layout, &one, &header, &whole, &files).unwrap();
    assert_eq!(plan.skipped(), None);
}
