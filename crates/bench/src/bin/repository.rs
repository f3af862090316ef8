//! One inventory in one Git repository, a file per row: what the first export costs, and what one
//! changed row costs after it. The yardstick is git itself with a checked-out clone.

use std::{
    collections::BTreeMap,
    env,
    process::{ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kollect_api::{
    InventoryId,
    address::AddressPolicy,
    sink::{KollectSnapshotSinkSpec, SinkSpec},
};
use kollect_bench::{
    bar, process,
    rows::{Maker, NAMESPACES, median, name},
};
use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{
    Delivery, DeliveryRows, DocumentOptions, Sink, backend::Environment, credentials, dial::Dialer,
    git::GitSink, secret::SecretData,
};
use kollect_testkit::git::{GitServer, Repository, USER};
use serde_json::json;

/// How many single rows are changed, one after the other.
const CHANGES: usize = 15;

fn main() -> Result<ExitCode> {
    let rows: usize = env::args()
        .nth(1)
        .map_or(Ok(100_000), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure(rows))
}

async fn measure(count: usize) -> Result<ExitCode> {
    let server = GitServer::start()?;
    let repository = server.create_repo("bench")?;
    let work = tempfile::tempdir()?;
    let sink = sink(&server, &repository, &work)?;
    let mut maker = Maker::default();
    let mut rows = Snapshot::new((0..count).map(|number| maker.row(number, 0)));
    let before = process::usage(std::process::id())?;

    let started = Instant::now();
    let receipt = sink
        .deliver(&delivery(DeliveryRows::All(rows.clone())))
        .await?;
    let first = started.elapsed();
    let used = process::usage(std::process::id())?;
    let stored = objects(&repository)?;
    println!(
        "first export of {count} rows: {first:.2?}, {stored} objects, {:.1} MB of files, peak memory \
         +{:.1} MiB (the test server holds the push in memory, too)",
        megabytes(receipt.bytes),
        used.peak - before.resident,
    );
    ensure!(receipt.written == count as u64, "{receipt:?}");

    let started = Instant::now();
    let again = sink
        .deliver(&delivery(DeliveryRows::All(rows.clone())))
        .await?;
    println!("the same rows again: {:.2?}, no commit", started.elapsed());
    ensure!(again.note.is_none(), "an unchanged inventory made a commit");

    let mut times = Vec::new();
    let mut written = 0;
    for change in 0..CHANGES {
        let number = (change * 7_919) % count;
        let after = maker.row(number, change + 1);
        let old = rows.get(after.identity()).cloned();
        let mut delta = Delta::new();
        delta.record(old, Some(after));
        rows = rows.apply(&delta);
        let counted = objects(&repository)?;
        let started = Instant::now();
        sink.deliver(&delivery(DeliveryRows::Changes(Arc::new(delta))))
            .await?;
        times.push(started.elapsed());
        written = written.max(objects(&repository)? - counted);
    }
    let ours = median(times);
    let theirs = median(yardstick(&server, &repository, count)?);
    println!("one changed row: {ours:.2?}, {written} objects; git with a clone: {theirs:.2?}");
    repository.git(&["fsck", "--strict", "--no-dangling"])?;
    Ok(bar::report(&[
        bar::Bar {
            name: "one changed row, with a server on loopback",
            figure: ours.as_secs_f64(),
            most: 1.0,
            unit: "s",
        },
        bar::Bar {
            name: "one changed row against git with a clone",
            figure: ours.as_secs_f64() / theirs.as_secs_f64(),
            most: 1.0,
            unit: "x",
        },
        bar::Bar {
            // The file, the directories of kind, namespace, cluster and the root, the commit.
            name: "objects of one changed row",
            figure: f64::from(u32::try_from(written)?),
            most: 6.0,
            unit: "",
        },
    ]))
}

fn sink(server: &GitServer, repository: &Repository, work: &tempfile::TempDir) -> Result<GitSink> {
    let spec: KollectSnapshotSinkSpec = serde_json::from_value(json!({
        "type": "git",
        "endpoint": repository.https_url(),
        "cluster": "bench",
        "secretRef": { "name": "git" },
        "tls": { "caBundle": STANDARD.encode(server.ca_pem()) },
        "layout": { "mode": "perResource" },
    }))?;
    let spec = SinkSpec::Snapshot(spec);
    let secret = BTreeMap::from([
        ("username".to_owned(), USER.as_bytes().to_vec()),
        ("password".to_owned(), server.password().as_bytes().to_vec()),
    ]);
    let secret = SecretData::from(secret);
    let materials = credentials::materials(&spec, "bench", |_| Some(secret.clone()))?;
    let environment = Environment {
        dialer: Dialer::new(AddressPolicy {
            allowed_networks: vec!["127.0.0.0/8".parse()?],
            ..AddressPolicy::default()
        }),
        work_dir: work.path().join("mirrors"),
        local_repositories: false,
        census: std::sync::Arc::default(),
        local_files: false,
        workload: None,
    };
    Ok(GitSink::new(
        "bench",
        "bench",
        &spec,
        &materials,
        &environment,
    )?)
}

/// The same change by git: edit a file of a clone, commit, push.
fn yardstick(server: &GitServer, repository: &Repository, count: usize) -> Result<Vec<Duration>> {
    let clone = tempfile::tempdir()?;
    let git = |args: &[&str]| -> Result<()> {
        let status = server
            .git_command()
            .current_dir(clone.path())
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "git {args:?} failed");
        Ok(())
    };
    let url = repository.https_url_as(USER, server.password());
    git(&["clone", "--quiet", "--depth=1", "--branch=main", &url, "."])?;
    let mut times = Vec::new();
    for change in 0..5 {
        let number = (change * 104_729) % count;
        let path = format!(
            "bench/ns-{:03}/deployment/{}.yaml",
            number % NAMESPACES,
            name(number)
        );
        std::fs::write(clone.path().join(&path), format!("changed: {change}\n"))
            .with_context(|| path.clone())?;
        let started = Instant::now();
        git(&["commit", "--quiet", "--all", "--message=change"])?;
        git(&["push", "--quiet", "origin", "HEAD:main"])?;
        times.push(started.elapsed());
    }
    Ok(times)
}

fn megabytes(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let bytes = bytes as f64;
    bytes / 1e6
}

fn objects(repository: &Repository) -> Result<usize> {
    let all = repository.git(&[
        "cat-file",
        "--batch-all-objects",
        "--batch-check=%(objectname)",
    ])?;
    Ok(all.lines().count())
}

fn delivery(rows: DeliveryRows) -> Delivery {
    Delivery {
        inventory: InventoryId::namespaced("bench", "deployments"),
        generation: 1,
        at: Timestamp::now(),
        rows,
        documents: DocumentOptions::default(),
    }
}
