//! Inventories in a repository: what the operator knows of profiles and owners reaches the files.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::stage::Stage;

/// The files of the branch.
fn files(repository: &Path) -> Result<Vec<String>> {
    let listing = Command::new("git")
        .arg("--git-dir")
        .arg(repository)
        .args(["ls-tree", "-r", "--name-only", "main"])
        .output()?;
    ensure!(listing.status.success(), "there is no branch yet");
    let text = String::from_utf8(listing.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn records(repository: &Path) -> Result<Vec<String>> {
    let mut files = files(repository)?;
    files.retain(|path| path.starts_with(".kollect/"));
    Ok(files)
}

fn trees(repository: &Path) -> Result<Vec<String>> {
    let mut files = files(repository)?;
    files.retain(|path| !path.starts_with(".kollect/"));
    Ok(files)
}

fn sink(stage: &Stage, name: &str, repository: &Path, layout: &Value) -> Result<()> {
    let spec = json!({
        "type": "git", "cluster": "east", "layout": layout,
        "endpoint": format!("file://{}", repository.display()), "git": {},
    });
    stage.apply("KollectSnapshotSink", name, &spec)
}

fn inventory(stage: &Stage, sink: &str) -> Result<()> {
    let spec = json!({
        "snapshotSinkRefs": [{"name": sink}], "exportMinInterval": "0s",
    });
    stage.apply("KollectInventory", "inv", &spec)
}

fn message(stage: &Stage, condition: &str) -> Result<String> {
    let status = stage.status()?;
    let all = status["conditions"].as_array().context("conditions")?;
    let found = all.iter().find(|said| said["type"] == condition);
    let message = found.and_then(|said| said["message"].as_str());
    Ok(message.context("it says nothing")?.to_owned())
}

#[test]
fn b9_b10_files_follow_profiles_and_owners() -> Result<()> {
    let mut stage = Stage::new()?;
    let directory = tempfile::tempdir()?;
    let repository = directory.path().join("files.git");
    let made = Command::new("git")
        .args(["init", "--quiet", "--bare", "--initial-branch=main"])
        .arg(&repository)
        .status()?;
    ensure!(made.success());
    let work = directory.path().join("mirrors");
    let work = format!("--work-dir={}", work.display());
    let arguments = ["--allow-local-repositories", &work];

    // Rows of attributes under a layout of manifests: left out, and told.
    let manifests = json!({"mode": "perResource", "content": "manifest"});
    sink(&stage, "manifests", &repository, &manifests)?;
    let whole = json!({
        "targetGVK": {"version": "v1", "kind": "ConfigMap"}, "export": {"mode": "Resource"},
    });
    stage.apply("KollectProfile", "whole", &whole)?;
    let target = json!({"profileRef": "whole", "includedNamespaces": [stage.namespace]});
    stage.apply("KollectTarget", "whole", &target)?;
    stage.put("a", 1)?;
    stage.put("b", 2)?;
    inventory(&stage, "manifests")?;
    stage.start_with(&arguments)?;
    let place = format!("east/{}/configmap", stage.namespace);
    let tree = [format!("{place}/a.yaml"), format!("{place}/b.yaml")];
    stage.eventually("manifests", || {
        let found = trees(&repository)?;
        ensure!(found == tree, "{found:?}");
        Ok(())
    })?;
    stage.expect_conditions(&[
        "Degraded=True/RowsSkipped",
        "Ready=True/Exported",
        "SinkReachable=True/ExportSucceeded",
        "Synced=True/UpToDate",
    ])?;
    let told = message(&stage, "Degraded")?;
    let first = format!("ConfigMap/{}/a", stage.namespace);
    assert!(told.contains("2 row(s)") && told.contains(&first), "{told}");

    // Without those rows it is healthy.
    stage.delete("kollecttargets", "maps")?;
    let healthy = [
        "Ready=True/Exported",
        "SinkReachable=True/ExportSucceeded",
        "Synced=True/UpToDate",
    ];
    stage.expect_conditions(&healthy)?;

    // Another sink without a mode: the profiles make it a tree. The first one is deleted while
    // nobody could clean up, and its files are taken over.
    stage.kill()?;
    stage.delete("kollectsnapshotsinks", "manifests")?;
    sink(&stage, "renamed", &repository, &json!({}))?;
    inventory(&stage, "renamed")?;
    stage.start_with(&arguments)?;
    stage.eventually("the files have a new owner", || {
        let found = records(&repository)?;
        ensure!(
            found.len() == 1 && found[0].contains(".renamed/"),
            "{found:?}"
        );
        Ok(())
    })?;
    stage.expect_conditions(&healthy)?;
    assert_eq!(trees(&repository)?, tree);

    // One row of attributes more, and the tree is still a tree.
    let target = json!({"profileRef": "maps", "includedNamespaces": [stage.namespace]});
    stage.apply("KollectTarget", "maps", &target)?;
    stage.eventually("rows beside manifests", || {
        let found = trees(&repository)?;
        ensure!(found.len() == 4, "{found:?}");
        ensure!(
            found.iter().all(|path| path.starts_with(&place)),
            "{found:?}"
        );
        Ok(())
    })
}
