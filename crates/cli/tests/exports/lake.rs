//! Inventories in buckets: how often they are written under churn, and whose objects they are.
//!
//! `KOLLECT_CHURN_SECONDS` says for how long things change; `cargo xtask soak` asks for five minutes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{
    S3,
    s3::{ACCESS_KEY, Bucket},
};
use serde_json::{Value, json};

use crate::{churn::Random, stage::Stage};

/// Between two changes: a hundred in a second.
const PACE: Duration = Duration::from_millis(10);

/// The Secret and the sink of a bucket.
fn sink(stage: &Stage, name: &str, server: &S3, bucket: &Bucket, extra: &Value) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "keys", "namespace": stage.namespace},
        "stringData": {"accessKeyID": ACCESS_KEY, "secretAccessKey": server.secret_key()},
    });
    stage.plane.cluster().apply(&secret.to_string())?;
    let mut spec = json!({
        "type": "s3", "secretRef": {"name": "keys"},
        "endpoint": format!("http://127.0.0.1:{}/{}", server.port(), bucket.name),
    });
    if let (Some(spec), Some(extra)) = (spec.as_object_mut(), extra.as_object()) {
        spec.extend(extra.clone());
    }
    stage.apply("KollectSnapshotSink", name, &spec)
}

/// Names and numbers in a document; nothing while there is none.
fn numbers(document: Option<Vec<u8>>) -> Result<BTreeMap<String, String>> {
    let document: Value = serde_json::from_slice(&document.context("there is no document")?)?;
    let items = document["items"].as_array().context("items")?;
    let entry = |item: &Value| {
        let name = item["name"].as_str()?.to_owned();
        Some((name, item["attributes"]["number"].to_string()))
    };
    Ok(items.iter().filter_map(entry).collect())
}

fn git(repository: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(repository)
        .args(arguments)
        .output()?;
    ensure!(output.status.success(), "git {arguments:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn churn_is_gathered() -> Result<()> {
    let seconds = std::env::var("KOLLECT_CHURN_SECONDS").ok();
    let seconds: u64 = seconds.map_or(Ok(15), |text| text.parse())?;
    // The intervals of a long run are those that people would choose.
    let (documents, commits) = if seconds >= 120 { (30, 5) } else { (5, 2) };
    let mut stage = Stage::new()?;
    let server = S3::start()?;
    let bucket = server.create_bucket("churn")?;
    let directory = tempfile::tempdir()?;
    let repository = directory.path().join("churn.git");
    let made = Command::new("git")
        .args(["init", "--quiet", "--bare", "--initial-branch=main"])
        .arg(&repository)
        .status()?;
    ensure!(made.success());
    sink(
        &stage,
        "bucket",
        &server,
        &bucket,
        &json!({"cluster": "east"}),
    )?;
    let layout = json!({
        "type": "git", "cluster": "east", "layout": {"mode": "document"}, "git": {},
        "serialization": {"format": "json"},
        "endpoint": format!("file://{}", repository.display()),
    });
    stage.apply("KollectSnapshotSink", "repository", &layout)?;
    let inventory = json!({
        "exportMinInterval": "0s",
        "snapshotSinkRefs": [
            {"name": "bucket", "changeInterval": format!("{documents}s")},
            {"name": "repository", "changeInterval": format!("{commits}s")},
        ],
    });
    stage.apply("KollectInventory", "inv", &inventory)?;
    for number in 0..60 {
        stage.put(&format!("m-{number}"), 0)?;
    }
    let work = format!("--work-dir={}", directory.path().join("mirrors").display());
    stage.start_with(&["--allow-local-repositories", &work])?;
    let key = format!("inventory/{}/inv.json", stage.namespace);
    stage.eventually("a first document and commit", || {
        numbers(bucket.read(&key)?)?;
        git(&repository, &["rev-parse", "main"]).map(|_| ())
    })?;

    let first_commits: u64 = git(&repository, &["rev-list", "--count", "main"])?
        .trim()
        .parse()?;
    let mut marks = BTreeSet::new();
    let mark = |marks: &mut BTreeSet<String>| -> Result<()> {
        let objects = bucket.objects()?;
        marks.extend(objects.get(&key).map(|entry| entry.mark.clone()));
        Ok(())
    };
    mark(&mut marks)?;
    let begun = Instant::now();
    let mut random = Random(11);
    let mut changes: u32 = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        // Never the same number twice, so that every change is one.
        let name = format!("m-{}", random.next() % 60);
        stage.put(&name, u64::from(changes) + 1)?;
        changes += 1;
        if changes.is_multiple_of(20) {
            mark(&mut marks)?;
        }
        thread::sleep((PACE * changes).saturating_sub(begun.elapsed()));
    }
    let took = begun.elapsed().as_secs();
    // What is under way at both ends may come on top.
    let most = |interval: u64| took / interval + 2;
    let made: u64 = git(&repository, &["rev-list", "--count", "main"])?
        .trim()
        .parse()?;
    let made = made - first_commits;
    let written = marks.len() as u64 - 1;
    println!(
        "{changes} changes in {took} s: {written} documents (every {documents} s), {made} commits (every {commits} s)"
    );
    assert!(
        written <= most(documents),
        "{written} documents in {took} s"
    );
    assert!(made <= most(commits), "{made} commits in {took} s");
    assert!(
        written > 0 && made > 0,
        "{written} documents, {made} commits"
    );

    // The last state arrives.
    let expected = stage.listed()?;
    let patience = Duration::from_secs(documents);
    thread::sleep(patience);
    stage.eventually("the last state", || {
        let found = numbers(bucket.read(&key)?)?;
        ensure!(found == expected, "the document is behind");
        let committed = git(&repository, &["show", &format!("main:{key}")])?;
        let found = numbers(Some(committed.into_bytes()))?;
        ensure!(found == expected, "the commit is behind");
        Ok(())
    })
}

/// Two operators of two clusters share a bucket: each has its own set, and takes only that away.
#[test]
fn two_clusters_share_a_bucket() -> Result<()> {
    let server = S3::start()?;
    let bucket = server.create_bucket("shared")?;
    let mut stages: Vec<(Stage, String)> = Vec::new();
    for (cluster, number) in [("east", 1), ("west", 2)] {
        let namespace = stages.first().map(|(stage, _)| stage.namespace.clone());
        let mut stage = Stage::with_namespace(namespace.as_deref())?;
        let lake = json!({"cluster": cluster, "objectStore": {"partitioning": "current"}});
        sink(&stage, "lake", &server, &bucket, &lake)?;
        let plain = json!({"cluster": cluster, "pathTemplate": "all/{namespace}/{name}.json"});
        sink(&stage, "plain", &server, &bucket, &plain)?;
        stage.put("m", number)?;
        let inventory = json!({
            "exportMinInterval": "0s", "snapshotSinkRefs": [{"name": "lake"}, {"name": "plain"}],
        });
        stage.apply("KollectInventory", "inv", &inventory)?;
        stage.start()?;
        let set = format!(
            "inventory/cluster_name={cluster}/inventory={}.inv/",
            stage.namespace
        );
        stage.eventually("a set", || {
            let part = bucket.read(&format!("{set}part-0001.json"))?;
            ensure!(numbers(part)?.get("m") == Some(&number.to_string()));
            bucket
                .read(&format!("{set}latest.json"))?
                .context("no manifest")
        })?;
        stages.push((stage, set));
    }
    // Both wanted the same plain document: it is the first one's, and stays as it was.
    let (west, west_set) = stages.pop().context("two stages")?;
    let (east, east_set) = stages.pop().context("two stages")?;
    let key = format!("all/{}/inv.json", east.namespace);
    let plain = || numbers(bucket.read(&key)?);
    assert_eq!(plain()?.get("m"), Some(&"1".to_owned()));
    west.eventually("the second one is told", || {
        let status = west.status()?.to_string();
        ensure!(status.contains("belongs to another"), "{status}");
        Ok(())
    })?;

    let of = |set: &str| -> Result<BTreeMap<String, String>> {
        let objects = bucket.objects()?.into_iter();
        let own = objects.filter(|(key, _)| key.starts_with(set));
        Ok(own.map(|(key, entry)| (key, entry.mark)).collect())
    };
    let (eastern, everything) = (of(&east_set)?, of("")?);
    west.delete("kollectinventories", "inv")?;
    west.expect_gone("kollectinventories", "inv")?;
    west.eventually("the set of the west goes", || {
        ensure!(of(&west_set)?.is_empty());
        Ok(())
    })?;
    assert_eq!(of(&east_set)?, eastern);
    assert_eq!(plain()?.get("m"), Some(&"1".to_owned()));
    let gone: Vec<String> = everything
        .into_keys()
        .filter(|key| !bucket.objects().is_ok_and(|now| now.contains_key(key)))
        .collect();
    let western = |key: &String| key.starts_with(&west_set) || key.starts_with(".kollect/");
    assert!(gone.iter().all(western), "{gone:?}");
    // And the first one goes on.
    east.put("m", 3)?;
    east.eventually("a change in the east", || {
        let part = bucket.read(&format!("{east_set}part-0001.json"))?;
        ensure!(numbers(part)?.get("m") == Some(&"3".to_owned()));
        Ok(())
    })
}
