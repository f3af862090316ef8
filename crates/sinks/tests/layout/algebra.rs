//! The central law: the files of the old rows, changed as the delta says, are the files of the new
//! rows.

use std::collections::BTreeMap;

use kollect_api::InventoryId;
use kollect_inventory::{Delta, Row, Snapshot};
use kollect_sinks::{
    DocumentOptions,
    layout::{
        Layout, LayoutError, Nothing, Places, RepoPath,
        render::{render_all, render_changes},
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rows::{Item, header, layout};

type Files = BTreeMap<RepoPath, Vec<u8>>;

/// Names that become the same path, or nearly, or try to leave it.
fn names() -> impl Strategy<Value = String> {
    let nasty = prop::sample::select(vec![
        "a",
        "b",
        "a-b",
        "a:b",
        "a/b",
        "a.b",
        "..",
        "../a",
        ".git",
        ".GIT",
        "git~1",
        "a ",
        " a",
        "",
        "....",
        "system:node",
        "a\\b",
        "a\nb",
        "ü",
        "x.yaml",
        "apps",
        "core",
        "a-0b7e3c1a",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ]);
    prop_oneof![4 => nasty.prop_map(str::to_owned), 1 => "[a-c.:/-]{1,4}"]
}

fn attributes() -> impl Strategy<Value = Option<Value>> {
    let some = prop_oneof![
        (0..3_i32).prop_map(|number| json!({"n": number})),
        (0..3_i32).prop_map(|number| json!({
            "resource": {"apiVersion": "v1", "kind": "Pod", "spec": {"n": number}},
        })),
        (0..2_i32).prop_map(|number| json!({"resource": {"n": number}})),
    ];
    prop::option::weighted(0.9, some)
}

prop_compose! {
    fn item()(
        target_name in prop::sample::select(vec!["t", "u"]),
        namespace in prop_oneof![Just(String::new()), Just("n".to_owned()), names()],
        name in names(),
        group in prop::sample::select(vec!["", "apps", "a.b/c"]),
        kind in prop::sample::select(vec!["Pod", "pod", "A:B"]),
        uid in prop::sample::select(vec!["", "u1", "u2", "0b7e3c1a-5d2f-4e60-9a8b-c0ffee123456", "0b7e3c1a-0000-4e60-9a8b-c0ffee123456"]),
        attributes in attributes(),
    ) -> Row {
        Item {
            target_name: Some(target_name.to_owned()),
            namespace,
            name,
            group: group.to_owned(),
            kind: kind.to_owned(),
            uid: uid.to_owned(),
            attributes: attributes.and_then(|value| value.as_object().cloned()),
        }
        .row()
    }
}

fn layouts() -> impl Strategy<Value = Value> {
    let template = prop::sample::select(vec![
        "",
        "{cluster}/{group}/{kind}/{sourceName}{extension}",
        "{uid}",
        "{sourceNamespace}/{sourceName}",
        "{name}/all{extension}",
        "{kind}/{sourceName}.yml",
        "{targetName}/{sourceNamespace}-{sourceName}/{kind}.txt",
    ]);
    let format = prop::sample::select(vec!["yaml", "json", "ndjson"]);
    let content = prop::option::of(prop::sample::select(vec!["item", "attributes", "manifest"]));
    let longest = prop::sample::select(vec![3, 12, 63]);
    (template, format, content, longest).prop_map(|(template, format, content, longest)| {
        json!({
            "type": "git",
            "serialization": {"format": format},
            "layout": {
                "mode": "perResource",
                "content": content,
                "pathTemplate": template,
                "filename": {"maxSegmentLength": longest},
            },
        })
    })
}

fn everything(layout: &Layout, rows: &Snapshot) -> Result<(Files, Places), LayoutError> {
    let inventory = InventoryId::namespaced("team-a", "web");
    let documents = DocumentOptions::default();
    let header = header(&inventory, &documents);
    let rendering = render_all(layout, &header, rows, &Nothing)?;
    let mut files = Files::new();
    let mut count = 0;
    for file in rendering.files() {
        let file = file?;
        count += 1;
        files.insert(file.path, file.body.into_bytes());
    }
    assert_eq!(files.len(), count, "no two files share a path");
    for path in files.keys() {
        assert_eq!(RepoPath::clean(path).as_ref(), Ok(path), "a safe path");
        let inside = path
            .directories()
            .map(|directory| RepoPath::clean(directory).expect("safe"));
        for directory in inside {
            assert!(
                !files.contains_key(&directory),
                "{directory} is a file and a directory"
            );
        }
    }
    let missing = rows.len() - rendering.skipped();
    assert!(files.len() <= missing);
    Ok((files, rendering.into_places().expect("a tree")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn changes_lead_from_old_files_to_new_files(
        spec in layouts(),
        old in prop::collection::vec(item(), 0..12),
        kept in prop::collection::vec(any::<bool>(), 12),
        steps in prop::collection::vec(prop::collection::vec(item(), 0..6), 1..4),
    ) {
        let layout = layout(&spec).expect("a layout");
        let mut rows = Snapshot::new(old);
        // Rows that collide beyond help are an error in both ways of rendering; start from others.
        let Ok((mut files, mut places)) = everything(&layout, &rows) else {
            return Ok(());
        };
        for step in steps {
            let next = rows.rows().iter().zip(kept.iter().cycle());
            let next = next.filter(|(_, kept)| **kept).map(|(row, _)| row.clone());
            let next = Snapshot::new(next.chain(step));
            let delta = Delta::between(&rows, &next);
            let inventory = InventoryId::namespaced("team-a", "web");
            let documents = DocumentOptions::default();
    let header = header(&inventory, &documents);
            let expected = everything(&layout, &next);
            match render_changes(&layout, &header, places, &delta) {
                Ok(changes) => {
                    let (expected, fresh) = expected.map_err(|error| {
                        TestCaseError::fail(format!("changes went through, all rows did not: {error}"))
                    })?;
                    for path in &changes.removed {
                        prop_assert!(files.remove(path).is_some(), "{path} was not there");
                    }
                    for path in &changes.added {
                        prop_assert!(!files.contains_key(path), "{path} was there");
                    }
                    for file in changes.files() {
                        files.insert(file.path, file.body.into_bytes());
                    }
                    prop_assert_eq!(&files, &expected);
                    prop_assert_eq!(changes.places.skipped(), fresh.skipped());
                    places = changes.places;
                }
                Err(error) => {
                    prop_assert!(expected.is_err(), "all rows went through: {error}");
                    return Ok(());
                }
            }
            rows = next;
        }
    }

    #[test]
    fn the_order_of_rows_does_not_show(
        spec in layouts(),
        rows in prop::collection::vec(item(), 0..12),
    ) {
        let layout = layout(&spec).expect("a layout");
        // Of rows with one identity the last counts, so turning the order round needs unique ones.
        let unique = Snapshot::new(rows);
        let turned = Snapshot::new(unique.rows().iter().rev().cloned());
        let files = |rows| everything(&layout, rows).map(|(files, _)| files);
        prop_assert_eq!(files(&unique), files(&turned));
    }
}

/// One change among many rows touches one file.
#[test]
fn one_changed_row_is_one_written_file() {
    let item = |index: usize, value: usize| {
        Item {
            target_name: None,
            namespace: format!("n{}", index % 10),
            name: format!("web-{index}"),
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            uid: format!("uid-{index}"),
            attributes: json!({"n": value}).as_object().cloned(),
        }
        .row()
    };
    let layout =
        layout(&json!({"type": "git", "layout": {"mode": "perResource"}})).expect("a layout");
    let old = Snapshot::new((0..5_000).map(|index| item(index, 0)));
    let new = Snapshot::new((0..5_000).map(|index| item(index, usize::from(index == 77))));
    let (_, places) = everything(&layout, &old).expect("files");
    let inventory = InventoryId::namespaced("team-a", "web");
    let documents = DocumentOptions::default();
    let header = header(&inventory, &documents);
    let delta = Delta::between(&old, &new);
    let changes = render_changes(&layout, &header, places, &delta).expect("files");
    let written: Vec<String> = changes.files().map(|file| file.path.to_string()).collect();
    assert_eq!(written, ["default/n7/deployment/web-77.yaml"]);
    assert!(changes.added.is_empty() && changes.removed.is_empty());
}

/// Rows move aside when another row wants their path, and back when it is gone.
#[test]
fn rows_move_aside_and_back() {
    let item = |group: &str, uid: &str, target: &str, value: u32| {
        Item {
            target_name: Some(target.to_owned()),
            namespace: "n".to_owned(),
            name: "api".to_owned(),
            group: group.to_owned(),
            kind: "Deployment".to_owned(),
            uid: uid.to_owned(),
            attributes: json!({"n": value}).as_object().cloned(),
        }
        .row()
    };
    let apps = item("apps", "11111111", "t", 0);
    let copy = item("apps", "11111111", "u", 0);
    let changed_copy = item("apps", "11111111", "u", 1);
    let reborn = item("apps", "22222222", "t", 0);
    let extensions = item("extensions", "33333333", "t", 0);
    let plain = "default/n/deployment/api.yaml";
    let in_apps = "default/n/deployment/apps/api.yaml";
    let in_extensions = "default/n/deployment/extensions/api.yaml";
    let by_uid = [
        "default/n/deployment/api-11111111.yaml",
        "default/n/deployment/api-22222222.yaml",
    ];

    let layout =
        layout(&json!({"type": "git", "layout": {"mode": "perResource"}})).expect("a layout");
    let inventory = InventoryId::namespaced("team-a", "web");
    let documents = DocumentOptions::default();
    let header = header(&inventory, &documents);
    let mut before = Snapshot::new([apps.clone()]);
    let (_, mut places) = everything(&layout, &before).expect("files");
    for (rows, written, removed) in [
        (
            vec![&apps, &extensions],
            vec![in_apps, in_extensions],
            vec![plain],
        ),
        (vec![&extensions], vec![plain], vec![in_apps, in_extensions]),
        (vec![&apps], vec![plain], vec![]),
        (vec![&apps, &copy], vec![], vec![]),
        (vec![&copy], vec![plain], vec![]),
        (vec![&apps, &reborn], by_uid.to_vec(), vec![plain]),
        (vec![&reborn], vec![plain], by_uid.to_vec()),
        (vec![], vec![], vec![plain]),
        (vec![&apps], vec![plain], vec![]),
    ] {
        let after = Snapshot::new(rows.into_iter().cloned());
        let delta = Delta::between(&before, &after);
        let changes = render_changes(&layout, &header, places, &delta).expect("files");
        let paths: Vec<String> = changes.files().map(|file| file.path.to_string()).collect();
        assert_eq!(paths, written);
        let gone: Vec<&str> = changes.removed.iter().map(RepoPath::as_str).collect();
        assert_eq!(gone, removed);
        places = changes.places;
        before = after;
    }

    // Two targets that see one object differently have a file each.
    let after = Snapshot::new([apps, changed_copy]);
    let delta = Delta::between(&before, &after);
    let changes = render_changes(&layout, &header, places, &delta).expect("files");
    assert_eq!(changes.files().count(), 2);
}

/// How often random rows get to the comparison at all, so that the law is not proved on nothing.
#[test]
fn random_rows_do_meet_and_mostly_find_a_place() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let layout =
        layout(&json!({"type": "git", "layout": {"mode": "perResource"}})).expect("a layout");
    let (mut placed, mut contested) = (0, 0);
    for _ in 0..200 {
        let rows = prop::collection::vec(item(), 4..12)
            .new_tree(&mut runner)
            .expect("rows");
        let rows = Snapshot::new(rows.current());
        if let Ok((files, _)) = everything(&layout, &rows) {
            placed += 1;
            // Uids and groups in paths are only there for rows that moved aside.
            let aside = |path: &RepoPath| path.contains("-0b7e3c1a") || path.contains("/core/");
            contested += usize::from(files.keys().any(aside));
        }
    }
    assert!(placed > 150, "{placed} of 200 could be placed");
    assert!(contested > 20, "in {contested} of 200 rows moved aside");
}
