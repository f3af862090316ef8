//! Files come, change and go, and only those that have to.

use kollect_api::{InventoryId, SinkKey, reference::SinkFamily};
use kollect_sinks::{Demand, SinkError};
use serde_json::json;

use crate::{
    stage::{Stage, changes, everything, inventory, row, row_in},
    vectors::{a, b},
};

/// V04, V32 and V34: also the last file of a directory goes.
#[tokio::test]
async fn v34_files_of_rows_that_are_gone_go() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    assert_eq!(sink.demand(), Demand::Changes);
    sink.deliver(&everything(&inventory(), &[a(), b()]))
        .await
        .unwrap();
    assert_eq!(
        stage.paths(),
        [
            "prod-west/team-a/configmap/cfg.yaml",
            "prod-west/team-a/deployment/api.yaml"
        ]
    );
    let receipt = sink
        .deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    assert_eq!(receipt.removed, 1);
    assert_eq!(stage.paths(), ["prod-west/team-a/deployment/api.yaml"]);
    // The same through changes, and back.
    sink.deliver(&changes(&inventory(), &[a()], &[a(), b()]))
        .await
        .unwrap();
    sink.deliver(&changes(&inventory(), &[a(), b()], &[b()]))
        .await
        .unwrap();
    assert_eq!(stage.paths(), ["prod-west/team-a/configmap/cfg.yaml"]);
    assert_eq!(stage.commits(), 4);
    stage.assert_linear();
}

/// V35: inventories share directories without touching each other's files.
#[tokio::test]
async fn v35_inventories_share_directories() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    let (one, two) = (
        InventoryId::namespaced("team-a", "one"),
        InventoryId::namespaced("team-a", "two"),
    );
    let of_one = row("Deployment", "a", &json!({ "n": 1 }));
    let of_two = row("Deployment", "b", &json!({ "n": 2 }));
    sink.deliver(&everything(&one, std::slice::from_ref(&of_one)))
        .await
        .unwrap();
    sink.deliver(&everything(&two, std::slice::from_ref(&of_two)))
        .await
        .unwrap();
    sink.deliver(&everything(&one, &[of_one])).await.unwrap();
    let both = [
        "prod-west/team-a/deployment/a.yaml",
        "prod-west/team-a/deployment/b.yaml",
    ];
    assert_eq!(stage.paths(), both);
    sink.deliver(&everything(&one, &[])).await.unwrap();
    assert_eq!(stage.paths(), both[1..]);
}

/// V36: an empty inventory says so.
#[tokio::test]
async fn v36_no_rows_are_an_empty_document_or_no_files() {
    let stage = Stage::start();
    let sink = stage.sink(json!({}));
    sink.deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    sink.deliver(&everything(&inventory(), &[])).await.unwrap();
    assert_eq!(stage.visible()["inventory/team-a/web.yaml"], "[]\n");

    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    sink.deliver(&everything(&inventory(), &[a(), b()]))
        .await
        .unwrap();
    sink.deliver(&everything(&inventory(), &[])).await.unwrap();
    assert!(stage.visible().is_empty());
    let lines = stage.sink(json!({ "serialization": { "format": "ndjson" } }));
    lines
        .deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    lines.deliver(&everything(&inventory(), &[])).await.unwrap();
    assert!(stage.visible().is_empty());
}

/// Another layout or format leaves nothing of the old one behind.
#[tokio::test]
async fn p1_a_changed_layout_leaves_nothing_behind() {
    let stage = Stage::start();
    let rows = [a(), b()];
    for (spec, paths) in [
        (
            json!({ "layout": { "mode": "perResource" } }),
            vec![
                "prod-west/team-a/configmap/cfg.yaml",
                "prod-west/team-a/deployment/api.yaml",
            ],
        ),
        (
            json!({ "layout": { "mode": "perResource" }, "serialization": { "format": "json" } }),
            vec![
                "prod-west/team-a/configmap/cfg.json",
                "prod-west/team-a/deployment/api.json",
            ],
        ),
        (
            json!({ "layout": { "mode": "perResource", "pathTemplate": "{kind}/{sourceName}{extension}" } }),
            vec!["configmap/cfg.yaml", "deployment/api.yaml"],
        ),
    ] {
        stage
            .sink(spec)
            .deliver(&everything(&inventory(), &rows))
            .await
            .unwrap();
        assert_eq!(stage.paths(), paths);
    }
}

/// Files of people stay, also next to ours; a file of ours that somebody changed is put right by the
/// next full pass.
#[tokio::test]
async fn files_of_others_stay_and_ours_are_repaired() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    sink.deliver(&everything(&inventory(), &[a(), b()]))
        .await
        .unwrap();
    stage.foreign_commit("README.md", Some("read me"));
    stage.foreign_commit("prod-west/team-a/deployment/notes.txt", Some("notes"));
    stage.foreign_commit("prod-west/team-a/deployment/api.yaml", Some("tampered"));
    stage.foreign_commit("prod-west/team-a/configmap/cfg.yaml", None);
    // A change of another row does not look at them.
    let c = row("Secret", "s", &json!({}));
    sink.deliver(&changes(&inventory(), &[a(), b()], &[a(), b(), c.clone()]))
        .await
        .unwrap();
    assert_eq!(
        stage.visible()["prod-west/team-a/deployment/api.yaml"],
        "tampered"
    );
    sink.deliver(&everything(&inventory(), &[a(), b(), c]))
        .await
        .unwrap();
    let files = stage.visible();
    assert_eq!(
        files.keys().map(String::as_str).collect::<Vec<_>>(),
        [
            "README.md",
            "prod-west/team-a/configmap/cfg.yaml",
            "prod-west/team-a/deployment/api.yaml",
            "prod-west/team-a/deployment/notes.txt",
            "prod-west/team-a/secret/s.yaml",
        ]
    );
    assert!(files["prod-west/team-a/deployment/api.yaml"].contains("nginx:1.27"));
    stage.assert_linear();
}

/// One row among many: one blob, the directories above it, one commit.
#[tokio::test]
async fn one_changed_row_is_one_blob_its_trees_and_a_commit() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    let rows: Vec<_> = (0..2_000)
        .map(|n| {
            let namespace = format!("ns-{}", n % 20);
            row_in(
                &namespace,
                "Deployment",
                &format!("app-{n:04}"),
                &json!({ "n": n }),
            )
        })
        .collect();
    sink.deliver(&everything(&inventory(), &rows))
        .await
        .unwrap();
    let before = stage.objects();
    let mut changed = rows.clone();
    changed[7] = row_in("ns-7", "Deployment", "app-0007", &json!({ "n": "changed" }));
    let receipt = sink
        .deliver(&changes(&inventory(), &rows, &changed))
        .await
        .unwrap();
    assert_eq!((receipt.written, receipt.removed), (1, 0));
    // deployment, ns-7, prod-west and the root; no record of ownership changes.
    assert_eq!(stage.objects() - before, 1 + 4 + 1);
    let diff = stage
        .repository
        .git(&["diff", "--name-status", "main~1", "main"])
        .unwrap();
    assert_eq!(diff, "M\tprod-west/ns-7/deployment/app-0007.yaml");
}

/// A document too large to be held in memory as a whole is written like any other.
#[tokio::test]
async fn a_large_document_is_streamed() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "serialization": { "format": "json" } }));
    let mut rows: Vec<_> = (0..8_000)
        .map(|n| row("Deployment", &format!("app-{n:05}"), &json!({ "n": n })))
        .collect();
    sink.deliver(&everything(&inventory(), &rows))
        .await
        .unwrap();
    rows[17] = row("Deployment", "app-00017", &json!({ "n": "changed" }));
    sink.deliver(&everything(&inventory(), &rows))
        .await
        .unwrap();
    let again = sink
        .deliver(&everything(&inventory(), &rows))
        .await
        .unwrap();
    assert_eq!(again.note, None);
    let document = &stage.visible()["inventory/team-a/web.json"];
    assert!(document.len() > 1 << 20, "{}", document.len());
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    assert_eq!(document["items"].as_array().unwrap().len(), 8_000);
    assert_eq!(document["items"][17]["attributes"]["n"], "changed");
    assert_eq!(stage.commits(), 2);
}

/// Changes need what was left there.
#[tokio::test]
async fn changes_to_a_replaced_branch_ask_for_everything() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    let nothing_yet = sink.deliver(&changes(&inventory(), &[], &[a()])).await;
    assert!(
        matches!(nothing_yet, Err(SinkError::OutOfStep(_))),
        "{nothing_yet:?}"
    );
    sink.deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    let tip = stage.tip();
    sink.deliver(&everything(&inventory(), &[a(), b()]))
        .await
        .unwrap();
    stage
        .repository
        .git(&["update-ref", "refs/heads/main", &tip])
        .unwrap();
    let c = row("Secret", "s", &json!({}));
    let rewound = sink
        .deliver(&changes(&inventory(), &[a(), b()], &[a(), b(), c.clone()]))
        .await;
    assert!(
        matches!(rewound, Err(SinkError::OutOfStep(_))),
        "{rewound:?}"
    );
    sink.deliver(&everything(&inventory(), &[a(), b(), c]))
        .await
        .unwrap();
    assert_eq!(stage.paths().len(), 3);
}

/// What becomes of the files of an inventory that is no more is a choice (S33 of the export
/// timelines).
#[tokio::test]
async fn s33_files_of_a_deleted_inventory_stay_unless_asked_otherwise() {
    for (option, left) in [(None, 2), (Some("retain"), 2), (Some("prune"), 0)] {
        let stage = Stage::start();
        let mut spec = json!({ "layout": { "mode": "perResource" } });
        if let Some(option) = option {
            spec["options"] = json!({ "onInventoryDelete": option });
        }
        let sink = stage.sink(spec);
        sink.deliver(&everything(&inventory(), &[a(), b()]))
            .await
            .unwrap();
        sink.retire(&inventory()).await.unwrap();
        sink.retire(&inventory()).await.unwrap();
        assert_eq!(stage.visible().len(), left, "{option:?}");
    }
}

/// What a deleted inventory left belongs to nobody: another one may have it, through another sink.
#[tokio::test]
async fn b9_what_was_retired_can_be_taken_over() {
    let stage = Stage::start();
    let spec = json!({ "layout": { "mode": "perResource" } });
    let old = stage.sink(spec.clone());
    old.deliver(&everything(&inventory(), &[a(), b()]))
        .await
        .unwrap();
    let mut sketch = stage.sketch(spec);
    sketch.name = "git-renamed".into();
    let renamed = stage.build(&sketch).unwrap();
    let fresh = InventoryId::namespaced("team-a", "renamed");
    let refused = renamed.deliver(&everything(&fresh, &[a()])).await;
    assert!(
        matches!(refused, Err(SinkError::Terminal(_))),
        "{refused:?}"
    );
    old.retire(&inventory()).await.unwrap();
    assert_eq!(stage.visible().len(), 2, "the files stay");
    assert_eq!(stage.files().len(), 2, "the record does not");
    renamed.deliver(&everything(&fresh, &[a()])).await.unwrap();
    // The same without a chance to retire: nobody uses the first sink any more.
    sketch.name = "git-renamed-again".into();
    sketch.census.learn(Some(
        [(
            fresh.clone(),
            SinkKey::new(SinkFamily::Snapshot, "team-a", "git-renamed-again"),
        )]
        .into(),
    ));
    let again = stage.build(&sketch).unwrap();
    again.deliver(&everything(&fresh, &[a()])).await.unwrap();
    again
        .deliver(&changes(&fresh, &[a()], &[a(), b()]))
        .await
        .unwrap();
    let records = stage.files().into_keys();
    let records: Vec<String> = records
        .filter(|path| path.starts_with(".kollect/"))
        .collect();
    assert!(
        records.len() == 1 && records[0].contains("git-renamed-again"),
        "{records:?}"
    );
}

/// Manifests are asked for and some rows carry none: the receipt counts and names them, also when
/// only changes are delivered.
#[tokio::test]
async fn b10_rows_that_are_left_out_are_in_the_receipt() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource", "content": "manifest" } }));
    let object = json!({ "resource": { "apiVersion": "v1", "kind": "ConfigMap", "data": {} } });
    let whole = row("ConfigMap", "whole", &object);
    let receipt = sink
        .deliver(&everything(&inventory(), &[whole.clone(), a()]))
        .await
        .unwrap();
    let skipped = receipt.skipped.expect("a row is left out");
    assert_eq!(
        (skipped.rows, &*skipped.first),
        (1, "Deployment/team-a/api")
    );
    let receipt = sink
        .deliver(&changes(
            &inventory(),
            &[whole.clone(), a()],
            &[whole.clone(), a(), b()],
        ))
        .await
        .unwrap();
    assert_eq!(receipt.skipped.map(|skipped| skipped.rows), Some(2));
    let receipt = sink
        .deliver(&changes(&inventory(), &[whole.clone(), a(), b()], &[whole]))
        .await
        .unwrap();
    assert_eq!(receipt.skipped, None);
}

/// Links in the branch are no way out.
#[tokio::test]
async fn links_are_neither_followed_nor_overwritten_by_accident() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    sink.deliver(&everything(&inventory(), &[b()]))
        .await
        .unwrap();
    link(&stage, "/etc", "prod-west/team-a/deployment");
    let through = sink.deliver(&everything(&inventory(), &[a(), b()])).await;
    assert!(
        matches!(through, Err(SinkError::Terminal(_))),
        "{through:?}"
    );
    assert!(
        through
            .unwrap_err()
            .message()
            .contains("deployment/api.yaml")
    );
}

fn link(stage: &Stage, target: &str, path: &str) {
    let clone = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let status = stage
            .server
            .git_command()
            .current_dir(clone.path())
            .args(args)
            .status()
            .unwrap();
        assert!(status.success(), "git {args:?}");
    };
    let url = stage.repository.path().to_string_lossy().into_owned();
    git(&["clone", "--quiet", "--branch", "main", &url, "."]);
    std::os::unix::fs::symlink(target, clone.path().join(path)).unwrap();
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "link"]);
    git(&["push", "--quiet", "origin", "HEAD:main"]);
}
