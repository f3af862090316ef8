//! Repositories that several owners write to: everybody's files are there, and nobody else's.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use kollect_api::InventoryId;
use kollect_inventory::{Delta, Row, Snapshot};
use kollect_sinks::{
    DocumentOptions,
    layout::{
        FileOwner, LayoutError, Places, Plan, RepoPath, plan_changes, plan_everything,
        plan_release, preview::preview,
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rows::{Item, header, layout};

pub(crate) type Files = BTreeMap<RepoPath, Vec<u8>>;

fn owner(sink: &str, name: &str) -> FileOwner {
    FileOwner::new(
        "team-a",
        sink,
        "lab",
        &InventoryId::namespaced("team-a", name),
    )
}

pub(crate) fn row(kind: &str, name: &str, value: u32) -> Row {
    let item = json!({
        "namespace": "team-a",
        "name": name,
        "group": "apps",
        "kind": kind,
        "uid": format!("uid-{kind}-{name}"),
        "attributes": {"n": value},
    });
    serde_json::from_value::<Item>(item).expect("an item").row()
}

pub(crate) fn rows(rows: &[(&str, &str)]) -> Snapshot {
    Snapshot::new(rows.iter().map(|(kind, name)| row(kind, name, 0)))
}

pub(crate) fn apply(files: &mut Files, plan: &Plan<'_>) {
    for path in plan.removals() {
        files.remove(path);
    }
    for file in plan.files() {
        let file = file.expect("a file");
        files.insert(file.path, file.body.into_bytes());
    }
}

pub(crate) fn export(
    files: &mut Files,
    spec: &Value,
    owner: &FileOwner,
    rows: &Snapshot,
) -> Result<Option<Places>, LayoutError> {
    export_at(files, spec, owner, rows, 4)
}

fn export_at(
    files: &mut Files,
    spec: &Value,
    owner: &FileOwner,
    rows: &Snapshot,
    generation: i64,
) -> Result<Option<Places>, LayoutError> {
    let layout = layout(spec)?;
    let documents = DocumentOptions {
        max_bytes: NonZeroU64::new(600),
        ..DocumentOptions::default()
    };
    let mut header = header(&owner.inventory, &documents);
    header.generation = generation;
    let plan = plan_everything(&layout, owner, &header, rows, files)?;
    apply(files, &plan);
    Ok(plan.into_places())
}

/// What is there, without records.
pub(crate) fn visible(files: &Files) -> Vec<&str> {
    let paths = files.keys().map(RepoPath::as_str);
    paths
        .filter(|path| !path.starts_with(".kollect/"))
        .collect()
}

pub(crate) fn tree() -> Value {
    json!({"type": "git", "cluster": "lab", "layout": {"mode": "perResource"}})
}

#[test]
fn v32_v34_what_is_gone_is_removed_even_if_its_directory_goes_with_it() {
    let mut files = Files::new();
    let one = owner("s", "one");
    let both = rows(&[
        ("Deployment", "api"),
        ("Deployment", "web"),
        ("ConfigMap", "cfg"),
    ]);
    export(&mut files, &tree(), &one, &both).unwrap();
    assert_eq!(visible(&files).len(), 3);
    export(&mut files, &tree(), &one, &rows(&[("Deployment", "api")])).unwrap();
    assert_eq!(visible(&files), ["lab/team-a/deployment/api.yaml"]);
    export(&mut files, &tree(), &one, &Snapshot::default()).unwrap();
    assert_eq!(visible(&files), [""; 0]);
    assert_eq!(
        files.len(),
        1,
        "the record stays, and says that nothing is left"
    );
}

#[test]
fn v33_leftovers_from_before_there_were_records() {
    let mut files = Files::new();
    // As a release without records left it: the rows are there, the record is not.
    export(
        &mut files,
        &tree(),
        &owner("s", "one"),
        &rows(&[("Pod", "keep"), ("Pod", "stale")]),
    )
    .unwrap();
    files.retain(|path, _| !path.starts_with(".kollect/"));
    for (path, text) in [
        ("lab/team-a/pod/nested/child.yaml", "x: 1\n"),
        ("lab/team-a/pod/by-hand.yaml", "kind: Pod\nuid: x\n"),
        ("lab/team-a/pod/README.md", "# read me\n"),
        ("lab/team-a/other/stale.yaml", "x: 1\n"),
    ] {
        files.insert(RepoPath::clean(path).unwrap(), text.into());
    }
    export(
        &mut files,
        &tree(),
        &owner("s", "one"),
        &rows(&[("Pod", "keep")]),
    )
    .unwrap();
    assert_eq!(
        visible(&files),
        [
            "lab/team-a/other/stale.yaml",
            "lab/team-a/pod/README.md",
            "lab/team-a/pod/by-hand.yaml",
            "lab/team-a/pod/keep.yaml",
            "lab/team-a/pod/nested/child.yaml",
        ]
    );
}

#[test]
fn v35_inventories_do_not_touch_each_other() {
    let mut files = Files::new();
    export(
        &mut files,
        &tree(),
        &owner("s", "one"),
        &rows(&[("Deployment", "a")]),
    )
    .unwrap();
    export(
        &mut files,
        &tree(),
        &owner("s", "two"),
        &rows(&[("Deployment", "b")]),
    )
    .unwrap();
    let both = [
        "lab/team-a/deployment/a.yaml",
        "lab/team-a/deployment/b.yaml",
    ];
    assert_eq!(visible(&files), both);
    export(
        &mut files,
        &tree(),
        &owner("s", "one"),
        &rows(&[("Deployment", "a")]),
    )
    .unwrap();
    assert_eq!(visible(&files), both);

    // The same object in a second inventory would be written by two owners in turn.
    let error = export(
        &mut files,
        &tree(),
        &owner("s", "two"),
        &rows(&[("Deployment", "a")]),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("layout collision"), "{error}");
    assert!(
        error.contains(".kollect/owners/lab/team-a.s/namespaces/team-a/one"),
        "{error}"
    );
    assert_eq!(visible(&files), both);

    // Once the first is no more, its files are free.
    for path in plan_release(&owner("s", "one"), &files).unwrap() {
        files.remove(&path);
    }
    export(
        &mut files,
        &tree(),
        &owner("s", "two"),
        &rows(&[("Deployment", "a")]),
    )
    .unwrap();
    assert_eq!(visible(&files), ["lab/team-a/deployment/a.yaml"]);
}

#[test]
fn a_change_of_layout_format_or_parts_leaves_nothing_behind() {
    let mut files = Files::new();
    let one = owner("s", "one");
    let many = rows(&[("Pod", "a"), ("Pod", "b"), ("Pod", "c"), ("Pod", "d")]);
    let few = rows(&[("Pod", "a")]);
    let document = json!({"type": "git", "cluster": "lab"});
    let json = json!({"type": "git", "cluster": "lab", "serialization": {"format": "json"}});
    let ndjson = json!({"type": "git", "cluster": "lab", "serialization": {"format": "ndjson"}});
    let split = json!({"type": "git", "cluster": "lab", "layout": {"mode": "split"}});
    export(&mut files, &document, &one, &many).unwrap();
    assert!(
        visible(&files).len() > 2,
        "parts and their manifest: {:?}",
        visible(&files)
    );
    export(&mut files, &document, &one, &few).unwrap();
    assert_eq!(visible(&files), ["inventory/team-a/one.yaml"]);
    export(&mut files, &json, &one, &few).unwrap();
    assert_eq!(visible(&files), ["inventory/team-a/one.json"]);
    export(&mut files, &split, &one, &few).unwrap();
    assert_eq!(
        visible(&files),
        ["inventory/team-a/one.yaml", "lab/team-a/pod/a.yaml"]
    );
    export(&mut files, &ndjson, &one, &few).unwrap();
    assert_eq!(visible(&files), ["inventory/team-a/one.ndjson"]);
    export(&mut files, &ndjson, &one, &Snapshot::default()).unwrap();
    assert_eq!(visible(&files), [""; 0]);
    export(&mut files, &document, &one, &Snapshot::default()).unwrap();
    assert_eq!(
        files[&RepoPath::clean("inventory/team-a/one.yaml").unwrap()],
        b"[]\n"
    );
}

#[test]
fn documents_of_earlier_generations_stay_unless_pruning_is_asked_for() {
    let template = "inventory/{namespace}/{name}-{generation}{extension}";
    let keep = json!({"type": "git", "pathTemplate": template});
    let prune = json!({"type": "git", "pathTemplate": template, "git": {"prune": true}});
    let one = owner("s", "one");
    let mut files = Files::new();
    export_at(
        &mut files,
        &keep,
        &one,
        &rows(&[("Pod", "a"), ("Pod", "b"), ("Pod", "c")]),
        1,
    )
    .unwrap();
    let parts = visible(&files).len();
    assert!(parts > 2);
    export_at(&mut files, &keep, &one, &rows(&[("Pod", "a")]), 2).unwrap();
    assert_eq!(visible(&files).len(), parts + 1);
    export_at(&mut files, &prune, &one, &rows(&[("Pod", "a")]), 3).unwrap();
    assert_eq!(visible(&files), ["inventory/team-a/one-3.yaml"]);
}

#[test]
fn files_and_directories_of_others_are_not_replaced() {
    let spec = json!({"type": "git", "layout": {"mode": "perResource", "pathTemplate": "{kind}/{sourceName}"}});
    for theirs in ["pod", "pod/a/theirs.txt"] {
        let mut files = Files::from([(RepoPath::clean(theirs).unwrap(), b"x".to_vec())]);
        let error = export(
            &mut files,
            &spec,
            &owner("s", "one"),
            &rows(&[("Pod", "a")]),
        );
        assert!(matches!(error, Err(LayoutError::Nested { .. })), "{theirs}");
        assert_eq!(visible(&files), [theirs]);
    }
}

fn pods() -> impl Strategy<Value = BTreeMap<u8, u32>> {
    prop::collection::btree_map(0..40_u8, 0..3_u32, 0..30)
}

fn snapshot(pods: &BTreeMap<u8, u32>) -> Snapshot {
    Snapshot::new(
        pods.iter()
            .map(|(name, value)| row("Pod", &format!("p{name}"), *value)),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A repository that followed changes is the repository that was written from all rows, and
    /// what others have there is untouched.
    #[test]
    fn plans_of_changes_lead_to_plans_of_everything(
        states in prop::collection::vec(pods(), 2..5),
    ) {
        let spec = tree();
        let layout = layout(&spec).unwrap();
        let one = owner("s", "one");
        let mut start = Files::new();
        export(&mut start, &spec, &owner("t", "other"), &rows(&[("Pod", "theirs")])).unwrap();
        let mut files = start.clone();
        let mut before = snapshot(&states[0]);
        let mut places = export(&mut files, &spec, &one, &before).unwrap().unwrap();
        for state in &states[1..] {
            let after = snapshot(state);
            let documents = DocumentOptions::default();
    let header = header(&one.inventory, &documents);
            let delta = Delta::between(&before, &after);
            let plan = plan_changes(&layout, &one, &header, places, &delta, &files).unwrap();
            apply(&mut files, &plan);
            places = plan.into_places().unwrap();
            let mut expected = start.clone();
            export(&mut expected, &spec, &one, &after).unwrap();
            prop_assert_eq!(&files, &expected);
            before = after;
        }
    }
}

#[test]
fn v41_v42_previews() {
    for (spec, expected) in [
        (
            json!({"type": "git"}),
            json!({"objectPath": "inventory/team-a/api.yaml", "serializationFormat": "yaml", "provisioningMode": "ensure", "layout": {"mode": "document", "content": "item", "prune": false, "samplePaths": ["inventory/team-a/api.yaml"]}}),
        ),
        (
            json!({"type": "git", "cluster": "prod-west", "layout": {"mode": "split"}}),
            json!({"objectPath": "inventory/team-a/api.yaml", "serializationFormat": "yaml", "provisioningMode": "ensure", "layout": {"mode": "split", "content": "item", "prune": true, "samplePaths": ["inventory/team-a/api.yaml", "prod-west/team-a/deployment/api.yaml", "prod-west/team-a/deployment/web.yaml"]}}),
        ),
        (
            json!({"type": "git", "layout": {"mode": "perResource", "content": "manifest"}, "git": {"prune": true}}),
            json!({"objectPath": "inventory/team-a/api.yaml", "serializationFormat": "yaml", "provisioningMode": "ensure", "layout": {"mode": "perResource", "content": "manifest", "prune": true, "samplePaths": ["default/team-a/deployment/api.yaml", "default/team-a/deployment/web.yaml", "default/team-a/deployment/cache.yaml"]}}),
        ),
        (
            json!({"type": "git", "git": {"prune": true}, "layout": {"mode": "perResource", "pathTemplate": "collide/{kind}{extension}"}}),
            json!({"objectPath": "inventory/team-a/api.yaml", "serializationFormat": "yaml", "provisioningMode": "ensure", "layout": {"mode": "perResource", "content": "item", "prune": true, "samplePaths": ["inventory/team-a/api.yaml"]}}),
        ),
        (
            json!({"type": "gitlab", "git": {"prune": true}}),
            json!({"objectPath": "inventory/team-a/api.yaml", "serializationFormat": "yaml", "provisioningMode": "ensure", "layout": {"mode": "document", "content": "item", "prune": true, "samplePaths": ["inventory/team-a/api.yaml"]}}),
        ),
        (
            json!({"type": "s3"}),
            json!({"objectPath": "inventory/team-a/api.json", "serializationFormat": "json", "provisioningMode": "ensure"}),
        ),
        (
            json!({"type": "s3", "serialization": {"format": "parquet"}, "provisioning": {"mode": "existing"}}),
            json!({"objectPath": "inventory/cluster_name=default/inventory=team-a.api/part-0001.parquet", "serializationFormat": "parquet", "provisioningMode": "existing", "warnings": [
                "provisioning.mode=existing: kollect will NOT create destination resources; preflight verifies existence",
                "serialization.format=parquet: typed identity columns + JSON attributes + optional hotAttributes",
            ]}),
        ),
    ] {
        let snapshot = serde_json::from_value(spec.clone()).expect("a snapshot sink");
        let found = preview(&kollect_api::sink::SinkSpec::Snapshot(snapshot));
        let mut expected = expected;
        expected["inputSampleSource"] = json!("synthetic");
        assert_eq!(serde_json::to_value(found).unwrap(), expected, "{spec}");
    }
}
